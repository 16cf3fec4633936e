"""Few-shot tasks: what they are made of, what is kept apart, and whether annotators are as their kinds say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import crowdppl
from crowdppl.errors import DataError, MethodError
from crowdppl.few_shot.tasks import MIX, EpisodeSampler

TRUTH = pd.Series([f"c{i % 6}" for i in range(180)], index=[f"i{i:03d}" for i in range(180)])
FEATURES = pd.DataFrame({"item": np.arange(180.0), "class": np.arange(180) % 6}, index=TRUTH.index)


def episodes(**how: Any) -> EpisodeSampler:
    return EpisodeSampler(TRUTH, FEATURES, **{"ways": 4, "shots": 3, "queries": 5, "annotators": 4, **how})


def test_a_task_has_its_classes_and_no_item_twice() -> None:
    some = episodes(classes=["c5", "c1", "c3", "c0", "c2"])
    tasks = some.draw(20, seed=1)
    assert tasks.support.shape == (20, 12, 2) and tasks.query.shape == (20, 20, 2)
    for t in range(20):
        assert len(set(tasks.rows[t])) == 32 and len(set(tasks.classes[t])) == 4
        for rows, features, code in (
            (tasks.rows[t, :12], tasks.support[t], tasks.truth[t]),
            (tasks.rows[t, 12:], tasks.query[t], tasks.asked[t]),
        ):
            ids = some.items[rows]
            names = some.names[tasks.classes[t]][code.numpy()]
            assert (TRUTH[ids].to_numpy() == names).all() and "c4" not in names
            np.testing.assert_array_equal(features[:, 0], FEATURES.loc[ids, "item"])
        assert torch.bincount(tasks.truth[t]).tolist() == [3] * 4
    assert len({tuple(sorted(c)) for c in tasks.classes}) == 5  # every four of five
    assert not np.array_equal(tasks.rows[0], tasks.rows[1])


def test_each_annotator_labels_each_support_item_once_or_as_many_as_asked() -> None:
    tasks = episodes().draw(3)
    pairs = list(zip(tasks.item.tolist(), tasks.annotator.tolist(), strict=True))
    assert sorted(pairs) == [(t * 12 + i, t * 4 + a) for t in range(3) for i in range(12) for a in range(4)]
    few = episodes(labels_per_item=2).draw(50)
    assert torch.bincount(few.item).tolist() == [2] * 600
    each = torch.bincount(few.annotator % 4) / 1200
    assert (each - 0.25).abs().max() < 4 * (0.25 * 0.75 / 1200) ** 0.5


def confusions(tasks: Any) -> np.ndarray:
    out = np.zeros((len(tasks.truth) * tasks.n_annotators, 4, 4))
    np.add.at(out, (tasks.annotator, tasks.truth.reshape(-1)[tasks.item], tasks.label), 1)
    return out / out.sum(-1, keepdims=True)


def test_annotators_are_of_the_kinds_that_were_asked_for() -> None:
    many = episodes(shots=20, annotators=5)
    hit = {}
    for name in ("expert", "hammer", "spammer"):
        found = confusions(replace(many, kinds={name: 1.0}).draw(40))
        hit[name] = found.diagonal(axis1=1, axis2=2).mean(1)
        off = found.mean(0)[~np.eye(4, dtype=bool)]  # errors fall evenly
        assert np.ptp(off) < 8 * (off.mean() / (200 * 20)) ** 0.5
    for name, p in {"expert": 0.95, "hammer": 0.75, "spammer": 0.25}.items():
        assert abs(hit[name].mean() - p) < 4 * (p * (1 - p) / (200 * 80)) ** 0.5
    flipped = confusions(
        replace(many, kinds={crowdppl.simulation.annotator_kind("pairwise_flipper", p=0.6): 1.0}).draw(40)
    )
    assert ((flipped > 0).sum(-1) == 2).mean() > 0.99  # the right class, and one other
    known = confusions(replace(many, kinds={"class_wise_spammer": 1.0}).draw(40)).diagonal(axis1=1, axis2=2)
    assert set((known > 0.6).sum(1)) == {2}
    mixed = confusions(many.draw(200)).diagonal(axis1=1, axis2=2).mean(1)
    for low, high, share in ((0.88, 1, MIX["expert"]), (0.5, 0.88, MIX["hammer"]), (0, 0.5, MIX["spammer"])):
        found = ((mixed > low) & (mixed <= high)).mean()
        assert abs(found - share) < 4 * (share * (1 - share) / 1000) ** 0.5 + 0.01, low


def test_annotators_who_are_always_right() -> None:
    tasks = episodes(kinds={"spammer": 1.0}).draw(5, clean=True)
    assert torch.equal(tasks.label, tasks.truth.reshape(-1)[tasks.item])
    noisy = episodes(kinds={"spammer": 1.0}).draw(5)
    assert not torch.equal(noisy.label, noisy.truth.reshape(-1)[noisy.item])


def test_the_same_seed_draws_the_same_tasks_and_sizes_vary_with_it() -> None:
    some = episodes(shots=(1, 3), annotators=[3, 5])
    one, two, other = some.draw(4, 7), some.draw(4, 7), some.draw(4, 8)
    assert torch.equal(one.support, two.support) and torch.equal(one.label, two.label)
    assert one.support.shape != other.support.shape or not torch.equal(one.support, other.support)
    sizes = {(t.support.shape[1], t.n_annotators) for t in (some.draw(1, (3, n)) for n in range(40))}
    assert sizes == {(4, 3), (4, 5), (12, 3), (12, 5)}


def test_a_task_as_annotations() -> None:
    some = episodes()
    tasks = some.draw(3, seed=2)
    for t in range(3):
        data, (features, truth) = tasks.annotations(t), tasks.questions(t)
        assert set(data.items) == set(some.items[tasks.rows[t, :12]]) and data.n_labels == 48
        assert list(data.classes) == sorted(some.names[tasks.classes[t]])
        pd.testing.assert_frame_equal(
            pd.DataFrame(data.features).set_axis(FEATURES.columns, axis=1),
            FEATURES.loc[data.items],
            check_dtype=False,
        )
        pd.testing.assert_series_equal(truth, TRUTH[features.index], check_names=False)
        more = tasks.annotations(t, queries=True)
        assert set(more.items) == {*data.items, *truth.index} and more.frame().equals(data.frame())
        assert pd.DataFrame(more.features).loc[truth.index].equals(features)
        rows = data.frame()
        right = (rows["label"].to_numpy() == TRUTH[rows["item"]].to_numpy()).mean()
        codes = tasks.item // 12 == t
        assert right == (tasks.label == tasks.truth.reshape(-1)[tasks.item])[codes].double().mean()


def test_what_is_trained_on_and_what_is_tested_on_share_no_class_and_no_item() -> None:
    mine = episodes(classes=["c0", "c1", "c2"], ways=3)
    other = episodes(classes=["c3", "c4", "c5"], ways=3, apart_from=mine)
    assert not set(mine.items) & set(other.items) and not set(mine.names) & set(other.names)
    assert set(mine.items) | set(other.items) == set(TRUTH.index)
    with pytest.raises(DataError, match="1 classes.*'c2'"):
        episodes(classes=["c2", "c3", "c4"], ways=3, apart_from=mine)
    renamed = TRUTH[other.items[:60]].replace({"c3": "new", "c4": "newer", "c5": "newest"})
    EpisodeSampler(renamed, FEATURES.loc[renamed.index], ways=3, shots=1, apart_from=mine)
    ids = dict(zip(renamed.index[:2], mine.items[:2], strict=True))
    with pytest.raises(DataError, match="2 items.*'i000'"):
        again = renamed.rename(index=ids)
        table = FEATURES.loc[renamed.index].rename(index=ids)
        EpisodeSampler(again, table, ways=3, shots=1, apart_from=mine)


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"shots": 26}, DataError, "'c0' has 30 items"),
    ({"ways": 7}, MethodError, "ways=7"),
    ({"annotators": [3, 0]}, MethodError, "annotators=0"),
    ({"kinds": {"expert": 0.5}}, MethodError, "shares="),
    ({"kinds": {"wizard": 1.0}}, MethodError, "'wizard'"),
    ({"classes": ["c0", "c1", "c2", "c9"]}, DataError, "'c9'"),
    ({"features": None}, DataError, "features="),
    ({"features": FEATURES.iloc[1:]}, DataError, "'i000'"),
    ({"truth": TRUTH.where(TRUTH.index != "i007")}, DataError, "truth"),
]


@pytest.mark.parametrize(("how", "error", "said"), WRONG, ids=[str(case[0])[:30] for case in WRONG])
def test_what_makes_no_task_is_refused(how: dict[str, Any], error: type[Exception], said: str) -> None:
    given = {"truth": TRUTH, "features": FEATURES, "ways": 4, "shots": 3, "queries": 5, "annotators": 4}
    with pytest.raises(error, match=said):
        EpisodeSampler(**{**given, **how})
