"""A file that describes a farm in TOML: servers, parameters, decisions about leaves and about the publisher.

The farm's secrets stand there encrypted, or not at all (`sealed`).

`gf-i2p config export` writes such a file. `differences` compares a file with the farm, and makes the administrators'
entries that lead from the farm to the file (proposal 150: "import and export of configuration for bulk deployments").
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self

import tomlkit
from pydantic import AfterValidator, Field, model_validator
from tomlkit.items import Table as TomlTable

from gf_i2p.farm.admin_entries import MAX_DRAINED, MAX_EXCLUDED, MAX_REASON, AdminEntry
from gf_i2p.farm.parameters import Parameters, ranges
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.files.checked_read import Table, known_format, load_table
from gf_i2p.node.files.sealed import SealedTable
from gf_i2p.wire.limits import MAX_ID

_HEADER: Final = (
    "`gf-i2p config diff DIR|FILE THIS` shows how the farm differs from this file. `config import` changes the farm.",
    "A key that is missing stands for its default: no parameter set, no leaf excluded, no server drained.",
    "`endpoint`, `mode` and `publish` are for comparison: an import changes no server's own files.",
)
MAX_SERVERS: Final = 1024
"""Most servers in a file."""
_Id = Annotated[int, Field(ge=0, lt=MAX_ID)]


def _checked_leaf(text: str) -> str:
    try:
        from_b32_address(text)
    except StructureError as error:
        raise ValueError(f"{text[:80]!r} is no address that ends in .b32.i2p") from error
    return text


class ServerSection(Table):
    """One server: `[[servers]]`."""

    id: _Id
    endpoint: str
    mode: str | None = None
    """Mode of the server as publisher, as its newest record tells."""
    publish: str | None = None
    """Whether the server may publish, as its newest record tells: "off", "on" or "auto"."""
    drained: bool = False


class LeafSection(Table):
    """One leaf about which an administrator has decided: `[[leaves]]`."""

    address: Annotated[str, AfterValidator(_checked_leaf)]
    excluded: bool = False
    cost: Annotated[int, Field(ge=0, le=255)] | None = None
    """Cost that replaces the computed cost; None: the farm computes the cost."""
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None
    """Why the leaf is excluded."""


class FarmFile(Table):
    """A farm."""

    format: Annotated[int, known_format(1)]
    cluster: str
    publisher: _Id | None = None
    """The server that publishes as long as it can, although others score better; None: the farm chooses."""
    parameters: dict[str, int | str] = Field(default_factory=dict)
    servers: Annotated[tuple[ServerSection, ...], Field(max_length=MAX_SERVERS, strict=False)] = ()
    leaves: Annotated[tuple[LeafSection, ...], Field(max_length=2 * MAX_EXCLUDED, strict=False)] = ()
    sealed: SealedTable | None = None
    """Users and publishing keys, encrypted (`gf_i2p.node.recovery.farm_secrets`); no comparison looks at them."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for name, values in (
            ("servers", [server.id for server in self.servers]),
            ("leaves", [leaf.address for leaf in self.leaves]),
        ):
            twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
            if twice is not None:
                raise ValueError(f"{name}: {twice} stands there twice")
        if self.publisher is not None and self.publisher not in {server.id for server in self.servers}:
            raise ValueError(f"publisher: the file has no server {self.publisher}")
        if sum(server.drained for server in self.servers) > MAX_DRAINED:
            raise ValueError(f"servers: at most {MAX_DRAINED} can be drained")
        try:
            Parameters().changed(self.parameters)
        except RecordError as error:
            raise ValueError(f"parameters: {error}") from error
        return self

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises `ConfigError`, which names every mistake."""
        return load_table(cls, path)

    @classmethod
    def of_answers(cls, administration: Mapping[str, Any], status: Mapping[str, Any]) -> Self:
        """Describe a farm by a node's answers to `GET /v1/administration` and `GET /v1/status`."""
        endpoints = {server["id"]: server["endpoint"] for server in status["servers"]}
        return cls(
            format=1,
            cluster=administration["cluster"],
            publisher=administration["moved_to"],
            parameters={
                name: each["value"]
                for name, each in administration["parameters"].items()
                if each["value"] != each["default"]
            },
            servers=tuple(
                ServerSection(
                    id=server["id"],
                    endpoint=endpoints.get(server["id"], ""),
                    mode=server["mode"],
                    publish=server["publish"],
                    drained=server["drained"] is not None,
                )
                for server in administration["servers"]
            ),
            leaves=tuple(
                LeafSection(
                    address=leaf["address"],
                    excluded=leaf["excluded"] is not None,
                    cost=leaf["set_cost"],
                    reason=None if leaf["excluded"] is None else leaf["excluded"].get("reason"),
                )
                for leaf in administration["leaves"]
                if leaf["excluded"] is not None or leaf["set_cost"] is not None
            ),
        )

    def encode(self, server: int, at: datetime) -> str:
        """Return the text of the file. Its first line names the server that has described the farm, and the time."""
        title = f"The farm {self.cluster!r} as server {server} knew it at {at:%Y-%m-%d %H:%M:%S}Z."
        document = tomlkit.document()
        for line in (title, *_HEADER):
            document.add(tomlkit.comment(line))
        document.add(tomlkit.nl())
        document.add("format", tomlkit.item(self.format))
        document.add("cluster", tomlkit.item(self.cluster))
        if self.publisher is not None:
            document.add("publisher", tomlkit.item(self.publisher))
        if self.parameters:
            document.add("parameters", _parameters_table(self.parameters))
        for name, sections in (("servers", self.servers), ("leaves", self.leaves)):
            if sections:
                tables = tomlkit.aot()
                for section in sections:
                    tables.append(tomlkit.item(section.model_dump(exclude_defaults=True)))
                document.add(name, tables)
        if self.sealed is not None:
            table = tomlkit.item(self.sealed.model_dump())
            table.comment("users and publishing keys: `gf-i2p config check --secrets THIS` shows what kinds there are")
            document.add("sealed", table)
        return tomlkit.dumps(document)


