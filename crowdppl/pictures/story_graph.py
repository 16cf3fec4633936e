"""What a story's variables depend on and which plates they lie in, asked of the story itself by running it once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist

from crowdppl.data.annotations import Annotations
from crowdppl.data.stored_features import read
from crowdppl.errors import CrowdpplWarning, MethodError
from crowdppl.networks.sight import networks_of

ITEMS, ANNOTATORS, FEATURES = "items", "annotators", "features"
SEEN = "items with features"
"""Pyro wants another name for each plate object of a story."""


@dataclass(frozen=True)
class StoryGraph:
    """The variables of a story.

    Attributes:
        parents: of each variable, in the order in which the story draws them.
        plates: the variables of each plate, outer plates first.
        observed: labels, and features where the story looks at them.
    """

    parents: Mapping[str, tuple[str, ...]]
    plates: Mapping[str, tuple[str, ...]]
    observed: frozenset[str]

    def plates_of(self, name: str) -> frozenset[str]:
        """The plates that a variable lies in."""
        return frozenset(plate for plate, members in self.plates.items() if name in members)

    def children(self, name: str) -> tuple[str, ...]:
        """The variables that depend on one directly."""
        return tuple(child for child, parents in self.parents.items() if name in parents)


def graph_of(story: Any, data: Annotations) -> StoryGraph:
    """The graph of a story as it is on some data.

    Pyro places the labels, which are ragged, in the plate of items (and of groups). Each belongs to one item and
    one annotator, so that here they lie where those two plates meet.

    Args:
        story: a story.
        data: annotations of the kind that it takes; small ones do.

    Raises:
        MethodError: when the story draws no labels.
    """
    from pyro.infer.inspect import get_model_relations

    prepare = getattr(story, "prepare", None)
    found = get_model_relations(_on(story if prepare is None else prepare(data), data))
    factors = {name for name, fn in found["sample_dist"].items() if fn == "Unit"}
    parents = {name: tuple(above) for name, above in found["sample_sample"].items() if name not in factors}
    labels = [name for name, fn in found["sample_dist"].items() if fn == "Labels"]
    if not labels:
        raise MethodError("the story draws no labels: call crowdppl.annotate inside the plate of items")
    plates = _plates(found["plate_sample"], parents, labels)
    return StoryGraph(parents, plates, frozenset(found["observed"]) & parents.keys())


def _on(story: Any, data: Annotations) -> Callable[[], None]:
    """The story on data, as a program without arguments that looks at features where it has networks."""
    block = data.as_block()

    def model() -> None:
        if block.features is None or not networks_of(story):
            story.model(block)
            return
        # No Delta: Pyro traces nothing to it. Networks are asked beforehand, as where a story is not learning.
        features = read(block.features)
        near = dist.Normal(features, 1.0).to_event(features.dim() - 1)
        with pyro.plate(SEEN, block.n_items):
            x = pyro.sample(FEATURES, near, obs=features)
        seen = {name: network(x) for name, network in networks_of(story).items()}
        story.model(replace(block, features=x, seen=seen, _views={}))

    return model


def _plates(
    found: Mapping[str, Sequence[str]], names: Collection[str], labels: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Members by plate, larger plates first: labels among items and annotators, features among items."""
    out = {plate: [n for n in members if n in names and n not in labels] for plate, members in found.items()}
    out[ITEMS] = [*out.get(ITEMS, []), *out.pop(SEEN, []), *labels]
    out[ANNOTATORS] = [*out.get(ANNOTATORS, []), *labels]
    return {plate: tuple(members) for plate, members in sorted(out.items(), key=lambda p: -len(p[1])) if members}


def a_few_labels() -> Annotations:
    """Twelve items with two features, labelled by four annotators with one of three grades."""
    rng = np.random.default_rng(1)
    item, annotator = np.divmod(np.arange(48), 4)
    label, features = rng.integers(3, size=48), rng.normal(size=(12, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdpplWarning)
        return Annotations.from_arrays(
            item, annotator, label, kind="ordinal", items=np.arange(12), features=features
        )
