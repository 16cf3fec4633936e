"""The command line: what it writes, what it prints, and how it refuses."""

import csv
import json
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Annotations
from crowdppl.cli.arguments import as_options, engine_options, names, pairs
from crowdppl.cli.commands import main
from crowdppl.cli.reading import read_texts
from crowdppl.data.files import read_annotations
from crowdppl.errors import MethodError
from crowdppl.evaluation.compare import compare
from crowdppl.posterior import load
from crowdppl.results.archive import FILES
from tests.networks.test_networks import clouds

ODD_ITEMS = ["007", "7", " a b ", 'quote "x"', "a,b", "naïve ☃", "line\nbreak", "-1e3"]
ODD_ANNOTATORS = ["Zoë, PhD", "00", "0"]


def run(*command: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in command])
    return int(ended.value.code or 0)


def refused(capsys: pytest.CaptureFixture[str], *command: str | Path) -> str:
    capsys.readouterr()
    assert run(*command) == 2
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if not line.startswith("crowdppl: warning: ")]
    assert printed.out == ""
    assert len(lines) == 1
    assert "Traceback" not in printed.err
    return lines[0]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    rows = [
        [item, annotator, "no" if (n + (n == m)) % 2 else "yes"]
        for n, item in enumerate(ODD_ITEMS)
        for m, annotator in enumerate(ODD_ANNOTATORS)
    ]
    return write(tmp_path / "answers.csv", [["task", "worker", "answer"], *rows])


def test_an_estimate_is_printed_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = np.random.default_rng(0)
    truth = stream.integers(0, 2, 120)
    rows = [[f"{n}", a, "ny"[t ^ (stream.random() < 0.1)]] for n, t in enumerate(truth.tolist()) for a in "abc"]
    answers = write(tmp_path / "answers.csv", [["item", "annotator", "label"], *rows])
    said = [[f"{n}", "ny"[t]] for n, t in enumerate(truth[:60].tolist())]
    people = write(tmp_path / "people.csv", [["item", "label"], *said])
    command = ("estimate", answers, "--people", people, "--of", "y", "--model", "one_coin")
    assert run(*command, "--out", tmp_path / "figure.csv", "--above", "0.2") == 0
    assert "share of 'y' by map" in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "figure.csv").iloc[0]
    assert found["low"] < truth.mean() < found["high"]
    assert run(*command, "--above", "0.9") == 1
    assert "of='z' is none of the classes" in refused(capsys, *command[:4], "--of", "z", "--model", "one_coin")


def test_a_report_names_items_to_check_and_reads_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = np.random.default_rng(0)
    truth = stream.integers(0, 2, 80)
    rows = [[f"{n}", a, "ny"[t ^ (stream.random() < 0.2)]] for n, t in enumerate(truth.tolist()) for a in "abc"]
    answers = write(tmp_path / "answers.csv", [["item", "annotator", "label"], *rows])
    quick = ("--model", "one_coin", "--inference", "vb")
    page, check = tmp_path / "page.html", tmp_path / "page-files" / "check.csv"
    assert run("report", answers, *quick, "--out", page) == 0
    assert f"the report is in {page}" in capsys.readouterr().out
    drawn = pd.read_csv(check)
    assert len(drawn) == 50 and drawn["label"].isna().all()
    drawn["label"] = ["ny"[truth[n]] if place < 30 else "" for place, n in enumerate(drawn["item"])]
    drawn.to_csv(tmp_path / "checked.csv", index=False)
    again = ("report", answers, *quick, "--gold", tmp_path / "checked.csv", "--out", page)
    assert "exists; give another file" in refused(capsys, *again)
    assert run(*again, "--overwrite") == 0
    assert "By the 30 items that were checked" in page.read_text(encoding="utf-8")


def test_a_fit_writes_a_report_beside_its_tables(tmp_path: Path, answers: Path) -> None:
    command = ("fit", answers, "--model", "one_coin", "--inference", "vb", "--out", tmp_path / "result")
    assert run(*command, "--report", "--language", "de") == 0
    assert '<html lang="de">' in (tmp_path / "result" / "report.html").read_text(encoding="utf-8")
    assert {"report.html", "check.csv", "labels.csv"} <= {x.name for x in (tmp_path / "result").iterdir()}
    assert run("report", tmp_path / "result", "--out", tmp_path / "again.html") == 0
    assert run(*command, "--overwrite") == 0
    assert not {"report.html", "check.csv"} & {x.name for x in (tmp_path / "result").iterdir()}


def test_reports_show_texts_of_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[f"{n}", a, "ny"[n % 2], f"<i>say {n}"] for n in range(12) for a in "abc"]
    answers = write(tmp_path / "answers.csv", [["item", "annotator", "label", "what"], *rows])
    quick = ("--model", "one_coin", "--inference", "vb", "--text", "what")
    assert run("fit", answers, *quick, "--report", "--out", tmp_path / "result") == 0
    assert run("report", answers, *quick, "--out", tmp_path / "page.html") == 0
    for page in (tmp_path / "result" / "report.html", tmp_path / "page.html"):
        told = page.read_text(encoding="utf-8")
        assert all(f"&lt;i&gt;say {n}<" in told for n in range(12))
    assert "say --report, too" in refused(capsys, "fit", answers, *quick, "--out", tmp_path / "new")
    wrong = (*quick[:-1], "wat", "--report", "--out", tmp_path / "new")
    assert "has no column 'wat' for text" in refused(capsys, "fit", answers, *wrong)