def _parameters_table(parameters: Mapping[str, Any]) -> TomlTable:
    table, allowed = tomlkit.table(), ranges()
    for name, value in parameters.items():
        table.add(name, value)
        table[name].comment(
            " or ".join(map(str, allowed[name])) if name == "tree" else "{} to {}".format(*allowed[name])
        )
    return table


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a farm and a file."""

    text: str
    """The difference, a clause with the farm's value and the file's."""
    entry: AdminEntry | None = None
    """The entry that an import posts; None: the operator must act, as `text` says."""


def differences(farm: FarmFile, wanted: FarmFile, *, date_ms: int, by: str, reason: str | None) -> Iterator[Difference]:
    """Yield the differences between a farm and a file, with the entries that end them.

    Args:
        farm: the farm, as a node describes it.
        wanted: the file.
        date_ms: date of the entries, in ms since the epoch.
        by: author of the entries.
        reason: reason of the entries; a leaf's own reason in the file replaces it.
    """

    def entry(action: str, **fields: Any) -> AdminEntry:
        return AdminEntry(wanted.cluster, date_ms, by, action, **{"reason": reason} | fields)

    changed = dict(_of_parameters(farm.parameters, wanted.parameters))
    if changed:
        text = ", ".join(
            f"{name} {_shown(farm.parameters.get(name))} -> {_shown(new)}" for name, new in changed.items()
        )
        yield Difference(f"parameters: {text}", entry("set", parameters=changed))
    yield from _of_leaves(farm, wanted, entry)
    yield from _of_servers(farm, wanted, entry)
    if wanted.publisher != farm.publisher:
        move = entry("release") if wanted.publisher is None else entry("move", server=wanted.publisher)
        now, then = (
            f"server {each}" if each is not None else "the farm's choice" for each in (farm.publisher, wanted.publisher)
        )
        yield Difference(f"publisher: {now} -> {then}", move)


def _of_parameters(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in sorted({*now, *then}):
        if now.get(name) != then.get(name):
            yield name, then.get(name)


def _shown(value: Any) -> str:
    return "default" if value is None else str(value)


def _of_leaves(farm: FarmFile, wanted: FarmFile, entry: Any) -> Iterator[Difference]:
    now, then = ({leaf.address: leaf for leaf in each.leaves} for each in (farm, wanted))
    for address in sorted({*now, *then}):
        none = LeafSection(address=address)
        old, new, hash_ = now.get(address, none), then.get(address, none), from_b32_address(address)
        if (old.excluded, old.reason if old.excluded else None) != (new.excluded, new.reason if new.excluded else None):
            if new.excluded:
                change = entry("exclude", hash=hash_, **({} if new.reason is None else {"reason": new.reason}))
                if old.excluded and new.reason is None:
                    continue  # the farm knows a reason, and the file has none
                if new.reason is None:
                    yield Difference(f"leaf {address}: included -> excluded", change)
                elif old.excluded:
                    yield Difference(f"leaf {address}: excluded -> excluded ({new.reason})", change)
                else:
                    yield Difference(f"leaf {address}: included -> excluded ({new.reason})", change)
            else:
                yield Difference(f"leaf {address}: excluded -> included", entry("include", hash=hash_))
        if old.cost != new.cost:
            costs = ("computed" if each is None else str(each) for each in (old.cost, new.cost))
            yield Difference(f"leaf {address}: cost {' -> '.join(costs)}", entry("cost", hash=hash_, cost=new.cost))


def _of_servers(farm: FarmFile, wanted: FarmFile, entry: Any) -> Iterator[Difference]:
    now, then = ({server.id: server for server in each.servers} for each in (farm, wanted))
    for server_id in sorted({*now, *then}):
        old, new = now.get(server_id), then.get(server_id)
        if old is None:
            yield Difference(
                f"server {server_id} is not in the farm: `gf-i2p members invite` and `members add` bring it in"
            )
        elif new is None:
            yield Difference(f"server {server_id} is not in the file: `gf-i2p members remove` takes it out of the farm")
        else:
            if new.endpoint not in {old.endpoint, ""}:
                yield Difference(
                    f"server {server_id} has the endpoint {old.endpoint}, and in the file {new.endpoint}: a server "
                    "that moves is removed first, and invited with a new id"
                )
            if new.mode not in {old.mode, None}:
                yield Difference(_own_setting(server_id, "mode", old.mode, new.mode))
            if new.publish not in {old.publish, None}:
                yield Difference(_own_setting(server_id, "publish", old.publish, new.publish))
            if new.drained != old.drained:
                if new.drained:
                    yield Difference(f"server {server_id}: not drained -> drained", entry("drain", server=server_id))
                else:
                    yield Difference(f"server {server_id}: drained -> not drained", entry("undrain", server=server_id))


def _own_setting(server_id: int, name: str, old: str | None, new: str | None) -> str:
    command = f"`gf-i2p set DIR publish.{name}={new}`"
    return f"server {server_id} has {name} {_shown(old)}, and in the file {new}: run {command} on its machine"
