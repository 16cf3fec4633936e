"""The zoo's table: what each engine does with each story."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crowdppl.errors import MethodError
from crowdppl.inference.climbing.variational import prepare
from crowdppl.inference.engine_choice import refuse
from crowdppl.inference.options import Options
from crowdppl.inference.reading.posing import pose
from crowdppl.inference.reading.problem import Problem, quiet
from crowdppl.inference.sampling import gibbs, nuts
from crowdppl.stories.story import Story

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations


def cell(story: Story, data: Annotations, engine: str) -> str:
    """What an engine does with a story: "exact", "mean-field", "gradient", or why it refuses.

    Args:
        story: a method.
        data: any annotations of the kind that it takes; the story is run on a few items of it.
        engine: one of the engines.
    """
    ready = getattr(story, "prepare", None)
    options = replace(Options(), max_iterations=1, draws=4, warmup=1, chains=1)
    try:
        story = story if ready is None else ready(data)
        refuse(story, engine)
        with quiet("cpu"):
            return _cell(pose(story, data, options), engine)
    except MethodError as error:
        return f"refused: {error}"


def _cell(problem: Problem, engine: str) -> str:
    kinds = {s.kind for s in problem.sites.values()}
    if engine in ("em", "vb"):
        prepare(problem, problem.options, engine, problem.start(0)[1])
        if engine == "em":
            return "gradient" if "free" in kinds else "mean-field" if "onehot" in kinds else "exact"
        return "gradient" if "free" in kinds else "mean-field"
    if engine == "gibbs":
        gibbs.Gibbs(problem, problem.options)
        return "exact"
    if engine == "nuts":
        nuts.Marginal(problem)
        return "gradient"
    return "gradient"
