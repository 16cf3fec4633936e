"""The sites of a model, classified by running it: conjugate, one-hot, hyper, free or enumerated."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import biject_to, constraints
from torch.distributions.transforms import Transform

from crowdppl.core.devices import is_shortage, seeded
from crowdppl.data.blocks import Block
from crowdppl.data.kinds.space import number_space
from crowdppl.errors import CrowdpplError, MethodError, NumericalError
from crowdppl.inference.density import (
    Density,
    Extra,
    TraceSite,
    TraceSites,
    is_plate,
    narrowed,
    trace_sites,
)
from crowdppl.inference.families import Family, family_of
from crowdppl.primitives.distributions import LinkedCategorical, OneHot, Scaled
from crowdppl.primitives.labels import CategoricalLabels, Labels, NumberLabels, OwnTruthLabels
from crowdppl.primitives.model import Model, contents, plates_of, same_contents, truth_of, truth_space
from crowdppl.primitives.sums import Summing


class Softmax(Transform):
    """``x = softmax(u)``, made a change of variables by a total that is independent of x.

    Stick-breaking treats classes in order, so that a Gaussian fit would change when they are renamed. Here K
    real numbers stand for K - 1 proportions and one auxiliary total: with ``g = exp(u)``, ``x = g / sum g`` and
    ``G = sum g`` given the density Gamma(K, 1), the density of u is ``p(x) p(G)`` times ``G * prod x``, and
    integrating over G leaves p(x).
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = False

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        """The vector whose total is the mean of its density, K."""
        return y.clamp(min=1e-35).log() + math.log(y.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Log of ``G * prod y`` times the density of the total: (...) for (..., K)."""
        k = x.shape[-1]
        log_total = x.logsumexp(-1)
        log_density = (k - 1) * log_total - log_total.exp() - math.lgamma(k)
        return x.log_softmax(-1).sum(-1) + log_total + log_density


class CentredSoftmax(Softmax):
    """``x = softmax(u)``, made a change of variables by a sum of u that is normal and independent of x.

    Where x is nearly normal in its log-ratios, u is nearly normal as a whole.
    """

    def _inverse(self, y: Tensor) -> Tensor:
        """The vector whose sum is 0."""
        log = y.clamp(min=1e-35).log()
        return log - log.mean(-1, keepdim=True)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Log of ``prod y`` times the density of the sum: (...) for (..., K)."""
        k = x.shape[-1]
        return x.log_softmax(-1).sum(-1) - x.sum(-1).square() / (2 * k) + math.log(k / (2 * math.pi)) / 2


def plain_support(support: object) -> object:
    """The constraint of one event, without what batches put around it."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support


PROBE_ITEMS = 100
"""Items on which a model is run before a fit."""


class _Rooted(Messenger):
    """Makes each continuous latent a tensor of its own, so that gradients show what depends on it."""

    def _pyro_post_sample(self, message: Any) -> None:
        if not message["is_observed"] and not is_plate(message) and message["value"].is_floating_point():
            message["value"] = message["value"].detach().requires_grad_()


def _refuse_misplaced(name: str, sites: Mapping[str, TraceSite], block: Block) -> None:
    """Refuses labels that are drawn never, twice or outside their plate, and latents where no engine keeps them."""
    labels = {n: x for n, x in sites.items() if isinstance(x.fn, Labels)}
    if not labels and block.n_labels:
        raise MethodError(
            f"{name} draws no labels; call crowdppl.primitives.annotate(data, table, state) in plates.items(data)"
        )
    if len(labels) > 1:
        raise MethodError(
            f"{name} draws labels at {len(labels)} sites ({', '.join(labels)}), each of which scores every label; "
            "put what labels depend on into one table, and call annotate once"
        )
    for n, site in labels.items():
        plate = f"{site.fn.within}s"
        if plate not in {x.name for x in site.plates}:
            raise MethodError(
                f"{name} draws {n!r} outside the plate of {plate}; call annotate in plates.{plate}(data)"
            )
    for n, site in sites.items():
        within = {x.name for x in site.plates}
        if site.observed:
            continue
        if site.enumerated and not within & {"items", "labels"}:
            raise MethodError(
                f"site {n!r} of {name} cannot be summed out, because it is not of items; make it a "
                "crowdppl.primitives.OneHot that enters the table linearly"
            )
        if not site.enumerated and "labels" in within:
            raise MethodError(
                f"site {n!r} of {name} has a value for each label, and engines keep those of items and annotators; "
                "sum it out in the table (crowdppl.primitives.logsumexp), or make it one of items"
            )


def _values(sites: Mapping[str, TraceSite]) -> dict[str, Tensor]:
    """The values of sites that are neither observed nor summed out."""
    return {n: x.value.detach().double() for n, x in sites.items() if not x.observed and not x.enumerated}


def _refuse_unknowing(
    model: Model, small: Block, sites: Mapping[str, TraceSite], integral: str, origin: float
) -> None:
    """Refuses a model whose truth, a number, is not where gold says, or no higher where a known grade is."""

    def moments(gold: float, dtype: torch.dtype) -> np.ndarray:
        known = replace(small, gold=torch.full((small.n_items,), gold, dtype=dtype, device=small.device))
        found = Density(model.model, plates_of(model))(known, _values(sites), marginals=(integral,)).marginals
        return found[integral].cpu().numpy()

    if small.n_classes:  # grades, and the truth is a place on a scale of its own
        low, high = (moments(grade, torch.int64)[0] for grade in (0, small.n_classes - 1))
        heeded = bool((low < high).all())
    else:
        wanted = np.stack(number_space(small.space).moments(np.ones(small.n_items)))
        one, _ = truth_space(model, small.space).of_modelled(np.array(origin + 1), np.zeros(()))
        heeded = np.allclose(moments(float(one), torch.float64), wanted, rtol=0, atol=1e-6)
    if not heeded:
        raise MethodError(
            f"known truths do not enter {type(model).__name__}; leave gold= out, and score by it (evaluate)"
        )


def _refuse_unaware(model: Model, small: Block, sites: Mapping[str, TraceSite], truth: str) -> None:
    """Refuses a model whose truth is not conditioned on gold and earlier labels."""
    values = _values(sites)
    known = replace(small, gold=torch.zeros(small.n_items, dtype=torch.int64, device=small.device))
    try:
        share = Density(model.model, plates_of(model))(known, values, marginals=(truth,)).marginals[truth]
    except NumericalError:  # the first class may be impossible where a model rules classes out
        return
    if not bool((share[0] > 1 - 1e-6).all()):
        raise MethodError(
            f"the model draws {truth!r} by itself, so that gold and earlier labels do not enter; draw it by "
            "crowdppl.primitives.truth(data, log_p)"
        )


def one_item_sites(model: Model, block: Block) -> TraceSites:
    """The sites of a model run on one item at a prior draw, of which only the structure is used."""
    program = poutine.enum(model.model, first_available_dim=-1 - plates_of(model))
    with seeded(0):
        return trace_sites(poutine.trace(program).get_trace(block.subset(np.arange(1), 1.0)))


class Power(NamedTuple):
    """What makes the likelihood of labels other than their probability, and the remedy."""

    what: str
    remedy: str


def label_power(model: Model, block: Block) -> Power | None:
    """Why the model's likelihood of an item's labels is not their probability; None where it is."""
    sites = one_item_sites(model, block).values()
    if any(isinstance(x.fn, LinkedCategorical) for x in sites):
        return Power("links items, by a sequence or edges", "use heldout_score")
    labels = [x.fn for x in sites if isinstance(x.fn, Labels)]
    if any(fn.weight is not None for fn in labels):
        return Power("weighs labels (weight=)", "fit without weights")
    if any(fn.power != 1 for fn in labels):
        return Power("takes the labels' likelihood to a power (likelihood_power)", "give likelihood_power=1")
    return None


def reads_soft_labels(model: Model, block: Block) -> bool:
    """Whether the model's labels are those of ``annotate``, which sums out the answer that is meant."""
    labels = [x.fn for x in one_item_sites(model, block).values() if isinstance(x.fn, Labels)]
    return bool(labels) and all(isinstance(fn, CategoricalLabels) for fn in labels)


class Reads(NamedTuple):
    """What of the data a model looks at.

    Attributes:
        items, labels: names of the item covariates and of the label covariates that it reads.
        tables: names of the label covariates on which a label's probabilities depend; what only weighs it is none.
        own_truths: whether labels have a truth each, so that an item's tells nothing of them.
        linked: whether labels of one item tell of those of others, given the sites that items share.
    """

    items: set[Hashable]
    labels: set[Hashable]
    tables: set[Hashable]
    own_truths: bool
    linked: bool


Kind = Literal["conjugate", "onehot", "hyper", "free"]


@dataclass(frozen=True)
class Site:
    """One continuous or one-hot latent of a model.

    Attributes:
        name: the site's name.
        kind: "conjugate" (its family's statistic enters the complete-data likelihood linearly), "onehot",
            "hyper" (reaches labels only through the priors of other sites) or "free" (anything else).
        local: whether it lives in the plate of items.
        batch_shape: shape of its plates on the whole data, items counted as -1.
        event_shape: shape of one value.
        support: constraint on its values.
        plates: name of the plate of each batch dimension, "" where there is none.
        family: of a conjugate site.
        ratios: whether the labels depend on the ratios of its values alone.
        shift, powers: how its values may move with those of other sites, as of ``natural``.
    """

    name: str
    kind: Kind
    local: bool
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    support: Any
    plates: tuple[str, ...] = ()
    family: Family | None = None
    ratios: bool = False
    shift: Sequence[Sequence[float]] | None = None
    powers: Sequence[float] | None = None

    @property
    def conjugate(self) -> Family:
        """The family of a conjugate site."""
        assert self.family is not None, f"{self.name} is not conjugate"
        return self.family

    @property
    def transform(self) -> Transform:
        """From the whole real space to the site's support; for proportions, from as many real numbers."""
        simplex = plain_support(self.support) is constraints.simplex
        out: Transform = Softmax() if simplex else biject_to(self.support)
        return out

    @property
    def unit(self) -> float | None:
        """The unit in which real values are counted; None where they have none."""
        support = plain_support(self.support)
        return support.unit if isinstance(support, Scaled) else None

    @property
    def space(self) -> str:
        """Name of the support: "real", "positive", "unit" or "simplex"; "" for anything else."""
        support = constraints.real if self.unit else plain_support(self.support)
        named = (
            ("real", constraints.real),
            ("positive", constraints.positive),
            ("positive", constraints.nonnegative),  # 0 has probability 0, and the transform is the same
            ("unit", constraints.unit_interval),
            ("simplex", constraints.simplex),
        )
        return next((name for name, constraint in named if constraint is support), "")

    def shape(self, n_items: int) -> tuple[int, ...]:
        """Shape of a value for data of ``n_items`` items."""
        return tuple(n_items if n == -1 else n for n in self.batch_shape) + self.event_shape

    def statistic_shape(self, n_items: int) -> tuple[int, ...]:
        """Shape of a statistic for data of ``n_items`` items."""
        shape = self.shape(n_items)
        return shape if self.family is None else self.family.statistic_shape(shape)

    def with_plate_dims(self, x: Tensor, plates: int, lead: int = 1) -> Tensor:
        """Values (lead, batch, event) as (lead, [1, ...] batch, event), for a model of ``plates`` nested plates."""
        return x.reshape(*x.shape[:lead], *(1,) * (plates - len(self.batch_shape)), *x.shape[lead:])

    def statistic(self, x: Tensor) -> Tensor:
        """Values as the engines take them: as statistics where the site is conjugate."""
        return x if self.family is None else self.family.statistic(x)

    def value(self, statistic: Tensor) -> Tensor:
        """The values that engines hold so."""
        return statistic if self.family is None else self.family.value(statistic)

    def of_items(self, x: Tensor, at: np.ndarray | Tensor, lead: int = 0) -> Tensor:
        """Values (lead, batch, event) of a local site at the items in these places; of other sites as they are."""
        if not self.local:
            return x
        places = torch.as_tensor(at, dtype=torch.int64, device=x.device)
        return x.index_select(lead + self.batch_shape.index(-1), places)

    def at_positions(self, value: Tensor, start: int, stop: int) -> Tensor:
        """The part of a local site's value that belongs to the items at positions ``start`` to ``stop``."""
        dim = value.dim() - 1 - len(self.event_shape)
        return value if value.shape[dim] == 1 else value.narrow(dim, start, stop - start)


class ModelStructure(NamedTuple):
    """What a model is found to be.

    Attributes:
        sites: its continuous and one-hot sites by name.
        truth: the discrete site that is the truth: that of the card, or "truth", or the first one. None where
            truths are numbers.
        integral: the name of the integral over truths that are numbers; None where they are classes.
        origin: from where that integral counts them.
        states: the alternatives of an item that a pass keeps apart: the most log-factors that it has.
        table: numbers in the table of annotators' answers that each block's pass forms; 0 without.
        linked: whether truths of items depend on each other.
        stateless: whether it kept nothing while it ran, so that the same values give the same numbers again.
        reads: what of the data it looks at.
    """

    sites: dict[str, Site]
    truth: str | None
    integral: str | None
    origin: float
    states: int
    table: int
    linked: bool
    stateless: bool
    reads: Reads


def structure_of(model: Model, block: Block, known: bool) -> ModelStructure:
    """Runs a model on a few items at a draw from its prior, under Pyro's checks, and sorts its sites.

    Where gold or evidence say something of some truth (``known``), the model must follow it. MethodError when the
    model does not run, or has sites that no engine can treat.
    """
    small = replace(block.subset(np.arange(min(PROBE_ITEMS, block.n_items)), 1.0), sparse=False)
    asked: dict[str, set[Hashable]] = {"item_covariates": set(), "label_covariates": set()}
    held: Any = {what: getattr(small, what) for what in asked}
    small = replace(small, **{what: x and replace(x, asked=asked[what]) for what, x in held.items()})
    before = contents(model)
    found = _checked_sites(model, small)  # not kept: they hold tables of all annotators
    sites = _sorted_sites(model, small, found)
    discrete = [n for n, x in found.items() if x.enum_dim is not None]
    named = truth_of(model)
    truth = named if named in discrete else next(iter(discrete), None)
    if truth is not None:
        values = len(found[truth].value)
        if values != small.n_classes:
            raise MethodError(
                f"site {truth!r} is taken for the truth and has {values} values where data have {small.n_classes} "
                "classes; call the truth's site 'truth', or name it on a card"
            )
        if known:
            _refuse_unaware(model, small, found, truth)
    scored = [x.log_prob for x in found.values() if x.observed or x.enum_dim is not None]
    states = max((-(-narrowed(x).numel() // small.n_items) for x in scored if x is not None), default=1)
    labels = [x.fn for x in found.values() if isinstance(x.fn, Labels)]
    numbers = [fn for fn in labels if isinstance(fn, NumberLabels)]
    integral, origin = (numbers[0].truth, numbers[0].origin) if numbers else (None, 0.0)
    states = max(states, *(fn.states for fn in numbers), 1)
    if integral is not None and known:
        _refuse_unknowing(model, small, found, integral, origin)
    cells = [fn for fn in labels if isinstance(fn, CategoricalLabels)]
    table = sum(fn.log_p.numel() for fn in cells if isinstance(fn.log_p, Tensor))
    fixed = all(isinstance(fn.log_p, Tensor) and fn.context is None for fn in cells)
    own, (items, names) = any(isinstance(fn, OwnTruthLabels) for fn in labels), asked.values()
    reads = Reads(items, names, set() if fixed else names, own, any(fn.linked for fn in labels))
    stateless = same_contents(before, contents(model))
    linked = any(isinstance(x.fn, LinkedCategorical) for x in found.values())
    return ModelStructure(sites, truth, integral, origin, states, table, linked, stateless, reads)


def _checked_sites(model: Model, small: Block) -> TraceSites:
    """The sites; priors and log-probabilities depend on the latents above them as gradients show."""
    name, plates = type(model).__name__, plates_of(model)
    program = poutine.enum(model.model, first_available_dim=-1 - plates)
    with seeded(0), pyro.validation_enabled(True):
        try:
            with _Rooted():  # outside the trace, which sees a site after it
                trace = poutine.trace(program).get_trace(small)
            _refuse_misplaced(name, trace_sites(trace), small)
            trace.compute_log_prob(
                lambda _, node: not (is_plate(node) or isinstance(node["fn"], LinkedCategorical))
            )
        except (ValueError, RuntimeError, IndexError, NotImplementedError) as error:
            if isinstance(error, CrowdpplError):  # Pyro adds shapes to what it was raised from
                raise (error.__cause__ if isinstance(error.__cause__, CrowdpplError) else error) from None
            if is_shortage(error):  # the model is well, and what it asks for too large
                raise
            raise MethodError(
                f"the model {name} does not run on {small.n_items} items at a draw from its prior: {error}. Check "
                f"shapes against its plates (declared depth: {plates})"
            ) from error
    return trace_sites(trace)


def _sorted_sites(model: Model, small: Block, sites: Mapping[str, TraceSite]) -> dict[str, Site]:
    """A model's latents by what engines can do with them.

    MethodError when a latent is discrete but not enumerated, or a site's shape breaks a plate.
    """
    latents = {n: x for n, x in sites.items() if not x.observed and not x.enumerated}
    for name, site in latents.items():
        if site.fn.support.is_discrete and not isinstance(site.fn, OneHot):
            raise MethodError(
                f"site {name!r} is discrete and not enumerated: add infer={{'enumerate': 'parallel'}} to it if it "
                "is of items, or make it a crowdppl.primitives.OneHot that enters the table linearly"
            )
    families = {n: family for n, x in latents.items() if (family := _family(x)) is not None}
    values = {n: x.value.detach().double() for n, x in latents.items()}
    # What a model can be given.
    values |= {n: family.value(family.statistic(values[n])) for n, family in families.items()}
    onehot = {n for n, x in latents.items() if isinstance(x.fn, OneHot)}
    parents = _parents(latents, onehot)
    candidates = {n: family for n, family in families.items() if n not in parents}
    with seeded(0):
        density = Density(model.model, plates_of(model))
        linear = _linear(density, small, values, candidates, onehot)
        others = [n for n in values if n not in linear and n not in onehot]
        slopes = density(small, values, gradient=others).gradient if others else {}
    kinds: dict[str, Kind] = {n: "free" if bool((g != 0).any()) else "hyper" for n, g in slopes.items()}
    kinds |= {**dict.fromkeys(linear, "conjugate"), **dict.fromkeys(onehot, "onehot")}
    found = {n: _site(n, x, kinds[n], families[n] if n in linear else None) for n, x in latents.items()}
    for name in onehot:
        if found[name].local:
            raise MethodError(f"site {name!r} is one-hot in the plate of items: enumerate it instead (Categorical)")
    return found


def _site(name: str, site: TraceSite, kind: Kind, family: Family | None = None) -> Site:
    """A latent as a trace has it."""
    plates, batch = {plate.dim: plate.name for plate in site.plates}, site.fn.batch_shape
    names = tuple(plates.get(i - len(batch), "") for i in range(len(batch)))
    local = not {"items", "labels"}.isdisjoint(names)
    shape = tuple(-1 if plate in ("items", "labels") else n for plate, n in zip(names, batch, strict=True))
    event, own = tuple(site.fn.event_shape), (family, site.ratios, site.shift, site.powers)
    return Site(name, kind, local, shape, event, site.fn.support, names, *own)


def sites_by_shape(model: Model, block: Block) -> dict[str, Site]:
    """A model's sites as one run shows them, each as if it were free: what labels make of it takes gradients."""
    found = _checked_sites(model, block)
    return {n: _site(n, x, "free") for n, x in found.items() if not x.observed and not x.enumerated}


def _family(site: TraceSite) -> Family | None:
    """The family by which a site may be treated; statistics are handed to models that take them."""
    family = family_of(site.fn)
    local = {"items", "labels"}.intersection(plate.name for plate in site.plates)
    return None if family is None or (family.handed and (local or not site.natural)) else family


def _parents(latents: Mapping[str, TraceSite], onehot: set[str]) -> set[str]:
    """Sites on which the prior of another latent depends; one-hot children, which are linear, do not count."""
    found: set[str] = set()
    for child, site in latents.items():
        others = [n for n in latents if n != child]
        if child in onehot or not others or site.log_prob is None or not site.log_prob.requires_grad:
            continue
        leaves = [latents[n].value for n in others]
        got = torch.autograd.grad(site.log_prob.sum(), leaves, allow_unused=True, retain_graph=True)
        found |= {n for n, g in zip(others, got, strict=True) if g is not None}
    return found


def _linear(
    density: Density, block: Block, values: Mapping[str, Tensor], families: Mapping[str, Family], onehot: set[str]
) -> set[str]:
    """Candidates whose gradient under recorded draws is the same at two values of their statistic.

    The complete-data log-likelihood is then linear in it.
    """
    if not families:
        return set()
    given = Density(density.model, density.plates, None, families)
    statistic = {n: family.statistic(values[n]) for n, family in families.items()}
    moved = {n: families[n].moved(x) for n, x in statistic.items()}
    tape: dict[int, Tensor] = {}
    extra = one_hot_terms(onehot) if onehot else None
    record = Summing("draw", torch.Generator(device=block.device).manual_seed(0), tape)
    first = given(block, {**values, **statistic}, gradient=families, how=record, extra=extra)
    replay = Summing("replay", tape=tape)
    second = given(block, {**values, **moved}, gradient=families, how=replay, extra=extra)
    pairs = ((n, first.gradient[n], second.gradient[n]) for n in families)
    return {n for n, a, b in pairs if bool(((a - b).abs() <= 1e-6 * (1 + a.abs())).all())}


def one_hot_terms(names: Collection[str], chains: int | None = None) -> Extra:
    """The log-prior of one-hot sites as an extra term of the objective, so that their weights get counts."""

    def extra(sites: TraceSites, values: Mapping[str, Tensor]) -> Tensor:
        terms = (sites[name].fn.log_prob(values[name]) for name in sorted(names))
        return torch.stack([per_chain(x, chains) for x in terms]).sum(0)

    return extra


def per_chain(x: Tensor, chains: int | None) -> Tensor:
    """Adds up everything but the chains, in float64: (C, ...) -> (C,), or () without chains."""
    x = x.double()
    return x.sum() if chains is None else x.expand(chains, *x.shape[1:]).reshape(chains, -1).sum(1)


def expected(x: Tensor, chains: int | None) -> Tensor:
    """Adds up everything but the chains, over which it averages: ()."""
    total = per_chain(x, chains)
    return total if chains is None else total.mean()
