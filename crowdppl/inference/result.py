"""The result of a fit as plain arrays, and what an update needs of earlier labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, Self, TypedDict, TypeVar, cast

import numpy as np

from crowdppl.core.fields import LATER, Ids, Numbers, Sizes, ids, one_of, permutation, within
from crowdppl.core.validation import kind_of
from crowdppl.data.annotations import Annotations
from crowdppl.data.ids import Codebook
from crowdppl.errors import DataError, MethodError, ResultError
from crowdppl.inference.coin_tables import CoinTables, tables
from crowdppl.inference.families import FAMILIES, Family
from crowdppl.primitives.model import Model

T = TypeVar("T")
FORMAT = 25
"""Of files that hold these records: raised whenever a field changes, and other formats are refused."""


class OnDemand(Generic[T]):
    """A value that is computed when it is first asked for, and kept; ``self()`` gives it.

    Args:
        compute: has the same value whenever it is called; it is forgotten after the first call.
        again: whether a loaded posterior can compute it, too, so that files may lack it.
    """

    def __init__(self, compute: Callable[[], T] | None, again: bool = False) -> None:
        self._compute = compute
        self._again = again
        self._value: T | None = None

    @staticmethod
    def of(value: T) -> OnDemand[T]:
        """A value that is there already."""
        out = OnDemand[T](None)
        out._value = value
        return out

    @staticmethod
    def lacking(place: str) -> OnDemand[T]:
        """A value that a file lacks at a place, until what computes it is put there."""

        def compute() -> T:
            raise ResultError(f"{place} is not in the files: they are damaged or forged; fetch them anew")

        return OnDemand(compute, again=True)

    @property
    def left_out(self) -> bool:
        """Whether files lack it: it has not been computed, and a loaded posterior can do so."""
        return self._again and self._compute is not None

    def __call__(self) -> T:
        if self._compute is not None:
            self._value, self._compute = self._compute(), None
        return cast(T, self._value)

    def __reduce__(self) -> tuple[Callable[[T], OnDemand[T]], tuple[T]]:
        return OnDemand.of, (self(),)


@dataclass(frozen=True)
class SiteResult:
    """The posterior of one continuous or one-hot site.

    Attributes:
        name: the site.
        dims: names of the dimensions of its value, such as ("annotator", "truth", "label"); "item" first
            where the site belongs to items, which then stand in codebook order.
        family: that of the conjugate prior, "point", "normal", "onehot" or "draws".
        arrays: by family: the parameter, {"concentration"} say; {"value"}; {"loc", "scale"} in unconstrained space,
            with "mean" in the site's own, and the "unit" of the former, if any; {"probability"}; {"draws"} of shape
            (chains, draws, *dims).
        support: of a normal site, its own space: "real", "positive", "unit" (0 to 1) or "simplex"; else "".
        weight: of conjugate sites by vb, the part of each row's parameter that is knowledge, of the parameter's
            shape without the last dimension; None where that is not known.
        drawn: by vb with few labels, where truths are numbers or ratios of some site's values matter, as of
            skills: draws (n, *dims) of all sites together, as wide as the posterior; else None.
    """

    name: str
    dims: tuple[str, ...]
    family: Annotated[str, one_of([*FAMILIES, "point", "normal", "onehot", "draws"])]
    arrays: Mapping[str, np.ndarray]
    support: str = ""
    weight: OnDemand[Annotated[np.ndarray, Numbers(None, low=0)] | None] = OnDemand.of(None)  # noqa: RUF009
    drawn: OnDemand[np.ndarray | None] = OnDemand.of(None)  # noqa: RUF009

    @property
    def conjugate(self) -> Family | None:
        """The family of conjugate priors that the posterior is of; None where it is of none."""
        return FAMILIES.get(self.family)

    @property
    def parameter(self) -> np.ndarray:
        """Parameter of the posterior in its family of conjugate priors."""
        assert self.conjugate is not None, f"{self.name} is not of a family"
        return self.arrays[self.conjugate.key]

    def with_parameter(self, parameter: np.ndarray) -> SiteResult:
        """This site with another parameter, of which no draws are known."""
        assert self.conjugate is not None, f"{self.name} is not of a family"
        return replace(self, arrays={**self.arrays, self.conjugate.key: parameter}, drawn=OnDemand.of(None))

    def mean_field(self) -> SiteResult:
        """This site as mean field found it, not widened."""
        return replace(self, weight=OnDemand.of(None), drawn=OnDemand.of(None))

    @property
    def independent(self) -> bool:
        """Whether labels depend on the site through its expected statistic alone: a point, or of a mean field."""
        return self.conjugate is not None or self.family in ("point", "onehot")

    def constrained(self, x: np.ndarray) -> np.ndarray:
        """Values of a normal site in its own space, from unconstrained ones; its ``support`` names that space."""
        if self.support == "simplex":
            share = np.exp(x - x.max(-1, keepdims=True))
            return np.asarray(share / share.sum(-1, keepdims=True))
        if self.support == "positive":
            return np.asarray(np.exp(x))
        if self.support == "unit":
            return np.asarray(1 / (1 + np.exp(-x)))
        assert self.support == "real", f"the space of {self.name} is not known"
        return np.asarray(x * self.arrays.get("unit", 1.0))

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean (or the point), of shape dims."""
        if self.conjugate is not None:
            return np.asarray(self.conjugate.mean_value(self.parameter))
        if self.family == "draws":
            return np.asarray(self.arrays["draws"].mean((0, 1)))
        key = {"point": "value", "normal": "mean", "onehot": "probability"}[self.family]
        return self.arrays[key]

    @property
    def spread(self) -> np.ndarray:
        """Parameter of a distribution as wide as the posterior, of shape dims; that of vb itself is narrower."""
        c, weight = self.parameter, self.weight()
        return c if weight is None else np.asarray(c * weight[..., None])


