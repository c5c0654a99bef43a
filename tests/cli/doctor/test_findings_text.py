"""Findings of doctor as text for people and as JSON for programs."""

from gf_i2p.cli.doctor.checks import CheckResult, Finding, Remedy, fail, ok, skip, warn
from gf_i2p.cli.doctor.findings_text import FindingsPage, as_json

NAMES = ["SAM", "own address"]
ADDRESS = "abcdefgh" + "i" * 44 + ".b32.i2p"
FINGERPRINT = "sha256:" + "0123456789abcdef" * 4


def shown(name: str, result: CheckResult, *, columns: int = 80, colour: bool = False) -> list[str]:
    return FindingsPage(NAMES, columns=columns, colour=colour).finding(Finding(name, result))


def test_what_is_well_is_one_line() -> None:
    assert shown("SAM", ok("SAM 3.1 at 127.0.0.1:7656")) == ["  ok    SAM          SAM 3.1 at 127.0.0.1:7656"]


def test_below_a_fault_stands_what_mends_it_for_each_router() -> None:
    remedy = Remedy("in i2pd.conf, section [sam]: enabled = true, address = 127.0.0.1, port = 7656", "start the bridge")
    assert shown("SAM", fail("nobody answers", remedy)) == [
        "  fail  SAM          nobody answers",
        "        i2pd  in i2pd.conf, section [sam]: enabled = true, address = 127.0.0.1,",
        "              port = 7656",
        "        Java  start the bridge",
    ]


def test_what_is_the_same_for_both_is_said_once() -> None:
    assert shown("SAM", warn("hm", Remedy.either("Try again."))) == ["  warn  SAM          hm", "        Try again."]


def test_a_long_line_goes_on_below_its_text() -> None:
    assert shown("SAM", ok("word " * 12), columns=60) == [
        "  ok    SAM          word word word word word word word word",
        "                     word word word word",
    ]


def test_addresses_are_shortened_and_fingerprints_are_whole() -> None:
    assert shown("own address", ok(f"{ADDRESS} is found")) == ["  ok    own address  abcdefgh….b32.i2p is found"]
    assert shown("SAM", ok(f"shows {FINGERPRINT}")) == ["  ok    SAM          shows", f"        {FINGERPRINT}"]
    assert shown("SAM", ok(FINGERPRINT)) == ["  ok    SAM", f"        {FINGERPRINT}"]


def test_nothing_that_was_heard_controls_the_terminal() -> None:
    assert shown("SAM", ok("it says \x1b[2J\r\n!")) == ["  ok    SAM          it says \\x1b[2J\\r\\n!"]


def test_colours() -> None:
    assert shown("SAM", ok("x"), colour=True) == ["  \x1b[32mok    \x1b[0mSAM          x"]
    assert shown("SAM", skip("x"), colour=True)[0].endswith("\x1b[2mSAM          x\x1b[0m")


def test_the_last_line() -> None:
    page = FindingsPage(NAMES, columns=80, colour=False)
    well = [Finding("SAM", ok("x")), Finding("own address", skip("x"))]
    assert page.summary(well) == "Nothing is wrong (1 ok, 1 not looked at)."
    ill = [Finding("SAM", fail("x", Remedy.either("y"))), Finding("own address", warn("x"))]
    assert page.summary(ill) == "To mend: SAM (0 ok, 1 to look at)."


def test_what_is_waited_for_is_one_line() -> None:
    page = FindingsPage(NAMES, columns=40, colour=False)
    assert page.waiting(["SAM", "leaf"], 3.4) == "  …     3 s, waiting for SAM, leaf"
    assert len(page.waiting([f"server {n}" for n in range(20)], 100.0)) < 40


def test_json_has_everything_whole() -> None:
    findings = [Finding("SAM", ok(ADDRESS)), Finding("own address", fail("x", Remedy("a", "b")))]
    assert as_json(findings) == {
        "ok": False,
        "error": "1 of 2 checks failed, and the first is own address: x",
        "outcome": "no",
        "checks": [
            {"name": "SAM", "state": "ok", "text": ADDRESS, "remedy": None},
            {"name": "own address", "state": "fail", "text": "x", "remedy": {"i2pd": "a", "java": "b"}},
        ],
    }
    assert (well := as_json(findings[:1]))["ok"] is True
    assert well.keys() == {"ok", "checks"}
