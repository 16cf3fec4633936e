"""The report of a fit: one file of HTML, and tables beside it."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from crowdppl import __version__
from crowdppl.core.doubt import Doubt
from crowdppl.core.files import new_file, new_files
from crowdppl.core.validation import kind_of, require_path
from crowdppl.data.annotations import Annotations, require_annotations
from crowdppl.data.ids import by_item, native
from crowdppl.data.tables import arrow_table, coded_table
from crowdppl.data.written import write_table
from crowdppl.errors import CrowdpplError, CrowdpplWarning, DataError, ResultError
from crowdppl.inference.result import Fit
from crowdppl.report.facts import Facts
from crowdppl.report.page import experts, heading, parts_of, sections
from crowdppl.report.pictures import votes_svg
from crowdppl.report.words import Words, say
from crowdppl.results.acquisition import suggest_labels
from crowdppl.results.annotators import annotators
from crowdppl.results.summary import table_of_kind
from crowdppl.results.truths import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

LABELS, ANNOTATORS, CHECK, ASK = "labels.csv", "annotators.csv", "check.csv", "ask_next.csv"
PAGE = "report.html"
ASKED = 1_000
"""Rows of ``ask_next.csv``."""
MOST_PAIRS = 20_000_000
"""Items times annotators up to which it is told whom to ask."""


def report(
    posterior: Fit,
    path: str | Path,
    gold: Mapping[Any, Any] | pd.Series | None = None,
    *,
    language: str = "en",
    text: Mapping[Any, Any] | pd.Series | None = None,
    people: Annotations | None = None,
    doubts: Sequence[Doubt] | None = None,
    source: str = "",
    command: str = "",
    tables: str | Path | None = None,
    spreadsheet_safe: bool = False,
) -> Path:
    """Writes a page for people who read no tables: what is settled, whom to trust, where to look, what to do next.

    The page is one file without scripts of others and without network; tables lie in a folder beside it.

    Args:
        posterior: the fit.
        path: the file of HTML; it is replaced.
        gold: known truths by item to compare with; they choose nothing.
        language: "en" or "de".
        text: what each item says, by item id (of tokens their words), to be shown beside it.
        people: labels of classes of the same items by several people, by which it is told whether annotators, that
            are models, may replace one (``alternative_annotator_test``).
        doubts: of the fit; by default none are told.
        source: name of the file of labels.
        command: how to make the report again.
        tables: the folder of tables; by default beside the page, and named as it is with "-files". Tables of an
            earlier report are replaced.
        spreadsheet_safe: whether text in tables gets a quote before it that a spreadsheet would run.

    Returns:
        The path.

    Raises:
        MethodError: for a language without words.
        DataError: for unknown items or classes in gold, or texts that are no mapping.
        ResultError: when the path cannot be written.

    Examples:
        >>> posterior = crowdppl.fit("one_coin", crowdppl.anaesthetists(), inference="vb", seed=0)
        >>> posterior.report("report.html").name
        'report.html'
    """
    path = require_path(path, ResultError)
    if path.is_dir():
        raise ResultError(f"{path} is a folder; give the path of a file, such as {path / PAGE}")
    folder = path.parent / f"{path.stem}-files" if tables is None else require_path(tables, ResultError)
    if not isinstance(text, Mapping | pd.Series | None):
        raise DataError(f"text is {kind_of(text)}; give a Series or a mapping from item id to text")
    said = None if text is None else by_item(text)
    if people is not None:
        require_people(require_annotations(people, "people"), posterior.data)
    facts = Facts(posterior, doubts or (), None if gold is None else by_item(gold), source, command, said, people)
    parts = parts_of(facts)
    words = Words(language, parts.nouns)
    given = _tables(facts)
    prefix = "" if folder == path.parent else f"{folder.name}/"
    page = rendered(facts, words, list(given), prefix)
    with new_files(folder) as new:
        for name, table in given.items():
            write_table(table, new / name, spreadsheet_safe)
    with new_file(path) as new:
        new.write_text(page, encoding="utf-8")
    return path


def require_people(people: Annotations, data: Annotations) -> None:
    """DataError for labels by people by which no model that gave ``data`` can be tested."""
    kind = data.alphabet.kind
    if kind.numeric or kind.parts is not None or people.kind != kind.name:
        raise DataError(
            f"people= has labels of kind {people.kind!r} and the fit of kind {kind.name!r}: who may replace a "
            "person is told where both are classes; leave it out, or call crowdppl.alternative_annotator_test"
        )
    both = people.annotators[people.annotators.isin(data.annotators)]
    if len(both):
        raise DataError(
            f"people= has labels by {native(both[0])!r}, whose labels were fitted, too, and who would be compared "
            "with oneself; leave annotators that are models out of it, and give people ids of their own"
        )
    if not people.items.isin(data.items).any():
        raise DataError(
            f"no item of people= is in the posterior (people= has {native(people.items[0])!r}, the posterior "
            f"{native(data.items[0])!r}); spell items as the labels do"
        )


def rendered(facts: Facts, words: Words, names: Sequence[str], prefix: str = "") -> str:
    """The page as text."""
    from jinja2 import Environment, FunctionLoader  # slow to import

    parts, where = parts_of(facts), files(__package__) / "page_files"

    def read(name: str) -> str:
        return (where / name).read_text(encoding="utf-8")

    environment = Environment(autoescape=True, loader=FunctionLoader(read), trim_blocks=True)
    environment.globals.update(
        html=words.html,
        value=words.value,
        plain=words.plain,
        say=say,
        draw=lambda picture: picture.draw(words),
        votes=lambda x: votes_svg(x[0], x[1], words, x[2]),
    )
    told = {name: words.text(say(f"page.{key}")) for name, key in SCRIPT_WORDS.items()}
    return environment.get_template("page.html").render(
        language=words.language,
        source=facts.source,
        version=__version__,
        date=datetime.date.today().isoformat(),
        heading=heading(facts, parts),
        sections=sections(facts, words, parts, names),
        experts=list(experts(facts)),
        prefix=prefix,
        style=Markup(read("page.css")),
        script=Markup(read("page.js")),
        script_words=told,
    )


SCRIPT_WORDS = {"search": "search", "download": "download", "none": "no_match"}
"""Words that the script of the page shows, and their keys."""


def _tables(facts: Facts) -> dict[str, pa.Table]:
    """The tables beside a page, by file name."""
    fit, data = facts.posterior, facts.data
    found = {LABELS: to_arrow(fit), ANNOTATORS: arrow_table(annotators(fit))}
    found |= of_kind(fit)
    check = data.item_columns(facts.random_items())
    found[CHECK] = coded_table({}, pd.DataFrame({**check, "label": ""}))
    if data.n_items * data.n_annotators <= MOST_PAIRS:
        try:
            with warnings.catch_warnings(action="ignore", category=CrowdpplWarning):  # that there are fewer
                asked = suggest_labels(fit, min(ASKED, data.n_items))
        except CrowdpplError:  # of a method that cannot tell whom to ask
            asked = pd.DataFrame()
        if len(asked):
            found[ASK] = coded_table({}, asked)
    return found


def of_kind(posterior: Fit) -> dict[str, pa.Table]:
    """The table that belongs to the kind of labels, by its file; none where the method does not have it."""
    table, name = table_of_kind(posterior), posterior.data.alphabet.kind.table
    if table is None:
        return {}
    if "set" in table:  # of several classes
        table["set"] = [";".join(map(str, members)) for members in table["set"]]
    return {f"{name}.csv": coded_table({}, table) if table.index.name is None else arrow_table(table)}
