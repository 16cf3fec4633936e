"""The pages of the app, from templates and the words of the report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse

from crowdppl.app.fields import as_fields
from crowdppl.report.words import LANGUAGES, Words, say

LANGUAGE = "language"
"""Name of the cookie and of the part of an address that choose a language."""
FILES = {"page.css": "text/css", "app.css": "text/css", "app.js": "text/javascript"}
"""What pages load, and its type; the first is the report's."""


def read(name: str) -> str:
    """A template, a style or a script."""
    package = "crowdppl.report" if name == "page.css" else __package__
    return (files(package) / "page_files" / name).read_text(encoding="utf-8")


@cache
def _environment(language: str) -> Environment:
    words = Words(language)
    made = Environment(autoescape=True, loader=FunctionLoader(read), trim_blocks=True, lstrip_blocks=True)
    made.globals.update(
        html=words.html,
        plain=words.plain,
        say=say,
        has=words.has,
        language=language,
        told=lambda message: as_fields(message, words),
        kinds=[*words.find("app.kinds")],
        languages={name: Words(name).plain(say("app.language")) for name in LANGUAGES},
    )
    return made


def language_of(request: Request) -> str:
    """The language that a person chose, or that their browser prefers of those that there are."""
    said = [request.query_params.get(LANGUAGE, ""), request.cookies.get(LANGUAGE, "")]
    said += [
        part.split(";")[0].strip()[:2].lower() for part in request.headers.get("accept-language", "").split(",")
    ]
    return next((name for name in said if name in LANGUAGES), LANGUAGES[0])


def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page by its template."""
    language = language_of(request)
    text = _environment(language).get_template(f"{name}.html").render(path=request.url.path, **values)
    answer = HTMLResponse(text, status)
    if request.query_params.get(LANGUAGE) == language:
        answer.set_cookie(LANGUAGE, language, samesite="strict", httponly=True)
    return answer


def sentence(request: Request, key: str, values: Mapping[str, Any]) -> str:
    """A sentence as text, for a script."""
    return Words(language_of(request)).text(say(key, **values))
