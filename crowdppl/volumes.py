"""How much the volume of a network's predictions is to count: labels of items that were left out say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.classifier_scores import ClassifierScore, classifier_score
from crowdppl.decoding import row_codes
from crowdppl.errors import MethodError, NumericalError
from crowdppl.sight import networks_of
from crowdppl.splitting import keep
from crowdppl.training import Training, training_of

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations
    from crowdppl.inference.options import Options
    from crowdppl.story import Story

SMALL, LARGE = 0.003, 0.02
"""One that serves nearly everywhere, and one that finds the truth where an item's labels err together."""
AHEAD = 1.0
"""Standard errors by which the larger one has to be ahead; where networks fall apart, it is far behind."""
FOLDS = 3
FEWEST, MOST = 300, 10_000
"""Items with labels: among fewer, no difference would show; of more, these many are looked at."""
LEARNED = 5
"""Epochs after the warm-up that a trial has at least, where the training has as many."""


def chosen(
    asked: Story, ready: Story, data: Annotations, inference: str, options: Options
) -> tuple[float, dict[str, float]]:
    """The volume with which a story's network is to be trained on these data, found without gold.

    Both volumes are tried on labels of items left out (``classifier_score`` in half of the epochs), and the larger
    is taken where it is ahead by more than a standard error. Volume makes the truth identifiable where a
    network would rather learn the errors that an item's annotators share (Ibrahim, Nguyen & Fu 2023), but too much
    of it tears classes apart that look alike; which of the two will happen, held-out labels of the same item do
    not tell, and labels of items left out do.

    Args:
        asked, ready: the story before ``prepare``, and after it, with a network.
        data: the annotations.
        inference, options: of the fit that will follow; its seed also deals out the folds.

    Returns:
        The volume, and the mean log-probability of an item's labels by volume: empty where labels are too few or
        nothing of the network is to be learned, and without the larger volume where networks met numbers that are
        not finite under it.

    Raises:
        MethodError: for a story that is no dataclass, of which no copy with another training can be made.
        KeyboardInterrupt: at Ctrl-C in one of the trials.
    """
    if not is_dataclass(asked):
        raise MethodError(
            f"training: volume='auto' fits copies of the story, and {type(asked).__name__} is no dataclass; give a "
            f"number, such as {SMALL}"
        )
    learns = any(x.requires_grad for network in networks_of(ready).values() for x in network.parameters())
    item, _ = row_codes(data.blocks, data.order)
    told = np.unique(item)
    if len(told) < FEWEST or not learns:
        return SMALL, {}
    if len(told) > MOST:
        some = np.random.default_rng(options.seed).choice(told, MOST, replace=False)
        data = keep(data, np.isin(item, some))
    small = _score(asked, data, inference, options, SMALL)
    try:
        large = _score(asked, data, inference, options, LARGE)
    except NumericalError:
        return SMALL, {str(SMALL): small.per_item}
    gain, error = large.ahead_of(small)
    found = {str(SMALL): small.per_item, str(LARGE): large.per_item}
    return (LARGE if gain > AHEAD * error else SMALL), found


def _score(story: Story, data: Annotations, inference: str, options: Options, volume: float) -> ClassifierScore:
    """How well a network that was trained with a volume explains labels of items left out."""
    build: Any = replace
    trial = build(story, training=_shorter(story, data, volume))
    return classifier_score(trial, data, folds=FOLDS, inference=inference, **options.kept())


def _shorter(story: Story, data: Annotations, volume: float) -> Mapping[str, Any]:
    """The training that a story would have on these data, cut down for a trial."""
    prepare = getattr(story, "prepare", None)
    whole = getattr(story if prepare is None else prepare(data), "training", {})
    training: Training = training_of(whole)
    epochs = min(training.length, max(-(-training.length // 2), training.warm_up + LEARNED))
    return {**whole, "volume": volume, "epochs": epochs, "patience": 0, "stop_after": None}
