"""Classifiers of items by features, for models and for users."""

from crowdppl.networks.classifier import prepared, prepared_rewards, prepared_view
from crowdppl.networks.embedding import trained_embedding
from crowdppl.networks.experts import GatedClassifier, experts_for, population_centre, population_doubts
from crowdppl.networks.outputs import class_logits, network_output
from crowdppl.networks.refitted import SklearnClassifier
from crowdppl.networks.training import default_recipe, default_training, log_volume

__all__ = [
    "GatedClassifier",
    "SklearnClassifier",
    "class_logits",
    "default_recipe",
    "default_training",
    "experts_for",
    "log_volume",
    "network_output",
    "population_centre",
    "population_doubts",
    "prepared",
    "prepared_rewards",
    "prepared_view",
    "trained_embedding",
]
