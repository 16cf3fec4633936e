"""Models some of whose sites have known values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.primitives.model import Model, card_of


def fixed(model: Model, values: Mapping[str, Any]) -> Model:
    """A model with known values in place of some of its sites, which no engine then moves.

    With all sites known, ``em`` takes one E step: the truth under the model's likelihood of these values, as for
    moments (``crowdppl.moments``) or for confusions that are known. A network of the model still learns.

    Args:
        model: the method, as ``crowdppl.method`` makes it, or one of your own.
        values: of sites by name, arrays or tensors, each of its site's shape: "confusion" (A, K, K) and
            "prevalence" (K,) of dawid_skene, say.

    Returns:
        A model with the same settings. A posterior of it is saved as of a model of your own: hand the model to
        ``crowdppl.load(path, model=...)``.

    Raises:
        MethodError: in a fit, for a name that is no site, or a value that has another shape than its site or lies
            where the site does not.

    Examples:
        >>> data = crowdppl.simulate_annotators([0, 1] * 50, {"hammer": 3}, seed=0).data
        >>> known = {"confusion": crowdppl.moments.spectral(data).start["confusion"]}
        >>> model = crowdppl.primitives.fixed(crowdppl.method("dawid_skene", prevalence="uniform"), known)
        >>> posterior = crowdppl.fit(model, data, inference="em")
        >>> bool(abs(posterior.confusion() - known["confusion"].numpy()).max() < 1e-6)
        True
    """
    known = {name: torch.as_tensor(value).detach().double().cpu() for name, value in values.items()}
    base: Any = type(model)

    def held(program: str) -> Any:
        of_base: Any = getattr(base, program)
        of_self = isinstance(of_base, property)
        found: Any = of_base.fget if of_self else None

        def run(self: Any, data: Any) -> Any:
            with _Held(base.__name__, known) as holder:
                out = found(self)(data) if of_self else of_base(self, data)
            holder.require_all()
            return out

        return property(lambda self: None if found(self) is None else partial(run, self)) if of_self else run

    parts: dict[str, Any] = {name: held(name) for name in ("model", "counting") if hasattr(base, name)}
    card = card_of(model)
    if card is not None:
        sites = {name: shape for name, shape in card.sites.items() if name not in known}
        named = {what: "" for what in ("confusion", "prevalence") if getattr(card, what) in known}
        parts["card"] = replace(card, sites=sites, **cast(Any, named))
    out: Any = object.__new__(type(base.__name__, (base,), {**parts, "__module__": base.__module__}))
    out.__dict__.update(vars(model))
    return cast(Model, out)


class _Held(Messenger):
    """Puts known values in the place of sites, which nobody outside then sees."""

    def __init__(self, model: str, values: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.model, self.values, self.met = model, values, set[str]()

    def _pyro_sample(self, msg: Any) -> None:
        value = self.values.get(msg["name"])
        if value is None:
            return
        plates = sum(plate.vectorized for plate in msg["cond_indep_stack"])  # those of the model, not of chains
        full = (1,) * plates + msg["fn"].batch_shape + msg["fn"].event_shape
        shape = full[len(full) - plates - len(msg["fn"].event_shape) :]
        if tuple(value.shape) != tuple(shape):
            raise MethodError(
                f"the fixed value of site {msg['name']!r} has shape {tuple(value.shape)}, not {tuple(shape)}; give "
                "that, or leave it out of fixed()"
            )
        value = value.to(torch.get_default_device(), torch.get_default_dtype())
        if not bool(msg["fn"].support.check(value).all()):
            raise MethodError(
                f"the fixed value of site {msg['name']!r} lies outside of {msg['fn'].support}; give values "
                "that sum to one where the site is of proportions, and are finite"
            )
        self.met.add(msg["name"])
        msg["value"], msg["stop"] = value, True

    def require_all(self) -> None:
        """Refuses values of no site."""
        if missing := self.values.keys() - self.met:
            raise MethodError(
                f"fixed() names {', '.join(map(repr, sorted(missing)))}, which the model {self.model} does not "
                "draw; give values of its sites alone"
            )