@dataclass(frozen=True)
class TruthSpread:
    """How items' truth probabilities vary over draws of the parameters.

    Attributes:
        sd: (N, K) standard deviations.
        entropies: (N, 2) in bits: of the mean probabilities, and the mean of the draws' own.
    """

    sd: Annotated[np.ndarray, Numbers("N K", low=0)]
    entropies: Annotated[np.ndarray, Numbers(["N", 2], low=0)]


@dataclass(frozen=True)
class ClassProbabilities:
    """Truths that are classes.

    Attributes:
        probabilities: (N, K) probability of each class in codebook order, averaged over parameter draws where the
            engine draws.
        spread: how probabilities vary over parameter draws; None for points.
    """

    probabilities: Annotated[np.ndarray, Numbers("N K", low=0, shares=True)]
    spread: Annotated[OnDemand[TruthSpread], LATER] | None = None


@dataclass(frozen=True)
class NumberTruth:
    """Truths that are numbers, each with a posterior of its own.

    Attributes:
        mean: (N,) in codebook order.
        spread: (N,) standard deviations over truth and parameters alike.
    """

    mean: Annotated[np.ndarray, Numbers("N")]
    spread: OnDemand[Annotated[np.ndarray, Numbers("N", low=0)]]

    @property
    def sd(self) -> np.ndarray:
        """(N,), as of ``spread``."""
        return self.spread()


@dataclass(frozen=True)
class TableDraws:
    """Draws of how annotators would answer a fresh item, and of how common each class is.

    Attributes:
        tables: (n, A, K, L) float32 draws of p(answer | annotator, truth), spread over chains.
        prevalence: (n, K), the same draws of the shares of the classes.
    """

    tables: (
        Annotated[np.ndarray, Numbers("draws A K L", low=0, shares=True)]
        | Annotated[CoinTables, tables("draws A K L")]
    )
    prevalence: Annotated[np.ndarray, Numbers("draws K", low=0, shares=True)]


@dataclass(frozen=True)
class Tables:
    """How annotators would answer a fresh item, and how common each class is.

    Attributes:
        mean: (A, K, L) posterior mean of p(answer | annotator, truth), whatever the model.
        prevalence: (K,) posterior mean share of each class.
    """

    mean: Annotated[np.ndarray, Numbers("A K L", low=0, shares=True)] | Annotated[CoinTables, tables("A K L")]
    prevalence: Annotated[np.ndarray, Numbers("K", low=0, shares=True)]


