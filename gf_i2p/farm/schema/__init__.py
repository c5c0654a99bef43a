"""JSON Schema of the status record, the entry that each server posts in a farm's log."""

from importlib.resources import files


def text() -> str:
    """Return the schema of the status record (JSON Schema, draft 2020-12)."""
    return (files(__name__) / "status.json").read_text(encoding="utf-8")
