"""Levels of a tree of classes: labels are those one would have read, and a posterior holds sums."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, MethodError

PATHS = {1: "calm/well", 2: "calm/tired", 3: "ill/weak", 4: "ill/severe/acute"}
ROWS = crowdppl.anaesthetists().frame()
FINE = ROWS.assign(label=ROWS["label"].map(PATHS))
TRUTH = {item: PATHS[1 + item % 4] for item in range(1, 11)}
UPPER = ["calm", "ill"]


def above(name: str, level: int) -> str:
    return "/".join(name.split("/")[:level])


def read(**options: Any) -> Annotations:
    return Annotations.from_frame(FINE, classes=[*PATHS.values()], **options)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_labels_at_a_level_are_those_that_are_read_so(level: int) -> None:
    seconds = pd.Series(range(len(FINE)))
    fine = Annotations.from_frame(FINE.assign(seconds=seconds), gold=TRUTH, label_covariates=["seconds"])
    read_so = Annotations.from_frame(
        FINE.assign(label=[above(x, level) for x in FINE["label"]], seconds=seconds),
        gold={item: above(name, level) for item, name in TRUTH.items()},
        label_covariates=["seconds"],
        classes=[*dict.fromkeys(above(x, level) for x in fine.classes)],
    )
    coarse = fine.at_level(level)
    one, other = (x.frame().sort_values([*x.frame()], ignore_index=True) for x in (coarse, read_so))
    pd.testing.assert_frame_equal(one, other)  # of repeats that become equal, any may be the first
    pd.testing.assert_series_equal(coarse.gold, read_so.gold)
    assert np.array_equal(coarse.votes(), read_so.votes())
    one, other = (crowdppl.agreement_table(x, bootstrap=20) for x in (coarse, read_so))
    pd.testing.assert_frame_equal(one, other)
    one, other = (crowdppl.fit("dawid_skene", x, inference="em", seed=0) for x in (coarse, read_so))
    assert np.allclose(one.probabilities(), other.probabilities())


@cache
def fitted(method: str, engine: str) -> crowdppl.Posterior:
    options: dict[str, Any] = {"draws": 100, "warmup": 50} if engine == "gibbs" else {}
    return crowdppl.fit(method, read(), inference="auto" if method == "auto" else engine, seed=0, **options)


@pytest.mark.parametrize(
    ("method", "engine"), [("bayesian_dawid_skene", "vb"), ("one_coin", "gibbs"), ("auto", "vb")]
)
@pytest.mark.parametrize("level", [1, 2])
def test_a_posterior_at_a_level_holds_sums(method: str, engine: str, level: int) -> None:
    fine = fitted(method, engine)
    coarse = fine.at_level(level)
    groups = {name: [x for x in fine.data.classes if above(x, level) == name] for name in coarse.data.classes}
    p = fine.probabilities()
    for name, below in groups.items():
        assert np.allclose(coarse.probabilities()[name], p[below].sum(axis=1))
        assert np.isclose(coarse.prevalence()["mean"][name], fine.prevalence()["mean"][below].sum(), atol=0.02)
    if method != "auto":
        tables, shares = fine.result.table_draws, fine.result.prevalence_draws
        code = {x: n for n, x in enumerate(fine.data.classes)}
        found = coarse.confusion(draws=True)
        for truth, rows in groups.items():
            for label, columns in groups.items():
                total = sum(shares[:, code[k]] for k in rows)
                wanted = sum(
                    (shares[:, code[k]] / total)[:, None] * tables[:, :, code[k], code[m]]
                    for k in rows
                    for m in columns
                )
                assert np.allclose(found.sel(truth=truth, label=label), wanted, atol=1e-5)
                mean = coarse.confusion().sel(truth=truth, label=label)
                assert np.allclose(mean, wanted.mean(0), atol=0.02)
        right = np.zeros(tables.shape[:2])
        for rows in groups.values():
            for k in rows:
                right += shares[:, [code[k]]] * sum(tables[:, :, code[k], code[m]] for m in rows)
        assert np.allclose(coarse.annotators()["accuracy"], right.mean(0), atol=0.02)
    assert np.allclose(coarse.confusion().sum("label"), 1)
    assert (coarse.labels()["probability"] >= fine.labels()["probability"] - 1e-9).all()
    assert np.allclose(coarse.uncorrected().probabilities(), fine.uncorrected().at_level(level).probabilities())
    assert [x.kind for x in coarse.doubts()] == [x.kind for x in fine.doubts()]


def test_decisions_and_evaluation_are_of_the_level() -> None:
    fine = crowdppl.fit("dawid_skene", read(), inference="em", seed=0)
    coarse = fine.at_level(1)
    p = pd.DataFrame({name: fine.probabilities().filter(like=f"{name}/").sum(axis=1) for name in UPPER})
    assert [*coarse.decide()["decision"]] == [*p.idxmax(axis=1)]
    cost = pd.DataFrame([[0, 1], [10, 0]], index=UPPER, columns=["send home", "keep"])
    wanted = (p @ cost).idxmin(axis=1)
    assert [*coarse.decide(cost)["decision"]] == [*wanted]
    hit = [p.loc[item].idxmax() == above(name, 1) for item, name in TRUTH.items()]
    for gold in (TRUTH, {item: above(name, 1) for item, name in TRUTH.items()}):
        assert crowdppl.evaluate(coarse, gold)["accuracy"] == pytest.approx(np.mean(hit))
    assert coarse.label_sets(0.9)["set"].map(lambda x: {*x} <= {*UPPER}).all()
    assert "2 classes" in coarse.summary()
    coarse.plot_confusion()


def test_labels_that_stop_above_are_told_and_count_where_they_are_classes() -> None:
    some = FINE.copy()
    some.loc[some.index[:4], "label"] = "ill"
    with pytest.raises(DataError, match=r"'ill' holds others, such as 'ill/.*abstentions=\['ill'\]"):
        Annotations.from_frame(some).at_level(1)
    told = Annotations.from_frame(some, abstentions=["ill", "?"])
    assert "ill" not in told.classes
    coarse = told.at_level(1)
    assert [*coarse.answers] == ["calm", "ill", "?"]
    wanted = Annotations.from_frame(some.assign(label=[above(x, 1) for x in some["label"]]), abstentions=["?"])
    pd.testing.assert_frame_equal(coarse.frame(), wanted.frame())
    assert [*told.at_level(2).answers] == ["calm/tired", "calm/well", "ill/severe", "ill/weak", "ill", "?"]
    alone = Annotations.from_frame(some, abstentions=["ill"])
    assert alone.at_level(1).abstainers is None and alone.at_level(2).abstainers is not None
    fit = crowdppl.fit("bayesian_dawid_skene", alone, inference="vb", seed=0).at_level(1)
    assert np.allclose(fit.confusion().sum("label"), 1) and fit.confusion().sizes["label"] == 2


@pytest.mark.parametrize(
    ("frame", "options", "level", "named"),
    [
        (FINE, {}, 0, "levels 1 to 3"),
        (FINE, {}, 4, "levels 1 to 3"),
        (FINE, {}, True, "levels 1 to 3"),
        (FINE, {}, "1", "levels 1 to 3"),
        (ROWS, {}, 1, "animal/dog"),
        (ROWS, {"kind": "ordinal"}, 1, "without order"),
        (FINE[FINE["label"].str.startswith("calm")], {}, 1, "all classes are 'calm' at level 1"),
    ],
)
def test_levels_that_are_refused(frame: pd.DataFrame, options: dict[str, Any], level: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        Annotations.from_frame(frame, **options).at_level(level)
    if len(frame) == len(FINE) and not options:
        with pytest.raises(DataError, match=named):
            crowdppl.fit("majority_vote", Annotations.from_frame(frame)).at_level(level)


def test_what_needs_a_model_of_the_level_is_refused(tmp_path: Path) -> None:
    fine = crowdppl.fit("bayesian_dawid_skene", read(), inference="vb", seed=0)
    coarse = fine.at_level(1)
    new = pd.DataFrame({"item": [46], "annotator": ["1"], "label": ["calm"]})
    for call in (
        lambda: coarse.predict(new),
        lambda: coarse.update(new),
        lambda: coarse.draw_labels(2),
        lambda: coarse.suggest_labels(2),
        lambda: coarse.decide(ask_again=0.01),
        lambda: coarse.without(["1"]),
        lambda: coarse.leave_one_out(),
        lambda: coarse.site("confusion"),
        lambda: coarse.to_arviz(),
        lambda: coarse.save(tmp_path / "result"),
        lambda: coarse.probabilities(sd=True),
        lambda: coarse.entropy(),
        lambda: coarse.plot_ranks(),
        lambda: coarse.doubts(thorough=True),
    ):
        with pytest.raises(MethodError, match=r"at_level\(1\) was called on"):
            call()
    assert not (tmp_path / "result").exists()
    later = fine.update(pd.DataFrame({"item": [46], "annotator": ["1"], "label": ["calm/well"]}))
    assert later.at_level(1).annotators()["labels"].sum() == len(FINE) + 1


def test_paths_may_begin_and_end_with_their_sign() -> None:
    frame = pd.DataFrame(
        {"item": [*"xyz"], "annotator": [*"aba"], "label": ["/animal/cat", "/animal/dog", "/plant/"]}
    )
    data = Annotations.from_frame(frame)
    assert [*data.at_level(1).classes] == ["/animal", "/plant/"]
    assert [*data.at_level(2).classes] == [*data.classes]
