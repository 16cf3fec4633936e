"""Replay of recorded tensor operations without the Python around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Tensors = dict[str, Tensor]
Inputs = Mapping[str, Tensor | Generator]
Function = Callable[[Any], Tensors]
"""From tensors and random streams by name to tensors by name."""
aten = torch.ops.aten
SAME = frozenset(getattr(aten, name).default for name in ("detach", "view", "permute", "squeeze", "expand"))
"""Operations that move no number, and often give back a tensor of the same form: a step for nothing."""
WAITS = (
    "aten::cholesky",
    "aten::_cholesky",
    "aten::linalg_",
    "aten::_linalg_",
    "crowdppl::filtered",
    "crowdppl::potts",
)
"""Beginnings of the names of operations that wait for a GPU, or copy to it, which no graph of kernels repeats."""
SHAPED = frozenset(getattr(aten, name).default for name in ("ones_like", "zeros_like", "full_like", "new_zeros"))
"""Operations that read the form of a tensor, and no number: backward passes begin with one."""
FIRST = 5
"""Calls before a function is recorded: about as many as recording costs."""


def with_prefix(by_name: Mapping[str, Any], prefix: str) -> Tensors:
    """The tensors below a name, without it."""
    at = len(prefix) + 1
    return {name[at:]: x for name, x in by_name.items() if name.startswith(f"{prefix}.")}


def arrays_of(record: Any, name: str = "") -> Tensors:
    """The tensors of a record, of tables of tensors and of records within, by name."""
    if isinstance(record, Tensor):
        return {name: record}
    within = record if isinstance(record, Mapping) else {} if record is None else vars(record)
    first = f"{name}." if name else ""
    return {key: x for part, found in within.items() for key, x in arrays_of(found, f"{first}{part}").items()}


def put_back(record: Any, arrays: Mapping[str, Tensor], name: str = "") -> Any:
    """A record like another one, of what ``arrays_of`` returned; KeyError where something is lacking."""
    if record is None or isinstance(record, Tensor):
        return None if record is None else arrays[name]
    if isinstance(record, Mapping):  # in the order of the other, as sums are in that order
        found = with_prefix(arrays, name)
        return {key: found[key] for key in dict.fromkeys([*record, *found])}
    first = f"{name}." if name else ""
    return replace(record, **{part: put_back(x, arrays, f"{first}{part}") for part, x in vars(record).items()})


_numbers = count()


class Step(NamedTuple):
    """An operation as a line of Python, whose variables are assigned once.

    Attributes:
        line, uses, makes: the line, and its variables.
        writes: whether it changes an argument, or the state of a stream.
        unsteady: whether numbers come out as Python's, or decide the shape of what comes out.
        waits: whether it waits for a GPU.
        shaped: whether it reads no number, so that the same comes out of other inputs.
    """

    line: str
    uses: set[str]
    makes: list[str]
    writes: bool
    unsteady: bool
    waits: bool
    shaped: bool


@dataclass(frozen=True)
class Program:
    """The operations of a recorded function, as a function of its inputs in order.

    Args:
        function: them.
        waits: whether one waits for a GPU.
    """

    function: Callable[..., Tensors]
    waits: bool

    def __call__(self, *inputs: Any) -> Tensors:
        """The function's results."""
        return self.function(*inputs)


@dataclass(frozen=True)
class Graph:
    """A program on CUDA as one graph, whose kernels are launched together and read and write where it was made.

    Args:
        program: the program, whose constants the graph reads where they lie.
        graph: its kernels.
        inputs, outputs: what these read and write.
    """

    program: Program
    graph: torch.cuda.CUDAGraph
    inputs: Inputs
    outputs: Tensors

    @classmethod
    def of(cls, program: Program, inputs: Inputs) -> Graph:
        """The graph of a program that has run before."""
        own, graph = _copied(inputs), torch.cuda.CUDAGraph()
        for x in own.values():
            if isinstance(x, Generator):
                graph.register_generator_state(x)
        with torch.cuda.graph(graph):
            outputs = program(*own.values())
        return cls(program, graph, own, outputs)

    def __call__(self, *inputs: Any) -> Tensors:
        """The program's results; random streams move on."""
        pairs = list(zip(self.inputs.values(), inputs, strict=True))
        for own, x in pairs:
            own.copy_(x) if isinstance(own, Tensor) else own.set_state(x.get_state())
        self.graph.replay()
        for own, x in pairs:
            if isinstance(own, Generator):
                x.set_state(own.get_state())
        return {name: x.clone() for name, x in self.outputs.items()}


