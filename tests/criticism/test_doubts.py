"""Doubts: each fires where it should, by hand and by simulation, and sound fits raise none."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl import Doubt
from crowdppl.criticism.doubts import classes, doubts
from crowdppl.criticism.doubts import votes as about_votes
from crowdppl.criticism.doubts.classes import prevalence
from crowdppl.criticism.doubts.fit import misfit
from crowdppl.criticism.doubts.search import FINDERS, ORDER, Search, names_one_class
from crowdppl.criticism.doubts.votes import worse_than_votes
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DoubtWarning
from crowdppl.fitting import fit
from crowdppl.posterior import Posterior
from crowdppl.results.annotators import information
from crowdppl.results.correction import Correction, averaged
from tests.class_result import changed
from tests.crowd import annotations
from tests.doubtful import handmade, kinds, simulated

OneCoin = type(crowdppl.method("one_coin"))


def run(remedy: str, posterior: Posterior) -> Any:
    """What a remedy returns, with the truth of three items given where it is asked for."""
    data = posterior.data
    gold = dict.fromkeys(data.items[:3], data.classes[0])
    given = {"posterior": posterior, "finer": posterior, "data": data, "gold": gold, "rows": data.frame()}
    return eval(remedy, {"crowdppl": crowdppl, "dataclasses": dataclasses} | given)


def test_a_fit_that_tells_no_items_apart_says_so() -> None:
    """Annotators who gave one class each, by maximum likelihood."""
    away = [-1] * 7
    rows = [away] * 8 + [[*away[:5], 0, -1]] * 4 + [[1, -1, -1, -1, 1, -1, -1]] * 2 + [[1, *away[1:]]] * 4
    data = Annotations.from_matrix(np.array(rows))
    posterior = fit("dawid_skene", data, inference="em")
    (found,) = [x for x in doubts(posterior) if x.kind == "flat"]
    assert found.figures["items"] == 10 and "the same" in str(found)
    better = run(found.remedies[0], posterior)
    assert "flat" not in [x.kind for x in doubts(better)]
    alike = Annotations.from_matrix(np.array([[1, 1, 1]] * 5 + [[1, 1, -1]] * 5), classes=[0, 1])
    assert "flat" not in [x.kind for x in doubts(fit("majority_vote", alike, inference="em"))]


def test_sets_that_softening_makes_large_say_so() -> None:
    posterior = fit("auto", simulated(0, 100, 8, 4, 4), seed=0, max_iterations=10)
    assert posterior.correction is not None and "large sets" not in [x.kind for x in posterior.doubts()]
    plain, soft = (
        Posterior.of(
            averaged(posterior.members(), replace(posterior.correction, temperature=t, shares=np.full(4, 0.25)))
        )
        for t in (None, 4.0)
    )
    (found,) = [x for x in soft.doubts() if x.kind == "large sets"]
    sizes = [x.label_sets(0.9)["size"].mean() for x in (plain, soft)]
    np.testing.assert_allclose([found.figures["before"], found.figures["size"]], sizes)
    assert found.figures["size"] > 1.5 * found.figures["votes"]


@pytest.mark.parametrize(("method", "n_classes"), [("dawid_skene", 3), ("one_coin", 4), ("majority_vote", 3)])
def test_sound_fits_raise_none(method: str, n_classes: int) -> None:
    for seed in range(4):
        assert fit(method, simulated(seed, 400, 15, 6, n_classes), inference="em").doubts() == ()


def words_again(**options: Any) -> Annotations:
    """Graded words and "?" by three raters who give each item five labels, always the same."""
    words = ["low", "mid", "high", "?"]
    rows = [(i, a, words[(i + (a == i % 3)) % 4]) for i in range(40) for a in range(3) for _ in range(5)]
    given = {"kind": "ordinal", "classes": words[:3], "abstentions": ["?"], **options}
    return Annotations.from_arrays(*map(list, zip(*rows, strict=True)), **given)


def test_rows_are_read_again_as_they_were() -> None:
    """With the kind, the order of classes and the abstentions, for these are not in the rows."""
    posterior = fit("bayesian_dawid_skene", words_again(), inference="vb", seed=0)
    (doubt,) = (x for x in posterior.doubts() if x.kind == "repeats")
    again = run(doubt.remedies[0], posterior)
    assert again.kind == "ordinal" and list(again.answers) == ["low", "mid", "high", "?"]
    assert again.repeat_correlation > 0.5
    read = eval(Search(posterior).reread(), {"crowdppl": crowdppl, "rows": posterior.data.frame()})
    assert read.kind == "ordinal" and list(read.answers) == ["low", "mid", "high", "?"]


def test_of_one_class_that_is_named_none_is_left_out() -> None:
    alike = Annotations.from_arrays([*range(18)] * 2, ["a"] * 18 + ["b"] * 18, ["no"] * 36, classes=["yes", "no"])
    posterior = fit("class_coin", alike, inference="em", seed=0)
    (doubt,) = (x for x in posterior.doubts() if x.kind == "unnamed")
    assert "classes=" not in doubt.text and isinstance(run(*doubt.remedies, posterior), Posterior)


def test_doubts_name_the_classes_of_the_kind_and_chains_that_agree_are_not_permuted() -> None:
    table = np.tile([[0.1, 0.9], [0.9, 0.1]], (2, 1, 1))
    found = handmade([100, 100], table=table, diagnostics={"permutations": [[0, 1], [1, 0]], "converged": False})
    rows = pd.DataFrame({"left": range(200), "right": range(1, 201), "annotator": [0, 1] * 100})
    rows["winner"] = np.where(rows["left"] % 2, "left", "right")
    sides = replace(found, data=Annotations.from_frame(rows, kind="pair"))
    for posterior, called in ((found, "classes"), (sides, "sides")):
        told = {x.kind: x for x in doubts(posterior)}
        assert f"of 2 {called} is another" in told["diagonal"].text
        assert f"call the {called} otherwise" in told["permuted"].text
        assert "crowdppl.fit(posterior.model, data, inference='vb')" in told["permuted"].remedies
    agreed = changed(found.result, diagnostics={"permutations": [[0, 1], [1, 0]], "converged": True})
    assert "permuted" not in kinds(replace(found, result=agreed))


def test_remedies_at_a_level_are_those_of_the_finer_posterior() -> None:
    crowd = simulated(1, 300, 10, 8, 4, spam=3)
    rows = crowd.frame()
    paths = crowdppl.Annotations.from_frame(rows.assign(label=[f"{x // 2}/{x}" for x in rows["label"]]))
    finer = fit("one_coin", paths, inference="vb", seed=0)
    assert [x.kind for x in finer.at_level(1).doubts()] == ["spammers"] == kinds(finer)
    (doubt,) = finer.at_level(1).doubts()
    assert "at_level(1)" in doubt.text and "finer.without" in doubt.text
    assert "spammers" not in kinds(run(*doubt.remedies, finer))


@pytest.mark.slow
def test_data_of_the_method_itself_raise_doubts_only_where_they_are_true() -> None:
    """Annotators drawn from the prior: those called spammers know little, and copying is found by chance alone."""
    model, told, by_chance = crowdppl.method("bayesian_dawid_skene", prior_strength=8.0, prior_accuracy=0.75), [], 0
    for seed in range(60):
        design = crowdppl.random_design(300, 15, 6, 2 + seed % 3, seed=seed)
        drawn = crowdppl.simulate(model, design, seed=seed)
        posterior = fit(model, drawn.data, inference="vb")
        for doubt in posterior.doubts():
            if doubt.kind == "spammers":
                bad = list(doubt.who["annotators"])
                told += information(drawn.parameters["confusion"][bad], posterior.result.prevalence).tolist()
            else:
                by_chance += 1
    assert by_chance <= 1
    assert len(told) > 8
    assert np.mean(np.array(told) > 0.1) < 0.1


def shared(prevalence: list[float], seed: int) -> crowdppl.Annotations:
    """200 items of classes with these shares, three labels each by ten annotators right by .55 to .95."""
    rng = np.random.default_rng(seed)
    k, labels = len(prevalence), []
    skill = rng.uniform(0.55, 0.95, 10)
    for i, truth in enumerate(rng.choice(k, 200, p=prevalence)):
        for a in rng.choice(10, 3, replace=False):
            wrong = rng.choice([other for other in range(k) if other != truth])
            labels.append((i, int(a), int(truth if rng.random() < skill[a] else wrong)))
    return annotations(labels, k)


@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.7, 0.15, 0.1, 0.05]])
def test_a_prior_that_draws_unbalanced_classes_together_is_doubted(shares: list[float]) -> None:
    method, data = "bayesian_dawid_skene", shared(shares, 0)
    heavy = fit(method, data, inference="vb", settings={"prevalence_strength": 100.0})
    (doubt,) = prevalence(Search(heavy))
    (name,), now, free = doubt.who["classes"], doubt.figures["share"], doubt.figures["free"]
    light = fit(method, data, inference="vb", settings={"prevalence_strength": 1.0})
    assert (now, free) == pytest.approx((heavy.probabilities()[name].mean(), light.probabilities()[name].mean()))
    assert abs(now - free) > 0.05 and doubt.figures["strength"] == 100
    pd.testing.assert_frame_equal(light.probabilities(), run(doubt.remedies[0], heavy).probabilities())
    assert not list(prevalence(Search(light)))


def test_doubts_beside_a_fit_never_fit_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"prevalence_strength": 100.0}
    heavy = fit("bayesian_dawid_skene", shared([0.9, 0.1], 0), inference="vb", settings=settings)
    monkeypatch.setattr(classes, "fit_one", lambda *_, **__: pytest.fail("a second fit"))
    monkeypatch.setattr(about_votes, "heldout_score", lambda *_, **__: pytest.fail("a second fit"))
    assert doubts(heavy) == heavy.doubts() and heavy.doubts() is heavy.doubts()


def test_a_model_may_offer_doubts_of_its_own() -> None:
    @dataclass(frozen=True)
    class Worried:
        def model(self, data: Any) -> None: ...

        def doubts(self, fit: Any) -> list[Doubt]:
            return [Doubt("worried", f"{fit.data.n_annotators} annotators worry me")]

    (doubt,) = doubts(replace(handmade([50, 50]), model=Worried()))
    assert doubt.kind == "worried" and str(doubt) == "2 annotators worry me" and not doubt.general


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (lambda self, fit: fit.nothing, "AttributeError"),
        (lambda self, fit: None, "TypeError"),
        (lambda self, fit: ["sure"], "'sure' is no crowdppl.Doubt"),
        (lambda self, fit: [Doubt("shaky", 3)], "the text of a Doubt is 3, no sentence"),
        (lambda self: [], "TypeError"),
    ],
)
def test_a_fit_stands_where_the_models_own_doubts_fail(own: Any, said: str) -> None:
    model = type("Faulty", (OneCoin,), {"doubts": own})()
    with pytest.warns(DoubtWarning, match=rf"Faulty itself doubts .*{said}.*mend it"):
        fit(model, simulated(0, 30, 6, 4, 2), inference="em", seed=0)


def test_a_setting_called_doubts_is_none() -> None:
    model = type("Set", (OneCoin,), {"doubts": 0.5})()
    assert "own" not in kinds(fit(model, simulated(0, 30, 6, 4, 2), inference="em", seed=0))


def test_every_kind_has_its_place_in_the_order_in_which_doubts_are_told() -> None:
    assert {finder.kind for finder in FINDERS} == set(ORDER)


def test_grades_without_an_order_are_doubted() -> None:
    grades = ["low", "mid", "high"]
    rows = [(i, a, grades[(i + (a == i % 3)) % 3]) for i in range(40) for a in range(4)]
    items, annotators, labels = map(list, zip(*rows, strict=True))
    words = crowdppl.Annotations.from_arrays(items, annotators, labels)
    how: dict[str, Any] = {"inference": "em", "max_iterations": 5}
    (doubt,) = (d for d in doubts(fit("ordinal", words, **how)) if d.kind == "order")
    assert doubt.who == {"classes": ("high", "low", "mid")}
    graded = crowdppl.Annotations.from_arrays(items, annotators, labels, kind="ordinal", classes=grades)
    numbers = crowdppl.Annotations.from_arrays(items, annotators, [grades.index(label) for label in labels])
    for method, data in (("ordinal", graded), ("ordinal", numbers), ("one_coin", words)):
        assert "order" not in kinds(fit(method, data, **how))


def declined_where_hard(seed: int, tells: bool) -> tuple[crowdppl.Annotations, np.ndarray]:
    """Five annotators, 300 items: a third are hard, where people guess, or mostly decline."""
    rng = np.random.default_rng(seed)
    truth, hard = rng.integers(2, size=300), rng.random(300) < 1 / 3
    right = rng.random((300, 5)) < np.where(hard, 0.55, 0.9)[:, None]
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    said = np.where(rng.random((300, 5)) < np.where(hard, 0.7, 0.03)[:, None], -1, said)
    labels = [(i, a, int(said[i, a])) for i in range(300) for a in range(5)]
    return annotations(labels, 2, abstentions=[-1], informative_abstentions=tells), truth


def test_truths_from_abstentions_alone_are_doubted_where_these_may_tell() -> None:
    scores = []
    for tells in (False, True):
        data, truth = declined_where_hard(0, tells)
        found = fit("dawid_skene", data, inference="em")
        p = found.probabilities().to_numpy()
        scores.append(-np.log(np.maximum(p[np.arange(300), truth], 1e-12)).mean())
        assert ("abstained" in kinds(found)) == tells
        alone = data.votes().sum(1) == 0
        assert alone.sum() > 5
        if not tells:
            np.testing.assert_allclose(
                p[alone], np.broadcast_to(found.result.prevalence, p[alone].shape), atol=2e-3
            )
    assert scores[0] < 0.6 < scores[1]


def test_who_seldom_names_a_class_is_no_spammer() -> None:
    """One of eight declines nine items of ten, and is right as often as the others."""
    rng = np.random.default_rng(2)
    truth, labels = rng.integers(2, size=1000), []
    for i, k in enumerate(truth):
        for a in range(8):
            label = k if rng.random() < 0.8 else 1 - k
            labels.append((i, a, -1 if a == 0 and rng.random() < 0.9 else int(label)))
    found = fit("dawid_skene", annotations(labels, 2, abstentions=[-1]), inference="em")
    assert "spammers" not in kinds(found)
    told = crowdppl.suspicious_annotators(found)
    assert not told["spammer"].any()
    assert told["information"].iloc[0] > 0.1  # of all that is asked: .02
    assert found.result.table[0, :, 2].min() > 0.85


def test_diagonal_by_hand() -> None:
    """Two annotators: the one with most labels decides, and few labels decide nothing."""
    good, bad = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.98, 0.02], [0.75, 0.25]])
    table = np.stack([good, bad])
    assert kinds(handmade([300, 100], table=table)) == []
    (doubt,) = doubts(handmade([100, 300], table=table))
    assert doubt.kind == "diagonal" and doubt.who == {"classes": (1,), "answers": (0,)}
    assert doubt.figures == {"classes": 2, "share": pytest.approx((0.6125,)), "right": pytest.approx((0.3875,))}
    # .6125 - .3875 is twice the root of 1 / n at 79 labels of the class, half of all
    assert kinds(handmade([39, 117], table=table)) == []
    assert kinds(handmade([41, 123], table=table)) == ["diagonal"]


def test_overlooked_spans_are_not_swapped_and_types_are() -> None:
    """O for most of a span's items is no other class; and what an own last tag rules out is not counted."""
    rng = np.random.default_rng(0)
    truth = ["O", "B-X", "I-X", "I-X", "O", "B-Y", "I-Y", "O"]
    rows = []
    for s, who in np.ndindex(40, 6):
        kept = {x: rng.random() < (0.6 if who < 3 else 0.2) for x in "XY"}
        said = [tag if tag == "O" or kept[tag[-1]] else "O" for tag in truth]
        rows += [(s, p, f"w{who}", tag) for p, tag in enumerate(said)]
    table = pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])
    data = crowdppl.Annotations.from_frame(table, kind="sequence")
    gold = {item: truth[int(p)] for item, p in zip(data.items, data.item_covariates["position"], strict=True)}
    for method in ("hmm_crowd", "sequence_crowd"):
        assert "diagonal" not in kinds(fit(method, data, inference="vb", gold=gold))
    other = {"X": "Y", "Y": "X"}
    wrong = {item: tag if tag == "O" else tag[:2] + other[tag[-1]] for item, tag in gold.items()}
    (doubt,) = (x for x in doubts(fit("sequence_crowd", data, inference="vb", gold=wrong)) if x.kind == "diagonal")
    assert doubt.who["classes"] == ("B-X", "B-Y", "I-X", "I-Y")


