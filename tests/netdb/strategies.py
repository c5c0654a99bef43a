"""Hypothesis strategies for netDb structures."""

import random
from collections.abc import Callable

from hypothesis import strategies as st

from gf_i2p.netdb.limits import MAX_META_ENTRIES
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease
from gf_i2p.netdb.private_keys import DestinationKeys

NOW = 1_700_000_000


def entropy(seed: int) -> Callable[[int], bytes]:
    """Return the same pseudo-random bytes in every run."""
    return random.Random(seed).randbytes


KEYS = DestinationKeys.generate(entropy(1))
DELEGATED = KEYS.delegate(NOW + 86_400, entropy(2))

texts = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="=;"), max_size=20)
mappings = st.dictionaries(texts, texts, max_size=8)
leases = st.builds(
    MetaLease,
    hash=st.binary(min_size=32, max_size=32),
    end=st.integers(NOW + 1, NOW + 65_535),
    cost=st.integers(0, 255),
    type=st.sampled_from(LeaseType),
)
entries = st.lists(leases, min_size=1, max_size=MAX_META_ENTRIES, unique_by=lambda lease: lease.hash)
keys = st.sampled_from([KEYS, DELEGATED])