class Diagnostics(TypedDict, total=False):
    """How a fit went; what an engine does not know is not there.

    Attributes:
        converged, interrupted: whether it ended by itself, and whether the user stopped it.
        iterations: steps, sweeps or transitions; ``objectives`` has one for each, ``objective`` is the last.
        warnings: what was emitted.
        start: the start that won, of those that ``restarts`` compares, best first.
        seconds: of wall time.
        rhat, ess_bulk, ess_tail: of each site's chains, its worst number.
        divergences: transitions that were abandoned, by site.
        relabelled: chains that were relabelled to the votes.
        permutations: of the classes, for each chain.
        chains, draws: how many; draws a chain.
        volumes: log score of each number of layers that was tried.
        scores: mean log-probability of a label left out, of each method that was tried.
        sweeps, change: of vb, after its objective converged, those in which an item's labels were weighed by
            parameters without the item's own counts, and the largest change of a probability in the last.
        mean_field: why vb weighs an item's labels by parameters with the item's own counts.
        widths: why intervals by vb are those of its mean field, which are too narrow.
        pareto_k: shape of the tail of pathfinder's importance weights; NaN where draws are too few to tell.
    """

    converged: bool
    interrupted: bool
    iterations: int
    objective: float
    objectives: list[float]
    warnings: list[str]
    start: str
    restarts: list[dict[str, str | int | float]]
    seconds: float
    rhat: dict[str, float]
    ess_bulk: dict[str, float]
    ess_tail: dict[str, float]
    divergences: dict[str, int]
    relabelled: list[int]
    permutations: list[Annotated[list[int], permutation("K")]]
    chains: int
    draws: int
    volumes: dict[str, float]
    scores: dict[str, float]
    sweeps: int
    change: float
    mean_field: str
    widths: str
    pareto_k: float


@dataclass(frozen=True)
class FitResult:
    """Everything that a posterior is made from.

    Attributes:
        sites: the model's continuous and one-hot sites.
        truth: of the items.
        tables: of the annotators, where truths and answers are classes; else None.
        diagnostics: as of ``Diagnostics``.
        draws: of the tables; None for points, and where there are no tables.
    """

    sites: Mapping[str, SiteResult]
    truth: ClassProbabilities | NumberTruth
    tables: OnDemand[Tables] | None
    diagnostics: Annotated[dict[str, Any], Diagnostics] = field(default_factory=dict)
    draws: Annotated[OnDemand[TableDraws], LATER] | None = None

    def mean_field(self) -> FitResult:
        """This result with the distributions of mean field, not widened."""
        return replace(self, sites={name: site.mean_field() for name, site in self.sites.items()})

    def with_probabilities(self, probabilities: np.ndarray) -> FitResult:
        """This result with other probabilities of the truths, (N, K)."""
        return replace(self, truth=replace(self._classes, probabilities=probabilities))

    @property
    def _classes(self) -> ClassProbabilities:
        if isinstance(self.truth, ClassProbabilities):
            return self.truth
        raise MethodError("the truth of an item is a number here, and no class; posterior.truth() tells it")

    @property
    def _tables(self) -> Tables:
        if self.tables is not None:
            return self.tables()
        raise MethodError(
            "truths are numbers here, so that there are no confusions; posterior.annotators() tells more"
        )

    @property
    def probabilities(self) -> np.ndarray:
        """(N, K), as of ``ClassProbabilities``; MethodError where truths are numbers."""
        return self._classes.probabilities

    @property
    def table(self) -> np.ndarray:
        """(A, K, L), as of ``Tables``; MethodError where labels are numbers."""
        return np.asarray(self._tables.mean)

    @property
    def confusions(self) -> np.ndarray | CoinTables:
        """(A, K, L), as of ``Tables``, or coins where it would be large; MethodError where labels are numbers."""
        return self._tables.mean

    @property
    def confusion_draws(self) -> np.ndarray | CoinTables | None:
        """(n, A, K, L) draws of ``confusions``, an array or coins; None for points."""
        return None if self.draws is None else self.draws().tables

    @property
    def prevalence(self) -> np.ndarray:
        """(K,), as of ``Tables``; MethodError where labels are numbers."""
        return self._tables.prevalence

    @property
    def probability_sd(self) -> np.ndarray | None:
        """(N, K) standard deviation of the probabilities over parameter draws; None for points."""
        return None if self._classes.spread is None else self._classes.spread().sd

    @property
    def entropies(self) -> np.ndarray | None:
        """(N, 2) in bits, as of ``TruthSpread``; None for points."""
        return None if self._classes.spread is None else self._classes.spread().entropies

    @property
    def table_draws(self) -> np.ndarray | None:
        """(n, A, K, L) float32 draws of the table; None for points."""
        return None if self.draws is None else np.asarray(self.draws().tables)

    @property
    def prevalence_draws(self) -> np.ndarray | None:
        """(n, K), draws of the prevalence that belong to those of ``table_draws``; None for points."""
        return None if self.draws is None else self.draws().prevalence


Sites = Mapping[str, SiteResult]


def _of_classes_or_closed(value: Any, place: str, sizes: Sizes) -> None:
    """Shares of the classes of each item, or of none."""
    closed = value.shape[-1:] == (0,)
    Numbers(["M", 0] if closed else "M K", low=0, shares=not closed)(value, place, sizes)


