"""Messages of the command and of fits."""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import crowdppl
from crowdppl import fitting
from crowdppl.cli import arguments, commands, outputs, reading
from crowdppl.data.kinds import KINDS
from tests.messages.inputs import FOLDER, NUMBER, Row, pairs, read, table, written

NUMBERS = table(label=[1.5, 2.5, 3.0, 4.0])
FIT: dict[str, Any] = {"inference": "vb", "seed": 0, "max_iterations": 3}


def folder() -> Path:
    path = FOLDER / f"result-{next(NUMBER)}"
    path.mkdir()
    return path


def with_result(run: str = '{"crowdppl": "1"}') -> Path:
    path = folder()
    (path / "labels.csv").write_text("")
    (path / "run.json").write_text(run)
    return path


def without_methods() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "bare", type(KINDS["pair"])("bare", "bare", "bare", KINDS["pair"].space, methods=()))
        return arguments.default_methods("bare")


def with_processes(answers: Path, model: str | None, report: bool = False) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        commands.require_shared(answers, model, report)


def parts() -> Path:
    path = folder()
    (path / "dataset.json").touch()
    return path


def reported(model: str | None) -> Any:
    """A report on the fit of a folder."""
    path = folder()
    crowdppl.fit("one_coin", read(), **FIT).save(path)
    reading: Any = {name: default for name, (_, default) in arguments.READING.items()}
    return commands.write_report(path, path / "report.html", model=model, **reading)


def with_texts(report: bool) -> Any:
    """A fit whose report shows texts."""
    unsaid: Any = {name: default for name, (_, default) in arguments.READING.items()}
    answers = written(
        "item,annotator,label,what\n" + "".join(f"{n},{w},{'xy'[n]},t\n" for n in (0, 1) for w in "ab")
    )
    how: Any = {"model": "one_coin", "inference": "vb", "report": report, "text": "what", "progress": False}
    return commands.fit_answers(answers, folder() / "result", **how, **unsaid)


def several_texts(column: str) -> Any:
    answers = written("item,annotator,label,note,what\n1,a,x,good,t\n1,b,y,bad,t\n")
    return reading.read_texts(answers, column, {})


def stopped() -> Any:
    """A fit by auto that somebody stops."""

    def stop(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "calibrated", stop)
        return crowdppl.fit("auto", crowdppl.anaesthetists(), seed=0)


def no_candidates() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_candidates", lambda data: {})
        return fitting.fit_best(read(pairs(), kind="pair"), {})


def fitted(frame: Any = None, method: str = "one_coin", kind: str | None = None, **options: Any) -> Any:
    return crowdppl.fit(method, read(frame, kind=kind), **FIT | options)


def without_extra() -> None:
    with patch.dict(sys.modules, {"uvicorn": None}):
        sys.modules.pop("crowdppl.app.server", None)
        commands.open_app()


def unread(**given: Any) -> None:
    commands.warn_of_unread(
        {"one_coin": {}}, {**dict.fromkeys([*commands.FILES_OF_METHODS, "label_covariate"]), **given}
    )


def gold(encoding: str | None) -> Any:
    path = written("item,label\n1,é\n".encode("latin-1"), "gold.csv")
    return reading.read_answers(
        written("item,annotator,label\n1,a,é\n1,b,y\n"), {"gold": path, "gold_encoding": encoding}
    )


def estimated(**given: Any) -> Any:
    answers = "".join(f"{n},{who},{'xy'[n % 2]}\n" for n in range(30) for who in "ab")
    people = "".join(f"{n},{'xy'[n % 2]}\n" for n in range(20))
    unsaid = {name: default for name, (_, default) in arguments.READING.items()}
    files = written("item,annotator,label\n" + answers), written("item,label\n" + people, "people.csv")
    return commands.estimate_figure(*files, of="x", **{**unsaid, "model": "one_coin", **given})


def planned(**given: Any) -> Any:
    answers = "".join(f"{n},{who},{'xy'[n % 2]}\n" for n in range(30) for who in "ab")
    unsaid = {name: default for name, (_, default) in arguments.READING.items()}
    return commands.plan_figure(
        written("item,annotator,label\n" + answers), of="x", **{**unsaid, "model": "one_coin", **given}
    )


