"""Few-shot tasks, and methods trained on many of them."""

from crowdppl.few_shot.meta_training import meta_trained
from crowdppl.few_shot.tasks import EpisodeSampler
from crowdppl.few_shot.unrolled_em import (
    em_steps,
    prototype_classifier,
    prototype_log_probs,
    prototype_logits,
    prototype_prior,
    unrolled_em,
)

__all__ = [
    "EpisodeSampler",
    "em_steps",
    "meta_trained",
    "prototype_classifier",
    "prototype_log_probs",
    "prototype_logits",
    "prototype_prior",
    "unrolled_em",
]
