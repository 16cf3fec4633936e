"""What a model offers, found without inheritance: card, plates, settings and methods; shapes of coins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from crowdppl.data.kinds import KINDS
from crowdppl.errors import MethodError
from crowdppl.primitives import coin_table
from crowdppl.primitives.model import Card, HasGuide, HasInit, HasSetup, Model, card_of, plates_of, settings_of

CARD = Card(
    "Bayesian Dawid-Skene",
    "Dawid and Skene, 1979",
    "10.2307/2346806",
    sites={"prevalence": "K", "confusion": "A K L", "memberships": "A C", "truth": "N"},
)


@dataclass
class Full:
    size: int = 2
    kind: str = "learned"
    card: ClassVar[Card] = Card("Full", "nobody")
    plates: ClassVar[int] = 2

    def model(self, data: Any) -> None: ...

    def guide(self, data: Any) -> None: ...

    def init(self, data: Any) -> dict[str, Any]:
        return {}

    def setup(self, data: Any) -> Full:
        return self


class Bare:
    card: Any
    plates: Any

    def model(self, data: Any) -> None: ...


def test_a_card_has_a_name_and_a_link() -> None:
    assert (CARD.name, CARD.link) == ("bayesian_dawid_skene", "https://doi.org/10.2307/2346806")
    assert (Card("GLAD", "x").name, Card("GLAD", "x").link) == ("glad", "")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"title": " ", "reference": "x"}, "title"),
        ({"title": "x", "reference": ""}, "reference"),
        ({"title": "x", "reference": "y", "sites": {"z": "N"}}, "'truth'"),
        ({"title": "x", "reference": "y", "doi": "https://doi.org/10.1/2"}, "DOI"),
    ],
)
def test_an_incomplete_card_is_refused(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(MethodError, match=name):
        Card(**arguments)


def test_offers_are_found_by_their_methods() -> None:
    assert all(isinstance(Full(), offer) for offer in (Model, HasGuide, HasInit, HasSetup))
    assert isinstance(Bare(), Model)
    assert not any(isinstance(Bare(), offer) for offer in (HasGuide, HasInit, HasSetup))
    assert not isinstance(object(), Model)


def test_card_and_plates_have_defaults_and_are_checked() -> None:
    assert card_of(Full()) is Full.card is card_of(Full)
    assert card_of(Bare()) is None
    assert (plates_of(Full()), plates_of(Bare())) == (2, 1)
    model = Bare()
    for depth in (0, 1.5, True, "2"):
        model.plates = depth
        with pytest.raises(MethodError, match="plates of Bare"):
            plates_of(model)
    model.card = "GLAD"
    with pytest.raises(MethodError, match="card of Bare is 'GLAD'"):
        card_of(model)


def test_settings_build_the_model_again() -> None:
    assert settings_of(Full(kind="uniform")) == {"size": 2, "kind": "uniform"}
    assert Full(**settings_of(Full(size=7))) == Full(size=7)
    assert settings_of(Bare()) == {}

    class Forgetful(Bare):
        def __init__(self, cap: int = 3, *args: int, **others: int) -> None:
            pass

    with pytest.raises(MethodError, match="'cap'"):
        settings_of(Forgetful())


@pytest.mark.parametrize("shape", [(4, 2), (4, 2, 2), (4, 3), (2,), (4, 1, 3)])
def test_coins_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """Four annotators and three classes: torch would broadcast some of these over other dimensions."""
    with pytest.raises(MethodError, match="log_coin"):
        coin_table(torch.zeros(shape), 3)
    assert coin_table(torch.zeros(4, 1, 2), 3).shape == coin_table(torch.zeros(4, 3, 2), 3).shape == (4, 3, 3)


def test_a_card_takes_its_own_kind_and_any_classes_where_it_is_for_classes() -> None:
    taken = {kind: [*filter(Card("A", "b", kind=kind).takes, (*KINDS, "mine"))] for kind in (*KINDS, "mine")}
    classes = [name for name, kind in KINDS.items() if not kind.numeric]
    assert taken.pop("nominal") == taken.pop("ordinal") == classes
    assert taken == {kind: [kind] for kind in taken}
    assert [*filter(Card("A", "b", kind="ordinal", scale=True).takes, KINDS)] == ["ordinal"]
