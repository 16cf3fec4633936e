"""Three lines for each method, and what they print: outputs.json, which `make pages` writes anew."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import crowdppl
from crowdppl.data.kinds import KINDS
from crowdppl.primitives.model import Card

PATH = Path(__file__).with_name("outputs.json")
FEATURES = """\
import sklearn.datasets

iris = sklearn.datasets.load_iris()
crowd = crowdppl.simulate_annotators(iris.target, {"hammer": 3, "spammer": 1}, features=iris.data, seed=0)
data = crowd.data"""
DATA = {
    "drifting_coin": """\
rows = crowdppl.anaesthetists().frame().assign(time=[n // 80 for n in range(315)])
data = crowdppl.Annotations.from_frame(rows, label_covariates=["time"])""",
    "attribute_dawid_skene": """\
import pandas as pd

groups = pd.DataFrame({"group": [n % 2 for n in range(45)]}, index=range(1, 46))
data = crowdppl.Annotations.from_frame(crowdppl.anaesthetists().frame(), item_covariates=groups)""",
    "potts_dawid_skene": """\
neighbours = [(n, n + 1) for n in range(1, 45)]
data = crowdppl.Annotations.from_frame(crowdppl.anaesthetists().frame(), edges=neighbours)""",
    "meta_em": "data = crowdppl.anaesthetists()",
}
"""The data of methods that read more than labels; of those of features, ``FEATURES``."""
COLUMNS = {
    "labels": ["label", "probability"],
    "truth": ["estimate", "low", "high"],
    "ranking": ["rank", "score", "low", "high"],
    "fair_averages": ["estimate", "low", "high"],
}
"""Columns of a table that are shown; all of others."""
ENGINES = {"robust_annotators": "em"}
"""Engines where vb is slow."""


def code(name: str, card: Card, engines: Mapping[str, str]) -> str:
    """Code that fits a method to small data, and shows the first rows of what it finds."""
    kind = KINDS[card.kind]
    if name in DATA:
        data = DATA[name]
    elif "features" in card.uses and card.kind == "nominal":
        data = FEATURES
    elif kind.example is None:
        data = f"data = crowdppl.anaesthetists({'' if card.kind == 'nominal' else f'kind={card.kind!r}'})".replace(
            "'", '"'
        )
    else:
        data = f'data = crowdppl.datasets.example("{card.kind}")'
    able = [engine for engine, what in engines.items() if not what.startswith("refused")]
    engine = ENGINES.get(name) or next(iter([*(x for x in ("vb", "em", "gibbs") if x in able), *able]))
    learns = FEATURES in data and engine == "svi"
    method = f'crowdppl.method("{name}", training={{"epochs": 20}})' if learns else f'"{name}"'
    table = (
        kind.table
        if kind.table and (card.scale or kind.table != "fair_averages")
        else "truth"
        if kind.numeric
        else "labels"
    )
    shown = f"[{json.dumps(COLUMNS[table])}]" if table in COLUMNS else ""
    return (
        f'{data}\nposterior = crowdppl.fit({method}, data, inference="{engine}", seed=0)\n'
        f"posterior.{table}(){shown}.head(3).round(2)"
    )


def printed(text: str) -> str:
    """What the last line of code shows."""
    *lines, last = text.split("\n")
    known: dict[str, Any] = {"crowdppl": crowdppl}
    with (
        warnings.catch_warnings(action="ignore"),
        pd.option_context("display.width", 100, "display.max_columns", 8),
    ):
        exec("\n".join(lines), known)
        return "\n".join(line.rstrip() for line in str(eval(last, known)).splitlines())


@cache
def outputs() -> dict[str, str]:
    """What is kept in outputs.json, by method."""
    found: dict[str, str] = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    return found


def write(codes: Mapping[str, str]) -> None:
    """Runs all code anew, and keeps what it prints."""
    PATH.write_text(
        json.dumps({name: printed(text) for name, text in codes.items()}, indent=1) + "\n", encoding="utf-8"
    )
    outputs.cache_clear()
