"""Bayesian models of annotators: state how labels come about once, infer the truth in many ways."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdppl.agreement.clusters import find_groups as find_groups
    from crowdppl.agreement.coefficients import agreement_pairs as agreement_pairs
    from crowdppl.agreement.coefficients import agreement_table as agreement_table
    from crowdppl.criticism.checks import Check as Check
    from crowdppl.criticism.checks import predictive_check as predictive_check
    from crowdppl.criticism.doubts import Doubt as Doubt
    from crowdppl.criticism.spammers import covariance_spammers as covariance_spammers
    from crowdppl.criticism.spammers import suspicious_annotators as suspicious_annotators
    from crowdppl.data.annotations import Annotations as Annotations
    from crowdppl.data.blocks import Block as Block
    from crowdppl.data.files import read_annotations as read_annotations
    from crowdppl.data.files import read_annotator_covariates as read_annotator_covariates
    from crowdppl.data.files import read_gold as read_gold
    from crowdppl.data.files import read_item_covariates as read_item_covariates
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
    from crowdppl.evaluation.compare import Comparison as Comparison
    from crowdppl.evaluation.compare import compare as compare
    from crowdppl.evaluation.compare import rivals as rivals
    from crowdppl.evaluation.heldout import ClassifierScore as ClassifierScore
    from crowdppl.evaluation.heldout import HeldoutScore as HeldoutScore
    from crowdppl.evaluation.heldout import classifier_score as classifier_score
    from crowdppl.evaluation.heldout import heldout_score as heldout_score
    from crowdppl.evaluation.metrics import Evaluation as Evaluation
    from crowdppl.evaluation.metrics import evaluate as evaluate
    from crowdppl.few_shot.meta_training import meta_trained as meta_trained
    from crowdppl.few_shot.prototypes import cloud_classifier as cloud_classifier
    from crowdppl.few_shot.prototypes import cloud_prior as cloud_prior
    from crowdppl.few_shot.prototypes import log_clouds as log_clouds
    from crowdppl.few_shot.prototypes import seen_clouds as seen_clouds
    from crowdppl.few_shot.tasks import Episodes as Episodes
    from crowdppl.few_shot.unrolled_em import em_on as em_on
    from crowdppl.few_shot.unrolled_em import em_steps as em_steps
    from crowdppl.fitting import fit as fit
    from crowdppl.inference.svi.guide import mean_field as mean_field
    from crowdppl.networks.classifier import ready as ready
    from crowdppl.networks.classifier import ready_view as ready_view
    from crowdppl.networks.embedding import trained_embedding as trained_embedding
    from crowdppl.networks.experts import Worker as Worker
    from crowdppl.networks.experts import centre_of as centre_of
    from crowdppl.networks.experts import experts_for as experts_for
    from crowdppl.networks.outputs import classify as classify
    from crowdppl.networks.outputs import look as look
    from crowdppl.networks.training import house_recipe as house_recipe
    from crowdppl.networks.training import house_training as house_training
    from crowdppl.networks.training import log_volume as log_volume
    from crowdppl.plots.annotators import annotator_map as annotator_map
    from crowdppl.plots.annotators import plot_annotator_map as plot_annotator_map
    from crowdppl.plots.evaluation import plot_reliability as plot_reliability
    from crowdppl.plots.evaluation import plot_risk_coverage as plot_risk_coverage
    from crowdppl.plots.model_graph import plot_story as plot_story
    from crowdppl.posterior import Posterior as Posterior
    from crowdppl.posterior import load as load
    from crowdppl.primitives.distributions import Categorical as Categorical
    from crowdppl.primitives.distributions import ChosenDirichlet as ChosenDirichlet
    from crowdppl.primitives.distributions import OneHot as OneHot
    from crowdppl.primitives.distributions import log_bands as log_bands
    from crowdppl.primitives.distributions import log_urn as log_urn
    from crowdppl.primitives.distributions import with_urn as with_urn
    from crowdppl.primitives.labels import Coin as Coin
    from crowdppl.primitives.labels import apart_weights as apart_weights
    from crowdppl.primitives.labels import each_label as each_label
    from crowdppl.primitives.labels import weighed_labels as weighed_labels
    from crowdppl.primitives.likelihood import annotate as annotate
    from crowdppl.primitives.likelihood import annotator_covariates as annotator_covariates
    from crowdppl.primitives.likelihood import coin_table as coin_table
    from crowdppl.primitives.likelihood import departed as departed
    from crowdppl.primitives.likelihood import item_covariates as item_covariates
    from crowdppl.primitives.likelihood import penalty as penalty
    from crowdppl.primitives.likelihood import prevalence as prevalence
    from crowdppl.primitives.likelihood import truth as truth
    from crowdppl.primitives.likelihood import truth_and_labels as truth_and_labels
    from crowdppl.primitives.likelihood import with_abstentions as with_abstentions
    from crowdppl.primitives.mixtures import class_atoms as class_atoms
    from crowdppl.primitives.mixtures import group_numbers as group_numbers
    from crowdppl.primitives.mixtures import through_atoms as through_atoms
    from crowdppl.primitives.model import Card as Card
    from crowdppl.primitives.model import Story as Story
    from crowdppl.primitives.priors import coin_counts as coin_counts
    from crowdppl.primitives.priors import coin_prior as coin_prior
    from crowdppl.primitives.priors import confusion_prior as confusion_prior
    from crowdppl.primitives.priors import crowd_confusion as crowd_confusion
    from crowdppl.primitives.priors import crowd_rows as crowd_rows
    from crowdppl.primitives.priors import house_prevalence as house_prevalence
    from crowdppl.primitives.priors import leaning_rows as leaning_rows
    from crowdppl.primitives.sums import logsumexp as logsumexp
    from crowdppl.registry import method as method
    from crowdppl.registry import register as register
    from crowdppl.registry import zoo as zoo
    from crowdppl.results.filling import fill as fill
    from crowdppl.results.leave_one_out import LeaveOneOut as LeaveOneOut
    from crowdppl.results.updating import outlier_scores as outlier_scores
    from crowdppl.simulation.annotators import annotator_kind as annotator_kind
    from crowdppl.simulation.annotators import annotator_kind_table as annotator_kind_table
    from crowdppl.simulation.annotators import draw_kinds as draw_kinds
    from crowdppl.simulation.crowd import SimulatedCrowd as SimulatedCrowd
    from crowdppl.simulation.crowd import simulate_annotators as simulate_annotators
    from crowdppl.simulation.from_model import Simulation as Simulation
    from crowdppl.simulation.from_model import random_design as random_design
    from crowdppl.simulation.from_model import simulate as simulate
    from crowdppl.testing.sbc import RankCheck as RankCheck
    from crowdppl.testing.sbc import rank_check as rank_check

__version__ = "0.1.0"

# Public names by the module that defines them. A name is imported when it is first used, so that
# `import crowdppl` costs next to nothing. Type checkers read the imports below; a test compares the two.
_PUBLIC = {
    "agreement.clusters": ("find_groups",),
    "agreement.coefficients": ("agreement_pairs", "agreement_table"),
    "criticism.checks": ("Check", "predictive_check"),
    "criticism.doubts": ("Doubt",),
    "criticism.spammers": ("covariance_spammers", "suspicious_annotators"),
    "data.annotations": ("Annotations",),
    "data.blocks": ("Block",),
    "data.files": ("read_annotations", "read_annotator_covariates", "read_gold", "read_item_covariates"),
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
    "evaluation.compare": ("Comparison", "compare", "rivals"),
    "evaluation.heldout": ("ClassifierScore", "HeldoutScore", "classifier_score", "heldout_score"),
    "evaluation.metrics": ("Evaluation", "evaluate"),
    "few_shot.meta_training": ("meta_trained",),
    "few_shot.prototypes": ("cloud_classifier", "cloud_prior", "log_clouds", "seen_clouds"),
    "few_shot.tasks": ("Episodes",),
    "few_shot.unrolled_em": ("em_on", "em_steps"),
    "results.filling": ("fill",),
    "fitting": ("fit",),
    "inference.svi.guide": ("mean_field",),
    "networks.classifier": ("ready", "ready_view"),
    "networks.embedding": ("trained_embedding",),
    "networks.experts": ("Worker", "centre_of", "experts_for"),
    "networks.outputs": ("classify", "look"),
    "networks.training": ("house_recipe", "house_training", "log_volume"),
    "plots.annotators": ("annotator_map", "plot_annotator_map"),
    "plots.evaluation": ("plot_reliability", "plot_risk_coverage"),
    "plots.model_graph": ("plot_story",),
    "posterior": ("Posterior", "load"),
    "primitives.distributions": ("Categorical", "ChosenDirichlet", "OneHot", "log_bands", "log_urn", "with_urn"),
    "primitives.labels": ("Coin", "apart_weights", "each_label", "weighed_labels"),
    "primitives.likelihood": (
        "annotate",
        "annotator_covariates",
        "coin_table",
        "departed",
        "item_covariates",
        "penalty",
        "prevalence",
        "truth",
        "truth_and_labels",
        "with_abstentions",
    ),
    "primitives.mixtures": ("class_atoms", "group_numbers", "through_atoms"),
    "primitives.model": ("Card", "Story"),
    "primitives.priors": (
        "coin_counts",
        "coin_prior",
        "confusion_prior",
        "crowd_confusion",
        "crowd_rows",
        "house_prevalence",
        "leaning_rows",
    ),
    "primitives.sums": ("logsumexp",),
    "registry": ("method", "register", "zoo"),
    "results.leave_one_out": ("LeaveOneOut",),
    "results.updating": ("outlier_scores",),
    "simulation.annotators": ("annotator_kind", "annotator_kind_table", "draw_kinds"),
    "simulation.crowd": ("SimulatedCrowd", "simulate_annotators"),
    "simulation.from_model": ("Simulation", "random_design", "simulate"),
    "testing.sbc": ("RankCheck", "rank_check"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"crowdppl.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name == "plates":
        return import_module("crowdppl.primitives.plates")
    if not name.startswith("_") and find_spec(f"crowdppl.{name}"):
        return import_module(f"crowdppl.{name}")
    raise AttributeError(f"module 'crowdppl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
