"""Labels that are classes in an order, such as grades."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.ids import as_number, native
from crowdppl.data.kinds.classes import PLAIN, Classes
from crowdppl.data.kinds.space import GRADES
from crowdppl.data.notation import OUT_OF
from crowdppl.errors import DataError

CRITERION = "criterion"
"""The column of labels that grade items on several criteria."""
FEWEST = 3
"""Classes in a row that may be grades."""
SCALES = (
    ("terrible", "bad", "poor", "fair", "average", "okay", "good", "very good", "great", "excellent"),
    ("very negative", "negative", "neutral", "positive", "very positive"),
    ("none", "very low", "low", "moderate", "medium", "high", "very high"),
    ("none", "slight", "mild", "moderate", "severe", "extreme"),
    ("never", "rarely", "seldom", "sometimes", "often", "usually", "always"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("irrelevant", "not relevant", "partially relevant", "relevant", "highly relevant"),
    ("easy", "medium", "hard"),
    ("small", "medium", "large"),
)
"""Words of common scales, from lowest to highest."""
ALIKE = {"severity": 0.0, "slopes": 0.0, "centrality": 0.0, "consistency": 0.0}
"""Settings that take all raters to be alike, so that the mean of grades tells an item's place."""


def order_of(classes: pd.Index[Any]) -> list[Any] | None:
    """Classes from lowest to highest, where three or more are whole numbers in a row, or words of one scale."""
    names = [native(value) for value in classes]
    if len(names) < FEWEST:
        return None
    numbers = np.array([as_number(value) for value in names])
    if np.isfinite(numbers).all():
        return sorted(names, key=as_number) if (np.diff(np.sort(numbers)) == 1).all() else None
    words = {str(name).strip().lower().replace("_", " "): name for name in names}
    for scale in SCALES:
        if len(words) == len(names) and {*words} <= {*scale}:
            return [words[word] for word in scale if word in words]
    return None


@dataclass(frozen=True)
class Ordinal(Classes):
    """Classes in an order: as they are listed, or that of numbers."""

    def candidates_of(
        self, columns: pd.DataFrame, known: np.ndarray | None, n_classes: int
    ) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Of grades on several criteria, their mean or facets."""
        if CRITERION not in columns:
            return super().candidates_of(columns, known, n_classes)
        of_criteria = {"criterion": CRITERION}
        return {"mean of grades": ("rater_facets", ALIKE), "rater_facets": ("rater_facets", of_criteria)}

    def in_order(self, classes: pd.Index[Any]) -> pd.Index[Any]:
        """Grades by their numeric value; DataError when one is no number, or two are the same number."""
        shares = [OUT_OF.fullmatch(str(native(value)).strip()) for value in classes]
        of_one = len({found and found[2] for found in shares}) == 1
        grades = np.array(
            [as_number(found[1] if found and of_one else x) for x, found in zip(classes, shares, strict=True)]
        )
        if np.isnan(grades).any():
            wrong = native(classes[int(np.argmax(np.isnan(grades)))])
            raise DataError(f"the ordinal class {wrong!r} is no number; list the classes in order in classes=")
        found = classes[np.argsort(grades, kind="stable")]
        same = np.flatnonzero(np.diff(np.sort(grades)) == 0)
        if len(same):
            one, other = (native(found[int(same[0]) + step]) for step in (0, 1))
            raise DataError(f"{one!r} and {other!r} are the same grade; spell it one way, or list classes=")
        return found


ORDINAL = Ordinal(
    "ordinal",
    "grades",
    "grades, whose order matters",
    GRADES,
    called="grades",
    aliases=("grade", "rating", "ratings", "likert", "ordered", "stars"),
    methods=(*PLAIN, "ordinal"),
    table="fair_averages",
    members={"ordinal": {}},
)
