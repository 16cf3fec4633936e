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
LONG = ("glad", "hierarchical_dawid_skene", "hierarchical_mixed_membership", "item_difficulty", "minimax_entropy")


@dataclass(frozen=True)
class Case:
    """What is computed anew.

    Attributes:
        name: method, engine, data set and seed, or what is asked.
        file: where its numbers are kept.
        run: what computes them.
        quick: whether every run of the tests does.
        loose: whether another machine may differ by more than rounding: steps along gradients add it up, and
            networks learn in single precision.
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
            loose=engine in ("nuts", "laplace", "svi") or data == "features",
        )
        for data in CROWDS
        for method in fits.methods()
        for engine in fits.OPTIONS
        for seed in (0, 1)
    ]


def _kinds() -> list[Case]:
    return [
        Case(
            f"kinds-{kind}-{method}-{engine}",
            "kinds",
            partial(kinds.fit, kind, method, engine),
            quick=engine == "em",
            loose=engine in ("laplace", "svi") or method in kinds.SETTINGS,
        )
        for kind in kinds.KINDS
        for method in kinds.methods(kind)
        for engine in fits.OPTIONS
        if engine != "nuts"  # its few draws say nothing that the other engines do not
    ]


def _special() -> list[Case]:
    return [
        Case(
            f"{method}[{name}]-{engine}-{data}-seed0", "settings", partial(fits.special, name, data, 0), loose=True
        )
        for name, (method, engine, _) in fits.SPECIAL.items()
        for data in ("crowd", "features")
    ]


def _answers() -> list[Case]:
    asked: dict[str, tuple[Any, ...]] = {
        "evaluate": (answers.evaluation,),
        "compare": (answers.comparison,),
        "heldout-one_coin-em": (answers.heldout, "one_coin", "em"),
        "heldout-bayesian_dawid_skene-vb": (answers.heldout, "bayesian_dawid_skene", "vb"),
        "heldout-ebcc-gibbs": (answers.heldout, "ebcc", "gibbs"),
        "classifier": (answers.classifier,),
        "auto": (answers.automatic, False),
        "auto-gold": (answers.automatic, True),
        "calibrate": (answers.calibrated,),
        "update": (answers.updated,),
        **{f"leave_one_out-{engine}": (answers.left_out, engine) for engine in ("vb", "gibbs")},
        **{f"save-{engine}": (answers.saved, engine) for engine in ("vb", "gibbs", "nuts", "svi")},
        "criticism": (answers.criticism,),
        "agreement": (answers.agreement,),
        "decisions": (answers.decisions,),
        "fill": (answers.filled,),
        **{f"simulate-{method}": (answers.simulated, method) for method in ("ebcc", "glad", "mace", "community")},
        "simulate_annotators": (answers.annotators,),
        **{f"arviz-{engine}": (answers.exported, engine) for engine in ("vb", "gibbs", "nuts")},
        "few_shot": (answers.few_shot,),
        "seen": (answers.seen,),
        "recipe": (answers.recipe,),
        "ranks": (answers.ranks,),
        "options": (answers.kept,),
    }
    slow = ("auto", "auto-gold", "criticism", "ranks", "recipe", "save-nuts", "arviz-nuts", "heldout-ebcc-gibbs")
    return [
        Case(name, "answers", partial(*what), quick=name not in slow, loose=True) for name, what in asked.items()
    ]