def test_texts_are_those_of_pairs_of_columns(tmp_path: Path) -> None:
    rows = [[a, b, who, "p", f"{a} or {b}"] for a, b in ("xy", "yz") for who in "vw"]
    texts = {("x", "y"): "x or y", ("y", "z"): "y or z"}
    known = write(tmp_path / "known.csv", [["left", "right", "annotator", "label", "what"], *rows])
    assert read_texts(known, "what", {"kind": "similarity"}).to_dict() == texts
    named = write(tmp_path / "named.csv", [["this", "that", "annotator", "label", "what"], *rows])
    assert read_texts(named, "what", {"kind": "similarity", "item": "this,that"}).to_dict() == texts


def test_items_are_drawn_for_a_pilot_then_for_a_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = np.random.default_rng(0)
    truth = stream.integers(0, 2, 200)
    rows = [[f"{n}", a, "ny"[t ^ (stream.random() < 0.2)]] for n, t in enumerate(truth.tolist()) for a in "abc"]
    answers = write(tmp_path / "answers.csv", [["item", "annotator", "label"], *rows])
    figure = ("--of", "y", "--model", "one_coin")
    pilot, drawn, people = (tmp_path / f"{name}.csv" for name in ("pilot", "drawn", "people"))
    assert run("plan", answers, *figure, "--labels", 40, "--out", pilot) == 0

    def label(path: Path) -> pd.DataFrame:
        frame = pd.read_csv(path)
        frame.assign(label=["ny"[truth[n]] for n in frame["item"]]).to_csv(people, index=False)
        return frame

    first = label(pilot)
    assert run("plan", answers, *figure, "--people", people, "--width", 0.18, "--out", drawn) == 0
    n = int(capsys.readouterr().out.partition("\n")[2].split()[0])
    second = label(drawn)
    assert second["item"].tolist()[:40] == first["item"].tolist() and len(second) == n > 40
    assert (
        run("estimate", answers, "--people", people, "--chances", drawn, *figure, "--out", pilot, "--overwrite")
        == 0
    )
    found = pd.read_csv(pilot).iloc[0]
    assert found["low"] < truth.mean() < found["high"] and found["high"] - found["low"] < 0.2
    assert "leave promises" in refused(capsys, "plan", answers, *figure, "--labels", 40, "--width", 0.1)
    assert "nothing is promised" in refused(capsys, "plan", answers, *figure)


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def test_trusted_annotators_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = np.random.default_rng(0).integers(2, size=40)
    crowd = crowdppl.simulate_annotators(truth, {"hammer": 3, "spammer": 2}, seed=0).data.frame()
    trusted = pd.DataFrame({"item": range(40), "annotator": "the boss, PhD", "label": truth})[:20]
    path, out = tmp_path / "answers.csv", tmp_path / "out"
    pd.concat([crowd, trusted]).to_csv(path, index=False)
    assert run("fit", path, "--trusted", '"the boss, PhD"', "--out", out, "--verbose") == 0
    printed = capsys.readouterr().out
    assert "bayesian_dawid_skene by" in printed and "annotators by trusted items" in printed
    known = load(out).labels()["label"].astype(int)[lambda x: x.index.astype(int) < 20]
    assert (known.to_numpy() == truth[known.index.astype(int)]).all()
    assert "'nobody'" in refused(capsys, "fit", path, "--trusted", "nobody", "--out", tmp_path / "other")


