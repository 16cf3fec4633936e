"""Checks of fits, by every engine that accepts the model."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.posterior import Posterior, load
from crowdppl.primitives.model import card_of
from crowdppl.testing.fixtures import GOLD, Trial, require

SETTLED: dict[str, Any] = {"tolerance": 1e-12, "max_iterations": 200}
"""For comparisons at 1e-6: where a looser fit stops depends on rounding."""
TOLERANCE = 1e-6
FALL = 1e-9


def engine_cell(engine: str) -> Callable[[Trial], None]:
    """The check that an engine runs or refuses, as the zoo's table says."""

    def check(trial: Trial) -> None:
        cell = trial.cell(engine)
        try:
            posterior = trial.fit(engine)
        except MethodError as error:
            require(cell == f"refused: {error}", f"the table says {cell!r}, but {engine} refuses: {error}")
            named = re.search(rf"\b{engine}\b", str(error))  # "em" is a part of "items"
            require(named is not None, f"the refusal does not name {engine!r}: {error}")
            return
        require(not cell.startswith("refused"), f"the table says {cell!r}, but {engine} runs")
        _is_sound(posterior, engine)

    return check


def probabilities(trial: Trial) -> None:
    """Probabilities are in the rows of their items and the columns of their classes."""
    for engine in trial.accepted():
        posterior = trial.fit(engine)
        table = posterior.probabilities()
        require(table.index.equals(trial.data.items), f"{engine}: the rows are {list(table.index)}")
        require(table.columns.equals(trial.data.classes), f"{engine}: the columns are {list(table.columns)}")
    rows = [(f"item {i}", f"annotator {a}", "abc"[i % 3]) for i in range(9) for a in range(5)]
    shuffled = pd.DataFrame(rows, columns=["item", "annotator", "label"]).sample(frac=1, random_state=2)
    for engine in trial.deterministic:
        clear = trial.fit(engine, trial.read(shuffled)).probabilities().idxmax(axis=1)
        wrong = [item for item in clear.index if clear[item] != "abc"[int(item[-1]) % 3]]
        require(not wrong, f"{engine}: the posterior of {wrong} contradicts all annotators")


def gold(trial: Trial) -> None:
    """A known truth has probability one."""
    known = {"item 00": "b", "item 07": "c"}
    data = trial.read(trial.rows, gold=known)
    for engine in trial.accepted("em", "vb", "gibbs") or trial.accepted():
        table = trial.fit(engine, data).probabilities()
        for item, name in known.items():
            p = _chance(table, item, name)
            require(abs(p - 1) < 1e-9, f"{engine}: {item} is known to be {name}, with probability {p}")


def odd_data(trial: Trial) -> None:
    """An unused class, abstentions, a repeat, items without labels and gold, all at once."""
    for engine in trial.accepted("em", "vb", "gibbs", "svi") or trial.accepted():
        posterior = trial.fit(engine, trial.odd)
        _is_sound(posterior, engine)
        table = posterior.probabilities()
        require(list(table.columns) == list("abcd"), f"{engine}: the columns are {list(table.columns)}")
        require({"mute 1", "mute 2"} <= set(table.index), f"{engine}: an item without labels is missing")
        for item, name in GOLD.items():
            p = _chance(table, item, name)
            require(abs(p - 1) < 1e-9, f"{engine}: {item} is known to be {name}, with probability {p}")


def unused_abstention(trial: Trial) -> None:
    """An abstention that nobody used changes nothing."""
    offered = trial.read(trial.rows, abstentions=["?"])
    for engine in trial.accepted("em", "vb"):
        _same(trial.fit(engine), trial.fit(engine, offered), f"{engine}: an unused abstention moved")


def same_seed(trial: Trial) -> None:
    """The same seed gives the same result, to the last bit."""
    for engine in trial.accepted():
        one, two = trial.fit(engine), trial.fit(engine, trial.data)
        _same(one, two, f"{engine}: the same seed gave another result:", 0.0)
        for name, site in one.result.sites.items():
            pairs = zip(site.arrays.values(), two.result.sites[name].arrays.values(), strict=True)
            require(all(np.array_equal(a, b) for a, b in pairs), f"{engine}: the same seed gave another {name!r}")


def row_order(trial: Trial) -> None:
    """The order of rows changes nothing."""
    shuffled = trial.read(trial.rows.sample(frac=1, random_state=5))
    for engine in trial.accepted():
        _same(trial.fit(engine), trial.fit(engine, shuffled), f"{engine}: the order of rows moved")


