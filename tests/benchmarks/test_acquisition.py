"""Which label to ask for next, replayed on recorded labels; and how often label sets hold the truth."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.evaluation.evaluate import evaluate
from crowdppl.fitting import fit
from crowdppl.inference.predict.answers import AnswerTables, mean_field_tables
from crowdppl.posterior import Posterior
from crowdppl.results.acquisition import information
from crowdppl.results.choices import entropy
from crowdppl.results.decisions import label_sets
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown
from tests.benchmarks.test_accuracy import NINE, SETS, read

METHOD = "bayesian_dawid_skene"
REPLAYED = ("dogs", "web", "rte")
SEEDS = 5
BATCH = 0.5
"""Labels of a batch, a label an item at most, as a share of the items."""
BUDGETS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Labels an item at which accuracies are listed."""
LOOKED_AT = (2.0, 3.0, 4.0, 5.0)
"""Labels an item by chance, whose accuracy others reach with fewer."""
EPSILON, DRAWS = 0.1, 20
COVERAGES = (0.8, 0.9, 0.95)
SPLITS = 20
GOLD = 50
"""Gold items of the conformal sets; a third of the items where there are fewer than 150."""

REPLAY, SETS_TITLE = "Which label to ask for next", "Coverage of label sets"

WON = (
    "From 2.5 labels an item on, information is best, or within a standard error of the best, on each set; "
    "labels at random among those of most information change nothing. At 1.5 to 2, where annotators are hardly "
    "known, one draw of the tables (Thompson) is ahead on dogs and rte, and far behind on web. With two labels "
    "an item none reaches .75 of random's labels. Tried for that, and not kept: what a label tells of truth and "
    "tables together (rte, three seeds: 85.7 for 86.8 at two labels an item). In larger batches, of a label an "
    "item each, up to three labels may go to one item: with gains updated for the labels already chosen, "
    "accuracy on dogs is 81.1 at three labels an item, with gains added up 79.4, with one label an item and "
    "batch 79.8, and at five labels 82.7, 83.1 and 82.3 (three seeds, standard errors about 1)."
)

