"""What the table of few-shot tasks compares, and where its tasks come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import crowdppl
from crowdppl.few_shot.meta_training import meta_train
from crowdppl.few_shot.tasks import EpisodeSampler, Tasks
from crowdppl.few_shot.unrolled_em import em_steps
from crowdppl.networks.embedding import Embedding, embedding_for
from crowdppl.registry import method

WAYS = 4
WIDTHS = (128, 64)
DIGIT_STEPS, LABELME_STEPS, RATE = 100, 20, 3e-4
"""Steps of meta-training, and their first rate; by classes held out among those to learn from, more do harm."""
LONGER, LONGEST = 1.5, 2.5
"""A step without EM is cheaper: so many times as many take about as long as with three steps of EM, or six."""
PUBLISHED: dict[str, Any] = {"coins": False, "likelihood_power": 1.0, "steps": 3}
"""Confusion matrices and labels of full weight; the defaults were found best of some powers and numbers of steps on
classes held out as above, digits alone."""
LOOKS = 6
"""Steps of EM, and refinements, with query items among the items; by classes held out as above, better than 3."""
SPLITS = 3
SHOTS = (1, 3, 5)
TURNS = 4
"""Digits turned by right angles are classes of their own, to be learned from."""
DS_STEPS = 20
QUERIES = 10
"""Query items of each class."""

LABELS = ("majority vote", "Dawid-Skene", "one coin")
LIKE = {
    "as published": "prototypes",
    "one coin an annotator": "prototypes",
    "meta_em": "prototypes",
    "as published, query items in the fit": "refined",
    "one coin, query items in the fit": "refined",
    "meta_em, query items in the fit": "refined",
}
"""For each meta_em, the prototypes that know as much of the query items."""

Predictor = Callable[[Tasks], Tensor]


@dataclass(frozen=True)
class Entrant:
    """A meta-trained classifier of query items.

    Attributes:
        log_probs: log-probabilities (T, Q, K) of the query items of tasks.
        seconds: of meta-training.
    """

    log_probs: Predictor
    seconds: float


def entrants(train: EpisodeSampler, steps: int, seed: int) -> dict[str, Entrant]:
    """All that are compared, trained from the same first weights on the same tasks."""
    longer = round(LONGER * steps)
    switches: dict[str, dict[str, Any]] = {
        "as published": {},
        "no gradient through EM": {"through": False},
        "no pseudo-annotators": {"pseudo_annotators": False},
    }
    trained = {name: _meta_em(train, steps, seed, how, **PUBLISHED) for name, how in switches.items()}
    trained["one coin an annotator"] = _meta_em(train, steps, seed, {}, **{**PUBLISHED, "coins": True})
    trained["meta_em"] = _meta_em(train, steps, seed, {})
    found = {name: _by_em(*each) for name, each in trained.items()}
    found["as published, query items in the fit"] = _by_em(*trained["as published"], queries=True)
    found["one coin, query items in the fit"] = _by_em(*trained["one coin an annotator"], queries=True)
    found["meta_em, query items in the fit"] = _by_em(*trained["meta_em"], queries=True)
    clean = _prototypes(train, "clean", longer, seed)
    for labels, iterations in (("majority vote", longer), ("Dawid-Skene", steps), ("one coin", steps)):
        for name, times in (("prototypes", 0), ("refined", LOOKS)):
            network, seconds = _prototypes(train, labels, iterations, seed, times)
            found[f"{name}, {labels}"] = Entrant(_by_prototypes(network, labels, times), seconds)
        found[f"clean training, {labels}"] = Entrant(_by_prototypes(clean[0], labels), clean[1])
    network, seconds = _prototypes(train, "majority vote", round(LONGEST * steps), seed)
    found["longer training, majority vote"] = Entrant(_by_prototypes(network, "majority vote"), seconds)
    for name, times in (("prototypes", 0), ("refined", LOOKS)):
        found[f"{name}, known classes"] = Entrant(_by_prototypes(clean[0], "clean", times), clean[1])
    first = embedding_for(None, train.table, WIDTHS, seed)
    untrained: Any = method("meta_em", **PUBLISHED)
    found["not trained: as published"] = _by_em(replace(untrained, embedding=first), 0.0)
    for labels in LABELS:
        found[f"not trained: {labels}"] = Entrant(_by_prototypes(first, labels), 0.0)
    return found


def _meta_em(
    train: EpisodeSampler, iterations: int, seed: int, how: dict[str, Any], **settings: Any
) -> tuple[Any, float]:
    began = time.perf_counter()
    model: Any = method("meta_em", widths=WIDTHS, **settings)
    fitted = model.meta_fit(train, iterations=iterations, learning_rate=RATE, seed=seed, **how)
    return fitted, time.perf_counter() - began


def _by_em(fitted: Any, seconds: float, queries: bool = False) -> Entrant:
    """The steps of EM; with the query items among the items, as ``fit`` takes them, or by where the clouds are."""
    rows = crowdppl.primitives.diagonal_prior(WAYS, fitted.prior_strength, fitted.prior_accuracy, fitted.coins)

    def log_probs(tasks: Tasks) -> Tensor:
        support, query = fitted.embedding.places(tasks.support), fitted.embedding.places(tasks.query)
        prior, n = rows.expand(tasks.n_annotators, -1, -1), support.shape[1]
        placed = torch.cat([support, query], 1) if queries else support
        item = tasks.item // n * placed.shape[1] + tasks.item % n
        steps = LOOKS if queries else fitted.steps
        found = fitted.em(placed, item, tasks.annotator, tasks.label, prior, steps=steps)
        log_p: Tensor = found.shares[:, n:].log() if queries else found.log_shares(query)
        return log_p

    return Entrant(log_probs, seconds)


def _prototypes(
    train: EpisodeSampler, labels: str, iterations: int, seed: int, refinements: int = 0
) -> tuple[Embedding, float]:
    """A prototypical network, meta-trained on the labels that some rule makes of the annotators' own."""
    began = time.perf_counter()
    network = embedding_for(None, train.table, WIDTHS, seed)

    def loss(network: Embedding, tasks: Tasks) -> Tensor:
        log_p = _by_prototypes(network, labels, refinements)(tasks).flatten(0, 1)
        cost = nn.functional.nll_loss(log_p, tasks.asked.flatten(), reduction="none")
        there = cost < 1e6  # a class that got no label has no prototype
        return torch.where(there, cost, 0.0).sum() / there.sum()

    how = {"batch": 16, "learning_rate": RATE, "seed": seed}
    meta_train(network, train, loss, iterations=iterations, **how)
    return network, time.perf_counter() - began


