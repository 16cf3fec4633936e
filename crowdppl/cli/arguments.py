"""What can be said on the command line, and how texts become values."""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from crowdppl.errors import DataError, MethodError

Answers = Annotated[Path, Argument(help="CSV, TSV, parquet or JSON: one label a row.", metavar="ANSWERS")]
Out = Annotated[Path, Option(help="Folder to write to; made if need be.", metavar="FOLDER")]
Calibrate = Annotated[
    bool, Option("--calibrate", help="Correct probabilities that are too sure, by labels left out and gold.")
]
Model = Annotated[
    str, Option(help="Method; `crowdppl zoo` lists them. auto: corrected probabilities.", metavar="NAME")
]
Models = Annotated[
    list[str], Option("--model", help="Method; may be repeated, `crowdppl zoo` lists them.", metavar="NAME")
]
COMPARED = ["majority_vote", "one_coin", "class_coin", "bayesian_dawid_skene"]
"""Methods that are compared where none is named: quick ones, from the fewest to the most parameters."""
Folds = Annotated[int, Option(help="Parts into which the labels are dealt.")]
Bootstrap = Annotated[int, Option(min=0, help="Resamples that the intervals of scores come from; 0: no intervals.")]
Table = Annotated[Path | None, Option(help="CSV file to write the table to.", metavar="FILE")]
Inference = Annotated[str, Option(help="em, vb, gibbs, nuts, svi or auto.", metavar="ENGINE")]
SettingsOfMethods = Annotated[
    list[str] | None,
    Option(
        "--setting",
        help="Setting of all methods, or of one as METHOD.KEY=VALUE; may be repeated.",
        metavar="KEY=VALUE",
    ),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--setting", help="Setting of the method, as in prevalence=uniform; may be repeated.", metavar="KEY=VALUE"
    ),
]
Options = Annotated[
    list[str] | None,
    Option(
        "--option",
        help="Option of the engine, as in restarts=5, draws=1000 or tolerance=1e-9; may be repeated.",
        metavar="KEY=VALUE",
    ),
]
Format = Annotated[
    str | None, Option(help="csv, tsv, parquet or jsonl, where the name does not end so.", metavar="NAME")
]
Delimiter = Annotated[
    str | None,
    Option(
        help="What separates the fields, such as ';' or tab; by default what the first lines show.",
        metavar="CHARACTER",
        parser=lambda text: {"tab": "\t", "\\t": "\t"}.get(text, text),
    ),
]
Encoding = Annotated[
    str | None, Option(help="How a file that is not UTF-8 is written: cp1252, latin-1, utf-16 ...", metavar="NAME")
]
Wide = Annotated[
    bool, Option("--wide", help="A row is an item and a column an annotator; an empty cell is no label.")
]
Item = Annotated[str | None, Option(help="Column of items, if it is not recognised.", metavar="COLUMN")]
Annotator = Annotated[str | None, Option(help="Column of annotators, if it is not recognised.", metavar="COLUMN")]
Label = Annotated[str | None, Option(help="Column of labels, if it is not recognised.", metavar="COLUMN")]
Classes = Annotated[
    str | None,
    Option(
        help="All classes in order, separated by commas, as in 'no,yes,\"well, maybe\"'; by default those given.",
        metavar="NAMES",
    ),
]
Abstain = Annotated[
    list[str] | None,
    Option(help='Answer that is no class, such as "don\'t know"; may be repeated.', metavar="NAME"),
]
Informative = Annotated[
    bool, Option("--informative-abstentions", help="Declining may depend on the class, and is evidence of it.")
]
Kind = Annotated[str, Option(help="nominal; or ordinal, where the order of classes means something.")]
Repeats = Annotated[str, Option(help="An annotator labels an item again: keep, first, last or error.")]
Gold = Annotated[
    Path | None,
    Option(help="File with known truths, an item and its class a row. They are data: they inform the fit."),
]
GoldItem = Annotated[
    str | None,
    Option(help="Column of items in the file of known truths, if it is not recognised.", metavar="COLUMN"),
]
GoldLabel = Annotated[
    str | None,
    Option(help="Column of classes in the file of known truths, if it is not recognised.", metavar="COLUMN"),
]
GoldEncoding = Annotated[
    str | None, Option(help="How the file of known truths is written, if it is not UTF-8.", metavar="NAME")
]
Features = Annotated[
    Path | None,
    Option(help="File with features of items, an item a row and a number a column: networks look at them."),
]
FeaturesItem = Annotated[
    str | None,
    Option(help="Column of items in the file of features, if it is not recognised.", metavar="COLUMN"),
]
FeaturesEncoding = Annotated[
    str | None, Option(help="How the file of features is written, if it is not UTF-8.", metavar="NAME")
]
ItemCovariates = Annotated[
    Path | None, Option(help="File with what is known of items, an item a row; methods read it by column.")
]
AnnotatorCovariates = Annotated[
    Path | None,
    Option(help="File with what is known of annotators, an annotator a row; read by column."),
]
CovariatesItem = Annotated[
    str | None,
    Option(help="Column of items in the file of their covariates, if it is not recognised.", metavar="COLUMN"),
]
CovariatesAnnotator = Annotated[
    str | None,
    Option(help="Column of annotators in the file of their covariates, if not recognised.", metavar="COLUMN"),
]
CovariatesEncoding = Annotated[
    str | None, Option(help="How files of covariates are written, if they are not UTF-8.", metavar="NAME")
]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace what an earlier run has written there.")]
Seed = Annotated[int, Option(help="Seed of every random number.")]
Device = Annotated[str, Option(help="cpu, cuda, cuda:N or auto.")]
Progress = Annotated[bool, Option(help="Show a progress bar; by default on a terminal.")]

