"""What errors say of keywords, on the command line: options that exist, and nothing that was said by others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer

from crowdppl.cli import arguments, commands
from crowdppl.cli.inputs import (
    ENGINE,
    IN_PYTHON,
    OF_GOLD,
    OPTIONS,
    PYTHON,
    on_command_line,
    summary_on_command_line,
)
from crowdppl.inference.options import FitOptions
from tests.cli.test_cli import refused, run, write
from tests.test_architecture import LIBRARY, strings

COMMANDS = typer.main.get_command(commands.app).commands  # type: ignore[attr-defined]
EXISTING = {option for command in COMMANDS.values() for parameter in command.params for option in parameter.opts}

# Settings of methods, and entries of training=, are said as --setting takes them.
SETTINGS = {
    "bandwidth",
    "diagonal",
    "dropout",
    "epochs",
    "full_batch",
    "groups",
    "likelihood",
    "prior_strength",
    "mixup",
}
SETTINGS |= {"n_experts", "oracle", "precision", "prevalence", "steps", "stop_after", "tail", "volume", "warm_up"}
# Only who has annotations, posteriors or simulated crowds in Python meets modules that name these.
ELSEWHERE = {"ask_again", "ax", "bins", "classifier", "columns", "cost", "coverage", "data", "density", "grow"}
ELSEWHERE |= {"history", "kinds", "labels_per_item", "level", "like", "log_likelihood", "method", "n_annotators"}
ELSEWHERE |= {"pairs", "ranks"}
ELSEWHERE |= {"replace", "test", "ways", "weights"}


def test_every_option_that_is_named_exists() -> None:
    for name, option in [*OPTIONS.items(), *OF_GOLD.items()]:
        assert option == PYTHON or option.split()[0] in EXISTING, name
    assert set(ENGINE) == set(FitOptions.__annotations__) - set(arguments.SAID_ELSEWHERE)
    assert not set(OPTIONS) & set(IN_PYTHON)
    assert not {f"--{name.replace('_', '-')}" for name in IN_PYTHON} & EXISTING


def test_every_keyword_that_a_message_names_is_known() -> None:
    named = {
        name
        for path in LIBRARY
        for text in strings(ast.parse(path.read_text()))
        for name in re.findall(r"(?<![\w.-])([a-z_]{2,})=(?=[\s,;:.)'\"]|$|True)", text)
    }
    assert named - {*OPTIONS, *IN_PYTHON, *SETTINGS} == ELSEWHERE | {"answers"}  # the latter in a shape


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ("the item could be any of 'a', 'b'; say item=", "the item could be any of 'a', 'b'; say --item"),
        ("name it in abstentions=; list it in classes=", "name it in --abstain; list it in --classes"),
        ("known truths (gold=) would show it", "known truths (--gold) would show it"),
        ("use repeats='keep', 'first' or 'last'", "use --repeats 'keep', 'first' or 'last'"),
        ('Fit it with inference="gibbs", which', 'Fit it with --inference "gibbs", which'),
        ("fit with chains=4, or device='cpu'", "fit with --option chains=4, or --device 'cpu'"),
        ('as in abstentions=["don\'t know"]', 'as in --abstain "don\'t know"'),
        ("calibrate=True would", "--calibrate would"),
        ("add it to items= if it is one", "add it to items= (in Python) if it is one"),
        ("when told whole_items=True", "when told whole_items=True (in Python)"),
        ("--option draws=0 must be more", "--option draws=0 must be more"),
        ("the label 'say item=' is none", "the label 'say item=' is none"),
        ("the label \"it's item=\" or 'a \\' kind= b'", "the label \"it's item=\" or 'a \\' kind= b'"),
        ("an annotator's row; say item=; annotators' gold=", "an annotator's row; say --item; annotators' --gold"),
        ("label=1.csv is not there", "label=1.csv is not there"),
        ("data/kind=x/a.csv is not there", "data/kind=x/a.csv is not there"),
        ("seed=3/answers.csv is not there", "seed=3/answers.csv is not there"),
        ("classes=['no', 'yes'] are two", "classes=['no', 'yes'] are two"),
        ("crowdppl.load(path, features=dataset)", "crowdppl.load(path, features=dataset)"),
        ("prior='published' is one", "prior='published' is one"),
    ],
)
def test_keywords_become_options(said: str, spoken: str) -> None:
    assert on_command_line(said) == spoken
    assert on_command_line(spoken) == spoken


def test_only_the_messages_of_a_summary_are_worded_anew() -> None:
    summary = "vb: 9 items\ndoubt: give known truths (gold=)\nnote: say item=\n\nitem=  3\ndoubt: 4"
    assert summary_on_command_line(summary) == "vb: 9 items\nnote: say --item\n\nitem=  3\ndoubt: 4"


def test_refusals_name_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", tmp_path / "result")
    good = write(
        tmp_path / "good.csv", [["item", "who", "label"], ["1", "a", "x"], ["1", "b", "y"], ["2", "a", ""]]
    )

    def said(*command: str | Path) -> str:
        text = refused(capsys, "fit", *command, *out)
        found = re.findall(r"(?<!\w)--[a-z-]+", text)
        assert set(found) <= EXISTING
        return text

    named = (good, "--annotator", "who")
    assert said(good).endswith("; say --annotator")
    assert "name it in --abstain; if it really is a class, list it in --classes" in said(*named)
    assert "add it to --classes, or name it in --abstain" in said(*named, "--classes", "x,z")
    (tmp_path / "good.txt").write_text("item who\n1 a\n")
    assert "or say --format. Read are CSV" in said(tmp_path / "good.txt")
    assert said(tmp_path / "good.txt", "--format", "csv").endswith("separates them, say --delimiter")
    assert "--repeats 'keep', 'first' or 'last'" in said(
        write(tmp_path / "twice.csv", [["item", "user", "label"], ["1", "a", "x"], ["1", "a", "y"]]),
        "--repeats",
        "error",
    )
    assert "use --kind 'nominal' or --kind 'ordinal'" in said(*named, "--abstain", "", "--kind", "pairwise")
    gold = write(tmp_path / "gold.csv", [["item", "label", "answer"], ["3", "x", "y"]])
    assert said(*named, "--gold", gold).endswith("could be any of the columns 'label', 'answer'; say --gold-label")
    assert "add it to items= (in Python)" in said(*named, "--abstain", "", "--gold", gold, "--gold-label", "label")
    assert "--device 'cpu'" in said(*named, "--device", "cuda:99") or "GPU" in said(*named, "--device", "cuda:99")


def test_odd_files_are_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{i};{a};{'Yes' if i % 2 else 'no'}" for i in range(6) for a in ("ann", "bob", " bob")]
    (tmp_path / "a.csv").write_text(
        "sep=;\ntask;worker;answer\n" + "\n".join([*rows, "0;cy;yes"]), encoding="utf-8"
    )
    (tmp_path / "gold.csv").write_text("case;right\n1;Yes\n")
    gold = ("--gold", tmp_path / "gold.csv", "--gold-item", "case", "--gold-label", "right")
    fit = ("fit", tmp_path / "a.csv", "--model", "one_coin", "--inference", "em", "--out", tmp_path / "out")
    assert run(*fit, *gold) == 0
    warned = capsys.readouterr().err
    assert (
        "2 of 4 annotators differ from another in blanks, zeros, case or Unicode form alone, such as ' bob' and"
        in warned
    )
    assert (
        "such as 'Yes' and 'yes', and count as labels of their own" in warned
        and "list all in --classes if" in warned
    )
    (tmp_path / "b.txt").write_text((tmp_path / "a.csv").read_text().replace(";", "\t").replace("sep=\t\n", ""))
    for separated in ("tab", r"\t", "\t"):
        assert run("fit", tmp_path / "b.txt", "--delimiter", separated, *fit[2:], "--overwrite") == 0
    truth = ("evaluate", tmp_path / "out", tmp_path / "gold.csv", "--item", "case", "--label", "right")
    assert run(*truth, "--delimiter", ";") == run(*truth) == 0
