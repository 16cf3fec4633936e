"""All cases, each a function from nothing to numbers by name, and which of them are quick."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.golden import answers, fits, kinds
from tests.golden.crowds import CROWDS
from tests.golden.numbers import Numbers

QUICK = {("crowd", "em"), ("features", "em")}
COMMON = ("crowd", "bayesian_dawid_skene")
"""By every engine, in the fast tests too."""
ENGINES = ("em", "vb", "laplace")
"""Samplers and svi, whose paths part at any rounding, are tested by facts; so are networks."""
LONG = ("glad", "hierarchical_dawid_skene", "hierarchical_mixed_membership", "item_difficulty", "minimax_entropy")


@dataclass(frozen=True)
class Case:
    """What is computed anew.

    Attributes:
        name: method, engine, data set and seed, or what is asked.
        file: where its numbers are kept.
        run: what computes them.
        quick: whether every run of the tests does.
        loose: whether another machine may differ by more than rounding: steps along gradients add it up.
    """

    name: str
    file: str
    run: Callable[[], Numbers]
    quick: bool = False
    loose: bool = False


def cases() -> list[Case]:
    """All of them, those of a data set side by side."""
    return [*_fits(), *_special(), *_answers(), *_kinds()]


def _fits() -> list[Case]:
    return [
        Case(
            f"{method}-{engine}-{data}-seed{seed}",
            data,
            partial(fits.fit, method, data, engine, seed),
            quick=seed == 0 and ((data, method) == COMMON or ((data, engine) in QUICK and method not in LONG)),
            loose=engine == "laplace" or data == "features",
        )
        for data in CROWDS
        for method, settings in fits.methods().items()
        for engine in ENGINES
        for seed in (0, 1)
        if not fits.learns(settings, data)
    ]


def _kinds() -> list[Case]:
    return [
        Case(
            f"kinds-{kind}-{method}-{engine}",
            "kinds",
            partial(kinds.fit, kind, method, engine),
            quick=engine == "em",
            loose=engine == "laplace",
        )
        for kind in kinds.KINDS
        for method in kinds.methods(kind)
        for engine in ENGINES
        if method != "reward_model"  # a network
    ]


def _special() -> list[Case]:
    return [
        Case(
            f"{method}[{name}]-{engine}-{data}-seed0", "settings", partial(fits.special, name, data, 0), loose=True
        )
        for name, (method, engine, settings) in fits.SPECIAL.items()
        for data in ("crowd", "features")
        if not fits.learns(settings, data)
    ]


def _answers() -> list[Case]:
    asked: dict[str, tuple[Any, ...]] = {
        "evaluate": (answers.evaluation,),
        "compare": (answers.comparison,),
        "heldout-one_coin-em": (answers.heldout, "one_coin", "em"),
        "heldout-bayesian_dawid_skene-vb": (answers.heldout, "bayesian_dawid_skene", "vb"),
        "auto": (answers.automatic, False),
        "auto-gold": (answers.automatic, True),
        "calibrate": (answers.calibrated,),
        "update": (answers.updated,),
        "leave_one_out-vb": (answers.left_out,),
        "save-vb": (answers.saved,),
        "criticism": (answers.criticism,),
        "agreement": (answers.agreement,),
        "decisions": (answers.decisions,),
        "fill": (answers.filled,),
        **{f"simulate-{method}": (answers.simulated, method) for method in ("ebcc", "glad", "mace", "community")},
        "simulate_annotators": (answers.annotators,),
        "arviz-vb": (answers.exported,),
        "options": (answers.kept,),
    }
    slow = ("auto", "auto-gold", "criticism")
    return [
        Case(name, "answers", partial(*what), quick=name not in slow, loose=True) for name, what in asked.items()
    ]
