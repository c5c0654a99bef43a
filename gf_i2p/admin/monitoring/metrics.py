"""The figures of a process's nodes in Prometheus' text format.

All figures come from `node_status.status` and from `Measured`, at the time of the question. Each figure has the labels
`cluster` and `server`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gf_i2p.admin.monitoring.health import HealthState, health
from gf_i2p.node.consensus.measured import Measured
from gf_i2p.storage.durations import Durations

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NUMBERS: Final = re.compile(r"\d+(\.\d+)?")
_Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """The figures of one node."""

    status: Mapping[str, Any]
    """See `node_status.status`."""
    measured: Measured


class Metrics(Collector):
    """Collects the figures of all nodes of this process, and of the process itself."""

    def __init__(self, nodes: Callable[[], Iterable[NodeFigures]], loop_lag: Durations) -> None:
        """`nodes`: returns the figures of the nodes that run now. `loop_lag`: delays of the event loop's timers."""
        self._nodes = nodes
        self._loop_lag = loop_lag
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all figures in the text format."""
        return generate_latest(self._registry)

    def describe(self) -> Sequence[Metric]:
        """Return nothing: so the registry does not collect the figures when this object is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families of figures."""
        families = _Families()
        families.histogram("gf_i2p_event_loop_lag_seconds", "Delays of the event loop's timers.", self._loop_lag, {})
        for node in self._nodes():
            _describe(families, node)
        return families.all()


class _Families:
    """Families of figures, each with the figures of all nodes."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}

    def all(self) -> Iterator[Metric]:
        yield from self._families.values()

    def gauge(self, name: str, text: str, value: float | None, labels: _Labels) -> None:
        """Add a figure; None: not known, and left out."""
        if value is not None:
            self._family(GaugeMetricFamily, name, text, labels).add_metric(list(labels.values()), float(value))

    def counter(self, name: str, text: str, value: float, labels: _Labels) -> None:
        """Add a figure that only rises. Prometheus' name of the figure ends in "_total"."""
        self._family(CounterMetricFamily, name, text, labels).add_metric(list(labels.values()), float(value))

    def histogram(self, name: str, text: str, durations: Durations, labels: _Labels) -> None:
        buckets = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in durations.cumulative()]
        family = self._family(HistogramMetricFamily, name, text, labels)
        family.add_metric(list(labels.values()), buckets, durations.sum)

    def _family(self, kind: type[Metric], name: str, text: str, labels: _Labels) -> Any:
        if name not in self._families:
            self._families[name] = kind(name, text, labels=list(labels))  # type: ignore[call-arg]
        return self._families[name]


def _describe(to: _Families, node: NodeFigures) -> None:
    status = node.status
    own = {"cluster": status["cluster"], "server": str(status["id"])}
    state = health(status).state
    for each in HealthState:
        to.gauge("gf_i2p_health", "1 for the state of this server, else 0.", each is state, {**own, "state": each})
    _describe_consensus(to, node, own)
    _describe_log(to, status, own)
    _describe_connections(to, status, own)
    _describe_publishing(to, status["farm"], own, status["id"])


def _describe_consensus(to: _Families, node: NodeFigures, own: _Labels) -> None:
    status, measured, quorum = node.status, node.measured, node.status["quorum"]
    to.gauge("gf_i2p_has_leader", "Whether this server knows a leader.", status["leader"] is not None, own)
    to.gauge("gf_i2p_is_leader", "Whether this server leads.", status["role"] == "leader", own)
    to.gauge("gf_i2p_term", "The term (Raft 5.1).", status["term"], own)
    to.counter("gf_i2p_leader_changes", "Leaders that this server has followed.", measured.leader_changes, own)
    to.gauge("gf_i2p_servers", "Servers of the farm.", quorum["servers"], own)
    to.gauge("gf_i2p_servers_reached", "Servers that are reached, with this server.", quorum["reachable"], own)
    to.gauge("gf_i2p_quorum", "Servers that make a majority.", quorum["needed"], own)
    to.histogram("gf_i2p_commit_seconds", "Times from a leader's append to the commit.", measured.commits, own)
    to.histogram("gf_i2p_log_write_seconds", "Times of the log's transactions with sync.", measured.writes, own)
    for peer in status["servers"]:
        if peer["self"]:
            continue
        at = {**own, "peer": str(peer["id"])}
        to.gauge("gf_i2p_peer_connected", "Whether this server has a connection to a peer.", peer["connected"], at)
        to.gauge("gf_i2p_peer_lag_entries", "Entries that a peer lacks, by its leader.", peer["lag"], at)
        for name, quantile in (("p50", "0.5"), ("p99", "0.99")):
            seconds = None if peer["round_trip"] is None else peer["round_trip"][name]
            to.gauge("gf_i2p_peer_round_trip_seconds", "Round trip to a peer.", seconds, {**at, "quantile": quantile})


