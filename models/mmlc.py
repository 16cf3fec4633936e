"""MMLC: annotators are blends of experts who look at the items, and the truth is what a typical annotator says.

    gate[a]      shares of experts, no prior                                             (A, M)
    oracle       = the mode of all gates, expert by expert                               (M)
    truth[i]     ~ Categorical(softmax(tower(sum_m oracle[m] expert[m](features[i]))))   (N)
    label[i, a]  ~ Categorical(softmax(tower(sum_m gate[a, m] expert[m](features[i]))))

With oracle="centre" the gates scatter around a latent, and all have posteriors:

    centre       ~ Dirichlet(1)                                                          (M)
    closeness    ~ LogNormal(ln M, 1)                                                    ()
    gate[a]      ~ Dirichlet(closeness * centre)                                         (A, M)

Labels do not depend on the truth, whose probabilities are the answers of the oracle worker. Without features,
experts see the truth, which is any class evenly, and view[m, k] ~ Normal(2 on k, else 0; 1), (M, K, K), are their
logits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor, nn

import crowdppl.primitives as cp
from crowdppl import Annotations, Doubt, mean_field, networks

REASON = "experts learn together with gates, by gradients: svi"


@dataclass(frozen=True)
class Mmlc:
    """A mixture of experts in which annotators differ by their gates alone.

    Args:
        experts: maps features to what M experts see, (B, M, H); by default rectified layers. The fit trains a copy.
        n_experts: M.
        widths: of an expert's layers, H the last.
        tower: widths of the hidden layers between a blend and the logits.
        oracle: the gate of the oracle worker: the "mode", "mean" or "median" of gates, or their "centre".
        bandwidth: of the density whose mode is taken; by default Silverman's rule, expert by expert.
        training: settings of ``crowdppl.networks.training.Training`` by name, such as ``{"epochs": 60}``.
    """

    experts: nn.Module | None = None
    n_experts: cp.Count = 10
    widths: Sequence[cp.Count] = (64, 32)
    tower: Sequence[cp.Count] = (32,)
    oracle: Literal["mode", "mean", "median", "centre"] = "mode"
    bandwidth: cp.Positive | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    card: ClassVar[cp.Card] = cp.Card(
        title="MMLC",
        reference="Han et al. (2025), Mixture of experts based multi-task supervise learning from crowds, AAAI",
        doi="10.48550/arXiv.2407.13268",
        sites={"centre": "M", "closeness": "", "gate": "A M", "view": "M K K", "abstention": "A D W", "truth": "N"},
        assumes="annotators differ in how they weigh what the features show, and the typical one is right",
        fails="when nobody is typical or most err alike; probabilities are of the oracle's label, not of the class",
        cost="a step of the experts, and labels x M x H, for each batch of items",
        only=("svi",),
        because=REASON,
        uses=("features",),
    )

    def __post_init__(self) -> None:
        cp.check_settings(self)

    def setup(self, data: Annotations) -> Mmlc:
        """A copy with experts for these features."""
        sizes = (self.n_experts, self.widths, self.tower, self.training)
        return replace(self, experts=networks.experts_for(self.experts, data, *sizes))

    def model(self, data: cp.Block) -> None:
        """Draws gates, truths and labels."""
        prior, centre = torch.ones(self.n_experts), None
        if self.oracle == "centre":
            centre = pyro.sample("centre", dist.Dirichlet(prior))
            closeness = pyro.sample("closeness", dist.LogNormal(math.log(self.n_experts), 1.0))
            prior = closeness.unsqueeze(-1) * centre + 1e-6  # a concentration must not be 0
        with cp.plates.annotators(data):
            gate = pyro.sample("gate", dist.Dirichlet(prior))
        experts: Any = self.experts
        if experts is None:
            view = pyro.sample("view", dist.Normal(self._views(data), 1.0).to_event(3))
            view = view.squeeze(-4) if view.dim() > 3 else view  # of chains
            table = torch.einsum("...am,...mkl->...akl", gate, view).log_softmax(-1)
            log_p = cp.prevalence(data, "uniform")
        else:
            table, log_p = experts.labels_and_truth(data, gate, lambda: self._oracle(gate, centre))
        table = cp.with_abstentions(data, table)
        with cp.plates.items(data):
            cp.annotate(data, table, cp.truth(data, log_p))

    def guide(self, data: cp.Block) -> None:
        """Points that start from even gates; with a centre, mean field."""
        points = {}
        if self.oracle != "centre":
            points["gate"] = pyro.param("q.gate", torch.zeros(data.n_annotators, self.n_experts)).softmax(-1)
            if self.experts is None:  # experts start apart, or would stay the same
                points["view"] = pyro.param("q.view", lambda: torch.normal(self._views(data), 0.1))
        mean_field(self, data, point=self.oracle != "centre", points=points)

    def doubts(self, fit: Any) -> list[Doubt]:
        """Reasons to doubt that the crowd is one population."""
        gates = fit.result.sites["gate"].mean
        return networks.population_doubts(gates, fit.data, fit.result.probabilities)

    def classifier(self, sites: Mapping[str, Tensor]) -> nn.Module | None:
        """Features to K logits of the oracle worker, from the posterior means of sites; None without features."""
        oracle = self._oracle(sites["gate"], sites.get("centre"))
        return None if self.experts is None else networks.GatedClassifier(self.experts, oracle)

    def _views(self, data: cp.Block) -> Tensor:
        """Prior means (M, K, K) of experts who see the truth."""
        return 2 * torch.eye(data.n_classes).repeat(self.n_experts, 1, 1)

    def _oracle(self, gate: Tensor, centre: Tensor | None) -> Tensor:
        """The gate (..., M) of the oracle worker."""
        if centre is not None:
            return centre.squeeze(-2) if centre.dim() > 1 else centre
        return networks.population_centre(gate, self.oracle, self.bandwidth)