OTHER = "crowdppl.fit('bayesian_dawid_skene', data)"


def again(setting: str) -> str:
    return f"crowdppl.fit(dataclasses.replace(posterior.model, {setting}), data, inference='em')"


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (crowdppl.method("one_coin"), again("right=2")),
        (crowdppl.method("mace", knows=3.0), again("knows=6")),
        (crowdppl.method("ebcc"), again("prior_strength=8")),
        (crowdppl.method("bayes_dgc"), again("prior_strength=8")),
        (crowdppl.method("bayes_dgc", crowd_prior_strength=14.0), OTHER),
        (crowdppl.method("coin_net", form="penalised"), OTHER),
        (crowdppl.method("dawid_skene"), OTHER),
        (object(), OTHER),
    ],
)
def test_the_setting_that_leans_on_the_diagonal_is_named(model: Any, remedy: str) -> None:
    swapped = np.tile([[0.1, 0.9], [0.9, 0.1]], (2, 1, 1))
    (found,) = doubts(replace(handmade([100, 100], table=swapped), model=model))
    (permuted,) = doubts(replace(handmade([9, 9], diagnostics={"permutations": [[0, 1], [1, 0]]}), model=model))
    assert (found.kind, permuted.kind) == ("diagonal", "permuted")
    assert found.remedies[-1] == permuted.remedies[-1] == remedy