@dataclass(frozen=True)
class Record:
    """Items as a fit left them, so that they can come again without counting twice.

    Attributes:
        items: their ids, (M,).
        probabilities: of their truths, (M, K): what they count in sites such as the prevalence; (M, 0) of items
            that cannot come again, because classes are new since their labels.
        votes: how many labels that name a class each of them had by then, int64 (M,).
        sites: of that fit, those of annotators and items left out: what was known of a truth before its labels.
        counted: the part of what the truths count in sites that updates have not forgotten.
    """

    items: Annotated[Ids, ids("M")]
    probabilities: Annotated[np.ndarray, _of_classes_or_closed]
    votes: Annotated[np.ndarray, Numbers("M", "iuf", 0)]
    sites: Sites
    counted: Annotated[float, within(0, 1)] = 1.0

    @property
    def closed(self) -> bool:
        """Whether the items cannot come again."""
        return not self.probabilities.shape[1]

    def close(self) -> Record:
        """The record of items that cannot come again."""
        return replace(self, probabilities=self.probabilities[:, :0], sites={})

    def some(self, kept: np.ndarray) -> Record:
        """The record of the items for which ``kept``, bool (M,), is true."""
        return replace(self, items=self.items[kept], probabilities=self.probabilities[kept], votes=self.votes[kept])


@dataclass(frozen=True)
class UpdateState:
    """What an update keeps of earlier fits.

    Attributes:
        sites: priors of the last update, without what items counted that came again.
        items: ids of the items of the last update, (N,).
        evidence: what earlier labels said of their truths, log-potentials (N, K); 0 of items that are new.
        votes: how many labels that name a class they had in earlier fits, int64 (N,).
        labels: how many labels each annotator gave in earlier fits, int64 (A,).
        records: items of earlier fits that are not among those of the last update.
    """

    sites: Sites
    items: Annotated[Ids, ids("N")]
    evidence: Annotated[np.ndarray, Numbers("N K")]
    votes: Annotated[np.ndarray, Numbers("N", "iuf", 0)]
    labels: Annotated[np.ndarray, Numbers("A", "iuf", 0)]
    records: tuple[Record, ...] = field(default=())

    def said_of(self, data: Annotations) -> np.ndarray:
        """What earlier labels said of the items of ``data``: log-potentials (N, K) by position."""
        code = Codebook("item", self.items).codes(data.items)
        out = np.where((code >= 0)[:, None], self.evidence[code], 0.0)
        return np.asarray(out[data.order])


@dataclass(frozen=True)
class CalibrationMap:
    """Maps from forecasts and annotators' votes to truths, drawn given some that are known; see ``VotesMap``.

    Attributes:
        forecast: (G,) which of the forecasts each map starts from.
        weights: (G,) probability of each map.
        annotators: (J,) codes of those whose votes count.
        scale: (G, D) what log-probabilities of the forecast are multiplied by, in each of D draws.
        shift: (G, D, K) of the logit of a class.
        votes: (G, D, J) what a label of an annotator adds to the logit of its class.
        mix: (G, D, K, K) what the forecast of a class adds to the logits of all; None of many classes.
    """

    forecast: Annotated[np.ndarray, Numbers("G", "i", 0)]
    weights: Annotated[np.ndarray, Numbers("G", low=0, shares=True)]
    annotators: Annotated[np.ndarray, Numbers("J", "i", 0, "A")]
    scale: Annotated[np.ndarray, Numbers("G D")]
    shift: Annotated[np.ndarray, Numbers("G D K")]
    votes: Annotated[np.ndarray, Numbers("G D J")]
    mix: Annotated[np.ndarray, Numbers("G D K K")] | None

    def parameters(self, number: int) -> np.ndarray:
        """Of one map, a column a draw, (P, D): scale less 1, shifts, votes and mixing weights."""
        mixed = [] if self.mix is None else [self.mix[number].reshape(len(self.scale[number]), -1)]
        parts = [self.scale[number][:, None] - 1, self.shift[number], self.votes[number], *mixed]
        return np.concatenate(parts, 1).T


