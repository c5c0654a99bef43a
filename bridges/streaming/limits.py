"""All limits of streaming, each checked before any data is kept; `StreamLimits` has the two that the operator sets.

Sizes in bytes, times in seconds.
"""

from typing import Final

# One packet ----------------------------------------------------------------------------------------------------------

MAX_PACKET: Final = 4096
"""Most bytes of a packet with its head, as with i2pd. Java's packets have up to 1,812 bytes of payload and a head of
some hundred."""
MAX_PAYLOAD: Final = 1812
"""Most payload of a sent packet, in bytes. With all layers, such a packet fills two tunnel messages (proposal 155)."""
MIN_PAYLOAD: Final = 512
"""Least bytes of payload in a full packet; a peer's smaller limit is ignored."""
MAX_NACKS: Final = 255
"""Most NACKs of a packet: the NACK count has one byte."""

# One stream ----------------------------------------------------------------------------------------------------------

MAX_UNREAD: Final = 512 * 1024
"""Most data that the local service has not taken yet. Further packets are dropped: the peer repeats them, slower."""
MAX_AHEAD: Final = 512
"""Most kept packets that wait for an earlier packet; as many as i2pd's largest window."""
MAX_UNSENT: Final = 256 * 1024
"""Most data of the service that is not sent yet. At this limit, nothing more is read from the service."""
MAX_UNPROVEN: Final = 64 * 1024
"""Most data of the service for a client that has not shown that packets reach the client: twice the first window."""
FIRST_WINDOW: Final = 16
"""Unacknowledged packets that a new stream may have."""
MAX_WINDOW: Final = 256
"""Most packets on their way: 460 kB, more than tunnels carry for one stream in a round trip."""
MIN_WINDOW: Final = 2
FIRST_TIMEOUT: Final = 5.0
"""Time until a packet is sent again, before any round trip was measured."""
MIN_TIMEOUT: Final = 0.4
"""Least time until a packet is sent again. A peer delays an acknowledgement by up to 0.2 s."""
MAX_TIMEOUT: Final = 20.0
MAX_ATTEMPTS: Final = 9
"""Attempts after which an unacknowledged packet ends its stream: after some minutes, as with the routers."""
MAX_LAST_ATTEMPTS: Final = 4
"""Attempts after which an unacknowledged packet ends a stream that one side has closed: i2pd forgets such a stream."""
ACK_DELAY: Final = 0.01
"""Seconds for which an acknowledgement waits: for data in the same packet, or for more packets to acknowledge."""
ACK_EVERY: Final = 4
"""Received packets after which an acknowledgement no longer waits."""
IDLE: Final = 600.0
"""Seconds of silence after which a stream of a web server is reset."""
LONG_IDLE: Final = 7200.0
"""Seconds of silence after which a stream of any other service is reset: shells and chats may be silent for long."""
LINGER: Final = 20.0
"""Seconds for which an ended stream still answers: the peer may have missed the last acknowledgement."""
HALF_OPEN: Final = 60.0
"""Seconds for which a first packet without data is kept: about as long as a client waits for the answer."""
UNFINISHED: Final = 5.0
"""Seconds of standing still after which an unfinished stream may give way: the service has no request yet, or the
client has not shown that packets reach the client. Round trips take one to some seconds."""
STANDING: Final = 30.0
"""Seconds of standing still after which any other stream may give way, when there is no room for a new one."""

# All streams of a session ---------------------------------------------------------------------------------------------

MAX_ENDED: Final = 4096
"""Most ended streams that still answer: 200 a second for all of `LINGER`, in some 3 MB."""
MAX_BUFFERED: Final = 64 * 1024 * 1024
"""Most buffered bytes of all streams. At this limit, streams give way that hold data and stand still, or that belong to
a destination that holds far more than others. If no stream gives way, no new stream is opened, and data is dropped."""
MAX_EARLY: Final = 64
"""Most kept packets of streams whose first packet has not come yet."""
EARLY: Final = 10.0
"""Seconds for which a packet is kept while its stream's first packet has not come."""
MAX_RECENT: Final = 8192
"""Most remembered first packets: a remembered packet opens no second stream."""
RECENT: Final = 900.0
"""Seconds for which a first packet is remembered: longer than a router keeps the keys that decrypt a copy."""
MAX_BACKLOG: Final = 4 * 1024 * 1024
"""Most bytes that the router has not taken yet. Further packets are lost as in any network, and sent again."""
