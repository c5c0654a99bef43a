"""Pages of a real console, i2pd 2.45.1, shortened."""

from datetime import UTC, datetime

import pytest

from integration.testnet.router_console import ConsoleSummary, StoredLeaseSet, parse_lease_sets, parse_summary

FIRST_PAGE = """
<b>Uptime:</b> 41 seconds<br>
<b>Network status:</b> Testing<br>
<b>Tunnel creation success rate:</b> 100%<br>
<b>Routers:</b> 8 <b>Floodfills:</b> 4 <b>LeaseSets:</b> 1<br>
<b>Client Tunnels:</b> 25 <b>Transit Tunnels:</b> 43<br>
"""
LEASE_SETS = """
<div class="content"><b>LeaseSets:</b><br>
<div class="list">
<div class="leaseset listitem expired">
<div class="slide"><label for="slide1">xifjtizdedo7lisscxw4v4p3i3bmy3e7tmlikxqusyrq54ccnrhq</label>
<input type="checkbox" id="slide1" />
<div class="slidecontent">
<b>Store type:</b> 7<br>
<b>Expires:</b> 21/11/2026 16:56:03.000<br>
</div>
</div>
</div>
<div class="leaseset listitem">
<div class="slide"><label for="slide2">3l4uhppucosbilh5t5i4oodkccs5peurrdx34a5nqeld7q7ry6jq</label>
<input type="checkbox" id="slide2" />
<div class="slidecontent">
<b>Store type:</b> 3<br>
<b>Expires:</b> 21/11/2026 16:06:41.000<br>
</div>
</div>
</div>
</div>
"""


def test_the_numbers_of_the_first_page() -> None:
    assert parse_summary(FIRST_PAGE) == ConsoleSummary(
        routers=8, floodfills=4, lease_sets=1, client_tunnels=25, transit_tunnels=43
    )


def test_another_page_is_named() -> None:
    with pytest.raises(ValueError, match="does not say: client_tunnels"):
        parse_summary(FIRST_PAGE.replace("Client Tunnels", "Tunnels"))


def test_lease_sets_with_their_types() -> None:
    assert parse_lease_sets(LEASE_SETS) == [
        StoredLeaseSet(
            "xifjtizdedo7lisscxw4v4p3i3bmy3e7tmlikxqusyrq54ccnrhq.b32.i2p",
            7,
            datetime(2026, 11, 21, 16, 56, 3, tzinfo=UTC),
        ),
        StoredLeaseSet(
            "3l4uhppucosbilh5t5i4oodkccs5peurrdx34a5nqeld7q7ry6jq.b32.i2p",
            3,
            datetime(2026, 11, 21, 16, 6, 41, tzinfo=UTC),
        ),
    ]
    assert parse_lease_sets('<div class="content"><b>LeaseSets:</b> 0<br>') == []
