"""A file of answers, read by options that are texts: those of the command line and of the app."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdppl.cli import arguments
from crowdppl.errors import CrowdpplError, DataError

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl.data.annotations import Annotations

FILES_OF_METHODS = ("features", "item_covariates", "annotator_covariates", "edges")
COLUMNS = ("item", "annotator", "label", "gold_column")
ALIKE = (
    *(
        "format",
        "delimiter",
        "encoding",
        "wide",
        "columns",
        "question",
        "predictions",
        "kind",
        "unit",
        "objects",
        "repeats",
    ),
    *("time", "informative_abstentions", "decimal", "stray"),
    *("scale", "floor", "shown_first"),
)
"""Options that are arguments of ``read_annotations`` as they are."""


def labels_said(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``read_annotations`` about labels, by the options ``arguments.READING``."""
    from crowdppl.data.options import parts_of_items

    given = {name: default for name, (_, default) in arguments.READING.items()} | dict(given)
    found: Any = {name: given[name] for name in (*COLUMNS, *ALIKE)}
    if given["annotator"] is None and not given["no_annotator"]:
        del found["annotator"]  # it is recognised
    if isinstance(given["item"], str) and parts_of_items({"kind": given["kind"]}):
        columns = arguments.names(given["item"], "--item") or []
        found["item"] = columns[0] if len(columns) == 1 else columns
    found |= {"classes": arguments.names(given["classes"], "--classes"), "abstentions": given["abstain"] or ()}
    found |= {name: arguments.names(given[name], f"--{name}") for name in ("annotators", "items")}
    found["label_covariates"] = given["label_covariate"] or ()
    named = arguments.names(given["probabilities"], "--probabilities")
    found["probabilities"] = named[0] if named is not None and len(named) == 1 else named
    return dict(found)


def read_answers(answers: Path, given: Mapping[str, Any]) -> Annotations:
    """The annotations of a file, by the options ``arguments.READING``."""
    from crowdppl.data import files  # imports torch

    given = {name: default for name, (_, default) in arguments.READING.items()} | dict(given)
    found = labels_said(given)
    readers: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
        "gold": (files.read_gold, {"item": "gold_item", "label": "gold_label", "encoding": "gold_encoding"}),
        "features": (files.read_item_covariates, {"item": "features_item", "encoding": "features_encoding"}),
        "item_covariates": (
            files.read_item_covariates,
            {"item": "covariates_item", "encoding": "covariates_encoding"},
        ),
        "annotator_covariates": (
            files.read_annotator_covariates,
            {"annotator": "covariates_annotator", "encoding": "covariates_encoding"},
        ),
        "edges": (files.read_edges, {"encoding": "edges_encoding"}),
    }
    for name, (read, options) in readers.items():
        if given[name] is not None:
            try:
                found[name] = read(given[name], **{argument: given[option] for argument, option in options.items()})
            except CrowdpplError as error:  # whose remedy is an option that other files have another of
                spelled = {argument: option.replace("_", "-") for argument, option in options.items()}
                raise type(error)(arguments.as_options(str(error), spelled)) from error
    data = files.read_annotations(answers, **found)
    return data if given["level"] is None else data.at_level(given["level"])


def read_texts(answers: Path, column: str, given: Mapping[str, Any]) -> pd.Series[Any]:
    """What each item says, by item id: a column of the file of answers, by the options ``arguments.READING``."""
    import pandas as pd

    from crowdppl.data.files import read_table
    from crowdppl.data.ids import native
    from crowdppl.data.tables import as_pandas, recognise, two_parts

    table = read_table(answers, None, *(given.get(name) for name in ("format", "delimiter", "encoding")))
    frame, name = as_pandas(table.frame, answers.name), answers.name
    said = labels_said(given)["item"]
    parts = dict.fromkeys(two_parts(list(frame.columns))) if said is None else {}
    if isinstance(said, list):
        parts = {f"item {n}": each for n, each in enumerate(said, 1)}
    found = recognise(list(frame.columns), {**(parts or {"item": said}), "text": column}, name)
    ids, text = [frame[x] for role, x in found.items() if role != "text"], frame[column]
    rows = pd.DataFrame({n: x.to_numpy() for n, x in enumerate(ids)})
    rows = rows.assign(text=text.to_numpy())[(text.notna() & (text != "")).to_numpy()].drop_duplicates()
    columns = list(range(len(ids)))
    keys = [*zip(*(rows[n] for n in columns), strict=True)] if len(ids) > 1 else rows[0].tolist()
    out = pd.Series(rows["text"].to_numpy(), index=pd.Index(keys, tupleize_cols=False), dtype=object)
    if not out.index.is_unique:
        again = out.index[out.index.duplicated()][0]
        raise DataError(
            f"the column {column!r} of {name} says several things of item {native(again)!r}; name one that says "
            "the same in every row of an item"
        )
    return out
