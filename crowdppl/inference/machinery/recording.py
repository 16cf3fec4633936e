"""The operations of a function of tensors, written down as they happen, those of backward passes included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from crowdppl.inference.machinery.operations import Operation, flat, tensors
from crowdppl.inference.machinery.program import Memory, Program, Step, Tensors, fetching

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
    """Runs a function and writes its operations down, those of backward passes inside it included.

    Args:
        function: of tensors by name; what it returns depends on nothing else that changes.
        inputs: by name.

    Returns:
        What the function returned, and its program; None where it has none, because it draws at random, looks at
        numbers that depend on the inputs (``if x > 0``), writes to what was there before, or is too large.
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
    """Marks what decides nothing that a function returns, such as a look at numbers that may raise an error."""
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
        return func(*args, **kwargs) if kwargs else func(*args)


class _Recorder(TorchDispatchMode):
    """Notes every operation; what it is made of is looked at later, when no arithmetic waits for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noted: list[tuple[Any, tuple[Any, ...], dict[str, Any] | None, Any]] = []
        self.size = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled; else torch would import its compiler first, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **kwargs) if kwargs else func(*args)
        if not _aside.get():
            self.size += made.nbytes if type(made) is Tensor else sum(x.nbytes for x in tensors(flat(made)))
            if self.size > LARGEST:
                self.noted = []  # what it holds is let go
            else:
                self.noted.append((func, args, kwargs, made))
        return made


@dataclass
class _Writing:
    """A program in the making.

    What depends on the inputs is told by where it lies in memory, which a tensor shares with its views. All tensors
    of the recording are alive, so that no two of them share it by chance.
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
            or any(tensors([*o.kwargs.values()]) for o in self.operations if o.kwargs)  # never seen in a story
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
        """Places in memory that do not hold the same in each run, or at each time of one.

        Args:
            places: in memory.
            where: each operation reads or makes something.
        """
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
        if o.run in IDLE and _form(o.made) == _form(o.args[0]):
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


def _form(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.stride()


class _Places(dict[int, int]):
    """Where tensors lie in memory; a sparse one, which lies in several places, stands for itself."""

    def of(self, x: Tensor) -> int:
        found = self.get(id(x))
        if found is None:
            found = self[id(x)] = x.untyped_storage()._cdata if x.layout == torch.strided else id(x)
        return found
