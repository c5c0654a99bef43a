"""The table of fuzz targets is complete, and the seeds and the corpus break no limit: integration/fuzz/."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from integration.fuzz.campaign import Campaign
from integration.fuzz.corpus import FOLDER, MAX_BYTES, read_corpus
from integration.fuzz.edge_tracer import EdgeTracer
from integration.fuzz.table import TARGETS, TRACED
from integration.fuzz.target import Target

ROOT = Path(__file__).parents[3]
DECODER = re.compile(r"(parse|decode|read|unpack|feed|receive|from_b(ase64|32_address))(_.*)?|_?parse|data_received")
"""Names of functions that take foreign bytes or texts."""
ELSEWHERE = {
    "gf_i2p/simulator": "made-up networks and disks, in one process",
    "gf_i2p/cli/commands/simulate.py": "a file of seeds in this repository",
    "gf_i2p/pipeline/lake/tables.py": "Parquet, which Spark reads",
    "gf_i2p/pipeline/floodfills/router_files.py": "finds files; the targets router-info and peer-profile-… read them",
    "gf_i2p/pipeline/floodfills/given_hashes.py": "`parse_targets`: one call of `parse_target` for each line",
    "gf_i2p/pipeline/stream/tail.py": "finds new lines; the targets history-line and entry-columns read these",
    "gf_i2p/pipeline/backtest": "the operator's own files of parameters",
    "gf_i2p/pipeline/days.py": "the operator's command line",
    "gf_i2p/cli/main.py": "the operator's command line",
    "gf_i2p/cli/shared": "the operator's command line and files",
    "gf_i2p/pipeline/read/stored_file.py": "`Readable.read` reads bytes; the target history-file decodes these",
    "gf_i2p/storage/database.py": "rows of this node's own SQLite file, which have checksums",
    "gf_i2p/storage/stored_snapshot.py": "as database.py",
    "gf_i2p/storage/log_tables.py": "as database.py; the target log-row reads the rows' content",
    "gf_i2p/storage/private_files.py": "reads bytes, and decodes nothing",
    "gf_i2p/storage/history_reader.py": "`read_lines` and `read_history` find the files of `Scan`",
    "gf_i2p/node/history/frames.py": "frames between a node and the node's own child",
    "gf_i2p/node/files/checked_read.py": "`read_regular` and `read_text` read bytes, and decode UTF-8 only",
    "gf_i2p/node/files/stopped_log.py": "opens this node's own database",
    "gf_i2p/node/consensus/driver.py": "`read_barrier` reads nothing from outside",
    "gf_i2p/raft": "messages that `wire` has decoded",
    "gf_i2p/transport/inbound_connection.py": "feeds the handshake and `RequestDecoder`",
    "gf_i2p/admin/remote_interface.py": "passes on to aiohttp what an authenticated user sends",
    "gf_i2p/transport/peer_link.py": "feeds the handshake and `ResponseDecoder`",
    "gf_i2p/transport/i2p/i2p_listener.py": "one line, by `address_of`: the target peer-line",
    "gf_i2p/transport/tls": "TLS, which Python's ssl reads",
    "bridges/i2cp/connection.py": "feeds `Decoder`",
    "bridges/i2cp/master_publication.py": "the node's own publication; the target session-config reads configs",
    "bridges/streaming": "streams, which take packets; the target streaming-packet reads packets",
}
"""Modules and folders with such names that need no target of their own, and why. A function in such a module that a
target enters all the same is no matter."""
NAMES = [target.name for target in TARGETS]


@cache
def entered() -> frozenset[tuple[str, str]]:
    """File and name of each function that seeds and corpus enter."""
    tracer = EdgeTracer(TRACED)
    for target in TARGETS:
        for data in [*target.seeds(), *(kept.data for kept in read_corpus(target.name))]:
            tracer.run(lambda data=data, target=target: target.function(data))  # type: ignore[misc]
    return frozenset(
        (str(Path(file).relative_to(ROOT)), name) for file, name in tracer.entered if ROOT in Path(file).parents
    )


def decoders() -> Iterator[tuple[str, str]]:
    """Give path and qualified name of each function that reads like a decoder."""
    for folder in ("gf_i2p", "bridges"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            yield from ((str(path.relative_to(ROOT)), name) for name in named(tree.body, ""))


def named(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from named(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and DECODER.fullmatch(node.name):
            bases = "abstract" in ast.unparse(node) or "Protocol" in prefix
            if not bases:
                yield f"{prefix}{node.name}"


def is_elsewhere(path: str) -> bool:
    return any(path == other or path.startswith(f"{other}/") for other in ELSEWHERE)


def test_each_decoder_is_entered_by_a_target_or_stands_in_the_list() -> None:
    missing = [place for place in decoders() if place not in entered() and not is_elsewhere(place[0])]
    assert not missing


def test_the_list_names_what_there_is() -> None:
    paths = {path for path, _ in decoders()}
    assert not [path for path in ELSEWHERE if not any(each == path or each.startswith(f"{path}/") for each in paths)]


def test_the_names_fit_for_files_and_are_all_different() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(re.fullmatch(r"[a-z0-9-]{1,24}", name) for name in NAMES)


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    files = sorted(FOLDER.glob("*.txt"))
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
    assert {file.stem for file in files} <= set(NAMES)


@pytest.mark.slow  # `make fuzz-briefly` does the same
@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_seeds_and_corpus_break_no_limit(target: Target) -> None:
    campaign = Campaign(target, EdgeTracer(TRACED), 1, [kept.data for kept in read_corpus(target.name)])
    campaign.replay()
    assert [f"{found.text}: {found.data[:200]!r}" for found in campaign.figures.findings] == []
    assert campaign.figures.executions > 0


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_a_seed_is_legal(target: Target) -> None:
    """Without a legal seed, the mutator would only see how the decoder refuses."""
    for data in target.seeds():
        try:
            target.function(data)
        except target.errors:
            continue
        return
    pytest.fail("the decoder refuses each seed")