# From a fit and the rows (item, annotator codes) that may be asked for, how much each of them is wanted.
Policy = Callable[[Posterior, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def test_which_label_to_ask_for_next(recorder: Recorder, real_data: Path) -> None:
    found = {}
    for name in REPLAYED:
        data, gold = read(real_data, name)
        curves = {policy: [replay(data, gold, policy, seed) for seed in range(SEEDS)] for policy in POLICIES}
        found[f"{SETS[name]}, {data.n_labels / data.n_items:.1f} labels an item in all"] = curves
    recorder.add(REPLAY, reported(found))


def reported(found: dict[str, dict[str, list[list[float]]]]) -> str:
    """The section, from curves by set and policy."""
    parts = [f"{name}:\n\n{curve_table(curves)}" for name, curves in found.items()]
    needed = [[name.split(",")[0], *(f"{x:.2f}" for x in share_needed(curves))] for name, curves in found.items()]
    text = (
        "One recorded label an item to start with, drawn at random; then batches of half as many labels as "
        "there are items, one label an item at most, chosen among the recorded labels that were not asked for "
        f"yet; `{METHOD}` by vb is fitted anew after each batch. random: any of them; entropy: the items whose "
        "truth is least certain, and any of their labels; information: the largest expected information gain, "
        "item and annotator, as `suggest_labels` has it; epsilon: the same, and any labels for "
        f"{EPSILON:.0%} of a batch; Thompson: the same under one draw of all tables. Accuracy in per cent, mean of "
        f"{SEEDS} seeds and, after the ±, the standard error of the mean difference from random.\n\n"
    )
    header = ("set", *(f"as random with {budget:g}" for budget in LOOKED_AT))
    fewer = (
        "\n\nLabels that information needs for the accuracy of random, as a share of random's labels; between "
        "budgets by straight lines:\n\n"
    )
    return text + "\n\n".join(parts) + fewer + f"{markdown(header, needed)}\n\n{WON}"


def test_coverage_of_label_sets(recorder: Recorder, real_data: Path) -> None:
    rows, means = [], []
    for name in NINE:
        data, gold = read(real_data, name)
        measured = coverage_of(fitted(data, seed=0), gold)
        means.append(measured)
        rows.append([SETS[name], *(cell(pair) for pair in measured)])
    rows.append(["mean", *(cell(pair) for pair in np.mean(means, axis=0))])
    header = ("set", *(f"{method} {asked}" for method in ("credible", "conformal") for asked in COVERAGES))
    text = (
        "Share of items whose set holds the truth, in per cent, and classes in a set. Credible sets: all items "
        f"with a known truth. Conformal sets: {GOLD} gold items (a third of those known where there are fewer than "
        f"150), which the fit does not see, scored on the others; mean of {SPLITS} random splits. `{METHOD}` by "
        "vb.\n\n"
    )
    recorder.add(SETS_TITLE, text + markdown(header, rows))


def fitted(data: Annotations, seed: int) -> Posterior:
    return fit(METHOD, data, inference="vb", seed=seed)


def by_chance(
    posterior: Posterior, item: np.ndarray, annotator: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    return stream.random(len(item))


def by_entropy(
    posterior: Posterior, item: np.ndarray, annotator: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    return np.round(entropy(posterior.result.probabilities), 9)[item]


def by_information(
    posterior: Posterior, item: np.ndarray, annotator: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    tables = AnswerTables(posterior, np.arange(posterior.data.n_annotators))
    every = np.arange(posterior.data.n_items)
    gain = information(posterior.result.probabilities, tables.at(every))
    return np.round(gain, 9)[item, annotator]


def by_chance_at_times(
    posterior: Posterior, item: np.ndarray, annotator: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    gain = by_information(posterior, item, annotator, stream)
    explored = stream.random(posterior.data.n_items) < EPSILON * BATCH
    return np.where(explored[item], gain.max() + 1 + stream.random(len(item)), gain)


def by_a_draw(
    posterior: Posterior, item: np.ndarray, annotator: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    tables = np.asarray(mean_field_tables(posterior, DRAWS))[stream.integers(DRAWS)]
    gain = information(posterior.result.probabilities, tables.swapaxes(0, 1)[None])
    return np.round(gain, 9)[item, annotator]


POLICIES: dict[str, Policy] = {
    "random": by_chance,
    "entropy": by_entropy,
    "information": by_information,
    "epsilon": by_chance_at_times,
    "Thompson": by_a_draw,
}


def share_needed(curves: dict[str, list[list[float]]]) -> list[float]:
    """Labels that information needs for the accuracy of random at some budgets, by those of random."""
    random, other = (np.mean(curves[policy], axis=0) for policy in ("random", "information"))
    targets = [random[BUDGETS.index(budget)] for budget in LOOKED_AT]
    reached = np.interp(targets, np.maximum.accumulate(other), BUDGETS)
    return [float(x / budget) for x, budget in zip(reached, LOOKED_AT, strict=True)]


def replay(data: Annotations, gold: pd.Series, policy: str, seed: int) -> list[float]:
    rows, stream = data.frame(), np.random.default_rng(seed)
    item, annotator = data.items.get_indexer(rows["item"]), data.annotators.get_indexer(rows["annotator"])
    have = np.zeros(len(rows), bool)
    have[first_of_each(item, stream.random(len(rows)))] = True
    found, batch = [], round(BATCH * data.n_items)
    for spent in np.arange(1, max(BUDGETS) + BATCH / 2, BATCH):
        posterior = fitted(some_of(rows[have], data), seed)
        if spent in BUDGETS:
            found.append(evaluate(posterior, gold).accuracy)
        assert posterior.data.items.equals(data.items), "codes of items are those of all labels"
        left = np.flatnonzero(~have)
        wanted = POLICIES[policy](posterior, item[left], annotator[left], stream)
        order = np.lexsort((stream.random(len(left)), -wanted))  # equally wanted ones in random order
        rank = np.empty(len(left))
        rank[order] = np.arange(len(left))
        best = first_of_each(item[left], rank)
        have[left[best[np.argsort(rank[best])][:batch]]] = True
    return found


def some_of(rows: pd.DataFrame, data: Annotations) -> Annotations:
    return Annotations.from_frame(rows, "item", "annotator", "label", like=data)


def first_of_each(item: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """For each item that occurs, the place of its entry of lowest rank."""
    order = np.lexsort((rank, item))
    return order[np.flatnonzero(np.diff(item[order], prepend=-1))]


def curve_table(curves: dict[str, list[list[float]]]) -> str:
    """Policies x budgets, the best of each budget in bold."""
    means = {policy: np.mean(runs, axis=0) for policy, runs in curves.items()}
    top = np.max(list(means.values()), axis=0)
    rows = []
    for policy, mean in means.items():
        apart = 100 * (np.array(curves[policy]) - np.array(curves["random"]))
        error = apart.std(0, ddof=1) / np.sqrt(len(apart))
        cells = []
        for value, best, width in zip(100 * mean, 100 * top, error, strict=True):
            number = f"**{value:.1f}**" if value >= best else f"{value:.1f}"
            cells.append(number if policy == "random" or width == 0 else f"{number} ± {width:.1f}")
        rows.append([policy, *cells])
    return markdown(("labels an item", *(f"{budget:g}" for budget in BUDGETS)), rows)


def coverage_of(posterior: Posterior, gold: pd.Series) -> list[tuple[float, float]]:
    """Coverage and mean size: credible sets, then conformal ones, at each coverage asked for."""
    found = []
    for asked in COVERAGES:
        found.append(held_and_size(label_sets(posterior, asked), gold))
    n_gold = GOLD if len(gold) >= 3 * GOLD else len(gold) // 3
    for asked in COVERAGES:
        runs = []
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(gold))
            known, rest = gold.iloc[order[:n_gold]], gold.iloc[order[n_gold:]]
            sets = label_sets(posterior, asked, gold=known, method="conformal", seed=seed)
            runs.append(held_and_size(sets, rest))
        share, size = np.mean(runs, axis=0)
        found.append((float(share), float(size)))
    return found


def held_and_size(sets: pd.DataFrame, gold: pd.Series) -> tuple[float, float]:
    """Share of items whose set holds the truth, and the mean size of their sets."""
    mine = sets.loc[gold.index]
    share = np.mean([truth in some for truth, some in zip(gold, mine["set"], strict=True)])
    return float(share), float(mine["size"].mean())


def cell(pair: tuple[float, float] | np.ndarray) -> str:
    return f"{100 * pair[0]:.1f} ({pair[1]:.2f})"
