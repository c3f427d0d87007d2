"""Delta's deletion vectors, decoded as PROTOCOL.md describes them ("Deletion Vector Format")."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC, _WITH_RUNS, _WITHOUT_RUNS, _ARRAY_MAX = 1681511377, 12347, 12346, 4096


def deleted_rows(table: Path, vector: Mapping[str, Any] | None) -> frozenset[int]:
    """The positions in a data file of the rows that a vector deletes; empty if there is no vector."""
    if vector is None:
        return frozenset()
    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    if kind == "i":
        return _bitmaps(_z85(text)[: vector["sizeInBytes"]])
    prefix, name = text[:-20], UUID(bytes=_z85(text[-20:]))
    path = Path(text) if kind == "p" else table / prefix / f"deletion_vector_{name}.bin"
    data, offset = path.read_bytes(), vector.get("offset", 1)
    (size,) = struct.unpack_from(">i", data, offset)
    return _bitmaps(data[offset + 4 : offset + 4 + size])


def _z85(text: str) -> bytes:
    groups = [text[i : i + 5] for i in range(0, len(text), 5)]
    decoded = bytearray()
    for group in groups:
        value = 0
        for letter in group:
            value = value * 85 + _Z85.index(letter)
        decoded += struct.pack(">I", value)
    return bytes(decoded)


def _bitmaps(data: bytes) -> frozenset[int]:
    magic, count = struct.unpack_from("<iq", data)
    assert magic == _MAGIC, f"not a bitmap array: {magic}"
    at, found = 12, set[int]()
    for _ in range(count):
        (high,) = struct.unpack_from("<i", data, at)
        values, at = _roaring(data, at + 4)
        found |= {(high << 32) | value for value in values}
    return frozenset(found)


def _roaring(data: bytes, at: int) -> tuple[set[int], int]:
    """A 32-bit Roaring bitmap in its portable format, and where it ends (RoaringFormatSpec)."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    flags = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = data[at : at + (count + 7) // 8]
        at += len(flags)
    else:
        assert cookie == _WITHOUT_RUNS, f"not a bitmap: {cookie}"
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    headers = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(count)]
    at += 4 * count + (4 * count if not flags or count >= 4 else 0)
    values = set[int]()
    for index, (key, cardinality) in enumerate(headers):
        if flags and flags[index // 8] >> (index % 8) & 1:
            (runs,) = struct.unpack_from("<H", data, at)
            pairs = [struct.unpack_from("<HH", data, at + 2 + 4 * i) for i in range(runs)]
            low, at = [v for start, length in pairs for v in range(start, start + length + 1)], at + 2 + 4 * runs
        elif cardinality + 1 <= _ARRAY_MAX:
            low, at = list(struct.unpack_from(f"<{cardinality + 1}H", data, at)), at + 2 * (cardinality + 1)
        else:
            words = data[at : at + 8192]
            low, at = [v for v in range(65536) if words[v >> 3] >> (v & 7) & 1], at + 8192
        values |= {(key << 16) | value for value in low}
    return values, at
