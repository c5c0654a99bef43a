"""`until` waits for an event in another process, and names an event that does not come."""

import pytest

from integration.harness.local_farm import NotSeenError, until


async def test_what_does_not_come_is_named() -> None:
    async def never() -> bool:
        return False

    with pytest.raises(NotSeenError, match=r"not seen within 0\.01 s: a miracle"):
        await until("a miracle", 0.01, never, poll=0.001)


async def test_a_time_out_of_the_conditions_own_is_no_end_of_patience() -> None:
    async def impatient() -> bool:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await until("a miracle", 60, impatient)
