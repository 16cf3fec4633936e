"""What a user holds after a fit: the truth, the annotators, how sure both are, and how the fit went."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from crowdppl.criticism import agreement_network, doubts
from crowdppl.criticism.doubt import Doubt
from crowdppl.data.annotations import Annotations
from crowdppl.doors.counts import switch
from crowdppl.doors.demands import require_path
from crowdppl.errors import MethodError, ResultError
from crowdppl.inference.fit_result import FitResult
from crowdppl.inference.memory import Memory
from crowdppl.pictures import chain_plots, item_map, plots, reliability, risk_plot
from crowdppl.results import (
    abilities,
    acquisition,
    archive,
    decisions,
    intervals,
    item_tables,
    label_sets,
    leave_one_out,
    refitting,
)
from crowdppl.results.arviz_export import to_arviz
from crowdppl.results.correction import Correction
from crowdppl.results.summary import summarise
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """The posterior of a story given annotations.

    Attributes:
        story: the method with its settings.
        method: its name in the zoo, or the path of its class.
        inference: the engine that made the fit.
        data: the annotations.
        result: what the engine found, as arrays in codebook order.
        options: what the engine was told.
        correction: what was done to the probabilities; None where they are the method's own.
        _refit: what computes anew for ``predict``, ``draw_labels`` and ``update``; None looks it up.
        memory: after ``update``, what labels of earlier fits taught; else None.
        _doubted: what ``doubts()`` said, once it was asked.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
        >>> posterior.story
        OneCoin(prevalence='uniform', right=1.0, wrong=1.0)
    """

    story: Story
    method: str
    inference: str
    data: Annotations
    result: FitResult
    options: dict[str, Any] = field(default_factory=dict)
    _refit: refitting.Refit | None = None
    correction: Correction | None = None
    memory: Memory | None = None
    _doubted: list[tuple[Doubt, ...]] = field(default_factory=list, init=False)

    def __repr__(self) -> str:
        data = self.data
        sizes = f"{data.n_items} items, {data.n_annotators} annotators, {data.n_classes} classes"
        shown = ", corrected" if self.correction is not None else ""
        return f"<Posterior of {self.method} by {self.inference}{shown}: {sizes}>"

    def uncorrected(self) -> Posterior:
        """The same with the method's own probabilities; itself where nothing was corrected.

        Examples:
            >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.uncorrected() is posterior  # nothing was corrected
            True
        """
        if self.correction is None:
            return self
        return replace(self, result=replace(self.result, probabilities=self.correction.raw), correction=None)

    def annotators(self, level: float = 0.95) -> pd.DataFrame:
        """How good each annotator is.

        Mean field takes truths for known, so that intervals of vb are widened to what the linear response of its
        fixed point says. Of crowds drawn from one_coin (right=4, wrong=2; 60 items with three labels by eight
        annotators; 44 crowds each) those of level .9 held .92 of the accuracies with two classes and .90 with
        three, and .77 and .79 before they were widened. What one fixed point cannot know of is another: under flat
        priors, where votes may be read the wrong way round, they held .61 and .82. Where labels depend on
        Gaussians, they are not widened.

        Args:
            level: probability of the intervals.

        Returns:
            DataFrame by annotator: labels given, abstentions and those before an update included; accuracy, the
            probability of naming the truth of a new item, if any class is named, with accuracy_sd, accuracy_low and
            accuracy_high; where abstentions are named, the probability of an abstention with its own; with two
            classes also sensitivity (the second class is the positive one) and specificity with theirs, among
            classes named, too. NaN where the engine gives points.

        Examples:
            >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.annotators()[["labels", "accuracy", "accuracy_low", "accuracy_high"]].round(2)
                       labels  accuracy  accuracy_low  accuracy_high
            annotator
            1             135      0.88          0.82           0.94
            2              45      0.70          0.56           0.82
            3              45      0.80          0.68           0.90
            4              45      0.85          0.74           0.93
            5              45      0.81          0.67           0.90
        """
        table = abilities.annotator_table(self.data, self.result, level)
        return table if self.memory is None else table.assign(labels=table["labels"] + self.memory.labels)

    def confusion(self, draws: bool = False) -> xr.DataArray:
        """p(label | annotator, truth) of a new item, whatever the story: along ``label`` it sums to one.

        Where items differ, as in difficulty, it is the mean over the items that the story expects; where labels
        depend on item covariates, it is of an item whose covariates are the means of all.

        Args:
            draws: instead of the posterior mean, draws of it, with a first dimension ``draw``.

        Returns:
            xarray DataArray with dimensions annotator, truth, label and their ids as coordinates; where annotators
            may abstain, the abstentions are the last labels.

        Raises:
            MethodError: when draws are asked of an engine that gives points, or by number.

        Examples:
            >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.confusion().sel(annotator="2").to_pandas().round(2)
            label     1     2     3     4
            truth
            1      0.79  0.16  0.02  0.02
            2      0.07  0.63  0.29  0.02
            3      0.05  0.05  0.68  0.23
            4      0.10  0.10  0.10  0.70
        """
        if not switch("draws", draws, "to_arviz(draws=...) makes as many as asked"):
            return abilities.confusion_array(self.data, self.result.table)
        if self.result.table_draws is None:
            raise MethodError(f"{self.inference} found a point without draws; fit with vb, gibbs or nuts")
        return abilities.confusion_array(self.data, self.result.table_draws)

    def confusion_intervals(self, level: float = 0.95) -> pd.DataFrame:
        """The confusion with its uncertainty: DataFrame by (annotator, truth, label) with mean, sd, low, high.

        By vb they are widened as those of ``annotators`` are.

        Examples:
            >>> posterior = crowdppl.fit("bayesian_dawid_skene", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.confusion_intervals().loc[("2", 1)].round(2)
                   mean    sd   low  high
            label
            1      0.79  0.08  0.61  0.93
            2      0.16  0.08  0.04  0.34
            3      0.02  0.03  0.00  0.11
            4      0.02  0.03  0.00  0.11
        """
        return abilities.confusion_table(self.data, intervals.confusion(self.result, level))

    def prevalence(self, level: float = 0.95) -> pd.DataFrame:
        """Share of each class among items: DataFrame by class with mean, sd, low and high.

        Examples:
            >>> posterior = crowdppl.fit("dawid_skene", crowdppl.anaesthetists(), inference="em", seed=0)
            >>> posterior.prevalence()["mean"].round(2).to_dict()
            {1: 0.4, 2: 0.42, 3: 0.11, 4: 0.07}
        """
        return pd.DataFrame(intervals.prevalence(self.result, level).columns(), index=self.data.classes)

    def diagnostics(self) -> dict[str, Any]:
        """How the fit went: converged, iterations, objective, restarts, R-hat, ESS, divergences, warnings.

        Examples:
            >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.diagnostics()["converged"]
            True
        """
        return deepcopy(self.result.diagnostics)

    probabilities = item_tables.probabilities
    entropy = item_tables.entropy
    labels = item_tables.labels
    truth = item_tables.truth
    summary = summarise
    doubts = doubts.doubts
    decide = decisions.decide
    label_sets = label_sets.label_sets
    worth_asking = acquisition.worth_asking
    leave_one_out = leave_one_out.leave_one_out
    predict = refitting.predict
    classify = refitting.classify
    draw_labels = refitting.draw_labels
    update = refitting.update
    without = refitting.without
    to_arviz = to_arviz
    save = archive.save
    plot_confusion = plots.plot_confusion
    plot_annotators = plots.plot_annotators
    plot_items = plots.plot_items
    plot_trace = chain_plots.plot_trace
    plot_ranks = chain_plots.plot_ranks
    plot_item_map = item_map.plot_item_map
    plot_agreement_network = agreement_network.plot_agreement_network
    plot_reliability = reliability.plot_reliability
    plot_risk_coverage = risk_plot.plot_risk_coverage


def load(
    path: str | Path, *, method: str | None = None, story: Story | None = None, features: Any = None
) -> Posterior:
    """Reads a posterior that ``Posterior.save`` wrote.

    Args:
        path: the folder.
        method: name of the method that it has to be of; by default any.
        story: the method itself, for one that has no name in the registry, or with networks of your own, of the
            same architecture as those of the fit; their weights, and the settings of a method that has a name, come
            from the file.
        features: the dataset of the fit's features, where they were one; without it, everything works that need not
            read the old items' features again.

    Raises:
        ResultError: when a file is missing or damaged, a newer version of crowdppl wrote it, it is of another
            method than asked, its method is not known here, or the dataset is another; the message says which.

    Examples:
        >>> crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0).save("result")
        >>> crowdppl.load("result", method="one_coin")
        <Posterior of one_coin by vb: 45 items, 5 annotators, 4 classes>
    """
    return Posterior(**archive.read(require_path(path, ResultError), method, story, features))
