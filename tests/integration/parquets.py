"""Parquet files made by hand, for what no ordinary writer would write."""


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def zigzag(value):
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def kind_of(value):
    if isinstance(value, bool):
        return 1 if value else 2
    return {int: 6, bytes: 8, list: 9, dict: 12}[type(value)]


def thrift(value):
    """Compact protocol; a struct is a dictionary from the numbers of fields to values."""
    if isinstance(value, bool):
        return b""
    if isinstance(value, int):
        return zigzag(value)
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, list):
        kind = kind_of(value[0]) if value else 12
        return bytes([0xf0 | kind]) + varint(len(value)) + b"".join(map(thrift, value))
    return b"".join(bytes([kind_of(item)]) + zigzag(number) + thrift(item)
                    for number, item in value.items()) + b"\0"


def page(values, count, encoding=0, size=None):
    """A data page of the first kind, not compressed unless size says what it is when it is not."""
    size = len(values) if size is None else size
    header = {1: 0, 2: size, 3: len(values), 5: {1: count, 2: encoding, 3: 3, 4: 3}}
    return thrift(header) + values


def dictionary(values, count):
    return thrift({1: 2, 2: len(values), 3: len(values), 7: {1: count, 2: 0}}) + values


def parquet(kind, pages, count, rows=None, codec=0, element=None, chunk=None, footer=None):
    """A file with one column, 'a', that has no nulls; element, chunk and footer change its metadata."""
    rows = count if rows is None else rows
    meta = {1: kind, 2: [0], 3: [b"a"], 4: codec, 5: count, 6: len(pages), 7: len(pages), 9: 4}
    told = {1: 2, 2: [{4: b"schema", 5: 1}, {1: kind, 3: 0, 4: b"a", **(element or {})}], 3: rows,
            4: [{1: [{2: 4, 3: meta, **(chunk or {})}], 2: len(pages), 3: rows}], **(footer or {})}
    end = thrift(told)
    return b"PAR1" + pages + end + len(end).to_bytes(4, "little") + b"PAR1"
