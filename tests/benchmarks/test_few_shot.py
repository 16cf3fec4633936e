"""Few-shot tasks with annotators who err: meta_em beside prototypical networks, and without its parts."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from crowdppl.few_shot.tasks import EpisodeSampler, Tasks
from tests.benchmarks.few_shot import (
    DIGIT_STEPS,
    LABELME_STEPS,
    LABELS,
    LIKE,
    LOOKS,
    SHOTS,
    SPLITS,
    Entrant,
    LabelMe,
    digit_splits,
    entrants,
)
from tests.benchmarks.results import Recorder
from tests.benchmarks.tables import markdown

TITLE = "Few-shot tasks"
ANNOTATORS = (3, 5, 7)
SPAMMERS = (0.1, 0.2, 0.3, 0.4)
EXPERTS = 0.1
TASKS = 100
"""Tasks a split and cell."""
LABELME_TASKS = 200
AIM = 3
"""Points by which meta_em is to be ahead of prototypes, on average."""
Hits = dict[str, dict[str, np.ndarray]]
"""By cell and by entrant, the accuracy and the log score of each task, (2, splits, tasks)."""


def test_few_shot_tasks(recorder: Recorder, real_data: Path) -> None:
    parts, seconds = [], dict[str, list[float]]()
    found: Hits = {}
    sets = {"digits": found}
    for split, (train, test) in enumerate(digit_splits()):
        some = entrants(train, DIGIT_STEPS, seed=split)
        keep(seconds, some)
        for name, tasks in digit_cells(test, split):
            score(found, name, some, tasks)
    parts.append(f"Digits:\n\n{table(found)}")
    crowd, found = LabelMe.read(real_data), {}
    sets["LabelMe"] = found
    for split in range(SPLITS):
        train, classes = crowd.split(split)
        some = entrants(train, LABELME_STEPS, seed=split)
        for shots in SHOTS:
            tasks = crowd.tasks(classes, shots, LABELME_TASKS, split)
            score(found, f"{shots} shot", some, tasks)
    parts.append(f"LabelMe:\n\n{table(found)}")
    parts.insert(0, leads(sets))
    took = ", ".join(f"{name} {np.mean(x):.1f} s" for name, x in seconds.items())
    parts.append(f"Meta-training on digits, one core: {took}.")
    recorder.add(TITLE, "\n\n".join([EXPLAINED, *parts]))


EXPLAINED = (
    f"Accuracy on query items in per cent, mean and standard error over {SPLITS} splits of the classes with "
    f"{TASKS} tasks each ({LABELME_TASKS} on LabelMe), 4 classes a task, 10 query items a class. Digits: five "
    "digits to learn from, each in four positions as classes of their own, and tasks of the five others; every "
    "annotator labels every item; a tenth are experts (right in 95 %), the others hammers (75 %, even errors) "
    "or spammers. LabelMe: four classes to learn from and four to test on, with the 2 to 3 labels an item that "
    f"59 real annotators gave within these four. Meta-training: {DIGIT_STEPS} steps of 16 tasks on digits, "
    f"{LABELME_STEPS} on LabelMe; all networks have the same layers, first weights, tasks and rate, and "
    "prototypes get more steps, to take as long. Prototypes are means of the embeddings of items with the label "
    "that majority vote, Dawid-Skene or one coin gives, in meta-training too, unless it says clean training "
    "(known classes there) or known classes (in tasks too). Query items in the fit: with the query "
    f"items among the items, {LOOKS} steps of EM. Refined: prototypes with {LOOKS} refinements by soft k-means "
    "(Ren et al. 2018) on query items. As published: meta_em with confusion matrices, "
    "labels of full weight and three steps; one coin: with coins, too; meta_em: its defaults, coins, half weight "
    "and six steps. Settings were chosen on classes held out among those to learn from. ahead: lead of "
    "the first column, with the standard error over splits. Log score: lower is better."
)
LEADS = (
    "How far meta_em is ahead, in points, of prototypes that know as much: on the labelled items alone of those "
    "who see these alone, and with query items of those that are refined by them. Trained on the same tasks from "
    "the same weights; mean and standard error over splits; average: the mean of both data sets."
)


def keep(seconds: dict[str, list[float]], some: dict[str, Entrant]) -> None:
    for name, entrant in some.items():
        seconds.setdefault(name, []).append(entrant.seconds)


def digit_cells(test: EpisodeSampler, split: int) -> list[tuple[str, Tasks]]:
    """The tasks of every cell, drawn from the classes that nobody has learned from."""
    found = []
    for shots in SHOTS:
        for annotators in ANNOTATORS:
            for share in SPAMMERS:
                kinds = {"expert": EXPERTS, "hammer": 1 - EXPERTS - share, "spammer": share}
                cell = replace(test, shots=shots, annotators=annotators, kinds=kinds)
                name = f"{shots} shot, {annotators} annotators, {share:.0%} spammers"
                found.append((name, cell.draw(TASKS, (split, shots, annotators, round(100 * share)))))
    return found


def score(found: Hits, cell: str, some: dict[str, Entrant], tasks: Tasks) -> None:
    """Adds a row of accuracies and of log scores to each entrant's in a cell."""
    for name, entrant in some.items():
        with torch.no_grad():
            log_p = entrant.log_probs(tasks).double()
        right = (log_p.argmax(-1) == tasks.asked).double().mean(-1)
        cost = -log_p.gather(-1, tasks.asked.unsqueeze(-1)).squeeze(-1).clamp(min=math.log(1e-12)).mean(-1)
        new = torch.stack([right, cost])[:, None].numpy()
        before = found.setdefault(cell, {}).get(name)
        found[cell][name] = new if before is None else np.concatenate([before, new], 1)


