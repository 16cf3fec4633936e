"""That a story's labels come with probabilities, checked without any fit."""

from __future__ import annotations

from itertools import pairwise, product

import torch

from crowdppl.contract.stories import latent_values, ready
from crowdppl.contract.trial import Trial, require
from crowdppl.data.annotations import Annotations
from crowdppl.errors import NumericalError
from crowdppl.inference.reading.density import Density
from crowdppl.inference.reading.problem import quiet
from crowdppl.stories.story import plates_of

OFF = 1e-6
"""Largest distance from one that is rounding."""


def answers_sum_to_one(trial: Trial) -> None:
    """At a draw from the prior, all that an item's annotators might say has probability one, whatever the item.

    Rows that do not sum to one are fitted without a word, and errors weigh more or less than they should.
    """
    names = [str(name) for name in trial.data.annotators]
    rows = [(f"one {a}", a) for a in names]
    rows += [(f"two {a}", each) for a, b in pairwise(names) for each in (a, b)]
    items, people = zip(*rows, strict=True)
    design = Annotations.design(items, people, like=trial.data, **trial.covariates(items, people))
    story, block = ready(trial, design), design.as_block()
    second = torch.cat([torch.zeros(1, dtype=torch.bool), block.item[1:] == block.item[:-1]])
    pairs = torch.zeros(block.n_items, dtype=torch.bool).index_fill(0, block.item[second], True)
    totals = torch.zeros(block.n_items, dtype=torch.float64)
    with quiet("cpu"):
        values = latent_values(story, block.answered(block.bags.cells), 4)
        density = Density(story.model, plates_of(story))
        for one, two in product(range(block.n_answers), repeat=2):
            cells = block.annotator * block.n_answers + torch.where(second, two, one)
            try:
                chance = density(block.answered(cells.int()), values).per_item.detach().double().exp()
            except NumericalError:
                return  # some answer is impossible here, and how likely the others are cannot be asked one by one
            totals += torch.where(pairs, chance, chance / block.n_answers)
    worst = float(totals[(totals - 1).abs().argmax()])
    require(
        abs(worst - 1) <= OFF,
        f"all answers of an item together have probability {worst:.6g}, not 1; make each row of the table that "
        "annotate takes sum to one over answers",
    )
