"""The options of the command line, and how their texts become values."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Argument, Option

from crowdppl import registry
from crowdppl.errors import DataError, MethodError

ON_TERMINAL = sys.stderr.isatty()

Answers = Annotated[
    Path,
    Argument(
        help="File with one label a row, --format names the formats; or a folder that convert wrote.",
        metavar="ANSWERS",
    ),
]
ToConvert = Annotated[
    str,
    Argument(
        help="File with one label a row, a pattern in quotes such as 'labels/*.csv', or with --format sql a query.",
        metavar="SOURCE",
    ),
]
Parts = Annotated[Path, Argument(help="Folder to write, which must not be there.", metavar="PARTS")]
NParts = Annotated[
    int | None,
    Option(help="Number of parts, and of processes at most. By default 8, or one for 1.5 million labels.", min=1),
]
MemoryLimit = Annotated[str, Option(help="Memory of DuckDB, such as 500MB; beyond, it takes the disk.")]
Out = Annotated[Path, Option(help="Folder to write to; made if need be.", metavar="FOLDER")]
OutOfAnswers = Annotated[
    Path | None,
    Option(help="Folder to write to, made if need be; by default crowdppl-NAME, of NAME.csv.", metavar="FOLDER"),
]
Page = Annotated[Path, Option("--out", help="File of HTML to write; tables lie beside it.", metavar="FILE")]
Answered = Annotated[
    Path,
    Argument(
        help="File with one label a row, --format names the formats; or a folder that `crowdppl fit` wrote.",
        metavar="ANSWERS",
    ),
]
TextColumn = Annotated[
    str | None,
    Option(
        "--text",
        help="Column of the file of labels with the text of an item, to be shown in the report.",
        metavar="COLUMN",
    ),
]
Compared = Annotated[
    Path | None,
    Option(
        "--gold",
        help="File of known truths to compare with, an item and its class a row; they choose nothing.",
        metavar="FILE",
    ),
]
WithReport = Annotated[bool, Option("--report", help="Write report.html, a page that anybody can read, too.")]
Port = Annotated[int, Option(help="Port of the page; by default a free one.", min=0, max=65535)]
Browser = Annotated[bool, Option("--browser/--no-browser", help="Open the page in a browser.")]
MaxSize = Annotated[int, Option(help="Megabytes of a file at most.", min=1)]
Verbose = Annotated[
    bool, Option("--verbose", help="Show figures for statisticians: how the fit went, doubts, intervals.")
]
Language = Annotated[str, Option(help="Language of the report: en or de.", metavar="NAME")]
Table = Annotated[Path | None, Option(help="CSV file to write the table to.", metavar="FILE")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace the result of an earlier run.")]
SpreadsheetSafe = Annotated[
    bool,
    Option(
        "--spreadsheet-safe",
        help="Put ' before text in CSV files that a spreadsheet would run: that begins with =, +, -, @ or a tab.",
    ),
]
Model = Annotated[
    str | None,
    Option(
        help="Method; `crowdppl zoo` lists them. By default auto, which averages several or takes the best; "
        "with --inference, --setting or --trusted, bayesian_dawid_skene or another made for the kind of labels.",
        metavar="NAME",
    ),
]
Models = Annotated[
    list[str] | None,
    Option(
        "--model",
        help="Method; may be repeated, `crowdppl zoo` lists them. By default quick ones for the kind of labels.",
        metavar="NAME",
    ),
]
Inference = Annotated[str, Option(help="em, vb, gibbs, nuts, laplace, pathfinder, svi or auto.", metavar="ENGINE")]
Settings = Annotated[
    list[str] | None,
    Option("--setting", help="Setting of the method: prevalence=uniform; may be repeated.", metavar="KEY=VALUE"),
]
SettingsOfMethods = Annotated[
    list[str] | None,
    Option(
        "--setting",
        help="Setting of all methods, or of one as METHOD.KEY=VALUE; may be repeated.",
        metavar="KEY=VALUE",
    ),
]
EngineOptions = Annotated[
    list[str] | None,
    Option("--option", help="Option of the engine: draws=1000, restarts=5; may be repeated.", metavar="KEY=VALUE"),
]
Calibrate = Annotated[
    bool, Option("--calibrate", help="Correct overconfident probabilities by held-out labels and gold.")
]
Trusted = Annotated[
    str | None,
    Option(
        help="Annotators whose labels are known truths, against others who collude: 'ann,bob'.", metavar="NAMES"
    ),
]
LanguageModels = Annotated[
    str | None,
    Option(
        "--models",
        help="Annotators that are models, which err together: 'gpt,claude', or 'all'. The others are people.",
        metavar="NAMES",
    ),
]
People = Annotated[Path, Option(help="File of labels by people: an item and a label a row.", metavar="FILE")]
Replaceable = Annotated[
    Path | None,
    Option(
        "--people",
        help="File of labels by several people: whether the annotators, that are models, may replace one.",
        metavar="FILE",
    ),
]
Quantity = Annotated[str, Option(help="share, mean, accuracy, difference or win_rate.", metavar="NAME")]
Of = Annotated[
    str | None,
    Option(help="The class of a share, the annotator of an accuracy, 'a,b' of a difference.", metavar="NAME"),
]
GroupedBy = Annotated[
    str | None, Option("--by", help="Column of the item covariates: one figure a group.", metavar="COLUMN")
]
Tie = Annotated[str | None, Option(help="Class that counts one half in a win rate of classes.", metavar="NAME")]
Use = Annotated[
    str, Option("--method", help="Use of the fit: auto, people (none), ppi, ppi++, linear or map.", metavar="NAME")
]
Interval = Annotated[str, Option(help="t, bootstrap, or anytime if you look while people label.", metavar="NAME")]
Chances = Annotated[
    Path | None,
    Option(
        help="CSV file of items and the chances with which they were drawn, as `plan` writes it.", metavar="FILE"
    ),
]
Pilot = Annotated[
    Path | None, Option("--people", help="File of labels by people of a first few dozen items.", metavar="FILE")
]
Labels = Annotated[
    int | None, Option("--labels", help="Instead of a promise, how many items to draw.", metavar="N")
]
Width = Annotated[float | None, Option(help="Width of the interval, from end to end.", metavar="NUMBER")]
IsAbove = Annotated[float | None, Option("--above", help="What the interval is to lie above.", metavar="NUMBER")]
IsBelow = Annotated[float | None, Option("--below", help="What the interval is to lie below.", metavar="NUMBER")]
Power = Annotated[float, Option(help="Probability that the promise is kept.")]
Assumed = Annotated[
    float | None,
    Option("--error", help="Instead of a pilot, the share of items on which the fit errs.", metavar="SHARE"),
]
ToLabel = Annotated[
    Path | None, Option("--out", help="CSV file to write the items to send and their chances to.", metavar="FILE")
]
Level = Annotated[float, Option("--confidence", help="Probability of the interval.")]
Above = Annotated[
    float | None, Option(help="Exit with status 1 unless all intervals lie above this.", metavar="NUMBER")
]
Below = Annotated[
    float | None, Option(help="Exit with status 1 unless all intervals lie below this.", metavar="NUMBER")
]
Folds = Annotated[int, Option(help="Parts into which the labels are split.")]
Bootstrap = Annotated[int, Option(min=0, help="Resamples for the intervals of scores; 0: no intervals.")]
By = Annotated[str, Option(help="coefficient, class, item or pair.", metavar="NAME")]
Weights = Annotated[
    str | None,
    Option(help="identity, linear or quadratic; by default quadratic for ordinal classes.", metavar="NAME"),
]
Seed = Annotated[int, Option(help="Seed of every random number.")]
Device = Annotated[str, Option(help="cpu, cuda, cuda:N or auto.")]
Progress = Annotated[bool, Option(help="Show a progress bar; by default on a terminal.")]


def default_methods(kind: str | None) -> tuple[str, ...]:
    """Methods to compare for labels of a kind, where none is named; the last is its usual one."""
    from crowdppl.data.kinds import kind_named  # imports torch

    found = kind_named(kind or "nominal")
    if not found.methods:
        takes = ", ".join(registry.names_for(found.name)) or "none"
        raise MethodError(f"no method is the default for labels of kind {kind!r}; say --model, one of: {takes}")
    return found.methods


def _file(help: str) -> Any:
    return Annotated[Path | None, Option(help=help, metavar="FILE")], None


def _text(help: str, metavar: str, **more: Any) -> Any:
    return Annotated[str | None, Option(help=help, metavar=metavar, **more)], None


def _several(help: str, metavar: str) -> Any:
    return Annotated[list[str] | None, Option(help=help, metavar=metavar)], None


def _column(of: str) -> Any:
    return _text(f"Column of {of}, if it is not recognised.", "COLUMN")


def _encoding(of: str) -> Any:
    return _text(f"Encoding of {of}, if not UTF-8: cp1252, latin-1, utf-16 ...", "NAME")


def _flag(option: str, help: str) -> Any:
    return Annotated[bool, Option(option, help=help)], False


READING: Mapping[str, tuple[Any, Any]] = {
    "format": _text("csv, tsv, jsonl, conll or parquet, if the file name does not end so.", "NAME"),
    "delimiter": _text(
        "Field separator, such as ';' or tab; by default guessed from the first lines.",
        "CHARACTER",
        parser=lambda text: {"tab": "\t", "\\t": "\t"}.get(text, text),
    ),
    "encoding": _encoding("the file"),
    "wide": _flag("--wide", "A row is an item, a column an annotator, an empty cell no label."),
    "columns": _text(
        "What columns are, where several hold labels: annotators, as of --wide; classes, of counts of votes or of "
        "0 and 1; items, where a row is an annotator.",
        "NAME",
    ),
    "items": _text("In a table whose columns are items, those that are: 'q1,q2'.", "NAMES"),
    "annotators": _text("All annotators; in a wide table, the columns that are theirs: 'ann,bob'.", "NAMES"),
    "item": _column("items, or 'left,right' where two name one"),
    "annotator": _column("annotators"),
    "no_annotator": _flag(
        "--no-annotator", "One annotator gave all labels, for methods that need to know no more."
    ),
    "label": _column("labels"),
    "question": _text("In an export of Label Studio, the question to read, if there are several.", "NAME"),
    "predictions": _flag("--predictions", "In an export of Label Studio, take each model for an annotator, too."),
    "classes": _text("All classes in order: 'no,yes,\"well, maybe\"'; by default those in the file.", "NAMES"),
    "abstain": _several('Answer that is no class, such as "don\'t know"; may be repeated.', "NAME"),
    "informative_abstentions": _flag(
        "--informative-abstentions", "Abstaining may depend on the class, and is evidence of it."
    ),
    "kind": _text("nominal, the default; ordinal if classes have an order; real, count, angle, pair ...", "NAME"),
    "level": (
        Annotated[
            int | None, Option(help="Of classes that are paths, as animal/dog: 1 reads animal.", metavar="N")
        ],
        None,
    ),
    "unit": _text("Of angles: degrees, the default, or radians.", "NAME"),
    "objects": (
        Annotated[
            str, Option(help="Of rankings: shared, or own where one name is another object in each problem.")
        ],
        "shared",
    ),
    "decimal": _text("Mark in numbers such as 1,234, where both may be meant: ',' or '.'.", "MARK"),
    "repeats": (
        Annotated[
            str,
            Option(help="If an annotator labels an item again: keep, share, noisy, one, first, last or error."),
        ],
        "keep",
    ),
    "probabilities": _text(
        "Columns of probabilities in place of labels, one a class in the order of --classes: 'p_no,p_yes'.",
        "COLUMNS",
    ),
    "scale": _text("What these hold: probability, the default, log or score.", "NAME"),
    "floor": (
        Annotated[float | None, Option(help="What a probability of 0 is read as.", metavar="NUMBER")],
        None,
    ),
    "shown_first": _text("Column of the class that was shown first, which answers may follow.", "COLUMN"),
    "time": _text(
        "Column that says when a label was given, which methods of time, doubts and --repeats first or last read.",
        "COLUMN",
    ),
    "stray": (
        Annotated[str, Option(help="Of tags, an I-X that continues no span: repair, refuse or keep.")],
        "repair",
    ),
    "gold": _file("File of known truths, an item and its class a row; they inform the fit."),
    "gold_column": _text("Instead, a column of the file: blank where unknown, repeated where known.", "COLUMN"),
    "gold_item": _column("items in the file of known truths"),
    "gold_label": _column("classes in the file of known truths"),
    "gold_encoding": _encoding("the file of known truths"),
    "features": _file("File of item features for methods with a network: an item a row, a number a column."),
    "features_item": _column("items in the file of features"),
    "features_encoding": _encoding("the file of features"),
    "item_covariates": _file("File of item covariates, an item a row; methods read it by column."),
    "covariates_item": _column("items in the file of item covariates"),
    "annotator_covariates": _file("File of annotator covariates, an annotator a row; methods read it by column."),
    "covariates_annotator": _column("annotators in the file of annotator covariates"),
    "covariates_encoding": _encoding("files of covariates"),
    "edges": _file("File of linked items, two ids a row under two names; methods of linked items read it."),
    "edges_encoding": _encoding("the file of linked items"),
    "label_covariate": _several("Column of numbers of labels that methods read; may be repeated.", "COLUMN"),
}
"""The options of commands that read a file: type and default of each."""
COLUMNS, ADVANCED = "Columns and files", "Advanced"
USUAL = ("kind", "classes", "gold")
OF_COLUMNS = (
    *("format", "delimiter", "encoding", "wide", "columns", "items", "annotators", "item", "annotator"),
    *("no_annotator", "label", "abstain", "gold_column", "gold_item", "gold_label", "gold_encoding"),
)
for _name, (_kind, _) in READING.items():
    if _name not in USUAL:
        _kind.__metadata__[0].rich_help_panel = COLUMNS if _name in OF_COLUMNS else ADVANCED
for _kind in (
    *(Inference, Settings, SettingsOfMethods, EngineOptions, Calibrate, Trusted, Seed, Device),
    *(SpreadsheetSafe,),
):
    cast(Any, _kind).__metadata__[0].rich_help_panel = ADVANCED
OF_FITS = ("inference", "calibrate", "trusted", "models", "seed", "device")
OF_PARTS = ("n_parts", "memory_limit")
SPELLED = {name: name.replace("_", "-") for name in (*READING, *OF_FITS, *OF_PARTS)} | {
    "abstentions": "abstain",
    "label_covariates": "label-covariate",
}
"""The option that is an argument of a function."""
ALL = {"models": "all"}
"""What an option has for an argument that is True, where it is no flag."""
REPEATED = frozenset(["abstentions", "label_covariates"])
"""Arguments with several values, each of which has its own option."""
OF_LABELS = (
    *(
        "format",
        "delimiter",
        "encoding",
        "wide",
        "columns",
        "items",
        "annotators",
        "item",
        "annotator",
        "no_annotator",
        "label",
    ),
    *(
        "question",
        "predictions",
        "classes",
        "abstain",
        "kind",
        "level",
        "unit",
        "objects",
        "decimal",
        "repeats",
        "time",
    ),
    *("probabilities", "scale", "floor", "shown_first"),
    "stray",
)
"""Those that are about the labels alone."""
OF_REPORT = tuple(name for name in READING if name not in ("gold", "gold_column"))
"""Those of a report, whose known truths are compared with and inform no fit."""
OF_CONVERT = (
    *("format", "delimiter", "encoding", "item", "annotator", "no_annotator", "label", "classes", "abstain"),
    *("informative_abstentions", "kind", "unit", "decimal", "repeats", "time", "gold_column", "label_covariate"),
    *("edges", "edges_encoding"),
)
"""Those that are settled when labels are converted."""


def _panel(option: Parameter) -> str | None:
    """The panel of the help in which an option stands; None of the usual ones."""
    found: str | None = option.annotation.__metadata__[0].rich_help_panel
    return found


def reading(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces ``**given`` in a command's signature by options of ``READING``, by default all."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command, eval_str=True)
        kept = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in READING.items()
            if not names or name in names
        ]
        own_options = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in kept if p.default is not Parameter.empty]
        order = [None, COLUMNS, ADVANCED]
        options = sorted([*own_options, *added], key=lambda p: order.index(_panel(p)))
        first = [p for p in kept if p.default is Parameter.empty]
        cast(Any, command).__signature__ = own.replace(parameters=[*first, *options])
        return command

    return decorated


def names(text: str | None, option: str) -> list[str] | None:
    """Names separated by commas; a name with a comma, or an empty one, stands in double quotes."""
    if text is None:
        return None
    try:
        found = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise DataError(f"{option} {text!r} cannot be read: {error}; write it as in 'a,b,\"c, d\"'") from error
    if found.count("") > text.count('""'):
        raise DataError(f'{option} {text!r} has an empty name; remove the comma, or write ""')
    return found


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, Any]:
    """``key=value`` texts as a dict; a value is read as JSON, else as a Python literal, else kept as text."""
    found: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise MethodError(f"{option} {text!r} is not of the form key=value")
        if key in found:
            raise MethodError(f"{option} gives {key!r} twice")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # as ast.literal_eval says
            continue
    return text


def as_option(name: str, value: str | None) -> str:
    """An option of the command line with its value, "" for none; None says that nothing is meant."""
    return f"--no-{name}" if value is None else f"--{name} {shlex.quote(value)}" if value else f"--{name}"


def as_options(
    text: str, spelled: Mapping[str, str] = SPELLED, form: Callable[[str, str | None], str] = as_option
) -> str:
    """A message in which arguments, "kind='real'" or "label=", are options, "--kind real" or "--label"."""

    def option(found: re.Match[str]) -> str:
        if found[1] is None:  # what a user wrote
            return found[0]
        if found[2] == "None":
            return form(spelled[found[1]], None)
        value, name = found[2] or "", spelled[found[1]]
        value = {"True": ALL.get(found[1], ""), "...": ""}.get(value, value)
        try:
            parsed = ast.literal_eval(value)
            if isinstance(parsed, list | tuple) and found[1] in REPEATED:
                return " ".join(form(name, str(x)) for x in parsed)
            value = listed(map(str, parsed)) if isinstance(parsed, list | tuple) else str(parsed)
        except (ValueError, SyntaxError):
            value = listed(part.strip(" '\"") for part in value.strip("()[]").split(","))
        return form(name, value)

    names = "|".join(sorted(spelled, key=len, reverse=True))
    text_in = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
    value = rf"True|None|\.\.\.|-?\d+|{text_in}|\((?:{text_in}|[^)'\"])*\)|\[(?:{text_in}|[^\]'\"])*\]"
    quoted = rf"(?<!\w)(?:{text_in})"
    told = re.sub(rf"(?<![\w.-])({names})=({value})?(?!\w)|{quoted}", option, text)
    # of several, one line
    return re.sub(r"(--[\w-]+ (?:'[^']*'|\"[^\"]*\"|[^\s'\"])+?), (?=--)", r"\1 ", told)


def listed(parts: Iterable[str]) -> str:
    """Names as ``names`` reads them."""
    return ",".join('"{}"'.format(x.replace('"', '""')) if {*x} & {*',"'} else x for x in parts)


def settings_by_method(texts: Sequence[str] | None, methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings by method: ``key=value`` applies to all, ``method.key=value`` to one, and overrides the former."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in sorted(pairs(texts, "--setting").items(), key=lambda pair: "." in pair[0]):
        name, dot, setting = key.rpartition(".")
        if dot and name not in methods:
            raise MethodError(f"--setting {key}: {name!r} is not compared ({', '.join(methods)})")
        for method in [name] if dot else methods:
            found.setdefault(method, {})[setting] = value
    return found


def engine_options(texts: Sequence[str] | None) -> Any:
    """Options of ``fit``, checked; whole numbers may be written 1e4."""
    from crowdppl.inference.options import options_from  # imports torch

    given: Any = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in pairs(texts, "--option").items()
    }
    for name in given.keys() & {"seed", "device", "progress"}:
        raise MethodError(f"--option {name}= is not taken; use --{name}")
    options_from(given)
    return given
