"""What a story offers, found out without asking it to inherit anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from crowdppl.errors import MethodError
from crowdppl.primitives.likelihood import coin_table
from crowdppl.primitives.model import Card, HasGuide, HasInit, HasSetup, Model, card_of, plates_of, settings_of


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
    def model(self, data: Any) -> None: ...


def test_offers_are_found_by_their_methods() -> None:
    assert all(isinstance(Full(), offer) for offer in (Model, HasGuide, HasInit, HasSetup))
    assert isinstance(Bare(), Model)
    assert not any(isinstance(Bare(), offer) for offer in (HasGuide, HasInit, HasSetup))
    assert not isinstance(object(), Model)


def test_card_and_plates_have_defaults() -> None:
    assert card_of(Full()) is Full.card is card_of(Full)
    assert card_of(Bare()) is None
    assert (plates_of(Full()), plates_of(Bare())) == (2, 1)


@pytest.mark.parametrize("depth", [0, 1.5, True, "2"])
def test_plates_are_a_whole_number(depth: Any) -> None:
    story = Bare()
    story.plates = depth  # type: ignore[attr-defined]
    with pytest.raises(MethodError, match=r"plates of Bare is .*whole number"):
        plates_of(story)


def test_a_card_is_a_card() -> None:
    story = Bare()
    story.card = "GLAD"  # type: ignore[attr-defined]
    with pytest.raises(MethodError, match="card of Bare is 'GLAD'"):
        card_of(story)


def test_settings_build_the_story_again() -> None:
    assert settings_of(Full(kind="uniform")) == {"size": 2, "kind": "uniform"}
    assert Full(**settings_of(Full(size=7))) == Full(size=7)
    assert settings_of(Bare()) == {}


def test_a_setting_that_is_not_kept_is_named() -> None:
    class Forgetful(Bare):
        def __init__(self, cap: int = 3, *args: int, **others: int) -> None:
            pass

    with pytest.raises(MethodError, match="Forgetful takes the setting 'cap' but does not keep it"):
        settings_of(Forgetful())


@pytest.mark.parametrize("shape", [(4, 2), (4, 2, 2), (4, 3), (2,), (4, 1, 3)])
def test_coins_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    """Four annotators and three classes: torch would spread some of these over others' dimensions."""
    with pytest.raises(MethodError, match=r"not \(..., A, 1, 2\) or \(..., A, 3, 2\)"):
        coin_table(torch.zeros(shape), 3)
    assert coin_table(torch.zeros(4, 1, 2), 3).shape == coin_table(torch.zeros(4, 3, 2), 3).shape == (4, 3, 3)
