"""Which method with a network one would choose without gold, and how good that one is."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from crowdppl.evaluation.compare import compare_to_default
from crowdppl.evaluation.heldout import ClassifierScore, classifier_score
from tests.benchmarks import neural
from tests.benchmarks.featured import Featured, read_featured
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

TITLE = "Methods chosen by labels of items left out"
SETS = {"labelme": "LabelMe", "music": "Music"}
BARS = {"labelme": (87.0, 85.0), "music": (73.0, 82.5)}
"""Per cent on test items and on the labelled ones, for the method that is chosen."""
FOLDS, LEVEL = 3, 0.05
DEFAULT = "bayes_dgc, default recipe"


def test_methods_chosen_without_gold(recorder: Recorder, real_data: Path) -> None:
    rows = [row for row in neural.ROWS if row.engine and not row.told]
    sets = {name: read_featured(real_data, name) for name in SETS}
    scores = {name: {row.title: scored(found, row) for row in rows} for name, found in sets.items()}
    best = {name: max(found, key=lambda title: found[title].per_item) for name, found in scores.items()}
    right = {name: {title: share(sets[name], score) for title, score in scores[name].items()} for name in SETS}
    lines = []
    for row in rows:
        line = [row.title]
        for name, found in scores.items():
            line += [cell(found[row.title], found[best[name]]), f"{100 * right[name][row.title]:.1f}"]
        lines.append(line)
    text = (
        f"`crowdppl.classifier_score`, {FOLDS} folds, one seed: mean log-probability of all labels of an item "
        "whose labels the classifier was not shown, by one judge for all methods; in brackets how far it is behind "
        "the best, and the standard error of that; then how many of these items the classifiers that were scored "
        "get right, in %. Methods and settings as in the two tables above.\n\n"
    )
    header = ("method", *(title for name in SETS.values() for title in (name, "right")))
    told = "\n".join(
        f"- {SETS[name]}: {choices(sets[name], name, rows, best[name], kept(scores[name]))} "
        f"{order(scores[name], right[name])}"
        for name in SETS
    )
    recorder.add(TITLE, f"{text}{markdown(header, lines)}\n\n{told}")


def scored(found: Featured, row: neural.Row) -> ClassifierScore:
    how = {"inference": row.engine, "settings": row.settings}
    out = classifier_score(row.method, found.data, folds=FOLDS, seed=0, **how)
    print(row.title, out, f"{out.seconds:.0f} s", flush=True)
    return out


def share(found: Featured, score: ClassifierScore) -> float:
    """How many of the items that were left out a method's classifiers get right."""
    guess, truth = score.probabilities.idxmax(axis=1), found.truth[score.probabilities.index]
    return float((guess == truth).mean())


def order(scores: Mapping[str, ClassifierScore], right: Mapping[str, float]) -> str:
    """Whether methods that explain labels better are better classifiers."""
    rho = spearmanr([scores[title].per_item for title in scores], [right[title] for title in scores]).statistic
    return f"Scores and classifiers that are right have a rank correlation of {rho:.2f} over {len(scores)} methods."


def cell(score: ClassifierScore, best: ClassifierScore) -> str:
    if score is best:
        return f"{score.per_item:.3f}"
    behind, error = best.ahead_of(score)
    return f"{score.per_item:.3f} ({behind:.3f} ± {error:.3f})"


def kept(scores: Mapping[str, ClassifierScore]) -> str:
    """The default recipe, or the rival that is furthest ahead of it beyond chance."""
    ahead = compare_to_default(scores, DEFAULT, LEVEL).query("beyond_chance")
    return str(ahead.index[0]) if len(ahead) else DEFAULT


def choices(found: Featured, name: str, rows: list[neural.Row], best: str, careful: str) -> str:
    """How good the methods are that two rules choose."""
    shown = {title: chosen(found, name, rows, title) for title in dict.fromkeys((best, careful))}
    return (
        f"the highest score chooses {shown[best]}. `compare_to_default` keeps the default recipe unless "
        f"another row is ahead of it beyond chance (level {LEVEL}); it chooses {shown[careful]}."
    )


def chosen(found: Featured, name: str, rows: list[neural.Row], title: str) -> str:
    row = next(row for row in rows if row.title == title)
    test, truth = 100 * neural.measured(found, row)[0].mean(0)[:2]
    bars = BARS[name]
    met = "met" if bool(np.all(np.round([test, truth], 1) >= bars)) else "not met"
    return (
        f"{title}, {test:.1f} on test items and {truth:.1f} on the labelled ones, means of {neural.SEEDS} seeds "
        f"(bars {bars[0]} and {bars[1]}, {met})"
    )
