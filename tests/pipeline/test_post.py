"""`gf-i2p pipeline post`: the posted values, the refusals, and the question before a post."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gf_i2p.cli.administration import administer
from gf_i2p.cli.main import main
from gf_i2p.cli.pipeline import post
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.sensed_floodfills import MAX_CLOSEST, MAX_FIGURES, MAX_HASHES
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.pipeline.floodfills.sensing_entry import profile_of, sensing
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.storage.private_files import write_private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSEST = (
    "hash string, name string, day string, rank int, floodfill string, distance string, "
    "profile struct<heard_ms: long, speed: double, banned: boolean>"
)
DAYS = ("2026-07-01", "2026-07-02", "2026-07-03", "2026-07-04")
FRAGMENT = '# why: fewer changes\n[farm.parameters]\nmargin = 70\ntree = "best"\n'
Out = Callable[..., tuple[int, str]]


def hash_of(number: int) -> str:
    return to_base64(number.to_bytes(32))


def closest_rows(hashes: dict[int, str]) -> list[tuple[Any, ...]]:
    return [
        (hash_of(number), name, day, rank, hash_of(rank), f"{rank:064x}", (5, 1.5, True) if rank == 1 else None)
        for number, name in hashes.items()
        for day in DAYS
        for rank in (2, 1)
    ]


@pytest.fixture(scope="module")
def lake(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The farm "web" has more hashes than a farm keeps; the farm "archive" has none by name, but one by a leaf."""
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    leaves = {number: f"web: leaf of server {number:03}" for number in range(MAX_HASHES + 2)}
    rows = closest_rows({**leaves, 900: "web: master", 901: "by hand"})
    spark.createDataFrame(rows, CLOSEST).coalesce(1).write.parquet(lake.path("closest"))
    hours = [("archive", "2026-07-01", hash_of(901)), ("web", "2026-07-01", hash_of(5))]
    spark.createDataFrame(hours, "farm string, day string, destination string").coalesce(1).write.parquet(
        lake.path("destination_hours")
    )
    return lake


def test_a_farms_hashes_go_with_their_newest_days_masters_first(spark: "SparkSession", lake: Lake) -> None:
    sensed = sensing(spark, lake, "web")
    hashes = list(dict.fromkeys(hash_ for hash_, _ in sensed.findings))
    assert (len(hashes), sensed.left_out) == (MAX_HASHES, 3)
    assert (900).to_bytes(32) in hashes
    assert (MAX_HASHES).to_bytes(32) not in hashes
    [first, *_] = [each for hash_, each in sensed.findings if hash_ == (900).to_bytes(32)]
    assert [each.day for hash_, each in sensed.findings if hash_ == (900).to_bytes(32)] == list(DAYS[1:])
    assert [each.distance for each in first.closest] == [(1).to_bytes(32), (2).to_bytes(32)]
    assert [each.profile for each in first.closest] == [{"heard_ms": 5, "speed": 1.5}, {}]
    state = FarmState("web")
    for index, (hash_, each) in enumerate(sensed.findings, 1):
        state.apply(AdminEntry("web", 1, "admin-ann", "sensed", hash=hash_, sensed=each).encode(), index)
    assert len(state.administration.sensing.all()) == len(sensed.findings) == 3 * MAX_HASHES


