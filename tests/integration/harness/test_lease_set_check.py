"""The parser by byte offsets reads sets of `gf_i2p.netdb`, and refuses sets with a changed bit."""

import time

import pytest
from cryptography.exceptions import InvalidSignature

from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.lease_set_check import ByHand, HandEntry
from tests.netdb.strategies import KEYS


@pytest.mark.parametrize("delegated", [False, True])
def test_a_set_is_what_it_was_built_of(delegated: bool) -> None:
    now = int(time.time())
    keys: DestinationKeys = KEYS.delegate(now + 1000) if delegated else KEYS
    entries = [MetaLease(bytes([9]) * 32, now + 500, 200), MetaLease(bytes([7]) * 32, now + 600, 7, LeaseType.META)]
    built = MetaLeaseSet.build(keys, published=now, entries=entries)
    found = ByHand.read(built.data)
    assert (found.b32, found.published, found.expires) == (KEYS.destination.b32, now, built.expires_at)
    assert found.entries == (HandEntry(bytes([9]) * 32, 3, 200, now + 500), HandEntry(bytes([7]) * 32, 7, 7, now + 600))
    assert (found.good_until, found.transient is not None) == ((now + 1000, True) if delegated else (None, False))
    for place in (100, 352, 395, len(built.data) - 70, len(built.data) - 1):
        broken = bytearray(built.data)
        broken[place] ^= 1
        with pytest.raises((InvalidSignature, AssertionError)):
            ByHand.read(bytes(broken))
