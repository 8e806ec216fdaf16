"""Nobody without the token can hang the explorer, fill its log, or learn the token."""

import asyncio
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from p2p_sim.explorer import guard, serve
from p2p_sim.explorer.serve import BACKLOG, MOST_CONNECTIONS, forwarding
from tests.conftest import ROOT
from tests.explorer.in_process import HOST, TOKEN, Client

RUN = "from p2p_sim.cli.main import main; main()"


@contextmanager
def explorer(folder, *options, **environment):
    """A process of the explorer that may open 1,024 files: itself, its address and the file of its log."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, "explore", "--quiet", *map(str, options)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, stdout=subprocess.PIPE, stderr=log, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
        )  # fmt: skip
        try:
            yield process, process.stdout.readline().strip(), folder / "log"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with explorer(tmp_path_factory.mktemp("served"), "--no-open") as found:
        yield found


def port_of(address):
    return int(address.split(":")[2].split("/")[0])


def opened(address, content=b""):
    """A connection to the explorer with some bytes sent."""
    made = socket.create_connection(("127.0.0.1", port_of(address)), timeout=30)
    made.sendall(content)
    return made


def answer(address, content):
    """All that the explorer sends to a connection until it ends it."""
    with opened(address, content) as made:
        return b"".join(iter(lambda: made.recv(65_536), b""))


def request(address, *headers, path=None):
    lines = [f"GET {path or '/' + address.split('/', 3)[3]} HTTP/1.1", f"Host: 127.0.0.1:{port_of(address)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def test_the_page_stays_usable_beside_1200_connections_of_one_byte(served):
    process, address, log = served
    before = open_files(process)
    with ExitStack() as held:
        for _ in range(1200):
            held.enter_context(opened(address, b"G"))
        times = []
        for _ in range(5):
            begin = time.monotonic()
            with urllib.request.urlopen(address, timeout=20) as page:
                assert page.status == 200
            times.append(time.monotonic() - begin)
        assert min(times) < 2.0
        assert open_files(process) <= before + MOST_CONNECTIONS + BACKLOG
    assert log.stat().st_size < 2_000


def test_headers_have_a_time_limit_however_slowly_they_come(served):
    """One byte a second gains a connection no time; one whose request is whole is not cut off."""
    _, address, _ = served
    begin = time.monotonic()
    with opened(address, b"GET / HTTP/1.1\r\n") as slow:
        slow.settimeout(1.0)
        ended = False
        while not ended and time.monotonic() - begin < 5 * serve.HEADERS_S:
            try:
                slow.sendall(b"x")
                ended = slow.recv(100) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
    assert ended
    assert time.monotonic() - begin > serve.HEADERS_S - 1.0


def test_who_is_refused_keeps_no_connection_and_upgrades_are_refused(served):
    _, address, log = served
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
    for refused in (request(address, *upgrade), request(address, path="/wrong/"), request(address, "Origin: null")):
        text = answer(address, refused)  # returns, as the connection is ended
        assert text.startswith(b"HTTP/1.1 403 ")
        assert b"connection: close" in text.lower()
    assert answer(address, request(address, "Connection: close")).startswith(b"HTTP/1.1 200 ")  # the control
    assert answer(address, b"rubbish\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert log.stat().st_size < 2_000


def test_upgrades_are_refused_and_a_page_may_be_opened_from_elsewhere():
    client = Client()
    assert client.get("", headers=[("connection", "Upgrade"), ("upgrade", "h2c")]).status == 403
    elsewhere = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
    for path, dest, status in (("", "document", 200), ("worth", "document", 200), ("", "iframe", 403),
                               ("api/results", "document", 403), ("film/1", "document", 403)):  # fmt: skip
        assert client.get(path, headers=[*elsewhere, ("sec-fetch-dest", dest)]).status == status
    assert client.get("/wrong/", headers=[*elsewhere, ("sec-fetch-dest", "document")]).status == 403


def test_no_more_than_some_requests_are_answered_at_once(monkeypatch):
    monkeypatch.setattr(guard, "MOST_AT_ONCE", 3)

    async def five():
        waiting, sent = asyncio.Event(), []

        async def inner(scope, receive, send):
            await waiting.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message):
            sent.append(message.get("status"))

        whole = guard.Guard(inner, TOKEN, HOST)
        scope = {"type": "http", "method": "GET", "path": f"/{TOKEN}/", "headers": [(b"host", HOST.encode())]}
        asked = [asyncio.create_task(whole(scope, None, send)) for _ in range(5)]
        await asyncio.sleep(0)
        waiting.set()
        await asyncio.gather(*asked)
        await whole(scope, None, send)  # there is room again
        return [status for status in sent if status]

    assert asyncio.run(five()) == [503, 503, 200, 200, 200, 200]


def test_the_page_that_forwards_can_be_read_by_its_owner_alone():
    with forwarding("http://127.0.0.1:1/secret/") as page:
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        assert 'content="0; url=http://127.0.0.1:1/secret/"' in page.read_text()
    assert not page.parent.exists()


def command_lines():
    """Of all processes, as everybody on the machine may read them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(path.read_bytes())
    return lines


def test_the_token_is_in_no_list_of_processes(tmp_path):
    """The browser is a script here, which notes its arguments and stays for a moment."""
    script, seen = tmp_path / "browser", tmp_path / "seen"
    script.write_text(f'#!/bin/sh\necho "$@" > {seen}.part\nmv {seen}.part {seen}\nsleep 5\n')
    script.chmod(0o755)
    with explorer(tmp_path, BROWSER=f"{script} %s") as (process, address, _):
        end = time.monotonic() + 30
        while not seen.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        token = address.split("/")[3]
        lines = command_lines()
        assert any(str(script).encode() in line for line in lines)  # the control: it is looked at while it runs
        assert not any(token.encode() in line for line in lines)
        page = Path(seen.read_text().strip().removeprefix("file://"))
        assert token in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert process.poll() is None
    assert not page.exists()