def _describe_log(to: _Families, status: Mapping[str, Any], own: _Labels) -> None:
    log, disk, snapshot, history = status["log"], status["disk"], status["snapshot"], status["history"]
    to.gauge("gf_i2p_log_first_index", "Index of the log's first entry.", log["first_index"], own)
    to.gauge("gf_i2p_log_last_index", "Index of the log's last entry.", log["last_index"], own)
    to.gauge("gf_i2p_commit_index", "Index of the last committed entry.", log["commit"], own)
    to.gauge("gf_i2p_applied_index", "Index of the last applied entry.", log["applied"], own)
    to.gauge("gf_i2p_disk_used_bytes", "Bytes of log and history.", disk["used"], own)
    to.gauge("gf_i2p_disk_budget_bytes", "Most bytes of log and history; 0: no limit.", disk["budget"], own)
    to.gauge("gf_i2p_disk_full", "Whether clients' posts are refused for lack of room.", disk["full"] is not None, own)
    if snapshot is not None:
        to.gauge("gf_i2p_snapshot_index", "Index of the last entry that the snapshot covers.", snapshot["index"], own)
        to.gauge("gf_i2p_snapshot_bytes", "Bytes of the snapshot.", snapshot["bytes"], own)
    if history is not None:
        to.gauge("gf_i2p_history_lag_entries", "Committed entries that the history lacks.", history["lag"], own)


def _describe_connections(to: _Families, status: Mapping[str, Any], own: _Labels) -> None:
    connections = status["connections"]
    to.gauge("gf_i2p_connections", "Incoming connections that have logged in.", connections["current"], own)
    to.counter("gf_i2p_connections_accepted", "Incoming connections.", connections["accepted"], own)
    to.counter("gf_i2p_logins", "Incoming connections that have logged in.", connections["authenticated"], own)
    for reason, count in connections["refused"].items():
        at = {**own, "reason": reason}
        to.counter("gf_i2p_connections_refused", "Incoming connections that were refused.", count, at)
    for reason, count in status["posts"]["refused"].items():
        to.counter("gf_i2p_posts_refused", "Requests of users that were refused.", count, {**own, "reason": reason})


def _describe_publishing(to: _Families, farm: Mapping[str, Any], own: _Labels, server: int) -> None:
    publisher, keys = farm["publisher"], farm["keys"]
    to.gauge("gf_i2p_router_up", "Whether the router beside this server answers.", farm["router_up"], own)
    to.gauge("gf_i2p_publishes", "Whether this server is set to publish.", farm["mode"] != "off", own)
    to.gauge("gf_i2p_publisher", "Id of the chosen publisher; 0: none.", publisher or 0, own)
    to.gauge("gf_i2p_is_publisher", "Whether this server is the chosen publisher.", publisher == server, own)
    to.gauge("gf_i2p_leaves_listed", "Leaves that the farm lists.", len(farm["leaves"]), own)
    for reason, count in _left_out(farm["left_out"]).items():
        to.gauge("gf_i2p_leaves_left_out", "Leaves that the farm does not list.", count, {**own, "reason": reason})
    to.gauge("gf_i2p_troubles", "Troubles that `gf-i2p status` names.", len(farm["trouble"]), own)
    if keys is not None:
        to.gauge("gf_i2p_keys_end_seconds", "End of the delegated keys, since the epoch.", keys["ends"], own)
    for name, load in farm["leaf_loads"].items():
        at = {**own, "leaf": name}
        to.gauge("gf_i2p_leaf_connections", "Connections of a leaf's forwarder.", load["connections"], at)
        to.gauge("gf_i2p_leaf_bytes_per_second", "Bytes of a leaf's forwarder.", load["bytes_per_second"], at)
    published = farm["publishing"]
    if published is None:
        return
    progress = published.get("progress") or {}
    for stage in ("attempted", "sent", "found", "confirmed"):
        to.gauge(
            "gf_i2p_set_seconds", "Time of a stage of the newest set.", progress.get(stage), {**own, "stage": stage}
        )
    to.gauge("gf_i2p_set_published_seconds", "Version of the newest set.", published["published"], own)
    to.gauge("gf_i2p_set_expires_seconds", "End of the newest set, since the epoch.", published["expires"], own)
    to.gauge("gf_i2p_service_streams", "Open streams of the service in failover.", published.get("streams"), own)
    load = published.get("load") or {}
    to.gauge("gf_i2p_service_bytes_per_second", "Bytes of the service.", load.get("currentBandwidth"), own)


def _left_out(reasons: Mapping[str, str]) -> dict[str, int]:
    """Count the leaves by reason. Numbers in a reason are left out, so that the reasons are few."""
    counts: dict[str, int] = {}
    for reason in reasons.values():
        kind = _NUMBERS.sub("N", reason)
        counts[kind] = counts.get(kind, 0) + 1
    return counts
