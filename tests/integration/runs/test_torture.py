"""A short run of five processes under kill -9, SIGSTOP and cuts. `make torture` is the long run."""

import json
import subprocess
import sys

import pytest

from integration.harness.network_farm import NEEDED
from integration.testnet.namespace import MissingError, check_programs


def test_what_clients_are_told_under_faults_is_true() -> None:
    try:
        check_programs(NEEDED)
    except MissingError as error:
        pytest.skip(str(error))
    command = [
        sys.executable,
        "-m",
        "integration.runs.torture",
        "--seconds",
        "6",
        "--snapshot-entries",
        "100",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    figures = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr + done.stdout
    assert figures["wrong"] == []
    assert figures["writes_acknowledged"] > 0
    assert figures["reads_answered"] > 0
