"""`gf-i2p pipeline catalog`: prints the SQL by which a catalog of Spark or Hive learns the lake's tables."""

import argparse

from gf_i2p.cli.shared.command import Answer
from gf_i2p.pipeline.lake.paths import Lake

HELP = "print SQL that creates the lake's tables in a catalog of Spark or Hive"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    parser.add_argument("lake", metavar="LAKE", help="the directory of the pipeline's tables, or its address")
    parser.add_argument(
        "--database", metavar="NAME", help="the tables' database, which the SQL creates, too (default: the current one)"
    )


def run(options: argparse.Namespace) -> Answer:
    """Look which tables exist, and print the SQL. Raises `PipelineError`."""
    from gf_i2p.pipeline.lake.catalog import existing_tables, script  # noqa: PLC0415 -- needs pyarrow

    lake = Lake(options.lake)
    tables = existing_tables(lake)
    sql = script(lake, tables, options.database)
    return Answer({"tables": tables, "sql": sql}, sql, is_file=True)
