"""Kinds whose items have two parts: parts of them are the labels of the table, and each unit lies in one part."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.data.parts import read_parts
from crowdppl.errors import CrowdpplWarning, DataError
from tests.data.test_convert import ODD, both, same

pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::crowdppl.errors.CrowdpplWarning")
NAMES = [x for x in ODD if "|" not in x][:9]
WHO = ["01", "1", "ann", "Ünal"]


def pairs(seed: int = 0) -> pd.DataFrame:
    """Comparisons of nine objects by four judges, of which one says strengths."""
    rng = np.random.default_rng(seed)
    couples = [rng.choice(9, 2, replace=False) for _ in range(160)]
    left, right = np.array(couples).T
    won = rng.random(160) < 1 / (1 + np.exp((left - right) / 3))
    return pd.DataFrame(
        {
            "model_a": [NAMES[n] for n in left],
            "model_b": [NAMES[n] for n in right],
            "judge": [WHO[n] for n in rng.integers(4, size=160)],
            "winner": np.where(rng.random(160) < 0.1, "tie", np.where(won, "model_a", "model_b")),
        }
    )


def strengths(seed: int = 0) -> pd.DataFrame:
    """The same from -3 to 3, of which only some rows are negative."""
    table, rng = pairs(seed), np.random.default_rng(seed)
    table["winner"] = rng.integers(1, 4, 160)
    table.loc[:3, "winner"] = [-1, -2, -3, 0]
    return table


def winners(seed: int = 0) -> pd.DataFrame:
    """The same by the id of the winner."""
    table = pairs(seed)
    table["winner"] = np.where(table["winner"] == "model_a", table["model_a"], table["model_b"])
    return table


def alike(seed: int = 0) -> pd.DataFrame:
    """Whether two of nine records are the same; sides come in either order."""
    rng = np.random.default_rng(seed)
    left, right = np.array([rng.choice(9, 2, replace=False) for _ in range(160)]).T
    said = np.where((left % 3 == right % 3) ^ (rng.random(160) < 0.15), "yes", "no")
    return pd.DataFrame(
        {"left": [NAMES[n] for n in left], "right": [NAMES[n] for n in right], "worker": rng.integers(4, size=160)}
    ).assign(label=said)


def tags(begin: str = "B-Z", seed: int = 0) -> pd.DataFrame:
    """Tags of twelve texts by three annotators, one span each."""
    rng, rows = np.random.default_rng(seed), list[tuple[Any, ...]]()
    for text in range(12):
        for who in ("ann", "bob", "cem"):
            first = int(rng.integers(1, 4))
            said = ["O"] * first + [begin, "I-Z"] + ["O"] * (4 - first)
            rows += [(f"text {text} é", n, who, tag) for n, tag in enumerate(said)]
    return pd.DataFrame(rows, columns=["sequence", "position", "annotator", "label"])


def sets(mark: str = ";", seed: int = 0) -> pd.DataFrame:
    """Sets of three classes for forty items by three annotators; some are empty."""
    rng, rows = np.random.default_rng(seed), list[tuple[Any, ...]]()
    for item in range(40):
        for who in ("ann", "bob", "cem"):
            named = [name for name in ("red, dark", "round", "Ö") if rng.random() < (0.7 if item % 2 else 0.3)]
            rows.append((f"item {item}", who, mark.join(named)))
    return pd.DataFrame(rows, columns=["item", "annotator", "label"])


def ranks(seed: int = 0) -> pd.DataFrame:
    """Ranks of four objects in six problems by three annotators, some again."""
    rng, rows = np.random.default_rng(seed), list[tuple[Any, ...]]()
    for problem in range(6):
        for who in ("ann", "bob", "cem", "ann"):
            order = np.argsort(np.arange(4) + 1.5 * rng.normal(size=4))
            rows += [(f"list {problem}", NAMES[n], who, rank + 1) for n, rank in enumerate(order)]
    return pd.DataFrame(rows, columns=["problem", "object", "annotator", "rank"])


def whole(named: bool = True, seed: int = 0) -> pd.DataFrame:
    """The same as whole rankings, of three objects and of four, with ties."""
    rng, rows = np.random.default_rng(seed), list[tuple[Any, ...]]()
    for problem in range(6):
        for who in ("ann", "bob", "cem"):
            order = np.argsort(np.arange(5) + 1.5 * rng.normal(size=5))[: 3 + problem % 2]
            names = ["apple", "fig", "kiwi", "pear", "plum"]
            rows.append(
                (f"list {problem}", f"{who} {'' if named else problem}", " > ".join(names[n] for n in order))
            )
    table = pd.DataFrame(rows, columns=["problem", "annotator", "ranking"])
    return table if named else table.drop(columns="problem")


TABLES: dict[str, tuple[Callable[[], pd.DataFrame], dict[str, Any]]] = {
    "pair": (pairs, {}),
    "strengths": (strengths, {"kind": "pair"}),
    "winners": (winners, {}),
    "similarity": (alike, {"kind": "similarity"}),
    "sequence": (tags, {}),
    "IOB1": (lambda: tags("I-Z"), {}),
    "kept": (lambda: tags("I-Z"), {"stray": "keep"}),
    "set": (sets, {"kind": "set"}),
    "listed": (lambda: sets("|"), {"kind": "set", "classes": ["Ö", "round", "red, dark", "new"]}),
    "rank": (ranks, {"kind": "ranking"}),
    "ranking": (whole, {"kind": "ranking", "label": "ranking"}),
    "one problem": (lambda: whole(named=False), {"kind": "ranking", "label": "ranking"}),
}


METHODS = {
    "pair": "bradley_terry",
    "strengths": "ordinal_bradley_terry",
    "similarity": "bayesian_dawid_skene",
    "sequence": "hmm_crowd",
    "set": "bayesian_dawid_skene",
    "ranking": "plackett_luce",
}


@pytest.mark.parametrize("name", TABLES)
def test_parts_are_the_labels_of_the_table(name: str, tmp_path: Path) -> None:
    make, said = TABLES[name]
    make().to_csv(tmp_path / "a.csv", index=False)
    read, opened = both(tmp_path / "a.csv", tmp_path / "parts", **said)
    same(read, opened)
    assert opened.kind == read.kind and opened.roles == read.roles
    assert read.item_covariates is not None and opened.item_covariates is not None
    expected = read.item_covariates.loc[opened.items]
    pd.testing.assert_frame_equal(opened.item_covariates, expected, check_index_type=False, check_names=False)
    if name not in METHODS:
        return
    fits = [crowdppl.fit(METHODS[name], x, inference="vb", seed=0, max_iterations=5) for x in (read, opened)]
    one, other = (fit.probabilities() if fit.data.n_classes else fit.truth().iloc[:, 0] for fit in fits)
    np.testing.assert_allclose(other.loc[one.index], one, atol=1e-6)


@pytest.mark.parametrize("name", ["sequence", "listed", "ranking", "similarity"])
def test_units_lie_in_one_part(name: str, tmp_path: Path) -> None:
    make, said = TABLES[name]
    make().to_csv(tmp_path / "a.csv", index=False)
    crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", n_parts=4, **said)
    files = [pd.read_parquet(path) for path in sorted((tmp_path / "parts").glob("part-*.parquet"))]
    units = [{*map(tuple, x[[*x.columns[: 2 if name == "similarity" else 1]]].to_numpy().tolist())} for x in files]
    assert sum(map(bool, units)) > 1 and len(set[Any]().union(*units)) == sum(map(len, units))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: pairs().drop(columns="judge"), {"annotator": None}),
        (lambda: pd.concat([pairs(), pairs()[:20]]), {"repeats": "one"}),
        (lambda: pairs().assign(seconds=range(160)), {"label_covariates": ["seconds"]}),
        (lambda: pairs().replace({"tie": "skip"}), {"abstentions": ["skip"]}),
        (lambda: tags().replace({"O": "?"}), {"abstentions": ["?"], "kind": "sequence"}),
        (
            lambda: whole().replace({"ranking": {r"^plum.*": "none"}}, regex=True),
            {"abstentions": ["none"], "kind": "ranking"},
        ),
    ],
)
def test_options_say_the_same_of_parts(
    change: Callable[[], pd.DataFrame], said: dict[str, Any], tmp_path: Path
) -> None:
    change().to_csv(tmp_path / "a.csv", index=False)
    same(*both(tmp_path / "a.csv", tmp_path / "parts", **said))


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ["set", "ranking", "sequence", "strengths"])
def test_lists_and_numbers_are_read_in_files_with_types(name: str, form: str, tmp_path: Path) -> None:
    make, said = TABLES[name]
    table = make()
    if name == "set":
        table["label"] = [x.split(";") if x else [] for x in table["label"]]
    elif name == "ranking":
        table["ranking"] = table["ranking"].str.split(" > ")
    path = tmp_path / f"a.{form}"
    if form == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in table.to_dict("records")))
    else:
        table.to_parquet(path)
    read, opened = both(path, tmp_path / "parts", **said)
    same(read, opened)
    assert read.item_covariates is not None and opened.item_covariates is not None
    expected = read.item_covariates.loc[opened.items]
    pd.testing.assert_frame_equal(opened.item_covariates, expected, check_index_type=False, check_names=False)


@pytest.mark.parametrize("name", ["winners", "sequence", "set", "rank"])
def test_truths_beside_labels_or_parts_are_those_of_the_table(name: str, tmp_path: Path) -> None:
    make, said = TABLES[name]
    table = make()
    read = crowdppl.Annotations.from_frame(table, **said)
    names, label = [*read.item_index.names][: 1 if name == "set" else 2], read.roles["label"]
    columns = [read.roles.get(x, x) for x in names]
    truth = table.drop_duplicates(columns).set_index(columns)[label]
    truth = truth if name == "rank" else truth[truth.ne("") & (np.arange(len(truth)) % 3 > 0)]
    beside = table.join(truth.rename("known"), on=columns)
    beside["known"] = beside["known"].astype(object).where(beside["known"].notna(), "")
    beside.to_csv(tmp_path / "a.csv", index=False)
    read, opened = both(tmp_path / "a.csv", tmp_path / "parts", gold_column="known", **said)
    same(read, opened)
    crowdppl.convert(tmp_path / "a.csv", tmp_path / "bare", n_parts=3, **said)
    given = truth.rename_axis(index=dict(zip(columns, names, strict=True)))
    later = crowdppl.Annotations.open(tmp_path / "bare", gold=given)
    assert read.gold is not None and later.gold is not None
    assert later.gold.to_dict() == read.gold.to_dict()


def test_features_of_objects_and_covariates_of_pairs_stand_beside_parts(tmp_path: Path) -> None:
    pairs().to_csv(tmp_path / "a.csv", index=False)
    read, _ = both(tmp_path / "a.csv", tmp_path / "parts")
    features = pd.DataFrame({"size": np.arange(9.0)}, index=pd.Index(NAMES))
    covariates = pd.DataFrame({"hour": np.arange(float(read.n_items))}, index=read.item_index)
    more: Any = {"features": features, "item_covariates": covariates}
    told = crowdppl.Annotations.open(tmp_path / "parts", **more)
    expected = crowdppl.read_annotations(tmp_path / "a.csv", **more)
    for name in more:
        one, other = (getattr(data, name) for data in (expected, told))
        pd.testing.assert_frame_equal(other, one.loc[other.index], check_names=False, check_index_type=False)


def test_faults_name_the_line(tmp_path: Path) -> None:
    wrong = {
        "itself": (pairs, {"model_a": "a", "model_b": "a"}, "'a' is compared with itself at line 81 "),
        "neither": (pairs, {"winner": "nobody"}, "'nobody' at line 81 "),
        "position": (tags, {"position": "1.5"}, "'1.5' at line 81 "),
        "class": (lambda: sets("|"), {"label": "round|blue"}, "'blue' at line 81 "),
        "ranking": (whole, {"ranking": "pear > pear"}, "at line 8 .* twice"),
    }
    for name, (make, cells, text) in wrong.items():
        table, said = make(), next(said for key, (other, said) in TABLES.items() if other in (make, sets))
        said = {"class": TABLES["listed"][1], "ranking": TABLES["ranking"][1]}.get(name, {})
        row = 6 if name == "ranking" else 79
        for column, value in cells.items():
            table[column] = table[column].astype(object)
            table.loc[row, column] = value
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        with pytest.raises(DataError, match=text):
            crowdppl.convert(tmp_path / f"{name}.csv", tmp_path / name, n_parts=3, **said)
        assert not (tmp_path / name).exists()


def test_objects_may_be_called_like_answers(tmp_path: Path) -> None:
    rows = [("tie", "shirt", "ann", "Draw"), ("shirt", "tie", "ann", "tie"), ("left", "shirt", "bob", "A=B")]
    table = pd.DataFrame(rows * 3, columns=["left", "right", "judge", "winner"])
    table.to_csv(tmp_path / "a.csv", index=False)
    same(*both(tmp_path / "a.csv", tmp_path / "parts", kind="pair"))


@pytest.mark.parametrize("name", ["sequence", "rank", "set"])
def test_ids_that_are_whole_numbers_stay_so_and_parts_may_be_empty(name: str, tmp_path: Path) -> None:
    make, said = TABLES[name]
    table = make()
    first = table.columns[0]
    table[first] = table[first].str.extract(r"(\d+)")[0].astype(int)
    table.to_parquet(tmp_path / "a.parquet")
    read, opened = both(tmp_path / "a.parquet", tmp_path / "parts", 30, **said)
    same(read, opened)
    assert read.item_covariates is not None and opened.item_covariates is not None
    expected = read.item_covariates.loc[opened.items]
    pd.testing.assert_frame_equal(opened.item_covariates, expected, check_index_type=False, check_names=False)


@pytest.mark.parametrize("name", ["one problem", "sequence", "listed"])
def test_a_process_may_have_no_items(name: str, tmp_path: Path) -> None:
    make, said = TABLES[name]
    make().to_csv(tmp_path / "a.csv", index=False)
    crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", n_parts=60, **said)
    shares = [read_parts(tmp_path / "parts", process, 60) for process in range(60)]
    assert not all(len(share.items) for share in shares) and all(share.blocks for share in shares)


def test_lists_are_no_ids_and_tags_beside_words_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"item": [{n}], "annotator": "a", "label": "xy"}}\n' for n in range(9)))
    for source, said in ((path, {}), (path, {"kind": "set"})):
        with pytest.raises(DataError):
            crowdppl.convert(source, tmp_path / "parts", **said)  # type: ignore[arg-type]
    table = tags("I-Z")
    table.loc[5, "label"] = "verb"
    table.to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(DataError, match="'verb' is none"):
        crowdppl.convert(tmp_path / "b.csv", tmp_path / "parts", n_parts=4, kind="sequence")
    table = sets()
    table.loc[119, "item"] = "i | red"
    table.to_csv(tmp_path / "c.csv", index=False)
    with pytest.raises(DataError, match="two columns"):
        crowdppl.convert(tmp_path / "c.csv", tmp_path / "parts", kind="set")


def test_covariates_of_sets_are_by_item(tmp_path: Path) -> None:
    sets().to_csv(tmp_path / "a.csv", index=False)
    crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", n_parts=3, kind="set")
    more = pd.DataFrame({"hour": np.arange(40.0)}, index=[f"item {n}" for n in range(40)])
    one = crowdppl.read_annotations(tmp_path / "a.csv", kind="set", item_covariates=more).item_covariates
    other = crowdppl.Annotations.open(tmp_path / "parts", item_covariates=more).item_covariates
    assert one is not None and other is not None
    pd.testing.assert_frame_equal(other, one.loc[other.index], check_names=False, check_index_type=False)
    table = pd.DataFrame({"item": ["x", "y"] * 4, "annotator": list("aabbccdd"), "label": list("uvuvuuvv")})
    table.to_csv(tmp_path / "b.csv", index=False)
    crowdppl.convert(tmp_path / "b.csv", tmp_path / "plain")
    chains = pd.DataFrame({"sequence": ["s", "s"], "position": [0, 1]}, index=["x", "y"])
    with pytest.raises(DataError, match="sequence"):
        crowdppl.Annotations.open(tmp_path / "plain", item_covariates=chains)


def test_ids_of_both_parts_in_one_column_are_refused(tmp_path: Path) -> None:
    table = pairs().assign(item=lambda x: x["model_a"] + " | " + x["model_b"])
    table[["item", "judge", "winner"]].to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="two columns"):
        crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", kind="pair")
    with pytest.raises(DataError, match="stray"):
        crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", kind="sequence", stray="refuse")


def test_spans_that_begin_with_a_stray_tag_are_told_of_once(tmp_path: Path) -> None:
    table = tags()
    table.loc[table["label"].eq("B-Z") & (table["annotator"] == "ann"), "label"] = "I-Z"
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(CrowdpplWarning) as told:
        crowdppl.convert(tmp_path / "a.csv", tmp_path / "parts", n_parts=4)
    of_tags = [str(x.message) for x in told if "continues no span" in str(x.message)]
    assert len(of_tags) == 1 and of_tags[0].startswith(f"12 of {len(table)} labels")