def test_a_crowd_that_gold_contradicts_is_not_diagonal() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=200)
    said = np.where((truth == 2) & (rng.random((8, 200)) < 0.8), 1, truth)
    labels = [(i, a, int(said[a, i])) for i in range(200) for a in range(8) if (i + a) % 2]
    data = annotations(labels, 3, gold=dict(enumerate(truth[:100].tolist())))
    doubt = doubts(fit("bayesian_dawid_skene", data, inference="vb"))[0]
    assert doubt.kind == "diagonal" and doubt.who == {"classes": (2,), "answers": (1,)}


def test_spammers_are_named_most_labels_first() -> None:
    data = simulated(1, 600, 20, 8, 2, spam=7)
    (doubt,) = doubts(fit("dawid_skene", data, inference="em"))
    assert doubt.kind == "spammers"
    given = data.frame()["annotator"].value_counts()
    first = sorted(range(7), key=lambda a: (-given[a], a))
    assert doubt.who == {"annotators": tuple(first)} and doubt.figures["annotators"] == 20
    assert doubt.figures["share"] == pytest.approx(given.loc[first].sum() / given.sum())
    assert f": {', '.join(map(str, first[:5]))} and 2 more. " in str(doubt)


def test_after_an_update_labels_before_it_count() -> None:
    """Who was known to say nothing is not made unknown by two more labels, or none; nor are others, by few."""
    data = simulated(0, 300, 10, 6, 3, spam=1)
    old = fit("bayesian_dawid_skene", data, inference="vb")
    assert kinds(old) == ["spammers"]
    for new in ([(500, 0, 1), (501, 0, 2), (500, 1, 1)], [(500, 1, 1), (500, 2, 1), (501, 3, 2)]):
        more = annotations(new, 3, annotators=list(range(10)))
        posterior = old.update(more)
        assert kinds(posterior) == ["spammers"]
        table = crowdppl.suspicious_annotators(posterior)
        assert table.index[table["spammer"]].tolist() == [0]
        assert table["labels"].tolist() == posterior.annotators()["labels"].tolist()