def table(found: Hits) -> str:
    """All cells, their average, and how far the first entrant is ahead of each."""
    names = list(next(iter(found.values())))
    rows = []
    for cell, hits in found.items():
        rows.append(
            [cell, *(f"{100 * x.mean():.1f} ± {100 * x.std(ddof=1) / x.size**0.5:.1f}" for x, _ in hits.values())]
        )
    mean = averages(found)
    rows.append(["average", *(f"{mean[name].mean():.1f}" for name in names)])
    rows.append(["ahead", "", *(in_points(with_error(mean[names[0]] - mean[name])) for name in names[1:])])
    scores = {name: np.mean([hits[name][1].mean() for hits in found.values()]) for name in names}
    rows.append(["log score", *(f"{scores[name]:.2f}" for name in names)])
    return markdown(("tasks", *names), rows)


def averages(found: Hits) -> dict[str, np.ndarray]:
    """By entrant, the accuracy over cells and tasks of each split, in per cent (splits,)."""
    names = next(iter(found.values()))
    return {name: 100 * np.mean([hits[name][0].mean(1) for hits in found.values()], axis=0) for name in names}


def leads(sets: dict[str, Hits]) -> str:
    """How far meta_em is ahead of prototypes that know as much, by data set and on average, and where by enough."""
    means = [averages(found) for found in sets.values()]
    rows, reached = [], {name: list[str]() for name in (*sets, "average")}
    for (variant, prototypes), labels in product(LIKE.items(), LABELS):
        rival = f"{prototypes}, {labels}"
        ahead = [with_error(mean[variant] - mean[rival]) for mean in means]
        middle, error = np.array(ahead).T
        ahead.append((middle.mean(), np.linalg.norm(error) / len(error)))
        rows.append([variant, rival, *map(in_points, ahead)])
        for some, (x, _) in zip(reached.values(), ahead, strict=True):
            some += [f"{variant} over {rival}"] * bool(x >= AIM)
    verdict = [
        f"{name} {len(some)} of {len(rows)}{' (' * bool(some)}{'; '.join(some)}{')' * bool(some)}"
        for name, some in reached.items()
    ]
    header = ("", "ahead of", *reached)
    return f"{LEADS}\n\n{markdown(header, rows)}\n\nAhead by {AIM} points or more: {', '.join(verdict)}."


def with_error(x: np.ndarray) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1) / x.size**0.5)


def in_points(lead: tuple[float, float]) -> str:
    return "{:+.1f} ± {:.1f}".format(*lead)
