"""How much the volume of a network's predictions is to count: labels of items that were left out say it."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crowdppl.data.annotations import row_codes
from crowdppl.data.split import keep
from crowdppl.errors import MethodError, NumericalError
from crowdppl.evaluation.heldout import classifier_score, lead
from crowdppl.inference.options import used_by
from crowdppl.networks.classifier import learns
from crowdppl.networks.outputs import networks_of
from crowdppl.networks.training import VOLUMES

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.inference.checkpoint import Beforehand
    from crowdppl.inference.options import Options
    from crowdppl.primitives.model import Story

AHEAD = 1.0
"""Standard errors by which the next larger one has to be ahead; where networks fall apart, it is far behind."""
FOLDS = 3
FEWEST, MOST = 300, 10_000
"""Items with labels: among fewer, no difference would show; of more, these many are looked at."""


def chosen(
    asked: Story,
    ready: Story,
    data: Annotations,
    inference: str,
    options: Options,
    kept: Beforehand | None = None,
) -> tuple[float, dict[str, float]]:
    """The volume with which a story's network is to be trained on these data, found without gold.

    Volumes are tried on labels of items left out (``classifier_score``), and the next larger one is tried as long
    as the last was ahead by more than a standard error. Volume makes the truth identifiable where a network would
    rather learn the errors that an item's annotators share (Ibrahim, Nguyen & Fu 2023), but too much of it tears
    classes apart that look alike; which of the two will happen, held-out labels of the same item do not tell, and
    labels of items left out do.

    Args:
        asked, ready: the story before ``prepare``, and after it, with a network.
        data: the annotations.
        inference, options: of the fit that will follow; its seed also deals out the folds.
        kept: where trials are kept, and those that ended with a score are not repeated.

    Returns:
        The volume, and the mean log-probability of an item's labels by each that was tried: empty where labels are
        too few or nothing of the network is to be learned, and without one under which networks met numbers that
        are not finite.

    Raises:
        MethodError: for a story that is no dataclass, of which no copy with another training can be made.
        KeyboardInterrupt: at Ctrl-C in one of the trials.
    """
    if not is_dataclass(asked):
        raise MethodError(
            f"training: volume='auto' fits copies of the story, and {type(asked).__name__} is no dataclass; give a "
            f"number, such as {VOLUMES[0]}"
        )
    item, _ = row_codes(data.blocks, data.order)
    told = np.unique(item)
    if len(told) < FEWEST or not any(map(learns, networks_of(ready).values())):
        return VOLUMES[0], {}
    if len(told) > MOST:
        some = np.random.default_rng(options.seed).choice(told, MOST, replace=False)
        data = keep(data, np.isin(item, some))
    taken, best = VOLUMES[0], _scores(asked, data, inference, options, VOLUMES[0], kept)
    found = {str(taken): float(best.mean())}
    for volume in VOLUMES[1:]:
        try:
            tried = _scores(asked, data, inference, options, volume, kept)
        except NumericalError:
            break
        found[str(volume)] = float(tried.mean())
        gain, error = lead(tried, best)
        if gain <= AHEAD * error:
            break
        taken, best = volume, tried
    return taken, found


def _scores(
    story: Story, data: Annotations, inference: str, options: Options, volume: float, kept: Beforehand | None
) -> np.ndarray:
    """How well a network that was trained with a volume explains labels of items left out: log_p of each, (n,).

    Trials train as long as fits do: a larger volume takes longer to show what it is good for.
    """
    name, before = f"volume {volume}", {} if kept is None else kept.found()
    if name in before:
        return np.asarray(before[name])
    build: Any = replace
    training = {**getattr(story, "training", {}), "volume": volume, "patience": 0}
    trial = build(story, training=training)
    given: Any = used_by(inference, options.kept())
    score = classifier_score(trial, data, folds=FOLDS, inference=inference, **given)
    log_p = score.items["log_p"].to_numpy(copy=True)
    if kept is not None:
        kept.add(name, torch.from_numpy(log_p))
    return log_p
