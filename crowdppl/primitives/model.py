"""What a model offers: the protocol and its card."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from crowdppl.core.validation import is_whole
from crowdppl.errors import MethodError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Card:
    """What a method is, where it comes from, what it assumes and when it fails.

    Attributes:
        title: the name in words; in lower case with underscores it is the name in the registry.
        reference: authors, year, title and place of the paper that proposed the method.
        doi: its DOI, bare ("10.2307/2346806"); empty where there is none.
        sites: each latent site and its shape, one word a dimension, plates included, as in
            ``{"confusion": "A K K"}``. N items, A annotators, K classes, L answers; any other word is a size
            of the method's own. A site that exists only under some settings may be listed.
        truth: the site that is the truth.
        entity: what the truth belongs to; its site has one entry for each.
        kind: what the truth can be: "nominal" or "ordinal" classes.
        assumes: what has to be so for the method to be right.
        fails: when it goes wrong, and what one sees then.
        cost: work and memory of one pass, in labels and sizes.
        refused: engines that cannot treat this story although its structure would let them try, and why.
        uses: parts of the data beyond labels and gold that the method reads: "history", and "item_covariates" or
            "annotator_covariates", without which a fit is then refused.

    Raises:
        MethodError: when title or reference are empty, the truth has no shape, or the DOI is not a bare one.

    Examples:
        >>> crowdppl.method("mace").card.reference
        'Hovy et al. (2013), Learning whom to trust with MACE, NAACL-HLT'
    """

    title: str
    reference: str
    doi: str = ""
    sites: Mapping[str, str] = field(default_factory=lambda: {"truth": "N"})
    truth: str = "truth"
    entity: str = "item"
    kind: str = "nominal"
    assumes: str = ""
    fails: str = ""
    cost: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    uses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.title.strip() or not self.reference.strip():
            raise MethodError(f"the card {self.title!r} needs a title and a reference")
        if self.truth not in self.sites:
            raise MethodError(
                f"the card {self.title!r} names {self.truth!r} as its truth, but lists only the sites "
                f"{', '.join(self.sites)}; add its shape, for example sites={{{self.truth!r}: 'N'}}"
            )
        if self.doi and not re.fullmatch(r"10\.\d{4,9}/\S+", self.doi):
            raise MethodError(
                f"the card {self.title!r} has the DOI {self.doi!r}; write it bare, as in '10.2307/2346806'"
            )

    @property
    def name(self) -> str:
        """The title as a name: lower case, words joined by underscores ("Dawid-Skene" is "dawid_skene")."""
        return "_".join(re.findall(r"[a-z0-9]+", self.title.lower()))

    @property
    def link(self) -> str:
        """Address of the DOI; empty where there is none."""
        return f"https://doi.org/{self.doi}" if self.doi else ""

    def shape(self, site: str, sizes: Mapping[str, int]) -> tuple[int | None, ...]:
        """The size of each dimension of a site.

        Args:
            site: name of a latent site.
            sizes: what the words of the shape stand for, for example ``{"N": 45, "A": 5, "K": 4}``.

        Returns:
            One size a dimension; None where the word is not in ``sizes`` (a size of the method's own).

        Raises:
            MethodError: when the card does not list the site.
        """
        if site not in self.sites:
            raise MethodError(f"{self.title} has no site {site!r} on its card; it lists {', '.join(self.sites)}")
        return tuple(sizes.get(word) for word in self.sites[site].split())


@runtime_checkable
class Model(Protocol):
    """A generative story of annotations: anything with ``model(data)``.

    ``model`` is a Pyro program that draws the parameters, the truth of each item and, through
    ``crowdppl.primitives.annotate``, the labels. Every size comes from ``data``, at every call; a story keeps nothing of one
    data set for the next. Settings are constructor arguments, kept under their own names as attributes (a dataclass
    does that).

    It may also have ``card`` (a ``Card``), ``plates`` (how deep its plates nest, 1 if absent), the methods of
    ``HasGuide``, ``HasInit`` and ``HasSetup``, and, where a network learns under em or vb, ``counting``: another
    program of the same sites, by whose expected counts the parameters are updated (model-bootstrapped EM).

    Examples:
        >>> import pyro
        >>> import pyro.distributions as dist
        >>> class Mine:
        ...     def model(self, data):
        ...         log_p = crowdppl.primitives.prevalence(data)
        ...         with crowdppl.primitives.plates.annotators(data):
        ...             rows = dist.Dirichlet(crowdppl.primitives.confusion_prior(data)).to_event(1)
        ...             confusion = pyro.sample("confusion", rows)
        ...         with crowdppl.primitives.plates.items(data):
        ...             crowdppl.primitives.annotate(data, confusion.log(), crowdppl.primitives.truth(data, log_p))
        >>> isinstance(Mine(), crowdppl.primitives.Model)
        True
        >>> posterior = crowdppl.fit(Mine(), crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.labels()["label"].value_counts().to_dict()
        {2: 21, 1: 18, 3: 5, 4: 1}
    """

    def model(self, data: Any) -> Any:
        """Runs the story.

        Args:
            data: a ``Block`` or ``Annotations``: sizes, labels if observed, gold.
        """
        ...


@runtime_checkable
class HasGuide(Protocol):
    """A story with a variational family of its own; without one, the guide is derived from the model."""

    def guide(self, data: Any) -> Any:
        """Runs the guide: samples every latent site that is not summed out."""
        ...


@runtime_checkable
class HasInit(Protocol):
    """A story that knows better than the votes where engines should start."""

    def init(self, data: Any) -> Mapping[str, Tensor]:
        """Values of some latent sites to start from, each shaped as the site is."""
        ...


@runtime_checkable
class HasSetup(Protocol):
    """A story with settings that are to be found in the data, such as groups of annotators."""

    def setup(self, data: Any) -> Model:
        """A copy with those settings found, so that nothing depends on the data any more.

        Args:
            data: the ``Annotations`` to be fitted.
        """
        ...


def card_of(model: object) -> Card | None:
    """The card of a story or of its class; None where it has none.

    Raises:
        MethodError: when ``card`` is something other than a ``Card``.
    """
    card = getattr(model, "card", None)
    if card is not None and not isinstance(card, Card):
        raise MethodError(f"the card of {_label(model)} is {card!r}; make it a crowdppl.primitives.Card")
    return card


def in_a_line(model: object) -> str:
    """What a story is: the first line of its class's docstring; the title of its card where nobody wrote one."""
    own, card = inspect.getdoc(type(model)) or "", card_of(model)
    written = not own.startswith(f"{type(model).__name__}(")  # as a dataclass fills it in
    return (own.partition("\n")[0] if written else "") or (card.title if card else type(model).__name__)


def plates_of(model: object) -> int:
    """How deep a story's plates nest: 1 unless it says otherwise.

    Raises:
        MethodError: when ``plates`` is not a whole number of at least 1.
    """
    depth = getattr(model, "plates", 1)
    if not is_whole(depth) or depth < 1:
        raise MethodError(f"plates of {_label(model)} is {depth!r}; it must be a whole number, 1 or more")
    return int(depth)


def settings_of(model: object) -> dict[str, Any]:
    """The settings that would build the story again: its constructor arguments by name.

    Raises:
        MethodError: when the story does not keep a constructor argument as an attribute of the same name.
    """
    found = {}
    for name, parameter in inspect.signature(type(model)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if not hasattr(model, name):
            raise MethodError(
                f"{_label(model)} takes the setting {name!r} but does not keep it; "
                f"set self.{name} in its constructor, or make it a dataclass"
            )
        found[name] = getattr(model, name)
    return found


def _label(model: object) -> str:
    return model.__name__ if isinstance(model, type) else type(model).__name__
