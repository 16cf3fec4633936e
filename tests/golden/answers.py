"""Everything else that can be asked: of data, of a posterior, of methods side by side."""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import crowdppl
from tests.golden.crowds import anaesthetists, crowd, truth
from tests.golden.fits import OPTIONS, fitted
from tests.golden.numbers import Numbers, numbers

KINDS = ("expert", "hammer", "hammer_spammer", "spammer", "adversary", "malicious", "pairwise_flipper", "colluders")


def one() -> crowdppl.Posterior:
    return fitted("bayesian_dawid_skene", "crowd", "vb")


def evaluation() -> Numbers:
    found = crowdppl.evaluate(one(), truth(30, 1).iloc[4:], bootstrap=50, seed=1)
    return numbers(scores=dict(found), intervals=found.intervals(), bins=found.bins, risk=found.risk_coverage)


def comparison() -> Numbers:
    names = ["one_coin", "majority_vote", "glad"]
    found = crowdppl.compare(names, anaesthetists(), folds=3, inference="em", seed=0, **OPTIONS["em"])
    fits = {name: fitted(name, "anaesthetists", "em") for name in names}
    rivals = crowdppl.compare_to_default(found.scores, default="one_coin")
    return numbers(table=found.table, stacked=found.probabilities(fits), rivals=rivals)


def heldout(method: str, engine: str, **how: Any) -> Numbers:
    found = crowdppl.heldout_score(method, crowd(), folds=2, inference=engine, seed=0, **OPTIONS[engine], **how)
    return numbers(labels=found.labels["log_p"], items=found.items, left_in=found.left_in)


def automatic(known: bool) -> Numbers:
    gold = truth(30, 1).iloc[:12] if known else None
    found = crowdppl.fit("auto", crowd(), gold=gold, seed=0)
    members = {name: fit.probabilities().to_numpy() for name, fit in found.members().items()}
    own = found.uncorrected().probabilities()
    return numbers(probabilities=found.probabilities(), own=own, **members, annotators=found.annotators())


def calibrated() -> Numbers:
    found = crowdppl.fit("dawid_skene", crowd(), inference="em", calibrate=True, seed=0, **OPTIONS["em"])
    return numbers(probabilities=found.probabilities(), own=found.uncorrected().probabilities())


def updated() -> Numbers:
    rows = crowd().frame().iloc[:12].assign(item=[f"new {i // 3}" for i in range(12)])
    found, fewer = one().update(rows), one().without(["annotator 0", "annotator 1"])
    both = {"updated": found, "without": fewer}
    return numbers(
        probabilities={name: fit.probabilities() for name, fit in both.items()},
        annotators={name: fit.annotators() for name, fit in both.items()},
    )


def left_out() -> Numbers:
    units = {unit: one().leave_one_out(unit) for unit in ("label", "item")}
    return numbers(**{unit: {"values": x.values, "mean": x.mean, "se": x.se} for unit, x in units.items()})


def saved() -> Numbers:
    with TemporaryDirectory() as folder:
        one().save(f"{folder}/result")
        found = crowdppl.load(f"{folder}/result")
    return numbers(probabilities=found.probabilities(), annotators=found.annotators(), entropy=found.entropy())


def criticism() -> Numbers:
    check = crowdppl.predictive_check(one(), draws=30, seed=1)
    doubts = [type(doubt).__name__ for doubt in one().doubts(thorough=True)]
    suspects = crowdppl.suspicious_annotators(one())
    spammers = crowdppl.covariance_spammers(crowd())
    return numbers(check=check.table, p=check.p_value, suspects=suspects, spammers=spammers, doubts=doubts)


def agreement() -> Numbers:
    table = crowdppl.agreement_table(anaesthetists(), bootstrap=40, seed=1)
    pairs, groups = crowdppl.agreement_pairs(crowd()), crowdppl.find_groups(crowd())
    summary = {name: part for name, part in crowd().summary().items() if name != "columns"}  # names, no numbers
    return numbers(table=table, pairs=pairs, groups=groups, votes=crowd().votes(), summary=summary)


def decisions() -> Numbers:
    cost = np.array([[0, 1, 1, 1], [3, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]])
    gold = truth(30, 1).iloc[4:24]
    sets = {"credible": one().label_sets(0.7), "conformal": one().label_sets(0.7, gold=gold, seed=1)}
    asking = one().suggest_labels(8, per_item=2, per_annotator=3, exclude_answered=False)
    return numbers(decided=one().decide(cost, ask_again=0.1), sets=sets, asking=asking, truth=one().truth(0.9))


def filled() -> Numbers:
    return numbers(vb=crowdppl.fill(one(), draws=3).frame())


def simulated(method: str) -> Numbers:
    found = crowdppl.simulate(method, crowdppl.random_design(12, 4, 2, ["n", "y"], seed=2), seed=3)
    return numbers(labels=found.data.frame()["label"], truth=found.truth, parameters=found.parameters)


def annotators() -> Numbers:
    found = crowdppl.simulate_annotators([0, 1, 2] * 8, dict.fromkeys(KINDS, 1), seed=4)
    return numbers(frame=found.data.frame(), confusion=found.confusion, accuracy=found.annotators["accuracy"])


def exported() -> Numbers:
    groups = one().to_arviz(60, seed=1)["posterior"]
    arrays = {
        str(name): np.asarray(groups[name], float) for name in groups.data_vars if groups[name].dtype.kind in "fi"
    }
    return numbers(**{name: [x.mean(), x.std(), x.ravel()[0], *x.shape] for name, x in arrays.items()})


def kept() -> Numbers:
    tried: dict[str, dict[str, Any]] = {
        "batches": {"inference": "vb", "batch_size": 10},
        "gold": {"inference": "vb", "gold": truth(30, 1).iloc[:15]},
        "start": {"inference": "em", "start": {}},
    }
    return numbers(
        **{
            name: crowdppl.fit("one_coin", crowd(), seed=0, **OPTIONS[how["inference"]], **how).probabilities()
            for name, how in tried.items()
        }
    )