ROWS = [
    Row(
        "commands.require_shared",
        lambda: with_processes(written("item,annotator,label"), "mace"),
        lambda: with_processes(parts(), "mace"),
    ),
    Row("commands.require_shared", lambda: with_processes(parts(), None), lambda: with_processes(parts(), "mace")),
    Row(
        "commands.require_shared",
        lambda: with_processes(parts(), "mace", report=True),
        lambda: with_processes(parts(), "mace"),
    ),
    Row("arguments.default_methods", without_methods, lambda: arguments.default_methods("pair")),
    Row(
        "arguments.names",
        lambda: arguments.names('"a', "--classes"),
        lambda: arguments.names('a,b,"c, d"', "--classes"),
    ),
    Row(
        "arguments.names",
        lambda: arguments.names("a,,b", "--classes"),
        lambda: arguments.names('a,"",b', "--classes"),
    ),
    Row(
        "arguments.pairs",
        lambda: arguments.pairs(["draws"], "--option"),
        lambda: arguments.pairs(["draws=3"], "--option"),
    ),
    Row(
        "arguments.pairs",
        lambda: arguments.pairs(["a=1", "a=2"], "--option"),
        lambda: arguments.pairs(["a=1"], "--option"),
    ),
    Row(
        "arguments.settings_by_method",
        lambda: arguments.settings_by_method(["other.a=1"], ["one_coin"]),
        lambda: arguments.settings_by_method(["one_coin.a=1"], ["one_coin"]),
    ),
    Row(
        "arguments.engine_options",
        lambda: arguments.engine_options(["seed=1"]),
        lambda: arguments.engine_options(["draws=10"]),
    ),
    Row("commands.main", lambda: commands.main(["fit", "nowhere.csv"]), why="it ends the command after a message"),
    Row("commands.common", lambda: commands.common(version=True), why="it ends the command, and is no message"),
    Row("commands.open_app", without_extra, why="an extra is to be installed"),
    Row("commands._read_without_gold", lambda: estimated(gold=Path("gold.csv")), estimated),
    Row("commands.plan_figure", lambda: planned(labels=12, width=0.1), lambda: planned(width=0.3)),
    Row(
        "commands.plan_figure",
        lambda: planned(labels=12),
        lambda: planned(labels=12, out=written("", "new.csv"), overwrite=True),
    ),
    Row(
        "commands._read_chances",
        lambda: estimated(chances=written(b"\xff", "chances.csv")),
        lambda: estimated(chances=written("item,chance\n" + "".join(f"{n},0.5\n" for n in range(20)), "drawn.csv")),
    ),
    Row(
        "commands._read_chances",
        lambda: estimated(chances=written("item,share\n1,0.5\n", "chances.csv")),
        lambda: estimated(chances=written("item,chance\n" + "".join(f"{n},0.5\n" for n in range(20)), "drawn.csv")),
    ),
    Row("commands.estimate_figure", lambda: estimated(above=0.99), why="it ends the command, and is no message"),
    Row("commands.write_report", lambda: reported(model="one_coin"), lambda: reported(model=None)),
    Row("commands.fit_answers", lambda: with_texts(report=False), lambda: with_texts(report=True)),
    Row("reading.read_texts", lambda: several_texts("note"), lambda: several_texts("what")),
    Row("reading.read_answers", lambda: gold(None), lambda: gold("latin-1")),
    Row("commands.warn_of_unread", lambda: unread(features=Path("f.csv")), unread),
    Row(
        "outputs.require_room",
        lambda: outputs.require_room(with_result(), False),
        lambda: outputs.require_room(with_result(), True),
    ),
    Row(
        "outputs.require_room",
        lambda: outputs.require_room(with_result("{}"), True),
        lambda: outputs.require_room(folder(), False),
    ),
    Row(
        "outputs.require_new",
        lambda: outputs.require_new(FOLDER, False),
        lambda: outputs.require_new(FOLDER / "new.csv", False),
    ),
    Row(
        "outputs.require_new",
        lambda: outputs.require_new(written("x"), False),
        lambda: outputs.require_new(written("x"), True),
    ),
    Row(
        "outputs._refuse_source",
        lambda: outputs.require_new(*(lambda path: (path, True, [path]))(written("x"))),
        lambda: outputs.require_new(written("x"), True, [written("x")]),
    ),
    Row(
        "fitting.fit",
        lambda: fitted(NUMBERS, "gaussian_annotators", "real", calibrate=True),
        lambda: fitted(NUMBERS, "gaussian_annotators", "real"),
    ),
    Row(
        "fitting.fit",
        lambda: fitted(),
        lambda: crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0),
        "more labels",
    ),
    Row(
        "fitting.fit",
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), checkpoint="kept"),
        lambda: crowdppl.fit(
            "one_coin", crowdppl.anaesthetists(), inference="em", checkpoint=f"{written('x')}.kept"
        ),
        "makes several",
    ),
    Row(
        "fitting.check_automatic",
        lambda: fitted(None, "auto", inference="em"),
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), seed=0),
    ),
    Row(
        "fitting._check_trusted",
        lambda: crowdppl.fit("glad", crowdppl.anaesthetists(), inference="vb", trusted=["1"]),
        lambda: crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", trusted=["1"], seed=0),
    ),
    Row(
        "fitting._check_trusted",
        lambda: crowdppl.fit(
            "one_coin", crowdppl.anaesthetists(), inference="vb", trusted=["1"], calibrate=True, seed=0
        ),
        lambda: crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", trusted=["1"], seed=0),
    ),
    Row(
        "fitting.fit",
        lambda: crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", models=True),
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), models=True, seed=0),
    ),
    Row(
        "fitting.fit_panel",
        lambda: fitted(NUMBERS, "auto", "real", models=True),
        lambda: fitted(NUMBERS, "gaussian_annotators", "real"),
    ),
    Row(
        "fitting.fit_panel",
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), models="1"),
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), models=["1"], seed=0),
    ),
    Row(
        "fitting.fit_panel",
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), models=[]),
        lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), models=["1"], seed=0),
    ),
    Row("fitting.fit_auto", stopped, lambda: crowdppl.fit("auto", crowdppl.anaesthetists(), seed=0)),
    Row("fitting.fit_best", no_candidates, lambda: fitted(pairs(), "bradley_terry", "pair")),
]
