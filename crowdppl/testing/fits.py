"""Checks of fits, by every engine that accepts the model."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from crowdppl.data.annotations import Annotations
from crowdppl.data.kinds.parts import SEPARATOR
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.inference.problem import with_network_outputs
from crowdppl.networks.outputs import networks_of
from crowdppl.networks.training import VOLUMES, training_of
from crowdppl.posterior import Posterior, load
from crowdppl.primitives.model import card_of, set_up
from crowdppl.simulation.crowd import simulate
from crowdppl.testing.fixtures import Trial, on_a_scale, require, reversed_names
from crowdppl.testing.models import same_chains, same_density

TOLERANCE = 1e-6
FALL = 1e-9
SETTLED: dict[str, Any] = {"tolerance": 1e-12, "max_iterations": 100}
"""For comparisons at 1e-6: where a looser fit stops depends on rounding."""
EPOCHS = {"epochs": 3, "warm_up": 0, "patience": 0}
"""A very short training."""


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
        _is_sound(trial, posterior, engine)

    return check


def intervals_of_annotators(trial: Trial) -> None:
    """What a fit tells of annotators has intervals, unless its numbers are points or not known."""
    for engine in trial.accepted():
        posterior = trial.fit(engine)
        if all(site.family in ("point", "onehot") for site in posterior.result.sites.values()):
            continue
        table = posterior.annotators()
        ends = {x: x.rpartition("_")[0] for x in table.columns if x.endswith(("_low", "_high"))}
        unknown = [end for end, x in ends.items() if table.loc[table[x].notna(), end].isna().any()]
        require(not unknown, f"{engine}: annotators() has no numbers in some rows of {', '.join(unknown)}")


def probabilities(trial: Trial) -> None:
    """Probabilities are in the rows of their items and the columns of their classes."""
    for engine in trial.accepted():
        table = trial.truths(trial.fit(engine))
        require(table.index.equals(trial.data.items), f"{engine}: the rows are {list(table.index)}")
        require(table.columns.equals(trial.data.classes), f"{engine}: the columns are {list(table.columns)}")
    for engine in trial.quickest:
        found = trial.truths(trial.other_fit(engine, trial.read(trial.clear))).idxmax(axis=1)
        said = trial.clear.groupby("item")["label"].first()
        wrong = [item for item in found.index if found[item] != said[item]]
        require(not wrong, f"{engine}: the posterior of {wrong} contradicts all annotators")


def numbers(trial: Trial) -> None:
    """Estimates are in the rows of their items, and those of items on which all agree are what they say."""
    for engine in trial.accepted():
        table = trial.truths(trial.fit(engine))
        require(table.index.equals(trial.data.items), f"{engine}: the rows are {list(table.index)}")
    graded = on_a_scale(trial.model) or trial.of_ranks
    said = trial.clear.groupby("item")["label"].first()
    for engine in trial.quickest:
        found = trial.other_fit(engine, trial.read(trial.clear)).truth()["estimate"]
        if graded:
            ends = found.groupby(said).agg(["min", "max"])
            require(
                bool((ends["min"][1:].array > ends["max"][:-1].array).all()),
                f"{engine}: places of items on which all agree are not in the order of their labels: {ends}",
            )
            continue
        off = float(np.abs(number_space(trial.kind.space).error(found.to_numpy(), said.to_numpy())).max())
        require(off < 1, f"{engine}: an estimate is {off:.3g} from where all annotators are, within a hundredth")


def gold(trial: Trial) -> None:
    """A known truth has probability one, with labels or without."""
    for engine in trial.accepted("em", "vb", "gibbs") or trial.accepted():
        table = trial.truths(trial.fit_odd(engine))
        for item, name in trial.gold.items():
            p = float(table[name].loc[[item]].sum())
            require(abs(p - 1) < 1e-9, f"{engine}: {item} is known to be {name}, with probability {p}")


def odd_data(trial: Trial) -> None:
    """A repeat and items without labels; where labels are classes, with an unused one, abstentions and gold."""
    for engine in trial.accepted("em", "vb", "gibbs", "svi") or trial.accepted():
        posterior = trial.fit_odd(engine)
        _is_sound(trial, posterior, engine)
        require({*trial.mute} <= set(trial.truths(posterior).index), f"{engine}: an item without labels is missing")


def unused_abstention(trial: Trial) -> None:
    """An abstention that nobody used changes nothing."""
    offered = trial.read(trial.rows, abstentions=["?"])
    for engine in trial.accepted("em", "vb"):
        one, two = trial.fit(engine), trial.other_fit(engine, offered)
        off = _largest(_not_drawn(trial, one), _not_drawn(trial, two))
        require(off <= TOLERANCE, f"{engine}: an unused abstention moved a probability by {off:.3g}")


def same_seed(trial: Trial) -> None:
    """A seed and labels, in any order of rows, give one result to the last bit."""
    shuffled = trial.read(trial.rows.sample(frac=1, random_state=5))
    for engine in trial.accepted():
        again = trial.other_fit(engine, shuffled)
        _are_equal(trial, trial.fit(engine), again, f"{engine}: the same seed gave, for the rows in another order,")


def renaming(trial: Trial) -> None:
    """Other names, and so other codes, for items, annotators and classes change nothing under em and vb.

    Fits with Gaussian sites are left out, and of truths that are linked: their random numbers go by position.
    """
    if trial.data.edges is not None:
        return
    given = trial.answers.get("classes")
    new = {"item": trial.renamed_items(), "annotator": reversed_names(trial.rows["annotator"])}
    new |= {} if given is None else {"label": trial.renamed_classes()}
    rows = trial.rows.assign(**{role: trial.rows[role].map(names) for role, names in new.items()})
    classes = [] if given is None else [new["label"][name] for name in given]
    old = {role: {after: before for before, after in names.items()} for role, names in new.items()}
    named: dict[str, Any] = {"classes": classes if trial.kind.space.ordered else sorted(classes)} if classes else {}
    data = trial.read(rows, old, **named)
    roles = {"item": new["item"], "annotator": new["annotator"], "class": new.get("label", {})}
    model = trial.model if trial.renamed is None else trial.renamed(trial.model, roles)
    for engine in trial.accepted("em", "vb"):
        if any(site.family == "normal" for site in trial.fit(engine).result.sites.values()):
            continue
        want = _not_drawn(trial, trial.other_fit(engine, trial.data, **SETTLED))
        found = _not_drawn(trial, trial.other_fit(engine, data, model, **SETTLED))
        back = found.loc[want.index.map(new["item"]), [roles["class"].get(name, name) for name in want.columns]]
        off = _largest(want, back)
        message = f"{engine}: renaming every item, annotator and label moved a truth by {off:.3g}"
        require(off <= TOLERANCE, message)


def objective_climbs(trial: Trial) -> None:
    """The objective of em and vb never falls."""
    for engine in trial.accepted("em", "vb"):
        path = np.array(trial.fit(engine).diagnostics()["objectives"])
        falls = (path[:-1] - path[1:]) / (1 + np.abs(path[1:]))
        worst = float(falls.max(initial=0))
        require(worst <= FALL, f"{engine}: the objective fell by {worst:.3g} of its size")


def history(trial: Trial) -> None:
    """An annotator's bad history lowers their accuracy, or is refused by name."""
    same = np.eye(len(trial.letters))
    good, bad = same * 40 + 1, np.roll(same, 1, axis=1) * 40 + 1
    first, *others = (str(name) for name in trial.data.annotators)
    data = trial.read(trial.rows, history={first: bad, **dict.fromkeys(others, good)})
    card = card_of(trial.model)
    for engine in trial.quickest:
        if card is not None and "history" not in card.uses:
            try:
                trial.other_fit(engine, data)
            except MethodError as error:
                require("history" in str(error), f"{engine}: refuses history, but does not name it: {error}")
                continue
            raise AssertionError(f"{engine}: history is ignored; list it in the card's uses")
        quality = trial.other_fit(engine, data).annotators()["accuracy"]
        require(quality.idxmin() == first, f"{engine}: {first} has a bad history, but not the lowest of {quality}")