def _by_prototypes(network: Embedding, labels: str, refinements: int = 0) -> Predictor:
    def log_probs(tasks: Tasks) -> Tensor:
        support, query = network.places(tasks.support), network.places(tasks.query)
        return near_prototypes(RULES[labels](tasks), support, query, refinements)

    return log_probs


def near_prototypes(weight: Tensor, support: Tensor, query: Tensor, refinements: int = 0) -> Tensor:
    """Log-probabilities (T, Q, K) of query items by their distances from the means of classes.

    A refinement takes the means anew, with each query item counted among the items of a class as much as it is
    probably one of them: soft k-means, as Ren et al. (2018), "Meta-learning for semi-supervised few-shot
    classification", arXiv 1803.00676, have it.

    Args:
        weight: (T, N, K), one-hot; a class of no item has no mean, and no query item.
        support, query: places (T, N, M) and (T, Q, M).
        refinements: how many.
    """
    there = weight.sum(-2, keepdim=True) > 0
    counted, placed = weight, support
    for left in reversed(range(refinements + 1)):
        mean = counted.mT @ placed / counted.sum(-2).clamp(min=1).unsqueeze(-1)
        near = query @ mean.mT - 0.5 * mean.square().sum(-1).unsqueeze(-2)
        log_p = near.masked_fill(~there, -1e9).log_softmax(-1)
        if left:
            counted, placed = torch.cat([weight, log_p.exp()], 1), torch.cat([support, query], 1)
    return log_p


def known_classes(tasks: Tasks) -> Tensor:
    """The classes of the support items, one-hot (T, N, K)."""
    return nn.functional.one_hot(tasks.truth, WAYS).float()


def majority_votes(tasks: Tasks) -> Tensor:
    """The class with most votes, ties at random, one-hot (T, N, K)."""
    t, n = tasks.truth.shape
    votes = torch.zeros(t * n, WAYS).index_put((tasks.item, tasks.label), torch.ones(()), accumulate=True)
    chance = torch.rand(votes.shape, generator=torch.Generator().manual_seed(len(tasks.label)))
    return nn.functional.one_hot((votes + 0.5 * chance).argmax(-1), WAYS).float().reshape(t, n, WAYS)


