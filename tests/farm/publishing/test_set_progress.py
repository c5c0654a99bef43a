"""The words for the progress of a set: each word only when true."""

from gf_i2p.farm.publishing.set_progress import PublishProgress, SetProgress

PUBLISHED = 1_790_000_000


def now(progress: PublishProgress) -> SetProgress:
    assert progress.current is not None
    return progress.current


def test_one_word_after_the_other_with_its_time() -> None:
    words: list[str] = []
    progress = PublishProgress(lambda: words.append(now(progress).stage))
    assert progress.current is None
    progress.announced(PUBLISHED, b"the set")
    assert (now(progress).stage, now(progress).published_ms) == ("announced", PUBLISHED * 1000)
    progress.attempted(1)
    progress.sent(2)
    progress.unconfirmed("nobody looks")
    assert now(progress).unconfirmed == "nobody looks"
    progress.confirmed(3, by=7)
    assert words == ["attempted", "sent", "confirmed"]
    progress_now = now(progress)
    assert (progress_now.attempted_ms, progress_now.sent_ms, progress_now.confirmed_ms, progress_now.confirmed_by) == (
        1,
        2,
        3,
        7,
    )
    assert progress_now.unconfirmed is None


def test_who_confirmed_it_first_stays_and_nothing_takes_it_back() -> None:
    progress = PublishProgress()
    progress.confirmed(1, by=1)
    progress.unconfirmed("nothing is there")
    assert progress.current is None
    progress.announced(PUBLISHED, b"the set")
    progress.sent(2)
    progress.confirmed(3, by=7)
    progress.confirmed(4, by=8)
    progress.unconfirmed("gone")
    assert (now(progress).confirmed_ms, now(progress).confirmed_by, now(progress).unconfirmed) == (3, 7, None)


def test_the_next_set_begins_anew() -> None:
    progress = PublishProgress()
    progress.announced(PUBLISHED, b"the set")
    progress.attempted(1)
    progress.sent(2)
    progress.confirmed(3, by=7)
    progress.announced(PUBLISHED + 5, b"another")
    assert now(progress).stage == "announced"
    assert now(progress).published_ms == (PUBLISHED + 5) * 1000
