"""Bayesian models of annotators: state how labels come about once, infer the truth in many ways."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names by the module that defines them. A name is imported when it is first used, so that
# `import crowdppl` costs next to nothing. Type checkers read the imports below; a test compares the two.
_PUBLIC = {
    "abstentions": ("with_abstentions",),
    "agreement": ("agreement_pairs", "agreement_table"),
    "annotations": ("Annotations",),
    "atoms": ("class_atoms", "through_atoms"),
    "blocks": ("Block",),
    "card": ("Card",),
    "classifier_scores": ("ClassifierScore", "classifier_score"),
    "clouds": ("cloud_classifier", "cloud_prior", "log_clouds", "seen_clouds"),
    "comparison": ("Comparison", "compare"),
    "confusions": ("crowd_confusion",),
    "covariates": ("annotator_covariates", "item_covariates"),
    "crowd_map": ("annotator_map", "plot_annotator_map"),
    "criticism": ("Check", "predictive_check"),
    "datasets": ("anaesthetists", "digits"),
    "departures": ("departed",),
    "distributions": ("Categorical", "ChosenDirichlet", "OneHot"),
    "doubt": ("Doubt",),
    "embedding": ("trained_embedding",),
    "episodes": ("Episodes",),
    "errors": (
        "ChecksumError",
        "ConvergenceWarning",
        "CrowdpplError",
        "CrowdpplWarning",
        "DataError",
        "DisconnectedWarning",
        "DoubtWarning",
        "FetchError",
        "MethodError",
        "NumericalError",
        "OneClassWarning",
        "RepeatsWarning",
        "ResultError",
        "SpellingWarning",
        "ThinDataWarning",
        "ToldWarning",
        "UnverifiedWarning",
    ),
    "experts": ("Worker", "experts_for"),
    "filling": ("fill",),
    "grades": ("log_bands",),
    "groups": ("find_groups",),
    "guides": ("mean_field",),
    "heldout": ("HeldoutScore", "heldout_score"),
    "fitting": ("fit",),
    "known_kinds": ("annotator_kind", "annotator_kind_table", "draw_kinds"),
    "label_rows": ("apart_weights", "each_label", "weighed_labels"),
    "labels": ("Coin",),
    "leave_one_out": ("LeaveOneOut",),
    "likelihood": (
        "annotate",
        "coin_table",
        "penalty",
        "prevalence",
        "truth",
        "truth_and_labels",
    ),
    "membership": ("group_numbers",),
    "meta_training": ("meta_trained",),
    "metrics": ("Evaluation", "evaluate"),
    "networks": ("ready",),
    "outliers": ("outlier_scores",),
    "population": ("centre_of",),
    "posterior": ("Posterior", "load"),
    "priors": ("coin_counts", "coin_prior", "confusion_prior", "house_prevalence", "leaning_rows"),
    "ranks": ("RankCheck",),
    "reading": ("read_annotations", "read_annotator_covariates", "read_gold", "read_item_covariates"),
    "recipes": ("house_training",),
    "registry": ("method", "register", "zoo"),
    "reliability": ("plot_reliability",),
    "risk_plot": ("plot_risk_coverage",),
    "rivalry": ("rivals",),
    "sbc": ("rank_check",),
    "sight": ("classify", "look"),
    "simulated_crowd": ("SimulatedCrowd", "simulate_annotators"),
    "simulation": ("Simulation", "random_design", "simulate"),
    "story": ("Story",),
    "story_plot": ("plot_story",),
    "summing": ("logsumexp",),
    "suspicion": ("covariance_spammers", "suspicious_annotators"),
    "training": ("log_volume",),
    "unrolled": ("em_on", "em_steps"),
    "urns": ("log_urn", "with_urn"),
    "views": ("ready_view",),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from crowdppl.abstentions import with_abstentions as with_abstentions
    from crowdppl.agreement import agreement_pairs as agreement_pairs
    from crowdppl.agreement import agreement_table as agreement_table
    from crowdppl.annotations import Annotations as Annotations
    from crowdppl.atoms import class_atoms as class_atoms
    from crowdppl.atoms import through_atoms as through_atoms
    from crowdppl.blocks import Block as Block
    from crowdppl.card import Card as Card
    from crowdppl.classifier_scores import ClassifierScore as ClassifierScore
    from crowdppl.classifier_scores import classifier_score as classifier_score
    from crowdppl.clouds import cloud_classifier as cloud_classifier
    from crowdppl.clouds import cloud_prior as cloud_prior
    from crowdppl.clouds import log_clouds as log_clouds
    from crowdppl.clouds import seen_clouds as seen_clouds
    from crowdppl.comparison import Comparison as Comparison
    from crowdppl.comparison import compare as compare
    from crowdppl.confusions import crowd_confusion as crowd_confusion
    from crowdppl.covariates import annotator_covariates as annotator_covariates
    from crowdppl.covariates import item_covariates as item_covariates
    from crowdppl.criticism import Check as Check
    from crowdppl.criticism import predictive_check as predictive_check
    from crowdppl.crowd_map import annotator_map as annotator_map
    from crowdppl.crowd_map import plot_annotator_map as plot_annotator_map
    from crowdppl.datasets import anaesthetists as anaesthetists
    from crowdppl.datasets import digits as digits
    from crowdppl.departures import departed as departed
    from crowdppl.distributions import Categorical as Categorical
    from crowdppl.distributions import ChosenDirichlet as ChosenDirichlet
    from crowdppl.distributions import OneHot as OneHot
    from crowdppl.doubt import Doubt as Doubt
    from crowdppl.embedding import trained_embedding as trained_embedding
    from crowdppl.episodes import Episodes as Episodes
    from crowdppl.errors import ChecksumError as ChecksumError
    from crowdppl.errors import ConvergenceWarning as ConvergenceWarning
    from crowdppl.errors import CrowdpplError as CrowdpplError
    from crowdppl.errors import CrowdpplWarning as CrowdpplWarning
    from crowdppl.errors import DataError as DataError
    from crowdppl.errors import DisconnectedWarning as DisconnectedWarning
    from crowdppl.errors import DoubtWarning as DoubtWarning
    from crowdppl.errors import FetchError as FetchError
    from crowdppl.errors import MethodError as MethodError
    from crowdppl.errors import NumericalError as NumericalError
    from crowdppl.errors import OneClassWarning as OneClassWarning
    from crowdppl.errors import RepeatsWarning as RepeatsWarning
    from crowdppl.errors import ResultError as ResultError
    from crowdppl.errors import SpellingWarning as SpellingWarning
    from crowdppl.errors import ThinDataWarning as ThinDataWarning
    from crowdppl.errors import ToldWarning as ToldWarning
    from crowdppl.errors import UnverifiedWarning as UnverifiedWarning
    from crowdppl.experts import Worker as Worker
    from crowdppl.experts import experts_for as experts_for
    from crowdppl.filling import fill as fill
    from crowdppl.fitting import fit as fit
    from crowdppl.grades import log_bands as log_bands
    from crowdppl.groups import find_groups as find_groups
    from crowdppl.guides import mean_field as mean_field
    from crowdppl.heldout import HeldoutScore as HeldoutScore
    from crowdppl.heldout import heldout_score as heldout_score
    from crowdppl.known_kinds import annotator_kind as annotator_kind
    from crowdppl.known_kinds import annotator_kind_table as annotator_kind_table
    from crowdppl.known_kinds import draw_kinds as draw_kinds
    from crowdppl.label_rows import apart_weights as apart_weights
    from crowdppl.label_rows import each_label as each_label
    from crowdppl.label_rows import weighed_labels as weighed_labels
    from crowdppl.labels import Coin as Coin
    from crowdppl.leave_one_out import LeaveOneOut as LeaveOneOut
    from crowdppl.likelihood import annotate as annotate
    from crowdppl.likelihood import coin_table as coin_table
    from crowdppl.likelihood import penalty as penalty
    from crowdppl.likelihood import prevalence as prevalence
    from crowdppl.likelihood import truth as truth
    from crowdppl.likelihood import truth_and_labels as truth_and_labels
    from crowdppl.membership import group_numbers as group_numbers
    from crowdppl.meta_training import meta_trained as meta_trained
    from crowdppl.metrics import Evaluation as Evaluation
    from crowdppl.metrics import evaluate as evaluate
    from crowdppl.networks import ready as ready
    from crowdppl.outliers import outlier_scores as outlier_scores
    from crowdppl.population import centre_of as centre_of
    from crowdppl.posterior import Posterior as Posterior
    from crowdppl.posterior import load as load
    from crowdppl.priors import coin_counts as coin_counts
    from crowdppl.priors import coin_prior as coin_prior
    from crowdppl.priors import confusion_prior as confusion_prior
    from crowdppl.priors import house_prevalence as house_prevalence
    from crowdppl.priors import leaning_rows as leaning_rows
    from crowdppl.ranks import RankCheck as RankCheck
    from crowdppl.reading import read_annotations as read_annotations
    from crowdppl.reading import read_annotator_covariates as read_annotator_covariates
    from crowdppl.reading import read_gold as read_gold
    from crowdppl.reading import read_item_covariates as read_item_covariates
    from crowdppl.recipes import house_training as house_training
    from crowdppl.registry import method as method
    from crowdppl.registry import register as register
    from crowdppl.registry import zoo as zoo
    from crowdppl.reliability import plot_reliability as plot_reliability
    from crowdppl.risk_plot import plot_risk_coverage as plot_risk_coverage
    from crowdppl.rivalry import rivals as rivals
    from crowdppl.sbc import rank_check as rank_check
    from crowdppl.sight import classify as classify
    from crowdppl.sight import look as look
    from crowdppl.simulated_crowd import SimulatedCrowd as SimulatedCrowd
    from crowdppl.simulated_crowd import simulate_annotators as simulate_annotators
    from crowdppl.simulation import Simulation as Simulation
    from crowdppl.simulation import random_design as random_design
    from crowdppl.simulation import simulate as simulate
    from crowdppl.story import Story as Story
    from crowdppl.story_plot import plot_story as plot_story
    from crowdppl.summing import logsumexp as logsumexp
    from crowdppl.suspicion import covariance_spammers as covariance_spammers
    from crowdppl.suspicion import suspicious_annotators as suspicious_annotators
    from crowdppl.training import log_volume as log_volume
    from crowdppl.unrolled import em_on as em_on
    from crowdppl.unrolled import em_steps as em_steps
    from crowdppl.urns import log_urn as log_urn
    from crowdppl.urns import with_urn as with_urn
    from crowdppl.views import ready_view as ready_view


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
