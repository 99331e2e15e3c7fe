"""Reads Parquet: what values mean, and tables of them."""

import datetime
import decimal
import json
import os
import uuid
import zlib

import numpy

from cay_parquet.values import (
    BYTE_ARRAY, DEPTH_MAX, FIXED, FOOTER_MAX, INT32, INT64, INT96, PAGE_MAX, PLAIN_DICTIONARY,
    RLE, RLE_DICTIONARY, ParquetError, Thrift, decompress, field, natural, objects, read_plain,
    read_runs, read_values)

# ---- what values mean ----

DATA, DICTIONARY, DATA_2 = 0, 2, 3
OPTIONAL, REPEATED = 1, 2
CELLS_FREE, CELLS_PER_BYTE = 32 << 20, 1000  # of a table, beside what its file's size allows
LATE = 100  # bytes by which old writers count a column's pages too short
UNITS = {1: "ms", 2: "us", 3: "ns"}
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
OLD_MEANINGS = {0: ("text",), 4: ("text",), 19: ("text",), 6: ("date",), 7: ("time", "ms"),
                8: ("time", "us"), 9: ("timestamp", "ms", False), 10: ("timestamp", "us", False),
                **{11 + i: ("integer", 8 << i, False) for i in range(4)},
                **{15 + i: ("integer", 8 << i, True) for i in range(4)}}
STORED_AS = {"text": (BYTE_ARRAY, FIXED), "decimal": (INT32, INT64, BYTE_ARRAY, FIXED),
             "date": (INT32,), "time": (INT32, INT64), "timestamp": (INT64,),
             "integer": (INT32, INT64), "uuid": (FIXED,), "half": (FIXED,)}
FIRST_DAY, LAST_DAY = -719162, 2932896  # of the years 1 to 9999


def meaning(element):
    """Says it as a word and its details; there is a newer and an older way in which files do."""
    newer = element.get(10)
    number, more = 0, {}
    if isinstance(newer, dict) and newer:
        number, more = next(iter(newer.items()))
    if number in (1, 4, 12):
        return ("text",)
    if number == 5:
        return "decimal", natural(more, 1, "scale", 0)
    if number == 6:
        return ("date",)
    if number in (7, 8):
        unit = UNITS.get(next(iter(field(more, 2, dict, "unit of time")), 0), "ns")
        return ("time", unit) if number == 7 else ("timestamp", unit, more.get(1) is True)
    if number == 10:
        return "integer", natural(more, 1, "width of an integer"), more.get(2) is not False
    if number in (14, 15):
        return ("uuid",) if number == 14 else ("half",)
    if element.get(6) == 5:
        return "decimal", natural(element, 7, "scale", 0)
    return OLD_MEANINGS.get(element.get(6), ("raw",))


def to_text(values):
    try:
        return objects([value.decode() for value in values])
    except UnicodeDecodeError:
        raise ParquetError("a text is not in UTF-8") from None


def to_decimal(values, scale):
    if scale > 1000:
        raise ParquetError("decimal numbers with %d places are not read here" % scale)
    exact = decimal.Context(prec=1000)
    if values.dtype == object:
        if max(map(len, values), default=0) > 128:
            raise ParquetError("decimal numbers of more than 128 bytes are not read here")
        values = [int.from_bytes(value, "big", signed=True) for value in values]
    return objects([exact.scaleb(decimal.Decimal(int(value)), -scale) for value in values])


def to_date(values):
    if len(values) and (values.min() < FIRST_DAY or values.max() > LAST_DAY):
        raise ParquetError("a date is not in the years 1 to 9999")
    return values.astype("M8[D]").astype(object)


