"""Every error and warning that crowdppl raises, by name."""

from __future__ import annotations


class CrowdpplError(Exception):
    """Anything that crowdppl refuses; the base of its errors."""


class DataError(CrowdpplError, ValueError):
    """Annotations that cannot be read as they are: the message gives the value, the place and the remedy."""


class MethodError(CrowdpplError, ValueError):
    """A method, setting or engine that does not fit: a story that an engine cannot treat, by name."""


class NumericalError(CrowdpplError, ArithmeticError):
    """A number that is not finite turned up during a fit; the message names the site."""


class MemoryShortageError(CrowdpplError, MemoryError):
    """A fit that needs more memory than there is; the message names the method, the sizes and what to do."""


class ResultError(CrowdpplError, ValueError):
    """A saved result that is damaged, of a newer version, or of another method."""


class FetchError(CrowdpplError):
    """A file that is not here and cannot be fetched: the message gives its address, and where to put it by hand."""


class ChecksumError(DataError):
    """A file that is not the one that it was, or should be; the message gives both hashes."""


class CrowdpplWarning(UserWarning):
    """Anything that crowdppl warns of; filter it or one of its kinds."""


class RepeatsWarning(CrowdpplWarning):
    """An annotator labelled an item more than once."""


class SparseDataWarning(CrowdpplWarning):
    """Fewer labels than the question needs."""


class DisconnectedWarning(CrowdpplWarning):
    """Annotators fall into sets that never share an item, so that they cannot be compared."""


class OneClassWarning(CrowdpplWarning):
    """An annotator always gives the same class."""


class ConvergenceWarning(CrowdpplWarning):
    """A fit ended before it settled, or its chains disagree."""


class UnusedOptionWarning(CrowdpplWarning):
    """An option was given that the engine which ran does not have, so that it changed nothing."""


class DoubtWarning(CrowdpplWarning):
    """Something speaks against a fit as it is: too few labels, spammers, copiers, swapped classes."""


class GoldLeakWarning(CrowdpplWarning):
    """Truths that a fit was told are taken to judge it: scores look better than they are."""


class UnverifiedWarning(CrowdpplWarning):
    """A file was seen for the first time, so that there is nothing yet to compare it with; or sizes are odd."""


class LogitsWarning(CrowdpplWarning):
    """A network seems to return probabilities of the classes, where logits are wanted."""


class ParetoWarning(CrowdpplWarning):
    """Leave-one-out scores by importance sampling that are not to be trusted: a few draws weigh most."""
