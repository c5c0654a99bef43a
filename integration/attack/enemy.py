"""The process of one attack, apart from the honest client, so that the client's times are not the attacker's.

    python -m integration.attack.enemy NAME SCENE RESULT

SCENE is a file with the scene, and RESULT the file for the load, both as JSON.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from gf_i2p.cli.shared.logs import configure
from gf_i2p.transport.event_loop import loop_factory
from integration.attack.attack import Load, Scene
from integration.attack.catalogue import BY_NAME


def main() -> None:
    """Attack, and write the load."""
    name, scene, result = sys.argv[1:]
    configure("error", "text")

    farm = Scene.decode(Path(scene).read_text())

    async def attack() -> Load:
        return await BY_NAME[name].run(farm)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        load = runner.run(attack())
    Path(result).write_text(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