def test_spammers_need_labels_enough() -> None:
    """Nothing told at all: 2 / sqrt(2 n log 2) falls below sqrt(.15) from 20 labels on."""
    table = np.full((3, 2, 2), 0.5)
    good = np.array([[0.9, 0.1], [0.1, 0.9]])
    for given, expected in (([19, 200, 400], (1,)), ([20, 200, 400], (1, 0))):
        table[2] = good
        (doubt,) = doubts(handmade(given, table=table))
        assert doubt.who["annotators"] == expected
    # accuracy .62 tells .042 bits: sqrt(.042) + 2 / sqrt(2 n log 2) < sqrt(.15) from 87 labels on
    weak = np.array([[0.62, 0.38], [0.38, 0.62]])
    for n, expected in ((86, []), (88, ["spammers"])):
        assert kinds(handmade([n, 400], table=np.stack([weak, good]))) == expected


def test_permuted_chains_are_reported_as_the_sampler_found_them() -> None:
    def found(*chains: list[int]) -> tuple[Doubt, ...]:
        return doubts(handmade([50, 50], 3, diagnostics={"permutations": [list(c) for c in chains]}))

    assert found() == found([0, 1, 2], [0, 1, 2]) == ()
    assert found([1, 0, 2], [1, 0, 2]) == ()  # all alike: the mean confusion shows it
    (doubt,) = found([0, 1, 2], [0, 2, 1], [0, 1, 2], [1, 2, 0])
    assert doubt.kind == "permuted" and doubt.figures == {"chains": 4, "odd": 2}
    assert doubt.who == {"classes": (1, 2), "answers": (2, 1)}


