"""Data sets: built in (``anaesthetists``, ``bluebirds``, ``digits``), MNIST, public (``available``, ``load``)."""

from crowdppl.datasets.builtin import DIGITS_CROWD as DIGITS_CROWD
from crowdppl.datasets.builtin import bluebirds as bluebirds
from crowdppl.datasets.builtin import digits as digits
from crowdppl.datasets.builtin import mnist as mnist
from crowdppl.datasets.examples import anaesthetists as anaesthetists
from crowdppl.datasets.examples import example as example
from crowdppl.datasets.public import Dataset as Dataset
from crowdppl.datasets.public import available as available
from crowdppl.datasets.public import load as load
