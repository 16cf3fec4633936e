"""A problem: a model and annotations, with its sites classified, as every engine takes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyro
import torch
from torch import Tensor

from crowdppl.core.collective import n_processes, process, reduced
from crowdppl.core.devices import default_dtype, few_threads
from crowdppl.core.validation import kind_of, shown
from crowdppl.data.annotations import Annotations
from crowdppl.data.blocks import Block
from crowdppl.data.covariates import CovariateColumns
from crowdppl.data.features import feature_tensor, placed_features
from crowdppl.data.kinds.space import RealLine
from crowdppl.errors import MethodError, NumericalError
from crowdppl.inference.density import Density
from crowdppl.inference.gaussians import Signatures, signatures
from crowdppl.inference.options import Options
from crowdppl.inference.passes import FullPass
from crowdppl.inference.probes import Probe, passes, reads_chains, tells_items_by_labels, tells_no_annotators
from crowdppl.inference.replay import FIRST, Function, Replayed
from crowdppl.inference.result import SiteResult
from crowdppl.inference.sites import (
    ModelStructure,
    Power,
    Reads,
    Site,
    label_power,
    reads_soft_labels,
    sites_by_shape,
    structure_of,
)
from crowdppl.inference.starts import first_values, named_soft_truth, soft_truth, spectral_truth, votes
from crowdppl.inference.typical_labels import TypicalLabels, typical_items
from crowdppl.networks.outputs import cached_outputs, networks_of
from crowdppl.primitives.distributions import SparseCategorical
from crowdppl.primitives.model import (
    Model,
    card_of,
    contents,
    discount_of,
    plates_of,
    require_space,
    same_contents,
    truth_space,
    with_missing,
)

LARGE = 1_000_000
"""Labels from which arrays with an entry an item or a label are kept in float32."""
LARGE_NUMBERS, BLOCK_NUMBERS, TABLES = 10_000_000, 4_000_000, 4
"""Log-factors of items from which they are, too, and those of a block: at least, and in annotators' tables, which
each block's pass forms anew."""
SMALL = 200_000
"""Labels up to which bookkeeping takes a good part of a pass on the CPU."""
MEDIUM = 20_000_000
"""Labels up to which it does on a GPU, where kernels take longer to launch than to run."""


@contextmanager
def model_runs(
    model: Model, data: Annotations | Block | Problem, device: str = "cpu", validate: bool = False
) -> Iterator[None]:
    """Runs a model on data: in float64, on a device, by few threads, without Pyro's checks unless ``validate``.

    The user's settings are restored afterwards. Other threads wait: Pyro's handlers are shared by the process.
    """
    there = nullcontext() if device == "cpu" else torch.device(device)
    few = few_threads(data.n_labels, networks_of(model).values())
    with default_dtype(torch.float64), few, pyro.validation_enabled(validate), there:
        yield


@dataclass(frozen=True)
class Earlier:
    """A fit of the same annotators and classes, which em and vb continue.

    Attributes:
        sites: its result, site by site.
        order: item code at each position of the data to be fitted now.
    """

    sites: Mapping[str, SiteResult]
    order: np.ndarray


