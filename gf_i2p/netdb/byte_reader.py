"""Reads structures from bytes, field by field."""

from gf_i2p.netdb.errors import StructureError


class Reader:
    """Bytes, and the position of the next field. Methods raise `StructureError` when the bytes end too early."""

    def __init__(self, data: bytes, structure: str) -> None:
        """`structure` names the structure in errors, with its article: "a Destination"."""
        self.data = data
        self.position = 0
        self._structure = structure

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self.position + count
        if end > len(self.data):
            raise StructureError(f"{self._structure} ends after {len(self.data)} bytes, inside a field")
        start, self.position = self.position, end
        return self.data[start:end]

    def number(self, count: int) -> int:
        """Return the next `count` bytes as an unsigned big-endian number."""
        return int.from_bytes(self.take(count), "big")

    def finish(self) -> None:
        """Raise `StructureError` when more bytes follow."""
        if self.position != len(self.data):
            raise StructureError(f"{len(self.data) - self.position} bytes follow {self._structure}")
