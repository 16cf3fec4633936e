"""The words that a model is written in: ``import crowdppl.primitives as cp``."""

from crowdppl.core.collective import reduced
from crowdppl.core.validation import Count, NotNegative, Positive, Share, Whole, check_settings
from crowdppl.data.blocks import Block
from crowdppl.data.kinds.angles import Circle
from crowdppl.primitives import plates
from crowdppl.primitives.chains import chain, succession, successions
from crowdppl.primitives.comparisons import RankedLabels, annotate_each, preferences
from crowdppl.primitives.distributions import Categorical, ChosenDirichlet, NormalGamma, OneHot, ScaledNormal
from crowdppl.primitives.fixed import fixed
from crowdppl.primitives.gaussian_labels import (
    Errors,
    GaussianLabels,
    Level,
    Scale,
    Units,
    number_level,
    number_units,
)
from crowdppl.primitives.labels import Coin, Coins, NumberLabels, each_label
from crowdppl.primitives.likelihood import (
    annotate,
    annotate_numbers,
    annotator_covariates,
    coin_table,
    item_covariates,
    item_groups,
    label_covariates,
    penalty,
    prevalence,
    truth,
    truth_and_labels,
    with_abstentions,
)
from crowdppl.primitives.linkage import (
    linkage,
    log_evidence,
    log_odds_same,
    pairs_of,
    sizes_without,
    votes_of_pairs,
)
from crowdppl.primitives.mixtures import (
    chosen_annotators,
    class_blends,
    cluster_start,
    copies,
    group_codes,
    through_blends,
)
from crowdppl.primitives.model import Card, Model
from crowdppl.primitives.potts import learned_strength
from crowdppl.primitives.priors import (
    coin_counts,
    coin_prior,
    confusion_prior,
    crowd_rows,
    default_prevalence,
    diagonal_prior,
)
from crowdppl.primitives.skills import learned_spread
from crowdppl.primitives.softmax import sharpened
from crowdppl.primitives.statistics import natural
from crowdppl.primitives.sums import log_circle, log_gamma, log_gaussian, log_grid, logsumexp, neg_log
from crowdppl.primitives.taxonomy import tree_coins, tree_counts, tree_levels

__all__ = [
    "Block",
    "Card",
    "Categorical",
    "ChosenDirichlet",
    "Circle",
    "Coin",
    "Coins",
    "Count",
    "Errors",
    "GaussianLabels",
    "Level",
    "Model",
    "NormalGamma",
    "NotNegative",
    "NumberLabels",
    "OneHot",
    "Positive",
    "RankedLabels",
    "Scale",
    "ScaledNormal",
    "Share",
    "Units",
    "Whole",
    "annotate",
    "annotate_each",
    "annotate_numbers",
    "annotator_covariates",
    "chain",
    "check_settings",
    "chosen_annotators",
    "class_blends",
    "cluster_start",
    "coin_counts",
    "coin_prior",
    "coin_table",
    "confusion_prior",
    "copies",
    "crowd_rows",
    "default_prevalence",
    "diagonal_prior",
    "each_label",
    "fixed",
    "group_codes",
    "item_covariates",
    "item_groups",
    "label_covariates",
    "learned_spread",
    "learned_strength",
    "linkage",
    "log_circle",
    "log_evidence",
    "log_gamma",
    "log_gaussian",
    "log_grid",
    "log_odds_same",
    "logsumexp",
    "natural",
    "neg_log",
    "number_level",
    "number_units",
    "pairs_of",
    "penalty",
    "plates",
    "preferences",
    "prevalence",
    "reduced",
    "sharpened",
    "sizes_without",
    "succession",
    "successions",
    "through_blends",
    "tree_coins",
    "tree_counts",
    "tree_levels",
    "truth",
    "truth_and_labels",
    "votes_of_pairs",
    "with_abstentions",
]
