"""All limits of streaming, each before anything is kept for somebody. Sizes in bytes, times in seconds."""

from typing import Final

# One packet ----------------------------------------------------------------------------------------------------------

MAX_PACKET: Final = 4096
"""i2pd's largest, head included. Java's have up to 1,812 of payload and a head of some hundred."""
MAX_PAYLOAD: Final = 1812
"""What we put into a packet: with all that is put around it, it fills two tunnel messages (proposal 155)."""
MIN_PAYLOAD: Final = 512
"""A peer's wish for less than this is not heeded."""
MAX_NACKS: Final = 255
"""Their number has one byte."""

# One stream ----------------------------------------------------------------------------------------------------------

MAX_UNREAD: Final = 512 * 1024
"""What the local service has not taken yet. Beyond, the peer's packets are dropped, and it sends them again, slower."""
MAX_AHEAD: Final = 512
"""Packets kept that came before an earlier one. As many as i2pd's largest window."""
MAX_UNSENT: Final = 256 * 1024
"""What the service has said and we have not sent yet. Beyond, nothing is read from it."""
FIRST_WINDOW: Final = 16
"""Packets on their way at once, at the start."""
MAX_WINDOW: Final = 256
"""And at most: 460 kB, more than one stream gets through tunnels in a round trip."""
MIN_WINDOW: Final = 2
FIRST_TIMEOUT: Final = 5.0
"""Until a packet is sent again, before any round trip was measured."""
MIN_TIMEOUT: Final = 0.4
"""More than a peer's delay before it acknowledges, which is up to 0.2 s."""
MAX_TIMEOUT: Final = 20.0
MAX_ATTEMPTS: Final = 9
"""A packet that was sent so often and never acknowledged ends its stream. Some minutes, as with the routers."""
MAX_LAST_ATTEMPTS: Final = 4
"""The same for a peer that has said that it says nothing more: i2pd forgets the stream by then."""
ACK_DELAY: Final = 0.01
"""How long an acknowledgement waits for data that it could go with, or for more to acknowledge."""
ACK_EVERY: Final = 4
"""Packets that are not left without one."""
IDLE: Final = 600.0
"""A stream to a web server on which nothing was heard of the client for so long is reset."""
LONG_IDLE: Final = 7200.0
"""The same for any other service: shells and chats may be silent for long."""
LINGER: Final = 20.0
"""How long an ended stream still answers: its peer may not have heard our last acknowledgement."""

# All streams of a session ---------------------------------------------------------------------------------------------

MAX_STREAMS: Final = 512
MAX_STREAMS_PER_PEER: Final = 64
"""Of one destination. A browser opens some ten; an HTTP proxy is one destination for all who use it."""
MAX_BUFFERED: Final = 64 * 1024 * 1024
"""All streams' unread data, and packets kept. Beyond, no new stream is taken."""
MAX_EARLY: Final = 64
"""Packets kept of streams whose first packet has not come yet."""
EARLY: Final = 10.0
"""For how long."""
MAX_RECENT: Final = 8192
"""First packets remembered, so that none opens a stream twice."""
RECENT: Final = 900.0
"""For how long. Longer than any router's session with its keys, without which it cannot be repeated."""
MAX_BACKLOG: Final = 4 * 1024 * 1024
"""What the router has not taken from us yet. Beyond, packets are dropped as by any network, and sent again later."""
