"""The public names of ``crowdppl.simulation``."""

from .annotators import annotator_kind as annotator_kind
from .annotators import annotator_kind_table as annotator_kind_table
from .annotators import draw_kinds as draw_kinds
from .crowd import SimulatedCrowd as SimulatedCrowd
from .crowd import Simulation as Simulation
from .crowd import random_design as random_design
from .crowd import simulate as simulate
from .crowd import simulate_annotators as simulate_annotators
