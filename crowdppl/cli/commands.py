"""The command ``crowdppl``. Commands import what they need: --help and zoo are quick, without torch."""

from __future__ import annotations

import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdppl import __version__, registry
from crowdppl.cli import arguments
from crowdppl.cli.reading import COLUMNS, FILES_OF_METHODS, labels_said, read_answers, read_texts
from crowdppl.core.validation import one_of, printable, warn
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DoubtWarning, MethodError, ProcessError

if TYPE_CHECKING:
    import pandas as pd

    from crowdppl.data.annotations import Annotations

SHOWN = 20
"""Rows of a table of agreement that are printed."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(command: Sequence[str] | None = None) -> None:
    """Runs the command, by default that of the process. Errors of crowdppl are one line; the exit status is 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that the encoding lacks is no error
    with warnings.catch_warnings():
        warnings.simplefilter("always", CrowdpplWarning)
        warnings.showwarning = _print_warning  # restored by catch_warnings
        try:
            app(None if command is None else list(command))
        except CrowdpplError as error:
            if is_first() or isinstance(error, ProcessError):  # the first one has the errors of all
                _print(str(error))
        except OSError as error:
            _print(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        else:
            return
    raise SystemExit(2)


def is_first() -> bool:
    """Whether this is the process that prints, of those that torchrun started: it has the number 0."""
    return os.environ.get("RANK", "0") == "0"


@app.callback(invoke_without_command=True)
def common(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Example: crowdppl report answers.csv

    It reads a file with one label a row (item, annotator, label) and writes report.html: what is settled, whom to
    trust, what to look at, what to do next. crowdppl infers the truth from labels of many annotators, and how good
    each of them is.
    """
    if version:
        print(f"crowdppl {__version__}")
        raise typer.Exit


def require_shared(answers: Path, model: str | None, report: bool = False) -> None:
    """Refuses what processes that torchrun started cannot share, by a MethodError."""
    if (n := os.environ.get("WORLD_SIZE", "1")) == "1":
        return
    from crowdppl.data.parts import is_folder_of_parts

    if not is_folder_of_parts(answers):
        raise MethodError(
            f"{n} processes (WORLD_SIZE) share a folder of parts, and {answers} is none: crowdppl convert makes one"
        )
    if model in (None, "auto"):
        raise MethodError(
            f"{n} processes (WORLD_SIZE) share the fit of one method, and auto fits several; name one: --model "
            "hierarchical_dawid_skene"
        )
    if report:
        raise MethodError(
            f"--report is of all items, of which each of {n} processes (WORLD_SIZE) has some; write it afterwards, "
            "in one: crowdppl report RESULT"
        )


@app.command("fit")
@arguments.reading()
def fit_answers(
    answers: arguments.Answers,
    out: arguments.OutOfAnswers = None,
    model: arguments.Model = None,
    inference: arguments.Inference = "auto",
    setting: arguments.Settings = None,
    option: arguments.EngineOptions = None,
    calibrate: arguments.Calibrate = False,
    trusted: arguments.Trusted = None,
    models: arguments.LanguageModels = None,
    seed: arguments.Seed = 0,
    device: arguments.Device = "cpu",
    progress: arguments.Progress = arguments.ON_TERMINAL,
    overwrite: arguments.Overwrite = False,
    spreadsheet_safe: arguments.SpreadsheetSafe = False,
    report: arguments.WithReport = False,
    text: arguments.TextColumn = None,
    language: arguments.Language = "en",
    verbose: arguments.Verbose = False,
    **given: Any,
) -> None:
    """Fit a method to a file of answers.

    Writes labels.csv, annotators.csv, the posterior and run.json to a folder, which crowdppl.load(FOLDER) reads in
    Python; of other kinds of labels also fair_averages.csv, ranking.csv, clusters.csv, sets.csv or spans.csv.
    Columns named item, annotator and label (or task, worker, answer and the like) are recognised.
    """
    from crowdppl.cli.outputs import gone_if_empty, require_room, write_result
    from crowdppl.core.collective import in_step, process_group, together
    from crowdppl.fitting import check_automatic, fit
    from crowdppl.inference.options import options_from
    from crowdppl.report.facts import Facts
    from crowdppl.report.screen import first_minute
    from crowdppl.report.words import LANGUAGES
    from crowdppl.report.write import PAGE
    from crowdppl.results.summary import summarise

    require_shared(answers, model, report)
    one_of("language", language, LANGUAGES)
    if text is not None and not report:
        raise MethodError(f"--text {text!r} is shown in a report; say --report, too")
    settings = arguments.pairs(setting, "--setting")
    options = arguments.engine_options(option) | {
        "seed": seed,
        "device": device,
        "progress": progress and is_first(),
    }
    options_from(options)  # errors are found before a long file is read
    out = out or Path(f"crowdppl-{answers.stem}")
    trust = arguments.names(trusted, "--trusted")
    plain = inference == "auto" and not settings and trust is None
    named, model = model, model or _default_method(plain, given["kind"])
    if model == "auto":
        check_automatic(inference, alone=not settings and trust is None)
    else:
        registry.method(model, **settings)
    warn_of_unread({model: settings}, given)
    files = sources(answers, given)
    with process_group(device), gone_if_empty(out), together():
        with in_step():
            require_room(out, overwrite, files.values())
        began = time.perf_counter()
        data = read_answers(answers, given)
        texts = None if text is None else read_texts(answers, text, given)
        read = time.perf_counter()
        if named is None:  # of the kind that was recognised
            model = _default_method(plain, data.kind)
        warn_of_unread({model: settings}, _of_parts(data))
        how: Any = {"inference": inference, "settings": settings or None, "calibrate": calibrate, "trusted": trust}
        with warnings.catch_warnings():
            if not verbose and not data.is_share:  # doubts are told in other words
                warnings.simplefilter("ignore", DoubtWarning)
            posterior = fit(model, data, models=_models(models), **how, **options)
        seconds = {"read": read - began, "fit": time.perf_counter() - read}
        read_from = {"gold": None} | {name: str(path) for name, path in files.items()}
        files_written = write_result(posterior, out, read_from, seconds, spreadsheet_safe=spreadsheet_safe)
        doubts = () if data.is_share else posterior.doubts()
        if verbose or data.is_share:  # the fit has printed other doubts
            said = _without_warnings(summarise(posterior, [doubt for doubt in doubts if doubt.general]))
        else:
            said = first_minute(Facts(posterior, doubts), language)
    if not is_first():
        return
    if report:
        shown: Any = {"source": answers.name, "command": _command(), "tables": out, "text": texts}
        page = posterior.report(out / PAGE, language=language, **shown, spreadsheet_safe=spreadsheet_safe)
        files_written = f"{page.name}, {files_written}"
    if named is None and model != "auto":
        print(
            f"note: without --model, --inference, --setting and --trusted are for {model}; without these, auto is "
            "fitted"
        )
    _say_order(data, given)
    print(said, f"\n{files_written} are in {out}", sep="\n")
    if not verbose and not data.is_share:
        then = f"open {out / PAGE}" if report else f"crowdppl report {shlex.quote(str(out))}"
        print(f"next: {then}, a page for everybody; --verbose shows figures for statisticians")


@app.command("report")
@arguments.reading(*arguments.OF_REPORT)
def write_report(
    answers: arguments.Answered,
    out: arguments.Page = Path("report.html"),
    gold: arguments.Compared = None,
    model: arguments.Model = None,
    inference: arguments.Inference = "auto",
    models: arguments.LanguageModels = None,
    text: arguments.TextColumn = None,
    people: arguments.Replaceable = None,
    language: arguments.Language = "en",
    seed: arguments.Seed = 0,
    overwrite: arguments.Overwrite = False,
    spreadsheet_safe: arguments.SpreadsheetSafe = False,
    **given: Any,
) -> None:
    """Write a page that anybody can read: what is settled, whom to trust, where to look, what to do next.

    One file of HTML, which needs no network, and tables beside it: labels.csv, annotators.csv, check.csv (random
    items to check) and ask_next.csv (whom to ask about what).
    """
    from crowdppl.cli.outputs import require_new
    from crowdppl.data.files import read_gold
    from crowdppl.fitting import fit
    from crowdppl.posterior import load
    from crowdppl.report.words import LANGUAGES
    from crowdppl.report.write import require_people
    from crowdppl.results.archive import TEXT

    one_of("language", language, LANGUAGES)
    require_new(out, overwrite, [answers, *(x for x in (gold, people) if x is not None)])
    named = {name: given[f"gold_{name}"] for name in ("item", "label", "encoding")}
    known = None if gold is None else read_gold(gold, **named)
    if (answers / TEXT).is_file():
        if any(x is not None for x in (model, models, text)):
            raise MethodError(
                f"{answers} holds a fit; leave --model, --models and --text out, or give the file of labels"
            )
        posterior, texts = load(answers), None
        data = posterior.data
    else:
        data, posterior = read_answers(answers, given), None
        texts = None if text is None else read_texts(answers, text, given)
    said = None if people is None else _read_people(people, data, named=True)
    if said is not None:
        require_people(said, data)  # before a long fit
    if posterior is None:
        all_models = people is not None and model is None and models is None  # whom people are to be compared with
        how: Any = {"inference": inference, "models": _models("all" if all_models else models), "seed": seed}
        with warnings.catch_warnings(action="ignore", category=DoubtWarning):  # the page tells of doubts
            posterior = fit(model or "auto", data, **how)
        _say_order(data, given)
    options: Any = {"language": language, "source": answers.name, "command": _command(), "text": texts}
    options["people"] = said
    posterior.report(out, known, **options, spreadsheet_safe=spreadsheet_safe)
    print(f"the report is in {out}, tables are in {out.parent / f'{out.stem}-files'}")


@app.command("app")
def open_app(
    port: arguments.Port = 0,
    browser: arguments.Browser = True,
    max_size: arguments.MaxSize = 500,
) -> None:
    """Do all this in a browser, for people without a terminal: give a file, check how it is read, see the report.

    The page is on this machine alone, and nothing leaves it. Needs the extra "app". Ctrl-C ends it.
    """
    try:
        from crowdppl.app.server import serve
    except ImportError as error:
        raise MethodError(f'the app needs {error.name}; install it by: pip install "crowdppl[app]"') from error
    serve(port, browser, max_size)


@app.command("convert")
@arguments.reading(*arguments.OF_CONVERT)
def convert_labels(
    source: arguments.ToConvert,
    parts: arguments.Parts,
    n_parts: arguments.NParts = None,
    memory_limit: arguments.MemoryLimit = "1GiB",
    **given: Any,
) -> None:
    """Convert labels of any size to a folder of parts, which other commands take in place of a file.

    Needs DuckDB (the extra "scale"). Memory does not grow with the number of labels.
    """
    from crowdppl.data.parts_convert import convert

    taken = {*COLUMNS, *arguments.OF_CONVERT, "abstentions", "label_covariates"}
    said = {name: value for name, value in labels_said(given).items() if name in taken}
    found = convert(
        source,
        parts,
        **said,
        edges=given["edges"],
        edges_encoding=given["edges_encoding"],
        n_parts=n_parts,
        memory_limit=memory_limit,
    )
    print(", ".join(f"{n:,} {name}" for name, n in found.items()), f"are in {parts}")


@app.command("compare")
@arguments.reading()
def compare_methods(
    answers: arguments.Answers,
    model: arguments.Models = None,
    inference: arguments.Inference = "auto",
    folds: arguments.Folds = 5,
    setting: arguments.SettingsOfMethods = None,
    option: arguments.EngineOptions = None,
    seed: arguments.Seed = 0,
    device: arguments.Device = "cpu",
    out: arguments.Table = None,
    overwrite: arguments.Overwrite = False,
    spreadsheet_safe: arguments.SpreadsheetSafe = False,
    **given: Any,
) -> None:
    """Compare methods by how well they predict held-out labels; no truth is needed.

    Prints the mean log-probability of a held-out label, its distance from the best method's with a standard error,
    and the weights of the methods in the best mixture of their predictions.
    """
    from crowdppl.cli.outputs import require_new, write_frame
    from crowdppl.evaluation.compare import compare
    from crowdppl.evaluation.heldout import unprepared

    options = arguments.engine_options(option) | {"seed": seed, "device": device}
    named, model = model, model or list(arguments.default_methods(given["kind"]))
    settings = arguments.settings_by_method(setting, model)
    for name in model:  # errors are found before a long file is read
        unprepared(name, settings.get(name))
    warn_of_unread({name: settings.get(name, {}) for name in model}, given)
    if out is not None:
        require_new(out, overwrite, sources(answers, given).values())
    data = read_answers(answers, given)
    _say_order(data, given)
    if not named:  # of the kind that was recognised
        model = list(arguments.default_methods(data.kind))
        settings = arguments.settings_by_method(setting, model)
    warn_of_unread({name: settings.get(name, {}) for name in model}, _of_parts(data))
    found = compare(model, data, folds=folds, inference=inference, settings=settings, **options)
    print(found)
    if out is not None:
        write_frame(found.table, out, spreadsheet_safe)


@app.command("estimate")
@arguments.reading()
def estimate_figure(
    answers: arguments.Answers,
    people: arguments.People,
    quantity: arguments.Quantity = "share",
    of: arguments.Of = None,
    by: arguments.GroupedBy = None,
    tie: arguments.Tie = None,
    chances: arguments.Chances = None,
    method: arguments.Use = "auto",
    interval: arguments.Interval = "t",
    confidence: arguments.Level = 0.95,
    above: arguments.Above = None,
    below: arguments.Below = None,
    model: arguments.Model = None,
    models: arguments.LanguageModels = None,
    seed: arguments.Seed = 0,
    out: arguments.Table = None,
    overwrite: arguments.Overwrite = False,
    spreadsheet_safe: arguments.SpreadsheetSafe = False,
    **given: Any,
) -> None:
    """Estimate a share, mean, accuracy, difference or win rate of all items, with an interval.

    From labels by people of some items, drawn at random or by `plan`, and answers (by models, say) on all, to which
    a method is fitted. Exits with status 1 where --above or --below does not hold, 2 where nothing can be claimed.
    """
    from crowdppl.cli.outputs import require_new, write_frame
    from crowdppl.estimation.estimate import check_request, estimate
    from crowdppl.fitting import fit

    check_request(quantity, method, interval, confidence)
    if out is not None:
        require_new(out, overwrite, [*sources(answers, given).values(), people])
    data = _read_without_gold(answers, given)
    said, drawn = _read_people(people, data), None if chances is None else _read_chances(chances)
    figure: Any = {"quantity": quantity, "method": method, "interval": interval}  # checked there
    found = estimate(
        people=said,
        proxy=fit(model or "auto", data, models=_models(models), seed=seed),
        of=_named(of),
        by=by,
        chances=drawn,
        tie=tie,
        level=confidence,
        seed=seed,
        **figure,
    )
    print(found)
    if out is not None:
        write_frame(found.table, out, spreadsheet_safe)
    low, high = found.table["low"].min(), found.table["high"].max()
    if (above is not None and not low > above) or (below is not None and not high < below):
        raise SystemExit(1)


@app.command("plan")
@arguments.reading()
def plan_figure(
    answers: arguments.Answers,
    quantity: arguments.Quantity = "share",
    of: arguments.Of = None,
    tie: arguments.Tie = None,
    width: arguments.Width = None,
    above: arguments.IsAbove = None,
    below: arguments.IsBelow = None,
    power: arguments.Power = 0.8,
    people: arguments.Pilot = None,
    error: arguments.Assumed = None,
    labels: arguments.Labels = None,
    confidence: arguments.Level = 0.95,
    model: arguments.Model = None,
    models: arguments.LanguageModels = None,
    seed: arguments.Seed = 0,
    out: arguments.ToLabel = None,
    overwrite: arguments.Overwrite = False,
    spreadsheet_safe: arguments.SpreadsheetSafe = False,
    **given: Any,
) -> None:
    """Plan how many items people should label for a figure, and draw which.

    A method is fitted to answers (by models, say). Studies are simulated from it and a pilot, labels by people of a
    few dozen items. --out writes the items to send, with the chances that `estimate --chances` reads. With the same
    seed and more labels, items that were drawn before come again, and first: draw the pilot by --labels 50.
    """
    from crowdppl.cli.outputs import require_new, write_frame
    from crowdppl.estimation.drawing import draw_items
    from crowdppl.estimation.planning import plan_estimate
    from crowdppl.fitting import fit

    promise: Any = {"width": width, "above": above, "below": below}
    if labels is not None and (people is not None or error is not None or {*promise.values()} != {None}):
        raise MethodError("--labels says how many items to draw; leave promises, --people and --error out")
    if labels is not None and out is None:
        raise MethodError("--labels draws items, which go to a file; say --out FILE")
    if out is not None:
        require_new(out, overwrite, [*sources(answers, given).values(), *([] if people is None else [people])])
    data = _read_without_gold(answers, given)
    fitted = fit(model or "auto", data, models=_models(models), seed=seed)
    figure: Any = {"quantity": quantity, "proxy": fitted, "of": _named(of), "tie": tie, "seed": seed}
    if labels is None:
        pilot = None if people is None else _read_people(people, data)
        planned = plan_estimate(
            **figure, people=pilot, **promise, power=power, error=error, level=confidence, draw="suggested"
        )
        print(planned)
        labels = planned.labels
    drawn = draw_items(**figure, n=labels)
    if out is not None:
        write_frame(drawn.set_index("item"), out, spreadsheet_safe)
        print(f"the items to send, and their chances, are in {out}")


@app.command("agreement")
@arguments.reading(*arguments.OF_LABELS)
def show_agreement(
    answers: arguments.Answers,
    by: arguments.By = "coefficient",
    weights: arguments.Weights = None,
    bootstrap: arguments.Bootstrap = 1000,
    seed: arguments.Seed = 0,
    out: arguments.Table = None,
    overwrite: arguments.Overwrite = False,
    spreadsheet_safe: arguments.SpreadsheetSafe = False,
    **given: Any,
) -> None:
    """Show how well annotators agree beyond chance, before any method is fitted.

    Prints Krippendorff's alpha, Fleiss' and Cohen's kappa, Gwet's coefficients and the share of equal pairs of
    labels, with 95 % bootstrap intervals; or the agreement on each class, item or pair of annotators. Of numbers
    (--kind real), alpha alone; of rankings, Kendall's tau and W.
    """
    from crowdppl.agreement.coefficients import agreement_classes, agreement_items, agreement_pairs, agreement_table
    from crowdppl.cli.outputs import require_new, write_frame

    weighted: Any = {"weights": weights}  # checked there
    tables: dict[str, Callable[[Annotations], pd.DataFrame]] = {
        "coefficient": partial(agreement_table, **weighted, bootstrap=bootstrap, seed=seed),
        "class": partial(agreement_classes, bootstrap=bootstrap, seed=seed),
        "item": agreement_items,
        "pair": partial(agreement_pairs, **weighted),
    }
    found = tables[one_of("by", by, list(tables))]
    if out is not None:
        require_new(out, overwrite, [answers])
    table = found(read_answers(answers, given))
    if out is not None:
        write_frame(table, out, spreadsheet_safe)
    if len(table) > SHOWN:
        print(f"the {SHOWN} of {len(table):,} with the least agreement; --out FILE writes all")
        table = table.sort_values("agreement", kind="stable").head(SHOWN)
    print(printable(table.to_string(float_format="{:.3f}".format)))


@app.command()
def zoo(name: Annotated[str | None, typer.Argument(help="A method; by default all.")] = None) -> None:
    """List the methods, or show all about one."""
    if name is None:
        summaries = registry.summaries()
        width = max(map(len, summaries), default=0)
        for method, about in summaries.items():
            print(f"{method:{width}}  {about}")
        print("\ncrowdppl zoo NAME shows more about one.")
        return
    from crowdppl.datasets import example
    from crowdppl.inference.engines import ENGINES, engine_support
    from crowdppl.primitives.model import card_of, kind_of_labels

    model = registry.method(name)
    card = card_of(model)
    data = example(kind_of_labels(model))
    parts: dict[str, Any] = {
        "method": name,
        **registry.zoo(engines=False).loc[name],
        "about": registry.in_a_line(model),
    }
    parts |= {engine: engine_support(model, data, engine) for engine in ENGINES}
    if card is not None:
        parts |= {"link": card.link, "assumes": card.assumes, "fails": card.fails, "cost": card.cost}
    for key, text in parts.items():
        if text:
            print(f"{key:>10}  {text}")


@app.command()
@arguments.reading("item", "label", "format", "delimiter", "encoding")
def evaluate(
    result: Annotated[Path, typer.Argument(help="Folder that `crowdppl fit` wrote.")],
    truth: Annotated[Path, typer.Argument(help="File with the truth of items, an item a row.")],
    bootstrap: arguments.Bootstrap = 1000,
    **given: Any,
) -> None:
    """Score a result against known truths: accuracy, log score, calibration, detection of errors, annotators.

    Prints each score with its 95 % bootstrap interval.
    """
    from crowdppl.data.files import read_gold
    from crowdppl.evaluation.evaluate import evaluate
    from crowdppl.posterior import load

    found = evaluate(load(result), read_gold(truth, **given), bootstrap=max(1, bootstrap))
    ends = found.intervals()[["low", "high"]].dropna().T.to_dict("list") if bootstrap else {}
    for key, value in dict(found).items():
        interval = "{:.4f} to {:.4f}".format(*ends[key]) if key in ends else ""
        print(f"{key:18} {value:<8.4f} {interval}".rstrip() if isinstance(value, float) else f"{key:18} {value}")


@app.command()
def demo(
    out: arguments.Out = Path("crowdppl-demo"), seed: arguments.Seed = 0, overwrite: arguments.Overwrite = False
) -> None:
    """Fit Bayesian Dawid-Skene to the anaesthetists of Dawid & Skene (1979)."""
    from crowdppl.cli.outputs import run_demo

    run_demo(out, seed, overwrite=overwrite)


@app.command("datasets")
def list_datasets(name: Annotated[str | None, typer.Argument(help="A data set; by default all.")] = None) -> None:
    """List public data sets, or show all about one."""
    from crowdppl.datasets.public import described

    print(described(name))


def _command() -> str:
    """The command of this process; "" where another program calls."""
    return shlex.join(["crowdppl", *sys.argv[1:]]) if Path(sys.argv[0]).stem in ("crowdppl", "__main__") else ""


def _default_method(plain: bool, kind: str | None) -> str:
    """The method where none is named: auto, or the usual one of the kind, where an engine or the like is given."""
    return "auto" if plain else arguments.default_methods(kind)[-1]


def _say_order(data: Annotations, given: Mapping[str, Any]) -> None:
    """Tells of classes that may be grades, where nobody said what they are."""
    from crowdppl.data.kinds.grades import order_of

    order = order_of(data.classes) if given["kind"] is None and data.kind == "nominal" else None
    if order is not None:
        names = ",".join(f'"{x}"' if "," in str(x) else str(x) for x in order)
        text = f"the classes seem to be grades; if their order matters, say --kind ordinal --classes '{names}'"
        print(printable(f"note: {text}"))


def _read_without_gold(answers: Path, given: Mapping[str, Any]) -> Annotations:
    """Answers to which the proxy of a figure is fitted."""
    from crowdppl.errors import MethodError

    if given["gold"] is not None or given["gold_column"] is not None:
        raise MethodError("what people say is read from --people; leave --gold and --gold-column out")
    return read_answers(answers, given)


def _models(names: str | None) -> Any:
    """Which annotators are models, as of ``fit``."""
    return True if names == "all" else arguments.names(names, "--models")


def _named(of: str | None) -> Any:
    """The class, annotator or object that a figure is of, or two."""
    names = None if of is None else arguments.names(of, "--of")
    return None if names is None else names[0] if len(names) == 1 else tuple(names)


def _read_chances(path: Path) -> pd.DataFrame:
    """The items and chances that ``plan`` wrote."""
    import pandas as pd

    from crowdppl.errors import DataError

    try:
        found = pd.read_csv(path, dtype={"item": str}, keep_default_na=False)
    except ValueError as error:  # of pandas, and of Unicode
        raise DataError(f"{path} cannot be read: {error}; give the file that `crowdppl plan` wrote") from error
    if missing := [name for name in ("item", "chance") if name not in found.columns]:
        raise DataError(f"{path} has no column {missing[0]!r}; give the file that `crowdppl plan` wrote")
    return found


def _read_people(path: Path, data: Annotations, named: bool = False) -> Annotations:
    """Labels by people, of the classes of other labels; who gave which matters where they are named."""
    from crowdppl.data import files
    from crowdppl.errors import RepeatsWarning

    alike: Any = {"kind": data.kind, "classes": None if not data.n_classes else list(data.classes)}
    with warnings.catch_warnings(action="ignore", category=RepeatsWarning):
        return files.read_annotations(path, annotator=... if named else None, **alike)


def sources(answers: Path, given: Mapping[str, Any]) -> dict[str, Path]:
    """The files that are read, by their option."""
    return {
        "answers": answers,
        **{name: given[name] for name in ("gold", *FILES_OF_METHODS) if given[name] is not None},
    }


def warn_of_unread(models: Mapping[str, Mapping[str, Any]], given: Mapping[str, Any]) -> None:
    """Warns of files and columns that no method reads, according to the methods' cards and their settings."""
    from crowdppl.primitives.model import card_of

    used: set[str] = set()
    for name, settings in models.items():
        if name != "auto":
            card = card_of(registry.method(name))
            if card is None:
                return  # nobody knows what a method without a card reads
            used |= {*card.uses, *(what for setting, what in card.named.items() if settings.get(setting))}
    columns = ", ".join(given.get("label_covariate") or ()) or None
    files = {name: given.get(name) for name in FILES_OF_METHODS}
    for name, there in {**files, "label_covariates": columns}.items():
        if there is not None and name not in used:
            warn(f"{', '.join(models)}: {name} are not read, so {there} changes nothing", CrowdpplWarning)


def _of_parts(data: Annotations) -> dict[str, Any]:
    """What an opened folder of parts holds beside labels, by the options that name it for other files."""
    if data.opened is None:
        return {}
    names = [str(name) for name in data.label_names if name != data.time]
    files = None if data.edges is None else data.opened.folder / "edges-*.parquet"
    return {"label_covariate": names, "edges": files}


def _without_warnings(summary: str) -> str:
    """A summary without warnings, which the fit has printed already."""
    head, blank, tables = summary.partition("\n\n")
    kept = [line for line in head.split("\n") if not line.startswith("warning: ")]
    return "\n".join(kept) + blank + tables


def _print_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Prints warnings of crowdppl in one line, others without their place."""
    if not is_first():
        return
    if issubclass(category, CrowdpplWarning):
        _print(str(message), "warning: ")
    else:
        print(printable(f"{category.__name__}: {message}"), file=sys.stderr)


def _print(text: str, kind: str = "") -> None:
    print(printable(f"crowdppl: {kind}{arguments.as_options(' '.join(text.split()))}"), file=sys.stderr)
