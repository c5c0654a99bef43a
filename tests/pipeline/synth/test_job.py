"""Made-up histories: the same seed gives the same bytes, readable like any other, and true to their manifest."""

import hashlib
import json
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.main import main
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.synth import job as synth_module
from gf_i2p.pipeline.synth.export_faults import FAULTY
from gf_i2p.pipeline.synth.farm_life import DAY_SECONDS, Shape, SynthLife, simulate_life
from gf_i2p.pipeline.synth.history_generator import HistoryGenerator, Template
from gf_i2p.pipeline.synth.job import MANIFEST, SynthFigures, SynthOptions, midnight_ms, synth
from gf_i2p.storage.history_lines import ApplicationLine, ConfigurationLine, Gap, Header, LineError, parse_line
from gf_i2p.storage.history_reader import read_history, read_lines, summarize
from tests.tier import is_everything

HOURS = 0.6
OPTIONS = SynthOptions(Path(), farms=2, days=3, seed=7, nodes=2, faults=True, processes=1, hours=HOURS, rotate=500_000)
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SynthFigures]:
    out = tmp_path_factory.mktemp("synth") / "out"
    return out, synth(replace(OPTIONS, out=out))


@pytest.fixture
def manifest(output: tuple[Path, SynthFigures]) -> dict[str, Any]:
    facts = json.loads((output[0] / MANIFEST).read_text())
    assert isinstance(facts, dict)
    return facts


def digests(out: Path) -> dict[str, str]:
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow  # three runs of the simulator
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    options = replace(OPTIONS, days=3 if is_everything() else 1)
    synth(replace(options, out=tmp_path / "once"))
    once = digests(tmp_path / "once")
    synth(replace(options, out=tmp_path / "again", processes=2))
    assert digests(tmp_path / "again") == once
    synth(replace(options, out=tmp_path / "other", seed=8, farms=1, days=1))
    assert not set(digests(tmp_path / "other").values()) & set(once.values())


def test_what_was_written_is_a_history_and_the_manifest_counts_it_right(
    output: tuple[Path, SynthFigures], manifest: dict[str, Any]
) -> None:
    out, figures = output
    lines = entries = 0
    assert len(manifest["farms"]) == 2
    for farm, truth in manifest["farms"].items():
        kinds: dict[int, str] = {}
        for server, export in truth["exports"].items():
            directory = out / farm / f"server-{server}"
            summary = summarize(directory)
            assert (summary.cluster, summary.server, summary.first) == (farm, int(server), 1)
            assert (summary.last, summary.files) == (export["lastIndex"], export["files"])
            assert sum(last - first + 1 for first, last in summary.gaps) == export["missing"]
            assert sum(path.stat().st_size for path in directory.iterdir()) == export["bytes"]
            assert (summary.raw, summary.others, summary.restored) == (0, 0, [])
            count = 0
            for line in read_history(directory):
                if isinstance(line, Gap):
                    assert line.servers
                    continue
                count += 1
                kinds[line.index] = "servers" if isinstance(line, ConfigurationLine) else _kind(line, farm)
            assert count == export["lines"]
            lines += count
        assert Counter(kinds.values()) == Counter(truth["entries"])
        entries += len(kinds)
    assert (figures.lines, figures.entries) == (lines, entries)
    assert manifest["entries"] == entries
    assert figures.status == sum(truth["entries"]["status"] for truth in manifest["farms"].values())


def _kind(line: ApplicationLine, farm: str) -> str:
    value = json.dumps(line.value).encode()
    if "action" in line.value:
        assert AdminEntry.parse(value).cluster == farm
        return "admin"
    record = StatusRecord.parse(value)
    assert record.cluster == farm
    assert abs(record.date_ms - line.received_ms) < 3_600_000
    return "status"


