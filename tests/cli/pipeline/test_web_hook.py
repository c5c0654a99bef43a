"""Alerts reach a web hook, over HTTP and through a SOCKS proxy, and a hook that fails loses its alerts only."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.pipeline.web_hook import HookFile, WebHook, load_hook
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.storage.private_files import write_private
from integration.harness.processes import free_ports

ALERT = {"farm": "farm", "alert": "leader lost", "event": "begins", "text": "no leader for 60 s"}


class Hook:
    """A web hook that answers with these codes, then 204 again and again, and keeps each request."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.headers.append(dict(self.headers))
                hook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                code = hook.codes.pop(0) if hook.codes else 204
                self.send_response(code)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def hook(*codes: int) -> Iterator[Hook]:
    made = Hook(*codes)
    try:
        yield made
    finally:
        made.close()


class SocksProxy:
    """A SOCKS5 proxy that knows one host: it notes the name that it is asked for, and leads to `port`."""

    def __init__(self, port: int) -> None:
        self.asked: list[tuple[int, bytes]] = []
        """The kind of each asked address, 3 for a name, and the address."""
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        caller, _ = self._listener.accept()
        with caller, socket.create_connection(("127.0.0.1", self._port)) as there:
            caller.recv(2 + caller.recv(2)[1])  # the methods
            caller.sendall(b"\x05\x00")
            kind, length = caller.recv(5)[3:]
            self.asked.append((kind, caller.recv(length)))
            caller.recv(2)
            caller.sendall(b"\x05\x00\x00\x01" + bytes(4) + struct.pack(">H", self._port))
            threading.Thread(target=_copy, args=(there, caller), daemon=True).start()
            _copy(caller, there)

    def close(self) -> None:
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # the other direction has ended
        while data := source.recv(1 << 16):
            target.sendall(data)


def opened(url: str, proxy: str | None = None) -> tuple[WebHook, list[str]]:
    said: list[str] = []
    return WebHook(HookFile.model_validate({"url": url, "proxy": proxy}), said.append, pauses=(0.0, 0.0)), said


def test_each_alert_is_posted_once_and_in_order() -> None:
    with hook() as there:
        posting, said = opened(f"http://127.0.0.1:{there.port}/secret?token=1")
        for number in range(3):
            posting.send({**ALERT, "at_ms": number})
        posting.close()
    assert there.bodies == [{**ALERT, "at_ms": number} for number in range(3)]
    assert (posting.taken, posting.lost, said) == (3, 0, [])
    assert there.headers[0]["Content-Type"] == "application/json"
    assert "User-Agent" not in there.headers[0], "a stranger learns no version"


def test_a_hook_that_fails_for_a_moment_is_tried_again() -> None:
    with hook(500, 429) as there:
        posting, said = opened(f"http://127.0.0.1:{there.port}/")
        posting.send(ALERT)
        posting.close()
    assert (len(there.bodies), posting.taken, said) == (3, 1, [])


@pytest.mark.parametrize(("codes", "tries"), [((404,), 1), ((302,), 1), ((500, 502, 503), 3)])
def test_a_hook_that_refuses_loses_the_alert_with_a_word(codes: tuple[int, ...], tries: int) -> None:
    with hook(*codes) as there:
        posting, said = opened(f"http://127.0.0.1:{there.port}/secret?token=1")
        posting.send(ALERT)
        posting.send(ALERT)
        posting.close()
    assert len(there.bodies) == tries + 1
    assert (posting.taken, posting.lost) == (1, 1)
    assert said == [f"the web hook at 127.0.0.1 has not taken an alert: it answers {codes[-1]}"]


def test_a_hook_that_is_not_there_is_named_once_and_its_secret_never() -> None:
    (port,) = free_ports(1)
    posting, said = opened(f"http://127.0.0.1:{port}/secret?token=1")
    for _ in range(3):
        posting.send(ALERT)
    posting.close()
    assert (posting.taken, posting.lost) == (0, 3)
    assert said == ["the web hook at 127.0.0.1 has not taken an alert: ConnectionError"]


def test_a_name_inside_i2p_goes_to_the_proxy_as_it_is() -> None:
    name = f"{'a' * 52}.b32.i2p"
    with hook() as there:
        proxy = SocksProxy(there.port)
        posting, said = opened(f"http://{name}/alerts", f"socks5h://127.0.0.1:{proxy.port}")
        posting.send(ALERT)
        posting.close()
        proxy.close()
    assert (there.bodies, said) == ([ALERT], [])
    assert proxy.asked == [(3, name.encode())]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("", "url: is missing"),
        ("url = 'ftp://a/'", "url: expected https://HOST"),
        ("url = 'http://a.example/'", "url: expected https://…: outside I2P everybody"),
        ("url = 'http://a.i2p/'", "proxy: is missing; a host inside I2P"),
        ("url = 'https://a.i2p/'", "proxy: is missing"),
        ("url = 'http://a.i2p/'\nproxy = 'socks5://127.0.0.1:4447'", "proxy: expected socks5h://"),
        ("url = 'http://a.i2p/'\nproxy = 'socks5h://127.0.0.1'", "proxy: expected socks5h://"),
        ("url = 'http://a.i2p:x/'\nproxy = 'socks5h://127.0.0.1:1'", "url, proxy: "),
        ("url = 'https://a.example/'\ntoken = 'x'", "token: no such key"),
    ],
)
def test_a_file_that_would_leak_is_refused(tmp_path: Path, lines: str, why: str) -> None:
    path = tmp_path / "hook.toml"
    write_private(path, lines)
    with pytest.raises(ConfigError, match=why) as raised:
        load_hook(path)
    assert "example" not in str(raised.value), "the address may be secret"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hook.toml"
    path.write_text("url = 'https://a.example/secret'")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others"):
        load_hook(path)
    path.chmod(0o600)
    assert load_hook(path).host == "a.example"
