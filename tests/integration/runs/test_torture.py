"""A short run of five processes under kill -9, SIGSTOP and cuts. `make torture` is the long run."""

import json
import subprocess
import sys
from typing import Any

import pytest

from integration.harness.network_farm import NEEDED
from integration.testnet.namespace import MissingError, check_programs


@pytest.mark.slow  # a farm of five
def test_what_clients_are_told_under_faults_is_true() -> None:
    run("6")


@pytest.mark.slow  # one more farm of five
def test_a_server_whose_disk_fails_at_random_costs_nothing() -> None:
    figures = run("20", "--failing-disk", "60")  # some dozens of failures, a few on a machine that is busy
    assert figures["disk_failures"] > 0


def run(seconds: str, *options: str) -> dict[str, Any]:
    try:
        check_programs(NEEDED)
    except MissingError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "integration.runs.torture", "--seconds", seconds, "--snapshot-entries", "100"]
    command += [*options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    figures: dict[str, Any] = json.loads(done.stdout)
    assert figures["wrong"] == []
    assert figures["writes_acknowledged"] > 0
    assert figures["reads_answered"] > 0
    return figures
