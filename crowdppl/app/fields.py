"""What the page of labels says, as options of the command line; and messages, as fields of that page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crowdppl.cli import arguments
from crowdppl.report.words import Words, say

COLUMN, NOBODY = "column:", "nobody"
"""How the choice of a column begins, and what says that no column names annotators."""
OF_COLUMNS = ("item", "annotator", "label", "gold", "text")
OF_TEXTS = ("format", "delimiter", "encoding", "decimal", "kind", "columns", "classes")
"""Fields that are options of the command line as they are."""
FIELDS = {
    **{name: name for name in (*OF_COLUMNS, *OF_TEXTS)},
    "wide": "columns",
    "gold_column": "gold",
    "abstentions": "abstain",
    "abstain": "abstain",
    "models": "who",
    "people": "who",
}
"""The field at which an argument is said."""
CHOICES = {"kind": "kinds", "columns": "layouts"}
"""Where the words of the choices of some lists stand."""

Said = Mapping[str, str]


def options_of(said: Said) -> dict[str, Any]:
    """What a page says, as options of the command line."""
    given: dict[str, Any] = {name: said[name] for name in OF_TEXTS if said.get(name)}
    for name in (*OF_COLUMNS, "second"):
        if said.get(name, "").startswith(COLUMN):
            given[name] = said[name].removeprefix(COLUMN)
    if "gold" in given:
        given["gold_column"] = given.pop("gold")
    if second := given.pop("second", None):
        given["item"] = [given.get("item", ""), second]
    if said.get("annotator") == NOBODY:
        given["no_annotator"] = True
    if said.get("abstain"):
        given["abstain"] = arguments.names(said["abstain"], "--abstain")
    return given


def command_of(name: str, said: Said, language: str) -> str:
    """The command that makes the same report."""
    words = ["crowdppl", "report", name]
    for option, value in options_of(said).items():
        if option == "gold_column":  # a report compares with a file
            words += ["--gold", name, "--gold-label", value]
            continue
        if option == "text":
            words += ["--text", value]
            continue
        texts = value if option == "abstain" else [arguments.listed(value) if isinstance(value, list) else value]
        spelled = f"--{arguments.SPELLED[option]}"
        words += [x for text in texts for x in ([spelled] if text is True else [spelled, text])]
    if said.get("gold_file"):
        words += ["--gold", Path(said["gold_file"]).name]
    words += ["--model", said["method"]] if said.get("method") else []
    words += ["--models", "all"] if said.get("who") else []
    return shlex.join([*words, *(["--language", language] if language != "en" else [])])


def field_of(message: str) -> str:
    """The field that a message asks for; "" for none."""
    names = "|".join(sorted(FIELDS, key=len, reverse=True))
    found = re.search(rf"(?<![\w-])(?:--({names})(?![\w-])|({names})=)", message)
    return FIELDS[found[1] or found[2]] if found else ""


def offers(message: str) -> list[dict[str, str]]:
    """What a message offers to say of the kind of labels or of columns."""
    found = re.findall(r"\b(kind|columns)=(['\"])(\w+)\2", message)
    return [{name: value} for name, _, value in dict.fromkeys(found)]


def as_fields(message: str, words: Words) -> str:
    """A message in which arguments are fields and their choices, as the page calls them."""

    def form(name: str, value: str | None) -> str:
        field = words.plain(say(f"app.fields.{name}"))
        if value is None:
            value = words.plain(say("app.labels.nobody" if name == "annotator" else "app.labels.none"))
        key = f"app.{CHOICES.get(name)}.{value}"
        value = words.plain(say(key)) if words.has(key) else value
        return words.plain(
            say("app.labels.choice", field=field, value=value) if value else say("app.labels.list", field=field)
        )

    return arguments.as_options(message, FIELDS, form)
