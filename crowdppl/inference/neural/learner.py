"""Training of a model's networks between the steps of em and vb, and when it stops."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crowdppl.core.collective import agreed, all_gathered, all_reduced, n_processes, process, reduced
from crowdppl.core.devices import seeded
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block, has_informative_label, row_codes, seen_by_all
from crowdppl.data.features import Features, joined, read_stored
from crowdppl.data.split import keep, label_folds
from crowdppl.errors import DataError, MethodError, NumericalError
from crowdppl.inference.checkpoint import TrialCache, network_arrays, restore_network
from crowdppl.inference.density import Density
from crowdppl.inference.neural.regularisers import Batch, class_shares, mix, network_votes, regularisation
from crowdppl.inference.optimisers import LBFGSAscent, adamw, optimiser_arrays, restore_optimiser
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass
from crowdppl.inference.problem import Problem, build_problem
from crowdppl.inference.starts import soft_truth
from crowdppl.networks.classifier import Network, Rewards, init_weights, learns, log_shares, outputs, parts
from crowdppl.networks.outputs import network_of, trained_networks
from crowdppl.networks.training import Training, training_of
from crowdppl.primitives.comparisons import PREFERRED
from crowdppl.primitives.model import Model

STREAM = 13
"""Key of the random numbers of an epoch; each epoch has its own, so that a fit can resume after any."""
CHECK_EVERY = 100
"""Steps after which losses are checked: a check waits for the GPU."""
LOOKS = 12
"""Evaluations of the network's objective in an iteration of ``FullBatch``."""
KEY = "stop_after"
"""Name of the number of epochs in a cache of trials."""
FOLDS = 10
"""One label in so many is left out, never all of an item where items have labels of two annotators."""


Epochs = Callable[[Problem], Iterator[tuple[Density, Mapping[str, Tensor]]]]
"""How an engine trains networks: after each epoch, the model's density and the values of its sites."""


def batch_sizes(n_items: int, size: int) -> list[int]:
    """Items of each batch of an epoch; a single last item joins the batch before, for batch norm needs two.

    DataError when there are none.
    """
    if not n_items:
        raise DataError(
            "no label names a class, and no truth is known, so that networks have nothing to learn from; give "
            "labels, or leave the network out"
        )
    whole, rest = divmod(n_items, size)
    sizes = [size] * whole + [rest] * (rest > 0)
    if rest == 1 and whole:
        sizes[-2:] = [size + 1]
    return sizes


def refuse_options(options: Options, *names: str) -> None:
    """Refuses options that have no meaning where a network learns."""
    for name in names:
        if getattr(options, name) is not None:
            raise MethodError(
                f"{name} has no meaning where a network learns; see training=, its epochs and batches"
            )


def check_trainable(network: nn.Module, name: str, features: Features, size: int) -> None:
    """Runs a copy of a user's network in train mode on ``size`` items, as many as the smallest batch holds.

    MethodError when it fails, returns another shape than in eval mode, or no gradient reaches its weights; it gives
    ``name``, the model's attribute. DataError when the features cannot be read.
    """
    if not learns(network) or (isinstance(network, Network) and not network.own):
        return
    some = read_stored(features[:size])
    expected = tuple(outputs(network, some).shape)
    trial = deepcopy(network).train()  # a pass moves running means
    try:
        with torch.enable_grad(), torch.random.fork_rng():
            found = trial(some)
    except DataError:
        raise
    except Exception as error:  # a user's network may raise anything
        raise MethodError(
            f"{name} fails in train mode on a batch of {len(some)}, though not in eval mode: {error}; give "
            "training another batch_size, or another network"
        ) from error
    shapes = ({n: x.shape for n, x in each.named_buffers()} for each in (network, trial))
    if next(shapes) != next(shapes):
        raise MethodError(
            f"{name} has buffers that change in number or shape in train mode; register all of them, in their "
            "final shapes, when it is made"
        )
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != expected:
        raise MethodError(
            f"{name} returns {shape} for {len(some)} items in train mode, and {expected} in eval mode; it must "
            "return one shape"
        )
    require_gradients(trial, name, found)


