"""Baselines: truths without a generative model of labels, and mostly without probabilities."""

from crowdppl.baselines.adversaries import mmsr
from crowdppl.baselines.aggregation import Aggregation
from crowdppl.baselines.classifiers import ClassifierAggregation, doctor_net, max_mig, soft_bootstrap
from crowdppl.baselines.margins import max_margin_votes
from crowdppl.baselines.messages import message_passing
from crowdppl.baselines.signs import eigenratio, ghosh, kos
from crowdppl.baselines.training import soft_votes
from crowdppl.baselines.weighted import catd, crh

METHODS = {
    one.__name__: one for one in (catd, crh, eigenratio, ghosh, kos, max_margin_votes, message_passing, mmsr)
}
"""Functions of annotations that infer truths, by name."""

__all__ = [
    "METHODS",
    "Aggregation",
    "ClassifierAggregation",
    "catd",
    "crh",
    "doctor_net",
    "eigenratio",
    "ghosh",
    "kos",
    "max_margin_votes",
    "max_mig",
    "message_passing",
    "mmsr",
    "soft_bootstrap",
    "soft_votes",
]
