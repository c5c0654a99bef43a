"""Descriptions of a large farm: made in slices, the same text as in one piece, and shared by the askers."""

import asyncio
import json
from typing import Any

import pytest

from gf_i2p.admin import descriptions
from gf_i2p.admin.descriptions import Descriptions, in_slices, json_pieces
from gf_i2p.farm.pieces import Pieces, whole


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"a": 1, "b": None, "c": [], "d": {"e": {}, "f": ["x", {"g": 1.5}]}},
        {"long": list(range(1001)), "farm": {"leaves": [{"leaf": f"ü{number}", "up": True} for number in range(120)]}},
    ],
)
def test_the_pieces_are_the_same_json(answer: dict[str, Any]) -> None:
    assert whole(json_pieces(answer)) == json.dumps(answer)


async def test_others_have_their_turns_while_a_description_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptions, "SLICE_SECONDS", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def work() -> Pieces[int]:
        for _ in range(100):
            yield
        return 7

    counting = asyncio.create_task(count())
    result, seconds = await in_slices(work())
    counting.cancel()
    assert (result, seconds >= 0.0) == (7, True)
    assert turns >= 50


class Slow:
    """Describes itself in two turns, and counts."""

    def __init__(self) -> None:
        self.made = 0
        self.go_on = asyncio.Event()

    def __call__(self) -> Pieces[dict[str, Any]]:
        self.made += 1
        number = self.made
        while not self.go_on.is_set():
            yield
        return {"made": number}


async def test_askers_share_an_answer_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptions, "LEAST_SHARED", 60.0)
    slow, shared = Slow(), Descriptions()
    asking = [asyncio.create_task(shared.text(slow)) for _ in range(3)]
    await asyncio.sleep(0)  # all three ask
    asking[0].cancel()  # an asker that goes away ends nobody else's answer
    slow.go_on.set()
    assert await asyncio.gather(*asking[1:]) == ['{"made": 1}'] * 2
    assert await shared.text(slow) == '{"made": 2}', "a short answer is made anew"


async def test_a_fault_reaches_each_asker_and_the_next_one_tries_again() -> None:
    made = 0

    def fails() -> dict[str, Any]:
        nonlocal made
        made += 1
        if made == 1:
            raise RuntimeError("no")
        return {"made": made}

    shared = Descriptions()
    found = await asyncio.gather(shared.text(fails), shared.text(fails), return_exceptions=True)
    assert [str(each) for each in found] == ["no", "no"]
    assert await shared.text(fails) == '{"made": 2}'
