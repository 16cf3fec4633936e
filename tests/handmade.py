"""A made-up posterior for pictures, and what is written on axes."""

from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba

from crowdppl.data.annotations import Annotations
from crowdppl.inference.result import OnDemand, SiteResult, TableDraws
from crowdppl.plots.axes import ACCENT
from crowdppl.posterior import Posterior
from crowdppl.primitives.model import Card
from tests.class_result import class_result


class Handmade:
    card: ClassVar[Card] = Card("Handmade", "nobody")

    def model(self, data: Any) -> None: ...


def posterior(n_annotators: int = 3, n_classes: int = 2, drawn: bool = True, **diagnostics: Any) -> Posterior:
    """A made-up result; annotators "a0", "a1", ... label 20 items."""
    stream = np.random.default_rng(0)
    names = [f"a{n}" for n in range(n_annotators)]
    items, annotators = np.repeat(np.arange(20), n_annotators), np.tile(names, 20)
    classes = [f"class {k}" for k in range(n_classes)]
    labels = stream.choice(classes, len(items))
    data = Annotations.from_arrays(items, annotators, labels, classes=classes)
    tables = stream.dirichlet(np.ones(n_classes), (100, n_annotators, n_classes))
    shares = stream.dirichlet(np.ones(n_classes), 100)
    chains = stream.normal(size=(4, 25, n_annotators))
    chains[1, :, 2 % n_annotators] += 5  # the entry on which the chains agree least
    sites = {
        "ability": SiteResult("ability", ("annotator",), "draws", {"draws": chains}),
        "prevalence": SiteResult("prevalence", ("class",), "draws", {"draws": shares.reshape(4, 25, -1)}),
    }
    found = class_result(
        sites=sites if drawn else {},
        probabilities=stream.dirichlet(np.ones(n_classes), 20),
        table=tables.mean(0),
        prevalence=shares.mean(0),
        diagnostics=diagnostics,
        draws=OnDemand.of(TableDraws(tables, shares)) if drawn else None,
    )
    return Posterior(Handmade(), "handmade", "gibbs" if drawn else "em", data, found)


def texts(axes: Axes) -> list[str]:
    """What is written on the axes."""
    return [text.get_text() for text in axes.texts]


def coloured(axes: Axes) -> list[Any]:
    """Colours of lines and areas that are neither greys nor the accent."""
    colors = [line.get_color() for line in axes.lines] + [line.get_markerfacecolor() for line in axes.lines]
    for part in axes.collections:
        colors += [*part.get_facecolor(), *part.get_edgecolor()]
    colors += [patch.get_facecolor() for patch in axes.patches]
    seen = (to_rgba(color) for color in colors)
    return [color for color in seen if color[3] > 0 and len(set(color[:3])) > 1 and color[:3] != to_rgb(ACCENT)]
