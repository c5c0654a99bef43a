"""The files in `docker/` as they stand: nothing is built here; `integration/containers/` does that."""

import ipaddress
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gf_i2p.cli.main import _parser, main
from gf_i2p.node.farm_tasks import CLOSE_SECONDS, FINISH_SECONDS, RESIGN_SECONDS
from gf_i2p.node.node import STOP_SECONDS
from integration.testnet.containers import arguments

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted([DOCKER / "Dockerfile", *DOCKER.glob("*.Dockerfile")])
COMPOSE_FILES = sorted(DOCKER.glob("compose*.yaml"))
TEMPLATE = ROOT / "integration" / "testnet" / "i2pd.conf"
TEXTS = [*sorted(path for path in DOCKER.rglob("*") if path.is_file()), TEMPLATE]
NODE_IMAGE = "gf-i2p-node"
ROUTER_IMAGE = "gf-i2p-router"
_VARIABLE = re.compile(r"\$\{(\w+)(?::?[-?]([^}]*))?\}")
_SECRET_NAME = re.compile(r"password|passwd|secret|token|credential|private", re.IGNORECASE)
_FIXED_SECRET = re.compile(
    r"(?:password|passwd|secret|token|credential)s?[\"']?\s*[=:]\s*[\"']?[^\s\"'${(\[]", re.IGNORECASE
)
_KEY_MATERIAL = re.compile(r"BEGIN [A-Z ]*PRIVATE KEY|(?<![\w/.~+=-])(?=[\w~+/=-]*\d)(?=[\w~+/=-]*[A-Z])[\w~+/=-]{40,}")


def name_of(path: Path) -> str:
    return path.name


def compose(file: Path) -> dict[str, Any]:
    """The file as compose reads the text, with the defaults of the variables."""
    text = _VARIABLE.sub(lambda match: match[2] or "0", file.read_text())
    read = yaml.safe_load(text)
    assert isinstance(read, dict)
    return read


def services() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for file in COMPOSE_FILES:
        for service, described in compose(file)["services"].items():
            yield file.name, service, described


def instruction(file: Path, name: str) -> list[list[str]]:
    """Give the words of an instruction in JSON form, for each place of the instruction."""
    text = file.read_text().replace("\\\n", " ")
    return [json.loads(found) for found in re.findall(rf"^(?:{name})\s[^\[\n]*(\[.*\])$", text, re.MULTILINE)]


def program_commands() -> Iterator[tuple[str, list[str]]]:
    """Give every command line of `gf-i2p` in these files, by the place of the line."""
    for file, service, described in services():
        if described.get("image", "").startswith(NODE_IMAGE):
            assert described.get("entrypoint", ["gf-i2p"])[-1] == "gf-i2p", f"{file} {service}"
            command = described.get("command", [])
            yield f"{file} {service} command", shlex.split(command) if isinstance(command, str) else command
    dockerfile = DOCKER / "Dockerfile"
    assert ["gf-i2p"] in instruction(dockerfile, "ENTRYPOINT")
    for words in instruction(dockerfile, "CMD"):
        yield "Dockerfile CMD", words


def test_every_node_has_the_health_check_of_the_image() -> None:
    assert "docker/ready /usr/local/bin/ready" in (DOCKER / "Dockerfile").read_text()
    assert instruction(DOCKER / "Dockerfile", "HEALTHCHECK") == [["ready"]]
    checks = [
        described["healthcheck"]["test"]
        for _, _, described in services()
        if described.get("image", "").startswith(NODE_IMAGE)
    ]
    assert checks == [["CMD", "ready"]] * len(checks) != []


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
def test_hadolint_finds_nothing(file: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run(
        [hadolint, "--no-color", file], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("file", COMPOSE_FILES, ids=name_of)
def test_compose_files_are_as_the_schema_wants_them(file: Path) -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    jsonschema.validate(compose(file), schema)


def test_the_schema_notices_a_misspelt_key() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"one": {"image": "x", "read_olny": True}}}, schema)


