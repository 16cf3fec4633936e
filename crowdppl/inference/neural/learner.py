"""Training of a model's networks between the steps of em and vb."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from crowdppl.core.devices import seeded
from crowdppl.data.annotations import has_informative_label
from crowdppl.data.blocks import Block
from crowdppl.data.features import Features, joined, read_stored
from crowdppl.errors import DataError, MethodError, NumericalError
from crowdppl.inference.checkpoint import network_arrays, restore_network
from crowdppl.inference.neural.regularisers import blended, class_shares, wanted
from crowdppl.inference.optimisers import LBFGSAscent, adamw, optimiser_arrays, restore_optimiser
from crowdppl.inference.problem import Problem
from crowdppl.inference.starts import soft_truth
from crowdppl.networks.classifier import Network, init_weights, learns, log_shares, outputs, parts
from crowdppl.networks.outputs import network_of
from crowdppl.networks.training import Training


def batch_sizes(n_items: int, size: int) -> list[int]:
    """Items of each batch of an epoch; a last one alone joins the batch before, for no layer can norm it.

    Args:
        n_items: that are to be learned from.
        size: of a batch.

    Raises:
        DataError: when there are none.
    """
    if not n_items:
        raise DataError(
            "no label tells of a truth, and none is known, so that networks have nothing to learn from; give "
            "labels, or leave the network out"
        )
    whole, rest = divmod(n_items, size)
    sizes = [size] * whole + [rest] * (rest > 0)
    if rest == 1 and whole:
        sizes[-2:] = [size + 1]
    return sizes


def check_trainable(network: nn.Module, name: str, features: Features, size: int) -> None:
    """Asks a network that was given, while it is set to learn, for as many items as the smallest batch holds.

    Nothing is learned, and what such an asking moves (running means, random numbers) is put back.

    Args:
        network: features to a row an item.
        name: the story's attribute that holds it, for messages.
        features: (N, ...).
        size: items of the smallest batch.

    Raises:
        MethodError: when it fails, or returns something else than a standing network does, or what its weights
            cannot learn from; when its buffers change in number or shape.
        DataError: when the features cannot be read.
    """
    if not learns(network) or (isinstance(network, Network) and network.default):
        return
    some = read_stored(features[:size])
    shape = outputs(network, some).shape
    before = {key: x.clone() for key, x in network.named_buffers()}
    was = network.training
    network.train()
    try:
        with torch.enable_grad(), torch.random.fork_rng():
            found = network(some)
    except DataError:
        raise
    except Exception as error:  # a user's network may raise anything
        raise MethodError(
            f"{name} cannot learn from a batch of {len(some)}, though it can be asked (in train mode): {error}; "
            "give training another batch_size, or another network"
        ) from error
    finally:
        network.train(was)
        same = _put_back(network, before)
    if not same:
        raise MethodError(
            f"{name} has buffers that change in number or shape while it learns, and could not be put back; "
            "register all of them when it is made, in the shapes that they keep"
        )
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if got != tuple(shape):
        raise MethodError(
            f"{name} returns {got} for {len(some)} items while it learns (in train mode), and {tuple(shape)} when "
            "it is asked; it must return one shape"
        )
    require_reached(network, name, found)


def require_reached(network: nn.Module, name: str, found: Tensor) -> None:
    """Refuses what a network returns, where gradients were asked for, if they reach none of its weights.

    Raises:
        MethodError: unless all its weights are frozen.
    """
    if not found.requires_grad and learns(network.body if isinstance(network, Network) else network):
        raise MethodError(
            f"what {name} returns hangs on none of its weights that are to learn: let gradients through (no "
            "detach, no torch.no_grad, no whole numbers), or freeze all of them (requires_grad_(False))"
        )


@torch.no_grad()
def _put_back(network: nn.Module, before: Mapping[str, Tensor]) -> bool:
    """Whether the buffers are still of one kind; they are then as they were."""
    after = dict(network.named_buffers())
    same = after.keys() == before.keys() and all(x.shape == before[key].shape for key, x in after.items())
    for key, x in after.items() if same else ():
        x.copy_(before[key])
    return same


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
        penalty: what training adds to the fit's objective; minibatches climb another each, and add nothing.
    """

    penalty = 0.0

    def __init__(self, problem: Problem, training: Training) -> None:
        network, truth = network_of(problem.model), problem.truth
        assert network is not None and truth is not None
        self.problem, self.training, self.options = problem, training, problem.options
        self.network, self.truth, self.epochs = network, truth, 0
        init_weights(network, training, problem.options.seed)
        self.features = joined([_features(block) for block in problem.blocks])
        known = torch.cat([_known(block) for block in problem.blocks])
        self.rows = torch.nonzero(known).squeeze(-1)
        self.sizes = batch_sizes(len(self.rows), training.batch_size)
        if not training.full_batch:  # there, a network is asked as it stands
            check_trainable(network, "network", self.features, min(self.sizes))
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

    def learn(self, marginal: Tensor) -> None:
        """An epoch on the truth's probabilities (K, [C,] N); at first on the votes."""
        p = marginal.double().reshape(marginal.shape[0], -1, marginal.shape[-1]).mean(1).t()
        self.epoch(self.votes if self.blind else p)
        self._tell()

    def arrays(self) -> dict[str, Tensor]:
        """Weights and the optimiser's memory, as tensors by name."""
        return network_arrays(self.network, "network") | optimiser_arrays(self.optimiser)

    def restore(self, arrays: Mapping[str, Tensor], epochs: int) -> None:
        """Takes back what ``arrays`` gave after some epochs."""
        restore_network(self.network, "network", arrays)
        restore_optimiser(self.optimiser, arrays)
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
            blocks[n] = replace(block, seen={**(block.seen or {}), "network": mine})

    def epoch(self, targets: Tensor) -> None:
        """One pass over the items that have labels or a known truth.

        Args:
            targets: probabilities (N, K) of the truth, by position.

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
            for step, batch in enumerate(batches):
                losses[step] = self._step(batch, targets)
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
    found = torch.from_numpy(has_informative_label(block)).to(block.device)
    return found if block.gold is None else found | (block.gold >= 0)


LOOKS = 12
"""Looks at the network's objective an iteration, nearly as many as quasi-Newton steps."""


