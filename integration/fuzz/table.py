"""The table of all targets, and the traced folders."""

from pathlib import Path
from typing import Final

import h11
import i2plib

from integration.fuzz import (
    farm_targets,
    file_targets,
    forwarder_targets,
    handshake_targets,
    join_targets,
    key_targets,
    netdb_targets,
    pipeline_targets,
    router_targets,
    sealed_targets,
    storage_targets,
    wire_targets,
)
from integration.fuzz.target import Target

_ROOT: Final = Path(__file__).parents[2]
TRACED: Final = (
    f"{_ROOT / 'gf_i2p'}/",
    f"{_ROOT / 'bridges'}/",
    f"{Path(h11.__file__).parent}/",
    f"{Path(i2plib.__file__).parent}/",
)
"""Code whose coverage guides the mutator: the program, and the parsers that the program leaves HTTP and SAM to."""
TARGETS: Final[tuple[Target, ...]] = (
    *wire_targets.TARGETS,
    *handshake_targets.TARGETS,
    *key_targets.TARGETS,
    *join_targets.TARGETS,
    *netdb_targets.TARGETS,
    *farm_targets.TARGETS,
    *storage_targets.TARGETS,
    *router_targets.TARGETS,
    *forwarder_targets.TARGETS,
    *file_targets.TARGETS,
    *sealed_targets.TARGETS,
    *pipeline_targets.TARGETS,
)
