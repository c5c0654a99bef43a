"""Spark columns of I2P's base64, which has - and ~ in place of + and /."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from pyspark.sql import Column


def encoded(column: "Column") -> "Column":
    """Return a column with the base64 of a column of bytes."""
    return fn.translate(fn.base64(column), "+/", "-~")


def decoded_if_valid(column: "Column") -> "Column":
    """Return a column with the bytes of a column of base64; null for a text that is not base64."""
    return fn.try_to_binary(fn.translate(column, "-~", "+/"), fn.lit("base64"))
