"""`make scenarios`: a private network of real I2P routers, and everything in this folder on it."""

import sys
import tempfile
from pathlib import Path

from integration.testnet.__main__ import main as testnet
from integration.testnet.namespace import MissingError, check_programs


def main() -> int:
    """Run; what the command line says goes to pytest. 0 when all passed, or when there can be no network here."""
    try:
        check_programs()
    except MissingError as error:
        print(f"Scenarios on real I2P routers: SKIPPED, {error}")
        return 0
    with tempfile.TemporaryDirectory(prefix="gf-i2p-scenarios-") as directory:
        pytest = [sys.executable, "-m", "pytest", "--timeout=600", *(sys.argv[1:] or [str(Path(__file__).parent)])]
        return testnet(["run", "--directory", str(Path(directory) / "network"), "--", *pytest])


if __name__ == "__main__":
    sys.exit(main())
