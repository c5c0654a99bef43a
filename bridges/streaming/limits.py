"""All limits of streaming; each is checked before any data is kept. Sizes in bytes, times in seconds."""

from typing import Final

# One packet ----------------------------------------------------------------------------------------------------------

MAX_PACKET: Final = 4096
"""i2pd's largest packet with its head. Java's have up to 1,812 bytes of payload and a head of some hundred."""
MAX_PAYLOAD: Final = 1812
"""Payload of our packets: with all layers around it, it fills two tunnel messages (proposal 155)."""
MIN_PAYLOAD: Final = 512
"""A smaller wish of a peer is ignored."""
MAX_NACKS: Final = 255
"""The NACK count has one byte."""

# One stream ----------------------------------------------------------------------------------------------------------

MAX_UNREAD: Final = 512 * 1024
"""Data that the local service has not taken yet. Beyond, packets are dropped, and the peer repeats them, slower."""
MAX_AHEAD: Final = 512
"""Kept packets that came before an earlier packet. As many as i2pd's largest window."""
MAX_UNSENT: Final = 256 * 1024
"""Data of the service that is not sent yet. Beyond, nothing is read from the service."""
FIRST_WINDOW: Final = 16
"""Packets on their way at the start."""
MAX_WINDOW: Final = 256
"""Most packets on their way: 460 kB, more than one stream gets through tunnels in a round trip."""
MIN_WINDOW: Final = 2
FIRST_TIMEOUT: Final = 5.0
"""Time until a packet is sent again, before any round trip was measured."""
MIN_TIMEOUT: Final = 0.4
"""More than a peer's delay before an acknowledgement, which is up to 0.2 s."""
MAX_TIMEOUT: Final = 20.0
MAX_ATTEMPTS: Final = 9
"""Attempts after which an unacknowledged packet ends its stream. Some minutes, as with the routers."""
MAX_LAST_ATTEMPTS: Final = 4
"""The same for a peer that has closed its side: i2pd forgets the stream by then."""
ACK_DELAY: Final = 0.01
"""Time that an acknowledgement waits for data to go with, or for more packets to acknowledge."""
ACK_EVERY: Final = 4
"""Received packets after which an acknowledgement no longer waits."""
IDLE: Final = 600.0
"""Silence of the client after which a stream to a web server is reset."""
LONG_IDLE: Final = 7200.0
"""The same for any other service: shells and chats may be silent for long."""
LINGER: Final = 20.0
"""Time for which an ended stream still answers: its peer may have missed our last acknowledgement."""

# All streams of a session ---------------------------------------------------------------------------------------------

MAX_STREAMS: Final = 512
MAX_STREAMS_PER_PEER: Final = 64
"""Most streams of one destination. A browser opens some ten; an HTTP proxy is one destination for all its users."""
MAX_BUFFERED: Final = 64 * 1024 * 1024
"""Unread data and kept packets of all streams. Beyond, no new stream is taken."""
MAX_EARLY: Final = 64
"""Kept packets of streams whose first packet has not come yet."""
EARLY: Final = 10.0
"""Time for which such a packet is kept."""
MAX_RECENT: Final = 8192
"""Remembered first packets, so that no packet opens a stream twice."""
RECENT: Final = 900.0
"""Time for which they are remembered: longer than a router keeps a session's keys, which a repetition would need."""
MAX_BACKLOG: Final = 4 * 1024 * 1024
"""Data that the router has not taken from us yet. Beyond, packets are dropped as in any network, and sent again."""