@dataclass(frozen=True)
class Problem:
    """What every engine starts from.

    Attributes:
        model: the method.
        blocks: the data, on the device and in the precision of the fit.
        options: of the fit.
        whole: one block of all items, for models that keep something of each item.
        sites, truth, integral, origin, states, table, linked, stateless, reads: as of ``ModelStructure``.
        plates: nesting depth of the model's plates.
        given: values of sites, or truth shares (N, K) by position, to start from.
        earlier: a fit of the same annotators and classes, which em and vb continue.
    """

    model: Model
    blocks: list[Block]
    options: Options
    whole: Callable[[], Block]
    sites: Mapping[str, Site]
    truth: str | None
    integral: str | None
    origin: float
    states: int
    table: int
    linked: bool
    stateless: bool
    reads: Reads
    plates: int
    given: Mapping[str, Tensor] = field(default_factory=dict)
    earlier: Earlier | None = None
    _replayed: dict[Hashable, Replayed] = field(default_factory=dict, init=False, repr=False, compare=False)
    _probed: dict[Probe, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def of(
        model: Model,
        blocks: list[Block],
        options: Options,
        whole: Callable[[], Block],
        data: Annotations | None = None,
    ) -> Problem:
        """A model and data, with the model's sites classified; of the same ``data``, as they were found before.

        Raises:
            MethodError: when the model does not run, or has sites that no engine can treat.
        """
        found = _structure_on(model, blocks, data)
        found = found._replace(states=reduced(found.states, "max"), table=reduced(found.table, "max"))
        return Problem(model, blocks, options, whole, plates=plates_of(model), **found._asdict())

    def in_narrow_blocks(self) -> Problem:
        """The problem in blocks of few log-factors, of which several copies are there at a time."""
        most = max(BLOCK_NUMBERS, TABLES * self.table)
        counts = [-(-b.n_items * self.states // most) for b in self.blocks]
        if reduced(max(counts), "max") < 2 or networks_of(self.model) or self.sums_others:
            return self
        blocks = [part for b, n in zip(self.blocks, counts, strict=True) for part in b.parts(n)]
        if self.n_all_items * self.states >= LARGE_NUMBERS and self.options.dtype is None:
            blocks = [replace(b, dtype=torch.float32) for b in blocks]
        return replace(self, blocks=blocks)

    @property
    def space(self) -> RealLine:
        """Where truths that are numbers lie."""
        return truth_space(self.model, self.blocks[0].space)

    @property
    def n_items(self) -> int:
        """Items of this process."""
        return sum(b.n_items for b in self.blocks)

    @cached_property
    def n_all_items(self) -> int:
        """Items of all processes."""
        return reduced(self.n_items)

    @cached_property
    def _n_before(self) -> int:
        """Items of the processes before this one."""
        every = np.zeros(n_processes(), np.int64)
        every[process()] = self.n_items
        return int(reduced(every)[: process()].sum())

    def place(self, block: Block) -> int:
        """The position of a block's first item among those of all processes: the key of its random numbers."""
        return self._n_before + block.offset

    @property
    def numbers(self) -> int:
        """Numbers in one value of all sites."""
        return sum(math.prod(site.shape(self.n_items)) for site in self.sites.values())

    @cached_property
    def n_labels(self) -> int:
        """Labels of all processes."""
        return reduced(sum(b.n_labels for b in self.blocks))

    @cached_property
    def width(self) -> int:
        """Numbers in the largest array of a pass over one value of the parameters."""
        block, others = next(b for b in self.blocks if b.n_items), self.sums_others
        cells, named = block.n_annotators * block.n_answers, block.named_classes
        if named is not None and others:
            return reduced(max(self.n_items * (len(named) + 1), cells), "max")
        return reduced(max(self.n_items, cells) * self.states, "max")

    @cached_property
    def shifts(self) -> dict[str, Tensor]:
        """Shifts of sites, as of ``natural``, by name."""
        return self._moves("shift")

    @cached_property
    def powers(self) -> dict[str, Tensor]:
        """Powers of the unit in sites' values, as of ``natural``, by name."""
        return self._moves("powers")

    @cached_property
    def knows_numbers(self) -> bool:
        """Whether some truth that is a number is known."""
        return reduced(any(b.gold is not None and bool(b.gold.isfinite().any()) for b in self.blocks))

    def _moves(self, how: str) -> dict[str, Tensor]:
        found = {n: x for n, s in self.sites.items() if (x := getattr(s, how)) is not None}
        return {n: torch.tensor(x, dtype=torch.float64, device=self.blocks[0].device) for n, x in found.items()}

    @cached_property
    def sums_others(self) -> bool:
        """Whether truths that no label of an item names are summed out together, in every block."""
        return reduced(int(self._sums_others)) == n_processes()

    @property
    def _sums_others(self) -> bool:
        blocks = [b for b in self.blocks if b.n_items]
        if self.truth is None or any(b.named_classes is None for b in blocks):
            return False
        values = {n: self.sites[n].statistic(x) for n, x in self.first_values(self.options.generator(2)).items()}
        found = self.density().sites(blocks[0], self.full_pass().in_block(values, blocks[0]))
        return isinstance(found[self.truth].fn, SparseCategorical)

    @cached_property
    def steady(self) -> bool:
        """Whether passes are short and may be replayed: the same values give the same numbers, more than once.

        Networks learn between passes, a minibatch comes once, and sums over processes are no operations. A model
        that keeps something is not replayed, unless it says that it is ``repeatable``; one that says it is not
        never is.
        """
        first = self.blocks[0]
        short = (
            first.scale == 1.0
            and n_processes() == 1
            and self.n_labels <= (SMALL if first.device.type == "cpu" else MEDIUM)
        )
        return short and getattr(self.model, "repeatable", self.stateless) and not networks_of(self.model)

    def replay(
        self, key: Hashable, function: Function, inputs: Mapping[str, Tensor], often: bool = False
    ) -> dict[str, Tensor]:
        """A function of tensors, and of nothing else that changes; replayed after some calls where that is right.

        Args:
            key: tells the function from all others of this problem.
            function, inputs: as of ``Replayed``.
            often: whether it is mostly called a dozen times or more.
        """
        if not self.steady:
            return function(inputs)
        if key not in self._replayed:
            self._replayed[key] = Replayed(function, 0 if often else FIRST)
        return self._replayed[key](inputs)

    @property
    def tolerance(self) -> float:
        """Relative gain at which em and vb stop: by default, what the precision can resolve."""
        default = 1e-8 if self.blocks[0].dtype == torch.float64 else 1e-7
        return default if self.options.tolerance is None else self.options.tolerance

    @cached_property
    def telling(self) -> Problem:
        """The problem by which truths are told: itself, unless the model has a ``discount``."""
        if not discount_of(self.model):
            return self
        return replace(self, blocks=[replace(block, tells=True) for block in self.blocks])

    def of_kind(self, kind: str) -> list[Site]:
        return [s for s in self.sites.values() if s.kind == kind]

    def density(self, chains: int | None = None) -> Density:
        """The model's log marginal density; conjugate sites are given as statistics.

        Args:
            chains: number of values of all sites that are evaluated together, or None for one value.
        """
        families = {s.name: s.conjugate for s in self.of_kind("conjugate")}
        if chains is not None:  # a model that misreads several values is refused
            self._passes(reads_chains, next(b for b in self.blocks if b.n_items))
        return Density(self.model.model, self.plates, chains, families)

    def _passes(self, probe: Probe, block: Block) -> bool:
        """Whether the model passes a probe, which is tried on a block."""
        if probe not in self._probed:
            self._probed[probe] = passes(probe, self.model, block, self.sites)
        return self._probed[probe]

    def full_pass(self, chains: int | None = None) -> FullPass:
        """The model's log marginal density on all blocks."""
        return FullPass(self.density(chains), self.blocks, self.sites, self.distinct)

    def distinct(self, block: Block) -> tuple[Block, Tensor] | None:
        """One item for all that the model cannot tell apart, as of ``Block.distinct``; None where there are few.

        To a model without a site in plates, it may be all the same who gave a label, if the data tell nothing of
        them. Probes find a model that looks at other items, or at who gave a label all the same.
        """
        if self.linked or any(site.local for site in self.sites.values()):
            return None
        if not self.reads.items:
            block = block.bare
        known = block.history is not None or block.annotator_covariates is not None
        anonymous = not known and not any(site.batch_shape for site in self.sites.values())
        if anonymous and block.distinct_answers is not None and self._passes(tells_no_annotators, block):
            return block.distinct_answers
        return block.distinct if block.distinct and self._passes(tells_items_by_labels, block) else None

    def first_values(self, generator: torch.Generator) -> dict[str, Tensor]:
        """A first value for each site: the model's own start where it has one, else the prior mean."""
        start = getattr(self.model, "init", None)
        local = any(s.local for s in self.sites.values())
        all_items = local or start is not None  # a start may read all labels
        block = self.whole() if all_items else next(b for b in self.blocks if b.n_items)
        given = {**({} if start is None else dict(start(block))), **self.given}
        given = {n: x.double() for n, x in given.items() if n in self.sites}
        return first_values(self.model, block, list(self.sites), given, generator)

    @cached_property
    def signatures(self) -> Signatures:
        """Hashes of items, annotators and classes that labels cannot tell apart."""
        return signatures(self.blocks)

    @cached_property
    def label_power(self) -> Power | None:
        """Why the model's likelihood of an item's labels is not their probability; None where it is."""
        first = next(b for b in self.blocks if b.n_items)
        return label_power(self.model, replace(first, repeat_correlation=0.0))

    @cached_property
    def weighs_repeats(self) -> bool:
        """Whether labels that an annotator gives to one item count for less than one each."""
        return any(block.weights is not None for block in self.blocks)

    @cached_property
    def typical_labels(self) -> TypicalLabels:
        """Labels over which tables of annotators are averaged."""
        return TypicalLabels.of(self.blocks, self.reads.tables)

    @cached_property
    def typical_items(self) -> tuple[CovariateColumns | None, Tensor]:
        """Item covariates over which tables of annotators are averaged, and their shares."""
        return typical_items(self.blocks, self.reads.items)

    def start_name(self, number: int) -> str:
        """What start number n is made from: the votes, moments of annotators, or perturbed votes."""
        if self.truth is None or self.truth in self.given or (number == 0 and self._tells_truths):
            return "prior" if self.truth is None else "given"
        return {0: "votes", 1: "spectral"}.get(number, f"perturbed votes {number}")

    @property
    def _tells_truths(self) -> bool:
        """Whether a start gives confusions, which tell truths themselves."""
        card = card_of(self.model)
        return card is not None and card.confusion in self.given and self.truth not in self.given

    def start_shares(self, number: int) -> Tensor | None:
        """Truth shares (N, K) of start number n, by position; None without a truth."""
        if self.truth is None or self.truth in self.given:
            return self.given.get(self.truth or "")
        if number == 0:
            return torch.cat([soft_truth(votes([block])).to(block.dtype) for block in self.blocks])
        if number == 1:
            return spectral_truth(self.blocks)
        places = [(block, self.place(block)) for block in self.blocks]
        streams = ((b, self.options.generator(3, number, *([at] if at else []))) for b, at in places)
        return torch.cat([soft_truth(votes([block]), stream).to(block.dtype) for block, stream in streams])

    def start_potentials(self, number: int) -> dict[str, Tensor]:
        """Log-potentials of the truth at start number n, for a pass; none where confusions of the start tell it.

        Of votes, they are without what the pass would sum out.
        """
        if number == 0 and self._tells_truths:
            return {}
        if number == 0 and self.truth not in self.given and self.sums_others:
            return {str(self.truth): named_soft_truth(self.blocks).log()}
        shares = self.start_shares(number)
        return {} if shares is None or self.truth is None else {self.truth: shares.log().t()}


class Known(NamedTuple):
    """A model that was read, how it was, what its attributes held by then, and what it was found to be."""

    model: Callable[[], Any]
    how: Hashable
    contents: list[Any]
    structure: ModelStructure


_structures: WeakKeyDictionary[Annotations, dict[int, Known]] = WeakKeyDictionary()
"""The models that were read on data that are still there, by id."""


def _structure_on(model: Model, blocks: Sequence[Block], data: Annotations | None) -> ModelStructure:
    """What a model is found to be; found once where a fit and what is asked of it build its problem in turn."""
    block, known = next(b for b in blocks if b.n_items), any(b.says_of_truths for b in blocks)
    block = replace(block, repeat_correlation=0.0)  # some structures are found by draws, which weights forbid
    if data is None or networks_of(model) or not type(model).__weakrefoffset__:
        return structure_of(model, block, known)
    how, kept, mine = (known, block.device, block.dtype), _structures.get(data, {}), contents(model)
    last = kept.get(id(model))
    if last is None or last.model() is not model or last.how != how or not same_contents(last.contents, mine):
        last = Known(ref(model), how, mine, structure_of(model, block, known))
        _structures[data] = {k: x for k, x in kept.items() if x.model() is not None} | {id(model): last}
    return last.structure


def build_problem(
    model: Model,
    data: Annotations,
    options: Options,
    start: Mapping[str, Tensor] | None = None,
    evidence: Tensor | None = None,
) -> Problem:
    """Model and data as engines take them: fresh blocks on the device, in the right precision.

    Args:
        start: values of sites, or truth shares (N, K), as arrays or tensors; what is of items in the order of the
            blocks (``data.order``).
        evidence: (N, K) log-potentials of the truth, in the same order.

    Raises:
        MethodError: for a start that names no site, or has another shape than its site.
        NumericalError: for a start that is not finite; it names the site.
        DataError: for numbers that lie where the model has none.
    """
    require_space(model, data)
    given, data = data, with_missing(model, data)
    dtype = options.dtype or (torch.float64 if reduced(data.n_labels) < LARGE else torch.float32)
    blocks = with_network_outputs(model, data, data.on(options.device, dtype))
    blocks = [replace(b, sparse=True) for b in blocks]
    if data.soft is not None and not reads_soft_labels(model, next(b for b in blocks if b.n_items)):
        raise MethodError(
            f"{type(model).__name__} reads labels as classes, and these are soft (probabilities, or answers seen "
            "with noise); choose another method, or read the most probable classes as labels"
        )
    known = None if evidence is None else evidence.to(options.device, dtype)
    if known is not None:
        blocks = [replace(b, evidence=known[b.offset : b.offset + b.n_items]) for b in blocks]

    def whole() -> Any:
        if len(blocks) == 1:
            return blocks[0]
        every = with_network_outputs(model, data, [data.as_block().to(options.device, dtype)])[0]
        return replace(every, evidence=known)

    problem = Problem.of(model, blocks, options, whole, given).in_narrow_blocks()
    if start is not None and not isinstance(start, Mapping):
        raise MethodError(
            f"start is {kind_of(start)}; give a mapping from names of sites to values, "
            "such as .start of what crowdppl.moments finds"
        )
    return replace(problem, given=_checked(problem, start)) if start else problem


def model_sites(model: Model, data: Annotations) -> dict[str, Site]:
    """A model's sites, as a run on one item shows them; of features, one row is read.

    Raises:
        MethodError: when the model does not run on these data.
    """
    block = next(b for b in with_missing(model, data).blocks if b.n_items).subset(np.arange(1), 1.0)
    if networks_of(model):
        row: Any = None if data.features is None else data.features[:1]
        block = replace(block, features=feature_tensor(replace(data, features=row)))
    with model_runs(model, data):
        return sites_by_shape(model, cached_outputs(model, [block])[0])


def _checked(problem: Problem, start: Mapping[str, Any]) -> dict[str, Tensor]:
    """Values to start from, each in the shape of its site."""
    n, k = problem.n_items, problem.blocks[0].n_classes
    shapes = {site: x.shape(n) for site, x in problem.sites.items()}
    shapes |= {} if problem.truth is None else {problem.truth: (n, k)}
    out = {}
    for site, value in start.items():
        if site not in shapes:
            raise MethodError(
                f"start names {shown(site)}, which is no site of {type(problem.model).__name__} that a fit starts "
                f"from; choose from {', '.join(shapes)}"
            )
        try:
            x = torch.as_tensor(value).detach().to(problem.options.device, torch.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise MethodError(f"start of site {shown(site)} is no array of numbers ({error}); give one") from error
        if tuple(x.shape) != shapes[site]:
            raise MethodError(
                f"start of site {shown(site)} has shape {tuple(x.shape)}, not {shapes[site]}; give that"
            )
        if not bool(torch.isfinite(x).all()):
            raise NumericalError(f"start of site {shown(site)} holds a value that is not finite; give numbers")
        out[site] = x
    shares = out.get(problem.truth or "")
    if shares is not None and bool((shares <= 0).any()):
        raise MethodError(
            f"start of site {problem.truth!r} holds {float(shares.min()):g}; shares must be above 0, for no label "
            "moves those that are not"
        )
    return out


def with_network_outputs(model: Model, data: Annotations, blocks: list[Block]) -> list[Block]:
    """Blocks with features, and with what the model's networks make of them, where it has any.

    Raises:
        DataError: when the model has a network and the data have no features.
    """
    found = networks_of(model)
    if not found:
        return blocks
    features = placed_features(data)
    for network in found.values():
        network.to(blocks[0].device)
    if features is not None:
        features = features.to(blocks[0].device)
        spans = (slice(b.offset, b.offset + b.n_items) for b in blocks)
        blocks = [replace(b, features=features[at]) for b, at in zip(blocks, spans, strict=True)]
    return cached_outputs(model, blocks)
