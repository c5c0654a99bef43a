"""All limits of the netDb structures: what both routers, Java I2P and i2pd, accept."""

from typing import Final

MAX_DESTINATION_BYTES: Final = 475
"""i2pd's and Java's largest: 387 and a certificate of 88, with the longest keys. Ours have 391."""

MAX_LEASE_SET_BYTES: Final = 4096
"""What i2pd keeps of a lease set; Java's I2NP messages take more."""

MAX_META_ENTRIES: Final = 16
"""Java refuses more; i2pd counts none."""

MAX_LEASES: Final = 16
"""Of a lease set; Java refuses more."""

MAX_ENCRYPTION_KEYS: Final = 8
"""Of a lease set. Routers have one to three."""

MAX_ENCRYPTION_KEY_BYTES: Final = 256
"""ElGamal's, the longest (common structures, "PublicKey")."""

MAX_EXPIRES_SECONDS: Final = 65_535
"""The field has two bytes: 18.2 hours."""

MAX_MAPPING_BYTES: Final = 2048
"""Half of a lease set; the length field would allow 65,535."""

MAX_STRING_BYTES: Final = 255
"""A string's length field has one byte (common structures, "String")."""

MAX_ROUTER_INFO_BYTES: Final = 65_536
"""No I2NP message is larger. Routers' own have one to two KiB."""

MAX_ROUTER_ADDRESSES: Final = 16
"""Java's. Routers publish two to six."""

MAX_CERTIFICATE_BYTES: Final = 88
"""Of a RouterIdentity, its head of three bytes left out: the rest of `MAX_DESTINATION_BYTES`."""
