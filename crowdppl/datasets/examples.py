"""Small data sets that are written out: the anaesthetists, and an example of each kind of labels."""

from __future__ import annotations

import warnings

import numpy as np

from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds import kind_named
from crowdppl.errors import CrowdpplWarning, RepeatsWarning

READINGS = """
1111111 3334334 1122122 2223121 2223222 2223322 1122111 3333433 2222223
2322223 4444444 2223343 1111111 2223212 1211111 1112111 1111111 1111111
2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222
1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""
"""One word a patient: observer 1 three times, then observers 2 to 5."""

OBSERVERS = ("1", "1", "1", "2", "3", "4", "5")


def anaesthetists(kind: str = "nominal") -> Annotations:
    """Five anaesthetists judge the fitness of 45 patients for a general anaesthetic, in 4 classes.

    Observer "1" saw every case three times, so that two of the three labels are repeats, all of which count.
    Items are patients 1 to 45, classes are 1 to 4. There is no gold.

    Args:
        kind: of the labels, which are grades: "nominal", "ordinal", or "real" for a model of numbers.

    Source: Dawid and Skene (1979), Maximum likelihood estimation of observer error-rates using the EM algorithm,
    Applied Statistics 28, Table 1, doi 10.2307/2346806.

    Examples:
        >>> crowdppl.anaesthetists()
        Annotations(45 items, 5 annotators, 4 classes, 315 labels)
    """
    labels = np.array([list(word) for word in READINGS.split()], dtype=np.int64)
    patients = np.arange(1, len(labels) + 1)
    with warnings.catch_warnings(action="ignore", category=RepeatsWarning):
        return Annotations.from_arrays(
            np.repeat(patients, len(OBSERVERS)), np.tile(OBSERVERS, len(patients)), labels.reshape(-1), kind=kind
        )


def example(kind: str = "nominal") -> Annotations:
    """A small data set of a kind of labels, on which a method can be tried.

    Args:
        kind: what ``kind=`` of annotations says; those that grades can have are ``anaesthetists``.

    Examples:
        >>> crowdppl.datasets.example("pair").frame().head(2)
                  item annotator label
        0  apple | fig       ann  left
        1  apple | fig       bob  left
    """
    given = kind_named(kind).example
    if given is None:
        return anaesthetists(kind)
    items, labels = given
    item, annotator = np.divmod(np.arange(3 * len(items)), 3)
    label = np.where(np.arange(len(item)) % 7 == 6, item + 1, item // 2) % len(labels)  # one in seven errs
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        return Annotations.from_arrays(
            [items[n] for n in item], np.array(["ann", "bob", "cid"])[annotator], np.array(labels)[label], kind=kind
        )
