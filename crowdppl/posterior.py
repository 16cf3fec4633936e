"""The posterior that a user holds after a fit: tables, decisions, doubts, plots and files, as methods."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import pandas as pd

from crowdppl.core.validation import require_path
from crowdppl.criticism import doubts as doubting
from crowdppl.criticism.doubts import Doubt
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ResultError
from crowdppl.evaluation import calibration
from crowdppl.inference.result import Fit
from crowdppl.plots import annotators as annotator_plots
from crowdppl.plots import evaluation as evaluation_plots
from crowdppl.plots import posterior as posterior_plots
from crowdppl.plots.posterior import BINS
from crowdppl.primitives.model import Model
from crowdppl.results import (
    acquisition,
    archive,
    arviz,
    correction,
    decisions,
    grouping,
    rankings,
    tables,
    updating,
)
from crowdppl.results import leave_one_out as leaving_out
from crowdppl.results.decisions import Cost
from crowdppl.results.grouping import Criterion
from crowdppl.results.leave_one_out import LeaveOneOut

if TYPE_CHECKING:
    import pyarrow as pa
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Fit):
    """The posterior of a model given annotations.

    Each method calls the function that its docstring names, by module (of ``crowdppl.results`` where no package is
    named), which describes arguments, errors and examples. Nothing changes a posterior; methods that fit again
    return another one.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
        >>> posterior.model
        OneCoin(prevalence='uniform', right=1.0, wrong=1.0)
    """

    _doubts: list[tuple[Doubt, ...]] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, fit: Fit) -> Self:
        """The posterior of a fit."""
        return cls(**{part.name: getattr(fit, part.name) for part in fields(Fit)})

    def diagnostics(self) -> dict[str, Any]:
        """How the fit went: converged, iterations, objective, restarts, R-hat, ESS, divergences, warnings.

        Where vb went on with more base draws, ``objectives`` are those of the last part, and ``iterations`` counts
        all. ``restarts`` of em, vb and svi holds the result of each start, best first; an objective of svi is the
        mean of its last tenth.

        Examples:
            >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.diagnostics()["converged"]
            True
        """
        return deepcopy(self.result.diagnostics)

    def summary(self) -> str:
        """The method, the data, how the fit went, doubts, the best and worst annotators (``tables.summarise``)."""
        return tables.summarise(self, self.doubts())

    def probabilities(self, sd: bool = False) -> pd.DataFrame:
        """Probability of each class for each item (``tables.probabilities``)."""
        return tables.probabilities(self, sd)

    def labels(self) -> pd.DataFrame:
        """The most probable class of each item and how sure it is (``tables.labels``)."""
        return tables.labels(self)

    def spans(self, minimum: float = 0.5) -> pd.DataFrame:
        """The spans of each sequence, such as the names in a sentence, and how sure each is (``grouping.spans``)."""
        return grouping.spans(self, minimum)

    def to_arrow(self) -> pa.Table:
        """Labels of the items, with the probability of every class, as a table of Arrow (``tables.to_arrow``)."""
        return tables.to_arrow(self)

    def truth(self, level: float = 0.95) -> pd.DataFrame:
        """Estimate, standard deviation and interval of each item's truth, class or number (``tables.truth``)."""
        return tables.truth(self, level)

    def ranking(self, level: float = 0.95, features: Any = None) -> pd.DataFrame:
        """Compared objects, or others by their features, the best first, with intervals (``rankings.ranking``)."""
        return rankings.ranking(self, level, features)

    def order_probabilities(self) -> pd.DataFrame:
        """How probable it is that one object is better than another (``rankings.order_probabilities``)."""
        return rankings.order_probabilities(self)

    def comparisons(self) -> pd.DataFrame:
        """What is probably preferred in each comparison, and how surely (``rankings.comparisons``)."""
        return rankings.comparisons(self)

    def fair_averages(self, level: float = 0.95) -> pd.DataFrame:
        """The grade that each item would get from an average rater, with intervals (``tables.fair_averages``)."""
        return tables.fair_averages(self, level)

    def separation(self) -> float:
        """How reliably items are told apart, where truths are numbers (``tables.separation``)."""
        return tables.separation(self)

    def entropy(self) -> pd.DataFrame:
        """Entropy of the truth of each item, aleatoric and epistemic (``tables.entropy``)."""
        return tables.entropy(self)

    def annotators(self, level: float = 0.95) -> pd.DataFrame:
        """How accurate and informative each annotator is, with intervals (``tables.annotators``)."""
        return tables.annotators(self, level)

    def confusion(self, draws: bool = False, *, at: Mapping[Hashable, float] | None = None) -> xr.DataArray:
        """p(label | annotator, truth): array (annotator, truth, label), or draws of it (``tables.confusion``)."""
        return tables.confusion(self, draws, at=at)

    def confusion_intervals(self, level: float = 0.95) -> pd.DataFrame:
        """Confusion by (annotator, truth, label), with mean, sd, low and high (``tables.confusion_intervals``)."""
        return tables.confusion_intervals(self, level)

    def prevalence(self, level: float = 0.95) -> pd.DataFrame:
        """Share of each class among items, with mean, sd, low and high (``tables.prevalence``)."""
        return tables.prevalence(self, level)

    def site(self, name: str, draws: bool = False, *, widened: bool = True) -> xr.DataArray:
        """Posterior mean of one site of the model, or draws of it (``arviz.site``)."""
        return arviz.site(self, name, draws, widened=widened)

    def members(self) -> dict[str, Posterior]:
        """The fits whose probabilities a corrected posterior averages, by name (``correction.members``)."""
        return {name: Posterior.of(fit) for name, fit in correction.members(self).items()}

    def doubts(self, thorough: bool = False) -> tuple[Doubt, ...]:
        """Problems of this fit, each with a remedy; ``thorough`` fits again (``criticism.doubts.doubts``)."""
        if thorough is not False:
            return doubting.doubts(self, thorough)
        if not self._doubts:
            self._doubts.append(doubting.doubts(self))
        return self._doubts[0]

    def sets(self, best: Criterion = "accuracy") -> pd.DataFrame:
        """The classes in each item's set, where labels are sets, and how right that is (``grouping.sets``)."""
        return grouping.sets(self, best)

    def clusters(self) -> pd.DataFrame:
        """The cluster of each object, item or annotator, of methods that find some (``grouping.clusters``)."""
        return grouping.clusters(self)

    def decide(self, cost: Cost | None = None, *, ask_again: float | None = None) -> pd.DataFrame:
        """The decision about each item with the least expected cost (``decisions.decide``)."""
        return decisions.decide(self, cost, ask_again=ask_again)

    def label_sets(
        self,
        coverage: float = 0.9,
        *,
        gold: Any = None,
        method: Literal["credible", "conformal"] | None = None,
        seed: int = 0,
    ) -> pd.DataFrame:
        """For each item the classes that hold the truth with a given probability (``decisions.label_sets``)."""
        return decisions.label_sets(self, coverage, gold=gold, method=method, seed=seed)

    def suggest_labels(
        self,
        n: int,
        *,
        annotators: Iterable[Any] | None = None,
        exclude_answered: bool = True,
        per_item: int = 1,
        per_annotator: int | None = None,
        seed: int = 0,
    ) -> pd.DataFrame:
        """The items and annotators whose next label should tell most (``acquisition.suggest_labels``)."""
        return acquisition.suggest_labels(
            self,
            n,
            annotators=annotators,
            exclude_answered=exclude_answered,
            per_item=per_item,
            per_annotator=per_annotator,
            seed=seed,
        )

    def leave_one_out(self, unit: str = "label", method: Literal["auto", "psis", "closed"] = "auto") -> LeaveOneOut:
        """Log predictive probability of each label or item without it (``leave_one_out.leave_one_out``)."""
        return leaving_out.leave_one_out(self, unit, method)

    def predict(self, new_data: Annotations | pd.DataFrame) -> pd.DataFrame:
        """Truth probabilities of new items from labels by annotators of this fit (``updating.predict``)."""
        return updating.predict(self, new_data)

    def classify(self, features: Any) -> pd.DataFrame:
        """Class probabilities of new items from their features, by the fit's network (``updating.classify``)."""
        return updating.classify(self, features)

    def draw_labels(self, n: int = 1, seed: int = 0, kind: str = "posterior") -> pd.DataFrame:
        """Replicated labels of the same items by the same annotators (``updating.draw_labels``)."""
        return updating.draw_labels(self, n, seed, kind)

    def update(self, new_labels: Annotations | pd.DataFrame, **options: Any) -> Posterior:
        """The posterior after more labels, for which this one is the prior (``updating.update``)."""
        return Posterior.of(updating.update(self, new_labels, **options))

    def without(self, annotators: Iterable[Any]) -> Posterior:
        """The same fit without the labels of some annotators (``evaluation.calibration.without``)."""
        return Posterior.of(calibration.without(self, annotators))

    def to_arviz(self, draws: int = 1000, seed: int = 0, *, log_likelihood: bool = False) -> Any:
        """The posterior for ArviZ, with names for all dimensions (``arviz.to_arviz``)."""
        return arviz.to_arviz(self, draws, seed, log_likelihood=log_likelihood)

    def save(self, path: str | Path) -> None:
        """Writes the posterior to a folder, from which ``crowdppl.load`` reads it (``archive.save``)."""
        archive.save(self, path)

    def plot_confusion(self, annotator: Any = None, *, ax: Any = None, level: float | None = None) -> Any:
        """Draws confusion matrices: rows are the truth, columns the label (``plots.posterior.plot_confusion``)."""
        return posterior_plots.plot_confusion(self, annotator, ax=ax, level=level)

    def plot_annotators(self, *, ax: Axes | None = None, level: float = 0.95, show: str = "information") -> Axes:
        """Draws what each annotator's labels are worth, the best on top (``plots.posterior.plot_annotators``)."""
        return posterior_plots.plot_annotators(self, ax=ax, level=level, show=show)

    def plot_items(self, *, ax: Axes | None = None, show: str = "entropy") -> Axes:
        """Draws how sure the truth of each item is, the surest first (``plots.posterior.plot_items``)."""
        return posterior_plots.plot_items(self, ax=ax, show=show)

    def plot_trace(self, site: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draws how the fit went: chains of samplers, or the objective (``plots.posterior.plot_trace``)."""
        return posterior_plots.plot_trace(self, site, ax=ax)

    def plot_ranks(self, site: str | None = None, *, ax: Axes | None = None, bins: int = BINS) -> Axes:
        """Draws the ranks of each chain's draws, level where chains agree (``plots.posterior.plot_ranks``)."""
        return posterior_plots.plot_ranks(self, site, ax=ax, bins=bins)

    def plot_item_map(self, *, ax: Axes | None = None) -> Axes:
        """Draws items by disagreement and by how sure their labels are (``plots.posterior.plot_item_map``)."""
        return posterior_plots.plot_item_map(self, ax=ax)

    def plot_agreement_network(
        self, *, ax: Axes | None = None, level: float = 0.05, groups: Any = None, seed: int = 0
    ) -> Axes:
        """Draws links of annotators who agree more than expected (``plots.annotators.plot_agreement_network``)."""
        return annotator_plots.plot_agreement_network(self, ax=ax, level=level, groups=groups, seed=seed)

    def plot_reliability(
        self, gold: pd.Series[Any] | Mapping[Any, Any], *, bins: int = BINS, ax: Axes | None = None
    ) -> Axes:
        """Draws how often labels are right against how sure they are (``plots.evaluation.plot_reliability``)."""
        return evaluation_plots.plot_reliability(self, gold, bins=bins, ax=ax)

    def plot_risk_coverage(self, gold: pd.Series[Any] | Mapping[Any, Any], *, ax: Axes | None = None) -> Axes:
        """Draws the share of wrong labels among the surest items (``plots.evaluation.plot_risk_coverage``)."""
        return evaluation_plots.plot_risk_coverage(self, gold, ax=ax)


def load(
    path: str | Path, *, method: str | None = None, model: Model | None = None, features: Any = None
) -> Posterior:
    """Reads a posterior that ``Posterior.save`` wrote.

    Args:
        path: the folder.
        method: the expected name of the method; by default any.
        model: the method itself, for one that is not in the registry, or with networks of your own, of the same
            architecture as those of the fit; weights and settings come from the file.
        features: the dataset of the fit's features, where they were one; only needed to read them again.

    Raises:
        ResultError: when a file is missing or damaged, of another format or method, when its method is not known
            here, or the dataset differs.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).save("result")
        >>> crowdppl.load("result", method="one_coin")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    return Posterior.of(archive.read(require_path(path, ResultError), method, model, features))
