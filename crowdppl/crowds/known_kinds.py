"""The kinds of simulated annotators by name, and crowds of several kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.crowds.annotator_groups import Colluders, CopyingGroup
from crowdppl.crowds.annotator_kinds import ClassWiseSpammer, Expert, Hammer, HammerSpammer, Spammer
from crowdppl.crowds.confusers import Adversary, Malicious, NeighbourConfuser, PairwiseFlipper, SimilarClassConfuser
from crowdppl.crowds.machine_annotators import Machine
from crowdppl.doors.counts import is_number, is_whole, seed_number, whole_number
from crowdppl.errors import MethodError

KINDS: tuple[Any, ...] = (
    Expert,
    Hammer,
    HammerSpammer,
    Spammer,
    ClassWiseSpammer,
    PairwiseFlipper,
    SimilarClassConfuser,
    NeighbourConfuser,
    Adversary,
    Malicious,
    CopyingGroup,
    Colluders,
    Machine,
)
BY_NAME = {kind.name: kind for kind in KINDS}


def annotator_kind(name: str, **settings: Any) -> Any:
    """A kind of simulated annotator by its name, such as ``annotator_kind("hammer_spammer", p=0.4)``.

    Args:
        name: as in ``annotator_kind_table()``.
        settings: of the kind; the table lists them with their defaults.

    Returns:
        A small frozen object. Most have ``confusion(classes, rng)``; groups and machines are simulated only.

    Raises:
        MethodError: for an unknown kind or setting, or a value that is out of range.

    Examples:
        >>> crowdppl.annotator_kind("hammer_spammer", p=0.4)
        HammerSpammer(p=0.4)
    """
    if not isinstance(name, str) or name not in BY_NAME:
        near = get_close_matches(str(name), BY_NAME, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise MethodError(f"there is no kind of annotator {name!r}{hint}; there are {', '.join(BY_NAME)}")
    kind = BY_NAME[name]
    known = [field.name for field in fields(kind)]
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise MethodError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return kind(**settings)


def annotator_kind_table() -> pd.DataFrame:
    """All kinds of simulated annotators, one a row.

    Returns:
        DataFrame by name: what such an annotator does; settings, with their defaults.

    Examples:
        >>> crowdppl.annotator_kind_table().loc["hammer_spammer", "settings"]
        'p=0.6'
    """
    rows = [
        {"kind": name, "what": " ".join((kind.__doc__ or "").split("\n\n")[0].split()), "settings": spelled(kind())}
        for name, kind in BY_NAME.items()
    ]
    return pd.DataFrame(rows).set_index("kind")


def draw_kinds(shares: Mapping[Any, float], n_annotators: int, seed: int = 0) -> list[Any]:
    """Draws the kind of each annotator of a crowd, as in ``{"expert": 0.1, "hammer": 0.7, "spammer": 0.2}``.

    That mix is the one of Kumagai et al. (2025), "Meta-learning representations for learning from multiple
    annotators"; how accurate their experts and hammers are is not taken from there.

    Args:
        shares: probability of each kind, by name or kind; they sum to one.
        n_annotators: how many to draw.
        seed: of the draws.

    Returns:
        Kinds, for ``simulate_annotators``.

    Raises:
        MethodError: for an unknown kind, shares that are no probabilities, or a number or seed that is none.

    Examples:
        >>> crowdppl.draw_kinds({"expert": 0.1, "hammer": 0.7, "spammer": 0.2}, 4, seed=0)
        [Hammer(p=0.75), Hammer(p=0.75), Expert(p=0.95), Expert(p=0.95)]
    """
    kinds, p = kinds_and_shares(shares)
    n_annotators = whole_number("n_annotators", n_annotators, 1)
    chosen = np.random.default_rng(seed_number(seed)).choice(len(kinds), size=n_annotators, p=p)
    return [kinds[number] for number in chosen]


def kinds_and_shares(shares: Mapping[Any, float]) -> tuple[list[Any], np.ndarray]:
    """Kinds of annotators, and the probability of each.

    Raises:
        MethodError: for an unknown kind, or shares that are no probabilities.
    """
    if not isinstance(shares, Mapping):
        raise MethodError(f'shares of kinds are {shares!r}; give a mapping, as in {{"expert": 1.0}}')
    given = list(shares.values())
    if not given or not all(is_number(share) and share >= 0 for share in given) or abs(sum(given) - 1) > 1e-6:
        raise MethodError(f"shares of kinds are {given}; give probabilities that sum to one")
    p = np.array(given, np.float64)
    return [as_kind(kind) for kind in shares], p / p.sum()


def as_kinds(kinds: Sequence[Any] | Mapping[Any, int]) -> list[Any]:
    """Kinds one by one, from a list, or a mapping from kind to number; names become kinds with default settings.

    Raises:
        MethodError: when something is no kind, a number is no whole number, or there are none.
    """
    if isinstance(kinds, str | type) or not isinstance(kinds, Sequence | Mapping):
        raise MethodError(f"kinds={kinds!r}: give a list of kinds, or a mapping from kind to number of annotators")
    if isinstance(kinds, Mapping):
        for kind, number in kinds.items():
            if not is_whole(number) or number < 0:
                raise MethodError(f"kinds: {number!r} annotators of {kind!r}; give a whole number")
        kinds = [kind for kind, number in kinds.items() for _ in range(int(number))]
    if not len(kinds):
        raise MethodError("kinds are empty; there must be at least one annotator")
    return [as_kind(kind) for kind in kinds]


def as_kind(kind: Any) -> Any:
    """A kind, of a kind or its name.

    Raises:
        MethodError: for what is neither.
    """
    if isinstance(kind, str):
        return annotator_kind(kind)
    able = any(callable(getattr(kind, method, None)) for method in ("confusion", "opinions"))
    if isinstance(kind, type) or not able or not isinstance(getattr(kind, "name", None), str):
        raise MethodError(
            f"{kind!r} is no kind of annotator; give a name ({', '.join(BY_NAME)}), annotator_kind(name, ...), or "
            "an object of your own with a name and confusion(classes, rng)"
        )
    return kind


def spelled(kind: Any) -> str:
    """Settings of a kind as text."""
    text = repr(kind)
    return text[text.find("(") + 1 : -1] if text.endswith(")") else ""
