"""Tables with a column a class or a column an item are read as that, or refused with a line that reads them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import crowdppl
from crowdppl.cli.commands import main
from crowdppl.data.annotations import Annotations
from crowdppl.data.files import read_annotations
from crowdppl.data.votes import seems
from crowdppl.errors import DataError
from crowdppl.results.truths import labels

RNG = np.random.default_rng(0)
FLEISS = pd.DataFrame(  # Fleiss (1971) as told in Wikipedia: kappa .210
    [
        *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
        *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
    ],
    columns=list("12345"),
)
PETS = ["cat", "dog", "frog", "ship"]
COUNTS = pd.DataFrame(
    [RNG.multinomial(RNG.integers(47, 64), p) for p in RNG.dirichlet(np.full(4, 0.2), 60)], columns=PETS
)
NEAR = COUNTS.assign(image=[f"im{n:02}" for n in range(60)])
SHARES = NEAR.assign(**(COUNTS.div(COUNTS.sum(axis=1), axis=0)).round(4))
RECORDS = pd.DataFrame({"uid": NEAR["image"], "label_counter": COUNTS.to_dict("records"), "majority_label": "cat"})
TRUTH = RNG.integers(0, 4, 40)
MARKS = pd.DataFrame(
    [
        {
            "id": f"ed{n % 40}",
            "text": f"text {n % 40}",
            "created_utc": 1.5e9 + n,
            "rater_id": n // 40 + 7,
            "unclear": False,
        }
        | {name: int(TRUTH[n % 40] == k) for k, name in enumerate(PETS)}
        for n in range(120)
    ]
)
SEVERAL = MARKS.assign(cat=np.where(RNG.random(120) < 0.3, 1, MARKS["cat"]))
RATERS = pd.DataFrame(
    {"rater": ["ann", "bob", "cy", "di"], "q1": list("YYNY"), "q2": list("NNNY"), "q3": list("YNYY")}
)
FORM = RATERS.rename(columns={"rater": "Email Address", "q1": "Is it true, and good?"}).assign(
    Timestamp=[f"2024/01/0{n} 1:0{n}:00 PM" for n in range(1, 5)]
)
QUALTRICS = pd.DataFrame(
    {
        name: [text, f'{{"ImportId":"{key}"}}', *own]
        for name, text, key, own in [
            ("StartDate", "Start Date", "startDate", ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]),
            ("ResponseId", "Response ID", "_recordId", ["R_1", "R_2", "R_3", "R_4"]),
            *((f"q{n}", f"Question {n}", f"QID{n}", RATERS[f"q{n}"]) for n in (1, 2, 3)),
        ]
    }
)
RANKS = pd.DataFrame([RNG.permutation(4) + 1 for _ in range(8)], columns=["tea", "milk", "juice", "beer"])
LABELS = pd.DataFrame({"item": [f"i{n}" for n in range(40)]}).assign(
    **{f"a{k}": np.where(RNG.random(40) < 0.7, TRUTH % 3, RNG.integers(0, 3, 40)) for k in range(1, 6)}
)


def from_csv(frame: pd.DataFrame, path: Path, **options: Any) -> Annotations:
    frame.to_csv(path / "a.csv", index=False)
    return read_annotations(path / "a.csv", **options)


def both(frame: pd.DataFrame, path: Path, **options: Any) -> list[Annotations]:
    return [Annotations.from_frame(frame, **options), from_csv(frame, path, **options)]


def votes_of(data: Annotations) -> np.ndarray:
    return pd.DataFrame(data.votes(), data.items, data.classes).to_numpy()


@pytest.mark.parametrize("options", [{}, {"columns": "classes"}, {"kind": "nominal"}, {"kind": "ordinal"}])
@pytest.mark.parametrize(("frame", "item"), [(FLEISS, "the rows"), (NEAR, "image")])
def test_counts_are_votes_of_one_annotator(
    frame: pd.DataFrame, item: str, options: dict[str, Any], tmp_path: Path
) -> None:
    counts = frame.drop(columns="image", errors="ignore")
    for data in both(frame, tmp_path, **options):
        assert [*data.annotators] == ["all"] and not data.warnings
        assert data.kind == options.get("kind", "nominal")
        order = data.items.astype(str).argsort() if item == "the rows" else slice(None)
        assert np.array_equal(np.sort(votes_of(data)[order].sum(1)), np.sort(counts.sum(axis=1)))
        assert [*data.classes] == [*counts.columns]
        assert data.summary()["columns"] == {"item": item, "votes": ", ".join(counts.columns)}
    if item == "image":
        assert np.array_equal(votes_of(data), counts)


def test_agreement_of_votes_is_that_of_fleiss() -> None:
    data = Annotations.from_frame(FLEISS)
    table = crowdppl.agreement_table(data, bootstrap=50)
    assert table.loc["fleiss_kappa", "value"] == pytest.approx(0.210, abs=5e-4)
    assert "cohen_kappa" not in table.index
    named = pd.DataFrame(
        [(n, a, k) for n, row in FLEISS.iterrows() for a, k in enumerate(np.repeat(FLEISS.columns, row))],
        columns=["item", "annotator", "label"],
    )
    other = crowdppl.agreement_table(Annotations.from_frame(named), bootstrap=50)
    assert np.allclose(table["value"], other.loc[table.index, "value"])
    assert np.allclose(
        crowdppl.agreement_items(data)["agreement"],
        crowdppl.agreement_items(Annotations.from_frame(named))["agreement"],
    )
    with pytest.raises(DataError, match="agreement_table or agreement_items"):
        crowdppl.agreement_pairs(data)


def test_a_fit_to_votes_is_that_to_labels() -> None:
    fit = crowdppl.fit("multinomial", Annotations.from_frame(NEAR), inference="em")
    long = NEAR.melt("image", var_name="label", value_name="n")
    long = long.loc[long.index.repeat(long.pop("n"))]
    other = crowdppl.fit("multinomial", Annotations.from_frame(long, item="image", annotator=None), inference="em")
    assert np.allclose(fit.probabilities()[PETS], other.probabilities()[PETS], atol=1e-6)
    assert (labels(fit)["label"].to_numpy() == COUNTS.idxmax(axis=1).to_numpy()).mean() > 0.9  # near ties turn


def remedies(message: str) -> list[dict[str, Any]]:
    """The arguments that a message says: one after "say", one in brackets."""
    found = []
    for part in re.findall(r"say (.*?)(?:[;(]|, or |, or name|, not| if |$)|\(or (.*?) if", message):
        text = "".join(part)
        found.append(dict(eval(f"dict({text})")))
    return found


@pytest.mark.parametrize(
    ("frame", "kind", "annotators"),
    [
        (FLEISS, "nominal", ["all"]),
        (NEAR, "nominal", ["all"]),
        (NEAR.assign(total=COUNTS.sum(axis=1)), "nominal", ["all"]),
        (RECORDS, "nominal", ["all"]),
        (RECORDS.rename(columns={"uid": "item"}), "nominal", ["all"]),
        (SEVERAL, "set", [7, 8, 9]),
        (MARKS, "nominal", [7, 8, 9]),
        (RATERS, "nominal", ["ann", "bob", "cy", "di"]),
        (FORM, "nominal", ["ann", "bob", "cy", "di"]),
        (QUALTRICS, "nominal", ["R_1", "R_2", "R_3", "R_4"]),
        (RANKS, "ranking", [*range(8)]),
        (RANKS.assign(judge=list("abcdefgh")), "ranking", [*"abcdefgh"]),
        (RANKS.assign(id=list("abcdefgh")), "ranking", [*"abcdefgh"]),
    ],
    ids=[
        "fleiss",
        "near",
        "total",
        "records",
        "named",
        "several",
        "marks",
        "raters",
        "form",
        "qualtrics",
        "ranks",
        "judges",
        "ids",
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_what_is_refused_is_read_by_the_line_in_the_message(
    frame: pd.DataFrame, kind: str, annotators: list[Any], wide: bool, tmp_path: Path
) -> None:
    """Each remedy is said anew, until the table is read; no annotator ever has the name of a class."""
    if wide and "id" in frame and kind in ("ranking", "nominal", "set"):
        # leaving out wide=, and dropping the column of ids, are the cases beside this one
        with pytest.raises(DataError, match="leave out wide=" if kind != "ranking" else "'id'.*or drop it"):
            Annotations.from_frame(frame, wide=True)
        return
    for read in (Annotations.from_frame, lambda frame, **options: from_csv(frame, tmp_path, **options)):
        said: dict[str, Any] = {"wide": True} if wide else {}
        for _ in range(4):
            try:
                data = read(frame, **said)
                break
            except DataError as error:
                told = remedies(str(error))
                assert told, str(error)
                said |= told[0]
                said.pop("wide", None)
        assert data.kind == kind
        assert [*map(str, data.annotators)] == [*map(str, annotators)]
        method = "plackett_luce" if kind == "ranking" else "multinomial"
        assert crowdppl.fit(method, data, inference="em").data.n_labels == data.n_labels


def test_labels_of_one_class_or_several_in_columns(tmp_path: Path) -> None:
    for data in both(MARKS, tmp_path):
        assert (data.kind, data.n_items, data.n_annotators, [*data.classes]) == ("nominal", 40, 3, PETS)
        assert data.summary()["columns"]["classes"] == "cat, dog, frog, ship"
        assert (votes_of(data).max(1) == 3).all()
    for data in both(SEVERAL, tmp_path, columns="classes"):
        assert (data.kind, data.n_items) == ("set", 160)
        yes = data.frame()["label"].eq("yes").sum()
        assert yes == SEVERAL[PETS].to_numpy().sum()
    for data in both(SEVERAL, tmp_path, kind="set"):
        assert data.n_items == 160
    with pytest.raises(DataError, match=r"classes=.*'what'|'what'.*classes="):
        Annotations.from_frame(SEVERAL, columns="classes", classes=["cat", "what"])
    with pytest.raises(DataError, match="kind='set'"):
        Annotations.from_frame(SEVERAL, columns="classes", kind="nominal")


def test_a_row_an_annotator(tmp_path: Path) -> None:
    wanted = {("q1", "ann", "Y"), ("q2", "ann", "N"), ("q1", "cy", "N")}
    for frame in (RATERS, QUALTRICS.replace({"R_1": "ann", "R_2": "bob", "R_3": "cy", "R_4": "di"})):
        for data in both(frame, tmp_path):
            found = set(data.frame()[["item", "annotator", "label"]].itertuples(index=False, name=None))
            assert wanted < found and len(found) == 12
    by_index = Annotations.from_frame(RATERS.set_index("rater"))
    assert [*by_index.annotators] == ["ann", "bob", "cy", "di"]
    with pytest.raises(DataError, match="columns='items'"):
        Annotations.from_frame(RATERS.set_index("rater"), wide=True)
    numbers = RATERS.assign(q1=[1.5, 2, 3, 2], q2=[2.5, 3, 3, 1], q3=[2, 2, 1, 2])
    assert Annotations.from_frame(numbers, columns="items", kind="real").n_labels == 12
    gaps = Annotations.from_frame(RATERS.replace({"N": ""}), columns="items", classes=["Y", "N"])
    assert gaps.n_labels == 7 and gaps.n_items == 3


def test_ranks_with_a_row_a_ranker_are_rankings(tmp_path: Path) -> None:
    fit = crowdppl.fit("plackett_luce", Annotations.from_frame(RANKS), inference="em")
    long = RANKS.rename_axis("judge").reset_index().melt("judge", var_name="object", value_name="rank")
    other = crowdppl.fit("plackett_luce", Annotations.from_frame(long), inference="em")
    assert [*fit.ranking().index] == [*other.ranking().index]
    partial = RANKS.where(RANKS < 4)
    for data in both(partial, tmp_path):
        assert data.kind == "ranking" and data.n_labels == 24


def test_ties_places_and_ballots(tmp_path: Path) -> None:
    tied = RANKS.replace(4, 3)
    for data in both(tied, tmp_path):
        assert data.kind == "ranking" and data.n_labels == 32
    with pytest.raises(DataError, match=r"add 1 to ranks.*columns='items', kind='ranking'.*columns='classes'"):
        Annotations.from_frame(RANKS - 1)
    assert Annotations.from_frame(RANKS - 1 + 1, columns="items", kind="ranking").n_labels == 32
    table = RANKS.apply(lambda row: pd.Series(row.sort_values().index), axis=1).set_axis(
        ["x", "y", "z", "last"], axis=1
    )
    for frame in (table, table.assign(judge=list("abcdefgh"))):
        with pytest.raises(DataError, match="a column of lists") as told:
            Annotations.from_frame(frame, columns="items")
    with pytest.raises(DataError, match="a column of lists") as told:
        Annotations.from_frame(table, wide=True)
    line = re.search(r"pandas(\.DataFrame.*?\)}\)), for", str(told.value))
    assert line
    data = Annotations.from_frame(eval(f"pd{line[1]}", {"pd": pd, "table": table}))
    assert data.kind == "ranking" and data.n_annotators == 8
    wanted = crowdppl.fit("plackett_luce", Annotations.from_frame(RANKS), inference="em").ranking()
    assert [*crowdppl.fit("plackett_luce", data, inference="em").ranking().index] == [*wanted.index]


def test_true_and_false_are_one_and_zero(tmp_path: Path) -> None:
    plain = MARKS.drop(columns="unclear")
    for data in both(plain.astype(dict.fromkeys(PETS, bool)), tmp_path):
        assert np.array_equal(votes_of(data), votes_of(Annotations.from_frame(plain)))


def test_a_column_that_differs_in_each_row_may_name_annotators() -> None:
    frame = RATERS.rename(columns={"rater": "Name"})
    with pytest.raises(DataError, match=r"columns='items', annotator='Name'"):
        Annotations.from_frame(frame, wide=True)
    assert Annotations.from_frame(frame, columns="items", annotator="Name").n_annotators == 4
    with pytest.raises(DataError, match="columns='items'"):
        Annotations.from_frame(frame)


def test_what_sums_tell() -> None:
    rng = np.random.default_rng(1)  # its own, as tests run in any order
    pivot = COUNTS[["cat", "dog"]].clip(upper=20).assign(dog=lambda x: 20 - x["cat"]).replace(0, np.nan)
    for frame in (FLEISS, COUNTS, pivot):
        assert seems(frame) == ("votes", [*frame])
    ragged = pd.DataFrame([rng.multinomial(rng.integers(3, 6), p) for p in rng.dirichlet([0.3] * 3, 200)])
    assert seems(ragged) == ("votes", [0, 1, 2])
    for extra in (rng.integers(0, 10, 60), rng.integers(1990, 2020, 60), COUNTS.sum(axis=1)):
        assert seems(COUNTS.assign(more=extra)) == ("votes", PETS)
    assert seems(RANKS) == ("ranks", [*RANKS])
    assert seems(SHARES[PETS])[0] == seems(SHARES[PETS] * 100)[0] == "shares"
    same = pd.DataFrame({"ann": [1, 1, 1], "bob": [1, 1, 1]})
    some = pd.DataFrame(np.where(rng.random((200, 9)) < 0.4, rng.integers(1, 3, (200, 9)), np.nan))
    for frame in (LABELS.drop(columns="item"), FLEISS[:1], FLEISS.replace(0, -1), same, some):
        assert seems(frame) == ("", [])
    assert seems(same.astype(str).replace("1", "yes")) == ("", [])


def test_columns_beside_counts_are_no_classes_beyond_chance() -> None:
    rng = np.random.default_rng(2)
    taken = sum(seems(COUNTS.assign(more=rng.poisson(5, 60))) != ("votes", PETS) for _ in range(200))
    assert taken <= 4


@pytest.mark.parametrize("wide", [False, True])
def test_numbers_beside_counts_are_no_classes(wide: bool) -> None:
    for name, extra in (
        ("true_label", TRUTH),
        ("year", np.random.default_rng(3).integers(1990, 2020, 40)),
        ("n", COUNTS.sum(axis=1)[:40]),
    ):
        if wide and name == "true_label":
            continue  # refused by its name
        frame = NEAR[:40].assign(**{name: np.asarray(extra)})
        with pytest.raises(DataError) as told:
            Annotations.from_frame(frame, wide=wide)
        found = remedies(str(told.value))
        assert found and found[0] == {"columns": "classes", "classes": PETS}, str(told.value)
        assert [*Annotations.from_frame(frame, **found[0]).classes] == PETS
        with pytest.raises(DataError, match=re.escape(f"classes={PETS}")):
            Annotations.from_frame(frame, columns="classes")


def test_labels_of_annotators_are_no_votes(tmp_path: Path) -> None:
    """Neither where they agree nor where nobody does."""
    rng = np.random.default_rng(1)
    for seed, (k, skill) in enumerate([(2, 0.6), (3, 0.9), (5, 0.0)] * 10):
        truth = rng.integers(0, k, 30 + seed)
        columns = {
            f"a{n}": np.where(rng.random(len(truth)) < skill, truth, rng.integers(0, k, len(truth)))
            for n in range(2 + seed % 4)
        }
        data = Annotations.from_frame(pd.DataFrame(columns), wide=True)
        assert data.n_annotators == len(columns) and data.n_labels == len(columns) * len(truth)
    for data in both(LABELS, tmp_path, wide=True):
        assert [*data.annotators] == ["a1", "a2", "a3", "a4", "a5"] and data.n_labels == 200


def test_matrices_of_votes_are_refused() -> None:
    for matrix in (FLEISS.to_numpy(), FLEISS, RANKS.to_numpy(), SHARES[PETS].to_numpy()):
        with pytest.raises(DataError, match="columns='(classes|items)'"):
            Annotations.from_matrix(matrix)
    assert Annotations.from_matrix(FLEISS.to_numpy(), annotators=list("abcde")).n_annotators == 5
    assert Annotations.from_matrix(SHARES[PETS].to_numpy(), kind="real").n_annotators == 4


@pytest.mark.parametrize(
    ("frame", "options", "named"),
    [
        (SHARES, {}, "probabilities.*counts"),
        (SHARES, {"columns": "classes"}, "probabilities.*counts"),
        (NEAR.replace({"cat": {0: -1}}), {"columns": "classes"}, "classes="),
        (NEAR.assign(cat=-1), {"columns": "classes", "classes": PETS}, "-1 of column 'cat' at row 0"),
        (NEAR.assign(year=10**9), {"columns": "classes"}, "'year'.*classes="),
        (NEAR.assign(cat=0, dog=0, frog=0, ship=0), {"columns": "classes"}, "all counts .* 0"),
        (NEAR, {"columns": "classes", "kind": "real"}, "columns='items'"),
        (NEAR, {"columns": "rows"}, "'classes'"),
        (NEAR, {"kind": "votes"}, "columns='classes'"),
        (RECORDS, {"columns": "classes", "item": "uid", "classes": ["cat", "dog"]}, "row 0.*classes="),
        (RATERS, {"columns": "items", "items": ["q9"]}, "q9"),
        (RATERS, {"columns": "items", "item": "q1"}, "leave them out"),
        (RATERS, {"columns": "items", "annotator": "who"}, "'who'"),
    ],
)
def test_what_is_no_count_is_refused(frame: pd.DataFrame, options: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        Annotations.from_frame(frame, **options)
    counts = (SHARES[PETS] * 50).round().assign(image=NEAR["image"])
    assert Annotations.from_frame(counts, columns="classes").n_items == 60


def test_records_of_counts_in_text_and_json(tmp_path: Path) -> None:
    named = RECORDS.assign(example=[{"premise": "p"}] * 60)
    named.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for data in (
        *both(RECORDS, tmp_path, item="uid"),
        read_annotations(tmp_path / "a.jsonl", item="uid"),
        read_annotations(tmp_path / "a.jsonl", item="uid", label="label_counter", annotator=None),
    ):
        assert np.array_equal(votes_of(data), COUNTS) and [*data.annotators] == ["all"]


def test_the_command_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, frame: pd.DataFrame, *more: str) -> tuple[int, str]:
        more = (*more, "--model", "multinomial", "--inference", "em")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        out = ["--out", str(tmp_path / name), "--overwrite"]
        with pytest.raises(SystemExit) as done:
            main(["fit", str(tmp_path / f"{name}.csv"), *out, *more])
        said = capsys.readouterr()
        return int(done.value.code or 0), said.out + said.err

    assert run("votes", NEAR)[0] == 0
    code, said = run("wide", NEAR, "--wide")
    assert code == 2 and "--columns classes" in said
    assert run("wide", NEAR, "--columns", "classes")[0] == 0
    assert run("several", SEVERAL, "--columns", "classes")[0] == 0
    code, said = run("form", FORM)
    assert code == 2
    words = re.search(r"say --columns items --items '(.*?)', or", said)
    assert words and words[1] == '"Is it true, and good?",q2,q3'
    assert run("form", FORM, "--columns", "items", "--items", words[1])[0] == 0


SETS = ("web", "dogs", "rte", "face", "judgebench", "adult2", "bluebirds", "cifar10n", "product", "skating_goe")


@pytest.mark.parametrize("name", SETS)
def test_real_labels_are_no_votes(name: str, real_data: Path) -> None:
    long = pd.read_csv(real_data / name / "answers.csv")[["item", "annotator", "label"]][:4_000]
    long["label"] = pd.to_numeric(long["label"], errors="coerce").fillna(pd.Series(pd.factorize(long["label"])[0]))
    few = long[long["annotator"].isin(long["annotator"].value_counts().index[:40])]
    table = few.pivot_table(index="item", columns="annotator", values="label", aggfunc="first")
    assert seems(table)[0] == seems(table.dropna())[0] == ""


def test_columns_named_as_annotators_hold_no_votes_though_sums_are_equal() -> None:
    table = pd.DataFrame([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], columns=["rater_1", "rater_2", "rater_3"])
    data = crowdppl.Annotations.from_frame(table, wide=True)
    assert list(data.annotators) == list(table.columns) and list(data.classes) == [0, 1]
    with pytest.raises(DataError, match="columns='classes'"):
        crowdppl.Annotations.from_frame(table.set_axis(["cat", "dog", "cow"], axis=1), wide=True)


def test_a_class_with_half_of_few_votes_is_no_total() -> None:
    table = pd.DataFrame([[5, 3, 2]], columns=["a", "b", "c"])
    for options in ({}, {"classes": ["a", "b", "c"]}):
        data = crowdppl.Annotations.from_frame(table, columns="classes", **options)
        assert data.votes().tolist() == [[5, 3, 2]]
    three = pd.DataFrame([[5, 3, 2], [4, 1, 3], [6, 6, 0]], columns=["a", "b", "c"])
    assert crowdppl.Annotations.from_frame(three, columns="classes", classes=["a", "b", "c"]).n_items == 3


def test_equal_sums_of_few_rows_may_be_chance() -> None:
    few = pd.DataFrame({"ann": [1, 2, 1], "bob": [2, 1, 2]})
    assert seems(few)[0] == ""
    assert seems(pd.concat([few] * 2))[0] == "votes"
    assert seems(FLEISS[:3])[0] == "votes"


def test_two_ballots_a_row_are_labels_only_where_they_may_be() -> None:
    two = pd.DataFrame({"voter": [*"abcdefgh"], "one": [*"pqrpqrpq"], "two": [*"qrpqrpqr"]})
    with pytest.raises(DataError, match="'annotator': table\\['voter'\\]"):
        Annotations.from_frame(two)
    for frame in (two[:3], two.assign(two="no")):
        assert Annotations.from_frame(frame).kind == "nominal"
    again = pd.DataFrame({"voter": [*"aabb"], "one": [*"pqrp"], "two": [*"qrpq"], "three": [*"rpqr"]})
    with pytest.raises(DataError, match="'annotator': table\\['voter'\\]"):
        Annotations.from_frame(again)


def test_ranks_of_several_problems_are_not_taken_together(tmp_path: Path) -> None:
    frame = pd.DataFrame({"prompt": [1, 1, 2, 2], "rater": [*"xyxy"], "A": [1, 2, 3, 3], "B": [2, 1, 2, 1]})
    frame["C"] = [3, 3, 1, 2]
    told = frame.melt(["prompt", "rater"], var_name="object", value_name="rank")
    want = Annotations.from_frame(told, kind="ranking").frame()
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in (
        *(Annotations.from_frame(frame, **more) for more in ({}, {"columns": "items"}, {"kind": "ranking"})),
        read_annotations(tmp_path / "a.csv"),
    ):
        assert data.kind == "ranking"
        assert data.frame().astype(str).equals(want.astype(str))
    again = frame.drop(columns="prompt").sort_values("rater")
    assert Annotations.from_frame(again).n_labels == 12


@pytest.mark.parametrize("name", ["mean", "a_confidence", "n_votes", "agreement", "final", "comment"])
def test_helpers_are_no_annotators(name: str) -> None:
    frame = pd.DataFrame({"ann": [*"xyxx"], "bob": [*"xyyx"], name: [*"xyxx"]}, index=pd.Index([5, 6, 7, 8]))
    with pytest.raises(DataError, match=re.escape("annotators=['ann', 'bob']")):
        Annotations.from_frame(frame.rename_axis("item"), wide=True)


def test_free_text_is_no_item() -> None:
    said = ["I liked it a lot", "no", "this was hard to do", "no", "it did not load"]
    frame = pd.DataFrame({"rater": [*"abcde"], "q1": ["yes", "no"] * 2 + ["no"], "q2": "no", "more": said})
    with pytest.raises(DataError, match=re.escape("items=['q1', 'q2']")):
        Annotations.from_frame(frame)
