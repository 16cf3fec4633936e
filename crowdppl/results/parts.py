"""Posteriors as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdppl import registry
from crowdppl.data import shelving
from crowdppl.errors import MethodError, ResultError
from crowdppl.inference import memory
from crowdppl.inference.fit_result import FitResult, SiteResult
from crowdppl.networks.sight import networks_of
from crowdppl.networks.weights import described, restored, without_networks
from crowdppl.results.correction import Correction
from crowdppl.results.maps import TruthMap
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations
    from crowdppl.posterior import Posterior

PASSING = ("callback", "progress")
"""Options that tell how a fit is watched, not what it is; they are not kept."""


def taken_apart(posterior: Posterior) -> dict[str, Any]:
    """A posterior as values that ``pack`` takes; the fits that its correction holds are of the same data."""
    return {
        **_fit_apart(posterior),
        "data": shelving.take_apart(posterior.data),
        "correction": None if posterior.correction is None else _correction_apart(posterior.correction),
    }


def put_together(
    build: Callable[..., Posterior], contents: Mapping[str, Any], folder: Path, story: Story | None, features: Any
) -> Posterior:
    """The posterior that ``taken_apart`` described.

    Args:
        build: ``Posterior`` itself.
        contents: the values.
        folder: where they are from, for errors.
        story, features: as for ``crowdppl.load``.

    Raises:
        ResultError: when another method is handed over, or none and the saved one is not known.
    """
    data, parts = shelving.put_together(contents["data"], features), contents["correction"]
    fit = build(**_fit_of(folder, contents, data, story))
    if parts is None:
        return fit
    others = {name: build(**_fit_of(folder, other, data, None)) for name, other in parts["others"].items()}
    found = None if parts["truth_map"] is None else TruthMap(**parts["truth_map"])
    return replace(fit, correction=Correction(**{**parts, "truth_map": found, "others": others}))


def _fit_apart(posterior: Posterior) -> dict[str, Any]:
    """A fit without its data and its correction."""
    return {
        "method": posterior.method,
        "settings": without_networks(posterior.story),
        "networks": described(posterior.story),
        "inference": posterior.inference,
        "options": {name: x for name, x in posterior.options.items() if name not in PASSING},
        "memory": None if posterior.memory is None else posterior.memory.taken_apart(),
        "result": {field.name: getattr(posterior.result, field.name) for field in fields(FitResult)}
        | {"sites": {name: vars(site) for name, site in posterior.result.sites.items()}},
    }


def _correction_apart(correction: Correction) -> dict[str, Any]:
    """A correction and the fits that it holds."""
    found = correction.truth_map
    return vars(correction) | {
        "truth_map": None if found is None else vars(found),
        "others": {name: _fit_apart(fit) for name, fit in correction.others.items()},
    }


def _fit_of(folder: Path, contents: Mapping[str, Any], data: Annotations, given: Story | None) -> dict[str, Any]:
    """What a posterior is built from, its correction apart."""
    story = _story(folder, contents["method"], contents["settings"], given)
    result = dict(contents["result"])
    sites = {name: SiteResult(**parts) for name, parts in result.pop("sites").items()}
    return {
        "story": restored(story, contents["networks"], data),
        "method": contents["method"],
        "inference": contents["inference"],
        "data": data,
        "result": FitResult(sites=sites, **result),
        "options": contents["options"],
        "memory": None if contents.get("memory") is None else memory.put_together(contents["memory"]),
    }


def _story(folder: Path, saved: str, settings: Mapping[str, Any], given: Story | None) -> Story:
    """The method as it was fitted; one that was handed over, where no name leads to it or for its networks.

    Raises:
        ResultError: when another method is handed over, or none and the saved one is not known.
    """
    if given is not None:
        name = registry.name_of(given)
        if name != saved and (name is not None or saved in registry.names()):
            other = name or type(given).__qualname__
            raise ResultError(
                f"{folder} holds a posterior of {saved}, and story= is {other}: hand over the method fitted"
            )
        if name is None:
            return given
        settings = {**settings, **networks_of(given)}
    try:
        return registry.method(saved, **settings)
    except MethodError as error:
        raise ResultError(
            f"{folder} holds a posterior of {saved}, which is not known here as it was then ({error}); register "
            "the method, or hand it over with story="
        ) from error
