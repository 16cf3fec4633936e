"""The file of answers that a command is given, and all that it can be told of how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from crowdppl import arguments
from crowdppl.errors import DataError
from crowdppl.wording import OF_GOLD, on_command_line

if TYPE_CHECKING:
    from crowdppl.annotations import Annotations

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
        said: how it is to be read, and known truths: the options of ``READING``.

    Raises:
        DataError: as ``read_annotations`` and ``read_gold`` do.
    """
    from crowdppl.reading import read_annotations, read_gold  # imports torch

    how: Any = {name: said[name] for name in AS_THEY_ARE}
    how |= {"classes": arguments.names(said["classes"]), "abstentions": said["abstain"] or ()}
    if said["gold"] is not None:
        try:
            encoding = said["gold_encoding"]
            how["gold"] = read_gold(said["gold"], said["gold_item"], said["gold_label"], encoding=encoding)
        except DataError as error:  # --item and --label are about the answers
            raise DataError(on_command_line(str(error), OF_GOLD)) from error
    return read_annotations(answers, **how)