def test_a_farm_that_no_name_tells_of_has_its_leaves(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    assert {hash_ for hash_, _ in sensing(spark, lake, "archive").findings} == {(901).to_bytes(32)}
    with pytest.raises(Exception, match="has no hash of nobody"):
        sensing(spark, lake, "nobody")
    with pytest.raises(Exception, match="run `gf-i2p pipeline floodfills` first"):
        sensing(spark, Lake(str(tmp_path)), "web")


def test_what_no_entry_takes_is_no_profile() -> None:
    figures = {"a b": 1, "text": "x", "nan": float("nan"), "big": 2**60, "yes": True, "none": None, "half": 0.5}
    assert profile_of(figures) == {"a_b": 1, "half": 0.5}
    assert len(profile_of({f"f{number}": number for number in range(20)})) == MAX_FIGURES <= MAX_CLOSEST


# The command ---------------------------------------------------------------------------------------------------------


class Farm:
    """Stands in for a farm, and keeps the posted entries."""

    def __init__(self) -> None:
        self.posts: list[list[AdminEntry]] = []
        self.index = 40
        self.fails_at = 99

    async def post(self, _file: ClientFile, entries: list[AdminEntry], _say: Any) -> tuple[int, list[str]]:
        if len(self.posts) == self.fails_at:
            raise CommandError("nobody leads", code=Exit.DEGRADED)
        self.posts.append(list(entries))
        self.index += len(entries)
        return self.index, []


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> Farm:
    farm = Farm()
    monkeypatch.setattr(administer, "post", farm.post)
    return farm


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Write credentials of an administrator and of a client, and a file of parameters; return the paths by name."""
    paths = {"admin": tmp_path / "admin-ann.toml", "client": tmp_path / "client-c.toml", "set": tmp_path / "set.toml"}
    for name in ("admin-ann", "client-c"):
        write_private(
            tmp_path / f"{name}.toml",
            f'cluster = "web"\nuser = "{name}"\npassword = "secret-word"\n\n[[servers]]\nid = 1\n'
            f'endpoint = "tcp://127.0.0.1:9"\nfingerprint = "{"ab" * 32}"\n',
        )
    paths["set"].write_text(FRAGMENT)
    return paths


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str], lake: Lake) -> Out:
    def gives(*words: object) -> tuple[int, str]:
        code = main(["pipeline", "post", lake.root, *map(str, words)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return gives


@pytest.fixture(autouse=True)
def same_spark(monkeypatch: pytest.MonkeyPatch, spark: "SparkSession") -> None:
    @contextmanager
    def given(_options: object) -> "Iterator[SparkSession]":
        yield spark

    monkeypatch.setattr("gf_i2p.cli.pipeline.spark_job.session", given)


def test_parameters_are_posted_in_the_administrators_name(farm: Farm, files: dict[str, Path], out: Out) -> None:
    code, text = out("--farm", "web", "--admin", files["admin"], "--parameters", files["set"], "--yes")
    assert code == 0, text
    [[entry]] = farm.posts
    assert (entry.cluster, entry.by, entry.action) == ("web", "admin-ann", "set")
    assert entry.parameters == {"margin": 70, "tree": "best"}
    assert entry.reason == post.REASON
    assert "to web, as admin-ann:\n  set margin = 70, tree = best\n" in text
    assert "committed at index 41: 1 entry" in text
    assert "secret-word" not in text


def test_what_is_recommended_for_one_farm_is_not_posted_to_another(
    farm: Farm, files: dict[str, Path], out: Out
) -> None:
    words = ("--farm", "web", "--admin", files["admin"], "--parameters", files["set"], "--yes")
    for cluster, code, posts in (("archive", 2, 0), ("web", 0, 1)):
        files["set"].write_text(f'[farm]\ncluster = "{cluster}"\n{FRAGMENT}')
        exit_code, text = out(*words)
        assert (exit_code, len(farm.posts)) == (code, posts)
        assert ("is for the farm 'archive', and not for 'web'" in text) == (posts == 0)


def test_what_was_sensed_is_posted_some_at_a_time(farm: Farm, files: dict[str, Path], out: Out) -> None:
    words = ("--farm", "web", "--admin", files["admin"], "--parameters", files["set"], "--sensing", "--yes", "--json")
    code, text = out(*words)
    answer = json.loads(text)
    assert (code, answer["ok"], answer["dry_run"], answer["hashes_left_out"]) == (0, True, False, 3)
    assert answer["indexes"] == list(range(41, 41 + 1 + 3 * MAX_HASHES))
    assert {len(each) for each in farm.posts[:-1]} == {post.AT_ONCE}
    assert [entry.action for each in farm.posts for entry in each] == ["set", *["sensed"] * 3 * MAX_HASHES]


def test_a_failure_in_the_middle_says_what_is_committed(farm: Farm, files: dict[str, Path], out: Out) -> None:
    farm.fails_at = 2
    code, text = out("--farm", "web", "--admin", files["admin"], "--sensing", "--yes")
    assert code == 3
    assert "nobody leads (committed before that: indexes 41 to 104)" in text


def test_a_dry_run_posts_nothing(farm: Farm, files: dict[str, Path], out: Out) -> None:
    words = ("--farm", "web", "--admin", files["admin"], "--parameters", files["set"], "--sensing", "--dry-run")
    code, text = out(*words)
    assert (code, farm.posts) == (0, [])
    assert f"and {3 * MAX_HASHES - 6} more sensed hashes" in text
    assert "3 hashes are left out" in text
    assert "this was a dry run" in text


@pytest.mark.parametrize(("typed", "posts"), [("y", 1), ("yes ", 1), ("n", 0), ("", 0)])
def test_it_asks_on_a_terminal(
    farm: Farm, files: dict[str, Path], out: Out, monkeypatch: pytest.MonkeyPatch, typed: str, posts: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: typed)
    code, _ = out("--farm", "web", "--admin", files["admin"], "--parameters", files["set"])
    assert (code, len(farm.posts)) == (0 if posts else 2, posts)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--farm", "web", "--admin", "admin"], "there is nothing to post"),
        (
            ["--farm", "wub", "--admin", "admin", "--parameters", "set", "--yes"],
            "is for the farm 'web', and not for 'wub'",
        ),
        (["--farm", "web", "--admin", "client", "--parameters", "set", "--yes"], "only an administrator may"),
        (["--farm", "web", "--admin", "admin", "--parameters", "set"], "add --yes, or --dry-run"),
    ],
)
def test_refused(farm: Farm, files: dict[str, Path], out: Out, words: list[str], why: str) -> None:
    code, text = out(*(files.get(word, word) for word in words))
    assert (code, farm.posts) == (2, [])
    assert why in text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[farm", "is not TOML"),
        ("margin = 70", "no parameter in [farm.parameters]"),
        ("farm = 3", "no parameter in [farm.parameters]"),
        ("[farm.parameters]", "no parameter in [farm.parameters]"),
        ("[farm.parameters]\nmarginal = 70", "is no parameter of a farm"),
        ("[farm.parameters]\nmargin = 1001", "margin is a whole number from 0 to 1000"),
        ("#" * 70_000, "more than 65536 bytes"),
    ],
)
def test_a_fragment_that_is_none(farm: Farm, files: dict[str, Path], out: Out, content: str, why: str) -> None:
    files["set"].write_text(content)
    code, text = out("--farm", "web", "--admin", files["admin"], "--parameters", files["set"], "--yes")
    assert (code, farm.posts) == (2, [])
    assert why in text