def require_gradients(network: nn.Module, name: str, found: Tensor) -> None:
    """Refuses the output of a network if gradients reach none of its weights, unless all of them are frozen."""
    if not found.requires_grad and learns(network.body if isinstance(network, Network) else network):
        raise MethodError(
            f"no gradient reaches the weights of {name}: let gradients through (no detach, no torch.no_grad, no "
            "whole numbers), or freeze all weights (requires_grad_(False))"
        )


class Learner:
    """Trains a model's network on soft labels, an epoch at a time, and writes its outputs to the blocks.

    Attributes:
        target: what is learned: probabilities of the truth, or how often either side of a pair was preferred.
        epochs: number of epochs so far.
        penalty: the regularisation's term of the fit's objective; 0 in minibatches, each of which has its own.
    """

    penalty = 0.0

    def __init__(self, problem: Problem, training: Training) -> None:
        network, truth = network_of(problem.model), problem.truth
        assert network is not None and truth is not None
        self.problem, self.training, self.options = problem, training, problem.options
        self.network, self.epochs = network, 0
        self.target = PREFERRED if isinstance(network, Rewards) else truth
        init_weights(network, training, problem.options.seed)
        features = [block.features for block in problem.blocks if block.features is not None]
        self.features = joined(features)  # a fit with a network gives its blocks some
        _require_same(network)
        known = torch.cat([is_known(block) for block in problem.blocks])
        self.rows = torch.nonzero(known).squeeze(-1)
        each = all_gathered(len(self.rows))
        self.first, self.n_rows = sum(each[: process()]), sum(each)
        self.sizes = batch_sizes(self.n_rows, training.batch_size)
        if not training.full_batch:  # which evaluates networks in eval mode
            check_trainable(network, "network", self.features, min(self.sizes))
        counts = network_votes(problem)
        self.votes, self.shares = soft_truth(counts), class_shares(reduced(counts.sum(0)), training.shares)
        self.members = network.members if isinstance(network, Network) else 1
        rate, decay = training.learning_rate, training.weight_decay
        self.weights = [x for x in network.parameters() if x.requires_grad]
        self.optimiser = adamw(self.weights or [torch.zeros(1)], lr=rate, weight_decay=decay)
        self._write_outputs()

    @property
    def on_votes(self) -> bool:
        """Whether it still learns the votes, and does not enter the model."""
        return self.epochs < self.training.warm_up

    def learn_votes_first(self) -> None:
        """Training before the first iteration: none here, where the first epochs are on votes."""

    def learn(self, marginal: Tensor) -> None:
        """An epoch on the target's probabilities or counts (K, [C,] N); at first on the votes."""
        p = marginal.double().reshape(marginal.shape[0], -1, marginal.shape[-1]).mean(1).t()
        self.epoch(self.votes if self.on_votes else p)
        self._write_outputs()

    def arrays(self) -> dict[str, Tensor]:
        """Weights and the optimiser's state as tensors by name."""
        return network_arrays(self.network, "network") | optimiser_arrays(self.optimiser)

    def restore(self, arrays: Mapping[str, Tensor], epochs: int) -> None:
        """Sets what ``arrays`` returned after some epochs."""
        restore_network(self.network, "network", arrays)
        restore_optimiser(self.optimiser, arrays)
        self.epochs = epochs
        self._write_outputs()

    def finish(self, interrupted: bool) -> None:
        """Makes the blocks hold the network's outputs, wherever the fit ended (by Ctrl-C within an epoch, too)."""
        self.network.eval()
        if interrupted or self.on_votes:
            self._write_outputs(always=True)

    def _write_outputs(self, always: bool = False) -> None:
        """Gives every block the network's outputs; even shares while it learns votes, unless ``always``."""
        found = log_shares(self.network, self.features)
        if self.on_votes and not always:
            found = torch.full_like(found, -math.log(found.shape[1]))
        for n, block in enumerate(self.problem.blocks):
            mine = found[block.offset : block.offset + block.n_items].to(block.dtype)
            self.problem.blocks[n] = replace(block, seen={**(block.seen or {}), "network": mine})

    def epoch(self, targets: Tensor) -> None:
        """One pass over the items that have labels or a known truth; targets are probabilities or counts (N, K).

        NumericalError when a loss is not finite.
        """
        if not self.weights:
            self._refit(targets)
            self.epochs += 1
            return
        stream = replace(self.options, device="cpu").generator(STREAM, self.epochs)  # one order on every device
        rate = 0.5 * (1 + math.cos(math.pi * self.epochs / self.training.epochs))
        for group in self.optimiser.param_groups:
            group["lr"] = self.training.learning_rate * rate
        targets = targets.float()
        cpu = stream.device
        orders = [torch.randperm(self.n_rows, generator=stream, device=cpu) for _ in range(self.members)]
        self.network.train()
        seed = int(torch.randint(2**62, (), generator=stream, device=cpu))
        with seeded(seed + process()):  # dropout reads the global stream
            batches = torch.stack(orders).to(self.rows.device).split(self.sizes, dim=1)
            losses: list[Tensor] = []
            for step, places in enumerate(batches, 1):
                rows, batch = self._own(places)
                losses.append(self._step(rows, targets, batch))
                if len(losses) == CHECK_EVERY or step == len(batches):
                    self._check(losses, step)
                    losses.clear()
        self.epochs += 1

    def _refit(self, targets: Tensor) -> None:
        """Fits a classifier that has no weights; frozen ones stay."""
        if isinstance(self.network, Network):
            self.network.refit(read_stored(self.features[self.rows]), targets[self.rows], self.options.seed)

    def _own(self, places: Tensor) -> tuple[Tensor, Batch | None]:
        """The items of batches (M, B) of the rows of all processes; of several, those that this process has."""
        if n_processes() == 1:
            return self.rows[places], None
        at = places - self.first
        mine = (at >= 0) & (at < len(self.rows))
        width = max(1, int(mine.sum(1).max()))
        order = (~mine).byte().argsort(dim=1, stable=True)[:, :width]  # members' batches are filled up to one width
        own, at = mine.gather(1, order), at.gather(1, order)
        some = self.rows if len(self.rows) else self.rows.new_zeros(1)  # an item without labels, which fills up
        return some[torch.where(own, at, 0)], Batch(own.float(), places.shape[1])

    def _step(self, rows: Tensor, targets: Tensor, batch: Batch | None) -> Tensor:
        """A step on items (M, B), a batch for each member of the network; its loss."""
        x, t = self.features[rows.flatten()], targets[rows.flatten()]
        if self.training.mixup > 0:
            x, t = mix(x, t, self.members, self.training.mixup)
        x, t = x.unflatten(0, rows.shape), t.unflatten(0, rows.shape)
        logits = self.network.apart(x) if isinstance(self.network, Network) else self.network(x[0]).unsqueeze(0)
        log_p = logits.log_softmax(-1)
        terms, fit = regularisation(log_p.exp(), self.training, self.shares, batch), (t * log_p).sum(-1)
        mean = fit.mean(-1) if batch is None else (fit * batch.own).sum(-1) / batch.size
        loss: Tensor = (terms - mean).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self._add_gradients()
        self.optimiser.step()
        return loss.detach()

    def _add_gradients(self) -> None:
        """Sums the gradients of all processes."""
        if n_processes() > 1:
            grads = [torch.zeros_like(x) if x.grad is None else x.grad for x in self.weights]
            for x, found in zip(self.weights, all_reduced(grads), strict=True):
                x.grad = found

    def _check(self, losses: Sequence[Tensor], last: int) -> None:
        """Raises where the loss of a step is not finite; ``last`` is the number of the last step."""
        for step, loss in enumerate(torch.stack(list(losses)).tolist(), last - len(losses) + 1):
            if not math.isfinite(loss):
                raise NumericalError(
                    f"the network's loss is {loss} in epoch {self.epochs + 1}, step {step}; lower learning_rate "
                    f"({self.training.learning_rate:g}), or check the features' scale"
                )


