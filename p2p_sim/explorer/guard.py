"""The explorer's guard refuses requests without the token, for another address, or from another site."""

import hmac
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page of the explorer may load: only what the explorer serves, and images that the page itself contains."""
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Headers of every response, unless the response sets its own. With these headers, no other site learns the address,
which contains the token."""
REFUSED = (
    "refused: this is no address of a running explorer. If the explorer was restarted: open its new address, which "
    "p2p-sim explore printed.\n"
)
MOST_AT_ONCE = 32
"""Largest number of requests that are answered at a time. A browser sends only six at a time."""
LONGEST_BODY = 200_000
"""Largest number of bytes of a request's body. A scenario's text is far shorter."""


class Guard:
    """An ASGI application before another one. A request is refused, or handed on without the token.

    The path must begin with the token, and the header Host must be `host`. An Origin, if given, must be http://
    followed by `host`. The header Sec-Fetch-Site says whether another site caused the request. Such a request may only
    open a page of the explorer by its whole address. Websockets and other upgrades of a connection are refused because
    the explorer uses none. At most `MOST_AT_ONCE` requests are answered at a time.

    Args:
        inner: the application that answers. token: secret text. host: address and port, such as 127.0.0.1:8000.
    """

    def __init__(self, inner: ASGIApp, token: str, host: str) -> None:
        self._inner, self._token, self._host = inner, token.encode(), host
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it. The arguments are standard for an ASGI application."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
            return
        several = Headers(scope=scope)
        sent = {name: ", ".join(several.getlist(name)) for name in several}  # no check accepts a header sent twice
        rest = self._rest(sent, scope["path"])
        length = sent.get("content-length", "0")
        if rest is None:
            await _ending(REFUSED, 403)(scope, receive, send)
        elif "transfer-encoding" in sent or not length.isdecimal() or int(length) > LONGEST_BODY:
            await _ending("too large\n", 413)(scope, receive, send)
        elif self._answering >= MOST_AT_ONCE:
            await _ending("too many requests at once\n", 503)(scope, receive, send)
        else:
            inner = {
                **scope,
                "path": rest,
                "raw_path": rest.encode(),
                "root_path": "",
                "explorer_prefix": "/" + self._token.decode(),
            }
            self._answering += 1
            try:
                await self._inner(inner, receive, _adding(send))
            finally:
                self._answering -= 1

    def _rest(self, sent: Mapping[str, str], path: str) -> str | None:
        """The part of a request's path after the token, from "/" on; None if the request must be refused. A wrong
        token, Host or Origin is refused, and so is an upgrade. A request by another site may only open a page.

        Args:
            sent: the request's headers. path: the whole path.
        """
        origin = f"http://{self._host}"
        if "upgrade" in sent or sent.get("host") != self._host or sent.get("origin", origin) != origin:
            return None
        token, _, rest = path.removeprefix("/").partition("/")
        opened = (
            sent.get("sec-fetch-mode") == "navigate" and sent.get("sec-fetch-dest") == "document" and "/" not in rest
        )
        if sent.get("sec-fetch-site", "none") not in ("none", "same-origin") and not opened:
            return None
        return "/" + rest if hmac.compare_digest(token.encode(errors="replace"), self._token) else None


def _adding(send: Send) -> Send:
    """A function that sends messages of a response as `send` does, but adds security headers that the response lacks.
    The headers forbid caching, and forbid pages to load anything from elsewhere. The headers also keep the address,
    which contains the token, from other sites.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, text in HEADERS.items():
                headers.setdefault(name, text)
        await send(message)

    return sending


def _ending(text: str, status: int) -> PlainTextResponse:
    """A response of plain text after which the connection ends. So refused requests keep no connection open."""
    return PlainTextResponse(text, status, {**HEADERS, "connection": "close"})
