"""The posterior that a user holds after a fit: tables, decisions, doubts, plots and files, as methods."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from crowdppl.core.collective import together
from crowdppl.core.doubt import Doubt
from crowdppl.core.validation import one_of, require_path
from crowdppl.criticism import doubts as doubting
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ResultError
from crowdppl.estimation import drawing
from crowdppl.evaluation import by_group, calibration
from crowdppl.evaluation import panel as panels
from crowdppl.inference.result import Fit
from crowdppl.plots import annotators as annotator_plots
from crowdppl.plots import chains, confusions, drift, estimates, items, raters
from crowdppl.plots import evaluation as evaluation_plots
from crowdppl.plots import labels as label_plots
from crowdppl.plots import panel as panel_plots
from crowdppl.plots import rankings as ranking_plots
from crowdppl.plots import spans as span_plots
from crowdppl.primitives.model import Model
from crowdppl.report import write as reports
from crowdppl.results import (
    acquisition,
    archive,
    arviz,
    correction,
    decisions,
    grouping,
    levels,
    part_files,
    rankings,
    truths,
    updating,
)
from crowdppl.results import annotators as annotator_tables
from crowdppl.results import leave_one_out as leaving_out
from crowdppl.results import masks as mask_arrays
from crowdppl.results import spans as span_tables
from crowdppl.results import summary as summaries


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Fit):
    """The posterior of a model given annotations.

    Its methods are functions of a fit, of ``crowdppl.results``, ``crowdppl.plots`` and others, with the posterior
    first. Nothing changes a posterior; methods that fit again return another one.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
        >>> posterior.model
        OneCoin(prevalence='uniform', right=1.0, wrong=1.0, taxonomy=None)
    """

    _doubts: list[tuple[Doubt, ...]] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, fit: Fit) -> Posterior:
        """The posterior of a fit."""
        kind = SharePosterior if fit.data.is_share else cls
        return kind(**{part.name: getattr(fit, part.name) for part in fields(Fit)})

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
        """The method, the data, how the fit went, doubts, the best and worst annotators (``summary.summarise``)."""
        return summaries.summarise(self, self.doubts())

    probabilities = truths.probabilities
    labels = truths.labels
    spans = span_tables.spans
    masks = mask_arrays.masks
    to_arrow = truths.to_arrow
    to_parquet = part_files.to_parquet
    truth = truths.truth
    ranking = rankings.ranking
    order_probabilities = rankings.order_probabilities
    comparisons = rankings.comparisons
    fair_averages = truths.fair_averages
    separation = truths.separation
    entropy = truths.entropy
    annotators = annotator_tables.annotators
    confusion = annotator_tables.confusion
    confusion_intervals = annotator_tables.confusion_intervals
    prevalence = annotator_tables.prevalence
    site = arviz.site

    def members(self) -> dict[str, Posterior]:
        """The fits whose probabilities a corrected posterior averages, by name (``correction.members``)."""
        return {name: Posterior.of(fit) for name, fit in correction.members(self).items()}

    def at_level(self, level: int) -> Posterior:
        """What this posterior says at a level of the tree of its classes (``levels.at_level``)."""
        coarse = Posterior.of(levels.at_level(self, level))
        coarse._doubts.append(tuple(levels.of_finer(doubt, level) for doubt in self.doubts()))
        return coarse

    def doubts(self, thorough: bool = False) -> tuple[Doubt, ...]:
        """Problems of this fit, each with a remedy; ``thorough`` fits again (``criticism.doubts.doubts``)."""
        if thorough is not False:
            return doubting.doubts(self, thorough)
        if not self._doubts:
            self._doubts.append(doubting.doubts(self))
        return self._doubts[0]

    by = by_group.by
    panel = panels.panel
    sets = grouping.sets
    clusters = grouping.clusters
    decide = decisions.decide
    label_sets = decisions.label_sets
    leave_one_out = leaving_out.leave_one_out
    predict = updating.predict
    classify = updating.classify
    draw_labels = updating.draw_labels

    def suggest_labels(
        self, n: int | None = None, *, for_: Literal["truth", "estimate"] = "truth", **options: Any
    ) -> pd.DataFrame:
        """Items and annotators whose next label tells most about the truth (``acquisition.suggest_labels``).

        ``for_="estimate"`` draws items that people should label for a figure, ``quantity="share", of="toxic"``
        (``crowdppl.draw_items``).
        """
        if one_of("for_", for_, ("truth", "estimate")) == "truth":
            return acquisition.suggest_labels(self, n, **options)
        figure: dict[str, Any] = {"quantity": "share", "n": n, **options}
        return drawing.draw_items(proxy=self, **figure)

    def update(self, new_labels: Annotations | pd.DataFrame, *, forget: float = 0.0, **options: Any) -> Posterior:
        """The posterior after more labels, for which this one is the prior (``updating.update``)."""
        return Posterior.of(updating.update(self, new_labels, forget=forget, **options))

    def without(self, annotators: Iterable[Any]) -> Posterior:
        """Fits again, without the labels of some annotators (``evaluation.calibration.without``)."""
        return Posterior.of(calibration.without(self, annotators))

    def report(self, path: str | Path, gold: Any = None, **options: Any) -> Path:
        """Writes a page for people who read no tables, and tables beside it (``crowdppl.report.write.report``)."""
        return reports.report(self, path, gold, doubts=self.doubts(), **options)

    to_arviz = arviz.to_arviz
    save = archive.save
    plot_confusion = confusions.plot_confusion
    plot_annotators = estimates.plot_annotators
    plot_items = items.plot_items
    plot_estimates = estimates.plot_estimates
    plot_order_probabilities = ranking_plots.plot_order_probabilities
    plot_raters = raters.plot_raters
    plot_drift = drift.plot_drift
    plot_labels = label_plots.plot_labels
    plot_votes = label_plots.plot_votes
    plot_certainty = label_plots.plot_certainty
    plot_spans = span_plots.plot_spans
    plot_trace = chains.plot_trace
    plot_ranks = chains.plot_ranks
    plot_item_map = items.plot_item_map
    plot_agreement_network = annotator_plots.plot_agreement_network
    plot_panel = panel_plots.plot_panel
    plot_reliability = evaluation_plots.plot_reliability
    plot_risk_coverage = evaluation_plots.plot_risk_coverage


OF_SHARES = {
    *("probabilities", "labels", "truth", "entropy", "to_arrow"),
    *("annotators", "confusion", "confusion_intervals", "prevalence", "site", "diagnostics", "summary"),
    *("save", "to_parquet"),
}
"""What a posterior tells where processes share a fit: of the process's own items, of what all share, and files."""
WAIT = 60.0
"""Seconds after which a process that does not come to write is an error in all others."""


