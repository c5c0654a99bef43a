"""Profiles in the form of the sources of i2pd and Java I2P."""

import gzip

import pytest

from gf_i2p.netdb.errors import StructureError
from gf_i2p.pipeline.floodfills.peer_profiles import MAX_PROFILE_BYTES, PeerProfile, parse_i2pd, parse_java

I2PD = """\
lastupdatetimestamp=1700000000
lastunreachabletime=1699990000

[participation]
agreed=12
declined=3
nonreplied=1

[usage]
taken=40
rejected=2
connected=true
"""
OLD_I2PD = "lastupdatetime=2024-Mar-11 21:15:30\n\n[participation]\nagreed=1\ndeclined=0\nnonreplied=0\n"
JAVA = """\
speedBonus=0
capacityBonus=0
firstHeardAbout=1690000000000
lastHeardAbout=1700000000500
lastHeardFrom=1700000000400
lastSentToSuccessfully=1700000000300
lastFailedSend=0
tunnelPeakThroughput=10.5
tunnelPeakTunnel1mThroughput=2048.25
tunnels.lifetimeAgreedTo=7
tunnels.lifetimeFailed=2
tunnels.lifetimeRejected=5
tunnelHistory.rejectRate.60m.lastTotalValue=0.0
dbHistory.lastLookupSuccessful=1700000000100
dbHistory.lastLookupFailed=0
dbHistory.lastStoreSuccessful=1700000000200
dbHistory.lastStoreFailed=-1
"""


def test_of_i2pd() -> None:
    assert parse_i2pd(I2PD.encode()) == PeerProfile(
        "i2pd",
        heard_ms=1_700_000_000_000,
        unreachable_ms=1_699_990_000_000,
        connected=True,
        agreed=12,
        declined=3,
        failed=1,
    )
    assert parse_i2pd(OLD_I2PD.encode()) == PeerProfile("i2pd", agreed=1, declined=0, failed=0), "of no time zone"


def test_of_java() -> None:
    assert parse_java(gzip.compress(JAVA.encode())) == PeerProfile(
        "java",
        heard_ms=1_700_000_000_400,
        unreachable_ms=None,
        connected=True,
        agreed=7,
        declined=5,
        failed=2,
        lookup_ms=1_700_000_000_100,
        lookup_failed_ms=None,
        store_ms=1_700_000_000_200,
        store_failed_ms=None,
        bytes_s=2048.25,
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "neither"),
        (b"lastupdatetimestamp=5\n", "neither"),
        (b"\xff\xfe", "UTF-8"),
        (b"[usage]\nconnected=perhaps\n", "neither true nor false"),
        (b"[participation]\nagreed=many\n", "not a number"),
        (b"[participation]\nagreed=" + b"9" * 30, "not a number"),
        (b"lastupdatetimestamp=" + b"9" * 16 + b"\n[usage]\ntaken=1\n", "not a number"),  # too large in ms for a column
    ],
)
def test_what_is_no_profile_of_i2pd(data: bytes, why: str) -> None:
    with pytest.raises(StructureError, match=why):
        parse_i2pd(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (JAVA.encode(), "not in the format of gzip"),
        (gzip.compress(JAVA.encode(), mtime=0)[:-20], "ends too early"),
        (gzip.compress(bytes(MAX_PROFILE_BYTES + 1), mtime=0), "larger than"),
        (gzip.compress(b"a=b\n", mtime=0), "neither"),
        (gzip.compress(JAVA.replace("2048.25", "NaN").encode(), mtime=0), "not a number"),
    ],
)
def test_what_is_no_profile_of_java(data: bytes, why: str) -> None:
    with pytest.raises(StructureError, match=why):
        parse_java(data)