def _require_same(network: nn.Module) -> None:
    """Refuses processes whose networks begin with other weights, by a ProcessError."""
    if n_processes() > 1:
        digest = hashlib.sha256()
        for x in network.state_dict().values():
            digest.update(x.detach().cpu().numpy().tobytes())
        first = int.from_bytes(digest.digest()[:6], "big")
        agreed("the first weights of the network", first, "give all the same network")


def is_known(block: Block) -> Tensor:
    """Items with a known truth or a label that names a class, bool (n_items,)."""
    found = torch.from_numpy(has_informative_label(block)).to(block.device)
    return found if block.gold is None else found | (block.gold >= 0)


class FullBatch(Learner):
    """A learner that raises one deterministic function of its weights, on all items.

    The function is the part of the fit's objective that the weights enter: the expected log-probability of the
    truth, less ``regularisation`` and half the weight decay of the squared weights for each item of ``rows``. Items
    without labels take part, as they do in the objective. It learns the votes before the first iteration.
    """

    def __init__(self, problem: Problem, training: Training) -> None:
        if training.mixup > 0:
            raise MethodError(
                f"training: mixup={training.mixup} blends items at random, and full_batch=True is deterministic; "
                "set mixup=0"
            )
        if getattr(problem.model, "counting", None) is not None:
            raise MethodError(
                "this model counts labels by another likelihood than its objective, which could fall; leave "
                "full_batch out (raykar: bootstrapped=False)"
            )
        self.votes_learned = training.warm_up == 0
        super().__init__(problem, training)
        require_gradients(self.network, "network", self.network(read_stored(self.features[:2])))
        self._update_penalty()

    @property
    def on_votes(self) -> bool:
        """Whether it has yet to learn the votes."""
        return not self.votes_learned

    def learn_votes_first(self) -> None:
        """Learns the votes of items that have some, unless it has."""
        if self.votes_learned:
            return
        known = torch.zeros_like(self.votes[:, :1])
        known[self.rows] = 1
        for _ in range(self.training.warm_up):
            self.epoch(known * self.votes)
        self.epochs, self.votes_learned = 0, True
        self._write_outputs()

    def restore(self, arrays: Mapping[str, Tensor], epochs: int) -> None:
        """Sets what ``arrays`` returned after some epochs."""
        self.votes_learned = True
        super().restore(arrays, epochs)
        self._update_penalty()

    def epoch(self, targets: Tensor) -> None:
        """Some quasi-Newton steps, on all items."""

        def objective() -> tuple[float, Sequence[Tensor]]:
            log_p = self._log_p()
            fit, penalty = (targets * log_p.double()).sum(), self._penalty(log_p)
            if not bool(torch.isfinite(fit + penalty)):
                raise NumericalError(
                    f"the network's objective is {(fit + penalty).item()} in epoch {self.epochs + 1}; check the "
                    "features' scale and the network's first weights"
                )
            own = torch.autograd.grad(fit + penalty, self.weights)
            total, *slopes = all_reduced([float(fit.detach()), *own])
            return total + float(penalty.detach()), slopes

        self.network.eval()
        self.epochs += 1
        if self.weights:
            LBFGSAscent(self.weights, LOOKS, LOOKS)(objective)
            self._update_penalty()

    def _log_p(self) -> Tensor:
        return torch.cat([self.network(part) for part in parts(self.features)]).log_softmax(-1)

    def _penalty(self, log_p: Tensor) -> Tensor:
        """That of all processes; its gradient is a process's own part, of which the weights' is the first's."""
        squares = sum((x.double().square().sum() for x in self.weights), torch.zeros(()))
        squares = squares if process() == 0 else squares.detach()
        batch = None
        if n_processes() > 1:
            batch = Batch(torch.ones_like(log_p[:, 0]), reduced(len(log_p)))
        terms = regularisation(log_p.exp(), self.training, self.shares, batch).double()
        found: Tensor = -self.n_rows * (terms + 0.5 * self.training.weight_decay * squares)
        return found

    @torch.no_grad()
    def _update_penalty(self) -> None:
        self.network.eval()
        self.penalty = float(self._penalty(self._log_p()))


