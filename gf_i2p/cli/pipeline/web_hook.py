"""Alerts for a web hook: the beginning and end of each alert, as a POST with JSON.

The hook has a thread of its own, so a slow hook delays no batch. The file that names the hook is private, because the
address of a hook often is its password. A name inside I2P goes to the proxy as it is, and is never looked up by DNS.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Final, Self
from urllib.parse import urlsplit

import requests
from pydantic import SecretStr, model_validator
from urllib3.util import SKIP_HEADER

from gf_i2p.node.files.checked_read import MAX_BYTES, Table, check_mode, read_regular, table_of

TIMEOUT: Final = 30.0
"""Most seconds for one try: a new stream through I2P may take so long."""
PAUSES: Final = (1.0, 5.0)
"""Seconds before the second and the third try."""
MAX_WAITING: Final = 1000
"""Most alerts that wait for the hook."""
CLOSE_SECONDS: Final = 10.0
"""Most seconds at the end of the job for the alerts that wait."""


class HookFile(Table):
    """The file that names a hook."""

    url: SecretStr
    """Address, `https://…`; `http://…` for a host inside I2P or on this machine."""
    proxy: str | None = None
    """`socks5h://HOST:PORT`, as a router's SOCKS proxy; needed for a host inside I2P."""

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        try:
            parts = urlsplit(self.url.get_secret_value())
            host, _ = parts.hostname, parts.port
            proxy = urlsplit(self.proxy or "socks5h://127.0.0.1:4447")
            has_proxy_port = proxy.port is not None
        except ValueError as error:
            raise ValueError(f"url, proxy: {error}") from error
        if parts.scheme not in {"http", "https"} or not host:
            raise ValueError("url: expected https://HOST/… or http://HOST/…")
        if proxy.scheme != "socks5h" or not proxy.hostname or not has_proxy_port:
            raise ValueError("proxy: expected socks5h://HOST:PORT, as in socks5h://127.0.0.1:4447")
        inside, here = host.endswith(".i2p"), host in {"127.0.0.1", "::1", "localhost"}
        if inside and self.proxy is None:
            raise ValueError("proxy: is missing; a host inside I2P is reached by a router's SOCKS proxy only")
        if parts.scheme == "http" and not inside and not here:
            raise ValueError("url: expected https://…: outside I2P everybody on the way could read the alerts")
        return self

    @property
    def host(self) -> str:
        """Host of the address: the rest may be secret."""
        return urlsplit(self.url.get_secret_value()).hostname or ""


def load_hook(path: Path) -> HookFile:
    """Read a private TOML file with `url` and `proxy`. Raises `ConfigError`."""
    data, status = read_regular(path, MAX_BYTES)
    check_mode(path, status)
    return table_of(HookFile, data.decode("utf-8", "replace"), path)


class WebHook:
    """Posts alerts one after another, in a thread of its own."""

    def __init__(self, file: HookFile, say: Callable[[str], None], pauses: tuple[float, ...] = PAUSES) -> None:
        """`say`: tells the operator a sentence. `pauses`: seconds before the further tries."""
        self.taken = 0
        """Number of alerts that the hook has taken."""
        self.lost = 0
        """Number of alerts that the hook has not taken."""
        self._file = file
        self._say = say
        self._pauses = pauses
        self._waiting: Queue[Mapping[str, Any] | None] = Queue(MAX_WAITING)
        self._stop = Event()
        self._failing = False
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy and no login of the environment
        self._session.headers.clear()
        self._session.headers["User-Agent"] = SKIP_HEADER
        if file.proxy is not None:
            self._session.proxies = {"http": file.proxy, "https": file.proxy}
        self._thread = Thread(target=self._run, name="web hook", daemon=True)
        self._thread.start()

    def send(self, alert: Mapping[str, Any]) -> None:
        """Post an alert soon. Returns at once."""
        try:
            self._waiting.put_nowait(alert)
        except Full:
            self._lose(f"more than {MAX_WAITING} alerts wait for it")

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait for the alerts that are still to be posted, and end. Alerts that wait longer are lost."""
        end = time.monotonic() + seconds
        try:
            self._waiting.put(None, timeout=seconds)
            self._thread.join(end - time.monotonic())
        except Full:
            pass
        self._stop.set()
        while True:
            try:
                if self._waiting.get_nowait() is not None:
                    self._lose("the job has ended")
            except Empty:
                return

    def _run(self) -> None:
        while not self._stop.is_set() and (alert := self._waiting.get()) is not None:
            fault = self._post(alert)
            for pause in self._pauses:
                if fault is None or not fault[1] or self._stop.wait(pause):
                    break
                fault = self._post(alert)
            if fault is None:
                self.taken += 1
                self._failing = False
            else:
                self._lose(fault[0])

    def _post(self, alert: Mapping[str, Any]) -> tuple[str, bool] | None:
        """Post an alert; return the fault as a clause, and whether another try may help; None when the hook took it."""
        try:
            with self._session.post(
                self._file.url.get_secret_value(), json=alert, timeout=TIMEOUT, allow_redirects=False, stream=True
            ) as response:
                code = response.status_code
        except requests.RequestException as error:
            return type(error).__name__, True  # the text would have the address
        if 200 <= code < 300:
            return None
        return f"it answers {code}", code >= 500 or code == 429

    def _lose(self, why: str) -> None:
        self.lost += 1
        if not self._failing:
            self._say(f"the web hook at {self._file.host} has not taken an alert: {why}")
        self._failing = True


@contextmanager
def web_hook(path: Path) -> Iterator[WebHook]:
    """Open the hook of a file, and close it at the end. Raises `ConfigError`."""
    hook = WebHook(load_hook(path), lambda text: print(f"gf-i2p: {text}", file=sys.stderr, flush=True))
    try:
        yield hook
    finally:
        hook.close()
