"""Settings by which networks are trained, and the default recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.validation import Count, NotNegative, Positive, Whole, check_settings, is_whole, number_within
from crowdppl.data.annotations import Annotations, feature_tensor, has_informative_label
from crowdppl.errors import MethodError

VOLUMES = (0.003, 0.02, 0.05)
"""One that serves nearly everywhere, and larger ones, which find the truth where an item's labels err together."""


@dataclass(frozen=True)
class Training:
    """Settings of the network's part of a fit.

    Attributes:
        epochs: passes over the items; before each, the truth's probabilities and the annotators are brought up to
            date.
        patience: epochs without gain after which training stops, judged by a tenth of the labels, which a first
            training leaves out (of the items, where none has labels of two annotators); 0 trains to the end.
        stop_after: epochs after which training ends, on a schedule made for ``epochs``; what ``patience`` finds.
        learning_rate: of AdamW at the start; it falls to 0 along a cosine.
        weight_decay: of AdamW.
        annotator_rate: how many times faster annotators' parameters learn than the network, under svi.
        batch_size: items a step.
        warm_up: epochs in which the network learns vote shares, before it has a say, and annotators stay as the
            votes made them; svi has none.
        mixup: parameter of the Beta distribution from which blends of two items are drawn (Zhang et al. 2018,
            "mixup: beyond empirical risk minimization"); 0 blends none. Under svi a blend is asked for the
            labels of both, so that networks look at items twice.
        balance: weight of a term that draws the mean prediction of a batch to ``shares``; 0 has none.
        shares: of the classes: "uniform", "votes", or "auto", which is uniform where votes are nearly even (their
            relative entropy to it is below a fortieth of log K), and elsewhere balances nothing.
        volume: weight of log det F'F of a batch's predictions F (Ibrahim, Nguyen & Fu 2023, "Deep learning from
            crowdsourced labels: coupled cross-entropy minimization, identifiability, and regularization"); "auto"
            takes 0.003, or 0.02 or 0.05 where labels of items left out ask for more, at the cost of six or nine
            fits to parts of the data (its ``diagnostics()["volumes"]`` has the scores). Where fewer than 300 items
            have labels, too few to tell, it is 0.003 without trials.
        full_batch: learn from all items at once by a line search, without chance, so that the objective of em and
            vb never falls. Nothing is dropped out, ``batch_size`` and ``learning_rate`` mean nothing, ``epochs``
            are the most there may be. Give more ``weight_decay``, such as 0.01: with little, a network learns
            errors by heart.
        networks: how many default networks learn the same truth, each from batches and blends of its own; their
            mean probabilities have the say. Features on disk are read once for each. Under svi and in full batch
            they share one loss, that of their mean. A network that is given, and a view of items that is not the
            classifier, is one whatever this says.
        hidden, dropout: units of the default network's hidden layer, and the share of them that a step leaves out.
        precision: "full" computes in float32; "mixed" lets networks compute in bfloat16 where ``torch.autocast``
            holds that for safe, which is faster on GPUs made for it. Logits are then right to two or three digits;
            weights, losses, log-probabilities and all that belongs to annotators stay as they are. bfloat16 reaches
            as far down as float32, so that gradients need no scaling.
    """

    epochs: Count = 30
    patience: Whole = 0
    stop_after: Count | None = None
    learning_rate: Positive = 1e-3
    weight_decay: NotNegative = 1e-4
    annotator_rate: Positive = 10.0
    batch_size: Count = 64
    warm_up: Whole = 3
    mixup: NotNegative = 0.0
    balance: NotNegative = 0.0
    shares: Literal["auto", "uniform", "votes"] = "auto"
    volume: NotNegative | Literal["auto"] = 0.0
    networks: Count = 1
    hidden: Count = 128
    dropout: NotNegative = 0.5
    precision: Literal["full", "mixed"] = "full"
    full_batch: Literal[False, True] = False

    def __post_init__(self) -> None:
        check_settings(self, "training: ")
        if self.full_batch and self.precision == "mixed":
            raise MethodError(
                "training: full_batch=True looks for gains smaller than precision='mixed' can tell; leave one out"
            )
        if self.stop_after is not None and not 1 <= self.stop_after <= self.epochs:
            raise MethodError(f"training: stop_after={self.stop_after} must be between 1 and epochs={self.epochs}")
        if self.dropout >= 1:
            raise MethodError(f"training: dropout={self.dropout} must be below 1")

    @property
    def length(self) -> int:
        """Epochs that there will be."""
        return self.stop_after or self.epochs


