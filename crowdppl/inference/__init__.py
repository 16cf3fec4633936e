"""Engines: they know stories, never a method by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from crowdppl.errors import DataError, MethodError

if TYPE_CHECKING:
    import torch

    from crowdppl.annotations import Annotations
    from crowdppl.inference.options import FitOptions
    from crowdppl.posterior import Posterior
    from crowdppl.story import Story


def fit(
    method: str | Story,
    data: Annotations,
    *,
    inference: str = "auto",
    settings: Mapping[str, Any] | None = None,
    gold: Any = None,
    start: Mapping[str, torch.Tensor] | None = None,
    **options: Unpack[FitOptions],
) -> Posterior:
    """Learns the truth of every item, and how good every annotator is, from their labels.

    Args:
        method: a name of the zoo (``crowdppl.zoo()`` lists them), or a story of your own: any object with
            ``model(data)``. "auto" averages methods by how well they predict labels that they were not shown, and
            corrects probabilities that are too sure (``crowdppl.automatic``).
        data: the annotations.
        inference: "em", "vb", "gibbs", "nuts", "svi", or "auto": gibbs where it is exact and should take less
            than about ten seconds by a formula in labels, classes and chains, else vb.
        settings: of a method given by name, such as ``{"prevalence": "uniform"}``.
        gold: known truths by item id (a Series or mapping): data, not a score. Replaces gold that ``data`` hold.
        start: values of sites to start from, by site name.
        options: of the engine; ``crowdppl.inference.options.Options`` describes them all. The commonest are
            seed (0), device ("cpu", "cuda" or "auto"), tolerance and max_iterations of em and vb, restarts,
            chains (4; up to 32 for gibbs on small data), draws (500) and warmup (250) of gibbs and nuts,
            batch_size, progress and callback.

    Returns:
        The posterior. A fit that was interrupted by Ctrl-C returns what there is, marked unconverged. The same
        seed gives the same result bit for bit on CPU.

    Raises:
        MethodError: for an unknown method, setting, option or engine, or an engine that cannot treat the story.
        DataError: for gold that does not fit the data, or data that are no annotations.
        NumericalError: when a number is not finite; it names the site.
    """
    from crowdppl import registry
    from crowdppl.annotations import Annotations
    from crowdppl.checking import require_labels
    from crowdppl.inference.fitting import run
    from crowdppl.inference.options import options_from
    from crowdppl.posterior import Posterior

    if not isinstance(data, Annotations):
        raise DataError(
            f"data is a {type(data).__name__}; make annotations of it first: crowdppl.read_annotations(path), or "
            "crowdppl.Annotations.from_frame(frame)"
        )
    require_labels(data.blocks)
    data = data if gold is None else data.with_gold(gold)
    if method == "auto":
        return _automatic(data, inference, settings is None and start is None, options)
    if settings and not isinstance(method, str):
        raise MethodError(f"settings={dict(settings)!r} go with a method's name; give them to {method!r} itself")
    story = registry.resolve(method) if settings is None else registry.method(str(method), **dict(settings))
    chosen = options_from(options, inference, data.n_labels * data.n_classes)
    fitted, engine, result = run(story, data, inference, chosen, start)
    return Posterior(
        story=fitted,
        method=registry.name_of(story) or f"{type(story).__module__}.{type(story).__qualname__}",
        inference=engine,
        data=data,
        result=result,
        options=chosen.kept(),
    )


def _automatic(data: Annotations, inference: str, alone: bool, options: FitOptions) -> Posterior:
    """method="auto"; looked up by name, because it calls ``fit``."""
    if not alone or inference not in ("auto", "vb"):
        raise MethodError(
            "method='auto' chooses methods and engines itself: leave settings, start and inference out, or name one"
        )
    posterior: Posterior = import_module("crowdppl.automatic").fit_auto(data, options)
    return posterior
