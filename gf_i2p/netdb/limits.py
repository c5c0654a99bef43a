"""The limits of the netDb structures. Both routers, Java I2P and i2pd, accept structures within these limits."""

from typing import Final

MAX_DESTINATION_BYTES: Final = 475
"""Most bytes of a destination, for i2pd and Java: 387, and 88 of certificate for the longest keys. This program makes
destinations of 391 bytes."""

MAX_LEASE_SET_BYTES: Final = 4096
"""Most bytes of a lease set that i2pd accepts; Java's I2NP messages hold larger sets."""

MAX_META_ENTRIES: Final = 16
"""Most entries of a Meta lease set; Java refuses more, and i2pd has no limit."""

MAX_LEASES: Final = 16
"""Most leases of a lease set; Java refuses more."""

MAX_ENCRYPTION_KEYS: Final = 8
"""Most encryption keys of a lease set. Routers' own sets have one to three."""

MAX_ENCRYPTION_KEY_BYTES: Final = 256
"""Most bytes of an encryption key: those of an ElGamal key (common structures, "PublicKey")."""

MAX_EXPIRES_SECONDS: Final = 65_535
"""Most seconds from `published` to the end of a set: the field has two bytes, for 18.2 hours."""

MAX_MAPPING_BYTES: Final = 2048
"""Most bytes of a mapping: half of a lease set; the length field would allow 65,535."""

MAX_STRING_BYTES: Final = 255
"""Most bytes of a string: the length field has one byte (common structures, "String")."""

MAX_ROUTER_INFO_BYTES: Final = 65_536
"""Most bytes of a RouterInfo: no I2NP message is larger. Routers' own RouterInfos have one to two KiB."""

MAX_ROUTER_ADDRESSES: Final = 16
"""Most addresses of a RouterInfo, as in Java. Routers publish two to six addresses."""

MAX_CERTIFICATE_BYTES: Final = 88
"""Most bytes of a RouterIdentity's certificate, without type and length: `MAX_DESTINATION_BYTES` less 387."""
