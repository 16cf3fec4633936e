"""What each request is asked, and each response says: this person's browser alone, and nothing elsewhere."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
"""The name of the token in the address."""
SAME = ("same-origin", "none")
"""What a browser says of requests by the app's own pages, and by a person who typed the address."""
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "frame-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
OF_PAGES = "; ".join(f"{what} {whence}" for what, whence in POLICY.items())
OF_REPORTS = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; form-action 'none'; base-uri 'none'"
)
"""A report is a page of its own: its scripts have no origin, so that they can read and ask for nothing here."""
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Passes on requests that know the token and come from the app's own pages; refuses all others.

    The token is in the address that is printed; the page there gives it as a cookie, by which the others know it.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie = f"crowdppl-{port}"  # those of other ports are sent, too

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers, given = Headers(scope=scope), self._token_in_address(scope)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "Content-Security-Policy": OF_PAGES}.items():
                    answered.setdefault(name, value)
                if given:
                    answered.append("Set-Cookie", f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        if scope["type"] != "http" or not self._is_own(scope["method"], headers, given):
            given = False
            return await PlainTextResponse("Open the address that the terminal shows.\n", 403)(scope, receive, told)
        await self.app(scope, receive, told)

    def _is_own(self, method: str, headers: Headers, given: bool) -> bool:
        """Whether a request is one of the app's own pages, or opens its address."""
        host = headers.get("host", "")
        reads = method in ("GET", "HEAD")
        origin = headers.get("origin", "" if reads else "none")
        if host not in self.hosts or origin not in ("", f"http://{host}"):
            return False
        if given:
            return reads
        return headers.get("sec-fetch-site", "none") in SAME and self._same(self._token_in_cookie(headers))

    def _token_in_address(self, scope: Scope) -> bool:
        """Whether the address of the first page has the token."""
        found = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(TOKEN, [""])
        return scope.get("path") == "/" and self._same(found[0])

    def _token_in_cookie(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def _same(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())
