"""Confusions and prevalence from moments of labels: quick, without a truth or a start, and without probabilities of
parameters."""

from __future__ import annotations

from crowdppl.moments.coupled import coupled_kl as coupled_kl
from crowdppl.moments.groups import spectral as spectral
from crowdppl.moments.multispa import multispa as multispa
from crowdppl.moments.result import Moments as Moments
from crowdppl.moments.symnmf import symnmf as symnmf
from crowdppl.moments.tensors import tensor as tensor
from crowdppl.moments.two_classes import covariance_eigenvector as covariance_eigenvector