def test_fit_writes_what_it_says(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "result"
    settings = ("--setting", "prevalence=uniform", "--option", "restarts=2", "--option", "max_iterations=1e2")
    fit = ("fit", answers, "--model", "dawid_skene", "--inference", "em")
    assert run(*fit, "--out", out, "--seed", 5, *settings, "--verbose") == 0
    printed = capsys.readouterr().out
    assert "dawid_skene by em: 24 labels of 8 items by 3 annotators" in printed
    assert str(out) in printed
    written = {path.name for path in out.iterdir()}
    assert written == {"labels.csv", "annotators.csv", "run.json", *FILES}
    posterior = load(out, method="dawid_skene")
    assert posterior.inference == "em"

    with (out / "labels.csv").open(newline="", encoding="utf-8") as file:
        labels = list(csv.DictReader(file))
    assert [row["item"] for row in labels] == list(posterior.data.items)
    assert {row["item"] for row in labels} == set(ODD_ITEMS), "odd ids survive"
    assert list(labels[0]) == ["item", "label", "probability", "entropy", "votes", "tied", "p(no)", "p(yes)"]
    assert [row["label"] for row in labels] == list(posterior.labels()["label"])
    np.testing.assert_array_equal([float(row["p(no)"]) for row in labels], posterior.probabilities()["no"])
    with (out / "annotators.csv").open(newline="", encoding="utf-8") as file:
        annotators = list(csv.DictReader(file))
    assert {row["annotator"] for row in annotators} == set(ODD_ANNOTATORS)
    assert {row["labels"] for row in annotators} == {"8"}

    record = json.loads((out / "run.json").read_text())
    assert record["settings"]["prevalence"] == "uniform"
    assert record["options"].items() >= {"seed": 5, "restarts": 2, "max_iterations": 100}.items()
    assert (record["method"], record["inference"], record["answers"]) == ("dawid_skene", "em", str(answers))
    assert record["data"]["items"] == 8
    assert record["data"]["columns"] == {"item": "task", "annotator": "worker", "label": "answer"}
    assert set(record["seconds"]) == {"read", "fit", "write"}
    assert record["diagnostics"]["converged"] is True
    assert record["crowdppl"]
    assert isinstance(record["warnings"], list)


def test_parts_are_fitted_as_the_file_they_come_from(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, gold = tmp_path / "parts", write(tmp_path / "gold.csv", [["item", "label"], [ODD_ITEMS[0], "no"]])
    assert run("convert", answers, parts, "--n-parts", 3, "--label", "answer") == 0
    sizes = f"{len(ODD_ITEMS)} items, {len(ODD_ANNOTATORS)} annotators"
    assert f"{sizes}, {len(ODD_ITEMS) * len(ODD_ANNOTATORS)} labels, 3 parts are in" in capsys.readouterr().out
    how = ("--model", "one_coin", "--inference", "em", "--gold", gold, "--out")
    for source, out in ((answers, "one"), (parts, "other")):
        assert run("fit", source, *how, tmp_path / out) == 0
    one, other = (load(tmp_path / out).probabilities() for out in ("one", "other"))
    np.testing.assert_allclose(other.loc[one.index], one, atol=1e-12)
    assert "leave out --kind" in refused(capsys, "fit", parts, "--kind", "ordinal", "--out", tmp_path / "third")
    assert "exists" in refused(capsys, "convert", answers, parts)


def test_doubts_are_printed_once_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    careful = [[f"i{n}", f"a{m}", "yes" if n % 2 else "no"] for n in range(60) for m in range(4)]
    at_random = [[f"i{n}", "a4", "yes" if n // 2 % 2 else "no"] for n in range(60)]
    answers = write(tmp_path / "answers.csv", [["item", "annotator", "label"], *careful, *at_random])
    out = tmp_path / "result"
    fit = ("fit", answers, "--model", "one_coin", "--inference", "em", "--out", out)
    assert run(*fit) == 0
    printed = capsys.readouterr()
    assert "! One of 5 people answers as if not looking" in printed.out
    assert "bits" not in printed.out + printed.err
    assert run(*fit, "--overwrite", "--verbose") == 0
    record = json.loads((out / "run.json").read_text())
    printed = capsys.readouterr()
    assert [doubt["who"] for doubt in record["doubts"]] == [{"annotators": ["a4"]}]
    doubts = [said for said in record["warnings"] if "a4" in said]
    assert doubts and all(" ".join(doubt.split()) in printed.err and doubt not in printed.out for doubt in doubts)


def test_columns_classes_abstentions_gold_and_kind(tmp_path: Path) -> None:
    rows = [["01", "x", "2"], ["01", "y", "unsure"], ["02", "x", "3"], ["02", "y", "3"], ["03", "y", "2"]]
    answers = write(tmp_path / "odd.csv", [["id of case", "who", "what"], *rows])
    gold = write(tmp_path / "gold.csv", [["item", "label"], ["03", "1"]])
    out = tmp_path / "result"
    columns = ("--item", "id of case", "--annotator", "who", "--label", "what")
    said = ("--classes", "1,2, 3", "--abstain", "unsure", "--kind", "ordinal", "--gold", gold)
    said += ("--informative-abstentions",)
    assert run("fit", answers, "--model", "one_coin", "--inference", "em", "--out", out, *columns, *said) == 0
    posterior = load(out)
    assert list(posterior.data.classes) == ["1", "2", "3"]
    assert list(posterior.data.answers) == ["1", "2", "3", "unsure"]
    assert posterior.data.kind == "ordinal"
    assert posterior.data.alphabet.informative
    assert list(posterior.data.items) == ["01", "02", "03"]
    assert posterior.probabilities().loc["03", "1"] == 1
    assert json.loads((out / "run.json").read_text())["data"]["gold"] == 1


def test_gold_and_annotators_are_columns_of_a_wide_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["task", "ann", "bob", "truth"], ["1", "x", "y", "y"], ["2", "y", "y", ""], ["3", "x", "x", "x"]]
    fit = ("fit", write(tmp_path / "wide.csv", rows), "--wide", "--model", "one_coin", "--inference", "em")
    out = tmp_path / "result"
    assert "'truth'" in refused(capsys, *fit, "--out", out)
    assert run(*fit, "--out", out, "--annotators", "ann,bob", "--gold-column", "truth") == 0
    data = load(out).data
    assert data.gold is not None and data.gold.to_dict() == {"1": "y", "3": "x"}
    record = json.loads((out / "run.json").read_text())
    assert record["data"]["columns"] == {"item": "task", "annotator": "ann, bob", "gold": "truth"}


def test_evaluate(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result"
    run("fit", answers, "--model", "majority_vote", "--inference", "em", "--out", out)
    found = load(out).labels()["label"]
    truth = write(tmp_path / "truth.csv", [["task", "truth"], *([item, found[item]] for item in ODD_ITEMS)])
    capsys.readouterr()
    assert run("evaluate", out, truth) == 0
    lines = capsys.readouterr().out.splitlines()
    scores = dict(line.split(maxsplit=1) for line in lines)
    assert scores["n"] == "8"
    assert scores["accuracy"].split() == ["1.0000", f"{0.025 ** (1 / 8):.4f}", "to", "1.0000"]  # exact, of 8 of 8
    value, low, _, high = scores["brier"].split()
    assert float(low) <= float(value) <= float(high)
    assert run("evaluate", out, truth, "--bootstrap", "0") == 0
    bare = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert float(bare["accuracy"]) == 1 and bare["brier"] == value
    assert set(scores) >= {"n", "unscored", "accuracy", "log_score", "brier", "ece", "mcc", "error_auroc", "aurc"}
    two = write(tmp_path / "two.csv", [["case", "right"], ["007", "no"], ["elsewhere", "no"]])
    assert run("evaluate", out, two, "--item", "case", "--label", "right") == 0
    assert "warning: 1 of 2 items" in capsys.readouterr().err


def test_numbers_are_fitted_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[str(i), f"rater {a}", str(i + 0.3 * a + 0.1 * ((i + a) % 3))] for i in range(9) for a in range(3)]
    table = write(tmp_path / "ratings.csv", [["item", "annotator", "label"], *rows])
    how = ("--kind", "real", "--inference", "vb", "--out", tmp_path / "out")
    assert run("fit", table, *how) == 0
    found = pd.read_csv(tmp_path / "out" / "labels.csv", index_col="item")
    assert list(found) == ["estimate", "sd", "low", "high", "labels"] and found["estimate"].is_monotonic_increasing
    known = write(tmp_path / "known.csv", [["item", "label"], *([str(i), str(i)] for i in range(9))])
    capsys.readouterr()
    assert run("evaluate", tmp_path / "out", known, "--bootstrap", "0") == 0
    assert {"rmse", "coverage"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}


def test_rankings_are_fitted_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["annotator", "ranking"], ["x", "a > b > c"], ["y", "a > c > b"], ["z", "b > a"]]
    how = ("--kind", "ranking", "--model", "auto", "--out", tmp_path / "out")
    assert run("fit", write(tmp_path / "answers.csv", rows), *how) == 0
    found = pd.read_csv(tmp_path / "out" / "ranking.csv")
    assert found["object"].tolist() == ["a", "b", "c"] and found["rank"].tolist() == [1, 2, 3]
    known = write(tmp_path / "known.csv", [["item", "label"], ["a", "1"], ["b", "2"], ["c", "3"]])
    capsys.readouterr()
    assert run("evaluate", tmp_path / "out", known, "--bootstrap", "0") == 0
    assert ["kendall", "1.0000"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("kind", "method", "table"),
    [
        ("pair", "crowd_bt", "ranking"),
        ("similarity", "record_linkage", "clusters"),
        ("set", "bayesian_dawid_skene", "sets"),
        ("sequence", "sequence_crowd", "spans"),
    ],
)
def test_other_kinds_have_a_method_and_a_table_of_their_own(
    tmp_path: Path, kind: str, method: str, table: str
) -> None:
    data = crowdppl.datasets.example(kind)
    data.frame().head(40).to_csv(tmp_path / "answers.csv", index=False)
    how = ("--kind", kind, "--inference", "vb", "--option", "max_iterations=5", "--out", tmp_path / "out")
    assert run("fit", tmp_path / "answers.csv", *how) == 0
    found, there = pd.read_csv(tmp_path / "out" / f"{table}.csv"), load(tmp_path / "out")
    assert there.method == method
    assert len(found) == len(getattr(there, table)()) and not found.columns.str.startswith("Un").any()
    how = ("--model", "majority_vote", "--inference", "em", "--out", tmp_path / "out", "--overwrite")
    assert run("fit", tmp_path / "answers.csv", "--kind", kind, *how) == 0
    assert (tmp_path / "out" / f"{table}.csv").exists() == (table != "ranking")


def test_one_column_names_the_problem_of_an_order(tmp_path: Path) -> None:
    rows = [["question", "who", "order"], ["q", "ann", "a > b > c"], ["q", "bob", "b > a > c"]]
    columns = ("--item", "question", "--annotator", "who", "--label", "order")
    how = ("--kind", "ranking", "--inference", "em", *columns, "--out", tmp_path / "out")
    assert run("fit", write(tmp_path / "orders.csv", rows), *how) == 0
    assert sorted(pd.read_csv(tmp_path / "out" / "ranking.csv")["object"]) == ["a", "b", "c"]


def test_fair_averages_are_written(tmp_path: Path) -> None:
    crowdppl.datasets.example("ordinal").frame().to_csv(tmp_path / "answers.csv", index=False)
    how = ("--kind", "ordinal", "--model", "rater_facets", "--inference", "em", "--out", tmp_path / "out")
    assert run("fit", tmp_path / "answers.csv", *how) == 0
    found = pd.read_csv(tmp_path / "out" / "fair_averages.csv", dtype={"item": str, "grade": str})
    told = load(tmp_path / "out").fair_averages().reset_index().astype({"grade": str})
    pd.testing.assert_frame_equal(found, told, check_dtype=False)


def test_covariates_that_a_setting_names_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = crowdppl.datasets.example("real").frame()
    frame.to_csv(tmp_path / "answers.csv", index=False)
    items = pd.DataFrame({"item": frame["item"].unique()})
    items.assign(length=range(len(items))).to_csv(tmp_path / "items.csv", index=False)
    how = ("--kind", "real", "--model", "robust_annotators", "--inference", "em", "--out", tmp_path / "out")
    how = (*how, "--item-covariates", tmp_path / "items.csv", "--overwrite")
    for setting, unread in (((), True), (("--setting", 'covariates=["length"]'), False)):
        assert run("fit", tmp_path / "answers.csv", *how, *setting) == 0
        assert ("item_covariates are not read" in capsys.readouterr().err) == unread
    assert load(tmp_path / "out").result.sites["slope"].mean.shape == (1,)


def test_what_parts_hold_and_a_method_does_not_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    rows = [
        ["item", "annotator", "label", "seconds"],
        ["1", "a", "x", "3"],
        ["2", "a", "y", "4"],
        ["2", "b", "x", "5"],
    ]
    links = write(tmp_path / "links.csv", [["one", "other"], ["1", "2"]])
    given = ("--edges", links, "--label-covariate", "seconds")
    assert run("convert", write(tmp_path / "answers.csv", rows), tmp_path / "parts", *given) == 0
    for method, edges in (("one_coin", True), ("potts_dawid_skene", False)):
        capsys.readouterr()
        how = ("--model", method, "--inference", "vb", "--out", tmp_path / "out", "--overwrite")
        assert run("fit", tmp_path / "parts", *how) == 0
        said = capsys.readouterr().err
        assert ("edges are not read" in said) == edges
        assert "label_covariates are not read, so seconds" in said


def test_zoo(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("zoo") == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    assert listed["one_coin"] == "One accuracy for each annotator."
    assert listed.keys() >= {*crowdppl.zoo(engines=False).index} and all(map(str.strip, listed.values()))
    assert run("zoo", "dawid_skene") == 0
    assert "10.2307/2346806" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["zoo"], ["--help"], ["fit", "--help"], ["--version"]])
def test_what_needs_no_model_imports_nothing_heavy(command: list[str]) -> None:
    heavy = {"torch", "pyro", "numpy", "pandas", "pyarrow", "scipy"}
    code = f"import sys; from crowdppl.cli.commands import main\ntry: main({command})\nexcept SystemExit: pass\n"
    code += f"print(*sorted({heavy} & sys.modules.keys()), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout and not ran.stderr.split()


def test_refusals_are_one_line(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", tmp_path / "result")
    few = write(tmp_path / "few.csv", [["item", "annotator", "label"], ["1", "a", "x"]])
    short = write(tmp_path / "short.csv", [["item", "annotator", "label"], ["1", "a", "x"], ["2", "b"]])
    assert "gone.csv" in refused(capsys, "fit", tmp_path / "gone.csv", *out)
    assert "dawid_sken" in refused(capsys, "fit", answers, "--model", "dawid_sken", *out)
    assert "'x'" in refused(capsys, "fit", answers, "--setting", "x=1", *out)
    assert "'prevalence'" in refused(capsys, "fit", answers, "--setting", "prevalence", *out)
    assert "'draw'" in refused(capsys, "fit", answers, "--option", "draw=3", *out)
    assert "--inference bp" in refused(capsys, "fit", answers, "--inference", "bp", *out)
    assert "'nowhere'" in refused(capsys, "fit", answers, "--item", "nowhere", *out)
    assert "classes" in refused(capsys, "fit", few, *out)
    assert "short.csv" in refused(capsys, "fit", short, *out)
    for path in (answers, answers / "inside"):
        assert str(path) in refused(capsys, "fit", answers, "--out", path)
    assert "posterior.json" in refused(capsys, "evaluate", tmp_path, answers)
    assert "'nothing'" in refused(capsys, "zoo", "nothing")


def test_a_result_is_replaced_only_with_overwrite(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, em = tmp_path / "result", ("--inference", "em")
    assert run("fit", answers, "--model", "majority_vote", *em, "--out", out) == 0
    assert "labels.csv" in refused(capsys, "fit", answers, "--model", "one_coin", *em, "--out", out)
    assert "labels.csv" in refused(capsys, "demo", "--out", out)
    assert load(out).method == "majority_vote"
    assert run("fit", answers, "--model", "one_coin", *em, "--out", out, "--overwrite") == 0
    assert load(out).method == "one_coin"
    load(out).save(tmp_path / "python")  # without run.json and tables
    assert run("fit", answers, "--model", "one_coin", *em, "--out", tmp_path / "python", "--overwrite") == 0
    assert str(out) in refused(capsys, "compare", answers, "--out", out)
    assert "a.csv" in refused(capsys, "compare", answers, "--out", tmp_path / "no" / "a.csv")
    table = write(tmp_path / "table.csv", [["kept"]])
    assert "--overwrite" in refused(capsys, "compare", answers, "--out", table)


@pytest.mark.parametrize("name", ["labels.csv", "posterior.json", "ranking.csv"])
def test_files_of_somebody_else_are_never_replaced(
    name: str, answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    write(mine / name, [["kept"]])
    assert str(mine / name) in refused(capsys, "fit", answers, "--out", mine, "--overwrite")
    (mine / "run.json").write_text("[" * 100_000)  # cannot be read
    assert str(mine) in refused(capsys, "fit", answers, "--out", mine, "--overwrite")
    assert (mine / name).read_text() == "kept\n"


def test_wide_tables_and_other_encodings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "item;Zoë;Bob\nKöln;ja;nein\nUlm;ja;ja\nBonn;;nein\n"
    wide, gold, out = tmp_path / "wide.csv", tmp_path / "gold.csv", tmp_path / "result"
    wide.write_bytes(text.encode("cp1252"))
    gold.write_bytes("item;truth\nKöln;nein\n".encode("utf-16"))
    fit = ("fit", wide, "--model", "one_coin", "--inference", "em", "--out", out)
    assert "encoding" in refused(capsys, *fit)
    fit = (*fit, "--encoding", "cp1252")
    assert "annotator" in refused(capsys, *fit)
    known = (*fit, "--wide", "--gold", gold)
    assert "gold.csv" in refused(capsys, *known)
    assert run(*known, "--gold-encoding", "utf-16") == 0
    found = load(out).data
    assert (list(found.items), list(found.annotators)) == (["Bonn", "Köln", "Ulm"], ["Bob", "Zoë"])
    assert found.n_labels == 5 and found.gold is not None and found.gold.to_dict() == {"Köln": "nein"}
    assert run("evaluate", out, gold, "--encoding", "utf-16") == 0
    assert "--encoding klingon" in refused(capsys, *fit[:-1], "klingon", "--overwrite")


def test_the_screen_of_a_fit_is_the_first_minute_of_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crowd = crowdppl.simulate_annotators([0, 1, 2] * 60, {"hammer": 3, "spammer": 1}, seed=0).data
    path, out = tmp_path / "a.csv", tmp_path / "a b"
    crowd.frame().to_csv(path, index=False)
    assert run("fit", path, "--model", "one_coin", "--inference", "em", "--out", out) == 0
    printed = capsys.readouterr().out
    p = load(out).labels()["probability"]
    settled, wrong = (p >= 0.95).sum(), (1 - p[p >= 0.95]).sum()
    expected = "Less than one" if wrong < 0.95 else f"About {round(wrong)}"
    said = f"{settled} settled: 95 % sure or more. {expected} of these {settled} labels"
    assert said in " ".join(printed.split())
    assert len(printed.splitlines()) <= 14
    assert printed.splitlines()[-1].startswith(f"next: crowdppl report '{out}'")
    assert "R-hat" not in printed and "objective" not in printed


def test_help_and_usage(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run("--help") == 0
    printed = capsys.readouterr().out
    assert "Example: crowdppl report answers.csv" in printed.split("Options")[0]
    assert all(command in printed for command in ("fit", "zoo", "evaluate", "demo"))
    assert run("fit", "--help") == 0
    printed = capsys.readouterr().out
    assert "labels.csv" in printed
    usual, columns, advanced = (
        printed.index(name) for name in ("─ Options ─", "─ Columns and files ─", "─ Advanced ─")
    )
    assert (
        usual
        < printed.index("--kind")
        < columns
        < printed.index("--delimiter")
        < advanced
        < printed.index("--device")
    )
    assert "…" not in printed
    assert run("fit") == 2
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("crowdppl ")


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["python -m crowdppl", "zoo"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("crowdppl", run_name="__main__")
    assert not ended.value.code
    assert "bayesian_dawid_skene" in capsys.readouterr().out


def test_texts_become_values() -> None:
    json_values = ["a=1", "b-c=x=y", "d=[0, 1]", "e=true", "f=1e-3", "g=", "h=null"]
    want: dict[str, object] = {"a": 1, "b_c": "x=y", "d": [0, 1], "e": True, "f": 1e-3, "g": "", "h": None}
    assert pairs(json_values, "--setting") == want
    python_values = ["a=None", "b=True", "c=Nobody", "d=.1", "e=(0.5, .3)", "f=1_000", "g=007", "h='x'"]
    want = {"a": None, "b": True, "c": "Nobody", "d": 0.1, "e": (0.5, 0.3), "f": 1000, "g": "007", "h": "x"}
    assert pairs(python_values, "--option") == want
    for wrong in (["a=1", "a=2"], ["=1"], ["a"]):
        with pytest.raises(MethodError, match="--setting"):
            pairs(wrong, "--setting")


def test_options_of_the_engine() -> None:
    expected = {"draws": 1000, "tolerance": 1e-9, "guide": "point"}
    assert engine_options(["draws=1e3", "tolerance=1e-9", "guide=point"]) == expected
    for wrong in ["draws=x", "draws=1.5", "draws=true", "tolerance=low", "guide=1", "seed=1", "nothing=1"]:
        with pytest.raises(MethodError, match=wrong.partition("=")[0]):
            engine_options([wrong])


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), draws=40, chains=2, seed=1)
    monkeypatch.setattr("crowdppl.cli.outputs.fit", lambda *_, seed: {1: fitted}[seed])
    out = tmp_path / "demo"
    assert run("demo", "--out", out, "--seed", 1) == 0
    printed = capsys.readouterr().out
    monkeypatch.setattr("crowdppl.cli.outputs.write_pictures", lambda *_: [])
    assert run("demo", "--out", out, "--seed", 1) == 0, "a demonstration replaces another"
    for part in ("Probability of each class", "accuracy_low", "R-hat", "ESS", str(out)):
        assert part in printed
    labels = pd.read_csv(out / "labels.csv", index_col="item")
    np.testing.assert_array_equal(labels["probability"], fitted.labels()["probability"])
    assert (pd.read_csv(out / "annotators.csv")["labels"] == [135, 45, 45, 45, 45]).all()
    pictures = {path.name for path in (out / "pictures").iterdir()}
    others = {"annotators.png", "item_entropies.png", "trace.png"}
    assert pictures == {f"confusion_{n}.png" for n in range(1, 6)} | others
    assert load(out).inference == "gibbs"


@pytest.mark.slow
def test_auto_says_what_it_did(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "auto"
    assert run("fit", answers, "--model", "auto", "--verbose", "--out", out) == 0
    assert "probabilities are averaged" in capsys.readouterr().out
    assert "averaged" in json.loads((out / "run.json").read_text())["correction"]
    assert load(out).correction is not None
    for more in (["--setting", "prior_strength=3"], ["--inference", "gibbs"]):
        assert "'auto'" in refused(capsys, "fit", answers, "--model", "auto", *more, "--out", out)
    assert "posterior.correction.scores" in refused(capsys, "compare", answers, "--model", "auto")


def test_compare(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table.csv"
    methods = ("--model", "majority_vote", "--model", "one_coin")
    gold = write(tmp_path / "gold.csv", [["item", "truth"], ["007", "no"]])
    given = ("--setting", "prevalence=uniform", "--setting", "one_coin.right=9", "--gold", gold, "--out", out)
    assert run("compare", answers, *methods, "--inference", "em", "--folds", "2", *given) == 0
    printed = capsys.readouterr().out
    table = pd.read_csv(out, index_col="method")
    assert set(table.index) == {"majority_vote", "one_coin"} and table["log_p"].is_monotonic_decreasing
    assert all(name in printed for name in table.index) and "difference_se" in printed
    same = read_annotations(answers, gold={"007": "no"})
    settings = {"majority_vote": {"prevalence": "uniform"}, "one_coin": {"prevalence": "uniform", "right": 9}}
    again = compare(methods[1::2], same, folds=2, inference="em", settings=settings).table
    np.testing.assert_allclose(table["log_p"], again["log_p"], rtol=1e-6)
    assert "nosuch" in refused(capsys, "compare", answers, "--model", "nosuch")
    assert "--device nowhere" in refused(capsys, "compare", answers, *methods, "--device", "nowhere")
    assert "'left'" in refused(capsys, "compare", answers, *methods, "--setting", "one_coin.left=1")
    assert "'glad'" in refused(capsys, "compare", answers, "--setting", "glad.left=1")
    assert "folds" in refused(capsys, "compare", answers, *methods, "--folds", "1")


def test_agreement(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = read_annotations(answers), tmp_path / "table.csv"
    for by, wanted in (
        ("coefficient", crowdppl.agreement_table(data, bootstrap=20, seed=1)),
        ("class", crowdppl.agreement_classes(data, bootstrap=20, seed=1)),
        ("item", crowdppl.agreement_items(data)),
        ("pair", crowdppl.agreement_pairs(data)),
    ):
        more = ("--bootstrap", 20, "--seed", 1, "--out", out, "--overwrite")
        assert run("agreement", answers, "--by", by, *more) == 0
        printed = capsys.readouterr().out
        assert all(column in printed.splitlines()[0] for column in wanted)
        first = "value" if by == "coefficient" else "agreement"
        found = pd.read_csv(out)
        np.testing.assert_allclose(found[first], wanted[first])
        assert list(found)[wanted.index.nlevels :] == list(wanted)
    assert "krippendorff_ordinal" not in printed
    assert run("agreement", answers, "--kind", "ordinal", "--classes", "no,maybe,yes", "--weights", "linear") == 0
    assert "krippendorff_ordinal" in capsys.readouterr().out
    assert "'animal'" in refused(capsys, "agreement", answers, "--by", "animal")
    marks = [["item", "annotator", "label"], ["x", "a", "1.5"], ["x", "b", "2.5"], ["y", "a", "8"], ["y", "b", "9"]]
    assert run("agreement", write(tmp_path / "marks.csv", marks), "--kind", "real") == 0
    assert "krippendorff_interval" in capsys.readouterr().out
    assert "'cubic'" in refused(capsys, "agreement", answers, "--weights", "cubic", "--kind", "nominal")
    assert "replaced" in refused(capsys, "agreement", answers, "--out", answers, "--overwrite")


def test_features_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, _ = clouds(60, 40)
    data.frame().to_csv(tmp_path / "answers.csv", index=False)
    data.features.rename_axis("task").to_csv(tmp_path / "features.csv", encoding="utf-16")
    fit = ("fit", tmp_path / "answers.csv", "--model", "raykar", "--out", tmp_path / "out", "--overwrite")
    fit = (*fit, "--inference", "em")
    quick = ("--setting", 'training={"epochs": 3}')
    assert "features.csv" in refused(capsys, *fit, "--features", tmp_path / "features.csv")
    given = ("--features", tmp_path / "features.csv", "--features-encoding", "utf-16")
    assert run(*fit, *quick, *given) == 0
    assert "features" not in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "run.json").read_text())["features"].endswith("features.csv")
    rows = data.frame().astype({"label": str, "annotator": str})
    same = Annotations.from_frame(rows, features=data.features)
    want = crowdppl.fit("raykar", same, inference="em", settings={"training": {"epochs": 3}}).probabilities()
    found = load(tmp_path / "out").probabilities()
    assert len(found) == 60  # those that nobody labelled, too
    np.testing.assert_allclose(found.loc[want.index], want, atol=1e-5)
    assert run(*fit, "--option", "max_iterations=2") == 0
    assert "no features" in capsys.readouterr().err
    assert run("fit", *fit[1:3], "one_coin", *fit[4:], *given) == 0
    assert "one_coin: features are not read" in capsys.readouterr().err
    without_ids = write(tmp_path / "x.csv", [["a", "b"], ["1", "2"]])
    assert "x.csv" in refused(capsys, *fit, "--features", without_ids)


def test_text_of_a_user_stays_as_it_is() -> None:
    text = "column 'kind=' and item \"<a kind='PER' gold=1>\" of the annotators' file"
    assert as_options(text) == text
    assert as_options("gold=... or models=True, calibrate=True") == "--gold or --models all --calibrate"
    assert as_options("say classes=['x', 'y'] or kind='real'") == "say --classes x,y or --kind real"


@pytest.mark.parametrize("values", [["q[1]", "q,2", "q (3)"], ["it's, so", 'a "b"'], ["a,b"], ["]", ")"]])
def test_remedies_spell_names_as_the_command_reads_them(values: list[str]) -> None:
    line = as_options(f"say columns='items', items={values!r}, kind='nominal'")
    *options, text, kind, nominal = shlex.split(line)
    assert [*options, kind, nominal] == ["say", "--columns", "items", "--items", "--kind", "nominal"]
    assert names(text, "--items") == values
    line = as_options(f"say abstentions={values!r}")
    assert shlex.split(line)[1:] == [word for value in values for word in ("--abstain", value)]


def test_remedies_name_options_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs_ = [["left", "right", "annotator", "label"], ["a", "b", "x", "left"], ["b", "c", "x", "right"]]
    file, out = write(tmp_path / "pairs.csv", pairs_), ("--out", tmp_path / "out")
    fit = ("fit", file, *out, "--model", "bradley_terry", "--inference", "em")
    gold = write(tmp_path / "gold.csv", [["left", "right", "best"], ["a", "b", "a"]])
    assert "--item left,right" in refused(capsys, *fit[:4], "--kind", "similarity", "--item", "left,right,label")
    assert "--gold-label" in refused(capsys, *fit, "--kind", "pair", "--gold", gold)
    assert "--item" in refused(capsys, *fit, "--kind", "nominal")
    odd = write(tmp_path / "odd.csv", [["left", "right", "winner"], ["a", "b", "z"]])
    line = refused(capsys, *fit, "--kind", "pair", "--gold", odd, "--gold-label", "winner")
    assert "truth 'z'" in line and "abst" not in line
    assert run(*fit, "--kind", "pair", "--gold", gold, "--gold-label", "best") == 0
    assert load(tmp_path / "out").data.gold.to_dict() == {"a | b": "left"}


@pytest.mark.slow
def test_the_default_is_auto_in_a_folder_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[str(item), who, str(1 + item % 3)] for item in range(12) for who in ("ann", "bob", "cy")]
    path = write(tmp_path / "stars.csv", [["item", "annotator", "label"], *rows])
    monkeypatch.chdir(tmp_path)
    assert run("fit", path) == 0
    assert load("crowdppl-stars").correction is not None
    assert "--kind ordinal --classes '1,2,3'" in capsys.readouterr().out
    assert "crowdppl-stars" in refused(capsys, "fit", path)
    assert run("fit", path, "--kind", "ordinal", "--inference", "vb", "--overwrite") == 0
    printed = capsys.readouterr().out
    assert load("crowdppl-stars").method == "ordinal"
    assert "are for ordinal" in printed
    assert "--kind ordinal" not in printed


def test_a_level_of_a_tree_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = ["animal/dog", "animal/cat", "thing/car"]
    rows = [[str(n), who, paths[(n + (n % 4 == m)) % 3]] for n in range(12) for m, who in enumerate("abc")]
    answers = write(tmp_path / "answers.csv", [["item", "annotator", "label"], *rows])
    fit = ("fit", answers, "--model", "one_coin", "--inference", "em", "--out", tmp_path / "out", "--level", 1)
    assert run(*fit) == 0
    assert list(load(tmp_path / "out").data.classes) == ["animal", "thing"]
    assert run("agreement", answers, "--level", 1, "--by", "class", "--bootstrap", 20) == 0
    assert "dog" not in capsys.readouterr().out
    assert "--level 3," in refused(capsys, "agreement", answers, "--level", 3)
