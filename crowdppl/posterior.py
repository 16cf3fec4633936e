"""What a user holds after a fit: the truth, the annotators, how sure both are, and how the fit went."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crowdppl.core.validation import require_path
from crowdppl.criticism import doubts
from crowdppl.criticism.doubts import Doubt
from crowdppl.data.annotations import Annotations
from crowdppl.errors import ResultError
from crowdppl.inference.result import FitResult, Memory
from crowdppl.plots import annotators as annotator_plots
from crowdppl.plots import evaluation, posterior
from crowdppl.primitives.model import Story
from crowdppl.results import acquisition, archive, decisions, leave_one_out, tables, updating
from crowdppl.results import correction as corrections
from crowdppl.results.arviz import to_arviz
from crowdppl.results.correction import Correction
from crowdppl.results.tables import summarise


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
    _refit: updating.Refit | None = None
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

    def diagnostics(self) -> dict[str, Any]:
        """How the fit went: converged, iterations, objective, restarts, R-hat, ESS, divergences, warnings.

        Where vb has gone on with more base draws, ``objectives`` are those of the last part, which alone can be
        compared; ``iterations`` counts all. ``restarts`` says of em, vb and svi what each start came to, best
        first; an objective of svi there is the mean of its last tenth, by which the best is told.

        Examples:
            >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.diagnostics()["converged"]
            True
        """
        return deepcopy(self.result.diagnostics)

    annotators = tables.annotators
    confusion = tables.confusion
    confusion_intervals = tables.confusion_intervals
    prevalence = tables.prevalence
    members = corrections.members
    probabilities = tables.probabilities
    entropy = tables.entropy
    labels = tables.labels
    truth = tables.truth
    summary = summarise
    doubts = doubts.doubts
    decide = decisions.decide
    label_sets = decisions.label_sets
    worth_asking = acquisition.worth_asking
    leave_one_out = leave_one_out.leave_one_out
    predict = updating.predict
    classify = updating.classify
    draw_labels = updating.draw_labels
    update = updating.update
    without = updating.without
    to_arviz = to_arviz
    save = archive.save
    plot_confusion = posterior.plot_confusion
    plot_annotators = posterior.plot_annotators
    plot_items = posterior.plot_items
    plot_trace = posterior.plot_trace
    plot_ranks = posterior.plot_ranks
    plot_item_map = posterior.plot_item_map
    plot_agreement_network = annotator_plots.plot_agreement_network
    plot_reliability = evaluation.plot_reliability
    plot_risk_coverage = evaluation.plot_risk_coverage


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
    return archive.read(Posterior, require_path(path, ResultError), method, story, features)
