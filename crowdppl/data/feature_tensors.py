"""The features of annotations as networks take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from crowdppl.data.feature_values import numbers_of
from crowdppl.data.stored_features import Features, StoredFeatures, taken
from crowdppl.doors.demands import require_data

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


def feature_tensor(data: Annotations) -> Features | None:
    """Features in codebook order, float32 (N, ...); None where the data have none."""
    given = require_data(data).features
    if given is None or isinstance(given, StoredFeatures):
        return given
    return torch.from_numpy(np.array(numbers_of(given), np.float32))


def placed_features(data: Annotations) -> Features | None:
    """Features by position, as blocks hold items; None where the data have none."""
    found = feature_tensor(data)
    return None if found is None else taken(found, torch.from_numpy(data.order.astype(np.int64)))