def to_time(values, unit):
    per_second = PER_SECOND[unit]
    if len(values) and (values.min() < 0 or values.max() >= 86400 * per_second):
        raise ParquetError("a time is not within a day")
    out = []
    for value in values.tolist():
        seconds, part = divmod(value, per_second)
        out.append(datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60,
                                 part * 10**6 // per_second))
    return objects(out)


def to_timestamp(values, unit, _):
    return values.astype(numpy.int64).view("M8[%s]" % unit)


def to_integer(values, bits, signed):
    if bits not in (8, 16, 32, 64):
        raise ParquetError("integers of %d bits are not known" % bits)
    return values.astype("%s%d" % ("i" if signed else "u", bits // 8))


def to_uuid(values):
    return objects([uuid.UUID(bytes=value) for value in values])


def to_half(values):
    return numpy.frombuffer(b"".join(values), "<f2", len(values))


CONVERTERS = {"text": to_text, "decimal": to_decimal, "date": to_date, "time": to_time,
              "timestamp": to_timestamp, "integer": to_integer, "uuid": to_uuid, "half": to_half}


def with_nulls(values, present):
    """Values where they are, and in between what pandas has for none."""
    if present is None or present.all():
        return values
    kind = values.dtype.kind
    if kind in "Ob":
        out = numpy.empty(len(present), object)
    elif kind == "M":
        out = numpy.full(len(present), "NaT", values.dtype)
    else:
        out = numpy.full(len(present), numpy.nan, values.dtype if kind == "f" else numpy.float64)
    out[present] = values
    return out


def to_nanoseconds(values):
    """Times as pandas knows them; as objects of Python where they are too far away for that."""
    unit = numpy.datetime_data(values.dtype)[0]
    if unit == "ns":
        return values
    ticks, there = values.view(numpy.int64), ~numpy.isnat(values)
    days = ticks[there] // (86400 * PER_SECOND[unit])
    if len(days) == 0 or -106750 < days.min() <= days.max() < 106750:
        return values.astype("M8[ns]")
    if days.min() < FIRST_DAY or days.max() > LAST_DAY:
        raise ParquetError("a time is not in the years 1 to 9999")
    return values.astype("M8[us]").astype(object)


# ---- columns ----

class Column:
    """A leaf of the schema that is a column of the table, or a list in one."""

    def __init__(self, name, path, number, element, above):
        self.name, self.path, self.number = name, path, number
        self.kind = natural(element, 1, "type of column '%s'" % name)
        self.width = natural(element, 2, "width", 0) if self.kind == FIXED else 0
        self.top = int(element.get(3) == OPTIONAL) + sum(above)
        self.list_level = sum(above) if above else None
        self.meaning, *self.details = meaning(element)
        if self.kind > FIXED or (self.kind == FIXED and not 0 < self.width <= PAGE_MAX):
            raise ParquetError("column '%s' has no type that is known" % name)
        wanted = {"uuid": 16, "half": 2}.get(self.meaning, self.width)
        if self.kind not in STORED_AS.get(self.meaning, ()) or self.width != wanted:
            self.meaning, self.details = "raw", ()

    def convert(self, values):
        if self.kind == INT96:
            return values.view("M8[ns]")
        if self.meaning == "raw":
            return values
        return CONVERTERS[self.meaning](values, *self.details)

    def nothing(self):
        return self.convert(read_plain(b"", self.kind, self.width, 0))


def take_levels(data, top, count, size=None):
    """How deep values are defined or repeated, and what follows. size: None if it lies in front."""
    if size is None:
        size, data = int.from_bytes(data[:4], "little"), data[4:]
    if size > len(data):
        raise ParquetError("a page ends too early")
    levels = read_runs(data[:size], top.bit_length(), count)
    if count and levels.max() > top:
        raise ParquetError("a level is deeper than the schema")
    return levels, data[size:]


def open_page(header, data, codec, column, size):
    """How many values it has, their encoding, the sizes of levels in front, and all bytes."""
    newer = header.get(1) == DATA_2
    head = field(header, 8 if newer else 5, dict, "header of a page")
    count = natural(head, 1, "number of values")
    encoding = natural(head, 4 if newer else 2, "encoding")
    sizes = [None, None]
    if newer:
        sizes = [natural(head, 6, "size of levels", 0), natural(head, 5, "size of levels", 0)]
        if sum(sizes) > min(len(data), size):
            raise ParquetError("a page ends too early")
        levels, data = data[:sum(sizes)], data[sum(sizes):]
        if head.get(7) is not False:
            data = decompress(codec, data, size - sum(sizes))
        data = bytes(levels) + bytes(data)
    else:
        levels = (3, column.top), (4, column.list_level)
        if any(head.get(number, RLE) != RLE for number, top in levels if top):
            raise ParquetError("levels in an encoding that is not known here")
        data = decompress(codec, data, size)
    return count, encoding, sizes, memoryview(data)


def read_levels(column, data, count, sizes):
    repeated = defined = None
    if column.list_level is not None:
        repeated, data = take_levels(data, 1, count, sizes[0])
    elif sizes[0]:
        data = data[sizes[0]:]
    if column.top > 0:
        defined, data = take_levels(data, column.top, count, sizes[1])
    elif sizes[1]:
        data = data[sizes[1]:]
    return repeated, defined, data


def look_up(dictionary, data, count):
    if dictionary is None:
        raise ParquetError("a page needs a dictionary that is not there")
    if not data:
        raise ParquetError("a page ends too early")
    indices = read_runs(data[1:], data[0], count)
    if indices.max() >= len(dictionary):
        raise ParquetError("a page needs a value that its dictionary does not have")
    return dictionary[indices]


class Chunk:
    """A column's part of a row group."""

    def __init__(self, column, data, meta):
        self.column, self.data, self.at = column, memoryview(data), 0
        self.codec = natural(meta, 4, "codec")
        self.count = natural(meta, 5, "number of values")
        self.dictionary = None

    def next_page(self):
        thrift = Thrift(self.data, self.at)
        header = thrift.struct()
        body = thrift.take(natural(header, 3, "size of a page"))
        self.at = thrift.at
        crc = header.get(4)
        if isinstance(crc, int) and crc & 0xffffffff != zlib.crc32(body):
            raise ParquetError("a page is damaged: its checksum is another")
        return header, body, natural(header, 2, "size of a page")

    def read_dictionary(self, header, body, size):
        head = field(header, 7, dict, "header of a page")
        count = natural(head, 1, "number of values")
        data = decompress(self.codec, body, size)
        if count > len(data) * 8:
            raise ParquetError("a dictionary has more values than bytes")
        values = read_plain(memoryview(data), self.column.kind, self.column.width, count)
        self.dictionary = self.column.convert(values)

    def read_page(self, header, body, size, left):
        column = self.column
        count, encoding, sizes, data = open_page(header, body, self.codec, column, size)
        if count > left:
            raise ParquetError("a page has more values than its column")
        repeated, defined, data = read_levels(column, data, count, sizes)
        there = count if defined is None else int(numpy.count_nonzero(defined == column.top))
        if there == 0:  # some writers leave the dictionary away then
            values = column.nothing()
        elif encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY):
            values = look_up(self.dictionary, data, there)
        else:
            values = column.convert(read_values(data, encoding, column.kind, column.width, there))
        return count, (values, defined, repeated)

    def read(self):
        """Values, levels of definition and of repetition, page by page."""
        left = self.count
        while left > 0:
            header, body, size = self.next_page()
            if header.get(1) == DICTIONARY:
                self.read_dictionary(header, body, size)
            elif header.get(1) in (DATA, DATA_2):
                count, parts = self.read_page(header, body, size, left)
                left -= count
                yield parts


def join(parts, nothing):
    parts = [part for part in parts if part is not None]
    return numpy.concatenate(parts) if parts else nothing


def make_lists(column, values, defined, repeated):
    """Rows of arrays, of None where there is no list."""
    if len(repeated) == 0:
        return numpy.empty(0, object)
    if repeated[0] != 0:
        raise ParquetError("a list does not begin")
    starts, inside = numpy.flatnonzero(repeated == 0), defined >= column.list_level
    items = with_nulls(values, defined[inside] == column.top)
    ends = numpy.cumsum(numpy.add.reduceat(inside.astype(numpy.int64), starts))
    out, start = numpy.empty(len(starts), object), 0
    absent = (defined[starts] < column.list_level - 1).tolist()
    for row, end in enumerate(ends.tolist()):
        if not absent[row]:
            out[row] = items[start:end]
        start = end
    return out


# ---- tables ----

class Refused:
    """A column that is not read; others can be."""

    def __init__(self, name):
        self.name = name


def make_columns(elements):
    """The columns of a table, from its schema: a tree, told as a list from its root on."""
    at, leaves, columns = 1, 0, []

    def take(depth):
        nonlocal at, leaves
        if at >= len(elements) or depth > DEPTH_MAX or not isinstance(elements[at], dict):
            raise ParquetError("its schema is damaged")
        element, at = elements[at], at + 1
        name = field(element, 4, bytes, "name of a column").decode("utf-8", "replace")
        below = [take(depth + 1) for _ in range(natural(element, 5, "number of columns", 0))]
        leaves += not below
        return element, name, below, leaves - 1

    def column(element, name, below, number):
        if not below and element.get(3) != REPEATED:
            return Column(name, [name], number, element, [])
        if len(below) == 1 and element.get(3) != REPEATED:
            middle, middle_name, inner, _ = below[0]
            if middle.get(3) == REPEATED and len(inner) == 1 and not inner[0][2] and \
                    inner[0][0].get(3) != REPEATED:
                path = [name, middle_name, inner[0][1]]
                above = [int(element.get(3) == OPTIONAL), 1]
                return Column(name, path, inner[0][3], inner[0][0], above)
        return Refused(name)

    if not elements or not isinstance(elements[0], dict):
        raise ParquetError("it has no schema")
    for _ in range(natural(elements[0], 5, "number of columns", 0)):
        columns.append(column(*take(0)))
    if len({column.name for column in columns}) < len(columns):
        raise ParquetError("two of its columns have the same name")
    return columns


def read_footer(file, size):
    """The metadata, and where it begins."""
    if size < 12:
        raise ParquetError("it is no Parquet file: it has %d bytes" % size)
    file.seek(size - 8)
    tail = file.read(8)
    file.seek(0)
    head = file.read(4)
    if tail[4:] == b"PARE" or head == b"PARE":
        raise ParquetError("it is encrypted, which is not read here")
    if tail[4:] != b"PAR1" or head != b"PAR1":
        raise ParquetError("it is no Parquet file, or not all of one")
    length = int.from_bytes(tail[:4], "little")
    if length > min(size - 12, FOOTER_MAX):
        raise ParquetError("its metadata has an impossible size")
    file.seek(size - 8 - length)
    return Thrift(file.read(length)).struct(), size - 8 - length


class Table:
    def __init__(self, file):
        self.file, self.size = file, file.seek(0, 2)
        self.footer, self.end = read_footer(file, self.size)
        self.columns = make_columns(field(self.footer, 2, list, "schema"))
        self.groups = field(self.footer, 4, list, "row groups", [])
        self.rows = sum(natural(group, 3, "number of rows") for group in self.groups)
        if self.rows != natural(self.footer, 3, "number of rows"):
            raise ParquetError("its numbers of rows are not the same everywhere")

    def choose(self, names):
        if names is None:
            return self.columns
        known = {column.name: column for column in self.columns}
        missing = [str(name) for name in names if name not in known]
        if missing:
            raise ParquetError("it has no column '%s'; it has %s"
                               % (missing[0], ", ".join(map(repr, list(known)[:50])) or "none"))
        return [known[name] for name in dict.fromkeys(names)]

    def chunk(self, column, group):
        chunks = field(group, 1, list, "columns")
        if column.number >= len(chunks):
            raise ParquetError("a row group has fewer columns than the schema")
        chunk = chunks[column.number]
        meta = field(chunk, 3, dict, "place of column '%s'" % column.name)
        if 1 in chunk or 8 in chunk:
            raise ParquetError("a column is encrypted, or in another file, which is not read here")
        path = [part.decode("utf-8", "replace") for part in field(meta, 3, list, "path")]
        if path != column.path or meta.get(1) != column.kind:
            raise ParquetError("a row group has other columns than the schema")
        rows, count = natural(group, 3, "number of rows"), natural(meta, 5, "number of values")
        if count < rows or (column.list_level is None and count != rows):
            raise ParquetError("its numbers of rows are not the same everywhere")
        return meta

    def check_size(self, columns):
        """Before anything is read: of a few bytes nobody is to be made a table without end."""
        cells = stored = 0
        for column in columns:
            for group in self.groups:
                meta = self.chunk(column, group)
                cells += meta[5]
                stored += natural(meta, 7, "size of a column")
        if cells > CELLS_FREE + CELLS_PER_BYTE * self.size:
            raise ParquetError("it has %d values in %d bytes, which is more than is read here"
                               % (cells, self.size))
        if stored > self.size:
            raise ParquetError("its columns are larger than the file")

    def data_of(self, meta):
        places = [natural(meta, 9, "place of a column")]
        if meta.get(11):
            places.append(natural(meta, 11, "place of a column"))
        size = min(natural(meta, 7, "size of a column") + LATE, self.end - min(places))
        self.file.seek(min(places))
        return self.file.read(max(size, 0))

    def read_column(self, column):
        values, defined, repeated = [], [], []
        for group in self.groups:
            meta = self.chunk(column, group)
            for part in Chunk(column, self.data_of(meta), meta).read():
                for parts, one in zip((values, defined, repeated), part):
                    parts.append(one)
        values = join(values, column.nothing())
        none = numpy.empty(0, numpy.uint8)
        if column.list_level is not None:
            out = make_lists(column, values, join(defined, none), join(repeated, none))
        else:
            out = with_nulls(values, join(defined, none) == column.top if column.top else None)
        if len(out) != self.rows:
            raise ParquetError("it has another number of rows than it says")
        return to_nanoseconds(out) if out.dtype.kind == "M" else out

    def read(self, names):
        """The chosen columns by name, and which of them have times in UTC."""
        columns, found, zoned = self.choose(names), {}, []
        for column in columns:
            if isinstance(column, Refused):
                raise ParquetError(
                    "column '%s' is nested (a structure, a map, or lists of lists), which is not "
                    "read here: choose others by columns=[...], or install pyarrow" % column.name)
        self.check_size(columns)
        for column in columns:
            try:
                found[column.name] = self.read_column(column)
            except ParquetError as error:
                raise ParquetError("column '%s': %s" % (column.name, error)) from None
            if column.meaning == "timestamp" and column.details[1] and column.list_level is None:
                zoned.append(column.name)
        return found, zoned

    def index(self):
        """What pandas left in the file about the index: names of columns, or ranges."""
        for item in self.footer.get(5) or ():
            if isinstance(item, dict) and item.get(1) == b"pandas":
                try:
                    found = json.loads(item.get(2) or "")["index_columns"]
                    return found if isinstance(found, list) else []
                except (LookupError, RecursionError, TypeError, ValueError):
                    return []
        return []


def set_index(frame, index):
    import pandas
    names = [name for name in index if isinstance(name, str) and name in frame.columns]
    if names:
        frame = frame.set_index(names)
        frame.index.names = [None if name.startswith("__index_level_") else name for name in names]
        return frame
    for item in index:
        if isinstance(item, dict) and item.get("kind") == "range":
            parts = [item.get(part) for part in ("start", "stop", "step")]
            if all(type(part) is int and abs(part) < 1 << 62 for part in parts) and parts[2] and \
                    len(range(*parts)) == len(frame):
                frame.index = pandas.RangeIndex(*parts, name=item.get("name"))
    return frame


def make_frame(file, names):
    import pandas
    table = Table(file)
    index = table.index()
    if names is not None:
        names = list(names) + [column.name for column in table.columns if column.name in index]
    found, zoned = table.read(names)
    for name in zoned:
        if found[name].dtype == object:
            found[name] = objects([value and value.replace(tzinfo=datetime.timezone.utc)
                                   for value in found[name]])
        else:
            found[name] = pandas.Series(found[name]).dt.tz_localize("UTC")
    frame = pandas.DataFrame(found, index=pandas.RangeIndex(table.rows))
    return set_index(frame, index)


def read_file(path, columns):
    def read(file, name):
        try:
            return make_frame(file, columns)
        except ParquetError as error:
            raise ParquetError("%s: %s" % (name, error)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ParquetError("%s: it is damaged (%s)" % (name, error)) from error

    if hasattr(path, "read"):
        return read(path, getattr(path, "name", "the file"))
    with open(os.path.expanduser(path), "rb") as file:
        return read(file, os.fspath(path))


def read_folder(path, columns):
    """A table in parts, as Spark and others write them."""
    import pandas
    names = sorted(name for name in os.listdir(path) if name[:1] not in "._")
    if not names or any("=" in name for name in names):
        raise ParquetError("%s: it is a folder without Parquet files, or with one for each value of "
                           "a column, which is not read here: read its files one by one" % path)
    parts = [read_file(os.path.join(path, name), columns) for name in names]
    return pandas.concat(parts, ignore_index=True)


class Engine:
    """What pandas.io.parquet calls. missing: its error without us."""

    def __init__(self, missing):
        self.missing = missing

    def read(self, path, columns=None, **options):
        for name, value in options.items():
            if value not in (None, False) and getattr(value, "name", "") != "no_default":
                raise ParquetError("%s= is not known here: install pyarrow" % name)
        if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
            return read_folder(os.fspath(path), columns)
        return read_file(path, columns)

    def write(self, *_, **__):
        raise self.missing.with_traceback(None)
