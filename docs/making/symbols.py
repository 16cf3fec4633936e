"""The letters of the literature for the sites of the zoo, and the words of their shapes, each in one place.

Symbols are the usual ones: prevalence, confusion, truth and label as in Passonneau & Carpenter (2014), The benefits
of a model of annotation, TACL 2; where the paper of a method has letters of its own for what is particular to it,
those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class SymbolError(ValueError):
    """A site or a word of a shape has no symbol or meaning here."""


@dataclass(frozen=True)
class Symbol:
    """A letter, and what it stands for.

    Attributes:
        letter: as the literature writes it, without indices.
        meaning: in a few words.
    """

    letter: str
    meaning: str


SYMBOLS: Mapping[str, Symbol] = {
    "ability": Symbol("θ", "probabilities of a right and of a wrong label"),
    "abstention": Symbol("η", "probabilities of giving a class and of each way of declining"),
    "alike": Symbol("τ", "how closely annotators follow their community"),
    "alike_classes": Symbol("κ₁", "how closely an annotator's classes follow their ability"),
    "alike_errors": Symbol("κ₂", "how closely an annotator's errors follow the crowd's"),
    "bias": Symbol("β", "leniency, in grades"),
    "centre": Symbol("γ", "blend of experts around which those of annotators vary"),
    "closeness": Symbol("κ", "how closely annotators' blends follow the centre, in pseudo-counts"),
    "cluster": Symbol("m", "the cluster that an item belongs to"),
    "common": Symbol("C", "effect of the crowd's shared noise on the classifier's probabilities"),
    "community": Symbol("m", "the community that an annotator belongs to"),
    "group": Symbol("g", "the group that an annotator belongs to"),
    "competence": Symbol("θ", "probabilities of knowing and of guessing"),
    "concentration": Symbol("κ", "how closely annotators follow the crowd, in pseudo-counts"),
    "confusion": Symbol("θ", "probability of each label, given the truth"),
    "crowd": Symbol("ζ", "confusion of the crowd, around which those of annotators vary"),
    "departure": Symbol("e", "offset of a single label"),
    "difficulty": Symbol("δ", "difficulty of an item, on a log scale"),
    "embedding": Symbol("u", "embedding of an item"),
    "error": Symbol("ε", "probability of each wrong label, given an error"),
    "errors": Symbol("ζ", "probability of each wrong label, given an error of the crowd"),
    "features": Symbol("x", "features of an item"),
    "gate": Symbol("g", "an annotator's blend of experts"),
    "gap": Symbol("κ", "how much further a lead must be for the next grade"),
    "guess": Symbol("ξ", "probability of each label when guessing"),
    "habit": Symbol("σ", "potentials of an annotator's labels, given the truth"),
    "hardness": Symbol("χ", "spread of difficulties"),
    "hit": Symbol("θ", "probabilities of a right and of a wrong label, by class"),
    "individual": Symbol("W", "effect of an annotator's own noise on the classifier's probabilities"),
    "initial": Symbol("π", "how common each class is at the start of a sequence"),
    "judge": Symbol("θ", "probability of each label, given how the panel reads an item"),
    "kind": Symbol("c", "the blend of classes that an item is"),
    "kinds": Symbol("λ", "how common each blend is"),
    "label": Symbol("y", "label of an item by an annotator"),
    "looks": Symbol("χ", "how probable one look is, and two"),
    "lean": Symbol("Λ", "offset of an annotator's confusion by an item's features"),
    "level": Symbol("λ", "mean and precision of items' numbers"),
    "link": Symbol("φ", "probability of a group's opinion, given the truth"),
    "log_gap": Symbol("ln Δγ", "distance between neighbouring cutpoints, on a log scale"),
    "log_precision": Symbol("−ln σ", "how sharply an annotator sees, on a log scale"),
    "logits": Symbol("β", "log-odds of each label, given the truth"),
    "mean": Symbol("μ", "mean of the items of a class"),
    "membership": Symbol("π", "how much an object belongs to each cluster"),
    "mix": Symbol("B", "how an annotator and an item are mixed"),
    "opinion": Symbol("o", "opinion of a group on an item"),
    "outlier": Symbol("o", "whether an item is an outlier"),
    "person": Symbol("π", "probability of a person's label, given the truth"),
    "precision": Symbol("τ", "precision of labels, all annotators alike"),
    "prevalence": Symbol("π", "how common each class is"),
    "reading": Symbol("r", "class that an item looks like to the panel, and how clearly"),
    "readings": Symbol("ρ", "how common each reading is"),
    "reliability": Symbol("η", "probabilities of a right and of a wrong answer of an annotator"),
    "rate": Symbol("ρ", "how common outliers are"),
    "readout": Symbol("V", "from annotator and item to a confusion"),
    "scale": Symbol("γ", "distance at which annotators count as different"),
    "share": Symbol("h", "how common each cluster is"),
    "shared": Symbol("ψ", "probability of each label in a community, given the truth"),
    "skill": Symbol("μ", "accuracy of the crowd"),
    "spread": Symbol("ω", "spread of annotators around the crowd"),
    "subtype": Symbol("g", "the subtype of an item within its class"),
    "subtypes": Symbol("π", "how common each subtype of a class is"),
    "taste": Symbol("u", "how much an annotator follows the shared noise"),
    "trap": Symbol("τ", "potentials of an item's labels, given the truth"),
    "transition": Symbol("T", "probability of each class after another"),
    "truth": Symbol("z", "class of an item"),
    "view": Symbol("v", "answer of an expert on an item without features"),
    "weights": Symbol("h", "how common each community is"),
    "step": Symbol("τ", "where a grade passes into the next"),
    "log_slope": Symbol("ln α", "how sharply a criterion tells items apart"),
    "severity": Symbol("β", "severity of a rater"),
    "log_centrality": Symbol("ln ξ", "how a rater keeps to the middle grades"),
    "log_consistency": Symbol("ln κ", "how sharply a rater tells items apart"),
    "expert_severity": Symbol("β*", "severity of an expert, who gave the known grades"),
    "log_expert": Symbol("ln κ*", "how sharply the expert tells items apart"),
    "impact": Symbol("γ", "effect of an item's group on its place"),
    "dif": Symbol("ψ", "effect of an item's group on the difficulty of a criterion"),
}
"""By site."""

NUMBERS = ("gain_annotators", "gaussian_annotators", "label_mean", "robust_annotators")
"""Methods for labels that are numbers."""

COMPARISONS = ("bradley_terry", "crowd_bt", "ordinal_bradley_terry", "preference_groups", "reward_model")
"""Methods for comparisons of objects."""

OWN: Mapping[tuple[str, str], Symbol] = {
    **{(name, "truth"): Symbol("z", "number of an item") for name in NUMBERS},
    **{(name, "skill"): Symbol("λ", "skill of an object") for name in COMPARISONS},
    **{(name, "truth"): Symbol("z", "which of two objects is preferred") for name in COMPARISONS},
    **{(name, "advantage"): Symbol("δ", "log-odds that the left side gains") for name in COMPARISONS},
    ("plackett_luce", "skill"): Symbol("λ", "skill of an object"),
    ("plackett_luce", "weakness"): Symbol("λ⁻¹", "how bad an object is"),
    ("plackett_luce", "reliability"): Symbol("η", "probabilities that an annotator ranks by skill, and at random"),
    ("plackett_luce", "truth"): Symbol("z", "rank of an object in one more ranking"),
    ("preference_groups", "weights"): Symbol("h", "how common each group is"),
    ("crowd_layer", "weights"): Symbol("W", "effect of an annotator on the classifier's probabilities"),
    ("madl", "embedding"): Symbol("a", "embedding of an annotator"),
    ("ebcc", "confusion"): Symbol("v", "probability of each label, given truth and subtype"),
    ("ebcc", "prevalence"): Symbol("τ", "how common each class is"),
    ("global_noise", "confusion"): Symbol("ζ", "probability of each label, given the truth, all annotators alike"),
    ("gaussian_annotators", "error"): Symbol("ε", "bias and precision of an annotator"),
    ("gain_annotators", "error"): Symbol("ε", "gain, bias and precision of an annotator"),
    ("poisson_annotators", "gain"): Symbol("γ", "how much of what there is an annotator counts"),
    ("poisson_annotators", "rate"): Symbol("β", "rate of the Gamma distribution of items' counts"),
    ("poisson_annotators", "truth"): Symbol("z", "count of an item, by an annotator of gain 1 on average"),
    ("von_mises_annotators", "bias"): Symbol("β", "by how much an annotator's angles are turned"),
    ("von_mises_annotators", "concentration"): Symbol("κ", "how closely an annotator's angles follow the truth"),
    ("von_mises_annotators", "truth"): Symbol("z", "angle of an item"),
    ("drifting_coin", "path"): Symbol("z", "the accuracy of an annotator in each period"),
    ("attribute_dawid_skene", "common"): Symbol("ζ", "an annotator's confusion over all groups of items"),
    ("attribute_dawid_skene", "alike"): Symbol("κ", "how closely rows in a group follow it, in pseudo-counts"),
    ("rater_facets", "mean"): Symbol("μ", "mean of items' places"),
    ("rater_facets", "width"): Symbol("ω", "standard deviation of items' places"),
    ("rater_facets", "difficulty"): Symbol("δ", "difficulty of a criterion"),
    ("rater_facets", "truth"): Symbol("z", "place of an item on the scale"),
    ("robust_annotators", "bias"): Symbol("b", "by how much an annotator's labels are too high"),
    ("robust_annotators", "spread"): Symbol("σ", "how far an annotator's labels scatter"),
    ("robust_annotators", "mean"): Symbol("μ", "mean of items' numbers"),
    ("robust_annotators", "slope"): Symbol("β", "change of items' numbers with a covariate"),
    ("robust_annotators", "width"): Symbol("ω", "standard deviation of items' numbers"),
    ("glad", "ability"): Symbol("α", "ability of an annotator, on a scale of log-odds"),
    ("glad", "difficulty"): Symbol("−ln β", "difficulty of an item, on a log scale"),
    ("hierarchical_mixed_membership", "ability"): Symbol("α", "accuracy of an annotator"),
    ("set_clusters", "rate"): Symbol("φ", "how often a class is in the sets of a cluster"),
    ("set_clusters", "truth"): Symbol("z", "whether a class is in the set of an item"),
    ("record_linkage", "rate"): Symbol("φ", "how often records of a pair are the same, by what other pairs say"),
    ("record_linkage", "truth"): Symbol("z", "whether both records are the same"),
    ("crowd_clustering", "truth"): Symbol("z", "whether both objects are of one cluster"),
    ("majority_vote", "ability"): Symbol(
        "θ", "probabilities of a right and of a wrong label, all annotators alike"
    ),
    ("multinomial", "confusion"): Symbol("ζ", "probability of each label, given the truth, all annotators alike"),
}
"""By method and site, where a site means something else there or its paper has another letter."""

SIZES: Mapping[str, tuple[str, str]] = {
    "A": ("a", "annotators"),
    "C": ("c", "mean of an item's number, a slope for each covariate, and precision"),
    "D": ("d", "1, or the states that labels depend on where declining may depend on the class"),
    "G": ("g", "groups of two and more annotators"),
    "J": ("j", "gaps between cutpoints, K − 2"),
    "K": ("k", "classes"),
    "L": ("l", "answers: classes and ways of declining"),
    "M": ("m", "a setting of the method"),
    "N": ("i", "items"),
    "O": ("o", "objects that are compared"),
    "Q": ("q", "length of an annotator's embedding"),
    "R": ("r", "a setting of the method"),
    "S": ("s", "blends of classes"),
    "T": ("t", "states that labels depend on: classes, and those of the method's own"),
    "W": ("w", "giving a class, and each way of declining"),
    "X": ("x", "no label before, and each class: K + 1"),
    "coin": ("", "right and wrong"),
    "other": ("l", "classes but the true one, K − 1"),
}
"""Index and meaning, by the word of a shape; numbers, and sums and products of words, need no entry."""

OWN_SIZES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("coin_net", "S"): ("s", "labels"),
    ("ordinal_bradley_terry", "M"): ("m", "grades by which one object may be better"),
    ("set_clusters", "C"): ("c", "classes that a set can hold"),
    ("judge_panel", "R"): ("r", "readings: levels of clarity times classes, M K"),
    ("drifting_coin", "P"): ("p", "paths of accuracies over the periods"),
    ("attribute_dawid_skene", "G"): ("g", "groups of items, by the values of an attribute"),
    ("preference_groups", "G"): ("g", "groups of annotators who prefer alike"),
    ("set_clusters", "G"): ("g", "items that sets are given to"),
    ("set_clusters", "N"): ("i", "items with a class each"),
}
"""By method and word, where a word means something else there."""


def symbol(method: str, site: str) -> Symbol:
    """The symbol of a site of a method.

    Raises:
        SymbolError: when there is none.
    """
    found = OWN.get((method, site)) or SYMBOLS.get(site)
    if found is None:
        raise SymbolError(
            f"the site {site!r} of {method} has no symbol; add it to SYMBOLS in docs/making/symbols.py"
        )
    return found


def indices(method: str, shape: str) -> str:
    """The indices of a site, from its shape on the card: "A K K" is "a,k,l", "1+G N" is "g,i", "A 2" is "a".

    Raises:
        SymbolError: when a word of the shape is unknown.
    """
    out: list[str] = []
    for word in shape.split():
        letters = "".join(size(method, part)[0] for part in parts(word))
        out.append("l" if letters == "k" and "k" in out else letters)
    return ",".join(letter for letter in out if letter)


def parts(word: str) -> list[str]:
    """The sizes in a word of a shape: "K*M" has K and M, "1+G" has G, "2" none."""
    return [part for part in word.replace("*", "+").split("+") if not part.isdigit()]


def size(method: str, word: str) -> tuple[str, str]:
    """Index and meaning of a size of a method.

    Raises:
        SymbolError: when there is none.
    """
    found = OWN_SIZES.get((method, word)) or SIZES.get(word)
    if found is None:
        raise SymbolError(
            f"the size {word!r} of {method} has no meaning; add it to SIZES in docs/making/symbols.py"
        )
    return found
