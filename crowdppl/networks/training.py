"""Settings by which networks are trained, and the default recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from crowdppl.core.collective import reduced
from crowdppl.core.validation import (
    Count,
    NotNegative,
    Positive,
    Whole,
    check_settings,
    is_whole,
    number_within,
    refuse_unknown,
    shown,
)
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import has_informative_label
from crowdppl.data.features import feature_tensor
from crowdppl.errors import MethodError

VOLUMES = (0.003, 0.02, 0.05)
"""A weight that suits most data, and larger ones, for data where the labels of an item err together."""


@dataclass(frozen=True)
class Training:
    """Settings of the network's part of a fit.

    Attributes:
        epochs: passes over the items; before each, the truth's probabilities and the annotators are updated.
        patience: epochs without gain after which training stops, measured on a tenth of the labels (or of the
            items, where none has labels of two annotators), which a first training leaves out; 0 trains to the end.
        stop_after: epochs after which training ends, on a schedule made for ``epochs``; the result of ``patience``.
        learning_rate: of AdamW at the start; it falls to 0 along a cosine.
        weight_decay: of AdamW.
        annotator_rate: how many times faster annotators' parameters learn than the network, under svi.
        batch_size: items per step.
        warm_up: epochs in which the network learns vote shares without influence on the truth, and annotators stay
            as the votes made them; svi has none.
        mixup: parameter of the Beta distribution from which blends of two items are drawn (Zhang et al. 2018,
            "mixup: beyond empirical risk minimization"); 0 blends none. Under svi a blend has the labels of both
            items, so that networks read items twice.
        balance: weight of a term that draws the mean prediction of a batch to ``shares``; 0 has none.
        shares: of the classes: "uniform", "votes", or "auto": uniform where votes are nearly even (their relative
            entropy to it is below a fortieth of log K), and no balance elsewhere.
        volume: weight of log det F'F of a batch's predictions F (Ibrahim, Nguyen & Fu 2023, "Deep learning from
            crowdsourced labels: coupled cross-entropy minimization, identifiability, and regularization"). "auto"
            takes 0.003, or 0.02 or 0.05 where these predict held-out labels better, at the cost of six or nine fits
            to parts of the data (scores are in ``diagnostics()["volumes"]``). With fewer than 300 labelled items it
            is 0.003 without trials.
        full_batch: learn from all items at once by a line search, without randomness, so that the objective of em
            and vb never falls. ``epochs`` is then an upper limit; dropout, ``batch_size`` and ``learning_rate`` are
            not used. It overfits unless ``weight_decay`` is larger, such as 0.01.
        networks: number of default networks that learn the same truth, each from batches and blends of its own;
            their mean probabilities are used. Under svi and in full batch they share the loss of their mean. A
            network that is given, and one beside the classifier, is a single one.
        hidden, dropout: units of the default network's hidden layer, and the share of them that a step leaves out.
        precision: "full" computes in float32. "mixed" lets networks compute in bfloat16 where ``torch.autocast``
            considers it safe, which is faster on some GPUs; logits are then right to two or three digits. Weights,
            losses, log-probabilities and annotators' parameters keep their precision.
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
                "training: full_batch=True needs more precise gains than precision='mixed' has; leave one out"
            )
        if self.stop_after is not None and not 1 <= self.stop_after <= self.epochs:
            raise MethodError(f"training: stop_after={self.stop_after} must be between 1 and epochs={self.epochs}")
        if self.dropout >= 1:
            raise MethodError(f"training: dropout={self.dropout} must be below 1")

    @property
    def length(self) -> int:
        """Number of epochs."""
        return self.stop_after or self.epochs


def training_of(settings: Mapping[str, Any]) -> Training:
    """``Training`` with settings by name; MethodError for an unknown one, or a value out of range."""
    if not isinstance(settings, Mapping):
        raise MethodError(f"training={shown(settings)} must be settings by name, such as {{'epochs': 60}}")
    refuse_unknown("training", "setting", settings, [field.name for field in fields(Training)])
    return Training(**settings)