class SharePosterior(Posterior):
    """The posterior of one of the processes that share a fit.

    Items are those of the process; annotators, classes and sites are of all. Intervals are computed when they are
    first asked for, by all processes together: each must ask. What would be of its own items alone is refused.
    """

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in vars(Posterior) and name not in OF_SHARES:
            self.data.require_whole(f"posterior.{name}")
        return super().__getattribute__(name)

    def annotators(self, level: float = 0.95) -> pd.DataFrame:
        with together(WAIT):
            return annotator_tables.annotators(self, level)

    def summary(self) -> str:
        with together(WAIT):
            return summaries.summarise(self)

    def save(self, path: str | Path) -> None:
        with together(WAIT):
            archive.save(self, path)

    def to_parquet(self, path: str | Path) -> None:
        with together(WAIT):
            part_files.to_parquet(self, path)


def load(
    path: str | Path,
    *,
    method: str | None = None,
    model: Model | None = None,
    features: Any = None,
    parts: str | Path | None = None,
) -> Posterior:
    """Reads a posterior that ``Posterior.save`` wrote.

    Args:
        path: the folder.
        method: the expected name of the method; by default any.
        model: the method itself, for one that is not in the registry, or with networks of your own, of the same
            architecture as those of the fit; weights and settings come from the file.
        features: the dataset of the fit's features, where they were one; only needed to read them again.
        parts: the folder of the annotations, where they were opened from parts that have moved. In a process group
            of ``torch.distributed``, each process gets the items of its own parts.

    Raises:
        ResultError: when a file is missing or damaged, of another format or method, when its method is not known
            here, or the dataset differs.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).save("result")
        >>> crowdppl.load("result", method="one_coin")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    where = None if parts is None else require_path(parts, ResultError)
    return Posterior.of(archive.read(require_path(path, ResultError), method, model, features, where))
