"""What a report says of models among people: whether they may replace one."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.errors import DataError
from tests.cli.test_cli import refused, run
from tests.report.test_report import Read


def panel(people: int) -> crowdppl.Annotations:
    """Labels of 80 items by people, and by a good and a bad model."""
    rng = np.random.default_rng(0)
    truth, rows = rng.integers(0, 3, 80), []
    for name, right in [*((f"p{n}", 0.8) for n in range(people)), ("good", 0.95), ("bad", 0.4)]:
        said = np.where(rng.random(80) < right, truth, (truth + rng.integers(1, 3, 80)) % 3)
        rows += [(n, name, f"c{k}") for n, k in enumerate(said)]
    return crowdppl.Annotations.from_frame(pd.DataFrame(rows, columns=["item", "annotator", "label"]))


@pytest.mark.parametrize("language", ["en", "de"])
def test_it_says_yes_or_no_of_each_model(language: str, tmp_path: Path) -> None:
    data = panel(4)
    posterior = crowdppl.fit("auto", data, models=["good", "bad"], seed=0)
    path = posterior.report(tmp_path / "r.html", language=language)
    text = " ".join(Read(path.read_text(encoding="utf-8")).text.split())
    found = crowdppl.alternative_annotator_test(data, "good", models=["bad"], bootstrap=0)
    assert found.may_replace and round(found.advantage * 100) > 80
    yes, no = {
        "en": ("good may replace a person:", "bad should not replace a person:"),
        "de": ("good kann einen Menschen ersetzen:", "bad sollte keinen Menschen ersetzen:"),
    }[language]
    assert yes in text and no in text and f"{found.advantage:.0%}".rstrip("%") in text.split(yes)[1][:120]


def test_it_says_so_where_that_cannot_be_told(tmp_path: Path) -> None:
    few = crowdppl.fit("auto", panel(2), models=["good", "bad"], seed=0).report(tmp_path / "few.html")
    assert "may replace a person cannot be told: that takes 3 people" in " ".join(
        Read(few.read_text()).text.split()
    )
    all_people = crowdppl.fit("one_coin", panel(2), inference="vb", seed=0).report(tmp_path / "people.html")
    assert "replace a person" not in all_people.read_text()


def test_people_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    rows = panel(4).frame()
    who = rows["annotator"].isin(["good", "bad"])
    people = crowdppl.Annotations.from_frame(rows[~who])
    models = crowdppl.Annotations.from_frame(rows[who])
    posterior = crowdppl.fit("one_coin", models, inference="vb", seed=0)
    page = posterior.report(tmp_path / "apart.html", people=people).read_text(encoding="utf-8")
    text = " ".join(Read(page).text.split())
    own = models.frame()[lambda x: x["annotator"] == "good"].set_index("item")["label"]
    found = crowdppl.alternative_annotator_test(people, own, bootstrap=0)
    assert "bad should not replace a person:" in text
    assert f"{found.advantage:.0%}".rstrip("%") in text.split("good may replace a person:")[1][:120]
    apart = people.frame().astype({"item": int})
    for wrong, why in (
        (crowdppl.datasets.example("ordinal"), "of kind 'ordinal' and the fit of kind 'nominal'"),
        (crowdppl.Annotations.from_frame(rows), "by 'bad', whose labels were fitted"),
        (crowdppl.Annotations.from_frame(apart.assign(item=apart["item"] + 1000)), "no item of people="),
    ):
        with pytest.raises(DataError, match=why):
            posterior.report(tmp_path / "r.html", people=wrong)


def test_the_command_reads_people(tmp_path: Path) -> None:
    rows = panel(4).frame()
    who = rows["annotator"].isin(["good", "bad"])
    rows[who].to_csv(tmp_path / "models.csv", index=False)
    rows[~who].to_csv(tmp_path / "people.csv", index=False)
    out = tmp_path / "r.html"
    how = ["--model", "one_coin", "--inference", "vb", "--people", str(tmp_path / "people.csv"), "--out", str(out)]
    assert run("report", str(tmp_path / "models.csv"), *how) == 0
    assert "good may replace a person:" in " ".join(Read(out.read_text(encoding="utf-8")).text.split())


def test_people_whose_labels_are_numbers_are_refused_before_a_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = crowdppl.datasets.example("real").frame()
    path = tmp_path / "ratings.csv"
    frame.to_csv(path, index=False)
    monkeypatch.setattr("crowdppl.fitting.fit", lambda *_, **__: pytest.fail("it was fitted"))
    said = refused(capsys, "report", path, "--kind", "real", "--people", path, "--out", tmp_path / "r.html")
    assert "has labels of kind 'real'" in said
