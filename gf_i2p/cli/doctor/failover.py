"""Checks for mode `failover`: whether the local service answers, and the options of the session for the service."""

from collections.abc import Callable
from typing import Final

from gf_i2p.cli.doctor.checks import Check, CheckResult, Remedy, ok, warn
from gf_i2p.cli.doctor.leaf_services import SERVICE_SECONDS, look_at_service
from gf_i2p.node.files.router_settings import PublishTable
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose

_SERVICE: Final = "service"


class FailoverChecks:
    """Checks of one server that the farm may choose."""

    def __init__(
        self, publish: PublishTable, keys: Callable[[], PublishingKeys | None], router_kind: Callable[[], str]
    ) -> None:
        """`keys`: returns the master's keys. `router_kind`: returns "i2pd", "java" or "auto".

        Both are called only after the earlier checks, which find out the keys and the kind.
        """
        assert publish.service is not None, "by the configuration's own check"
        self._service = publish.service
        self._keys = keys
        self._router_kind = router_kind

    def checks(self, master: str) -> list[Check]:
        """List the checks. `master`: the name of the check that reads the keys."""
        return [
            Check(_SERVICE, self._answers, SERVICE_SECONDS),
            Check("service session", self._session, needs=(master,), after=("publishing",)),
        ]

    async def _answers(self) -> CheckResult:
        return await look_at_service(
            self._service.target, setting="[publish.service] target", effect="this server is not chosen"
        )

    async def _session(self) -> CheckResult:
        keys, kind = self._keys(), self._router_kind()
        assert keys is not None
        options, signed = self._service.session, keys.signed_options(Purpose.SERVICE)
        if signed is None or kind == "java":
            return ok(f"{len(options)} options from [publish.service.session]" if options else "the default options")
        differences = {name: value for name, value in options.items() if signed.get(name) != value}
        if not differences:
            return ok("the options that the master has signed")
        names = ", ".join(f"{name} = {value}" for name, value in differences.items())
        arguments = " ".join(f"--option {name}={value}" for name, value in differences.items())
        return warn(
            f"[publish.service.session] says {names}, but an i2pd follows the options that the master has "
            "signed, and those differ",
            Remedy(
                f"gf-i2p keys delegate … {arguments}, where the master's own key is; or remove these options from "
                "[publish.service.session]",
                'with a Java router set only [router] kind = "java": the settings count there',
            ),
        )
