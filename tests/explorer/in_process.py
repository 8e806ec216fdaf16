"""The explorer in this process: its answers without a server, a browser or a second process."""

import asyncio
import json
import os
import time
from dataclasses import dataclass
from urllib.parse import urlencode

from p2p_sim.explorer.app import LANES, application
from p2p_sim.explorer.directories import ReadableDirectories
from p2p_sim.explorer.worker_process import answered

TOKEN, HOST = "a-token", "127.0.0.1:8123"


class Here:
    """Answers at once."""

    async def ask(self, task, fields):
        await asyncio.sleep(0)
        return answered(task, fields)


def slow(task, fields):
    """What a process beside the server answers in a test: late, or never."""
    if fields.get("end"):
        os._exit(1)
    time.sleep(float(fields["s"]))
    return {"said": fields["s"]}


async def nothing():
    """The server starts."""


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict
    content: bytes

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Client:
    """Sends requests to the explorer; paths begin after the token, and whole ones with a slash."""

    def __init__(self, *roots, published=None):
        self.app = application(
            ReadableDirectories(roots, published), dict.fromkeys(LANES, Here()), TOKEN, HOST, nothing
        )

    def get(self, path, query=None, headers=(), method="GET", kind="http"):
        given = [(name.encode(), text.encode()) for name, text in headers]
        if "host" not in dict(headers):
            given.append((b"host", HOST.encode()))
        whole = path if path.startswith("/") else f"/{TOKEN}/{path}"
        scope = {
            "type": kind, "http_version": "1.1", "method": method, "scheme": "http", "path": whole,
            "raw_path": whole.encode(), "query_string": urlencode(query or {}, doseq=True).encode(), "headers": given,
            "root_path": "", "server": ("127.0.0.1", 8123), "client": ("127.0.0.1", 9), "extensions": {},
        }  # fmt: skip
        sent = []

        async def receive():
            return {"type": "websocket.connect"} if kind == "websocket" else {"type": "http.request", "body": b""}

        async def send(message):
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        if kind == "websocket":
            return [message["type"] for message in sent]
        head = {name.decode().lower(): text.decode() for name, text in sent[0]["headers"]}
        return Reply(sent[0]["status"], head, b"".join(message.get("body", b"") for message in sent[1:]))