def test_a_method_that_predicts_worse_than_votes() -> None:
    """Of corrected probabilities, the method's own are meant."""
    data = simulated(0, 60, 12, 3, 4)
    own = fit("dawid_skene", data, inference="em", tolerance=1e-4)
    raw = own.result.probabilities
    result = changed(own.result, probabilities=np.full_like(raw, 0.25))
    correction = Correction(raw, {"dawid_skene": 1.0}, {"dawid_skene": 0.0}, {})
    assert "votes" in kinds(own)
    (votes,) = worse_than_votes(Search(replace(own, result=result, correction=correction)))
    mean, simple = (crowdppl.heldout_score(p).per_label for p in (own, fit("majority_vote", data, inference="em")))
    assert (votes.figures["own"], votes.figures["votes"]) == pytest.approx((mean, simple))


@pytest.mark.slow
def test_labels_drawn_from_the_fit_are_unlike_those_given() -> None:
    """Annotators who copy, and habits that one coin an annotator cannot have; not the method's own labels."""
    copied = simulated(0, 300, 20, 8, 3, copy=4)
    own = fit("dawid_skene", copied, inference="em")
    (doubt,) = misfit(Search(own))
    assert doubt.who["statistics"][0].startswith("pair_") and "calibrate=True" in doubt.remedies[1]
    assert "misfit" not in kinds(own)
    raw = own.result.probabilities
    corrected = replace(own, correction=Correction(raw, {"dawid_skene": 1.0}, {"dawid_skene": 0.0}, {}))
    assert not list(misfit(Search(corrected)))
    assert not list(misfit(Search(fit("one_coin", simulated(1, 100, 12, 6, 3), inference="em"))))
    rng = np.random.default_rng(0)
    item, annotator = np.divmod(np.arange(2400), 8)
    yes = rng.random(2400) < np.where(rng.random(300)[item] < 0.5, 0.5, 0.1) + 0.4 * (annotator < 4)
    data = crowdppl.Annotations.from_arrays(item, annotator, yes.astype(int))
    (habits,) = misfit(Search(fit("one_coin", data, inference="em")))
    assert habits.who == {"statistics": ("class_shares",)} and "bayesian_dawid_skene" in habits.remedies[0]


