"""The log-factors of a story's discrete sites, and sites whose marginal follows from that of the one above them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from pyro.poutine import Trace
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.inference.reading.nodes import is_plate, nodes
from crowdppl.inference.reading.ring import SYMBOLS, narrowed
from crowdppl.stories.distributions import Categorical


def scored(
    trace: Trace, values: Mapping[str, Tensor], drawing: bool
) -> tuple[dict[str, Tensor], dict[str, int], float]:
    """What discrete and observed sites contribute.

    Args:
        trace: of the story, discrete sites enumerated.
        values: sites that were given.
        drawing: whether counts are to be drawn.

    Returns:
        Log-factors by site, expanded to the site's plates or not, the dimension of each discrete site's values
        counted from the right, and the scale.

    Raises:
        MethodError: when a latent is neither given nor enumerated, scales differ, or a minibatch is to be drawn.
    """
    factors, dims, scales = {}, {}, set()
    for name, node in nodes(trace).items():
        if node["type"] != "sample" or name in values or is_plate(node):
            continue
        dim = node["infer"].get("_enumerate_dim")
        if dim is None and not node["is_observed"]:
            raise MethodError(
                f"site {name!r} has no value: the engine neither infers nor enumerates it; mark a discrete "
                'site with infer={"enumerate": "parallel"}, or use svi with a guide of your own'
            )
        fn = node["fn"]
        factors[name] = (fn.log_factor if isinstance(fn, Categorical) else fn.log_prob)(node["value"])
        scales.add(float(node["scale"]))
        if dim is not None:
            dims[name] = dim
    if len(scales) > 1:
        raise MethodError(f"the story's discrete and observed sites have different scales {sorted(scales)}")
    scale = scales.pop() if scales else 1.0
    if scale != 1.0 and drawing:
        raise MethodError("draws need all items: a minibatch has a scale, and a scaled draw means nothing")
    return factors, dims, scale


@dataclass(frozen=True)
class Leaf:
    """A site below one other.

    Its own probe would have an entry for every pair of values and item: for a truth below many kinds of items that
    is most of the memory and time of a pass.

    Attributes:
        parent: name of the site above.
        conditional: p(value | parent's value), unit dimensions where it does not vary.
        dim: of the parent's values, counted from the right.
    """

    parent: str
    conditional: Tensor
    dim: int

    def marginal(self, above: Tensor) -> Tensor:
        """The site's marginal from its parent's, which has the parent's dimensions; the parent's is left as 1."""
        n = self.conditional.dim()
        letters = SYMBOLS[:n]
        above = above.reshape((1,) * (n - above.dim()) + above.shape)
        left = letters.replace(letters[self.dim], "")
        return torch.einsum(f"{letters},{letters}->{left}", self.conditional, above).unsqueeze(self.dim)


def find_leaves(names: Collection[str], factors: Mapping[str, Tensor], dims: Mapping[str, int]) -> dict[str, Leaf]:
    """Those of some sites that are leaves.

    Args:
        names: sites whose marginals are wanted.
        factors: log-factors of all discrete and observed sites.
        dims: dimension of each discrete site's values, counted from the right.
    """
    if not names:
        return {}
    narrow = {name: narrowed(x) for name, x in factors.items()}
    found = {}
    for name in names:
        if name not in dims:
            continue
        touched = [other for other, x in narrow.items() if _varies(x, dims[name])]
        above = [other for other, dim in dims.items() if other != name and _varies(narrow[name], dim)]
        if touched == [name] and len(above) == 1:
            conditional = narrow[name].detach().log_softmax(dims[name]).exp()
            found[name] = Leaf(above[0], conditional, dims[above[0]])
    return found


def states_of(trace: Trace, n_items: int) -> int:
    """The most log-factors that an item has: the alternatives that a pass keeps apart.

    Args:
        trace: of a story on some items, discrete sites enumerated and log-probabilities computed.
        n_items: how many items those are.
    """
    found = [x for x in nodes(trace).values() if x["type"] == "sample" and not is_plate(x)]
    of_items = [x for x in found if x["is_observed"] or x["infer"].get("_enumerate_dim") is not None]
    return max((-(-narrowed(x["log_prob"]).numel() // n_items) for x in of_items), default=1)


def _varies(x: Tensor, dim: int) -> bool:
    return x.dim() >= -dim and x.shape[dim] > 1
