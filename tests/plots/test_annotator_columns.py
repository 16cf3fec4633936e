"""What plot_annotators draws of kinds of labels other than classes."""

from typing import Any

import matplotlib
import numpy as np
import pytest

import crowdppl
from crowdppl.errors import MethodError

matplotlib.use("Agg")
FIRST = [
    ("real", "gaussian_annotators", "bias", ["bias", "precision"]),
    ("count", "poisson_annotators", "gain", ["gain"]),
    ("angle", "von_mises_annotators", "bias in degrees", ["bias", "concentration"]),
    ("ranking", "plackett_luce", "reliable", ["reliable", "random"]),
    ("ordinal", "rater_facets", "severity", ["severity", "log_centrality"]),
    ("pair", "bradley_terry", "agreement", ["agreement"]),
    ("pair", "crowd_bt", "accuracy: share of labels that are right", ["accuracy", "information"]),
]


@pytest.mark.parametrize(("kind", "method", "first", "names"), FIRST)
def test_columns_are_drawn(kind: str, method: str, first: str, names: list[str]) -> None:
    found: Any = crowdppl.fit(method, crowdppl.datasets.example(kind), inference="vb", seed=0)
    assert found.plot_annotators().get_xlabel().split(", line")[0] == first
    for name in names:
        axes = found.plot_annotators(show=name)
        drawn = np.sort(axes.lines[0].get_xdata())
        if name != "information":
            np.testing.assert_allclose(drawn, np.sort(found.annotators()[name]))
    with pytest.raises(MethodError, match=names[-1]):
        found.plot_annotators(show="charm")


def test_a_method_that_knows_nothing_of_annotators_says_so() -> None:
    found = crowdppl.fit("label_mean", crowdppl.datasets.example("real"), inference="em")
    with pytest.raises(MethodError, match="label_mean knows nothing of annotators.*'gaussian_annotators'"):
        found.plot_annotators()
