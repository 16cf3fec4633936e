"""The pages of the reference: every public name, by topic, described by its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module

import crowdppl

TOPICS: Mapping[str, tuple[str, ...]] = {
    "Annotations": ("data.annotations", "files.reading", "data.blocks", "datasets"),
    "Fitting": ("fitting", "registry", "filling"),
    "Posteriors": (
        "posterior",
        "results.decisions",
        "scoring.metrics",
        "pictures.reliability",
        "pictures.risk_plot",
    ),
    "Comparing and checking": (
        "choosing.comparison",
        "choosing.heldout",
        "choosing.classifier_scores",
        "choosing.rivalry",
        "results.leave_one_out",
        "criticism.checks",
        "criticism.doubt",
        "criticism.suspicion",
        "results.outliers",
        "contract.ranks",
        "contract.sbc",
        "criticism.crowd_map",
        "agreement.table",
        "agreement.groups",
    ),
    "Simulation": ("crowds.simulation", "crowds.simulated_crowd", "crowds.known_kinds", "few_shot.episodes"),
    "Writing a story": (
        "stories.story",
        "pictures.story_plot",
        "stories.card",
        "stories.likelihood",
        "stories.covariates",
        "stories.abstentions",
        "stories.labels",
        "stories.distributions",
        "stories.priors",
        "stories.confusions",
        "stories.summing",
        "stories.grades",
        "stories.atoms",
        "stories.membership",
        "stories.departures",
        "stories.label_rows",
        "few_shot.clouds",
        "few_shot.unrolled",
        "networks.embedding",
        "networks.experts",
        "few_shot.meta_training",
        "criticism.population",
        "networks.views",
        "stories.urns",
        "networks.recipes",
        "inference.guides",
        "networks.network",
        "networks.sight",
        "networks.training",
    ),
    "Errors and warnings": ("errors",),
}
"""Modules whose public names a page describes."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "crowdppl.datasets": ("available", "load", "Dataset"),
    "crowdppl.primitives.plates": (),
    "crowdppl.testing": (),
}
"""Modules that users open as such; names to describe, where they are not all that the module defines."""


class MissingError(ValueError):
    """A public name has no page in the reference."""


def pages() -> dict[str, str]:
    """All pages of the reference in Markdown, by their path on the site; mkdocstrings fills them from docstrings.

    Raises:
        MissingError: when a public name's module is on no page.
    """
    placed = {module for modules in TOPICS.values() for module in modules}
    missing = [module for module in crowdppl._PUBLIC if module not in placed]
    if missing:
        raise MissingError(f"no page of the reference has {', '.join(missing)}; add them to TOPICS in {__name__}")
    out = {"reference/index.md": _index()}
    for topic, modules in TOPICS.items():
        described = [_described(name) for module in modules for name in crowdppl._PUBLIC.get(module, ())]
        out[path_of(topic)] = "\n\n".join([f"# {topic}", *described]) + "\n"
    for module, names in MODULES.items():
        what = [_described(f"{module.partition('.')[2]}.{name}") for name in names] or [f"::: {module}"]
        out[f"reference/{module.rpartition('.')[2]}.md"] = "\n\n".join([f"# {module}", *what]) + "\n"
    return out


def path_of(topic: str) -> str:
    """The path of a topic's page: "Comparing and checking" is "reference/comparing-and-checking.md"."""
    return f"reference/{topic.lower().replace(' ', '-')}.md"


def _index() -> str:
    parts = [
        "# Reference",
        "All public names, by topic. They are names of `crowdppl` itself, which imports what one needs when it is "
        "first used.",
    ]
    for topic, modules in TOPICS.items():
        names = [name for module in modules for name in crowdppl._PUBLIC.get(module, ())]
        page = path_of(topic).partition("/")[2]
        rows = [f"| [`{name}`]({page}#crowdppl.{name}) | {_summary(name)} |" for name in names]
        parts += [f"## {topic}", "\n".join(["| name | |", "| --- | --- |", *rows])]
    rows = [f"| [`{m}`]({m.rpartition('.')[2]}.md) | {_summary(m)} |" for m in MODULES]
    parts += ["## Modules", "\n".join(["| name | |", "| --- | --- |", *rows])]
    return "\n\n".join(parts) + "\n"


def _described(name: str) -> str:
    return f"::: crowdppl.{name}\n    options:\n      heading: {name}\n      toc_label: {name}"


def _summary(name: str) -> str:
    """The first paragraph of a docstring, of a public name or of a module."""
    thing = import_module(name) if name in MODULES else getattr(crowdppl, name)
    first = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|").replace("](", "]\\(")
