"""Checks of the router beside the node: whether the router runs, its kind, and each interface."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from bridges.errors import LoginRefusedError, RouterError, RouterUnreachableError
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.settings import Deadlines, I2cpSettings, RouterKind
from bridges.i2cp.tls import shown_fingerprint
from bridges.i2pcontrol.jsonrpc_client import CertificateError, PasswordError
from bridges.i2pcontrol.router_answers import RouterProgram
from gf_i2p.cli.doctor import remedies
from gf_i2p.cli.doctor.checks import Check, CheckResult, Remedy, fail, fault_and_advice, ok, skip, warn
from gf_i2p.cli.doctor.node_directory import SECRETS
from gf_i2p.cli.doctor.proxy import ProxyAuthorisationError, ProxyError, ask_http, ask_socks
from gf_i2p.cli.shared.router_setup import check_logins, i2cp_settings, i2pcontrol, sam
from gf_i2p.farm.record.router_facts import Reachability
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.router_logins import RouterLogins, RouterPasswords, proxy_settings
from gf_i2p.node.files.router_settings import RouterTable, host_and_port
from gf_i2p.transport.errors import error_text
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod
from gf_i2p.transport.tls.certificates import parse_fingerprint

ROUTER: Final = "router"
PROXY: Final = "proxy"
SAM: Final = "SAM"
I2CP: Final = "I2CP"
I2PCONTROL: Final = "i2pcontrol"
LOGINS: Final = "logins"

CLOCK_WARN_SECONDS: Final = 60
CLOCK_FAIL_SECONDS: Final = 180
"""Most seconds of difference between the two clocks: above that, Java refuses the date of a session."""
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 10.0
_STARTING: Final = Remedy.either("The router may be starting or stopping: try again in a minute.")
_KINDS: Final = {RouterKind.I2PD: RouterProgram.I2PD, RouterKind.JAVA: RouterProgram.JAVA}


class RouterChecks:
    """The checks of one node's router."""

    def __init__(self, config: Config | None, router: RouterTable, secrets: Secrets | None) -> None:
        """`config`: None to check a router for any node, without the settings of one; then publishing counts as on."""
        self._config = config
        self._router = router
        self._secrets = secrets
        self._passwords = secrets or RouterPasswords()
        users = (router.i2cp_user, router.sam_user, router.proxy_user)
        self._has_logins = self._passwords.has_logins or any(user is not None for user in users)
        self._clock_ahead: float | None = None
        self.kind: RouterProgram | None = _KINDS.get(RouterKind(router.kind))
        """The kind of router, by the configuration or by the checks of the router's interfaces; None: not known yet."""

    def checks(self) -> list[Check]:
        """List the checks."""
        router = self._router
        method = ProxyMethod(router.way)
        need_secrets = (ROUTER, SECRETS)
        logins = [Check(LOGINS, self._logins, needs=(SECRETS,))] if self._has_logins else []
        needs = (ROUTER, LOGINS) if self._has_logins else (ROUTER,)
        return [
            Check(ROUTER, self._runs, seconds=10),
            *logins,
            Check(PROXY, self._proxy, 30, needs, late=remedies.proxy_on(method, router.proxy)),
            Check(SAM, self._sam, _ANSWER_SECONDS, needs, late=remedies.sam_on(router.sam)),
            Check(I2CP, self._i2cp, 4 * _ANSWER_SECONDS, needs, late=remedies.i2cp_on(router.i2cp)),
            Check("clock", self._clock, after=(I2CP,)),
            Check(I2PCONTROL, self._i2pcontrol, 30, need_secrets if router.i2pcontrol else (ROUTER,)),
        ]

    # Whether the router runs ----------------------------------------------------------------------------------------

    async def _runs(self) -> CheckResult:
        places = {
            PROXY: host_and_port(self._router.proxy),
            SAM: host_and_port(self._router.sam),
            I2CP: host_and_port(self._router.i2cp),
        }
        if self._router.i2pcontrol is not None:
            url = urlsplit(self._router.i2pcontrol)
            places[I2PCONTROL] = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        reasons = await asyncio.gather(*(_fault_of_port(*address) for address in places.values()))
        if None in reasons:
            return ok(f"runs: {reasons.count(None)} of {len(reasons)} interfaces take connections")
        return fail(f"none of the interfaces takes connections: {', '.join(places)}", remedies.router_start())

    async def _logins(self) -> CheckResult:
        try:
            check_logins(self._router, self._passwords)
            logins = RouterLogins.of(self._router, self._passwords)
        except ConfigError as error:
            fault = str(error)
            return fail(fault, remedies.logins(fault)) if ": is missing" in fault else fail(*_fault_and_remedy(error))
        users = {I2CP: logins.i2cp, SAM: logins.sam, PROXY: logins.proxy}
        return ok(", ".join(f"{name}: user {login.user}" for name, login in users.items() if login is not None))

    # The interfaces -------------------------------------------------------------------------------------------------

    async def _proxy(self) -> CheckResult:
        router, method = self._router, ProxyMethod(self._router.way)
        try:
            if method is ProxyMethod.SOCKS5:
                login = RouterLogins.of(router, self._passwords).proxy
                await ask_socks(*host_and_port(router.proxy), None if login is None else (login.user, login.password))
                return ok(f"SOCKS at {router.proxy}")
            settings = proxy_settings(router, RouterLogins.of(router, self._passwords))
            kind = await ask_http(settings.host, settings.port, settings.http_login)
        except ProxyAuthorisationError as error:
            remedy = remedies.proxy_login(method, is_set=router.proxy_user is not None)
            return fail(f"{router.proxy}: {error}", remedy)
        except ProxyError as error:
            return fail(str(error), remedies.proxy_on(method, router.proxy))
        if kind is None:
            return warn(
                f"a proxy answers at {router.proxy}, and does not show that it belongs to an I2P router",
                remedies.proxy_on(method, router.proxy),
            )
        self.kind = self.kind or kind
        return ok(f"{kind}'s HTTP proxy at {router.proxy}")

    async def _sam(self) -> CheckResult:
        address = self._router.sam
        try:
            await sam(self._router, self._passwords).probe()
        except LoginRefusedError as error:
            return fail(fault_and_advice(str(error))[0], remedies.sam_login(is_set=self._router.sam_user is not None))
        except RouterError as error:
            return _unusable(error, address, remedies.sam_on(address))
        return ok(f"SAM 3.1 at {address}")

    async def _i2cp(self) -> CheckResult:
        address = self._router.i2cp
        deadlines = Deadlines(connect=_CONNECT_SECONDS, answer=_ANSWER_SECONDS)
        try:
            settings = i2cp_settings(self._router, self._passwords)
        except ConfigError as error:
            return fail(*_fault_and_remedy(error))
        settings = replace(settings, kind=RouterKind.AUTO, deadlines=deadlines)
        try:
            connection = await I2cpConnection.open(settings)
            self._clock_ahead = connection.ahead_ms / 1000
            connection.close()
            kind = await router_kind(settings)
        except RouterError as error:
            result = await self._without_i2cp(settings, error)
            publish = None if self._config is None else self._config.publish
            if publish is not None and publish.mode == "off" and not publish.all_leaves:
                return warn(
                    f"{result.text}; only publishing, and the search for lease sets, need I2CP, and publishing is off",
                    result.remedy,
                )
            return result
        program = _KINDS[kind]
        if self._router.kind not in {"auto", kind}:
            return fail(
                f'the router is {program}, and the configuration says kind = "{self._router.kind}": every set would be '
                "lost",
                Remedy.either(f'[router] kind = "{kind}"; for router-config, --{kind}'),
            )
        self.kind = program
        return ok(f"{program} at {address}")

    async def _without_i2cp(self, settings: I2cpSettings, error: RouterError) -> CheckResult:
        """Return the failure of the check, with the reason: the login, the certificate, or the interface itself."""
        if isinstance(error, LoginRefusedError):
            is_set = self._router.i2cp_user is not None
            return fail(fault_and_advice(str(error))[0], remedies.i2cp_login(is_set=is_set))
        shown = await shown_fingerprint(settings)
        if shown is None or shown == settings.fingerprint:
            return _unusable(error, self._router.i2cp, remedies.i2cp_on(self._router.i2cp))
        fault = (
            "shows a certificate that is not the configured one or not trusted, so nothing was sent"
            if settings.is_encrypted
            else "speaks TLS, and no TLS is configured"
        )
        return fail(
            f"{self._router.i2cp} {fault}; the certificate's fingerprint: {shown}",
            remedies.i2cp_certificate(shown),
        )

    async def _clock(self) -> CheckResult:
        if self._clock_ahead is None:
            return skip("not compared: only I2CP tells the router's time")
        offset = abs(self._clock_ahead)
        text = (
            f"the router's clock is {offset:.0f} s {'ahead of' if self._clock_ahead > 0 else 'behind'} this machine's"
        )
        if offset > CLOCK_FAIL_SECONDS:
            return fail(f"{text}, and Java takes {CLOCK_FAIL_SECONDS} s at most", remedies.CLOCK)
        if offset > CLOCK_WARN_SECONDS:
            return warn(text, remedies.CLOCK)
        return ok(text if offset >= 1 else "the same as the router's")

    async def _i2pcontrol(self) -> CheckResult:
        url = self._router.i2pcontrol
        if url is None:
            return skip("not configured, so the farm does not see this router's load")
        assert self._secrets is not None
        try:
            control = i2pcontrol(self._router, self._secrets)
        except ConfigError as error:
            return fail(str(error), remedies.I2PCONTROL_PASSWORD)
        assert control is not None
        try:
            status = await control.local_router_status()
        except PasswordError:
            return fail("the router refuses the password", remedies.I2PCONTROL_PASSWORD)
        except CertificateError as error:
            fingerprint = parse_fingerprint(error.fingerprint)
            configured = self._router.i2pcontrol_fingerprint is not None
            fault = (
                "another certificate than the configured one"
                if configured
                else "a certificate that nothing vouches for"
            )
            return fail(
                f"shows {fault}, so nothing was sent; its fingerprint: {fingerprint}", remedies.certificate_compare(url)
            )
        except RouterUnreachableError as error:
            return _unusable(error, urlsplit(url).netloc, remedies.i2pcontrol_on(url))
        except RouterError as error:
            fault, remedy = _fault_and_remedy(error)
            return fail(fault, remedy if remedy.i2pd else remedies.i2pcontrol_on(url))
        finally:
            await control.close()
        self.kind = self.kind or control.kind
        parts = [f"{control.kind or 'a router'} {status.version or ''}".rstrip()]
        if status.uptime_ms is not None:
            parts.append(f"up {timedelta(seconds=status.uptime_ms // 1000)}")
        if status.reachability is not None:
            parts.append(f"network {status.reachability}")
        if status.reachability in {Reachability.ERROR, Reachability.WARNING}:
            return warn("; ".join([", ".join(parts), *control.notes]), Remedy.either("See the router's console."))
        return ok(", ".join(parts))


def _unusable(error: RouterError, address: str, remedy: Remedy) -> CheckResult:
    """Return a failure that says in one line why the router's interface cannot be used, with a remedy."""
    cause = error.__cause__
    if isinstance(error, RouterUnreachableError):
        if isinstance(cause, ConnectionResetError | BrokenPipeError | EOFError):
            return fail(f"{address} closes the connection", _STARTING)
        if isinstance(cause, OSError) and cause.errno:
            return fail(f"nobody answers at {address} ({error_text(cause)})", remedy)
    return fail(fault_and_advice(str(error))[0], remedy)


def _fault_and_remedy(error: Exception) -> tuple[str, Remedy]:
    fault, advice = fault_and_advice(str(error))
    return fault, Remedy.either(advice)


async def _fault_of_port(host: str, port: int) -> str | None:
    """Return why no connection to the port is possible; None when a connection is possible."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return "too late"
    except OSError as error:
        return error_text(error)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return None