class FullBatch(Learner):
    """A learner that climbs one function of its weights, on all items, without chance.

    Its function is the part of the fit's objective that the weights enter: the expected log-probability of the
    truth, less ``wanted`` and half the weight decay of the squared weights for each item of which something is
    known. Items without labels take part, as they do in the objective. It learns the votes before the first
    iteration, so that the objective begins with what came of that.
    """

    def __init__(self, problem: Problem, training: Training) -> None:
        _refuse(problem, training)
        self.warmed = training.warm_up == 0
        super().__init__(problem, training)
        require_reached(self.network, "network", self.network(read_stored(self.features[:2])))
        self._settle()

    @property
    def blind(self) -> bool:
        """Whether it has yet to learn the votes."""
        return not self.warmed

    def warm(self) -> None:
        """Learns the votes of items that have some, unless it has."""
        if self.warmed:
            return
        told = torch.zeros_like(self.votes[:, :1])
        told[self.rows] = 1
        for _ in range(self.training.warm_up):
            self.epoch(told * self.votes)
        self.epochs, self.warmed = 0, True
        self._tell()

    def restore(self, arrays: Mapping[str, Tensor], epochs: int) -> None:
        """Takes back what ``arrays`` gave after some epochs."""
        self.warmed = True
        super().restore(arrays, epochs)
        self._settle()

    def epoch(self, targets: Tensor) -> None:
        """Some quasi-Newton steps, on all items."""

        def looked() -> tuple[float, Sequence[Tensor]]:
            log_p = self._look()
            total = (targets * log_p.double()).sum() + self._penalty(log_p)
            if not bool(torch.isfinite(total)):
                raise NumericalError(
                    f"the network's objective is {total.item()} in epoch {self.epochs + 1}; look at the features' "
                    "scale and the network's first weights"
                )
            return float(total.detach()), torch.autograd.grad(total, self.weights)

        self.network.eval()
        self.epochs += 1
        if self.weights:
            LBFGSAscent(self.weights, LOOKS, LOOKS)(looked)
            self._settle()

    def _look(self) -> Tensor:
        return torch.cat([self.network(part) for part in parts(self.features)]).log_softmax(-1)

    def _penalty(self, log_p: Tensor) -> Tensor:
        squares = sum((x.double().square().sum() for x in self.weights), torch.zeros(()))
        terms = wanted(log_p.exp(), self.training, self.shares).double()
        return -len(self.rows) * (terms + 0.5 * self.training.weight_decay * squares)

    @torch.no_grad()
    def _settle(self) -> None:
        """The penalty of the weights as they are."""
        self.network.eval()
        self.penalty = float(self._penalty(self._look()))


def _refuse(problem: Problem, training: Training) -> None:
    if training.mixup > 0:
        raise MethodError(
            f"training: mixup={training.mixup} blends items by chance, and full_batch=True leaves nothing to "
            "chance; set mixup=0"
        )
    if getattr(problem.model, "counting", None) is not None:
        raise MethodError(
            "this story counts otherwise than its objective says, so that full_batch=True could not keep it from "
            "falling; leave full_batch out (raykar: bootstrapped=False)"
        )