def with_early_stopping(
    model: Model, data: Annotations, epochs: Epochs, options: Options, cache: TrialCache | None = None
) -> Model:
    """The model with the number of epochs at which left-out labels are most probable, where it has ``patience``.

    A copy is trained without a tenth of the labels, and scored on them after each epoch, until ``patience`` epochs
    bring no gain. Known truths take no part. The fit proper then trains on all labels for as many epochs. Where no
    item has labels of two annotators, a tenth of the items is left out with all their labels, which the network
    then predicts. The number is read from the cache where it is there. DataError when one item has all labels.
    KeyboardInterrupt at Ctrl-C.
    """
    settings = getattr(model, "training", {})
    if not trained_networks(model) or training_of(settings).patience == 0:
        return model
    best = None if cache is None else cache.found().get(KEY)
    if best is None:
        best = torch.tensor(_best_epoch(model, data, epochs, options, training_of(settings)))
        if cache is not None:
            cache.add(KEY, best)
    build: Any = replace
    found: Model = build(model, training={**settings, "patience": 0, "stop_after": int(best)})
    return found


def _best_epoch(model: Model, data: Annotations, epochs: Epochs, options: Options, training: Training) -> int:
    """The epoch after which left-out labels are most probable."""
    out = _left_out(data, options.seed)
    trial = replace(options, checkpoint=None, callback=None, progress=False)
    problem = build_problem(deepcopy(model), keep(data, ~out), trial)
    full = data.on(options.device, problem.blocks[0].dtype)
    best, best_epoch = -float("inf"), training.epochs
    for number, (density, values) in enumerate(epochs(problem), 1):
        score = _score(problem, density, values, full)
        if score > best:
            best, best_epoch = score, number
        if number - best_epoch >= training.patience:
            break
    return best_epoch