def renaming(trial: Trial) -> None:
    """Other names, and so other codes, for items, annotators and classes change nothing under em and vb.

    Fits with Gaussian sites are left out: their random numbers go by position.
    """
    for names in _renamings(trial):
        rows = pd.DataFrame({role: [names[role].get(x, x) for x in trial.rows[role]] for role in names})
        classes = [names["label"].get(name, name) for name in "abc"]
        old = {new: old for role in ("item", "annotator") for old, new in names[role].items()}
        data = trial.read(rows, old, classes=classes if trial.kind == "ordinal" else sorted(classes))
        roles = {"item": names["item"], "annotator": names["annotator"], "class": names["label"]}
        model = trial.model if trial.renamed is None else trial.renamed(trial.model, roles)
        for engine in trial.accepted("em", "vb"):
            if any(site.family == "normal" for site in trial.fit(engine).result.sites.values()):
                continue
            found = trial.fit(engine, data, model, **SETTLED).probabilities()
            back = found.rename(index=_inverse(names["item"]), columns=_inverse(names["label"]))
            want = trial.fit(engine, **SETTLED).probabilities()
            off = float(np.abs(back.loc[want.index, list(want.columns)].to_numpy() - want.to_numpy()).max())
            role = next(role for role, new in names.items() if new)
            require(off <= TOLERANCE, f"{engine}: renaming each {role} moved a probability by {off:.3g}")


def objective_climbs(trial: Trial) -> None:
    """The objective of em and vb never falls."""
    for engine in trial.accepted("em", "vb"):
        path = np.array(trial.fit(engine).diagnostics()["objectives"])
        falls = (path[:-1] - path[1:]) / (1 + np.abs(path[1:]))
        worst = float(falls.max(initial=0))
        require(worst <= FALL, f"{engine}: the objective fell by {worst:.3g} of its size")


def history(trial: Trial) -> None:
    """An annotator's bad history lowers their accuracy, or is refused by name."""
    good, bad = np.eye(3) * 40 + 1, np.roll(np.eye(3), 1, axis=1) * 40 + 1
    names = [str(name) for name in trial.data.annotators]
    data = trial.read(trial.rows, history={name: bad if name == names[0] else good for name in names})
    card = card_of(trial.model)
    for engine in trial.deterministic:
        if card is not None and "history" not in card.uses:
            try:
                trial.fit(engine, data)
            except MethodError as error:
                require("history" in str(error), f"{engine}: refuses history, but does not name it: {error}")
                continue
            raise AssertionError(f"{engine}: history is ignored; list it in the card's uses")
        quality = trial.fit(engine, data).annotators()["accuracy"]
        require(
            quality.idxmin() == names[0], f"{engine}: {names[0]} has a bad history, but not the lowest of {quality}"
        )


def saving(trial: Trial) -> None:
    """A saved result comes back as it was, and still predicts."""
    engine = next(iter(trial.accepted("vb", "em", "svi", "gibbs", "nuts")), "")
    require(engine != "", "no engine fits the model")
    one = trial.fit(engine)
    with tempfile.TemporaryDirectory() as folder:
        one.save(folder)
        two = load(folder, model=one.model)
    _same(one, two, f"{engine}: saving moved", 0.0)
    for name, site in one.result.sites.items():
        pairs = zip(site.arrays.values(), two.result.sites[name].arrays.values(), strict=True)
        require(all(np.array_equal(a, b) for a, b in pairs), f"{engine}: site {name!r} came back different")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        rows = trial.rows.replace(regex=r"^item", value="new")
        new = Annotations.from_frame(rows, like=trial.data, **trial.covariates(rows["item"], rows["annotator"]))
        first, second = one.predict(new), two.predict(new)
    require(first.equals(second), f"{engine}: the loaded result predicts something else")
    require(bool(np.isclose(first.sum(axis=1), 1).all()), f"{engine}: predictions do not sum to one")


def _chance(table: pd.DataFrame, item: str, name: str) -> float:
    return float(table[name].loc[[item]].sum())


def _is_sound(posterior: Posterior, engine: str) -> None:
    p = posterior.probabilities().to_numpy()
    require(bool(np.isfinite(p).all() and (p >= 0).all()), f"{engine}: a probability is negative or not finite")
    off = float(np.abs(p.sum(1) - 1).max())
    require(off < 1e-9, f"{engine}: the probabilities of an item sum to 1 only within {off:.3g}")
    tables = posterior.confusion().to_numpy()
    require(bool(np.allclose(tables.sum(-1), 1, atol=1e-5)), f"{engine}: rows of a confusion do not sum to one")
    for name, site in posterior.result.sites.items():
        fine = all(bool(np.isfinite(x).all()) for x in site.arrays.values())
        require(fine, f"{engine}: site {name!r} holds numbers that are not finite")


def _same(one: Posterior, two: Posterior, message: str, tolerance: float = TOLERANCE) -> None:
    off = float(np.abs(one.result.probabilities - two.result.probabilities).max())
    require(off <= tolerance, f"{message} a probability by {off:.3g}")


def _renamings(trial: Trial) -> list[dict[str, dict[str, str]]]:
    """Names that sort the other way round, for each role alone."""
    found = []
    for role in ("item", "annotator", "label"):
        old = sorted(set(trial.rows[role]))
        new = {name: f"new {len(old) - i:03}" for i, name in enumerate(old)}
        found.append({other: new if other == role else {} for other in ("item", "annotator", "label")})
    return found


def _inverse(names: Mapping[str, str]) -> dict[Any, Any]:
    return {new: old for old, new in names.items()}
