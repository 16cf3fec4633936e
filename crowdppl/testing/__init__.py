"""The contract of a method, for whoever writes one: the checks that every method of the zoo passes.

With pytest, in a package of your own::

    import pytest
    from crowdppl import testing

    @pytest.mark.parametrize("name", testing.NAMES)
    def test_mine(name):
        testing.check("mine", name)

or all of it at once: ``testing.check_method("mine")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypedDict, Unpack

from crowdppl.errors import MethodError
from crowdppl.inference.engines import ENGINES
from crowdppl.primitives.model import Model
from crowdppl.registry import resolve
from crowdppl.testing import features as contract_features
from crowdppl.testing import fits as contract_fit
from crowdppl.testing import models as contract_answers
from crowdppl.testing import models as contract_density
from crowdppl.testing import models as contract_story
from crowdppl.testing.fixtures import Columns, Renamed, Trial
from crowdppl.testing.sbc import RankCheck as RankCheck
from crowdppl.testing.sbc import rank_check as rank_check

_CHECKS: dict[str, Callable[[Trial], None]] = {
    "card": contract_story.card_and_shapes,
    "validation": contract_story.runs_with_validation,
    "simulation": contract_story.simulates,
    "density": contract_density.density_is_pyros,
    "answers": contract_answers.answers_sum_to_one,
    "chains": contract_density.chains_are_runs,
    "features": contract_features.sees_features,
    "settings": contract_story.settings_round_trip,
    "plain svi": contract_story.plain_svi,
    "plain nuts": contract_story.plain_nuts,
    **{f"engine {engine}": contract_fit.engine_cell(engine) for engine in ENGINES},
    "probabilities": contract_fit.probabilities,
    "gold": contract_fit.gold,
    "odd data": contract_fit.odd_data,
    "unused abstention": contract_fit.unused_abstention,
    "same seed": contract_fit.same_seed,
    "row order": contract_fit.row_order,
    "renaming": contract_fit.renaming,
    "objective": contract_fit.objective_climbs,
    "history": contract_fit.history,
    "saving": contract_fit.saving,
}
NAMES = tuple(_CHECKS)
"""Names of all checks."""


class About(TypedDict, total=False):
    """What a story needs to know of the contract's own data, or they of it.

    Attributes:
        renamed: for a story whose settings name items, annotators or classes of these data ("item 00" to "item
            11", "annotator 0" to "annotator 4", "a" to "c"): (story, names) -> the story for renamed data, where
            ``names["annotator"]`` maps old ids to new ones, and so for item and class.
        item_covariates, annotator_covariates: for a story that reads any, by column the numbers that items, or
            annotators, have in turn, as in ``item_covariates={"words": [10, 200]}``.
    """

    renamed: Renamed | None
    item_covariates: Columns
    annotator_covariates: Columns


def checks(model: str | Model, **about: Unpack[About]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a method, each a name and a function that raises ``AssertionError`` where it fails.

    Args:
        story: a name that ``crowdppl.zoo()`` lists, or a story.
        about: see ``About``.

    Raises:
        MethodError: for an unknown name, an object that is no story, or covariates without numbers.
    """
    trial = Trial(resolve(model), **about)
    for name, run in _CHECKS.items():
        yield name, partial(run, trial)


def check(model: str | Model, name: str, **about: Unpack[About]) -> None:
    """Runs one check.

    Args:
        story, about: as for ``checks``.
        name: one of ``NAMES``.

    Raises:
        AssertionError: when the method does not pass; the message says what was found.
        MethodError: for an unknown method or check, or covariates without numbers.
    """
    if name not in _CHECKS:
        raise MethodError(f"{name!r} is no check; there are {', '.join(NAMES)}")
    dict(checks(model, **about))[name]()


def check_method(model: str | Model, **about: Unpack[About]) -> None:
    """Runs every check, and says at the end which failed.

    Args:
        story, about: as for ``checks``.

    Raises:
        AssertionError: with a line for each check that failed.
        MethodError: for an unknown name, an object that is no story, or covariates without numbers.
    """
    failed: list[str] = []
    first: Exception | None = None
    for name, run in checks(model, **about):
        try:
            run()
        except Exception as error:  # a broken story may raise anything, and the other checks are still wanted
            failed.append(f"{name}: {type(error).__name__}: {error}")
            first = first or error
    if failed:
        raise AssertionError(f"{len(failed)} of {len(NAMES)} checks failed\n" + "\n".join(failed)) from first