SAID_ELSEWHERE = ("seed", "device", "progress", "dtype", "callback")
"""What ``fit`` takes and ``--option`` does not: options of their own, and what no text can say."""
ON_TERMINAL = sys.stderr.isatty()


def names(text: str | None) -> list[str] | None:
    """Names separated by commas; one that holds a comma, or is empty, stands in double quotes.

    Raises:
        DataError: when a quote is never closed, or nothing stands between two commas or at an end.
    """
    if text is None:
        return None
    try:
        found = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise DataError(f"--classes {text!r} cannot be read: {error}; write it as in 'a,b,\"c, d\"'") from error
    if found.count("") > text.count('""'):
        raise DataError(f'--classes {text!r} has a comma with no class beside it; take it away, or write "" there')
    return found


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, Any]:
    """``key=value`` texts as a mapping; a value that is JSON (5, 1e-9, true, [0, 1]) is that, else text.

    It may be spelled as in Python (None, True, .1, (0.5,)), too, which messages and pages of methods do.

    Raises:
        MethodError: for a text without "=", or a key that occurs twice.
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise MethodError(f"{option} {text!r} is not of the form key=value")
        if key in found:
            raise MethodError(f"{option} names {key!r} twice; name it once")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    for spelled in (json.loads, ast.literal_eval):
        try:
            return spelled(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # as ast.literal_eval says
            continue
    return text


def settings_by_method(texts: Sequence[str] | None, methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings of several methods: ``key=value`` is for all of them, ``method.key=value`` for one, and goes before.

    Raises:
        MethodError: as ``pairs`` does, and for a method that is none of them.
    """
    found: dict[str, dict[str, Any]] = {}
    for key, value in sorted(pairs(texts, "--setting").items(), key=lambda pair: "." in pair[0]):
        name, dot, own = key.rpartition(".")
        if dot and name not in methods:
            raise MethodError(f"--setting {key} names {name!r}, which is not compared ({', '.join(methods)})")
        for one in [name] if dot else methods:
            found.setdefault(one, {})[own] = value
    return found


def engine_options(texts: Sequence[str] | None) -> dict[str, Any]:
    """Options for ``fit``; whole numbers may be spelled 1e4.

    Raises:
        MethodError: for one that ``fit`` does not take, that is an option of the command itself, or whose value is
            no number where there should be one.
    """
    from crowdppl.inference.options import FitOptions  # imports torch

    kinds = {name: str(kind) for name, kind in FitOptions.__annotations__.items() if name not in SAID_ELSEWHERE}
    given = pairs(texts, "--option")
    for name, value in given.items():
        if name not in kinds:
            raise MethodError(f"--option {name} is unknown; there are {', '.join(kinds)}")
        if isinstance(value, float) and value.is_integer():
            given[name] = value = int(value)
        wanted = str if "str" in kinds[name] else int if "int" in kinds[name] else int | float
        if isinstance(value, bool) or not isinstance(value, wanted):
            word = "text" if wanted is str else "a whole number" if wanted is int else "a number"
            raise MethodError(f"--option {name}={value!r} must be {word}")
    return given