@dataclass(frozen=True)
class Correction:
    """What was done to the probabilities of a posterior, and what they were before.

    Attributes:
        raw: (N, K) probabilities of the method itself, in codebook order.
        weights: of the methods whose probabilities are averaged, by name.
        rates: discount of each of them, the correlation of an item's labels given its truth; 0 is none.
        scores: mean log-probability of a label left out, of each method, discounted, and of their average.
        gold: known truths to which the map was fitted; 0 without a map.
        truth_map: that map; None without one.
        temperature: T of p^(1/T), for a bias that annotators may share; 1 is none, None where it was not looked at.
        shares: (K,) of the classes, to which probabilities are softened; None without a temperature.
        notes: what else there is to say.
        of_spans: share of a method in probabilities of spans, by name; the rest is that of what annotators mark.
        others: fits of the other methods that are averaged, by name, each with its own probabilities.
    """

    raw: Annotated[np.ndarray, Numbers("N K", low=0, shares=True)]
    weights: Mapping[str, float]
    rates: Mapping[str, float]
    scores: Mapping[str, float]
    gold: int = 0
    truth_map: CalibrationMap | None = None
    temperature: float | None = None
    shares: Annotated[np.ndarray, Numbers("K", low=0, shares=True)] | None = None
    notes: tuple[str, ...] = ()
    of_spans: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, Fit] = field(default_factory=dict, repr=False)

    @property
    def main(self) -> str:
        """Name of the method with the largest weight."""
        return max(self.weights, key=lambda name: self.weights[name])

    @property
    def leaves_all(self) -> bool:
        """Whether the probabilities are still the method's own: one method, no discount, no temperature, no map."""
        plain = not any(self.rates.values()) and self.temperature in (None, 1) and not self.gold
        return len(self.weights) == 1 and plain

    def __str__(self) -> str:
        if len(self.weights) == 1:
            ((name, rate),) = self.rates.items()
            text = f"labels of an item are taken to be correlated by {rate:g}" if rate else f"{name} as it is"
        else:
            correlated = {n: f" (labels correlated by {rate:g})" if rate else "" for n, rate in self.rates.items()}
            parts = [f"{weight:.2f} {n}{correlated[n]}" for n, weight in self.weights.items()]
            text = "probabilities are averaged: " + " + ".join(parts)
        if self.temperature not in (None, 1):
            text += f", then softened to p^(1/{self.temperature:.2f}) for a bias that annotators may share"
        if self.gold:
            text += f", then mapped, with annotators' votes, to {self.gold} known truths"
        return text


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """One fit of a model to annotations, as every function of a fit takes it.

    Attributes:
        model: the method with its settings.
        method: its name in the zoo, or the path of its class.
        inference: the engine that made the fit.
        data: the annotations.
        result: what the engine found, as arrays in codebook order.
        options: of the engine.
        correction: what was done to the probabilities; None where they are the method's own.
        memory: after ``update``, what labels of earlier fits taught; else None.
    """

    model: Model
    method: str
    inference: str
    data: Annotations
    result: FitResult
    options: dict[str, Any] = field(default_factory=dict)
    correction: Correction | None = None
    memory: UpdateState | None = None

    def __repr__(self) -> str:
        data = self.data
        classes = f", {data.n_classes} classes" if data.n_classes else ""
        sizes = f"{data.n_items} items, {data.n_annotators} annotators{classes}"
        shown = ", corrected" if self.correction is not None else ""
        return f"<{type(self).__name__} of {self.method} by {self.inference}{shown}: {sizes}>"

    def uncorrected(self) -> Self:
        """The posterior before its probabilities were corrected; itself where nothing was.

        Examples:
            >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
            >>> posterior.uncorrected() is posterior  # nothing was corrected
            True
        """
        if self.correction is None:
            return self
        return replace(self, result=self.result.with_probabilities(self.correction.raw), correction=None)


def require_fit(found: Any) -> Fit:
    """What was given, when it is a fit or a posterior; DataError for anything else, such as annotations."""
    if isinstance(found, Fit):
        found.data.require_whole("what is asked of this posterior")
        return found
    raise DataError(
        f"posterior is {kind_of(found)}; give what a fit returned: crowdppl.fit(method, data), "
        "or crowdppl.load(path)"
    )


def require_classes(fit: Fit, what: str) -> None:
    """Refuses a fit whose truths are numbers by a MethodError; ``what`` is for classes."""
    if not isinstance(fit.result.truth, ClassProbabilities):
        raise MethodError(f"{what} is for truths that are classes, and those of this fit are numbers; see truth()")


def uninterrupted(fit: Fit) -> Fit:
    """Returns one of several fits; KeyboardInterrupt when the user stopped it, since Ctrl-C is meant for all."""
    if fit.result.diagnostics["interrupted"]:
        raise KeyboardInterrupt
    return fit