def saving(trial: Trial) -> None:
    """A saved result comes back as it was, and still predicts."""
    engine = next(iter(trial.accepted("vb", "em", "svi", "gibbs", "nuts")), "")
    require(engine != "", "no engine fits the model")
    one = trial.fit(engine)
    two = _saved_and_loaded(one)
    _are_equal(trial, one, two, f"{engine}: saving gave")
    with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):
        rows = trial.with_numbers(trial.rows.replace(regex=r"^item", value="new"))
        new = Annotations.from_frame(
            rows,
            "item",
            like=trial.data,
            **trial.covariates(rows["item"], rows["annotator"]),
            **trial.edges(rows["item"]),
        )
        first, second = one.predict(new), two.predict(new)
    require(first.equals(second), f"{engine}: the loaded result predicts something else")
    whole = trial.of_numbers or bool(np.isclose(first.sum(axis=1), 1).all())
    require(whole, f"{engine}: predictions do not sum to one")


def network_sees_features(trial: Trial) -> None:
    """With features, which the other checks lack: density, chains, simulation, order of rows and saving."""
    data = _with_features(trial, trial.rows)
    try:
        model = set_up(trial.model, data)
    except MethodError as error:
        require("features" in str(error), f"refuses features, but does not name them: {error}")
        return
    if not networks_of(model):
        return
    block = with_network_outputs(model, data, data.on("cpu", torch.float64))[0]
    same_density(model, block)
    same_chains(model, block)
    design = trial.design(trial.rows["item"], trial.rows["annotator"], features=data.features)
    drawn = simulate(model, design, seed=3).truth
    require(drawn.equals(simulate(model, design, seed=3).truth), "with features, the same seed drew other truths")
    _trains(trial, data)