def _left_out(data: Annotations, seed: int) -> np.ndarray:
    """Labels that are left out, bool (S,), in the order of ``data.frame()``."""
    item, cell = row_codes(data.blocks, data.order)
    annotator = cell // np.int32(data.n_answers)
    if ((np.diff(item) == 0) & (np.diff(annotator) != 0)).any():  # labels are sorted by both
        return np.asarray(label_folds(data, FOLDS, seed) == 0)
    labelled = np.unique(item)
    if len(labelled) < 2:
        raise DataError(
            "training: patience leaves some items out, but one item has all labels; set patience=0, or label more"
        )
    chosen = np.random.default_rng(seed).permutation(labelled)[: max(1, len(labelled) // FOLDS)]
    return np.asarray(np.isin(item, chosen))


def _score(problem: Problem, density: Density, values: Mapping[str, Tensor], full: list[Block]) -> float:
    """log p(labels left out | labels kept, values)."""
    kept = list(problem.blocks)
    seen, all_labels = seen_by_all(kept) or {}, []
    for block in full:
        mine = {name: x[block.offset : block.offset + block.n_items] for name, x in seen.items()}
        all_labels.append(replace(block, gold=None, seen=mine))
    totals = []
    for blocks in (all_labels, [replace(block, gold=None) for block in kept]):
        evidence = FullPass(density, blocks, problem.sites)(values, evidence=True).per_item
        assert evidence is not None
        totals.append(float(evidence.double().mean(0).sum() if evidence.dim() > 1 else evidence.double().sum()))
    return totals[0] - totals[1]
