"""Every model's density against plain loops: value, counts, posteriors and chains."""

from collections.abc import Iterator
from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from torch import Tensor

import crowdppl
from crowdppl.inference.density import Density
from crowdppl.inference.families import FAMILIES, Family, family_of
from crowdppl.primitives.model import plates_of
from tests.brute import ABSTAINING, PLAIN, TELLING, Tiny, joint

PLAINLY = [
    *("majority_vote", "multinomial", "one_coin", "class_coin", "dawid_skene", "bayesian_dawid_skene"),
    *("hierarchical_dawid_skene", "mace", "glad", "item_difficulty", "minimax_entropy", "ordinal"),
    *("mixed_membership", "hierarchical_mixed_membership", "bayes_dgc", "raykar", "ccem", "geo_crowdnet"),
    *("trace_reg", "instance_trace", "conal", "global_noise"),
]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "dawid_skene": [{"prevalence": "uniform"}],
    "meta_em": [
        {"coins": False, "likelihood_power": 1.0},
        {"coins": False, "likelihood_power": 1.0, "prevalence": "uniform", "prior_accuracy": 0.4},
    ],
    "minimax_entropy": [{"items": False, "prevalence": "learned"}],
    "community": [{"communities": 2}, {"communities": 2, "own": True}],
    "ordinal": [{"tail": "laplace", "bias": True, "cutpoints": True}],
    "dependent_clusters": [{"groups": [0, 1, 0, 2, 1]}, {"groups": [0, 0, 0, 1, 1]}, {"groups": [4, 3, 2, 1, 0]}],
    "ebcc": [{"subtypes": 2}, {"subtypes": 3, "prevalence": "uniform"}],
    "coin_net": [{"spread": 0.7}, {"form": "penalised"}],
    "madl": [{"width": 2}],
    "crowd_layer": [{"form": "MW"}, {"form": "VW"}, {"form": "VB"}, {"form": "VW+B"}],
    "mmlc": [{"n_experts": 3}, {"n_experts": 3, "oracle": "centre"}],
}
MODELS = [(name, {}) for name in PLAINLY] + [(name, x) for name, more in SETTINGS.items() for x in more]
NAMES = [name + "".join(f" {k}={v}" for k, v in settings.items()) for name, settings in MODELS]
every_model = pytest.mark.parametrize(("name", "settings"), MODELS, ids=NAMES)
ALPHABETS = {"classes": PLAIN, "abstentions": ABSTAINING, "telling": TELLING}
every_alphabet = pytest.mark.parametrize("tiny", ALPHABETS.values(), ids=ALPHABETS.keys())


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    with pyro.validation_enabled(False):
        yield
    torch.set_default_dtype(torch.float32)


def ready(name: str, settings: dict[str, Any], tiny: Tiny) -> Any:
    model: Any = crowdppl.method(name, **settings)
    return model.setup(tiny.built[1]) if hasattr(model, "setup") else model


def latents(model: Any, tiny: Tiny, seed: int) -> tuple[dict[str, Tensor], frozenset[str], dict[str, int]]:
    """A prior draw of all continuous and one-hot sites, which of them are Dirichlets, and their batch ranks."""
    torch.manual_seed(seed)
    program = poutine.enum(model.model, first_available_dim=-1 - plates_of(model))
    nodes = poutine.trace(program).get_trace(tiny.built[1]).nodes
    found = {
        n: x
        for n, x in nodes.items()
        if x["type"] == "sample" and not x["is_observed"] and x["value"].is_floating_point()
    }
    values = {n: x["value"].detach() for n, x in found.items()}
    dirichlets = frozenset(n for n, x in found.items() if family_of(x["fn"]) is FAMILIES["dirichlet"])
    for n in dirichlets | ({"community"} & values.keys()):  # no rounding to 0; expected one-hot vectors
        values[n] = 0.7 * values[n] + 0.3 / values[n].shape[-1]
    return values, dirichlets, {n: len(x["fn"].batch_shape) for n, x in found.items()}


def logged(names: frozenset[str]) -> dict[str, Family]:
    """The family of sites that are given as logarithms."""
    return dict.fromkeys(names, FAMILIES["dirichlet"])


def leaves(values: dict[str, Tensor], logs: frozenset[str]) -> dict[str, Tensor]:
    return {n: (x.log() if n in logs else x.clone()).requires_grad_() for n, x in values.items()}


