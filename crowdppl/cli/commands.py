"""The command ``crowdppl``: fit, evaluate, list the zoo, and a demonstration.

Commands import what they need, so that --help is there at once. Those that read answers have the same options
for it (``answer_file.reading``), and hand them on as a whole: ``answer_file.read_answers`` knows what each means.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from crowdppl import __version__, registry
from crowdppl.cli import arguments, inputs
from crowdppl.cli.inputs import on_command_line, summary_on_command_line
from crowdppl.core.devices import held_back
from crowdppl.errors import CrowdpplError, CrowdpplWarning
from crowdppl.fitting import check_automatic, fit
from crowdppl.primitives.model import card_of, in_a_line

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(command: Sequence[str] | None = None) -> None:
    """Runs the command; what crowdppl refuses is one line on the standard error and exit status 2.

    Args:
        command: the arguments, by default those of the process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", CrowdpplWarning)
        warnings.showwarning = _say_warning  # restored by catch_warnings
        try:
            app(None if command is None else list(command))
        except CrowdpplError as error:
            _say(on_command_line(str(error)))
        except OSError as error:
            _say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        else:
            return
    raise SystemExit(2)


@app.callback(invoke_without_command=True)
def common(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Infers the truth from the labels of many annotators, and how good each annotator is."""
    if version:
        print(f"crowdppl {__version__}")
        raise typer.Exit


@app.command("fit")
@inputs.reading
def fit_answers(
    answers: arguments.Answers,
    out: arguments.Out,
    model: arguments.Model = "bayesian_dawid_skene",
    inference: arguments.Inference = "auto",
    setting: arguments.Settings = None,
    option: arguments.Options = None,
    calibrate: arguments.Calibrate = False,
    seed: arguments.Seed = 0,
    device: arguments.Device = "cpu",
    progress: arguments.Progress = arguments.ON_TERMINAL,
    overwrite: arguments.Overwrite = False,
    **how: Any,
) -> None:
    """Fit a method to a file of answers.

    Writes labels.csv, annotators.csv, the posterior and run.json to a folder, which crowdppl.load(FOLDER) reads in
    Python. Columns named item, annotator and label (or task, worker, answer and the like) are recognised.
    """
    from crowdppl.cli.outputs import FILES, require_room, write_result

    settings = arguments.pairs(setting, "--setting")
    options: Any = arguments.engine_options(option) | {"seed": seed, "device": device, "progress": progress}
    _check(model, inference, settings, options)  # what is wrong is said before a long file is read
    inputs.warn_of_unread([model], how)
    files = inputs.sources(answers, how)
    require_room(out, overwrite, list(files.values()))
    began = time.perf_counter()
    data = inputs.read_answers(answers, how)
    read = time.perf_counter()
    posterior = fit(model, data, inference=inference, settings=settings or None, calibrate=calibrate, **options)
    seconds = {"read": read - began, "fit": time.perf_counter() - read}
    said = {name: path and str(path) for name, path in files.items() if path or name == "gold"}
    with held_back():  # a second Ctrl-C, or one that comes late, loses no fit
        write_result(posterior, out, said, seconds)
    print(summary_on_command_line(posterior.summary()), f"\n{FILES} are in {out}", sep="\n")


@app.command("compare")
@inputs.reading
def compare_methods(
    answers: arguments.Answers,
    model: arguments.Models = arguments.COMPARED,
    inference: arguments.Inference = "auto",
    folds: arguments.Folds = 5,
    setting: arguments.SettingsOfMethods = None,
    option: arguments.Options = None,
    seed: arguments.Seed = 0,
    device: arguments.Device = "cpu",
    out: arguments.Table = None,
    overwrite: arguments.Overwrite = False,
    **how: Any,
) -> None:
    """Compare methods by how well they predict labels that they were not shown; no truth is needed.

    Prints the mean log-probability of a label left out, its distance from the best method's with a standard error,
    and the weights of the methods in the best mixture of their predictions.
    """
    from crowdppl.cli.outputs import require_new
    from crowdppl.evaluation.compare import compare
    from crowdppl.evaluation.heldout import unprepared

    options: Any = arguments.engine_options(option) | {"seed": seed, "device": device}
    settings = arguments.settings_by_method(setting, model)
    for name in model:  # before a large file is read
        unprepared(name, settings.get(name))
    inputs.warn_of_unread(model, how)
    if out is not None:
        require_new(out, overwrite, list(inputs.sources(answers, how).values()))
    data = inputs.read_answers(answers, how)
    found = compare(model, data, folds=folds, inference=inference, settings=settings, **options)
    print(found)
    if out is not None:
        found.table.to_csv(out)


@app.command()
def zoo(name: Annotated[str | None, typer.Argument(help="A method; by default all.")] = None) -> None:
    """List the methods, or say all about one."""
    table = registry.zoo({"about": in_a_line}, engines=name is not None)
    if name is None:
        width = max(map(len, table.index), default=0)
        for method, about in table["about"].items():
            print(f"{method:{width}}  {about}")
        print("\ncrowdppl zoo NAME says more about one.")
        return
    registry.method(name)
    for key, text in _card(name, table.loc[name]).items():
        print(f"{key:>10}  {text}")


@app.command()
def evaluate(
    result: Annotated[Path, typer.Argument(help="Folder that `crowdppl fit` wrote.")],
    truth: Annotated[Path, typer.Argument(help="File with the true class of items, an item a row.")],
    item: arguments.Item = None,
    label: arguments.Label = None,
    format: arguments.Format = None,
    delimiter: arguments.Delimiter = None,
    encoding: arguments.Encoding = None,
    bootstrap: arguments.Bootstrap = 1000,
) -> None:
    """Score a result against known truths: accuracy, log score, calibration, detection of errors, annotators.

    Prints each score with its 95 % bootstrap interval.
    """
    from crowdppl.data.files import read_gold
    from crowdppl.evaluation import metrics
    from crowdppl.posterior import load

    gold = read_gold(truth, item, label, format=format, delimiter=delimiter, encoding=encoding)
    found = metrics.evaluate(load(result), gold, bootstrap=max(1, bootstrap))
    ends = found.intervals()[["low", "high"]].dropna().T.to_dict("list") if bootstrap else {}
    for key, value in dict(found).items():
        interval = "{:.4f} to {:.4f}".format(*ends[key]) if key in ends else ""
        print(f"{key:18} {value:<8.4f} {interval}".rstrip() if isinstance(value, float) else f"{key:18} {value}")


@app.command()
def demo(
    out: arguments.Out = Path("crowdppl-demo"),
    seed: arguments.Seed = 0,
    overwrite: arguments.Overwrite = False,
) -> None:
    """Fit Bayesian Dawid-Skene by Gibbs to the anaesthetists of Dawid & Skene (1979)."""
    from crowdppl.cli.demo import run_demo

    run_demo(out, seed, overwrite=overwrite)


@app.command("datasets")
def list_datasets(
    name: Annotated[str | None, typer.Argument(help="A data set; by default all.")] = None,
) -> None:
    """List public data sets, or say all about one."""
    from crowdppl.datasets.public import described

    print(described(name))


def _check(model: str, inference: str, settings: dict[str, Any], options: Any) -> None:
    """Refuses a method, settings or options that there are not."""
    from crowdppl.inference.options import options_from

    if model == "auto":
        check_automatic(inference, alone=not settings)
    else:
        registry.method(model, **settings)
    options_from(options)


def _card(name: str, row: Any) -> dict[str, str]:
    """What there is to say about a method; empty parts are left out."""
    card = card_of(registry.method(name))
    parts = {"method": name, **dict(row)}
    if card is not None:
        parts |= {"link": card.link, "assumes": card.assumes, "fails": card.fails, "cost": card.cost}
        parts |= {f"not {engine}": why for engine, why in card.refused.items()}
    return {key: str(text) for key, text in parts.items() if text}


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Warnings of crowdppl as one clean line, others as they are."""
    if issubclass(category, CrowdpplWarning):
        _say(on_command_line(str(message)), "warning: ")
    else:
        print(f"{category.__name__}: {message}", file=sys.stderr)


def _say(text: str, kind: str = "") -> None:
    print(f"crowdppl: {kind}{' '.join(text.split())}", file=sys.stderr)
