"""Bayesian models of annotators: state how labels come about once, infer the truth in many ways."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names by the module that defines them. A name is imported when it is first used, so that
# `import crowdppl` costs next to nothing. Type checkers read the imports below; a test compares the two.
_PUBLIC = {
    "agreement.groups": ("find_groups",),
    "agreement.table": ("agreement_pairs", "agreement_table"),
    "choosing.classifier_scores": ("ClassifierScore", "classifier_score"),
    "choosing.comparison": ("Comparison", "compare"),
    "choosing.heldout": ("HeldoutScore", "heldout_score"),
    "choosing.rivalry": ("rivals",),
    "contract.ranks": ("RankCheck",),
    "contract.sbc": ("rank_check",),
    "criticism.checks": ("Check", "predictive_check"),
    "criticism.crowd_map": ("annotator_map", "plot_annotator_map"),
    "criticism.doubt": ("Doubt",),
    "criticism.population": ("centre_of",),
    "criticism.suspicion": ("covariance_spammers", "suspicious_annotators"),
    "crowds.known_kinds": ("annotator_kind", "annotator_kind_table", "draw_kinds"),
    "crowds.simulated_crowd": ("SimulatedCrowd", "simulate_annotators"),
    "crowds.simulation": ("Simulation", "random_design", "simulate"),
    "data.annotations": ("Annotations",),
    "data.blocks": ("Block",),
    "datasets": ("anaesthetists", "digits"),
    "errors": (
        "ChecksumError",
        "ConvergenceWarning",
        "CrowdpplError",
        "CrowdpplWarning",
        "DataError",
        "DisconnectedWarning",
        "DoubtWarning",
        "FetchError",
        "GlyphWarning",
        "LogitsWarning",
        "MemoryShortageError",
        "MethodError",
        "NumericalError",
        "OneClassWarning",
        "ParetoWarning",
        "RepeatsWarning",
        "ResultError",
        "SpellingWarning",
        "ThinDataWarning",
        "ToldWarning",
        "UnusedOptionWarning",
        "UnverifiedWarning",
        "UnwrittenWarning",
    ),
    "few_shot.clouds": ("cloud_classifier", "cloud_prior", "log_clouds", "seen_clouds"),
    "few_shot.episodes": ("Episodes",),
    "few_shot.meta_training": ("meta_trained",),
    "few_shot.unrolled": ("em_on", "em_steps"),
    "files.reading": ("read_annotations", "read_annotator_covariates", "read_gold", "read_item_covariates"),
    "filling": ("fill",),
    "fitting": ("fit",),
    "inference.guides": ("mean_field",),
    "networks.embedding": ("trained_embedding",),
    "networks.experts": ("Worker", "experts_for"),
    "networks.network": ("ready",),
    "networks.recipes": ("house_recipe", "house_training"),
    "networks.sight": ("classify", "look"),
    "networks.training": ("log_volume",),
    "networks.views": ("ready_view",),
    "pictures.reliability": ("plot_reliability",),
    "pictures.risk_plot": ("plot_risk_coverage",),
    "pictures.story_plot": ("plot_story",),
    "posterior": ("Posterior", "load"),
    "registry": ("method", "register", "zoo"),
    "results.leave_one_out": ("LeaveOneOut",),
    "results.outliers": ("outlier_scores",),
    "scoring.metrics": ("Evaluation", "evaluate"),
    "stories.abstentions": ("with_abstentions",),
    "stories.atoms": ("class_atoms", "through_atoms"),
    "stories.card": ("Card",),
    "stories.confusions": ("crowd_confusion", "crowd_rows"),
    "stories.covariates": ("annotator_covariates", "item_covariates"),
    "stories.departures": ("departed",),
    "stories.distributions": ("Categorical", "ChosenDirichlet", "OneHot"),
    "stories.grades": ("log_bands",),
    "stories.label_rows": ("apart_weights", "each_label", "weighed_labels"),
    "stories.labels": ("Coin",),
    "stories.likelihood": (
        "annotate",
        "coin_table",
        "penalty",
        "prevalence",
        "truth",
        "truth_and_labels",
    ),
    "stories.membership": ("group_numbers",),
    "stories.priors": ("coin_counts", "coin_prior", "confusion_prior", "house_prevalence", "leaning_rows"),
    "stories.story": ("Story",),
    "stories.summing": ("logsumexp",),
    "stories.urns": ("log_urn", "with_urn"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from crowdppl.agreement.groups import find_groups as find_groups
    from crowdppl.agreement.table import agreement_pairs as agreement_pairs
    from crowdppl.agreement.table import agreement_table as agreement_table
    from crowdppl.choosing.classifier_scores import ClassifierScore as ClassifierScore
    from crowdppl.choosing.classifier_scores import classifier_score as classifier_score
    from crowdppl.choosing.comparison import Comparison as Comparison
    from crowdppl.choosing.comparison import compare as compare
    from crowdppl.choosing.heldout import HeldoutScore as HeldoutScore
    from crowdppl.choosing.heldout import heldout_score as heldout_score
    from crowdppl.choosing.rivalry import rivals as rivals
    from crowdppl.contract.ranks import RankCheck as RankCheck
    from crowdppl.contract.sbc import rank_check as rank_check
    from crowdppl.criticism.checks import Check as Check
    from crowdppl.criticism.checks import predictive_check as predictive_check
    from crowdppl.criticism.crowd_map import annotator_map as annotator_map
    from crowdppl.criticism.crowd_map import plot_annotator_map as plot_annotator_map
    from crowdppl.criticism.doubt import Doubt as Doubt
    from crowdppl.criticism.population import centre_of as centre_of
    from crowdppl.criticism.suspicion import covariance_spammers as covariance_spammers
    from crowdppl.criticism.suspicion import suspicious_annotators as suspicious_annotators
    from crowdppl.crowds.known_kinds import annotator_kind as annotator_kind
    from crowdppl.crowds.known_kinds import annotator_kind_table as annotator_kind_table
    from crowdppl.crowds.known_kinds import draw_kinds as draw_kinds
    from crowdppl.crowds.simulated_crowd import SimulatedCrowd as SimulatedCrowd
    from crowdppl.crowds.simulated_crowd import simulate_annotators as simulate_annotators
    from crowdppl.crowds.simulation import Simulation as Simulation
    from crowdppl.crowds.simulation import random_design as random_design
    from crowdppl.crowds.simulation import simulate as simulate
    from crowdppl.data.annotations import Annotations as Annotations
    from crowdppl.data.blocks import Block as Block
    from crowdppl.datasets import anaesthetists as anaesthetists
    from crowdppl.datasets import digits as digits
    from crowdppl.errors import ChecksumError as ChecksumError
    from crowdppl.errors import ConvergenceWarning as ConvergenceWarning
    from crowdppl.errors import CrowdpplError as CrowdpplError
    from crowdppl.errors import CrowdpplWarning as CrowdpplWarning
    from crowdppl.errors import DataError as DataError
    from crowdppl.errors import DisconnectedWarning as DisconnectedWarning
    from crowdppl.errors import DoubtWarning as DoubtWarning
    from crowdppl.errors import FetchError as FetchError
    from crowdppl.errors import GlyphWarning as GlyphWarning
    from crowdppl.errors import LogitsWarning as LogitsWarning
    from crowdppl.errors import MemoryShortageError as MemoryShortageError
    from crowdppl.errors import MethodError as MethodError
    from crowdppl.errors import NumericalError as NumericalError
    from crowdppl.errors import OneClassWarning as OneClassWarning
    from crowdppl.errors import ParetoWarning as ParetoWarning
    from crowdppl.errors import RepeatsWarning as RepeatsWarning
    from crowdppl.errors import ResultError as ResultError
    from crowdppl.errors import SpellingWarning as SpellingWarning
    from crowdppl.errors import ThinDataWarning as ThinDataWarning
    from crowdppl.errors import ToldWarning as ToldWarning
    from crowdppl.errors import UnusedOptionWarning as UnusedOptionWarning
    from crowdppl.errors import UnverifiedWarning as UnverifiedWarning
    from crowdppl.errors import UnwrittenWarning as UnwrittenWarning
    from crowdppl.few_shot.clouds import cloud_classifier as cloud_classifier
    from crowdppl.few_shot.clouds import cloud_prior as cloud_prior
    from crowdppl.few_shot.clouds import log_clouds as log_clouds
    from crowdppl.few_shot.clouds import seen_clouds as seen_clouds
    from crowdppl.few_shot.episodes import Episodes as Episodes
    from crowdppl.few_shot.meta_training import meta_trained as meta_trained
    from crowdppl.few_shot.unrolled import em_on as em_on
    from crowdppl.few_shot.unrolled import em_steps as em_steps
    from crowdppl.files.reading import read_annotations as read_annotations
    from crowdppl.files.reading import read_annotator_covariates as read_annotator_covariates
    from crowdppl.files.reading import read_gold as read_gold
    from crowdppl.files.reading import read_item_covariates as read_item_covariates
    from crowdppl.filling import fill as fill
    from crowdppl.fitting import fit as fit
    from crowdppl.inference.guides import mean_field as mean_field
    from crowdppl.networks.embedding import trained_embedding as trained_embedding
    from crowdppl.networks.experts import Worker as Worker
    from crowdppl.networks.experts import experts_for as experts_for
    from crowdppl.networks.network import ready as ready
    from crowdppl.networks.recipes import house_recipe as house_recipe
    from crowdppl.networks.recipes import house_training as house_training
    from crowdppl.networks.sight import classify as classify
    from crowdppl.networks.sight import look as look
    from crowdppl.networks.training import log_volume as log_volume
    from crowdppl.networks.views import ready_view as ready_view
    from crowdppl.pictures.reliability import plot_reliability as plot_reliability
    from crowdppl.pictures.risk_plot import plot_risk_coverage as plot_risk_coverage
    from crowdppl.pictures.story_plot import plot_story as plot_story
    from crowdppl.posterior import Posterior as Posterior
    from crowdppl.posterior import load as load
    from crowdppl.registry import method as method
    from crowdppl.registry import register as register
    from crowdppl.registry import zoo as zoo
    from crowdppl.results.leave_one_out import LeaveOneOut as LeaveOneOut
    from crowdppl.results.outliers import outlier_scores as outlier_scores
    from crowdppl.scoring.metrics import Evaluation as Evaluation
    from crowdppl.scoring.metrics import evaluate as evaluate
    from crowdppl.stories.abstentions import with_abstentions as with_abstentions
    from crowdppl.stories.atoms import class_atoms as class_atoms
    from crowdppl.stories.atoms import through_atoms as through_atoms
    from crowdppl.stories.card import Card as Card
    from crowdppl.stories.confusions import crowd_confusion as crowd_confusion
    from crowdppl.stories.confusions import crowd_rows as crowd_rows
    from crowdppl.stories.covariates import annotator_covariates as annotator_covariates
    from crowdppl.stories.covariates import item_covariates as item_covariates
    from crowdppl.stories.departures import departed as departed
    from crowdppl.stories.distributions import Categorical as Categorical
    from crowdppl.stories.distributions import ChosenDirichlet as ChosenDirichlet
    from crowdppl.stories.distributions import OneHot as OneHot
    from crowdppl.stories.grades import log_bands as log_bands
    from crowdppl.stories.label_rows import apart_weights as apart_weights
    from crowdppl.stories.label_rows import each_label as each_label
    from crowdppl.stories.label_rows import weighed_labels as weighed_labels
    from crowdppl.stories.labels import Coin as Coin
    from crowdppl.stories.likelihood import annotate as annotate
    from crowdppl.stories.likelihood import coin_table as coin_table
    from crowdppl.stories.likelihood import penalty as penalty
    from crowdppl.stories.likelihood import prevalence as prevalence
    from crowdppl.stories.likelihood import truth as truth
    from crowdppl.stories.likelihood import truth_and_labels as truth_and_labels
    from crowdppl.stories.membership import group_numbers as group_numbers
    from crowdppl.stories.priors import coin_counts as coin_counts
    from crowdppl.stories.priors import coin_prior as coin_prior
    from crowdppl.stories.priors import confusion_prior as confusion_prior
    from crowdppl.stories.priors import house_prevalence as house_prevalence
    from crowdppl.stories.priors import leaning_rows as leaning_rows
    from crowdppl.stories.story import Story as Story
    from crowdppl.stories.summing import logsumexp as logsumexp
    from crowdppl.stories.urns import log_urn as log_urn
    from crowdppl.stories.urns import with_urn as with_urn


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"crowdppl.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"crowdppl.{name}"):
        return import_module(f"crowdppl.{name}")
    raise AttributeError(f"module 'crowdppl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
