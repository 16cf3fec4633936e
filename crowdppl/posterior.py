"""What a user holds after a fit: the truth, the annotators, how sure both are, and how the fit went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crowdppl import (
    abilities,
    acquisition,
    agreement_network,
    archive,
    chain_plots,
    choices,
    decisions,
    doubts,
    intervals,
    item_map,
    label_sets,
    leave_one_out,
    plots,
    refitting,
    reliability,
    risk_plot,
)
from crowdppl.annotations import Annotations
from crowdppl.arviz_export import to_arviz
from crowdppl.correction import Correction
from crowdppl.errors import MethodError
from crowdppl.inference.results import FitResult
from crowdppl.story import Story
from crowdppl.summary import summarise

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
        refit: what computes anew for ``predict``, ``draw_labels`` and ``update``; None looks it up.
    """

    story: Story
    method: str
    inference: str
    data: Annotations
    result: FitResult
    options: dict[str, Any] = field(default_factory=dict)
    refit: refitting.Refit | None = None
    correction: Correction | None = None

    def __repr__(self) -> str:
        data = self.data
        sizes = f"{data.n_items} items, {data.n_annotators} annotators, {data.n_classes} classes"
        shown = ", corrected" if self.correction is not None else ""
        return f"<Posterior of {self.method} by {self.inference}{shown}: {sizes}>"

    def uncorrected(self) -> Posterior:
        """The same with the method's own probabilities; itself where nothing was corrected."""
        if self.correction is None:
            return self
        return replace(self, result=replace(self.result, probabilities=self.correction.raw), correction=None)

    def probabilities(self, sd: bool = False) -> pd.DataFrame:
        """Probability of each class for each item, averaged over parameter draws where there are draws.

        Args:
            sd: instead, the standard deviation of that probability over parameter draws: how far it could still
                move if the annotators became known. NaN where the engine gives points.

        Returns:
            DataFrame (N, K), item ids x class names.
        """
        values = self.result.probabilities
        if sd:
            found = self.result.probability_sd
            values = np.full_like(values, np.nan) if found is None else found
        return pd.DataFrame(values, index=self.data.items, columns=self.data.classes)

    def entropy(self) -> pd.DataFrame:
        """How unsure the truth of each item is, and how much of that is for want of labels.

        Over draws of the parameters, the entropy of the mean probabilities is the mean of the draws' own entropies
        (aleatoric: annotators who are known exactly would still leave it open) and what is left (epistemic: it goes
        when annotators become known), which is the mutual information of truth and parameters (Depeweg et al. 2018,
        "Decomposition of uncertainty in Bayesian deep learning").

        Returns:
            DataFrame by item, in bits: total, aleatoric, epistemic; where the engine gives points, all is aleatoric
            as far as it can tell, and epistemic is NaN.
        """
        found = self.result.entropies
        if found is None:
            own = choices.entropy(self.result.probabilities)
            columns = {"total": own, "aleatoric": own, "epistemic": np.full_like(own, np.nan)}
        else:
            total, own = found.T
            columns = {"total": total, "aleatoric": own, "epistemic": np.clip(total - own, 0, None)}
        return pd.DataFrame(columns, index=self.data.items)

    def labels(self) -> pd.DataFrame:
        """The most probable class of each item and how sure it is.

        A tie goes to the class with more votes on the item, then on all items, then to the one whose name,
        hashed with the item's id, comes first: neither the order of classes nor that of rows decides.

        Returns:
            DataFrame by item: label; probability; entropy of the truth in bits; votes, the number of labels that
            the item received, abstentions not counted; tied, whether another class is as probable.
        """
        p, votes = self.result.probabilities, np.asarray(self.data.votes())
        code, tied = choices.choose(p, votes, self.data.items, self.data.classes)
        columns = {
            "label": self.data.classes.take(code),
            "probability": p[np.arange(len(p)), code],
            "entropy": choices.entropy(p),
            "votes": votes.sum(1).astype(np.int64),
            "tied": tied,
        }
        return pd.DataFrame(columns, index=self.data.items)

    def truth(self, level: float = 0.95) -> pd.DataFrame:
        """The general table of the truth, whatever its kind: one row an item.

        Args:
            level: probability that the interval holds.

        Returns:
            DataFrame by item with estimate, sd and interval. Nominal classes: the label of ``labels()``; the
            standard deviation of "the truth is this label"; the fewest classes that hold ``level``, most
            probable first. Ordinal classes: the median grade; the standard deviation in steps between
            neighbouring grades; the lowest and the highest grade of a central interval.
        """
        intervals.check_level(level)
        p, classes = self.result.probabilities, self.data.classes
        if self.data.kind == "nominal":
            labels = self.labels()
            chosen = labels["probability"]
            columns = {
                "estimate": labels["label"],
                "sd": np.sqrt(chosen * (1 - chosen)),
                "interval": choices.credible_sets(p, classes, level),
            }
        else:
            low, median, high = (
                classes.take(choices.grade_quantile(p, q)) for q in ((1 - level) / 2, 0.5, (1 + level) / 2)
            )
            interval = list(zip(low, high, strict=True))
            columns = {"estimate": median, "sd": choices.grade_sd(p), "interval": interval}
        return pd.DataFrame(columns, index=self.data.items)

    def annotators(self, level: float = 0.95) -> pd.DataFrame:
        """How good each annotator is.

        Args:
            level: probability of the intervals.

        Returns:
            DataFrame by annotator: labels given; accuracy, the probability of naming the truth of a new item,
            with accuracy_sd, accuracy_low and accuracy_high; with two classes also sensitivity (the second
            class is the positive one) and specificity with theirs. NaN where the engine gives points.
        """
        return abilities.annotator_table(self.data, self.result, level)

    def confusion(self, draws: bool = False) -> xr.DataArray:
        """p(label | annotator, truth), whatever the story: along ``label`` it sums to one.

        Args:
            draws: instead of the posterior mean, draws of it, with a first dimension ``draw``.

        Returns:
            xarray DataArray with dimensions annotator, truth, label and their ids as coordinates; where annotators
            may abstain, the abstentions are the last labels.

        Raises:
            MethodError: when draws are asked of an engine that gives points.
        """
        if not draws:
            return abilities.confusion_array(self.data, self.result.table)
        if self.result.table_draws is None:
            raise MethodError(f"{self.inference} found a point without draws; fit with vb, gibbs or nuts")
        return abilities.confusion_array(self.data, self.result.table_draws)

    def confusion_intervals(self, level: float = 0.95) -> pd.DataFrame:
        """The confusion with its uncertainty: DataFrame by (annotator, truth, label) with mean, sd, low, high."""
        return abilities.confusion_table(self.data, intervals.confusion(self.result, level))

    def prevalence(self, level: float = 0.95) -> pd.DataFrame:
        """Share of each class among items: DataFrame by class with mean, sd, low and high."""
        return pd.DataFrame(intervals.prevalence(self.result, level).columns(), index=self.data.classes)

    def diagnostics(self) -> dict[str, Any]:
        """How the fit went: converged, iterations, objective, restarts, R-hat, ESS, divergences, warnings."""
        return dict(self.result.diagnostics)

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


def load(path: str | Path, *, method: str | None = None, story: Story | None = None) -> Posterior:
    """Reads a posterior that ``Posterior.save`` wrote.

    Args:
        path: the folder.
        method: name of the method that it has to be of; by default any.
        story: the method itself, for one that has no name in the registry.

    Raises:
        ResultError: when a file is missing or damaged, a newer version of crowdppl wrote it, it is of another
            method than asked, or its method is not known here; the message says which.
    """
    return Posterior(**archive.read(Path(path), method, story))