def test_methods_that_fit_predict_no_worse_than_votes() -> None:
    assert kinds(fit("one_coin", simulated(1, 60, 12, 6, 3), inference="em"), thorough=True) == []


def test_items_of_a_class_that_nobody_named_are_doubted() -> None:
    stream = np.random.default_rng(0)
    truth = stream.integers(3, size=300)
    rows = [
        (item, annotator, truth[item] if stream.random() < 0.7 else stream.integers(3))
        for item in range(300)
        for annotator in stream.choice(20, 5, replace=False)
    ]
    fitted = {
        n: fit(
            "dawid_skene",
            crowdppl.Annotations.from_arrays(*zip(*rows, strict=True), classes=range(n)),
            inference="em",
        )
        for n in (3, 4)
    }
    taken = fitted[4].probabilities()[3].sum()
    assert taken > 0.01 * 300
    (doubt,) = (doubt for doubt in fitted[4].doubts() if doubt.kind == "unnamed")
    assert doubt.who == {"classes": (3,)} and doubt.figures["items"] == pytest.approx(taken)
    assert not any(doubt.kind == "unnamed" for doubt in fitted[3].doubts())
    again = fit("dawid_skene", fitted[4].data.with_gold({0: 3}), inference="em")
    assert not any(doubt.kind == "unnamed" for doubt in again.doubts())


