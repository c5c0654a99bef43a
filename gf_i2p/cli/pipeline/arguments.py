"""Arguments that several jobs of `gf-i2p pipeline` share."""

import argparse
from pathlib import Path
from typing import Final

from gf_i2p.cli.shared.argument_types import whole_number
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.pipeline.lake.paths import absolute
from gf_i2p.pipeline.spark_session import DEFAULT_MEMORY_MB, SessionOptions

MAX_MEMORY_MB: Final = 1 << 20


def add_lake(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a job that works on the lake's tables: the lake, and the arguments of `add_spark`."""
    parser.add_argument("lake", metavar="LAKE", help="the directory of the pipeline's tables, or its address")
    add_spark(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the place and the memory of Spark."""
    spark = parser.add_argument_group("Spark")
    spark.add_argument(
        "--master",
        metavar="URL",
        help="the address of Spark's master, as for spark-submit (default: all cores of this machine)",
    )
    spark.add_argument("--remote", metavar="URL", help="a Spark Connect server, sc://HOST:PORT")
    spark.add_argument(
        "--memory",
        type=whole_number(MAX_MEMORY_MB, low=512),
        default=DEFAULT_MEMORY_MB,
        metavar="MB",
        help=f"size of Spark's heap on this machine (default: {DEFAULT_MEMORY_MB})",
    )
    spark.add_argument("--scratch", type=Path, metavar="DIR", help="directory for data that does not fit into memory")


def session_options(options: argparse.Namespace) -> SessionOptions:
    """Return the arguments of `add_spark` as session options."""
    lake = absolute(options.lake) if "lake" in options else ""
    return SessionOptions(options.master, options.remote, options.memory, options.scratch, lake)


def check_out(path: Path, option: str = "--out") -> None:
    """Check, before the job begins, that the result can be written to this file. Raises `CommandError`.

    `option`: the option that names the file.
    """
    if path.is_dir():
        fault = "it is a directory"
    elif not path.parent.is_dir():
        fault = f"there is no directory {path.parent}"
    else:
        return
    raise CommandError(f"{path} cannot be written: {fault}. Choose another place with {option}.")


def add_days(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a farm and days."""
    parser.add_argument("--farm", metavar="NAME", help="only this farm")
    parser.add_argument("--since", metavar="DAY", help="the first day, YYYY-MM-DD in UTC")
    parser.add_argument("--until", metavar="DAY", help="the last day, YYYY-MM-DD in UTC")
