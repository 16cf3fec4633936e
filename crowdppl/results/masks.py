"""Masks inferred from those of several people."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from crowdppl.data.ids import native
from crowdppl.data.masks import PIXEL
from crowdppl.errors import MethodError
from crowdppl.inference.result import Fit


class Mask(NamedTuple):
    """What a fit says of an image.

    Attributes:
        probabilities: float64 (H, W, K), of each class at each pixel.
        labels: (H, W), the most probable class.
    """

    probabilities: np.ndarray
    labels: np.ndarray


def masks(posterior: Fit) -> dict[Hashable, Mask]:
    """The masks that a fit to ``Annotations.from_masks`` infers, as arrays by image.

    Returns:
        For each image, ``probabilities`` (H, W, K), with classes in the order of ``data.classes``, and ``labels``
        (H, W). One image that was given without a name is 0.

    Raises:
        MethodError: for labels that are no masks.

    Examples:
        >>> import numpy as np
        >>> disk = np.hypot(*np.mgrid[-8:9, -8:9]) < 6
        >>> drawn = {"ann": disk, "bob": np.roll(disk, 1, 0), "eve": np.roll(disk, 1, 1)}
        >>> data = crowdppl.Annotations.from_masks(drawn)
        >>> mask = crowdppl.fit("potts_dawid_skene", data, inference="vb", seed=0).masks()[0]
        >>> mask.probabilities.shape, bool((mask.labels == disk).mean() > 0.95)
        ((17, 17, 2), True)
    """
    data = posterior.data
    table = data.item_covariates
    if table is None or not {*PIXEL} <= {*table}:
        raise MethodError("these labels are no masks; read masks by crowdppl.Annotations.from_masks")
    image, row, column = (table[name] for name in PIXEL)
    p, found = posterior.result.probabilities, {}
    names = data.classes.to_numpy()
    for name in image.unique():
        at = np.flatnonzero(image == name)
        place = row.to_numpy()[at], column.to_numpy()[at]
        share = np.full((int(place[0].max()) + 1, int(place[1].max()) + 1, p.shape[1]), np.nan)
        share[place] = p[at]
        found[native(name)] = Mask(share, names[share.argmax(-1)])
    return found
