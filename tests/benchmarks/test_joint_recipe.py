"""The default recipe in the other methods of one truth an item: what labels left out, seeds and gold say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import crowdppl
from crowdppl.errors import MethodError
from crowdppl.evaluation.heldout import mean_difference
from tests.benchmarks import neural
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_choosing import scored

TITLE = "The default recipe in other joint methods"
SETS = {"labelme": "LabelMe", "music": "Music"}
VOLUME = 0.02
JOINT: Mapping[str, Any] = {"likelihood": "joint"}


@dataclass(frozen=True)
class Pair:
    """A method of one truth an item, plain and by the recipe.

    Attributes:
        method, engine: of both.
        settings: of both.
        off: settings by which the recipe takes the place of what the method has of its own.
    """

    method: str
    engine: str
    settings: Mapping[str, Any]
    off: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gain:
    """What the recipe changes on a set; of two figures, the first is plain.

    Attributes:
        items, labels: how far it is ahead on items and on labels left out, and the standard error of that.
        tests, truths, spreads: per cent.
        seconds: of a fit.
    """

    items: tuple[float, float]
    labels: tuple[float, float]
    tests: tuple[float, float]
    truths: tuple[float, float]
    spreads: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def cells(self) -> list[str]:
        leads = ["-" if np.isnan(x) else f"{x:+.3f} ± {error:.3f}" for x, error in (self.items, self.labels)]
        return leads + [f"{x:.1f}" for x in (*self.tests, *self.truths, *self.spreads, *self.seconds)]


PAIRS = {
    "raykar": Pair("raykar", "em", {}),
    "global_noise": Pair("global_noise", "em", {}),
    "ccem": Pair("ccem", "svi", JOINT),
    "trace_reg .01": Pair("trace_reg", "svi", JOINT),
    "geo_crowdnet F .01": Pair("geo_crowdnet", "svi", JOINT, {"weight": 0.0}),
    "instance_trace": Pair("instance_trace", "svi", JOINT),
    "coin_net, penalised": Pair("coin_net", "svi", {"form": "penalised"}, {"volume": 0.0}),
    "coin_net, generative": Pair("coin_net", "svi", {"form": "generative"}),
}
HEADER = (
    *("method", "items left out", "labels left out", "test, plain", "recipe", "truth, plain", "recipe"),
    *("spread, plain", "recipe", "seconds, plain", "recipe"),
)
ABOUT = (
    "Each method of one truth an item (`ccem` to `instance_trace` with `likelihood='joint'`), plain with 60 "
    "epochs and by the recipe (`crowdppl.default_recipe`; by em with `crowd_prior_strength=0`) with the volume "
    f"{VOLUME:g} in place of trials. Items left out: lead of the recipe in the mean log-probability of an item's "
    "labels, none of which the classifier has used (`classifier_score`, 3 folds), ± its standard error. Labels "
    "left out: the same for labels of one of two folds, by the method itself (`heldout_score`), where it has "
    f"such a score. Test, truth, spread: as in the two tables above, {neural.SEEDS} seeds."
)


def test_the_recipe_in_other_joint_methods(recorder: Recorder, real_data: Path) -> None:
    found = {}
    for name in SETS:
        data = read_featured(real_data, name)
        found[name] = {method: compared(data, pair) for method, pair in PAIRS.items()}
    recorder.add(TITLE, section(found))


def section(found: Mapping[str, Mapping[str, Gain]]) -> str:
    parts = [ABOUT]
    for name, gains in found.items():
        lines = [(method, *gain.cells) for method, gain in gains.items()]
        parts.append(f"{SETS[name]}:\n\n{markdown(HEADER, lines)}")
    return "\n\n".join(parts)


def rows(found: Featured, pair: Pair) -> tuple[neural.Row, neural.Row]:
    crowd_prior_strength: dict[str, Any] = {"crowd_prior_strength": 0.0} if pair.engine == "em" else {}
    recipe = crowdppl.default_recipe(found.data, training={"volume": VOLUME}, **crowd_prior_strength)
    both = {"plain": neural.LONGER, "recipe": {**recipe, **pair.off}}
    plain, default = (
        neural.Row(title, pair.method, pair.engine, {**pair.settings, **more}) for title, more in both.items()
    )
    return plain, default


def compared(found: Featured, pair: Pair) -> Gain:
    both = rows(found, pair)
    plain, recipe = (scored(found, row) for row in both)
    before, after = (labels_left_out(found, row) for row in both)
    (plain_scores, plain_took), (recipe_scores, recipe_took) = (neural.measured(found, row) for row in both)
    tests, truths = ((100 * plain_scores.mean(0)[at], 100 * recipe_scores.mean(0)[at]) for at in (0, 1))
    spreads = 100 * np.ptp(plain_scores[:, 0]), 100 * np.ptp(recipe_scores[:, 0])
    items, labels = ahead(recipe.items, plain.items), ahead(after, before)
    gain = Gain(items, labels, tests, truths, spreads, (plain_took, recipe_took))
    print(pair.method, *gain.cells, flush=True)
    return gain


def labels_left_out(found: Featured, row: neural.Row) -> pd.DataFrame:
    """Held-out scores of labels by item; nan for a method that has none under a power of the likelihood."""
    how: dict[str, Any] = {"inference": row.engine, "settings": row.settings}
    try:
        return crowdppl.heldout_score(row.method, found.data, folds=2, seed=0, **how).items
    except MethodError as error:
        print(row.method, error)
        return pd.DataFrame({"unit": 0, "log_p": np.nan}, index=found.train)


def ahead(one: pd.DataFrame, other: pd.DataFrame) -> tuple[float, float]:
    return mean_difference(
        one["log_p"].reindex(other.index).to_numpy(), other["log_p"].to_numpy(), other["unit"].to_numpy()
    )
