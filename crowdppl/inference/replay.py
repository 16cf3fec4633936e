"""Replay of recorded tensor operations without the Python around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Tensors = dict[str, Tensor]
Memory = list[Any]


class Step(NamedTuple):
    """One operation: ``args`` takes its arguments from memory, ``places`` says where what it makes goes."""

    run: Callable[..., Any]
    args: Callable[[Memory], Sequence[Any]]
    kwargs: dict[str, Any]
    places: int | Sequence[int]


@dataclass(frozen=True)
class Program:
    """A recorded function: operations on tensors, in order.

    Attributes:
        memory: what is there before the first step: whatever depends on no input.
        inputs, outputs: their places in memory.
        found: tensors that were there before the function ran, and their versions.
    """

    memory: Memory
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    steps: Sequence[Step]
    found: Sequence[tuple[Tensor, int]]

    @property
    def stale(self) -> bool:
        """Whether something that the function found, such as a network's weight, was written to since."""
        return any(x._version != version for x, version in self.found)

    @torch.no_grad()
    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensors:
        """The outputs at other inputs of the same shapes, strides and types."""
        memory = list(self.memory)
        for name, place in self.inputs.items():
            memory[place] = inputs[name]
        for run, args, kwargs, places in self.steps:
            made = run(*args(memory), **kwargs)
            if type(places) is int:
                memory[places] = made
            else:
                for place, x in zip(places, made, strict=True):  # type: ignore[arg-type]
                    memory[place] = x
        return {name: memory[place] for name, place in self.outputs.items()}


def fetching(args: Sequence[Any]) -> Callable[[Memory], Sequence[Any]]:
    """What takes arguments from their places in memory: quickly, unless there is a list of places among them."""
    if args and list not in map(type, args):
        return itemgetter(*args) if len(args) > 1 else itemgetter(slice(args[0], args[0] + 1))

    def filled(memory: Memory, places: Sequence[Any] = args) -> list[Any]:
        return [filled(memory, x) if type(x) is list else memory[x] for x in places]

    return filled


class Kind(NamedTuple):
    """What is known of an operation wherever it happens."""

    writes: list[int]
    """Which of its arguments it writes to."""
    draws: bool
    shapes: bool
    """Whether numbers decide the shape of what comes out."""
    masks: bool
    """Whether they do where it is given a mask."""


