"""Small inputs that provoke doubts, what is known of their truth, and what else their texts tell one to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import crowdppl
from crowdppl import moments
from crowdppl.data.annotations import Annotations
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Card
from crowdppl.results.correction import averaged
from tests.class_result import changed
from tests.crowd import annotations
from tests.doubtful import handmade, simulated

OneCoin: Any = type(crowdppl.method("one_coin"))


class Found(NamedTuple):
    """What is doubted, known truths, rows as they would be given anew (else those of the data), and the data."""

    posterior: Any
    gold: Mapping[Any, Any] = {}
    rows: pd.DataFrame | None = None
    data: Annotations | None = None


@dataclass(frozen=True)
class Row:
    """A doubt.

    Attributes:
        kind: of the doubt.
        make: provokes it.
        also: further calls, of what the text tells one to do and the doubt's own remedies do not show.
        stays: remedies after which the doubt is still there, and why they are remedies all the same.
        thorough: whether it is looked for with ``thorough`` alone.
        why: there is no remedy to call.
        slow: whether its remedies take seconds.
    """

    kind: str
    make: Callable[[], Found]
    also: tuple[str, ...] = ()
    stays: Mapping[str, str] = field(default_factory=dict)
    thorough: bool = False
    why: str = ""
    slow: bool = False


def truth_of(seed: int, n_items: int, n_classes: int) -> dict[int, int]:
    """The truths of ``simulated``."""
    return dict(enumerate(np.random.default_rng(seed).integers(n_classes, size=n_items).tolist()))


def fitted(method: Any, data: Annotations, inference: str = "vb", **more: Any) -> Posterior:
    return crowdppl.fit(method, data, inference=inference, seed=0, **more)


def crowd(method: str, inference: str, seed: int, *sizes: int, **more: Any) -> Found:
    """A fit to a simulated crowd."""
    bad = {name: more.pop(name) for name in ("spam", "copy") if name in more}
    data = simulated(seed, *sizes, **bad)
    return Found(fitted(method, data, inference, **more), truth_of(seed, sizes[0], sizes[3]))


def sources() -> Found:
    """Six sources that name their own class on half of its items; what they leave unsaid is "nothing"."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    said = rng.random((300, 6)) < np.where(truth[:, None] == np.arange(6) % 2, 0.5, 0.1)
    item, who = np.indices(said.shape).reshape(2, -1)
    names = np.where(said, (np.arange(6) % 2).astype(str), "nothing").ravel()
    rows = pd.DataFrame({"item": item, "annotator": who, "label": names})
    data = Annotations.from_frame(rows[rows["label"] != "nothing"], classes=["0", "1"])
    return Found(fitted("bayesian_dawid_skene", data), {i: str(t) for i, t in enumerate(truth)}, rows)


def systems() -> Found:
    """Ten systems, most of whose labels are those of one crowd."""
    rng = np.random.default_rng(0)

    def noisy(x: np.ndarray, right: float) -> np.ndarray:
        return np.where(rng.random(x.shape) < right, x, (x + rng.integers(1, 3, x.shape)) % 3)

    truth = rng.integers(3, size=(300, 1))
    said, own = noisy(truth, 0.7), noisy(np.repeat(truth, 10, 1), 0.75)
    labels = np.where(rng.random(own.shape) < 0.6, said, own)
    item, annotator = np.indices(labels.shape).reshape(2, -1)
    data = Annotations.from_arrays(item, annotator, labels.ravel(), classes=range(3))
    return Found(fitted("bayesian_dawid_skene", data), dict(enumerate(truth[:, 0].tolist())))


def copied_numbers() -> Found:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=60)
    said = truth[:, None] + 0.5 * rng.normal(size=(60, 6))
    said[:, 1] = said[:, 0] + 0.05 * rng.normal(size=60)
    item, who = np.indices(said.shape).reshape(2, -1)
    data = Annotations.from_arrays(item, who, said.ravel(), kind="real")
    return Found(fitted("gaussian_annotators", data), dict(enumerate(truth.tolist())))


def swapped() -> Found:
    """Maximum likelihood from few labels, and a start with two classes the wrong way round."""
    data = simulated(0, 100, 12, 4, 3)
    start = crowdppl.fit("dawid_skene", data, inference="em", seed=0)
    table = start.result.confusions[:, [1, 0, 2]]
    return Found(replace(start, result=changed(start.result, table=table)), truth_of(0, 100, 3))


