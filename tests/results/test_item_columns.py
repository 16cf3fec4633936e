"""Items that two columns name have these columns in all results, so that tables join."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.data.kinds import KINDS
from crowdppl.posterior import Posterior

NAMES = {
    "pair": ["left", "right"],
    "similarity": ["left", "right"],
    "ranking": ["problem", "object"],
    "sequence": ["sequence", "position"],
    "set": ["item", "class"],
}


def run(*command: object) -> None:
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in command])
    assert done.value.code == 0


def fitted(kind: str) -> Posterior:
    methods = KINDS[kind].methods or ("bayesian_dawid_skene",)
    inference = "em" if kind in ("real", "ranking") else "vb"
    return crowdppl.fit(methods[0], crowdppl.datasets.example(kind), inference=inference, seed=0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_of_items_has_the_columns_that_name_them(kind: str) -> None:
    names = NAMES.get(kind, ["item"])
    found = fitted(kind)
    tables = [found.truth()]
    if not KINDS[kind].numeric:
        tables += [found.labels(), found.probabilities(), found.entropy(), found.decide(), found.label_sets()]
        tables += [found.predict(found.data)]
    for table in tables:
        assert list(table.index.names) == names
        assert (table.index == tables[0].index).all()
    assert found.to_arrow().column_names[: len(names)] == names
    texts = [" | ".join(map(str, row)) for row in tables[0].index.to_frame().to_numpy()]
    assert texts == found.data.items.map(str).tolist()
    drawn = found.draw_labels(1, seed=0)
    assert list(drawn.columns) == ["draw", *names, "annotator", "label"]
    assert len(drawn.merge(tables[0].reset_index(), on=names)) == len(drawn)


@pytest.mark.parametrize("kind", KINDS)
def test_gold_may_have_the_form_of_results(kind: str) -> None:
    found = fitted(kind)
    numbers = KINDS[kind].numeric
    gold = found.truth()["estimate"] if numbers else found.labels()["label"]
    exact = crowdppl.evaluate(found, gold)
    ids = dict(zip(found.data.items, gold, strict=True))
    assert exact.n == found.data.n_items
    assert dict(exact) == pytest.approx(dict(crowdppl.evaluate(found, ids)), nan_ok=True)
    if kind in NAMES:
        swapped = gold.reorder_levels(NAMES[kind][::-1])
        assert dict(crowdppl.evaluate(found, swapped)) == pytest.approx(dict(exact), nan_ok=True)
        assert (found.data.with_gold(swapped).is_known).all()
    if not numbers:
        assert crowdppl.evaluate(found.probabilities(), gold).accuracy == exact["accuracy"]
        assert crowdppl.evaluate(found.probabilities(), gold.iloc[:2]).n == 2


def test_a_table_as_gold_is_refused_with_what_to_give() -> None:
    found = fitted("pair")
    with pytest.raises(crowdppl.errors.DataError, match="one of its columns"):
        crowdppl.evaluate(found, found.labels())  # type: ignore[arg-type]


def test_positions_and_ids_keep_their_types() -> None:
    rows = [(7, p, a, "O") for p in (2, 10) for a in ("ann", "bob")] + [(8, 2, "ann", "B-X")]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    data = crowdppl.Annotations.from_frame(table, kind="sequence")
    labels = crowdppl.fit("majority_vote", data, inference="em").labels().reset_index()
    assert labels[["sequence", "position"]].to_numpy().tolist() == [[7, 2], [7, 10], [8, 2]]
    assert len(table.merge(labels, on=["sequence", "position"])) == len(table)


def test_rankings_of_one_list_are_by_object() -> None:
    rows = {"annotator": ["ann", "bob", "cid"], "label": ["x > y > z", "x > z > y", "y > x > z"]}
    data = crowdppl.Annotations.from_frame(pd.DataFrame(rows), kind="ranking")
    found = crowdppl.fit("plackett_luce", data, inference="em")
    assert found.truth().index.names == ["object"]
    assert crowdppl.evaluate(found, found.ranking()["rank"]).kendall == pytest.approx(1)


def test_files_have_the_columns_and_are_read_as_gold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = crowdppl.datasets.example("pair").frame()
    sides = rows["item"].str.split(" | ", regex=False, expand=True).set_axis(["left", "right"], axis=1)
    sides.assign(annotator=rows["annotator"], winner=rows["label"]).to_csv(tmp_path / "a.csv", index=False)
    model = ["--kind", "pair", "--model", "bradley_terry", "--inference", "em"]
    run("fit", tmp_path / "a.csv", *model, "--out", tmp_path / "out")
    written = pd.read_csv(tmp_path / "out" / "labels.csv")
    assert [*written.columns[:3]] == ["left", "right", "label"]
    capsys.readouterr()
    run("evaluate", tmp_path / "out", tmp_path / "out" / "labels.csv", "--bootstrap", "0")
    out = capsys.readouterr().out
    assert "n                  10" in out and "unscored           0" in out


def test_two_sides_are_no_classes_with_a_sensitivity() -> None:
    assert "sensitivity" not in fitted("pair").annotators()
    assert "sensitivity" in fitted("similarity").annotators()
    assert np.isfinite(fitted("similarity").annotators()["sensitivity"]).all()


def test_clusters_of_objects_are_known_pairs() -> None:
    found = fitted("similarity")
    clusters = pd.Series({"apple": 0, "fig": 0, "kiwi": 1, "pear": 1, "plum": 2})
    index = found.data.item_index
    same = [clusters[a] == clusters[b] for a, b in index]
    pairs = pd.Series(np.where(same, "same", "different"), index)
    assert dict(crowdppl.evaluate(found, clusters)) == dict(crowdppl.evaluate(found, pairs))
    assert crowdppl.evaluate(found, clusters.drop("plum")).n == 6
    assert crowdppl.evaluate(found, found.clusters()["cluster"]).n == 10


def test_ranks_and_scores_of_objects_tell_winners() -> None:
    found = fitted("pair")
    ranking = found.ranking()
    by_rank, by_score = (crowdppl.evaluate(found, ranking[name]) for name in ("rank", "score"))
    assert by_rank.n == 10 >= by_score.n and by_score.accuracy > 0.9  # a tied label counts one half
    worst = crowdppl.evaluate(found, -ranking["score"])
    assert worst.accuracy < 0.1
    with pytest.raises(crowdppl.errors.DataError, match="'rank' .1 the best. or 'score'"):
        crowdppl.evaluate(found, ranking["rank"].rename("goodness"))


def test_what_numbers_do_not_have_is_refused_with_what_they_have() -> None:
    with pytest.raises(crowdppl.errors.DataError, match="agreement_pairs"):
        crowdppl.find_groups(crowdppl.datasets.example("real"))
