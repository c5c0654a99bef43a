"""Whether other servers' records confirm a set, for many combinations of records."""

from dataclasses import replace

import pytest

from gf_i2p.farm.publishing.confirmation import GRACE_MS, look_for_confirmation
from gf_i2p.farm.record.remote_sensing import MetaSensing
from gf_i2p.farm.record.status_record import StatusRecord
from tests.farm.strategies import NOW, record

PUBLISHED, SENT = NOW, NOW + 2000
LATE = SENT + GRACE_MS + 1


def saying(server: int, version: int | None, fetch: int | None, date: int) -> StatusRecord:
    return replace(record(server), meta_sensing=MetaSensing(version, fetch, date))


@pytest.mark.parametrize(
    ("others", "by", "missed", "why"),
    [
        ([], None, False, "no other server looks for sets"),
        ([record(2)], None, False, "no other server looks for sets"),
        ([saying(1, PUBLISHED, 5, LATE)], None, False, "no other server looks for sets"),  # ourselves
        ([saying(2, PUBLISHED, 5, SENT)], None, False, "no server has looked since"),
        ([saying(2, None, None, SENT + GRACE_MS)], None, False, "no server has looked since"),
        ([saying(2, None, None, LATE)], None, True, "server 2 does not find the set"),
        ([saying(2, PUBLISHED - 1, 5, LATE)], None, True, "server 2 finds an older set"),
        ([saying(2, PUBLISHED, 5, SENT + 1)], 2, False, None),
        ([saying(2, PUBLISHED + 9, 5, SENT + 1)], 2, False, None),
        ([saying(2, None, 5, SENT + 1), saying(3, PUBLISHED, 5, LATE)], 3, False, None),
        ([saying(2, None, None, LATE), saying(3, None, None, LATE)], None, True, "server 3 does not find the set"),
    ],
)
def test_what_others_have_found(others: list[StatusRecord], by: int | None, missed: bool, why: str | None) -> None:
    confirmation = look_for_confirmation({each.id: each for each in others}, 1, published_ms=PUBLISHED, sent_ms=SENT)
    assert (confirmation.confirmed_by, confirmation.missed) == (by, missed)
    assert (confirmation.confirmed_ms > SENT) is (by is not None)
    assert why is None if confirmation.why is None else (why or "") in confirmation.why


@pytest.mark.parametrize(
    ("others", "by"),
    [
        ([saying(2, None, 5, SENT)], None),
        ([saying(2, None, 5, SENT + 1)], 2),
        ([saying(2, None, None, LATE), saying(3, None, 5, LATE)], 3),
        ([saying(2, PUBLISHED - 1, 5, LATE), saying(3, None, 5, LATE)], 3),
    ],
)
def test_a_set_of_unknown_version_is_found_and_not_confirmed(others: list[StatusRecord], by: int | None) -> None:
    finding = look_for_confirmation({each.id: each for each in others}, 1, published_ms=PUBLISHED, sent_ms=SENT)
    assert (finding.confirmed_by, finding.found_by, finding.missed) == (None, by, False)
    assert (finding.found_ms > SENT) is (by is not None)
    assert by is None or "does not tell the version" in (finding.why or "")
