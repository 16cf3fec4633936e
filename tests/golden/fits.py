"""Short fits of every method by every engine, and what a posterior says of itself."""

import warnings
from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from typing import Any

import crowdppl
from crowdppl import Posterior
from tests.golden.crowds import CROWDS
from tests.golden.numbers import Numbers, numbers

LEARNING = {"training": {"epochs": 3}}
"""Settings of the methods that train networks."""
OPTIONS: dict[str, dict[str, Any]] = {
    "em": {"max_iterations": 25},
    "vb": {"max_iterations": 12},
    "laplace": {"max_iterations": 12},
}
SPECIAL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "house": ("bayes_dgc", "vb", {"likelihood_power": 0.5, "crowd_prior_strength": 8.0, **LEARNING}),
    "plain": ("bayes_dgc", "vb", {"recipe": "plain", **LEARNING}),
    "mixup": ("raykar", "em", {"training": {"epochs": 3, "mixup": 0.4, "balance": 0.5, "volume": 0.1}}),
    "bootstrapped": ("raykar", "em", {"bootstrapped": True, **LEARNING}),
    "full_batch": ("global_noise", "em", {"training": {"epochs": 3, "full_batch": True}}),
    "uniform": (
        "bayesian_dawid_skene",
        "vb",
        {"prevalence": "uniform", "prior_strength": 3.0, "prior_accuracy": 0.6},
    ),
    "published": ("meta_em", "em", {"coins": False, "likelihood_power": 1.0, "steps": 3}),
}
"""Settings that defaults leave out: name -> method, engine, settings."""


@cache
def methods() -> dict[str, dict[str, Any]]:
    taken = crowdppl.zoo(engines=False)["settings"][crowdppl.registry.names_for("nominal")]
    asked = ("majority_vote",)  # which learns only where told to
    return {name: LEARNING if "training=" in text and name not in asked else {} for name, text in taken.items()}


def made(method: str, data: str, engine: str, seed: int = 0) -> Posterior:
    """A short fit; the second seed has two starts, where none trains a network."""
    settings = methods()[method]
    twice = seed and engine in ("em", "vb") and not learns(settings, data)
    options = short(settings, data, engine) | ({"restarts": 2} if twice else {})
    return crowdppl.fit(method, CROWDS[data](), inference=engine, settings=settings or None, seed=seed, **options)


fitted = cache(made)
"""The same, shared by all that ask of it."""


def short(settings: dict[str, Any], data: str, engine: str) -> dict[str, Any]:
    """Options of a short fit; where a network learns, its epochs alone say how short."""
    dropped = "max_iterations" if learns(settings, data) else None
    return {name: value for name, value in OPTIONS[engine].items() if name != dropped}


def learns(settings: dict[str, Any], data: str) -> bool:
    return data == "features" and "training" in settings


def fit(method: str, data: str, engine: str, seed: int) -> Numbers:
    more = [read] if (data, seed) == ("crowd", 0) else []
    return outcome(lambda: made(method, data, engine, seed), found, *more)


def special(name: str, data: str, seed: int) -> Numbers:
    method, engine, settings = SPECIAL[name]
    options = short(settings, data, engine)
    return outcome(
        lambda: crowdppl.fit(method, CROWDS[data](), inference=engine, settings=settings, seed=seed, **options),
        found,
    )


def outcome(make: Callable[[], Posterior], *read: Callable[[Posterior], Numbers]) -> Numbers:
    """What a fit warns of and what is read from it, or the error that refuses it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            posterior = make()
        except crowdppl.errors.CrowdpplError as error:
            return numbers(refused=type(error).__name__)
    told = {w.category.__name__ for w in caught if issubclass(w.category, crowdppl.errors.CrowdpplWarning)}
    return reduce(or_, (ask(posterior) for ask in read), numbers(told=sorted(told)))


def found(posterior: Posterior) -> Numbers:
    return numbers(
        probabilities=posterior.probabilities().to_numpy(),
        annotators=posterior.annotators(),
        confusion=posterior.confusion().to_numpy(),
        prevalence=posterior.prevalence(),
        diagnostics=posterior.diagnostics(),
    )


def read(posterior: Posterior) -> Numbers:
    rows = posterior.data.frame().iloc[:9].assign(item=[f"new {i // 3}" for i in range(9)])
    asked = {
        "predict": lambda: posterior.predict(rows),
        "entropy": posterior.entropy,
        "intervals": posterior.confusion_intervals,
        "asking": lambda: posterior.suggest_labels(6),
        "label_sets": lambda: posterior.label_sets(0.8).drop(columns="set"),
        "drawn": lambda: posterior.draw_labels(1, seed=3)["label"],
        "decisions": lambda: posterior.decide(ask_again=0.02),
    }
    return {key: array for name, ask in asked.items() for key, array in answered(name, ask).items()}


def answered(name: str, ask: Any) -> Numbers:
    """An answer, or the name of the error in its place."""
    try:
        return numbers(**{name: ask()})
    except crowdppl.errors.CrowdpplError as error:
        return numbers(**{name: type(error).__name__})
