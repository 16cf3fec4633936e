"""Annotators whose labels depend on each other: those who copy, and those who agree on what to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdppl.crowds.annotator_kinds import Hammer, Kind, check_share
from crowdppl.crowds.opinions import Draw, Opinion, Scene, opinion_of
from crowdppl.doors.counts import whole_number
from crowdppl.errors import MethodError

USUAL = Hammer()
"""How members judge where they judge for themselves."""


@dataclass(frozen=True)
class CopyingGroup:
    """A leader, and others who repeat the leader's label with probability p; otherwise each judges alone.

    Each copier decides for each item alone. What is repeated is what the leader thinks of the item, whether or not
    the leader is asked about it, too. The leader is the first of the group.

    Attributes:
        copiers: how many there are besides the leader.
        p: probability of copying.
        leader: kind of the leader.
        own: kind of a copier's own judgement.
    """

    copiers: int = 2
    p: float = 0.8
    leader: Kind = USUAL
    own: Kind = USUAL
    name: ClassVar[str] = "copying_group"

    def __post_init__(self) -> None:
        _check_size(self, "copiers", 1)
        check_share(self, "p")
        _check_kind(self, "leader")
        _check_kind(self, "own")

    def opinions(self, scene: Scene, group: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """Each member's id and opinion, the leader's first; a confusion is that of the mixture."""
        leader = opinion_of(self.leader, scene, f"{group}.1", draw)
        yield f"{group}.1", leader
        for number in range(2, self.copiers + 2):
            member = f"{group}.{number}"
            own = opinion_of(self.own, scene, member, draw)
            copied = draw(member, "copies").random(scene.n_items) < self.p
            labels = np.where(copied, leader.labels, own.labels)
            yield member, Opinion(labels, self.p * leader.confusion + (1 - self.p) * own.confusion)


@dataclass(frozen=True)
class Colluders:
    """A group that gives an item one wrong label with probability p; otherwise each judges alone.

    The wrong label is drawn evenly from the wrong ones, for each item alone.

    Attributes:
        size: how many there are.
        p: share of items on which they collude.
        own: kind of a member's own judgement.
    """

    size: int = 3
    p: float = 0.3
    own: Kind = USUAL
    name: ClassVar[str] = "colluders"

    def __post_init__(self) -> None:
        _check_size(self, "size", 2)
        check_share(self, "p")
        _check_kind(self, "own")

    def opinions(self, scene: Scene, group: str, draw: Draw) -> Iterator[tuple[str, Opinion]]:
        """Each member's id and opinion; a confusion is that of the mixture."""
        k, rng = scene.n_classes, draw(group, "collusion")
        colluding = rng.random(scene.n_items) < self.p
        wrong = (scene.truth + 1 + (rng.random(scene.n_items) * (k - 1)).astype(np.int64)) % k
        even = (1 - np.eye(k)) / (k - 1)
        for number in range(1, self.size + 1):
            member = f"{group}.{number}"
            own = opinion_of(self.own, scene, member, draw)
            labels = np.where(colluding, wrong, own.labels)
            yield member, Opinion(labels, self.p * even + (1 - self.p) * own.confusion)


def _check_size(group: Any, setting: str, least: int) -> None:
    value = getattr(group, setting)
    whole_number(f"{group.name}: {setting}", value, least)


def _check_kind(group: Any, setting: str) -> None:
    value = getattr(group, setting)
    if isinstance(value, str | type) or not callable(getattr(value, "confusion", None)):
        raise MethodError(
            f"{group.name}: {setting}={value!r} is no kind with a confusion; give one, such as "
            "crowdppl.annotator_kind('hammer', p=0.8)"
        )
