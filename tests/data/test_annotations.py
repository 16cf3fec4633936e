"""The container: every row comes back, in one order whatever the rows' order, held in few bytes."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.datasets import anaesthetists
from crowdppl.errors import DataError
from crowdppl.primitives.likelihood import annotate, truth


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    size = 400
    return pd.DataFrame(
        {
            "item": [f"i{k}" for k in rng.integers(0, 60, size)],
            "worker": rng.integers(100, 112, size),
            "label": rng.choice(["cat", "dog", "?", "emu"], size),
            "time": np.arange(size),
        }
    )


def everything(data: Annotations) -> list[Any]:
    parts: list[Any] = [data.items.tolist(), data.annotators.tolist(), data.answers.tolist(), data.order.tolist()]
    for b in data.blocks:
        bags = (b.bags.cells, b.bags.row_starts, b.bags.rows, b.bags.piece_starts)
        parts += [None if x is None else x.tolist() for x in (*bags, b.gold, b.history, b.abstainers)]
    return parts


def test_every_row_comes_back_with_its_columns(frame: pd.DataFrame) -> None:
    data = Annotations.from_frame(frame, abstentions=["?"])
    back = data.frame()
    order = {"cat": 0, "dog": 1, "emu": 2, "?": 3}
    wanted = frame.rename(columns={"worker": "annotator"})
    wanted = wanted.assign(code=wanted.label.map(order)).sort_values(["item", "annotator", "code"], kind="stable")
    pd.testing.assert_frame_equal(back, wanted.drop(columns="code").reset_index(drop=True), check_dtype=False)
    assert (data.n_items, data.n_annotators, data.n_classes, data.n_answers, data.n_labels) == (60, 12, 3, 4, 400)
    assert data.classes.tolist() == ["cat", "dog", "emu"]
    assert repr(data) == "Annotations(60 items, 12 annotators, 3 classes, 400 labels)"


def test_votes_are_counted_without_abstentions(frame: pd.DataFrame) -> None:
    data = Annotations.from_frame(frame, abstentions=["?"])
    wanted = pd.crosstab(frame["item"], frame.label).reindex(index=data.items, columns=data.classes)
    assert (data.votes() == wanted.to_numpy()).all()


def test_neither_row_order_nor_the_way_in_changes_anything(frame: pd.DataFrame) -> None:
    gold = {"i1": "cat", "i2": "emu"}
    history = {100: np.eye(3)}
    options: Any = {"abstentions": ["?"], "gold": gold, "history": history}
    first = everything(Annotations.from_frame(frame, **options))
    for other in (frame.sample(frac=1, random_state=1), frame.iloc[::-1], frame.astype({"label": "category"})):
        assert everything(Annotations.from_frame(other, **options)) == first
    columns = (frame["item"], torch.tensor(frame.worker.to_numpy()), frame.label.tolist())
    assert everything(Annotations.from_arrays(*columns, **options)) == first


def test_blocks_do_not_change_what_is_held(frame: pd.DataFrame, small_blocks: Callable[[int], None]) -> None:
    options: Any = {"abstentions": ["?"], "gold": {"i1": "cat"}}
    one = Annotations.from_frame(frame, **options)
    small_blocks(1)
    many = Annotations.from_frame(frame, **options)
    assert len(one.blocks) == 1 < len(many.blocks)
    pd.testing.assert_frame_equal(one.frame(), many.frame())
    assert (one.votes() == many.votes()).all()
    assert one.summary() == many.summary()
    for name in ("cells", "row_starts", "rows", "piece_starts"):
        assert torch.equal(getattr(one.as_block().bags, name), getattr(many.as_block().bags, name))
    assert one.as_block().gold is not None
    assert torch.equal(one.as_block().gold, many.as_block().gold)
    assert [w.args for w in one.warnings] == [w.args for w in many.warnings]


def test_labels_take_at_most_twelve_bytes() -> None:
    rng = np.random.default_rng(0)
    n, size = 120_000, 600_000
    columns = [np.repeat(np.arange(n), size // n), rng.integers(0, 500, size), rng.integers(0, 5, size)]
    columns = [column[rng.permutation(size)] if k == 2 else column for k, column in enumerate(columns)]
    data = Annotations.from_arrays(*columns, gold={3: 1})
    assert len(data.blocks) == 2
    data.votes(), data.frame(), data.summary()
    ids = 8 * (n + 500 + 5)
    # Pickling counts whatever is reachable, caches included; the plain Pyro view is built only when asked for.
    assert len(pickle.dumps(data)) - ids <= 12 * size


def test_gold_is_placed_by_item(frame: pd.DataFrame) -> None:
    data = Annotations.from_frame(frame, gold={"i7": "dog", "i0": "cat"})
    assert data.gold.to_dict() == {"i0": "cat", "i7": "dog"}
    block = data.as_block()
    by_item = dict(zip(data.items[data.order], block.gold.tolist(), strict=True))
    assert by_item["i0"] == data.classes.get_loc("cat")
    assert sum(code >= 0 for code in by_item.values()) == 2
    other = data.with_gold({"i3": "emu"})
    assert other.gold.to_dict() == {"i3": "emu"}
    assert data.with_gold(None).blocks[0].gold is None
    assert data.gold.to_dict() == {"i0": "cat", "i7": "dog"}
    with pytest.raises(DataError, match="gold names the item 'nope'"):
        data.with_gold({"nope": "cat"})


def test_items_without_labels_are_there_when_they_have_features_or_are_named() -> None:
    rows = (["b", "a", "b"], [1, 1, 2], [0, 1, 1])
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["a", "b", "c"])
    data = Annotations.from_arrays(*rows, features=table, gold={"c": 1})
    assert data.items.tolist() == ["a", "b", "c"]
    assert data.votes().tolist() == [[0, 1], [1, 1], [0, 0]]
    assert data.summary()["items_without_labels"] == 1
    array = Annotations.from_arrays(*rows, features=np.array([[3.0], [1.0], [2.0]]), items=["c", "a", "b"])
    assert array.features.ravel().tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(DataError, match="features has no row for the item 'b'"):
        Annotations.from_arrays(*rows, features=table.drop("b"))
    for items in (["a", "b", 5], [5, 6]):
        with pytest.raises(DataError, match=r"'[ab]' \(str\) .* and 5 \(int\)"):
            Annotations.from_arrays(*rows, items=items)


def test_an_annotator_who_never_abstains_is_marked_so() -> None:
    rows = (["a", "a", "b"], ["x", "y", "x"], [0, "?", 1])
    data = Annotations.from_arrays(*rows, abstentions=["?", "skip"])
    assert data.abstainers.tolist() == [False, True]
    assert (data.n_classes, data.n_answers) == (2, 4)
    assert Annotations.from_arrays(["a"], ["x"], [0], classes=[0, 1]).abstainers is None


def test_new_data_under_old_codes(frame: pd.DataFrame) -> None:
    old = Annotations.from_frame(frame, abstentions=["?"])
    new = Annotations.from_arrays(["new", "i1"], [111, 100], ["emu", "cat"], like=old)
    assert new.annotators.equals(old.annotators)
    assert new.answers.equals(old.answers)
    assert new.abstainers.tolist() == old.abstainers.tolist()
    assert new.frame().to_numpy().tolist() == [["i1", 100, "cat"], ["new", 111, "emu"]]
    refused: list[tuple[Any, Any, str, dict[str, Any], str]] = [
        ("new", 5, "cat", {}, "annotator 5 at row 0 .* 12 .*grow=True"),
        ("I1", 111, "emu", {"items": old.item_book}, "item 'I1' at row 0 .* 60 .*grow=True"),
        ("new", 111, "yak", {}, "label 'yak' at row 0"),
        ("new", 111, "emu", {"classes": ["emu", "cat"]}, "like="),
        ("new", 111, "emu", {"informative_abstentions": True}, "like="),
        ("new", 111, "emu", {"annotators": [111, 6]}, "annotator 6"),
    ]
    for item, annotator, label, options, named in refused:
        with pytest.raises(DataError, match=named):
            Annotations.from_arrays([item], [annotator], [label], like=old, **options)
    grown = Annotations.from_arrays(["new", "new"], [111, 5], ["emu", "cat"], like=old, grow=True)
    assert grown.annotators.tolist() == [*old.annotators, 5]
    assert grown.frame().annotator.tolist() == [111, 5]
    grown = Annotations.from_arrays(["new", "x"], [111, 111], ["yak", "?"], like=old, grow=True)
    assert grown.answers.tolist() == [*old.classes, "yak", "?"] and grown.frame().label.tolist() == ["yak", "?"]
    for label, kind in ((" ", "nominal"), ("yak", "ordinal")):
        like = Annotations.from_frame(frame, classes=old.classes, abstentions=["?"], kind=kind)
        with pytest.raises(DataError, match="missing|order"):
            Annotations.from_arrays(["x"], [111], [label], like=like, grow=True)


def test_a_design_has_rows_and_no_labels() -> None:
    design = Annotations.design(["b", "a", "a"], [1, 1, 2], classes=["x", "y"], abstentions=["?"])
    assert design.frame().columns.tolist() == ["item", "annotator"]
    assert not design.blocks[0].has_labels
    assert design.abstainers.all()
    assert "to be drawn" in repr(design)
    assert design.summary()["labels_by_answer"] == {}
    with pytest.raises(DataError, match="list them in classes="):
        Annotations.design(["a"], [1])


def test_a_design_is_answered_and_its_columns_stay_with_their_rows() -> None:
    frame = pd.DataFrame({"item": [0, 0, 1], "worker": [5, 5, 6], "label": [0, 1, 1], "time": [10, 20, 30]})
    data = Annotations.from_frame(frame)
    drawn = [1 - block.answer + 2 * block.annotator for block in data.blocks]
    back = data.answered(drawn).frame()
    assert back.to_numpy().tolist() == [[0, 5, 0, 20], [0, 5, 1, 10], [1, 6, 0, 30]]
    assert data.frame().to_numpy().tolist() == frame.to_numpy().tolist()


def test_a_model_of_plain_pyro_reads_annotations() -> None:
    data = anaesthetists()

    def model(data: Any) -> None:
        with pyro.plate("items", data.n_items):
            state = truth(data, torch.zeros(data.n_classes))
            annotate(data, torch.zeros(data.n_annotators, data.n_classes, data.n_answers).log_softmax(-1), state)

    trace = pyro.poutine.trace(model).get_trace(data)
    assert float(trace.log_prob_sum()) == pytest.approx(315 * np.log(0.25), rel=1e-5)
    assert data.as_block() is data.as_block()
    assert data.of_annotator(torch.arange(5.0)).shape == (315,)
    assert data.annotator.tolist() == data.as_block().annotator.tolist()
    assert (data.history, data.scale, data.has_labels, data.device.type) == (None, 1.0, True, "cpu")
    with pytest.raises(AttributeError, match="no attribute 'n_clases'"):
        data.n_clases  # noqa: B018
    assert dist.Categorical(logits=torch.zeros(data.n_classes)).event_shape == ()


def test_the_summary_counts(frame: pd.DataFrame) -> None:
    summary = Annotations.from_frame(frame, abstentions=["?"], gold={"i1": "cat"}).summary()
    assert summary["labels_by_answer"] == frame.label.value_counts().to_dict()
    assert summary["labels_an_annotator"]["max"] == frame.worker.value_counts().max()
    assert (summary["gold"], summary["abstentions"]) == (1, ["?"])
    assert summary["warnings"][0].startswith("RepeatsWarning: ")
    assert summary["repeats"] == frame.duplicated(["item", "worker"]).sum()


@pytest.mark.parametrize(
    ("rows", "options", "named"),
    [
        (([], [], []), {}, "no rows"),
        (([1, 2], [1], [0, 1]), {}, "2 items, 1 annotators, 2 labels"),
        (([1], [1], [0]), {"kind": "continuous"}, "kind='continuous'"),
        (([1, None], [1, 1], [0, 1]), {}, "item at row 1 .* missing"),
        (([1, 2], [1, "a"], [0, 1]), {}, "annotators are of mixed types"),
        (([1, 2], [1, 1], [0.0, np.nan]), {}, "label at row 1"),
    ],
)
def test_what_is_refused(rows: Any, options: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        Annotations.from_arrays(*rows, **options)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="'clases'"):
        Annotations.from_arrays([1], [1], [0], clases=[0, 1])