def traded() -> Found:
    """Two classes that traded places."""
    found = crowd("dawid_skene", "em", 0, 300, 12, 5, 4)
    result = found.posterior.result
    other = changed(result, probabilities=result.probabilities[:, [0, 1, 3, 2]])
    return Found(replace(found.posterior, result=other), found.gold)


def misled() -> Found:
    """Most of a crowd take one class for another."""
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=200)
    said = np.where((truth == 2) & (rng.random((8, 200)) < 0.8), 1, truth)
    data = annotations([(i, a, int(said[a, i])) for i in range(200) for a in range(8) if (i + a) % 2], 3)
    hint = data.with_gold(dict(list(enumerate(truth.tolist()))[:100]))
    return Found(fitted("bayesian_dawid_skene", hint), dict(enumerate(truth.tolist())))


def one_for_all() -> Found:
    """Maximum likelihood explains sources of one class each without any truth."""
    away = [-1] * 7
    rows = [away] * 8 + [[*away[:5], 0, -1]] * 4 + [[1, -1, -1, -1, 1, -1, -1]] * 2 + [[1, *away[1:]]] * 4
    data = Annotations.from_matrix(np.array(rows))
    truth = {**dict.fromkeys(range(8), 0), **dict.fromkeys(range(8, 12), 0), **dict.fromkeys(range(12, 18), 1)}
    return Found(fitted("dawid_skene", data, "em"), truth)


def unnamed() -> Found:
    stream = np.random.default_rng(0)
    truth = stream.integers(3, size=300)
    rows = [
        (item, annotator, truth[item] if stream.random() < 0.7 else stream.integers(3))
        for item in range(300)
        for annotator in stream.choice(20, 5, replace=False)
    ]
    data = Annotations.from_arrays(*zip(*rows, strict=True), classes=range(4))
    return Found(fitted("dawid_skene", data, "em"), {0: 3, **dict(list(enumerate(truth.tolist()))[1:])})


def words() -> Found:
    data = simulated(0, 30, 4, 3, 2)
    rows = data.frame()
    rows["label"] = rows["label"].map({0: "weak", 1: "strong"})
    return Found(fitted("ordinal", Annotations.from_frame(rows)))


def unbalanced() -> Found:
    rng = np.random.default_rng(0)
    skill, truth, labels = rng.uniform(0.55, 0.95, 10), rng.choice(2, 200, p=[0.9, 0.1]), []
    for i, t in enumerate(truth.tolist()):
        labels += [(i, int(a), t if rng.random() < skill[a] else 1 - t) for a in rng.choice(10, 3, replace=False)]
    heavy = fitted("bayesian_dawid_skene", annotations(labels, 2), settings={"prevalence_strength": 100.0})
    return Found(heavy, dict(enumerate(truth.tolist())))


def permuted() -> Found:
    found = handmade([50, 50], diagnostics={"permutations": [[0, 1], [1, 0]]})
    return Found(replace(found, inference="gibbs"), {0: 0, 1: 1, 2: 0})