def log_volume(m: Tensor) -> Tensor:
    """Log det M'M of a matrix (..., R, K), the volume that its columns span (Ibrahim, Nguyen & Fu 2023, section 4).

    A millionth is added to the diagonal, so that it is finite for equal columns.

    Examples:
        >>> import torch
        >>> crowdppl.networks.log_volume(torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
        tensor(-2.7726)
    """
    return log_volume_of(m.transpose(-1, -2) @ m)


def log_volume_of(gram: Tensor) -> Tensor:
    """Log det of M'M (..., K, K), to whose diagonal a millionth is added."""
    return torch.logdet(gram + 1e-6 * torch.eye(gram.shape[-1], device=gram.device, dtype=gram.dtype))


STEPS = 1300
"""Steps of the optimiser: fewer underfit hard data, many more overfit the annotators' errors."""
FEWEST, MOST = 10, 120
"""Bounds of the number of epochs."""
MEMBERS = 5
"""Networks in an ensemble where items are few, so that results depend less on the seed."""
POWER, CROWD = 0.5, 14.0
"""The recipe's power of the labels' likelihood, and its pseudo-counts of the crowd's rows."""
RATE = 0.011
"""Learning rate of a table with one feature; it falls with the root of their number, as sums over features grow."""


def default_training(data: Annotations, /, **more: Any) -> dict[str, Any]:
    """Training that suits small data with few labels, adapted to the number of items and features.

    Mixup, balance, a bonus for volume ("auto", or small in full batch and with fewer epochs than the recipe's),
    little dropout, and five networks (one for many items, or in full batch). The numbers were chosen on LabelMe and
    Music with their gold, so that accuracies on these two are somewhat optimistic.

    Args:
        data: the annotations, with features.
        more: settings of ``Training`` that override the recipe.

    Returns:
        Settings for ``training=`` of any method whose classifier is one network, under em, vb and svi.

    Examples:
        >>> crowdppl.default_training(crowdppl.digits(seed=0).data, epochs=5)["epochs"]
        5
    """
    features = feature_tensor(data)
    labelled = reduced(sum(int(has_informative_label(block).sum()) for block in data.blocks))
    steps = math.ceil(max(1, labelled) / Training.batch_size)
    epochs = int(np.clip(math.ceil(STEPS / steps), FEWEST, MOST))
    wanted = more.get("epochs", epochs)
    hasty = more.get("full_batch") or (is_whole(wanted) and int(wanted) < epochs)
    out: dict[str, Any] = {
        "epochs": epochs,
        "dropout": 0.2,
        "mixup": 0.0 if more.get("full_batch") else 1.0,  # blends are random
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
    likelihood_power: float = POWER,
    crowd_prior_strength: float = CROWD,
) -> dict[str, Any]:
    """The default recipe for classifiers: settings of methods whose items have one truth.

    ``fit("ccem", data, settings={"likelihood": "joint", **default_recipe(data)}, inference="svi")`` uses it. Give
    ``crowd_prior_strength=0`` for em, which learns no prior, and for ``global_noise``, which has one confusion
    matrix. ``bayes_dgc`` uses the recipe by default.

    Args:
        data: the annotations, with features.
        training: settings of ``Training`` that override those of ``default_training``, such as
            ``{"volume": 0.02}``: the trials of "auto" take five to ten times as long as a fit.
        likelihood_power: power of the labels' likelihood; below 1, an item's labels count for less.
        crowd_prior_strength: pseudo-counts of a confusion row that follow the crowd's learned row; 0 leaves the
            setting out.

    Returns:
        Settings by name: training, likelihood_power and crowd_prior_strength.

    Raises:
        DataError: when data are no annotations.
        MethodError: when a value is out of range, or training has no such setting.

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
    crowd = {"crowd_prior_strength": crowd_prior_strength} if crowd_prior_strength else {}
    return {"training": default_training(data, **given), "likelihood_power": likelihood_power, **crowd}
