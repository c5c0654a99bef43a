"""The fuzzer finds planted faults, judges by its limits, and keeps a corpus: integration/fuzz/."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from integration.fuzz import __main__ as command
from integration.fuzz.campaign import Campaign, fewest
from integration.fuzz.corpus import Kept, read_corpus, write_corpus
from integration.fuzz.edge_tracer import EdgeTracer
from integration.fuzz.judge import judge, judge_memory
from integration.fuzz.mutator import Mutator
from integration.fuzz.target import PIECE_BYTES, Target

HERE = (str(Path(__file__).parent),)


def target(function: Callable[[bytes], object], *errors: type[Exception], seed: bytes = b"seed 12") -> Target:
    return Target("made-up", function, errors, lambda: (seed,))


def planted(data: bytes) -> None:
    """Fail only behind three conditions, which no single change meets."""
    if data[:1] != b"a":
        return
    if data[1:2] != b"b":
        return
    if len(data) > 4:
        raise KeyError(data[2:3])


def test_a_fault_behind_several_conditions_is_found_and_shortened() -> None:
    campaign = Campaign(target(planted), EdgeTracer(HERE), 1, [])
    campaign.replay()
    while not campaign.figures.findings:
        campaign.run(0.02)
    (finding,) = campaign.figures.findings
    assert finding.kind == f"KeyError in planted:{planted.__code__.co_firstlineno + 7}"
    assert (finding.data[:2], len(finding.data)) == (b"ab", 5)


def test_time_that_grows_with_the_square_is_found() -> None:
    def quadratic(data: bytes) -> None:
        words = data.split(b",")
        assert all(words.count(word) >= 0 for word in words[:2500])

    campaign = Campaign(target(quadratic, seed=b"name,other,third"), EdgeTracer(HERE), 1, [])
    while not campaign.figures.findings:
        campaign.run(0.02)
    assert campaign.figures.findings[0].kind == "slow"


def declared(_data: bytes) -> None:
    raise ValueError("declared")


def wrong(_data: bytes) -> None:
    assert _data == b"", "the round trip"


def endless(_data: bytes) -> None:
    for _ in itertools.count():
        pass


def test_only_declared_errors_are_no_findings() -> None:
    assert judge(target(declared, ValueError), b"")[0] is None
    found, _ = judge(target(declared, KeyError), b"x")
    assert found is not None
    assert found.text.startswith("ValueError: 'declared' in declared:")
    found, _ = judge(target(wrong, Exception), b"x")
    assert found is not None
    assert "the round trip" in found.text


def test_an_endless_loop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.fuzz.judge.HANG_SECONDS", 0.05)
    found, _ = judge(target(endless, Exception), b"x")
    assert found is not None
    assert found.kind == "slow"


def test_memory_is_judged() -> None:
    found, peak = judge_memory(target(lambda _: bytes(40 << 20)), b"x")
    assert found is not None
    assert peak >= 40 << 20
    assert judge_memory(target(lambda _: bytes(4 << 20)), b"x")[0] is None


def test_the_time_grows_with_begun_pieces() -> None:
    limits = target(lambda _: None)
    assert [limits.seconds_limit(size) for size in (0, 1, PIECE_BYTES, PIECE_BYTES + 1)] == [0.1, 0.1, 0.1, 0.2]


def test_the_same_seed_makes_the_same_inputs() -> None:
    def made(seed: int) -> list[bytes]:
        mutator = Mutator(Random(seed), [b"token"])
        mutator.learn(b'{"name": 1}')
        inputs = [b'{"name": 1}']
        for _ in range(300):
            inputs += [mutator.mutated(inputs[-1], inputs[0]), mutator.stretched(inputs[0])]
        return inputs

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert max(map(len, made(3))) <= PIECE_BYTES
    assert any(len(each) == PIECE_BYTES for each in made(3))


def test_the_tracer_tells_ways_apart_and_names_what_was_entered() -> None:
    tracer = EdgeTracer(HERE)
    short, long = tracer.run(lambda: planted(b"x")), tracer.run(lambda: planted(b"ab"))
    assert short != long
    assert tracer.run(partial(planted, b"x")) == tracer.run(partial(planted, b"x"))
    assert tracer.run(lambda: planted(b"abcdef"))  # the error is dropped
    assert (str(Path(__file__)), "planted") in tracer.entered


def test_few_inputs_reach_all() -> None:
    reached = {
        b"a": frozenset({1, 2}),
        b"bb": frozenset({1, 2, 3}),
        b"c" * 500: frozenset({1, 2, 3}),
        b"d": frozenset({4}),
    }
    assert sorted(fewest(reached, [])) == [b"bb", b"d"]
    assert fewest(reached, [b"bb"]) == [b"d"]


def test_the_corpus_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = [Kept(b""), Kept(b"\x00\xff", "KeyError in parse:3"), Kept(b"x" * 5000)]
    write_corpus("name", kept, tmp_path)
    assert read_corpus("name", tmp_path) == kept
    assert (tmp_path / "name.txt").stat().st_size < 200
    assert read_corpus("other", tmp_path) == []


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "FOUND", tmp_path)
    monkeypatch.setattr(command, "TARGETS", (target(planted, seed=b"abc"), target(declared, ValueError)))
    assert command.main(["--replay"]) == 0
    assert "2 runs, 0 findings" in capsys.readouterr().out
    assert command.main(["--seconds", "0", "--seed", "5"]) == 0
    assert "--seed 5" in capsys.readouterr().out
    while command.main(["--seconds", "0.2", "made-up"]) == 0:
        pass
    (file,) = {*tmp_path.iterdir()}
    assert f"--show {file} made-up" in capsys.readouterr().out
    with pytest.raises(KeyError):
        command.main(["--show", str(file), "made-up"])
    with pytest.raises(SystemExit):
        command.main(["unknown"])