def sided(method: str = "bradley_terry") -> Found:
    """Judges who name the left of two objects, whatever these are, twice in three times."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(300):
        left, right = rng.choice(6, 2, replace=False)
        won = left if rng.random() < (2 / 3 + (left > right) / 3) * 0.9 else right
        rows.append((f"o{left}", f"o{right}", f"w{rng.integers(5)}", f"o{won}"))
    frame = pd.DataFrame(rows, columns=["left", "right", "annotator", "winner"])
    return Found(fitted(method, Annotations.from_frame(frame, kind="pair", repeats="keep")))


def thin_pairs() -> Found:
    """Judges who answer four times each."""
    rng, rows = np.random.default_rng(0), []
    for n in range(160):
        left, right = rng.choice(6, 2, replace=False)
        won = left if (rng.random() < 0.85) == (left > right) else right
        rows.append((f"o{left}", f"o{right}", f"w{n // 4}", f"o{won}"))
    frame = pd.DataFrame(rows, columns=["left", "right", "annotator", "winner"])
    return Found(fitted("crowd_bt", Annotations.from_frame(frame, kind="pair")))


def alike() -> Found:
    data = annotations([(i, a, i % 2) for i in range(10) for a in range(3)], 2)
    rows = data.frame()
    rows.loc[::7, "label"] = 1 - rows.loc[::7, "label"]  # as annotators gave them
    return Found(fitted("one_coin", data), {i: i % 2 for i in range(10)}, rows)


def declined() -> Found:
    """A third of the items are hard, where people mostly decline."""
    rng = np.random.default_rng(0)
    truth, hard = rng.integers(2, size=300), rng.random(300) < 1 / 3
    right = rng.random((300, 5)) < np.where(hard, 0.55, 0.9)[:, None]
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    said = np.where(rng.random((300, 5)) < np.where(hard, 0.7, 0.03)[:, None], -1, said)
    labels = [(i, a, int(said[i, a])) for i in range(300) for a in range(5)]
    data = annotations(labels, 2, abstentions=[-1], informative_abstentions=True)
    return Found(fitted("dawid_skene", data, "em"), dict(enumerate(truth.tolist())))


def again() -> Found:
    """Annotators who label items five times, mostly as they did first."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=150)
    right = rng.random((150, 3, 5)) < rng.uniform(0.7, 0.9, 3)[:, None]
    right = np.where(rng.random(right.shape) < 0.9, right[..., :1], right)
    item, annotator, _ = np.indices(right.shape).reshape(3, -1)
    label = np.where(right, truth[:, None, None], 1 - truth[:, None, None]).reshape(-1)
    data = Annotations.from_arrays(item, annotator, label, classes=[0, 1], repeats="keep")
    return Found(fitted("bayesian_dawid_skene", data))


def drifting() -> Found:
    """One of twelve annotators is right less often in the second half."""
    stream = np.random.default_rng(1)
    right, rows, truth = stream.uniform(0.5, 0.95, 12), [], {}
    for i in range(300):
        truth[i] = int(stream.integers(3))
        for who in stream.choice(12, 4, replace=False):
            p = 0.2 if i >= 150 and who == 0 else right[who]
            wrong = (truth[i] + int(stream.integers(1, 3))) % 3
            rows.append((i, f"w{who}", truth[i] if stream.random() < p else wrong, pd.Timestamp(i, unit="D")))
    frame = pd.DataFrame(rows, columns=["item", "annotator", "label", "at"])
    return Found(fitted("bayesian_dawid_skene", Annotations.from_frame(frame, time="at")), truth)


def soft() -> Found:
    """Probabilities that a temperature of four makes soft."""
    found = fitted("auto", simulated(0, 100, 8, 4, 4), "auto")
    assert found.correction is not None
    soft = replace(found.correction, temperature=4.0, shares=np.full(4, 0.25))
    return Found(Posterior.of(averaged(found.members(), soft)), truth_of(0, 100, 4))


def habits() -> Found:
    """Half of the annotators say yes more often than others."""
    rng = np.random.default_rng(0)
    item, annotator = np.divmod(np.arange(2400), 8)
    drawn, truth = rng.random(2400), rng.random(300) < 0.5
    yes = drawn < np.where(truth[item], 0.5, 0.1) + 0.4 * (annotator < 4)
    data = Annotations.from_arrays(item, annotator, yes.astype(int))
    return Found(fitted("one_coin", data, "em"), dict(enumerate(truth.astype(int).tolist())))


def far(method: str, draws: int, *sizes: int) -> Found:
    """Pathfinder's normals of a posterior that is none, or of so few draws that nobody can tell."""
    data = simulated(0, *sizes)
    found = fitted(method, data, "pathfinder", chains=2, draws=draws)
    return Found(found, truth_of(0, sizes[0], sizes[3]))


class Failing(OneCoin):  # type: ignore[misc]
    """A model whose own doubts fail."""

    card = Card("Failing", "nobody")

    def doubts(self, fit: Any) -> Any:
        raise ValueError("no")