@cache
def _known(operation: Any) -> tuple[Any, list[tuple[int, str]], bool, bool, bool]:
    """What is known of an operation before it runs.

    How Python calls it, which reads arguments in half the time, or itself; which arguments it writes to; whether it
    draws, numbers decide a shape, and it waits for a GPU.
    """
    space, _, name = operation._schema.name.partition("::")
    found = (getattr(x, name, None) for x in (torch._C._VariableFunctions, torch._C.TensorBase))
    quick = next((x for x in found if x is not None and space == "aten"), operation)
    given = enumerate(operation._schema.arguments)
    writes = [(i, x.name) for i, x in given if x.alias_info is not None and x.alias_info.is_write]
    draws, dynamic = torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape
    tags, waits = operation.tags, operation._schema.name.startswith(WAITS)
    return quick, writes, draws in tags, dynamic in tags, waits


class Recorder(TorchDispatchMode):
    """Writes operations down as they happen; of tensors it keeps those alone that depend on no input."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step] = []
        self.held: dict[str, Any] = {}  # what is no input, and depends on none
        self.found: list[Tensor] = []  # of this, tensors that were there before
        self.written: set[int] = set()
        self.outside = {_place(x) for x in inputs.values() if isinstance(x, Tensor)}
        self.repeats = True
        self.inputs = [self._new(x) for x in inputs.values()]
        pairs: Any = zip(self.inputs, inputs.values(), strict=True)
        self.streams: dict[int, str] = {x._cdata: name for name, x in pairs if hasattr(x, "manual_seed")}
        self.moving = set(self.inputs)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled; else torch would import its compiler first, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, (quick, writes, seeded, dynamic, waits) = kwargs or {}, _known(func)
        try:
            made = quick(*args, **kwargs)
        except TypeError:  # whose arguments are others there
            made, quick = func(*args, **kwargs), func
        if func in SAME and (made.shape, made.stride()) == (args[0].shape, args[0].stride()):
            made._variable = self._name(args[0], set())
            return made
        uses = set[str]()
        given = [self._name(x, uses) for x in args] + [f"{n}={self._name(x, uses)}" for n, x in kwargs.items()]
        for x in (args[i] if i < len(args) else kwargs[name] for i, name in writes):
            if x._variable not in self.moving or _place(x) in self.outside:
                self.written.add(_place(x))
        several = made if isinstance(made, (list, tuple)) else (made,)
        makes = [self._new(x) for x in several]
        if func in SHAPED or self.moving.isdisjoint(uses):
            self.held.update(zip(makes, several, strict=True))
        else:
            self.moving.update(makes)
        self.repeats &= not seeded or not uses.isdisjoint(self.streams.values())
        if func is aten.index.Tensor:
            dynamic = any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])
        unsteady = dynamic or not all(isinstance(x, Tensor) for x in several)
        line = f"{', '.join(makes)}{',' if several is made else ''} = {self._name(quick, uses)}({', '.join(given)})"
        self.steps.append(Step(line, uses, makes, seeded or bool(writes), unsteady, waits, func in SHAPED))
        return made

    def _new(self, x: Any) -> str:
        """A variable, which is written on a tensor."""
        name = f"v{next(_numbers)}"
        if isinstance(x, Tensor):
            x._variable = name  # type: ignore[attr-defined]
        return name

    def _name(self, x: Any, uses: set[str]) -> str:
        """The variable of an argument, or the list of those in a list."""
        if isinstance(x, (list, tuple)):
            return f"[{', '.join(self._name(y, uses) for y in x)}]"
        name: str = getattr(x, "_variable", "")
        if not name and isinstance(x, Generator):
            name = self.streams.get(x._cdata, "")  # type: ignore[attr-defined]
        if name not in self.moving and name not in self.held:
            name = self._new(x)
            self.held[name] = x
            self.found += [x] if isinstance(x, Tensor) else []
        uses.add(name)
        return name

    def program(self, inputs: Inputs, outputs: Tensors) -> Program | None:
        """The steps that depend on the inputs as a function of these; None where it would not do the same again."""
        outside = [*self.found, *(x for x in inputs.values() if isinstance(x, Tensor))]
        if not self.repeats or any(_place(x) in self.written for x in outside):
            return None
        kept = []
        for step in self.steps:
            made = (self.held.get(name) for name in step.makes)
            changed = any(isinstance(x, Tensor) and _place(x) in self.written for x in made)
            if changed or not (step.shaped or self.moving.isdisjoint(step.uses)):
                if step.unsteady:
                    return None
                self.moving.update(step.makes)
                kept.append(step)
        needed = set[str]()
        lines = [f"return {{{', '.join(f'{n!r}: {self._name(x, needed)}' for n, x in outputs.items())}}}"]
        for step in reversed(kept):
            if step.writes or not needed.isdisjoint(step.makes):
                spent = (step.uses.union(step.makes) & self.moving) - needed
                lines += [f"del {', '.join(spent)}"] if spent else []
                lines.append(step.line)
                needed |= step.uses
        source = f"def program({', '.join(self.inputs)}):\n " + "\n ".join(reversed(lines))
        variables = {name: self.held[name] for name in needed - self.moving}
        exec(source, variables)  # as dataclasses are made: an interpreter of steps would be longer and slower
        return Program(torch.no_grad()(variables["program"]), any(step.waits for step in kept))


def _place(x: Tensor) -> int:
    """Where a tensor lies in memory; a sparse one, which lies in several places, stands for itself."""
    return int(x.untyped_storage()._cdata) if x.layout == torch.strided else id(x)


def recorded(function: Function, inputs: Inputs) -> tuple[Tensors, Program | None]:
    """Runs a function and records its operations, those of backward passes inside it included.

    Its program is None where it draws otherwise than by a stream among the inputs, looks at numbers that depend on
    these (``if x > 0``), or writes to what was there before.
    """
    own = {name: x.detach() if isinstance(x, Tensor) else x for name, x in inputs.items()}
    with Recorder(own) as recorder:
        outputs = function(own)
    return outputs, recorder.program(own, outputs)


@dataclass
class Replayed:
    """A function of tensors that is replayed by its operations alone after some calls, bit for bit.

    On a small block, Pyro's and torch's bookkeeping takes longer than arithmetic. The function is recorded after
    some calls, compared with its record at the next call with other values, and replaced by it. One that cannot be
    replayed is called each time. On CUDA, the operations become one graph of kernels. (``make_fx`` of torch cannot
    trace sparse CSR matrices, which have no strides.)

    Args:
        function: whose results depend on its inputs, and on nothing else that changes. Its first result, where it
            is not finite, is the function's own to explain: it is called again.
        first: calls before it is recorded; 0 where it is mostly called a dozen times or more.
    """

    function: Function
    first: int = FIRST
    calls: int = field(default=0, init=False)
    program: Program | Graph | None = field(default=None, init=False)
    trusted: bool = field(default=False, init=False)
    _hopeless: bool = field(default=False, init=False)
    _at: Inputs = field(default_factory=dict, init=False)
    _like: list[Any] = field(default_factory=list, init=False)

    def __call__(self, inputs: Inputs) -> Tensors:
        """The function's results."""
        self.calls += 1
        if self._hopeless or self.calls <= self.first:
            return self.function(inputs)
        if self.program is None:
            results, self.program = recorded(self.function, inputs)
            self._hopeless, self._at, self._like = self.program is None, _copied(inputs), _likeness(inputs)
            return results
        if _likeness(inputs) != self._like:
            return self.function(inputs)
        if not self.trusted:
            return self._compared(inputs, self.program)
        found = self.program(*inputs.values())
        first = next(iter(found.values()))
        return found if math.isfinite(float(first.sum())) else self.function(inputs)

    def _compared(self, inputs: Inputs, program: Any) -> Tensors:
        """The function's results, by which those of its operations are judged, unless nothing has moved."""
        found = program(*_copied(inputs).values())
        results = self.function(inputs)
        pairs = ((x, inputs[n]) for n, x in self._at.items())
        if any(not torch.equal(x, y) for x, y in pairs if isinstance(x, Tensor) and isinstance(y, Tensor)):
            self.trusted = results.keys() == found.keys() and all(_same(x, found[n]) for n, x in results.items())
            self._hopeless, self._at = not self.trusted, {}
            on_gpu = all(x.is_cuda for x in inputs.values() if isinstance(x, Tensor))
            if self.trusted and on_gpu and not program.waits:
                self.program = Graph.of(program, inputs)
        return results


def _copied(inputs: Inputs) -> Inputs:
    return {n: x.detach().clone() if isinstance(x, Tensor) else x.clone_state() for n, x in inputs.items()}


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the last bit, NaN to NaN; on CUDA, where sums vary by order, nearly so."""
    alike, near = (one.shape, one.dtype) == (other.shape, other.dtype), 1e-9 if one.is_cuda else 0.0
    return alike and (torch.equal(one, other) or torch.allclose(one, other, rtol=near, atol=near, equal_nan=True))


def _likeness(inputs: Inputs) -> list[Any]:
    """What must be the same for the same operations to be right."""
    return [(n, x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else n for n, x in inputs.items()]
