"""All limits of the netDb structures, which both routers, Java I2P and i2pd, accept."""

from typing import Final

MAX_DESTINATION_BYTES: Final = 475
"""The largest of i2pd and Java: 387 and a certificate of 88, with the longest keys. Our destinations have 391."""

MAX_LEASE_SET_BYTES: Final = 4096
"""The most that i2pd keeps of a lease set; Java's I2NP messages take more."""

MAX_META_ENTRIES: Final = 16
"""Java refuses more; i2pd has no limit."""

MAX_LEASES: Final = 16
"""Most leases of a lease set; Java refuses more."""

MAX_ENCRYPTION_KEYS: Final = 8
"""Most encryption keys of a lease set. Routers' own sets have one to three."""

MAX_ENCRYPTION_KEY_BYTES: Final = 256
"""Length of the longest key, ElGamal's (common structures, "PublicKey")."""

MAX_EXPIRES_SECONDS: Final = 65_535
"""The field has two bytes: 18.2 hours."""

MAX_MAPPING_BYTES: Final = 2048
"""Half of a lease set; the length field would allow 65,535."""

MAX_STRING_BYTES: Final = 255
"""A string's length field has one byte (common structures, "String")."""

MAX_ROUTER_INFO_BYTES: Final = 65_536
"""No I2NP message is larger. Routers' own RouterInfos have one to two KiB."""

MAX_ROUTER_ADDRESSES: Final = 16
"""Java's limit. Routers publish two to six addresses."""

MAX_CERTIFICATE_BYTES: Final = 88
"""Certificate of a RouterIdentity without its head of three bytes: the rest of `MAX_DESTINATION_BYTES`."""
