"""A bad cell of a file is told by its line, or the id that the line begins with, and by what stands in it."""

from typing import Any

import pytest

import crowdppl
from crowdppl.errors import DataError
from tests.messages.inputs import of_file, read, written

HEAD = "item,annotator,label"
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an item": (HEAD + "\n1,a,x\n,b,y\n", "''", {}),
    "an annotator": (HEAD + "\n1,a,x\n1,,y\n", "''", {}),
    "a label": (HEAD + "\n1,a,x\n1,b,\n", "''", {}),
    "a class": (HEAD + "\n1,a,x\n1,b,zz\n", "'zz'", {"classes": ["x", "y"]}),
    "a number": (HEAD + "\n1,a,3\n1,b,zz\n", "'zz'", {"kind": "real"}),
    "a number with a comma": (HEAD + '\n1,a,"3,5"\n1,b,zz\n', "'zz'", {"kind": "real", "decimal": ","}),
    "a count": (HEAD + "\n1,a,3\n1,b,-2\n", "'-2'", {"kind": "count"}),
    "an angle": (HEAD + "\n1,a,3\n1,b,720\n", "'720'", {"kind": "angle"}),
    "a set": (HEAD + "\n1,a,x;y\n1,b,x;zz\n", "'zz'", {"kind": "set", "classes": ["x", "y"]}),
    "a winner": ("left,right,annotator,winner\np,q,a,p\nq,r,b,zz\n", "'zz'", {"kind": "pair"}),
    "one with itself": ("left,right,annotator,winner\np,q,a,p\nq,q,b,q\n", "'q'", {"kind": "pair"}),
    "a rank": ("object,annotator,rank\np,a,1\nq,a,zz\nr,a,3\n", "'zz'", {"kind": "ranking"}),
    "a position": ("sequence,position,annotator,label\n1,0,a,O\n1,zz,a,O\n", "'zz'", {"kind": "sequence"}),
    "a count of votes": ("item,cat,dog\n1,3,1\n2,-1,2\n3,2,2\n", "'-1'", {"columns": "classes"}),
    "a number of a wide table": ("item,a,b\n1,2,3\n2,4,zz\n", "'zz'", {"wide": True, "kind": "real"}),
    "a label covariate": (HEAD + ",t\n1,a,x,3\n1,b,y,zz\n", "'zz'", {"label_covariates": ["t"]}),
    "no label covariate": (HEAD + ",t\n1,a,x,3\n1,b,y,\n", "'t'", {"label_covariates": ["t"]}),
    "a short row": (HEAD + "\n1,a,x\n1,b\n", "2 fields", {}),
}
BESIDE: dict[str, tuple[str, Any, str, tuple[str, ...]]] = {
    "features": ("features", crowdppl.read_item_covariates, "item,f\n1,3.5\n2,zz\n", ("'zz'", "item '2'", "'f'")),
    "no feature": (
        "features",
        crowdppl.read_item_covariates,
        "item,f\n1,3.5\n2,\n",
        ("nan", "item 2", "feature 0"),
    ),
    "twice": ("item_covariates", crowdppl.read_item_covariates, "item,f\n1,3\n1,5\n", ("line 2 of", "line 3 of")),
    "annotators twice": (
        "annotator_covariates",
        crowdppl.read_annotator_covariates,
        "annotator,f\na,3\na,5\n",
        ("'a'", "line 2 of", "line 3 of"),
    ),
    "a truth": ("gold", crowdppl.read_gold, "item,label\n1,x\n2,zz\n", ("'zz'",)),
    "an unknown item": ("gold", crowdppl.read_gold, "item,label\n1,x\n99,y\n", ("'99'",)),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_cell_is_told_by_its_line_and_what_it_holds(what: str) -> None:
    text, value, options = FILES[what]
    with pytest.raises(DataError) as raised:
        of_file(text, **options)
    assert "line 3 of" in str(raised.value) and value in str(raised.value)


@pytest.mark.parametrize("what", BESIDE)
def test_so_it_is_in_files_beside_the_labels(what: str) -> None:
    option, reader, text, parts = BESIDE[what]
    with pytest.raises(DataError) as raised:
        read(**{option: reader(written(text))})
    assert all(part in str(raised.value) for part in parts), str(raised.value)