def dawid_skene_labels(tasks: Tasks, coins: bool = False) -> Tensor:
    """The most probable class by Dawid-Skene, or by coins, under the prior of ``meta_em``, one-hot (T, N, K)."""
    model: Any = method("meta_em")
    rows = crowdppl.primitives.diagonal_prior(WAYS, model.prior_strength, model.prior_accuracy, coins).expand(
        tasks.n_annotators, -1, -1
    )
    nowhere = torch.zeros(*tasks.truth.shape, 0)
    labels = (tasks.item, tasks.annotator, tasks.label)
    found = em_steps(nowhere, *labels, rows, steps=DS_STEPS, prevalence=model.prevalence_strength, tied=coins)
    return nn.functional.one_hot(found.shares.argmax(-1), WAYS).float()


RULES = {
    "clean": known_classes,
    "majority vote": majority_votes,
    "Dawid-Skene": dawid_skene_labels,
    "one coin": partial(dawid_skene_labels, coins=True),
}


def digit_splits() -> list[tuple[EpisodeSampler, EpisodeSampler]]:
    """Five digits to learn from, each in four positions, and tasks of the five others, for each split."""
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    turned = np.concatenate([np.rot90(images.reshape(-1, 8, 8), turn, (1, 2)) for turn in range(TURNS)])
    names = np.concatenate([digit + 10 * turn for turn in range(TURNS)])
    index = pd.Index([f"{turn}-{n}" for turn in range(TURNS) for n in range(len(digit))])
    truth, table = pd.Series(names, index), pd.DataFrame(turned.reshape(len(names), -1), index=index)
    found = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(10)
        classes = [int(c) + 10 * turn for c in order[:5] for turn in range(TURNS)]
        train = EpisodeSampler(truth, table, classes=classes, ways=WAYS, shots=SHOTS)
        found.append((train, replace(train, classes=[int(c) for c in order[5:]], apart_from=train)))
    return found


@dataclass(frozen=True)
class LabelMe:
    """Features of all items, their classes, and the labels that a crowd gave to some."""

    features: np.ndarray
    truth: np.ndarray
    rows: pd.DataFrame

    @staticmethod
    def read(folder: Path) -> LabelMe:
        """The set of Rodrigues & Pereira (2018), 8 classes."""
        features = np.load(folder / "labelme" / "features.npz")["X"]
        truth = pd.read_csv(folder / "labelme" / "truth.csv").set_index("item")["label"].sort_index().to_numpy()
        return LabelMe(features, truth, pd.read_csv(folder / "labelme" / "answers.csv").drop_duplicates())

    def split(self, number: int) -> tuple[EpisodeSampler, list[int]]:
        """Four classes to learn from, with annotators who each label some items, and the four others."""
        order = np.random.default_rng(number).permutation(8).tolist()
        table = pd.DataFrame(self.features)
        kinds = {"expert": 0.5, "hammer": 0.4, "spammer": 0.1}
        how = {"ways": WAYS, "shots": SHOTS, "annotators": 8, "labels_per_item": 3, "kinds": kinds}
        return EpisodeSampler(pd.Series(self.truth), table, classes=order[:4], **how), order[4:]

    def tasks(self, classes: list[int], shots: int, number: int, seed: int) -> Tasks:
        """Tasks of these classes: items with labels of the crowd among them, and query items without any."""
        rng = np.random.default_rng((seed, shots))
        rows = self.rows[self.rows["label"].isin(classes)]
        labelled = {c: np.intersect1d(rows["item"], np.flatnonzero(self.truth == c)) for c in classes}
        silent = {c: np.setdiff1d(np.flatnonzero(self.truth == c), self.rows["item"]) for c in classes}
        support, query = (
            np.array([np.concatenate([rng.permutation(part[c])[:n] for c in classes]) for _ in range(number)])
            for part, n in ((labelled, shots), (silent, QUERIES))
        )
        n_annotators, code = int(self.rows["annotator"].max()) + 1, {c: k for k, c in enumerate(classes)}
        item, annotator, label = [], [], []
        for t, items in enumerate(support):
            place = {int(i): t * len(items) + n for n, i in enumerate(items)}
            mine = rows[rows["item"].isin(place)]
            item += [place[i] for i in mine["item"]]
            annotator += [t * n_annotators + a for a in mine["annotator"]]
            label += [code[c] for c in mine["label"]]
        truth, asked = (torch.arange(WAYS).repeat_interleave(n).expand(number, -1) for n in (shots, QUERIES))
        table = torch.from_numpy(self.features)
        return Tasks(
            table[support],
            table[query],
            truth,
            asked,
            torch.tensor(item),
            torch.tensor(annotator),
            torch.tensor(label),
            n_annotators,
            pd.Index(classes),
            np.tile(np.arange(WAYS), (number, 1)),
            pd.RangeIndex(len(self.truth)),
            np.concatenate([support, query], 1),
        )