def moment(name: str, **options: Any) -> Found:
    """Moments of annotators who err in their own ways; or who nearly always name one class."""
    rng, n = np.random.default_rng(0), 3_000
    tables = 0.3 * rng.dirichlet(np.ones(2), (6, 2)) + 0.7 * np.eye(2) * 0.8 + 0.07
    tables = options.get("change", lambda x: x)(tables)
    tables /= tables.sum(-1, keepdims=True)
    truth = rng.integers(2, size=n)
    said = (rng.random((n, 6)) > tables[np.arange(6), truth[:, None], 0]).astype(int)
    rows = [(i, a, int(said[i, a])) for i in range(n) for a in range(6)]
    rows += [(n + i, 6, i % 2) for i in range(4)] * options.get("alone", False)
    data = annotations(rows, 2)
    return Found(getattr(moments, name)(data), dict(enumerate(truth.tolist())), data=data)


AUTO, SOME = "crowdppl.fit('auto', data)", "posterior.without([0])"
COMPARED = "crowdppl.compare(['bayesian_dawid_skene', 'dawid_skene'], data)"
START = "crowdppl.fit('dawid_skene', data, start=posterior.start, inference='em')"
DAYS = "crowdppl.Annotations.from_frame(rows[rows['at'] {} '1970-05-31'], time='at', classes=range(3))"
LATER = f"crowdppl.fit(posterior.model, {DAYS.format('<')}, inference='vb').update({DAYS.format('>=')}, forget=.3)"
TABLES = "crowdppl.fit('bayesian_dawid_skene', data)"
DRAWS = "crowdppl.fit(posterior.model, data, inference='pathfinder', draws=500)"
USUAL = "without known truths, auto assumes what is usual elsewhere, and labels are as they were"

ROWS: list[Row] = [
    Row("thin", partial(crowd, "bayesian_dawid_skene", "vb", 0, 60, 20, 3, 4), slow=True),
    Row("thin", thin_pairs, slow=True),
    Row("spammers", partial(crowd, "one_coin", "vb", 1, 300, 10, 8, 2, spam=3)),
    Row("one class", sources),
    Row("copying", partial(crowd, "one_coin", "vb", 0, 300, 12, 8, 3, copy=2)),
    Row("colluding", partial(crowd, "dawid_skene", "em", 0, 700, 24, 8, 3, copy=4)),
    Row("copying", copied_numbers),
    Row("together", systems, (SOME,), {AUTO: USUAL, SOME: "nine of the ten read the crowd as well"}, slow=True),
    Row("diagonal", swapped),
    Row("diagonal", misled),
    Row("collapse", traded, slow=True),
    Row("flat", one_for_all),
    Row("unnamed", unnamed),
    Row("order", words),
    Row("prevalence", unbalanced, thorough=True),
    Row("permuted", permuted, ("crowdppl.fit(dataclasses.replace(posterior.model, prior_accuracy=.8), data)",)),
    Row("position", sided),
    Row("unanimous", alike),
    Row("abstained", declined),
    Row("repeats", again),
    Row("drift", drifting, (LATER,), slow=True),
    Row("misfit", partial(crowd, "dawid_skene", "em", 0, 300, 20, 8, 3, copy=4), thorough=True, slow=True),
    Row(
        "misfit",
        habits,
        stays={TABLES: "shares of classes fit then, agreement of pairs not"},
        thorough=True,
        slow=True,
    ),
    Row("votes", partial(crowd, "dawid_skene", "em", 0, 60, 12, 3, 4), (COMPARED,), slow=True),
    Row("votes", partial(crowd, "dawid_skene", "em", 0, 60, 12, 3, 4), thorough=True, slow=True),
    Row("bias", partial(crowd, "auto", "auto", 0, 30, 6, 4, 2), slow=True),
    Row("large sets", soft, slow=True),
    Row("pareto", partial(far, "glad", 30, 6, 3, 3, 2), slow=True),
    Row("pareto", partial(far, "majority_vote", 3, 40, 6, 5, 2), stays={DRAWS: "now it can be told: they are far"}),
    Row("own", lambda: Found(fitted(Failing(), simulated(0, 20, 4, 3, 2))), why="the model's own code fails"),
    Row("few shared", partial(moment, "spectral", alone=True), (START,)),
    Row("naming", partial(moment, "multispa", change=lambda x: x[:, ::-1] * [0.02, 1.98])),
    Row("separability", partial(moment, "spectral", change=lambda x: 0.02 * x + [0.1, 0.9])),
    Row("class experts", partial(moment, "coupled_kl")),
]
