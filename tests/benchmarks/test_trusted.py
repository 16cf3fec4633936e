"""One trusted annotator against colluders, beside majority vote and methods that are robust to colluders."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from crowdppl import baselines
from crowdppl.data.annotations import Annotations
from crowdppl.fitting import fit
from tests.benchmarks.results import TRUSTED, Recorder
from tests.benchmarks.tables import markdown
from tests.evaluation.test_trusted import crowd

SEEDS, SHARES, COLLUDERS = range(5), (0.05, 0.1, 0.2), 6
METHODS = {"dawid_skene": "em", "bayesian_dawid_skene": "vb", "one_coin": "vb"}
ABOUT = (
    f"Simulated: 300 items of 3 classes; 10 annotators, of whom {COLLUDERS} copy answers drawn at random (in the "
    "last columns nobody does) and the others are right in 60 to 90 % of labels; one more is always right, and "
    f"labels a share of the items. Accuracy in per cent on the other items, mean of {len(SEEDS)} crowds, and its "
    "error. gold: that annotator's labels are known truths; trusted: `fit(..., trusted=)`."
)


def test_trusted(recorder: Recorder) -> None:
    crowds = [(share, n) for n in (COLLUDERS, 0) for share in SHARES]
    columns = [[found(*crowd(10 - n, n, share, seed)) for seed in SEEDS] for share, n in crowds]
    rows = []
    for how in columns[0][0]:
        each = [100 * np.array([x[how] for x in column]) for column in columns]
        rows.append([how, *(f"{x.mean():.1f} ± {x.std(ddof=1) / np.sqrt(len(x)):.1f}" for x in each)])
    head = ("what", *(f"{share:.0%}{', all honest' * (n == 0)}" for share, n in crowds))
    recorder.add(TRUSTED, f"{ABOUT}\n\n{markdown(head, rows)}")


def found(data: Annotations, truth: pd.Series) -> dict[str, float]:
    """Accuracies by what was done."""
    gold = data.frame().query("annotator == 'trusted'").set_index("item")["label"]
    rest = truth.drop(gold.index)
    hows: dict[str, Callable[[], pd.DataFrame]] = {
        "majority vote": lambda: fit("majority_vote", data, inference="em").labels(),
        "mmsr": lambda: baselines.mmsr(data).labels(),
    }
    for method, engine in METHODS.items():
        for how, given in {"": {}, ", gold": {"gold": gold}, ", trusted": {"trusted": ["trusted"]}}.items():
            hows[f"{method}{how}"] = lambda m=method, e=engine, g=given: fit(m, data, inference=e, **g).labels()
    return {how: float((make()["label"][rest.index] == rest).mean()) for how, make in hows.items()}
