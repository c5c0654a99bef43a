"""`gf-i2p post`: many lines, and a node that cannot commit."""

from pathlib import Path

import pytest

from gf_i2p.admin.local_socket import MAX_POST_BYTES
from gf_i2p.cli.commands import post
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.wire.limits import MAX_ENTRIES
from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, gf, gf_json


async def started(farm: LocalFarm) -> None:
    farm.start(1)

    async def answers() -> bool:
        return await farm.status(1) is not None

    await until("the node answers", PATIENCE, answers)


async def test_a_post_that_waits_says_what_the_farm_lacks(tmp_path: Path) -> None:
    with LocalFarm(tmp_path) as farm:
        await started(farm)
        code, _, error = await gf("post", farm.node(1), "x", "--timeout", "3")
        assert code == 3
        assert "not committed yet, waiting 3 s at most. No quorum: 1 of 3 servers are reached" in error
        assert "Missing: 2, 3." in error
        code, answer = await gf_json("post", farm.node(1), "x", "--timeout", "3")
        assert (code, answer["outcome"]) == (3, "no")


def test_lines_are_cut_into_posts_of_a_legal_size() -> None:
    lines = [str(number) for number in range(MAX_ENTRIES + 1)]
    assert list(post._pieces(lines)) == [lines[:-1], lines[-1:]]
    large = "é" * (MAX_POST_BYTES // 8)
    assert [len(piece) for piece in post._pieces([large] * 9 + ["x"])] == [4, 4, 2]
    assert list(post._pieces(["x", "y" * (MAX_POST_BYTES + 1), "z"])) == [["x"], ["y" * (MAX_POST_BYTES + 1)], ["z"]]


async def test_many_lines_are_all_posted(tmp_path: Path) -> None:
    with LocalFarm(tmp_path, servers=1) as farm:
        await started(farm)
        lines = "".join(f"{number}\n" for number in range(MAX_ENTRIES + 2))
        code, answer = await gf_json("post", farm.node(1), stdin=lines)
        assert (code, answer["index"] > MAX_ENTRIES + 2) == (0, True)
        _, last = await gf_json("entries", farm.node(1), "--last", "20")
        numbers = [int(each["value"]) for each in last["entries"] if each.get("value", "").isdigit()]
        assert numbers[-2:] == [MAX_ENTRIES, MAX_ENTRIES + 1]


async def test_a_later_piece_that_fails_tells_how_far_the_post_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([{"index": 70}, CommandError("no leader", code=Exit.DEGRADED, outcome="unknown")])

    async def answered(*_: object, **__: object) -> object:
        answer = next(answers)
        if isinstance(answer, CommandError):
            raise answer
        return answer

    monkeypatch.setattr(post, "_post", answered)
    with pytest.raises(CommandError) as failed:
        await post._post_all(tmp_path, ["x"] * (MAX_ENTRIES + 1), 1.0, quiet=True)
    assert str(failed.value) == "the first 2,048 of 2,049 lines are committed, up to index 70; then: no leader"
    assert (failed.value.code, failed.value.outcome) == (Exit.DEGRADED, "unknown")
