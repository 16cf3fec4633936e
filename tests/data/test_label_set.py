"""Classes and abstentions: what the truth can be and what can be said."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import place_in_rows
from crowdppl.data.kinds import KINDS
from crowdppl.data.kinds.classes import Classes, code_labels, encode_labels, read_label_set
from crowdppl.data.kinds.kind import LabelSet
from crowdppl.errors import DataError


def alphabet(
    labels: Any, classes: Any = None, abstentions: Any = (), kind: str = "nominal", text: bool = False
) -> tuple[LabelSet, list[int]]:
    encoded = encode_labels(labels, place_in_rows, classes is not None, abstentions, text)
    of_classes = KINDS[kind]
    assert isinstance(of_classes, Classes)
    found = read_label_set(encoded, classes, abstentions, of_classes)
    return found, code_labels(found, encoded, place_in_rows).tolist()


@pytest.mark.parametrize(
    ("labels", "options", "answers", "n_classes"),
    [
        (["cat", "?", "ant", "cat"], {"abstentions": ["?", "skipped"]}, ["ant", "cat", "?", "skipped"], 2),
        (["b", "a"], {"classes": ["c", "b", "a"]}, ["c", "b", "a"], 3),
        ([1, 0, "?"], {"abstentions": ["?"]}, [0, 1, "?"], 2),
        (["1", "0", "-1"], {"classes": [0, 1, 2], "abstentions": [-1], "text": True}, [0, 1, 2, -1], 3),
        (["1", "0", "-1"], {"abstentions": [-1], "text": True}, ["0", "1", "-1"], 2),
        (["NA", "EU"], {"classes": ["EU", "NA"], "text": True}, ["EU", "NA"], 2),
        (["NA", "a", "b"], {"abstentions": ["NA"], "text": True}, ["a", "b", "NA"], 2),
        (["10", "9", "1.5"], {"kind": "ordinal"}, ["1.5", "9", "10"], 3),
        (["low", "high"], {"classes": ["low", "mid", "high"], "kind": "ordinal"}, ["low", "mid", "high"], 3),
        (pd.Categorical(["mid", "low"], ["low", "mid", "high"], ordered=True), {}, ["low", "mid", "high"], 3),
        (pd.Categorical(["10", "9"], ["10", "1", "9"]), {"kind": "ordinal"}, ["1", "9", "10"], 3),
        (pd.Categorical(["b", "?"], ["b", "?", "a", " "]), {"abstentions": ["?"]}, ["a", "b", "?"], 2),
        (pd.Categorical([3, 1, 3], [1, 2, 3]), {}, [1, 2, 3], 3),
        (pd.Categorical(["b", "a"], ["c", "b", "a"]), {"classes": ["b", "a"]}, ["b", "a"], 2),
    ],
)
def test_classes_in_order_then_abstentions(labels: Any, options: Any, answers: list[Any], n_classes: int) -> None:
    found, codes = alphabet(labels, **options)
    assert (list(found.book.ids), found.n_classes) == (answers, n_classes)
    assert [str(answers[code]) for code in codes] == [str(label) for label in labels]


@pytest.mark.parametrize("informative", [True, False])
def test_informative_abstentions_are_named(informative: bool) -> None:
    rows: Any = (["a", "b", "b"], ["x", "y", "x"], ["0", "1", "?"])
    found = Annotations.from_arrays(*rows, abstentions=["?"], informative_abstentions=np.bool_(informative))
    assert found.alphabet.informative is informative and found.blocks[0].informative is informative
    with pytest.raises(DataError, match="informative_abstentions"):
        Annotations.from_arrays(*rows, informative_abstentions=True)


@pytest.mark.parametrize(
    ("labels", "options", "named"),
    [
        (["a", "x"], {"classes": ["a", "b"]}, r"'x' at row 1 .*\('a', 'b'\).*abstentions="),
        (["1", "2.0"], {"classes": ["1", "2"]}, r"'2.0' at row 1"),
        (["a", "a"], {}, "only 'a'.*classes="),
        (["?"], {"abstentions": ["?"]}, "none"),
        (["a", "b"], {"classes": ["a"]}, "classes= has only 'a'"),
        (["a"], {"classes": ["a", "b", "a"]}, "'a' more than once"),
        (["a"], {"classes": ["a", "b"], "abstentions": ["b"]}, "'b' .* twice"),
        (["a"], {"classes": ["a", None]}, "missing"),
        (["a", "b"], {"abstentions": "b"}, r"abstentions=\['b'\]"),
        (["a", "b"], {"classes": "ab"}, r"classes=\['ab'\]"),
        (["low", "high"], {"kind": "ordinal"}, "'(low|high)' .*classes="),
        (["1", "1.0", "2"], {"kind": "ordinal"}, "'1' and '1.0'"),
        ([1, "b", "?"], {"abstentions": ["?"]}, r"1 \(int\) at row 0 .* 'b' \(str\) at row 1"),
        (["a", np.nan, "b"], {}, "label at row 1 .* missing"),
        ([0.0, np.inf], {}, "inf at row 1"),
        (["a", "", "b"], {"text": True}, r"row 1 .*\(''\).*abstentions=.*classes="),
        (["a", "b", "NA"], {"text": True}, r"row 2 .*\('NA'\)"),
    ],
)
def test_what_is_refused(labels: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        alphabet(labels, **options)