def test_days_follow_each_other_with_rising_terms_and_every_new_term_has_its_leader(
    output: tuple[Path, SynthFigures], manifest: dict[str, Any]
) -> None:
    for farm in manifest["farms"]:
        term, days = 0, set()
        for line in read_lines(output[0] / farm / "server-1"):
            if isinstance(line, ApplicationLine | ConfigurationLine):
                assert line.term >= term
                assert line.term == term or isinstance(line, ConfigurationLine)
                term = line.term
                days.add((line.received_ms + 3_600_000 - midnight_ms(0)) // DAY_MS)
            if isinstance(line, ConfigurationLine):
                assert line.leader in line.servers
        assert days == {0, 1, 2}
        assert term >= 3


def test_servers_received_the_same_entries_at_times_of_their_own(output: tuple[Path, SynthFigures]) -> None:
    times = [
        {
            line.index: line.received_ms
            for line in read_history(output[0] / "farm-0" / f"server-{server}")
            if not isinstance(line, Gap)
        }
        for server in (1, 2)
    ]
    both = times[0].keys() & times[1].keys()
    assert len(both) > 100
    assert sum(times[0][index] != times[1][index] for index in both) > len(both) // 2


def test_who_was_away_for_long_lacks_entries_or_received_them_late() -> None:
    life = simulate_life(Shape(0, 3, 0, 1), 3, hours=1.0)
    life.away = {1: [], 2: [(1_000.0, 2_000.0)], 3: []}
    life.entries = [replace(entry, errors_ms=(0, 0, 0)) for entry in life.entries]
    texts = {seed: _received(replace(life, seed=seed)) for seed in range(6)}
    within = [i for i, entry in enumerate(life.entries, 1) if 1_001.0 < entry.seconds < 1_979.0]
    late = {seed for seed, times in texts.items() if all(times.get(i, 0) >= 2_000_000 for i in within)}
    lacking = {seed for seed, times in texts.items() if not times.keys() & set(within)}
    assert late | lacking == set(texts)
    assert late
    assert lacking


def _received(life: SynthLife) -> dict[int, int]:
    lines = b"".join(piece.fill((0, 0, 0)) for piece in Template.make(life, 2, "x").pieces).splitlines()
    entries = [parse_line(line) for line in lines]
    return {line.index: line.received_ms for line in entries if isinstance(line, ApplicationLine | ConfigurationLine)}


@pytest.mark.slow  # a whole day of a server
def test_numbers_of_routers_follow_the_day() -> None:
    shape = Shape(0, 1, 0, 1)
    life = simulate_life(shape, 1)
    by_hour: dict[int, list[float]] = {}
    for entry in life.entries:
        if entry.kind == "status":
            router = json.loads(entry.text)["router"]
            by_hour.setdefault(int(entry.seconds // 3600), []).append(router.get("currentInboundBandwidth", 0))
    means = [sum(values) / len(values) for _, values in sorted(by_hour.items())]
    assert len(means) == 24
    assert max(means) > 1.6 * min(means)
    assert life.entries[-1].seconds < DAY_SECONDS


def test_faults_are_what_the_manifest_says(output: tuple[Path, SynthFigures], manifest: dict[str, Any]) -> None:
    out, faults = output[0], manifest["faults"]
    files = faults["files"]
    assert (out / files["a duplicate"]["path"]).read_bytes() == (out / files["a duplicate"]["of"]).read_bytes()
    readable: dict[int, ApplicationLine | ConfigurationLine] = {}
    for path in sorted((out / FAULTY).rglob("entries-*")):
        good, bad, is_complete = _salvage(path)
        name = path.relative_to(out).as_posix()
        assert is_complete == (name != files["gzip is corrupt"]["path"])
        if not is_complete:
            assert len(good) == files["gzip is corrupt"]["entriesBefore"]
        cut = name in {files[kind]["path"] for kind in ("a line is cut in the middle", "a duplicate")}
        torn = name == files["torn at its end, which is no fault"]["path"]
        assert bad == cut + torn
        readable |= good
    assert len(readable) == faults["entries"]
    assert files["a line is cut in the middle"]["index"] not in readable
    assert {i for i, line in readable.items() if isinstance(line, ApplicationLine) and not _fits(line)} == {
        index for indexes in faults["misfits"].values() for index in indexes
    }


def _salvage(path: Path) -> tuple[dict[int, ApplicationLine | ConfigurationLine], int, bool]:
    """Read all that is readable: entries, the number of bad lines, and whether the file is whole."""
    data, is_complete = path.read_bytes(), True
    if path.suffix == ".gz":
        unpacker, packed, data = zlib.decompressobj(31), data, b""
        try:
            for at in range(len(packed)):
                data += unpacker.decompress(packed[at : at + 1])
        except zlib.error:
            is_complete = False
    good: dict[int, ApplicationLine | ConfigurationLine] = {}
    bad = 0
    for line in data.splitlines():
        try:
            entry = parse_line(line)
        except LineError:
            bad += 1
            continue
        assert not isinstance(entry, Header) or entry.cluster == FAULTY
        if isinstance(entry, ApplicationLine | ConfigurationLine):
            good[entry.index] = entry
    return good, bad, is_complete


def _fits(line: ApplicationLine) -> bool:
    if "router" not in line.value:
        return True
    try:
        record = StatusRecord.parse(json.dumps(line.value).encode())
    except RecordError:
        return False
    return abs(record.date_ms - line.received_ms) < DAY_MS


def test_rows_give_the_days(tmp_path: Path) -> None:
    rows = 2_000
    figures = synth(replace(OPTIONS, out=tmp_path / "out", farms=1, rows=rows, faults=False, nodes=1))
    assert rows * 0.9 < figures.entries < rows + figures.entries / figures.days + 500
    assert figures.days > 3


def test_a_directory_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(PipelineError, match="exists already"):
        synth(replace(OPTIONS, out=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_writer_rotates_between_entries(tmp_path: Path) -> None:
    life = simulate_life(Shape(0, 1, 0, 1), 1, hours=0.5)
    template = Template.make(life, 1, "x")
    writer = HistoryGenerator(tmp_path / "h", "x", 1, level=1, rotate=1)
    for day in range(3):
        writer.day(template, midnight_ms(day), day * template.entries, day * template.terms)
    writer.close()
    assert [path.suffix for path in writer.files] == [".gz", ".gz", ".jsonl"]
    assert summarize(tmp_path / "h").last == 3 * template.entries


def test_the_command_prints_what_it_has_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synth_module, "simulate_life", lambda shape, seed, **_: simulate_life(shape, seed, hours=HOURS))
    arguments = ["pipeline", "synth", str(tmp_path / "o"), "--farms", "1", "--days", "1", "--jobs", "1", "--json"]
    assert main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    assert answer["farms"] == 1
    assert answer["entries"] > 180
    assert main(arguments) != 0
    output = capsys.readouterr()
    assert "exists already" in output.out + output.err