@pytest.mark.parametrize(
    ("where", "words"), list(program_commands()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_the_program_knows_its_command_lines(where: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        _parser(words).parse_args(words)
    except SystemExit:
        pytest.fail(f"{where}: {capsys.readouterr().err}")


def test_the_program_does_not_know_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "/var/lib/gf-i2p", "--jason"])
    assert "--jason" in capsys.readouterr().err


def test_the_maker_of_the_farm_knows_its_command_line() -> None:
    words = compose(DOCKER / "compose.yaml")["services"]["setup"]["command"]
    assert words[:2] == ["-m", "integration.testnet.containers"]
    options = arguments().parse_args(words[2:])
    nodes = {pair.id: (pair.node, pair.router) for pair in options.server}
    described = compose(DOCKER / "compose.yaml")["services"]
    for number, (node, router) in nodes.items():
        assert node in _addresses(described[f"node-{number}"])
        assert sum(router in _addresses(each) for each in described.values()) == 1
    assert options.service.host in _addresses(described["web"])


def _addresses(described: dict[str, Any]) -> set[str]:
    networks = described.get("networks", {})
    return {each["ipv4_address"] for each in networks.values()} if isinstance(networks, dict) else set()


def test_routers_are_told_what_they_know() -> None:
    script = (DOCKER / "router.sh").read_text()
    routers = [
        (name, described) for _, name, described in services() if described.get("image", "").startswith(ROUTER_IMAGE)
    ]
    assert len(routers) >= 6
    for name, described in routers:
        for variable in described.get("environment", {}):
            assert re.search(rf"\$\{{{variable}:", script), f"{name}: docker/router.sh has no {variable}"
        words = [*described.get("command", ["run"]), *described["healthcheck"]["test"][2:]]
        for word in words:
            assert re.search(rf"^  {word}\)", script, re.MULTILINE), f"{name}: docker/router.sh knows no {word!r}"


def test_no_registry_is_asked_for_what_is_built_here() -> None:
    """Docker asks a registry for an image that another service builds, when the image is not built yet."""
    for file, service, described in services():
        assert described.get("pull_policy") == "never", f"{file} {service}"


def test_a_node_that_is_stopped_has_the_time_that_it_takes() -> None:
    """Docker kills a process that has not ended after ten seconds; a node tells the farm, and lets clients finish."""
    takes = RESIGN_SECONDS + FINISH_SECONDS + CLOSE_SECONDS + 2 * STOP_SECONDS
    nodes = [described for _, _, described in services() if described["image"] == NODE_IMAGE]
    assert len(nodes) == 4
    for described in nodes:
        assert float(described["stop_grace_period"].removesuffix("s")) > takes


def test_the_first_address_of_a_network_is_left_to_the_engine() -> None:
    file = compose(DOCKER / "compose.yaml")
    engine_has = {
        str(next(ipaddress.ip_network(each["subnet"]).hosts()))
        for network in file["networks"].values()
        for each in network["ipam"]["config"]
    }
    assert len(engine_has) == 5
    for service, described in file["services"].items():
        assert not engine_has & _addresses(described), service


def test_the_networks_of_the_farm_are_closed() -> None:
    for name, network in compose(DOCKER / "compose.yaml")["networks"].items():
        assert network.get("internal") is True, name


def test_nobody_has_rights_that_he_does_not_need() -> None:
    for file, service, described in services():
        where = f"{file} {service}"
        assert described.get("read_only") is True, where
        assert described.get("cap_drop") == ["ALL"], where
        assert "no-new-privileges:true" in described.get("security_opt", []), where
        assert described.get("init") is True, where
        assert not {"privileged", "cap_add", "devices", "pid", "ipc", "userns_mode"} & set(described), where
        assert described.get("user") not in {"root", "0", 0, "0:0"}, where
        for port in described.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), f"{where}: {port} is open to everybody"
    for file_ in DOCKERFILES:
        assert re.findall(r"^USER (.*)$", file_.read_text(), re.MULTILINE)[-1] == "10001:10001", file_.name


def test_what_runs_for_weeks_does_not_fill_the_disk_with_what_it_says() -> None:
    for file, service, described in services():
        limits = described.get("logging", {}).get("options", {})
        assert limits == {"max-size": "10m", "max-file": "3"}, f"{file} {service}"
        assert described["logging"]["driver"] == "json-file", f"{file} {service}: the driver that knows these options"


def test_what_runs_takes_no_more_than_its_share_of_the_machine() -> None:
    for file, service, described in services():
        assert described.get("mem_limit") == "1g", f"{file} {service}"
        assert described.get("pids_limit") == 256, f"{file} {service}"


