"""Maximum-likelihood Dawid-Skene from integer arrays to label probabilities, by crowdppl and by crowd-kit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.inference.problem import LARGE
from tests.benchmarks.simulated import Drawn

CHUNK = 1_000_000


@dataclass(frozen=True)
class Fitted:
    """What a fit ends with: (N, K) probabilities, (A, K, K) [annotator, truth, label], (K,), iterations."""

    probabilities: np.ndarray
    confusion: np.ndarray
    prevalence: np.ndarray
    iterations: int


def by_crowdppl(data: Drawn, iterations: int | None = None) -> Fitted:
    """crowdppl's `dawid_skene` by em; with a number of iterations, exactly so many."""
    from crowdppl.data.annotations import Annotations
    from crowdppl.fitting import fit

    annotations = Annotations.from_arrays(data.item, data.annotator, data.label)
    exactly = {} if iterations is None else {"max_iterations": iterations, "tolerance": 0.0}
    posterior = fit("dawid_skene", annotations, inference="em", **exactly)
    probabilities = posterior.probabilities().to_numpy()
    result = posterior.result
    return Fitted(probabilities, result.table, result.prevalence, result.diagnostics["iterations"])


def by_crowdkit(data: Drawn, iterations: int | None = None) -> Fitted:
    """crowd-kit's `DawidSkene`; with a number of iterations, exactly so many."""
    from crowdkit.aggregation import DawidSkene

    exactly = {} if iterations is None else {"n_iter": iterations, "tol": -np.inf}
    frame = pd.DataFrame({"task": data.item, "worker": data.annotator, "label": data.label})
    model = DawidSkene(**exactly).fit(frame)
    return _of_crowdkit(model)


def _of_crowdkit(model: Any) -> Fitted:
    probabilities, errors = model.probas_.sort_index(), model.errors_.sort_index()
    n_annotators = errors.index.get_level_values(0).max() + 1
    k = probabilities.shape[1]
    confusion = np.full((n_annotators, k, k), 1e-10)
    annotator, label = (errors.index.get_level_values(i).to_numpy() for i in (0, 1))
    confusion[annotator, :, label] = errors.sort_index(axis=1).to_numpy()
    prevalence = model.priors_.sort_index().to_numpy()
    return Fitted(probabilities.to_numpy(), confusion, prevalence, len(model.loss_history_))


def log_likelihood(data: Drawn, fitted: Fitted) -> float:
    """Log-probability of all labels at a fit's prevalence and confusions; the same code for every package."""
    n, k = len(data.truth), len(fitted.prevalence)
    log_confusion = np.log(np.maximum(fitted.confusion, 1e-300))
    joint = np.tile(np.log(np.maximum(fitted.prevalence, 1e-300)), (n, 1))
    for start in range(0, len(data.item), CHUNK):
        some = slice(start, start + CHUNK)
        terms = log_confusion[data.annotator[some], :, data.label[some]]
        for c in range(k):
            joint[:, c] += np.bincount(data.item[some], terms[:, c], minlength=n)
    top = joint.max(1)
    return float((top + np.log(np.exp(joint - top[:, None]).sum(1))).sum())


def iterations_to_reach(data: Drawn, target: float) -> int:
    """Iterations after which crowdppl's objective is at least ``target``, found in a run of its own."""
    from crowdppl.data.annotations import Annotations
    from crowdppl.fitting import fit

    annotations = Annotations.from_arrays(data.item, data.annotator, data.label)
    objectives = fit("dawid_skene", annotations, inference="em").result.diagnostics["objectives"]
    enough = [number for number, value in enumerate(objectives) if value >= target]
    return max(1, enough[0]) if enough else len(objectives)


def by_hand(data: Drawn, iterations: int) -> None:
    """Dawid-Skene as one writes it in torch: two sparse products, a logarithm and a softmax an iteration."""
    n, a, k = len(data.truth), int(data.annotator.max()) + 1, int(data.label.max()) + 1
    dtype = torch.float64 if len(data.item) < LARGE else torch.float32
    item, cell = torch.from_numpy(data.item), torch.from_numpy(data.annotator * k + data.label)
    sides, ones = torch.stack([item, cell]), torch.ones(len(item), dtype=dtype)
    of_items = torch.sparse_coo_tensor(sides, ones, (n, a * k)).coalesce()
    of_cells, of_items = of_items.t().coalesce().to_sparse_csr(), of_items.to_sparse_csr()
    votes = torch.zeros(n, k, dtype=dtype).index_put_((item, torch.from_numpy(data.label)), ones, accumulate=True)
    share = votes / votes.sum(1, keepdim=True)
    for _ in range(iterations):
        counts = (of_cells @ share).view(a, k, k) + 0.01
        table = (counts / counts.sum(1, keepdim=True)).log().view(a * k, k)
        joint = share.mean(0).log() + of_items @ table
        share = joint.softmax(1)
        joint.logsumexp(1).sum()
