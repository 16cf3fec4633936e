"""The network's part of a fit: it learns the truth's probabilities, and says what it makes of every item."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from crowdppl.data.blocks import Block
from crowdppl.data.decoding import told
from crowdppl.data.stored_features import Features, joined
from crowdppl.errors import NumericalError
from crowdppl.inference.checkpoints import network_arrays, restore_network
from crowdppl.inference.learning.regularisers import blended, class_shares, wanted
from crowdppl.inference.learning.rehearsal import batch_sizes, rehearse
from crowdppl.inference.machinery.optimisers import adamw, optimiser_arrays, restore_optimiser
from crowdppl.inference.midway import Midway
from crowdppl.inference.reading.problem import Problem
from crowdppl.inference.reading.starts import soft_truth
from crowdppl.networks.network import Network, begin, log_shares
from crowdppl.networks.sight import network_of
from crowdppl.networks.training import Training
from crowdppl.process.seeding import seeded

STREAM = 13
"""Key of the random numbers of an epoch; each epoch has its own, so that a fit can go on from any of them."""
LOOK = 100
"""Steps after which losses are looked at: a look waits for the GPU, and none goes unseen for long."""


class Learner:
    """Trains a story's network on soft labels, an epoch at a time, and tells the blocks what it makes of items.

    Args:
        problem: story, data and options; its blocks are kept up to date.
        training: settings.

    Attributes:
        truth: the site whose probabilities are learned.
        epochs: how many there have been.
        midway: where an epoch stands that has not ended.
        penalty: what training adds to the fit's objective; minibatches climb another each, and add nothing.
    """

    penalty = 0.0

    def __init__(self, problem: Problem, training: Training) -> None:
        network, truth = network_of(problem.story), problem.truth
        assert network is not None and truth is not None
        self.problem, self.training, self.options = problem, training, problem.options
        self.network, self.truth, self.epochs, self.midway = network, truth, 0, Midway()
        begin(network, training, problem.options.seed)
        self.features = joined([_features(block) for block in problem.blocks])
        known = torch.cat([_known(block) for block in problem.blocks])
        self.rows = torch.nonzero(known).squeeze(-1)
        self.sizes = batch_sizes(len(self.rows), training.batch_size)
        if not training.full_batch:  # there, a network is asked as it stands
            rehearse(network, "network", self.features, min(self.sizes))
        self.votes = soft_truth(problem.counts)
        self.shares = class_shares(problem.counts.sum(0), training.shares)
        self.members = network.members if isinstance(network, Network) else 1
        rate, decay = training.learning_rate, training.weight_decay
        self.weights = [x for x in network.parameters() if x.requires_grad]
        still = [torch.zeros(1)]  # an optimiser wants something to hold
        self.optimiser = adamw(self.weights or still, lr=rate, weight_decay=decay)
        self._tell()

    @property
    def blind(self) -> bool:
        """Whether it still learns the votes, and has no say."""
        return self.epochs < self.training.warm_up

    def warm(self) -> None:
        """What is to be learned before the first iteration: nothing, where the first epochs are for that."""

    def learn(self, marginal: Tensor, objective: float) -> None:
        """An epoch on the truth's probabilities (K, [C,] N); at first on the votes.

        Args:
            marginal: the probabilities.
            objective: of the fit as the iteration began, for a checkpoint amid the epoch.
        """
        p = marginal.double().reshape(marginal.shape[0], -1, marginal.shape[-1]).mean(1).t()
        self.epoch(self.votes if self.blind else p, objective)
        self._tell()

    def go_on(self) -> float:
        """The rest of an epoch that a checkpoint is amid; the objective as its iteration began."""
        targets, objective = self.midway.kept["targets"], float(self.midway.kept["objective"])
        self.epoch(targets.to(self.votes.device), objective)
        self._tell()
        return objective

    def arrays(self) -> dict[str, Tensor]:
        """Weights and the optimiser's memory, as tensors by name, and where an epoch stands."""
        weights = network_arrays(self.network, "network")
        return weights | optimiser_arrays(self.optimiser) | self.midway.arrays()

    def restore(self, arrays: Mapping[str, Tensor], epochs: int) -> None:
        """Takes back what ``arrays`` gave after some epochs."""
        restore_network(self.network, "network", arrays)
        restore_optimiser(self.optimiser, arrays)
        self.midway.restore(arrays)
        self.epochs = epochs
        self._tell()

    def finish(self, interrupted: bool) -> None:
        """Makes the blocks hold what the network makes of items, wherever the fit ended: it is asked from here on.

        Args:
            interrupted: whether Ctrl-C may have ended an epoch half-way.
        """
        self.network.eval()
        if interrupted or self.blind:
            self._tell(said=True)

    def _tell(self, said: bool = False) -> None:
        """Every block gets what the network makes of its items; even shares while it warms up, unless said."""
        found = log_shares(self.network, self.features)
        if self.blind and not said:
            found = torch.full_like(found, -math.log(found.shape[1]))
        blocks = self.problem.blocks
        assert isinstance(blocks, list)
        for n, block in enumerate(blocks):
            mine = found[block.offset : block.offset + block.n_items].to(block.dtype)
            blocks[n] = replace(block, seen={**(block.seen or {}), "network": mine}, _views={})

    def epoch(self, targets: Tensor, objective: float = math.nan) -> None:
        """One pass over the items that have labels or a known truth, or the rest of one.

        Args:
            targets: probabilities (N, K) of the truth, by position.
            objective: of the fit as the iteration began, for a checkpoint amid the epoch.

        Raises:
            NumericalError: when a loss is not finite.
        """
        if not self.weights:  # a network that was trained elsewhere has its say, and stands still
            self.epochs += 1
            return
        stream = replace(self.options, device="cpu").generator(STREAM, self.epochs)  # one order on every device
        rate = 0.5 * (1 + math.cos(math.pi * self.epochs / self.training.epochs))
        for group in self.optimiser.param_groups:
            group["lr"] = self.training.learning_rate * rate
        targets = targets.float()
        n, cpu = len(self.rows), stream.device
        orders = [torch.randperm(n, generator=stream, device=cpu) for _ in range(self.members)]
        self.network.train()
        seed = int(torch.randint(2**62, (), generator=stream, device=cpu))
        with seeded(seed):  # dropout reads the global stream
            batches = self.rows[torch.stack(orders).to(self.rows.device)].split(self.sizes, dim=1)
            losses: dict[int, Tensor] = {}

            def more() -> dict[str, Tensor]:
                self._check(losses)
                return {"targets": targets, "objective": torch.tensor(objective, dtype=torch.float64)}

            for step in self.midway.steps(len(batches), more):
                losses[step] = self._step(batches[step], targets)
                if len(losses) == LOOK:
                    self._check(losses)
            self._check(losses)
        self.epochs += 1

    def _step(self, rows: Tensor, targets: Tensor) -> Tensor:
        """A step on items (M, B), of which each member of the network has its own; its loss."""
        x, t = self.features[rows.flatten()], targets[rows.flatten()]
        if self.training.mixup > 0:
            x, t = blended(x, t, self.members, self.training.mixup)
        x, t = x.unflatten(0, rows.shape), t.unflatten(0, rows.shape)
        logits = self.network.apart(x) if isinstance(self.network, Network) else self.network(x[0]).unsqueeze(0)
        log_p = logits.log_softmax(-1)
        terms = wanted(log_p.exp(), self.training, self.shares)
        loss: Tensor = (terms - (t * log_p).sum(-1).mean(-1)).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def _check(self, losses: dict[int, Tensor]) -> None:
        """Raises where the loss of a step is not finite; afterwards they have been looked at, and go."""
        found = torch.stack(list(losses.values())).tolist() if losses else []
        for step, loss in zip(losses, found, strict=True):
            if not math.isfinite(loss):
                raise NumericalError(
                    f"the network's loss is {loss} in epoch {self.epochs + 1}, step {step + 1}; lower "
                    f"learning_rate ({self.training.learning_rate:g}), or look at the features' scale"
                )
        losses.clear()


def _features(block: Block) -> Features:
    assert block.features is not None, "a fit with a network gives its blocks features"
    return block.features


def _known(block: Block) -> Tensor:
    """Items of which something is known, bool (n_items,)."""
    found = torch.from_numpy(told(block)).to(block.device)
    return found if block.gold is None else found | (block.gold >= 0)
