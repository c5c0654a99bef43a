"""Checks run side by side, each within the deadline, and no check blames another's fault again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from gf_i2p.cli.doctor import checks as framework
from gf_i2p.cli.doctor.checks import (
    Check,
    CheckResult,
    CheckState,
    Finding,
    Remedy,
    examine,
    fail,
    is_well,
    ok,
    skip,
    warn,
)

MEND: Final = Remedy("for i2pd", "for Java")


def saying(result: CheckResult) -> Callable[[], Awaitable[CheckResult]]:
    async def look() -> CheckResult:
        return result

    return look


async def made(*checks: Check) -> dict[str, CheckResult]:
    findings = await examine(checks, lambda _: None, lambda *_: None)
    return {finding.name: finding.result for finding in findings}


@pytest.mark.parametrize(
    ("first", "made_too"), [(ok("x"), True), (warn("x"), True), (fail("x", MEND), False), (skip("x"), False)]
)
async def test_what_needs_a_check_that_is_not_well_is_passed_over(first: CheckResult, made_too: bool) -> None:
    found = await made(Check("a", saying(first)), Check("b", saying(ok("y")), needs=("a",)))
    assert found["b"] == (ok("y") if made_too else skip("not looked at: this check needs a"))


async def test_what_comes_after_a_check_is_made_whatever_that_says() -> None:
    order = []

    async def first() -> CheckResult:
        await asyncio.sleep(0)
        order.append("first")
        return fail("x", MEND)

    async def second() -> CheckResult:
        order.append("second")
        return ok("y")

    found = await made(Check("a", first), Check("b", second, after=("a",)))
    assert (order, found["b"]) == (["first", "second"], ok("y"))


async def test_checks_run_side_by_side_and_are_told_in_their_order() -> None:
    both = asyncio.Barrier(2)

    async def meet() -> CheckResult:
        async with asyncio.timeout(20):
            await both.wait()
        return ok("met")

    told: list[Finding] = []
    await examine([Check("a", meet, 20), Check("b", meet, 20)], told.append, lambda *_: None)
    assert told == [Finding("a", ok("met")), Finding("b", ok("met"))]


async def test_a_deadline() -> None:
    async def never() -> CheckResult:
        await asyncio.Event().wait()
        raise AssertionError

    found = await made(
        Check("a", never, seconds=0.01, late=MEND), Check("b", never, seconds=0.01), Check("c", saying(ok("well")))
    )
    assert found["a"] == fail("no result within 0.01 s", MEND)
    assert found["b"].state is CheckState.FAIL
    assert found["c"] == ok("well")


async def test_a_defect_hides_nothing_and_tells_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    async def broken() -> CheckResult:
        raise RuntimeError("the password is hunter2")

    found = await made(Check("a", broken), Check("b", saying(ok("well"))))
    assert found["a"].state is CheckState.FAIL
    assert "RuntimeError" in found["a"].text
    assert "hunter2" not in str(found)
    assert found["b"] == ok("well")
    capsys.readouterr()


async def test_who_waits_is_told_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(framework, "_TICK_SECONDS", 0.001)
    told: list[list[str]] = []
    enough = asyncio.Event()

    def waiting(names: list[str], seconds: float) -> None:
        assert seconds >= 0
        told.append(names)
        enough.set()

    async def long() -> CheckResult:
        await enough.wait()
        return ok("at last")

    await examine(
        [Check("a", saying(ok("x"))), Check("b", long), Check("c", long, needs=("b",))], lambda _: None, waiting
    )
    assert told[0] == ["b"], "neither what is through, nor what waits for another"


async def test_nobody_is_told_before_it_takes_long() -> None:
    told: list[float] = []
    await examine([Check("a", saying(ok("x")))], lambda _: None, lambda _, seconds: told.append(seconds))
    assert told == []


def test_only_a_failure_makes_it_fail() -> None:
    assert is_well([Finding("a", ok("x")), Finding("b", warn("x")), Finding("c", skip("x"))])
    assert not is_well([Finding("a", ok("x")), Finding("b", fail("x", MEND))])
