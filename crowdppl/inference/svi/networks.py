"""svi of models whose networks learn by gradients: Pyro's ELBO on minibatches of items."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import TraceEnum_ELBO
from torch import Tensor, nn

from crowdppl.core.devices import seed_streams
from crowdppl.data.blocks import Block
from crowdppl.data.features import read_stored
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.checkpoint import checkpoint_of, network_arrays, restore_network
from crowdppl.inference.loop import Progress, iterate
from crowdppl.inference.neural.learner import batch_sizes, check_trainable, is_known, refuse_options
from crowdppl.inference.neural.regularisers import RegularisedLoss
from crowdppl.inference.optimisers import adamw, optimiser_arrays, restore_optimiser
from crowdppl.inference.options import Options
from crowdppl.inference.problem import Problem
from crowdppl.networks.classifier import init_weights, learns
from crowdppl.networks.outputs import cached_outputs, networks_of
from crowdppl.networks.refitted import SklearnClassifier
from crowdppl.networks.training import Training, training_of
from crowdppl.primitives.model import card_of

STREAM = 17
"""Key of the random numbers of an epoch; each epoch has its own, so that a fit can resume after any."""


def train(problem: Problem, options: Options, guide: Callable[[Block], Any]) -> Progress:
    """Trains networks and the guide together; call it within a scope of Pyro's parameter store.

    Afterwards the guide's parameters are in the store, networks have their last weights, and the problem's blocks
    hold their outputs. Progress has an ELBO an epoch: the mean over its minibatches, each scaled to all items.
    MethodError for settings that have no meaning here. NumericalError when the loss is not finite.
    """
    training = training_of(getattr(problem.model, "training", {}))
    refuse_options(options, "batch_size", "max_iterations", "tolerance")
    if any(isinstance(x, SklearnClassifier) for net in networks_of(problem.model).values() for x in net.modules()):
        raise MethodError("svi learns by gradients, which a classifier of scikit-learn has not; use 'em' or 'vb'")
    if training.full_batch:
        raise MethodError("training: full_batch=True is for inference='em' and 'vb'; leave it out under svi")
    epochs = Epochs(problem, training, options, guide)

    def step(number: int) -> tuple[int, float]:
        return number + 1, epochs.run(number)

    checkpoint = checkpoint_of(problem, options, "svi", lambda _: epochs.arrays(), epochs.restore)
    _, progress = iterate(step, 0, options, steps=training.length, name="svi", checkpoint=checkpoint)
    progress.converged = not progress.interrupted
    problem.blocks[:] = cached_outputs(problem.model, problem.blocks)
    return progress


def for_pyro(block: Block) -> Block:
    """The block in the precision of parameters, float64: Pyro multiplies factors of one precision only."""
    return replace(block, dtype=torch.float64)


class Epochs:
    """Epochs over the items that have labels or a known truth, shuffled by the seed and the epoch's number."""

    def __init__(
        self, problem: Problem, training: Training, options: Options, guide: Callable[[Block], Any]
    ) -> None:
        self.problem, self.training, self.options, self.guide = problem, training, options, guide
        for network in networks_of(problem.model).values():
            init_weights(network, training, options.seed)
        self.whole = replace(for_pyro(problem.whole()), seen=None)
        self.rows = np.flatnonzero(is_known(self.whole).cpu().numpy())
        self.sizes = batch_sizes(len(self.rows), training.batch_size)
        for name, network in self.learning.items():
            assert self.whole.features is not None, "a fit with networks gives its blocks features"
            check_trainable(network, name, self.whole.features, min(self.sizes))
        elbo: Any = TraceEnum_ELBO(max_plate_nesting=problem.plates)
        self.loss = elbo.differentiable_loss
        seed_streams(options.seed)
        self.loss(problem.model.model, guide, self._batch(self.rows[: training.batch_size]))  # makes the parameters
        self.regularised = RegularisedLoss(problem, training)
        self.optimiser = adamw(self._groups())
        self.rates = [group["lr"] for group in self.optimiser.param_groups]

    @property
    def learning(self) -> dict[str, nn.Module]:
        """The model's networks that have weights to learn."""
        return {name: x for name, x in networks_of(self.problem.model).items() if learns(x)}

    def run(self, number: int) -> float:
        """One epoch; the mean ELBO of its minibatches."""
        stream = np.random.default_rng([self.options.seed, STREAM, number])
        decay = 0.5 * (1 + math.cos(math.pi * number / self.training.epochs))
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * decay
        batches = np.split(stream.permutation(self.rows), np.cumsum(self.sizes)[:-1])
        seed_streams(int(stream.integers(2**62)))  # of dropout, and of draws from the guide
        for network in self.learning.values():
            network.train()
        try:
            with warnings.catch_warnings():  # frozen weights are not in Pyro's store
                warnings.filterwarnings("ignore", message=".* was not registered in the param store")
                losses = [self._step(rows, number, step) for step, rows in enumerate(batches)]
        finally:  # after Ctrl-C, too, networks are evaluated
            for network in self.learning.values():
                network.eval()
        return -float(np.mean(losses))

    def arrays(self) -> dict[str, Tensor]:
        """Parameters, weights and the optimiser's state as tensors by name."""
        arrays = {f"parameter.{name}": x for name, x in pyro.get_param_store().named_parameters()}
        for name, network in networks_of(self.problem.model).items():
            arrays |= network_arrays(network, f"network.{name}")
        return arrays | optimiser_arrays(self.optimiser)

    def restore(self, arrays: dict[str, Tensor], epochs: int) -> int:
        """Sets what ``arrays`` returned after some epochs; their number."""
        with torch.no_grad():
            for name, x in pyro.get_param_store().named_parameters():
                x.copy_(arrays[f"parameter.{name}"])
        for name, network in networks_of(self.problem.model).items():
            restore_network(network, f"network.{name}", arrays)
        restore_optimiser(self.optimiser, arrays)
        return epochs

    def _step(self, rows: np.ndarray, epoch: int, step: int) -> float:
        """One minibatch; its loss."""
        batch = self._batch(rows)
        loss, terms = self.regularised(lambda block: self.loss(self.problem.model.model, self.guide, block), batch)
        if not bool(torch.isfinite(loss)):
            raise NumericalError(
                f"the loss is {loss.item()} in epoch {epoch + 1}, step {step + 1}; lower learning_rate "
                f"({self.training.learning_rate:g}), or check the features' scale"
            )
        self.optimiser.zero_grad()
        (loss / len(self.rows) + terms).backward()
        self.optimiser.step()
        return float(loss.detach())

    def _batch(self, rows: np.ndarray) -> Block:
        batch = self.whole.subset(np.sort(rows), len(self.rows) / len(rows))
        assert batch.features is not None, "a fit with networks gives its blocks features"
        return replace(batch, features=read_stored(batch.features))  # once for all networks and the guide

    def _groups(self) -> list[dict[str, Any]]:
        """Networks at their rate and decay; annotators' parameters, which see far fewer labels each, faster."""
        training, parameters = self.training, dict(pyro.get_param_store().named_parameters())
        networks = [x for name, x in parameters.items() if "$$$" in name]  # Pyro's mark of a module's parameters
        others = [x for name, x in parameters.items() if "$$$" not in name]
        if self.learning and not networks:
            card = card_of(self.problem.model)
            engines = [f"inference={n!r}" for n in ("em", "vb") if card is None or card.refusal(n) is None]
            alternative = f", or use {' or '.join(engines)}" if engines else ""
            raise MethodError(
                f"svi cannot train the network of {type(self.problem.model).__name__}, whose model never calls it; "
                f"call it in model (crowdppl.networks.network_output or class_logits){alternative}"
            )
        return [
            {"params": networks, "lr": training.learning_rate, "weight_decay": training.weight_decay},
            {"params": others, "lr": training.learning_rate * training.annotator_rate, "weight_decay": 0.0},
        ]
