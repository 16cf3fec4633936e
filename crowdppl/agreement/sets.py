"""Agreement of sets of classes, which may agree in part."""

from __future__ import annotations

import numpy as np
import pandas as pd

from crowdppl.agreement.votes import DeduplicatedVotes
from crowdppl.core.memory import require_memory
from crowdppl.data.annotations import Annotations
from crowdppl.data.sets import NO_YES, OF_SETS


def set_votes(data: Annotations) -> tuple[DeduplicatedVotes, np.ndarray]:
    """Votes for whole sets, each distinct set being one class, and its members, bool (sets, C).

    Sets of which an answer is missing, or an abstention, are left out. Where an annotator gave an item several, the
    answers about each class belong to them in order.
    """
    assert data.item_covariates is not None
    answer_item, annotator, answer = data.label_codes()
    item, of_class = (data.item_covariates[name].cat for name in OF_SETS)
    at, n_classes = item.codes.to_numpy()[answer_item], len(of_class.categories)
    turn = pd.Series(answer).groupby([answer_item, annotator]).cumcount().to_numpy()
    places, place = np.unique(np.stack([at, annotator, turn]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    whole = np.bincount(place, answer < len(NO_YES)) == n_classes
    members = np.zeros((places.shape[1], n_classes), bool)
    members[place, of_class.codes.to_numpy()[answer_item]] = answer == NO_YES.index("yes")
    known, code = np.unique(members[whole], axis=0, return_inverse=True)
    at, annotator, _ = places[:, whole]
    return DeduplicatedVotes.of_codes(at, annotator, code.reshape(-1), data.n_annotators, len(known)), known


def masi_distances(members: np.ndarray) -> np.ndarray:
    """MASI distance of each two sets, (sets, sets), from their members, bool (sets, C).

    One minus the Jaccard index times 1 for equal sets, 2/3 where one contains the other, 1/3 where they overlap
    (Passonneau 2006, Measuring agreement on set-valued items (MASI) for semantic and pragmatic annotation, LREC).
    Two empty sets are equal.
    """
    n = len(members)
    require_memory(f"distances of {n:,} different sets", 4 * 8 * n**2, "leave rare classes out")
    both = members.astype(np.float64) @ members.T
    size = members.sum(1)
    least, union = np.minimum.outer(size, size), np.add.outer(size, size) - both
    monotonicity = np.select([both == union, both == least, both > 0], [1, 2 / 3, 1 / 3], 0)
    return np.asarray(1 - np.where(union > 0, both / np.maximum(union, 1), 1) * monotonicity)