class Operation(NamedTuple):
    """One operation as it happened: ``written`` are the tensors that it changed in place."""

    run: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: Any
    kind: Kind
    reads: list[Tensor]
    makes: list[Tensor]
    written: list[Tensor]

    @classmethod
    def of(cls, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> Operation:
        """From what the recorder noted."""
        kind = _kind(run)
        written = tensors([args[i] for i in kind.writes])
        return cls(run, args, kwargs, made, kind, tensors((*args, *kwargs.values())), tensors(flat(made)), written)

    @property
    def unsteady(self) -> bool:
        """Whether numbers come out as Python's, or decide the shape of what comes out."""
        if self.kind.masks:
            return any(x.dtype in (torch.bool, torch.uint8) for x in self.reads[1:])
        return self.kind.shapes or len(self.makes) < len(flat(self.made))


def flat(x: Any) -> Sequence[Any]:
    """What an operation made, as a list."""
    return x if isinstance(x, (list, tuple)) else (x,)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    """Those among some values, however deep in lists."""
    out: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            out.append(x)
        elif isinstance(x, (list, tuple)):
            out += tensors(x)
    return out


@cache
def _kind(run: Any) -> Kind:
    declared = [x.alias_info for x in run._schema.arguments if not x.kwarg_only]
    writes = [i for i, info in enumerate(declared) if info is not None and info.is_write]
    seeded, dynamic = torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape
    masks = run is torch.ops.aten.index.Tensor  # of which only masks decide a shape
    return Kind(writes, seeded in run.tags, dynamic in run.tags, masks)


Function = Callable[[Mapping[str, Tensor]], Tensors]
LARGEST = 200_000_000
"""Bytes that a recording may form: beyond, arithmetic takes so long that little is gained, and memory counts."""
LOOKS = frozenset(
    (Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__, Tensor.data_ptr, Tensor.untyped_storage)
)
"""Ways to a tensor's numbers that are no operations."""
aten = torch.ops.aten
IDLE = frozenset((aten.detach.default, aten.view.default, aten.permute.default, aten.squeeze.default))
"""Operations that move no number, and often give back a tensor of the same form: a step for nothing."""

_aside: ContextVar[bool] = ContextVar("aside", default=False)


def recorded(function: Function, inputs: Mapping[str, Tensor]) -> tuple[Tensors, Program | None]:
    """Runs a function and records its operations, those of backward passes inside it included.

    Its program is None where it has none, because it draws at random, looks at numbers that depend on the inputs
    (``if x > 0``), writes to what was there before, or is too large.
    """
    own = {name: x.detach() for name, x in inputs.items()}
    with _Looks() as looks, _Recorder() as recorder:
        outputs = function(own)
    if recorder.size > LARGEST:
        return outputs, None
    operations = [Operation.of(*noted) for noted in recorder.noted]
    return outputs, _Writing(own, outputs, operations, looks.seen).program()


@contextmanager
def aside() -> Iterator[None]:
    """Marks code on which results do not depend, such as a check that may raise an error."""
    token = _aside.set(True)
    try:
        yield
    finally:
        _aside.reset(token)


class _Looks(TorchFunctionMode):
    """Notes tensors whose numbers are read otherwise than by operations."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in LOOKS and not _aside.get():
            self.seen.append(args[0])
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    """Notes every operation; what it is made of is looked at later, when no arithmetic waits for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noted: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []
        self.size = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled; else torch would import its compiler first, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        if not _aside.get():
            self.size += made.nbytes if type(made) is Tensor else sum(x.nbytes for x in tensors(flat(made)))
            if self.size > LARGEST:
                self.noted = []  # what it holds is let go
            else:
                self.noted.append((func, args, kwargs, made))
        return made


@dataclass
class _Writing:
    """Builds a program from recorded operations.

    What depends on the inputs is found by storage, which a tensor shares with its views. All tensors of the
    recording are alive, so that no two of them share storage by chance.
    """

    inputs: Tensors
    outputs: Tensors
    operations: list[Operation]
    looks: list[Tensor]
    slots: dict[int, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=list)

    def program(self) -> Program | None:
        """The operations that depend on the inputs; None where repeating them would not repeat the function."""
        places = _Places()
        found = self._found()
        where = [{places.of(x) for x in (*o.reads, *o.makes)} for o in self.operations]
        moving = self._moving(places, where)
        live = [o for o, touched in zip(self.operations, where, strict=True) if not moving.isdisjoint(touched)]
        if (
            any(o.kind.draws for o in self.operations)
            or any(o.unsteady for o in live)
            or any(tensors([*o.kwargs.values()]) for o in self.operations)
            or any(places.of(x) in moving for x in self.looks)
            or any(places.of(x) in moving for x in found.values())  # not its own, or a way in unseen
        ):
            return None
        live = self._needed(live)
        inputs = {name: self._slot(x) for name, x in self.inputs.items()}
        steps = [step for step in map(self._step, live) if step is not None]
        outputs = {name: self._slot(x, x) for name, x in self.outputs.items()}
        return Program(self.memory, inputs, outputs, steps, [(x, x._version) for x in found.values()])

    def _found(self) -> dict[int, Tensor]:
        """What was used and is neither an input nor made by an operation, which may return what it writes to."""
        own = {id(x) for x in self.inputs.values()}
        found: dict[int, Tensor] = {}
        for o in self.operations:
            for x in o.reads:
                if id(x) not in own:
                    found[id(x)] = x
            own.update([id(x) for x in o.makes if id(x) not in found])
        return found | {id(x): x for x in self.outputs.values() if id(x) not in own}

    def _moving(self, places: _Places, where: list[set[int]]) -> set[int]:
        """Places in memory that do not hold the same in each run, or at each time of one."""
        moving = {places.of(x) for x in self.inputs.values()}
        moving |= {places.of(x) for o in self.operations for x in o.written}
        before = 0
        while len(moving) > before:
            before = len(moving)
            for o, touched in zip(self.operations, where, strict=True):
                if not moving.isdisjoint(touched):
                    moving.update(map(places.of, o.makes))
        return moving

    def _needed(self, live: list[Operation]) -> list[Operation]:
        """Those that write in place, or make something that is used."""
        used, kept = {id(x) for x in self.outputs.values()}, []
        for o in reversed(live):
            if o.written or any(id(x) in used for x in o.makes):
                used.update(map(id, o.reads))
                kept.append(o)
        return kept[::-1]

    def _step(self, o: Operation) -> Step | None:
        """The step of an operation; of one that gives back the same numbers in the same place, none."""
        if o.run in IDLE and (o.made.shape, o.made.stride()) == (o.args[0].shape, o.args[0].stride()):
            self.slots[id(o.made)] = self._slot(o.args[0])
            return None
        args = [self._kept(x) for x in o.args]
        made = [self._slot(x) for x in o.makes]
        return Step(o.run, fetching(args), o.kwargs, made[0] if isinstance(o.made, Tensor) else made)

    def _slot(self, x: Any, value: Any = None) -> int:
        if id(x) not in self.slots:
            self.slots[id(x)] = len(self.memory)
            self.memory.append(value)
        return self.slots[id(x)]

    def _kept(self, x: Any) -> int | list[Any]:
        """A place in memory, filled from the start if no step fills it; for a list that holds tensors, a list."""
        if isinstance(x, (list, tuple)) and tensors(x):
            return [self._kept(y) for y in x]
        return self._slot(x, x)


class _Places(dict[int, int]):
    """Where tensors lie in memory; a sparse one, which lies in several places, stands for itself."""

    def of(self, x: Tensor) -> int:
        found = self.get(id(x))
        if found is None:
            found = self[id(x)] = x.untyped_storage()._cdata if x.layout == torch.strided else id(x)
        return found


FIRST = 5
"""Calls before a function is recorded: about as many as recording costs."""
_proven: set[Hashable] = set()


class Replayed:
    """A function of tensors that is replayed by its operations alone after some calls, bit for bit.

    On a small block, Pyro's and torch's bookkeeping takes longer than arithmetic. The function is recorded after
    some calls, compared with its record at the next call with other values, and replaced by it. One that cannot be
    replayed is called each time. (``make_fx`` of torch cannot trace sparse CSR matrices, which have no strides.)

    Args:
        function: of tensors by name, whose results depend on nothing else that changes. Its first result, where it
            is not finite, is the function's own to explain: it is called again.
        first: calls before it is recorded; 0 where it is mostly called a dozen times or more.
        kind: key of functions that do the same with other data. Once one of them could be replayed, the others are
            recorded without being compared.
    """

    def __init__(self, function: Function, first: int | None = None, kind: Hashable = None) -> None:
        self.function = function
        self.first = FIRST if first is None else first
        self.kind = kind
        self.calls = 0
        self.program: Program | None = None
        self.trusted = kind is not None and kind in _proven
        self._hopeless = False
        self._like: list[Any] = []
        self._at: Tensors = {}

    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensors:
        """The function's results."""
        self.calls += 1
        if self._hopeless or self.calls <= self.first:
            return self.function(inputs)
        if self.program is None:
            return self._written(inputs)
        if _likeness(inputs) != self._like:
            return self.function(inputs)
        if self.program.stale:
            self._hopeless, self.program = True, None
            return self.function(inputs)
        if not self.trusted:
            return self._compared(inputs, self.program({n: x.detach().clone() for n, x in inputs.items()}))
        found = self.program(inputs)
        first = next(iter(found.values()))
        return found if math.isfinite(float(first.sum())) else self.function(inputs)

    def _written(self, inputs: Mapping[str, Tensor]) -> Tensors:
        try:
            results, self.program = recorded(self.function, inputs)
        except Exception:  # torch does not let everything be watched; an error of the function's own comes again
            results = self.function(inputs)
        self._hopeless = self.program is None
        self._like, self._at = _likeness(inputs), {n: x.detach().clone() for n, x in inputs.items()}
        return results

    def _compared(self, inputs: Mapping[str, Tensor], found: Tensors) -> Tensors:
        """The function's results, by which those of its operations are judged, unless nothing has moved."""
        results = self.function(inputs)
        if any(not torch.equal(x, inputs[n]) for n, x in self._at.items()):
            self.trusted = results.keys() == found.keys() and all(_same(x, found[n]) for n, x in results.items())
            self._hopeless, self._at = not self.trusted, {}
            if self.kind is not None and self.trusted:
                _proven.add(self.kind)
        return results


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the last bit, NaN to NaN."""
    alike = (one.shape, one.dtype) == (other.shape, other.dtype)
    return alike and (torch.equal(one, other) or torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))


def _likeness(inputs: Mapping[str, Tensor]) -> list[Any]:
    """What must be the same for the same operations to be right."""
    return [(name, x.shape, x.stride(), x.dtype) for name, x in inputs.items()]