def test_good_annotators_of_rare_classes_are_no_spammers() -> None:
    table = np.tile([[0.95, 0.05], [0.2, 0.8]], (2, 1, 1))
    share = np.array([0.99, 0.01])
    assert (information(table, share) < 0.05).all()
    assert kinds(handmade([500, 500], table=table, prevalence=share)) == []


def test_sources_of_one_class_are_no_spammers_and_the_option_is_named() -> None:
    """Six sources say their class on half of its items and on few others; nobody says anything else."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    said = rng.random((300, 6)) < np.where(truth[:, None] == np.arange(6) % 2, 0.5, 0.1)
    labels = [(int(i), int(a), int(a % 2)) for i, a in np.argwhere(said)]
    for method in ("one_coin", "bayesian_dawid_skene"):
        found = {doubt.kind: doubt for doubt in fit(method, annotations(labels, 2), inference="vb").doubts()}
        assert found.keys() - {"thin"} == {
            "one class",
            "collapse",
        }  # one class gets all items: .56 right, votes .89
        assert "informative_abstentions=True" in found["one class"].remedies[0]
    constant = [
        (i, a, 0) if a == 0 else (i, a, int(rng.random() < 0.8) ^ int(truth[i]))
        for i in range(300)
        for a in range(3)
    ]
    assert "one class" not in kinds(fit("bayesian_dawid_skene", annotations(constant, 2), inference="vb"))


def test_few_labels_of_each_source_are_enough() -> None:
    """200 items: votes have about .9 right, the fit about half, and no source alone shows it for sure."""

    def sources(seed: int) -> Annotations:
        rng = np.random.default_rng(seed)
        truth = rng.integers(2, size=200)
        said = rng.random((200, 6)) < np.where(truth[:, None] == np.arange(6) % 2, 0.6, 0.15)
        return annotations([(int(i), int(a), int(a % 2)) for i, a in np.argwhere(said)], 2)

    told = [names_one_class(sources(seed)).any() for seed in range(50, 90)]
    assert np.mean(told) > 0.7  # at a level of .01, not all are told
    assert told[0] and "one class" in kinds(fit("bayesian_dawid_skene", sources(50), inference="vb"))


def test_labels_that_never_differ_are_doubted() -> None:
    copied = annotations([(i, a, i % 2) for i in range(10) for a in range(3)], 2)
    assert "unanimous" in kinds(fit("one_coin", copied, inference="vb"))
    apart = annotations([(i, a, (i + (i == a == 0)) % 2) for i in range(10) for a in range(3)], 2)
    assert "unanimous" not in kinds(fit("one_coin", apart, inference="vb"))


def test_items_of_which_one_annotator_alone_repeats_labels_are_no_reason_to_fail() -> None:
    item = [i for i in range(60) for _ in range(1 + (i < 3))]
    said = np.random.default_rng(0).choice(["x", "y"], len(item))
    data = crowdppl.Annotations.from_arrays([f"i{i}" for i in item], [f"a{i % 3}" for i in item], said)
    assert "together" not in kinds(crowdppl.fit("one_coin", data, inference="em"))


def asked_again(
    seed: int, same: float, n_items: int = 150, again: float = 1.0, hows: Sequence[str] = ("keep", "share", "one")
) -> tuple[dict[str, Annotations], np.ndarray]:
    """Labels of three annotators who label items five times, with a share that repeats the first, as ``repeats``
    takes them, and truths; ``again`` is the share of items that they label more than once.
    """
    rng = np.random.default_rng(seed)
    truth, accuracy = rng.integers(2, size=n_items), rng.uniform(0.7, 0.9, 3)
    right = rng.random((n_items, 3, 5)) < accuracy[:, None]
    right = np.where(rng.random(right.shape) < same, right[..., :1], right)
    item, annotator, _ = np.indices(right.shape).reshape(3, -1)
    label = np.where(right, truth[:, None, None], 1 - truth[:, None, None])
    asked = np.broadcast_to((np.arange(5) == 0) | (rng.random((n_items, 3, 1)) < again), label.shape).reshape(-1)
    rows = [x[asked] for x in (item, annotator, label.reshape(-1))]
    return {how: Annotations.from_arrays(*rows, classes=[0, 1], repeats=how) for how in hows}, truth


@pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")
def test_an_annotator_asked_again_who_repeats_errors_is_one_witness() -> None:
    beyond: dict[str, list[float]] = {"keep": [], "share": [], "one": []}
    for seed in range(5):
        every, truth = asked_again(seed, same=0.9)
        for how, data in every.items():
            posterior = fit("bayesian_dawid_skene", data, inference="vb", seed=0)
            p = posterior.result.probabilities
            beyond[how].append(p.max(1).mean() - (p.argmax(1) == truth).mean())
            found = [x for x in posterior.doubts() if x.kind == "repeats"]
            assert bool(found) == (how == "keep")
            if found:  # whose remedy reads the rows once more
                assert run(found[0].remedies[0], posterior).repeat_correlation > 0.7
    assert np.mean(beyond["keep"]) > 0.06
    assert abs(np.mean(beyond["share"])) < 0.03 and abs(np.mean(beyond["one"])) < 0.03


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")
@pytest.mark.parametrize(("method", "engine"), [("bayesian_dawid_skene", "vb"), ("dawid_skene", "em")])
@pytest.mark.parametrize("again", [1.0, 0.1], ids=["many repeats", "few repeats"])
def test_independent_repeats_are_not_doubted(method: str, engine: str, again: float) -> None:
    false = 0
    for seed in range(50):
        data = asked_again(seed, 0.0, 40 + 6 * seed, again, ["keep"])[0]["keep"]
        false += "repeats" in kinds(fit(method, data, inference=engine))
    assert not false
