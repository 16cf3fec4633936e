"""Meta-training: an embedding learns from few-shot tasks to separate classes that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from crowdppl.core.devices import check_device, device_of, seed_streams, seeded
from crowdppl.core.validation import SEEDS, kind_of, number_within, seed_number, switch, whole_number
from crowdppl.errors import MethodError, NumericalError
from crowdppl.few_shot.tasks import EpisodeSampler, Tasks
from crowdppl.few_shot.unrolled_em import UnrolledEM
from crowdppl.inference.checkpoint import (
    Arrays,
    Checkpoint,
    check_path,
    digest_of,
    learned_arrays,
    network_arrays,
    restore_network,
)
from crowdppl.inference.optimisers import optimiser_arrays, restore_optimiser
from crowdppl.networks.embedding import Embedding, embedding_for


def meta_trained(
    body: nn.Module | None,
    widths: Sequence[int],
    episodes: EpisodeSampler,
    em: Callable[..., UnrolledEM],
    rows: Tensor,
    *,
    iterations: int = 100,
    batch: int = 16,
    learning_rate: float = 3e-4,
    seed: int = 0,
    through: bool = True,
    pseudo_annotators: bool = True,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 50,
) -> Embedding:
    """Learns, from few-shot tasks, an embedding in which a few steps of EM separate new classes.

    A step draws tasks, runs EM on their labels, classifies the query items by the result, and follows the gradient
    of the cross-entropy with their known classes. With few known classes the embedding soon overfits; the defaults
    are therefore few and small steps. With many classes, take more.

    Args:
        body: a network, which is copied; frozen parameters stay frozen. None takes ``Layers``.
        widths: of the layers.
        episodes: the sampler of tasks.
        em: ``em_steps`` with its settings.
        rows: pseudo-counts of confusion rows, (K, K).
        iterations, batch, learning_rate: steps, tasks a step, and the first rate of Adam.
        seed: of weights and tasks.
        through: whether the gradient flows through EM; else its result is a constant.
        pseudo_annotators: whether annotators err, by the sampler's kinds; else they are always right.
        device: of the training: "cpu", "cuda", "cuda:N" or "auto". The result is on the CPU.
        checkpoint: a file; where it exists, the training resumes from it, to the same result.
        checkpoint_every: steps between two writes.

    Raises:
        MethodError: for settings out of range, an unknown device, or a network that does not return numbers (B, M)
            or has no trainable parameter.
        NumericalError: when a loss is not finite; it names the step.
        ResultError: when the checkpoint is of another training, damaged, or cannot be written.
    """
    through, clean = switch("through", through), not switch("pseudo_annotators", pseudo_annotators)
    embedding, rows = _initial_embedding(body, widths, episodes, seed_number(seed)), rows.to(check_device(device))
    meta_train(
        embedding.to(rows.device),
        episodes,
        _loss(em, rows, through),
        iterations=iterations,
        batch=batch,
        learning_rate=learning_rate,
        seed=seed,
        clean=clean,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        about=[through, _function_name(em), rows.tolist()],
    )
    return embedding.requires_grad_(False).cpu()


def meta_train(
    embedding: Embedding,
    episodes: EpisodeSampler,
    loss: Callable[[Embedding, Tasks], Tensor],
    *,
    iterations: int,
    batch: int,
    learning_rate: float,
    seed: int = 0,
    clean: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 50,
    about: Sequence[Any] = (),
) -> list[float]:
    """Trains an embedding on few-shot tasks, in place, by Adam with a rate that falls to 0 along a cosine.

    ``loss`` is of a batch of tasks; ``clean`` annotators are always right; checkpoints are as for
    ``meta_trained``, told apart by ``about``, further settings. Returns the loss of each step.

    MethodError for settings out of range, NumericalError for a loss that is not finite, with its step, ResultError
    for a checkpoint of another training, or a damaged one.
    """
    iterations, batch = whole_number("iterations", iterations, 1), whole_number("batch", batch, 1)
    seed, every = seed_number(seed), whole_number("checkpoint_every", checkpoint_every, 1)
    learning_rate = number_within("learning_rate", learning_rate, "a number above 0", lambda x: x > 0)
    optimiser, kept = torch.optim.Adam(embedding.parameters(), lr=learning_rate), None
    if checkpoint is not None:
        key = _key(embedding, episodes, [iterations, batch, learning_rate, seed, clean, *about])
        kept = Checkpoint(check_path(checkpoint), every, key, *_state(embedding, optimiser))
    losses: list[float] = [] if kept is None else kept.resume(None)[1]
    embedding.train()
    with seeded(seed):
        for step in range(len(losses), iterations):
            seed_streams((seed * iterations + step) % SEEDS)  # a training can resume after any step
            for group in optimiser.param_groups:
                group["lr"] = 0.5 * learning_rate * (1 + math.cos(math.pi * step / iterations))
            tasks = episodes.draw(batch, (seed, step), clean=clean).to(device_of(embedding))
            cost = loss(embedding, tasks)
            if not bool(torch.isfinite(cost)):
                raise NumericalError(
                    f"the loss is {cost.item()} in step {step + 1} of meta-training; lower learning_rate "
                    f"({learning_rate:g}), or scale the features"
                )
            optimiser.zero_grad()
            cost.backward()
            optimiser.step()
            losses.append(float(cost.detach()))
            if kept is not None:
                kept.keep(None, len(losses) == iterations)
    embedding.eval()
    return losses


def _loss(em: Callable[..., UnrolledEM], rows: Tensor, through: bool) -> Callable[[Embedding, Tasks], Tensor]:
    """The cross-entropy of query items, given the result of EM on the support items."""

    def loss(network: Embedding, tasks: Tasks) -> Tensor:
        support, query = network.places(tasks.support), network.places(tasks.query)
        found = em(support, tasks.item, tasks.annotator, tasks.label, rows.expand(tasks.n_annotators, -1, -1))
        log_p = (found if through else found.detach()).log_shares(query)
        return nn.functional.nll_loss(log_p.flatten(0, 1), tasks.asked.flatten())

    return loss


def _state(
    embedding: Embedding, optimiser: torch.optim.Optimizer
) -> tuple[Callable[[None], Arrays], Callable[[Arrays, int], None]]:
    """Functions that save and restore the state of a training."""

    def save(_: None) -> Arrays:
        return network_arrays(embedding, "network") | optimiser_arrays(optimiser)

    def restore(arrays: Arrays, _: int) -> None:
        restore_network(embedding, "network", arrays)
        restore_optimiser(optimiser, arrays)

    return save, restore


def _key(embedding: Embedding, episodes: EpisodeSampler, about: Sequence[Any]) -> str:
    """A digest of a training's settings, its features, and the tasks of its first and last step."""
    iterations, batch, _, seed, clean, *_ = about
    drawn = [episodes.draw(batch, (seed, step), clean=clean) for step in (0, iterations - 1)]
    tensors = [(name, x) for tasks in drawn for name, x in vars(tasks).items() if isinstance(x, torch.Tensor)]
    table = ("table", episodes.table)
    return digest_of([*about, *episodes.about, repr(embedding)], [*learned_arrays(embedding), table, *tensors])


def _function_name(function: Any) -> list[str]:
    """A function's name and the arguments of ``functools.partial``."""
    given = []
    while isinstance(function, partial):
        given += [repr(function.args), repr(sorted(function.keywords.items()))]
        function = function.func
    return [function.__module__, getattr(function, "__qualname__", type(function).__qualname__), *given]


def _initial_embedding(
    body: nn.Module | None, widths: Sequence[int], episodes: EpisodeSampler, seed: int
) -> Embedding:
    """The embedding before its first step."""
    if not isinstance(episodes, EpisodeSampler):
        raise MethodError(
            f"episodes is {kind_of(episodes)}; give crowdppl.few_shot.EpisodeSampler(truth, features, ...)"
        )
    embedding = embedding_for(body, episodes.table, widths, seed)
    if not embedding.learning:
        raise MethodError(
            "the embedding has no trainable parameter; give it layers, or unfreeze some with requires_grad_(True)"
        )
    return embedding
