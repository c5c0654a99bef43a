"""Options of Spark's JVM for tests, whose jobs have few rows."""

from typing import Final

VARIABLE: Final = "SPARK_SUBMIT_OPTS"
"""PySpark gives the options in this variable to each JVM that it starts."""
FOR_FEW_ROWS: Final = (
    # Compiling for speed takes more time than it saves here; compiled code that does not fit is made again and again.
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
    # Without a collection whenever Spark's classes have outgrown what they may have at first.
    "-XX:MetaspaceSize=512m"
)
