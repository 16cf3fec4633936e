"""Cards: names, shapes and links."""

from __future__ import annotations

import pytest

from crowdppl.errors import MethodError
from crowdppl.primitives.model import Card

CARD = Card(
    "Bayesian Dawid-Skene",
    "Dawid and Skene, 1979",
    "10.2307/2346806",
    sites={"prevalence": "K", "confusion": "A K L", "memberships": "A C", "truth": "N"},
)


def test_name_is_the_title_in_lower_case() -> None:
    assert CARD.name == "bayesian_dawid_skene"
    assert Card("GLAD", "x").name == "glad"


def test_shape_gives_sizes_and_leaves_the_methods_own_open() -> None:
    sizes = {"N": 45, "A": 5, "K": 4, "L": 6}
    assert CARD.shape("confusion", sizes) == (5, 4, 6)
    assert CARD.shape("memberships", sizes) == (5, None)
    with pytest.raises(MethodError, match="no site 'difficulty'.*prevalence, confusion"):
        CARD.shape("difficulty", sizes)


def test_link_is_that_of_the_doi() -> None:
    assert CARD.link == "https://doi.org/10.2307/2346806"
    assert Card("GLAD", "x").link == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"title": " ", "reference": "x"}, "needs a title"),
        ({"title": "x", "reference": ""}, "needs a title and a reference"),
        ({"title": "x", "reference": "y", "sites": {"z": "N"}}, "'truth' as its truth.*only the sites z"),
        ({"title": "x", "reference": "y", "doi": "https://doi.org/10.1/2"}, "write it bare"),
    ],
)
def test_refuses_what_is_incomplete(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(MethodError, match=message):
        Card(**arguments)
