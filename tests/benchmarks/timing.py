"""Seconds side by side: tasks take turns, and the least of several rounds counts."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Lets torch use n threads, and restores what was before."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def on_threads(n: int, task: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with threads(n):
            return task()

    return run


def least_seconds(
    tasks: Mapping[str, Callable[[], object]], rounds: int, *, again: bool = False
) -> dict[str, float]:
    """Least wall-clock seconds of each task.

    Every round runs all tasks in turn, so that a machine that is busy for a while slows all of them, and the
    least over rounds is what each takes when nothing disturbs it. One round before that is not counted: it
    pays for imports, compilation and the first touch of memory.

    Args:
        tasks: what to run, by name.
        rounds: how often each is measured.
        again: whether each runs twice in its turn, of which the second time counts: what other tasks, and a
            collection of garbage before each turn, have put out of the processor's caches is then back.
    """
    seconds = dict.fromkeys(tasks, float("inf"))
    for turn in range(rounds + 1):
        for name, task in tasks.items():
            gc.collect()
            if again:
                task()
            began = time.perf_counter()
            task()
            took = time.perf_counter() - began
            if turn:
                seconds[name] = min(seconds[name], took)
    return seconds
