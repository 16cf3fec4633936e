"""The contract of a method: the checks that every method of the zoo passes.

With pytest, in a package of your own::

    from crowdppl import testing

    def test_mine():
        testing.check_method("mine")

``testing.check("mine", "gold")`` runs one check alone; all together share their fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypedDict, Unpack

from crowdppl.errors import MethodError
from crowdppl.inference.engines import ENGINES
from crowdppl.primitives.model import Examples, Model
from crowdppl.registry import resolve
from crowdppl.testing import fits, models
from crowdppl.testing.fixtures import Renamed, Trial, on_a_scale
from crowdppl.testing.sbc import RankCheck as RankCheck
from crowdppl.testing.sbc import rank_check as rank_check

_CLASSES: dict[str, Callable[[Trial], None]] = {
    "answers": models.answers_sum_to_one,
    "soft labels": models.soft_labels_are_mixtures,
    "named sites": models.named_sites_are_tables,
    "probabilities": fits.probabilities,
    "gold": fits.gold,
    "unused abstention": fits.unused_abstention,
    "history": fits.history,
}
_NUMBERS: dict[str, Callable[[Trial], None]] = {
    "integral": models.densities_integrate_to_one,
    "numbers": fits.numbers,
}
_RANKS = {"orders": models.orders_sum_to_one, "numbers": fits.numbers}
_SCALE = {"answers": models.answers_sum_to_one, "numbers": fits.numbers}
_CHECKS: dict[str, Callable[[Trial], None]] = {
    "card": models.card_and_shapes,
    "validation": models.runs_with_validation,
    "simulation": models.simulates,
    "density": models.density_is_pyros,
    "chains": models.chains_are_runs,
    "features": fits.network_sees_features,
    "settings": models.settings_round_trip,
    "plain svi": models.plain_svi,
    "plain nuts": models.plain_nuts,
    **{f"engine {engine}": fits.engine_cell(engine) for engine in ENGINES},
    "intervals": fits.intervals_of_annotators,
    "odd data": fits.odd_data,
    "same seed": fits.same_seed,
    "renaming": fits.renaming,
    "objective": fits.objective_climbs,
    "saving": fits.saving,
}
NAMES = (*_CHECKS, *_CLASSES, *_NUMBERS, "orders")
"""Names of all checks; some are for labels that are classes, numbers or ranks alone."""


class About(TypedDict, total=False):
    """What the checks need to know of some models.

    Attributes:
        renamed: for a model whose settings name items, annotators or classes of the checks' data ("item 00" to
            "item 11", "annotator 0" to "annotator 4", "a" to "c"): (model, names) -> the model for renamed data,
            where ``names["annotator"]`` maps old ids to new ones, likewise "item" and "class".
        item_covariates, annotator_covariates, label_covariates: for a model that reads any, numbers by column,
            given to items, annotators or labels in turn, as in ``item_covariates={"words": [10, 200]}``; by default
            the ``examples`` of the model's card.
    """

    renamed: Renamed | None
    item_covariates: Examples
    annotator_covariates: Examples
    label_covariates: Examples


def checks(model: str | Model, **about: Unpack[About]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a method, each a name and a function that raises ``AssertionError`` on failure.

    Args:
        model: a name from ``crowdppl.zoo()``, or a model.
        about: see ``About``.

    Raises:
        MethodError: for an unknown name, an object that is not a model, or wrong covariates.
    """
    trial = Trial.of(resolve(model), **about)
    own = _SCALE if on_a_scale(trial.model) else _NUMBERS if trial.of_numbers else _CLASSES
    own = _RANKS if trial.of_ranks else own
    for name, run in (_CHECKS | own).items():
        yield name, partial(run, trial)


def check(model: str | Model, name: str, **about: Unpack[About]) -> None:
    """Runs one check of ``NAMES`` for labels of the model's kind; model and about are as for ``checks``.

    AssertionError when the method does not pass; MethodError for an unknown method or check, or wrong covariates.
    """
    found = dict(checks(model, **about))
    if name not in found:
        raise MethodError(f"unknown check {name!r}; there are {', '.join(found)}")
    found[name]()


def check_method(model: str | Model, **about: Unpack[About]) -> None:
    """Runs every check; model and about are as for ``checks``.

    AssertionError with a line for each check that failed; MethodError for what is no model, or wrong covariates.
    """
    failed: list[str] = []
    first: Exception | None = None
    every = dict(checks(model, **about))
    for name, run in every.items():
        try:
            run()
        except Exception as error:  # a broken model may raise anything
            failed.append(f"{name}: {type(error).__name__}: {error}")
            first = first or error
    if failed:
        raise AssertionError(f"{len(failed)} of {len(every)} checks failed\n" + "\n".join(failed)) from first