def _trains(trial: Trial, data: Annotations) -> None:
    """A short training does not depend on the order of rows, and can be saved."""
    with_settings: Any = replace
    model, engine = trial.model, trial.quickest[0]
    if is_dataclass(model) and hasattr(model, "training"):
        given = model.training
        volume = {"volume": VOLUMES[0]} if training_of(given).volume == "auto" else {}  # no trials of volumes
        model = with_settings(model, training={**given, **EPOCHS, **volume})
    shuffled = _with_features(trial, trial.rows.sample(frac=1, random_state=5))
    one, two = (trial.other_fit(engine, some, model, max_iterations=None) for some in (data, shuffled))
    off = _largest(trial.truths(one), trial.truths(two))
    require(off <= TOLERANCE, f"{engine}: with features, the order of rows moved a probability by {off:.3g}")
    _are_equal(trial, one, _saved_and_loaded(one), f"{engine}: with features, saving gave")


def _with_features(trial: Trial, rows: pd.DataFrame) -> Annotations:
    parts = trial.kind.parts
    of_objects = parts is not None and parts.shared
    ids = sorted(
        {part for item in trial.rows["item"] for part in (item.split(SEPARATOR) if of_objects else [item])}
    )
    features = np.random.default_rng(3).normal(size=(len(ids), 3))
    return trial.read(rows, features=pd.DataFrame(features, index=ids, columns=list("xyz")))


def _saved_and_loaded(posterior: Posterior) -> Posterior:
    with tempfile.TemporaryDirectory() as folder:
        posterior.save(folder)
        return load(folder, model=posterior.model)


def _not_drawn(trial: Trial, posterior: Posterior) -> pd.DataFrame:
    """What a fit says of truths, but for standard deviations by draws, which another order of names changes."""
    found = trial.truths(posterior)
    drawn = trial.of_numbers and any(site.drawn() is not None for site in posterior.result.sites.values())
    return found[["estimate"]] if drawn else found


def _is_sound(trial: Trial, posterior: Posterior, engine: str) -> None:
    found = trial.truths(posterior).to_numpy()
    require(bool(np.isfinite(found).all()), f"{engine}: what it says of a truth is not finite")
    if not trial.of_numbers:
        require(bool((found >= 0).all()), f"{engine}: a probability is negative")
        columns = list(posterior.probabilities().columns)
        require(columns == list(posterior.data.classes), f"{engine}: the columns are {columns}")
        off = _largest(found.sum(1), np.ones(len(found)))
        require(off < 1e-9, f"{engine}: the probabilities of an item sum to 1 only within {off:.3g}")
        tables = posterior.confusion().to_numpy()
        require(bool(np.allclose(tables.sum(-1), 1, atol=1e-5)), f"{engine}: rows of a confusion do not sum to one")
    for name, site in posterior.result.sites.items():
        fine = all(bool(np.isfinite(x).all()) for x in site.arrays.values())
        require(fine, f"{engine}: site {name!r} holds numbers that are not finite")


def _are_equal(trial: Trial, one: Posterior, two: Posterior, message: str) -> None:
    """Whether truths and sites are equal to the last bit."""
    require(trial.truths(one).equals(trial.truths(two)), f"{message} other truths")
    for name, site in one.result.sites.items():
        pairs = zip(site.arrays.values(), two.result.sites[name].arrays.values(), strict=True)
        require(all(np.array_equal(a, b) for a, b in pairs), f"{message} another {name!r}")


def _largest(one: pd.DataFrame | np.ndarray, two: pd.DataFrame | np.ndarray) -> float:
    """The largest absolute difference, place by place."""
    return float(np.abs(np.asarray(one) - np.asarray(two)).max())