def training_of(settings: Mapping[str, Any]) -> Training:
    """Checks settings by name.

    Raises:
        MethodError: for a setting that there is not, or a value out of range.
    """
    if not isinstance(settings, Mapping):
        raise MethodError(f"training={settings!r} must be settings by name, such as {{'epochs': 60}}")
    known = [field.name for field in fields(Training)]
    for name in settings:
        if name not in known:
            raise MethodError(f"training has no setting {name!r}; choose from {', '.join(known)}")
    return Training(**settings)


def log_volume(m: Tensor) -> Tensor:
    """Log det M'M of a matrix (..., R, K): how far its columns span (Ibrahim, Nguyen & Fu 2023, section 4).

    A millionth is added to the diagonal, so that columns that are the same have a volume, too.

    Examples:
        >>> import torch
        >>> crowdppl.networks.log_volume(torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
        tensor(-2.7726)
    """
    gram = m.transpose(-1, -2) @ m
    return torch.logdet(gram + 1e-6 * torch.eye(m.shape[-1], device=m.device, dtype=m.dtype))


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


def default_training(data: Annotations, /, **more: Any) -> dict[str, Any]:
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
        >>> crowdppl.default_training(crowdppl.digits(seed=0).data, epochs=5)["epochs"]
        5
    """
    features = feature_tensor(data)
    labelled = sum(int(has_informative_label(block).sum()) for block in data.blocks)
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


def default_recipe(
    data: Annotations,
    *,
    training: Mapping[str, Any] | None = None,
    likelihood_power: float = TEMPER,
    crowd_prior_strength: float = POOLED,
) -> dict[str, Any]:
    """The whole house recipe, as settings of a method of one truth an item: its training, likelihood_power and crowd_prior_strength rows.

    ``fit("ccem", data, settings={"likelihood": "joint", **default_recipe(data)}, inference="svi")`` takes it. em
    learns no prior, and ``global_noise`` has one confusion matrix: give ``crowd_prior_strength=0`` for these.

    Args:
        data: the annotations, with features.
        training: settings of ``Training`` that win over those of ``default_training``, such as ``{"volume": 0.02}``:
            trials of it take five to ten times as long as a fit.
        likelihood_power: power of the labels' likelihood: below 1, an item's labels count for less than independent ones.
        crowd_prior_strength: pseudo-counts of a confusion row that are shared as the crowd has them; 0 leaves the setting out.

    Returns:
        Settings by name. What they change, method by method, is among the benchmarks ("The house recipe in other
        joint methods"); ``bayes_dgc`` takes them by default.

    Raises:
        DataError: for what is no annotations.
        MethodError: when likelihood_power or crowd_prior_strength is out of range, or training has no such setting.

    Examples:
        >>> found = crowdppl.default_recipe(crowdppl.digits(seed=0).data, training={"volume": 0.02})
        >>> sorted(found), found["training"]["volume"]
        (['crowd_prior_strength', 'likelihood_power', 'training'], 0.02)
    """
    likelihood_power = number_within("likelihood_power", likelihood_power, "a number above 0", lambda x: x > 0)
    crowd_prior_strength = number_within(
        "crowd_prior_strength", crowd_prior_strength, "a number from 0 on", lambda x: x >= 0
    )
    given = {} if training is None else training
    training_of(given)
    rows = {"crowd_prior_strength": crowd_prior_strength} if crowd_prior_strength else {}
    return {"training": default_training(data, **given), "likelihood_power": likelihood_power, **rows}
