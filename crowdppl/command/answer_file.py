"""The file of answers that a command is given, and all that it can be told of how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from crowdppl import registry
from crowdppl.command import arguments
from crowdppl.command.wording import OF_COVARIATES, OF_FEATURES, OF_GOLD, on_command_line
from crowdppl.doors.telling import tell
from crowdppl.errors import CrowdpplWarning, DataError
from crowdppl.stories.story import card_of

if TYPE_CHECKING:
    from crowdppl.data.annotations import Annotations

AS_THEY_ARE: tuple[str, ...] = (
    "item",
    "annotator",
    "label",
    "format",
    "delimiter",
    "encoding",
    "wide",
    "kind",
    "repeats",
    "informative_abstentions",
)
"""Options that ``read_annotations`` takes as they are."""
READING: Mapping[str, tuple[Any, Any]] = {
    "format": (arguments.Format, None),
    "delimiter": (arguments.Delimiter, None),
    "encoding": (arguments.Encoding, None),
    "wide": (arguments.Wide, False),
    "item": (arguments.Item, None),
    "annotator": (arguments.Annotator, None),
    "label": (arguments.Label, None),
    "classes": (arguments.Classes, None),
    "abstain": (arguments.Abstain, None),
    "informative_abstentions": (arguments.Informative, False),
    "kind": (arguments.Kind, "nominal"),
    "repeats": (arguments.Repeats, "keep"),
    "gold": (arguments.Gold, None),
    "gold_item": (arguments.GoldItem, None),
    "gold_label": (arguments.GoldLabel, None),
    "gold_encoding": (arguments.GoldEncoding, None),
    "features": (arguments.Features, None),
    "features_item": (arguments.FeaturesItem, None),
    "features_encoding": (arguments.FeaturesEncoding, None),
    "item_covariates": (arguments.ItemCovariates, None),
    "covariates_item": (arguments.CovariatesItem, None),
    "annotator_covariates": (arguments.AnnotatorCovariates, None),
    "covariates_annotator": (arguments.CovariatesAnnotator, None),
    "covariates_encoding": (arguments.CovariatesEncoding, None),
}
"""What each command that reads answers can be told of them: kind and default."""


def reading(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of ``READING`` in place of its ``**how``."""
    own, made = signature(command, eval_str=True), cast(Any, command)
    kept = [parameter for parameter in own.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=x, annotation=kind) for name, (kind, x) in READING.items()
    ]
    made.__signature__ = own.replace(parameters=[*kept, *more])
    return command


def read_answers(answers: Path, said: Mapping[str, Any]) -> Annotations:
    """The annotations that a command is given.

    Args:
        answers: the file.
        said: how it is to be read, and known truths, features and covariates: the options of ``READING``.

    Raises:
        DataError: as ``read_annotations``, ``read_gold`` and ``read_item_covariates`` do.
    """
    from crowdppl.files import reading  # imports torch

    how: Any = {name: said[name] for name in AS_THEY_ARE}
    how |= {"classes": arguments.names(said["classes"]), "abstentions": said["abstain"] or ()}
    if said["gold"] is not None:
        try:
            encoding = said["gold_encoding"]
            how["gold"] = reading.read_gold(said["gold"], said["gold_item"], said["gold_label"], encoding=encoding)
        except DataError as error:  # --item and --label are about the answers
            raise DataError(on_command_line(str(error), OF_GOLD)) from error
    items, annotators = reading.read_item_covariates, reading.read_annotator_covariates
    for what, read, column, spelled in (
        ("features", items, "features_item", OF_FEATURES),
        ("item_covariates", items, "covariates_item", OF_COVARIATES),
        ("annotator_covariates", annotators, "covariates_annotator", OF_COVARIATES),
    ):
        if said[what] is None:
            continue
        try:
            encoding = said["features_encoding" if what == "features" else "covariates_encoding"]
            how[what] = read(said[what], said[column], encoding=encoding)
        except DataError as error:
            raise DataError(on_command_line(str(error), spelled)) from error
    return reading.read_annotations(answers, **how)


def sources(answers: Path, said: Mapping[str, Any]) -> dict[str, Path | None]:
    """The files that a command is given, by what they are."""
    names = ("gold", "features", "item_covariates", "annotator_covariates")
    return {"answers": answers, **{name: said[name] for name in names}}


def warn_of_unread(models: Sequence[str], said: Mapping[str, Any]) -> None:
    """Warns of files that none of some methods reads, by their cards.

    Without a card, it is not known what a method reads.
    """
    cards = {name: card_of(registry.method(name)) for name in models if name != "auto"}
    uses = [card.uses for card in cards.values() if card is not None]
    for what in ("features", "item_covariates", "annotator_covariates"):
        if said[what] is not None and len(uses) == len(cards) and not any(what in some for some in uses):
            text = f"{', '.join(models)}: no card says that {what} are read, so that {said[what]} changes nothing"
            tell(text, CrowdpplWarning)
