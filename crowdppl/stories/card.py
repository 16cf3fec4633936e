"""What a method says about itself, in words and in shapes that the contract checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from crowdppl.errors import MethodError


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
