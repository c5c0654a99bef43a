from structlog.testing import capture_logs

from gf_i2p.transport.connection_counters import ConnectionRefusal, Counters, RefusalLog


def test_a_flood_is_counted_whole_and_logged_in_few_lines() -> None:
    now = 100.0
    counters = Counters()
    log = RefusalLog(counters, lambda: now)
    with capture_logs() as lines:
        for step in range(25_000):
            now = 100.0 + step / 1000
            log.record(ConnectionRefusal.TLS, "192.0.2.1:5", "garbage")
    assert counters.refused == {ConnectionRefusal.TLS: 25_000}
    assert [line["not_shown"] for line in lines] == [0, 9_999, 9_999]
    assert lines[0] == {
        "event": "connection refused",
        "log_level": "info",
        "reason": "tls",
        "remote": "192.0.2.1:5",
        "detail": "garbage",
        "not_shown": 0,
    }


def test_one_reason_does_not_hide_another() -> None:
    log = RefusalLog(Counters(), lambda: 0.0)
    with capture_logs() as lines:
        for reason in ConnectionRefusal:
            log.record(reason, "192.0.2.1:5", "")
    assert [line["reason"] for line in lines] == [str(reason) for reason in ConnectionRefusal]