@pytest.mark.parametrize("file", DOCKERFILES, ids=name_of)
def test_an_image_says_what_it_is(file: Path) -> None:
    text = file.read_text()
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', text))
    assert {"title", "description", "licenses", "base.name"} <= labels.keys()
    assert f"ARG BASE={labels['base.name']}\n" in text


def test_the_images_with_the_program_list_their_parts() -> None:
    """Each final stage has the list of its own parts, and nothing else of the stage that makes the list."""
    text = (DOCKER / "Dockerfile").read_text()
    (place,) = re.findall(r'gf-i2p\.parts="([^"]*)"', text)
    stages = {
        match[2]: match for match in re.finditer(r"^FROM (\S+) AS (\S+)\n((?:(?!FROM ).*\n?)*)", text, re.MULTILINE)
    }
    for image, lister, installed in (("node", "parts", "installed"), ("spark", "parts-spark", "installed-spark")):
        assert f"COPY --from={lister} /opt/parts.cdx.json {place}\n" in stages[image][3]
        assert stages[lister][1] == installed
        assert text.count(f"--from={lister} ") == 1
        assert "-name direct_url.json -delete" in stages[installed][3], "such a file hides a package's purl"


def test_a_directory_that_is_missing_is_not_made() -> None:
    """Docker runs as root: a directory made by Docker would not be writable for the next program."""
    for file, service, described in services():
        for volume in described.get("volumes", []):
            if isinstance(volume, dict):
                assert volume["bind"] == {"create_host_path": False}, f"{file} {service}"
            else:
                assert re.fullmatch(r"[\w-]+:/[\w/.-]+", volume), f"{file} {service}: {volume} is no volume's name"


@pytest.mark.parametrize(("user", "code", "said"), [(0, 1, "NODE_USER is root"), (10001, 0, "run /var/lib/gf-i2p")])
def test_a_node_of_its_own_does_not_run_as_root(tmp_path: Path, user: int, code: int, said: str) -> None:
    node = compose(DOCKER / "compose.node.yaml")["services"]["node"]
    for name, does in {"id": f"echo {user}", "gf-i2p": 'echo "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    words = [word.replace("$$", "$") for word in (*node["entrypoint"], *node["command"])]
    done = subprocess.run(
        words, env={"PATH": f"{tmp_path}:{os.defpath}"}, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_addresses_and_macs_are_fixed_and_different() -> None:
    places: list[tuple[str, str]] = []
    for described in compose(DOCKER / "compose.yaml")["services"].values():
        for name, place in described.get("networks", {}).items():
            places += [(name, place["ipv4_address"]), ("mac", place["mac_address"])]
    assert len(places) > 20
    assert len(places) == len(set(places))


def test_bases_are_pinned_by_tag() -> None:
    bases = {re.findall(r"^ARG BASE=(.*)$", file.read_text(), re.MULTILINE)[0] for file in DOCKERFILES}
    assert len(bases) == 1
    assert re.fullmatch(r"(?:\S+/)?debian:\d+\.\d+-slim", bases.pop())


@pytest.mark.parametrize("file", TEXTS, ids=name_of)
def test_no_secret_is_in_a_file(file: Path) -> None:
    text = file.read_text()
    assert not _KEY_MATERIAL.search(text)
    assert not _FIXED_SECRET.search(text)
    assert not [
        line for line in text.splitlines() if re.match(r"\s*(?:ENV|ARG)\s.*=", line) and _SECRET_NAME.search(line)
    ]


def test_no_secret_is_in_the_environment() -> None:
    for file, service, described in services():
        environment = described.get("environment", {})
        names = list(environment) if isinstance(environment, dict) else [each.partition("=")[0] for each in environment]
        assert not [name for name in names if _SECRET_NAME.search(name) and not name.endswith("_FILE")], (file, service)
        assert "env_file" not in described, (file, service)


def test_a_secret_would_be_noticed() -> None:
    assert _KEY_MATERIAL.search("-----BEGIN PRIVATE KEY-----")
    assert _KEY_MATERIAL.search("key: MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v4VpguoRK9JLsLMRXXXXXXXXXXXXXX1")
    assert _SECRET_NAME.search("I2PCONTROL_PASSWORD")
    for line in ("password=hunter2", "password = itoopie", 'i2pcontrol_password: "x"', "API_TOKEN='x'"):
        assert _FIXED_SECRET.search(line), line
    for line in ('password=""', "password=$(<file)", "password = {password}", "keys and passwords, mode 0700"):
        assert not _FIXED_SECRET.search(line), line