def brute_gradient(
    name: str, model: Any, values: dict[str, Tensor], logs: frozenset[str], tiny: Tiny, weight: Tensor | float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    at = leaves(values, logs)
    plain = {n: x.exp() if n in logs else x for n, x in at.items()}
    both = joint(name, model, plain, tiny) * weight
    gradient = torch.autograd.grad(both.sum(-1).log().sum(), list(at.values()), allow_unused=True)
    pairs = zip(at.items(), gradient, strict=True)
    return both.detach(), {n: torch.zeros_like(x) if g is None else g for (n, x), g in pairs}


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@every_model
@every_alphabet
def test_value_counts_and_posterior_equal_a_plain_sum(name: str, settings: dict[str, Any], tiny: Tiny) -> None:
    model = ready(name, settings, tiny)
    values, logs, _ = latents(model, tiny, 1)
    both, gradient = brute_gradient(name, model, values, logs, tiny)
    density = Density(model.model, plates_of(model), families=logged(logs))
    found = density(tiny.built[1], leaves(values, logs), gradient=list(values), marginals=("truth",))
    close(found.per_item, both.sum(-1).log())
    close(found.objective, both.sum(-1).log().sum())
    close(found.marginals["truth"].t(), both / both.sum(-1, keepdim=True))
    for site in values:
        close(found.gradient[site], gradient[site])


@every_model
def test_a_tilt_weighs_the_truths_of_a_plain_sum(name: str, settings: dict[str, Any]) -> None:
    model = ready(name, settings, PLAIN)
    values, logs, _ = latents(model, PLAIN, 1)
    block = PLAIN.built[1]
    tilt = 3 * torch.randn(block.n_classes, block.n_items)
    both, gradient = brute_gradient(name, model, values, logs, PLAIN, tilt.exp().t())
    density = Density(model.model, plates_of(model), families=logged(logs))
    found = density(block, leaves(values, logs), gradient=list(values), tilt={"truth": tilt})
    close(found.per_item, both.sum(-1).log())
    for site in values:
        close(found.gradient[site], gradient[site])


@every_model
def test_two_chains_equal_two_runs(name: str, settings: dict[str, Any]) -> None:
    tiny = TELLING
    model = ready(name, settings, tiny)
    draws = [latents(model, tiny, seed) for seed in (1, 2)]
    _, logs, ranks = draws[0]
    plates = plates_of(model)
    wide = {}
    for site, rank in ranks.items():
        x = torch.stack([leaves(values, logs)[site].detach() for values, _, _ in draws])
        wide[site] = x.reshape(x.shape[:1] + (1,) * (plates - rank) + x.shape[1:])
    density = Density(model.model, plates, 2, logged(logs))
    found = density(tiny.built[1], wide, gradient=list(wide), marginals=("truth",))
    for c, (values, _, _) in enumerate(draws):
        both, gradient = brute_gradient(name, model, values, logs, tiny)
        close(found.objective[c], both.sum(-1).log().sum())
        close(found.per_item[c], both.sum(-1).log())
        close(found.marginals["truth"][:, c].t(), both / both.sum(-1, keepdim=True))
        for site in wide:
            close(found.gradient[site][c].reshape(values[site].shape), gradient[site])
        single = Density(model.model, plates).sites(tiny.built[1], values)
        for site, x in wide.items():  # priors too: a chain must not see another chain's parameters
            value = x.exp() if site in logs else x
            prior = found.sites[site].fn.log_prob(value)
            own = single[site].fn.log_prob(values[site])
            close(prior[c].reshape(own.shape), own)


def test_shares_of_a_named_sum_are_those_of_single_labels() -> None:
    model = crowdppl.method("mace")
    values, logs, _ = latents(model, PLAIN, 5)
    both, _ = brute_gradient("mace", model, values, logs, PLAIN)
    density = Density(model.model, families=logged(logs))
    found = density(PLAIN.built[1], leaves(values, logs), marginals=("knows",))
    knew = torch.zeros(5, 3)
    for i in range(PLAIN.n_items):
        posterior = both[i] / both[i].sum()
        for a, label in PLAIN.at(i):
            knows, guesses = values["competence"][a]
            chance = knows / (knows + guesses * values["guess"][a, label])
            knew[a, label] += posterior[label] * chance
    close(found.marginals["knows"][..., 0], knew)


@every_model
def test_the_truth_is_that_of_the_labels_where_abstentions_are_ignorable(
    name: str, settings: dict[str, Any]
) -> None:
    model = ready(name, settings, PLAIN)
    values, logs, _ = latents(model, ABSTAINING, 6)
    plain, ignored, told = (
        Density(model.model, plates_of(model), families=logged(logs))(
            t.built[1], leaves(at, logs), marginals=("truth",)
        )
        for t, at in (
            (PLAIN, {n: x for n, x in values.items() if n != "abstention"}),
            (ABSTAINING, values),
            (TELLING, {**values, "abstention": latents(model, TELLING, 6)[0]["abstention"]}),
        )
    )
    close(ignored.marginals["truth"], plain.marginals["truth"])
    if name != "majority_vote":  # in which an abstention never tells anything
        assert not torch.allclose(told.marginals["truth"], plain.marginals["truth"], rtol=1e-3, atol=0)


def test_abstentions_that_nobody_uses_change_nothing() -> None:
    offered = Tiny(PLAIN.labels, 4, 5, 3, 4, PLAIN.gold, (False,) * 5)
    for name, settings in MODELS:
        model = ready(name, settings, PLAIN)
        values, logs, _ = latents(model, PLAIN, 6)
        more, _, _ = latents(model, offered, 6)
        one, two = (
            Density(model.model, plates_of(model), families=logged(logs))(
                t.built[1], leaves({**more, **values} if t is offered else values, logs), marginals=("truth",)
            )
            for t in (PLAIN, offered)
        )
        close(one.per_item, two.per_item)
        close(one.marginals["truth"], two.marginals["truth"])
