"""Every error and warning of crowdppl, by name."""

from __future__ import annotations


class CrowdpplError(Exception):
    """Base of the errors."""


class DataError(CrowdpplError, ValueError):
    """Annotations that cannot be read; the message gives value, place and remedy."""


class MethodError(CrowdpplError, ValueError):
    """A method, setting or engine that does not fit the call."""


class NoProbabilitiesError(MethodError, AttributeError):
    """A table or score that needs probabilities, of a baseline that has none."""


class NumericalError(CrowdpplError, ArithmeticError):
    """A number that is not finite, during a fit; the message names the site."""


class MemoryShortageError(CrowdpplError, MemoryError):
    """Too little memory for a fit; the message names the method and the sizes."""


class ProcessError(CrowdpplError, RuntimeError):
    """Processes that share a fit and differ, or one that failed; the message names it and its error."""


class ResultError(CrowdpplError, ValueError):
    """A saved result that is damaged, of a newer version, or of another method."""


class FetchError(CrowdpplError):
    """A file that cannot be fetched; the message gives its address, and where to put it by hand."""


class ChecksumError(DataError):
    """A file with another checksum than expected; the message gives both."""


class CrowdpplWarning(UserWarning):
    """Base of the warnings; filter it or one of its kinds."""


class RepeatsWarning(CrowdpplWarning):
    """An annotator labelled an item more than once."""


class SparseDataWarning(CrowdpplWarning):
    """Fewer labels than the question needs."""


class DisconnectedWarning(CrowdpplWarning):
    """Annotators form sets that share no item, or objects sets that no label compares."""


class OneClassWarning(CrowdpplWarning):
    """An annotator always gives the same class."""


class ConvergenceWarning(CrowdpplWarning):
    """A fit ended before it converged, or its chains disagree."""


class UnusedOptionWarning(CrowdpplWarning):
    """An option that the engine does not have, and that changed nothing."""


class DoubtWarning(CrowdpplWarning):
    """A problem with a fit: too few labels, spammers, copiers, swapped classes."""


class GoldLeakWarning(CrowdpplWarning):
    """A fit is scored on truths that it was given: scores look better than they are."""


class UnverifiedWarning(CrowdpplWarning):
    """A file without a known checksum, or with unexpected sizes."""


class LogitsWarning(CrowdpplWarning):
    """A network seems to return probabilities of the classes instead of logits."""


class ParetoWarning(CrowdpplWarning):
    """Leave-one-out scores that are unreliable: a few draws have most of the weight."""
