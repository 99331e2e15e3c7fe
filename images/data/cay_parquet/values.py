"""Reads Parquet: from bytes to values. What they mean, and tables, are in tables.py.

A file is hostile: each length is checked against what there is before it is used, and what a file
may become in memory is bounded by its size. Names and numbers are those of parquet.thrift."""

import zlib

import numpy

FOOTER_MAX, PAGE_MAX = 32 << 20, 256 << 20
DEPTH_MAX = 16
TEXT_FREE, TEXT_PER_BYTE = 16 << 20, 1000  # of the strings of a page, where they share parts
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
PLAIN, PLAIN_DICTIONARY, RLE, DELTA, DELTA_LENGTH, DELTA_BYTES, RLE_DICTIONARY, SPLIT = \
    0, 2, 3, 5, 6, 7, 8, 9
NUMBERS = {INT32: numpy.dtype("<i4"), INT64: numpy.dtype("<i8"), FLOAT: numpy.dtype("<f4"),
           DOUBLE: numpy.dtype("<f8")}


class ParquetError(ValueError):
    """A file that cannot be read, and why."""


# ---- metadata: Thrift's compact protocol ----

class Thrift:
    """Structs become dictionaries, by the numbers of their fields."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, count):
        if count > len(self.data) - self.at:
            raise ParquetError("the metadata ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value, self.at = varint(self.data, self.at)
        return value

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind, depth):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return int.from_bytes(self.take(1), "little", signed=True)
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            return self.take(8)
        if kind == 8:
            return self.take(self.varint())
        if kind in (9, 10):
            return self.items(depth)
        if kind == 12:
            return self.struct(depth + 1)
        raise ParquetError("the metadata has a value of unknown kind %d" % kind)

    def items(self, depth):
        head = self.take(1)[0]
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self.varint()
        if count > len(self.data) - self.at or depth > DEPTH_MAX:
            raise ParquetError("the metadata has a list that is too long or too deep")
        if kind in (1, 2):
            return [byte == 1 for byte in self.take(count)]
        return [self.value(kind, depth + 1) for _ in range(count)]

    def struct(self, depth=0):
        if depth > DEPTH_MAX:
            raise ParquetError("the metadata is too deep")
        fields, number = {}, 0
        while True:
            head = self.take(1)[0]
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields[number] = self.value(head & 15, depth)


def varint(data, at):
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ParquetError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise ParquetError("a number is too long")


def field(struct, number, kind, what, default=None):
    value = struct.get(number, default)
    if not isinstance(value, kind):
        raise ParquetError("the metadata has no %s" % what)
    return value


def natural(struct, number, what, default=None):
    value = field(struct, number, int, what, default)
    if value < 0:
        raise ParquetError("%s is negative" % what)
    return value


# ---- compression ----

def snappy(data, size):
    told, at = varint(data, 0)
    if told != size:
        raise ParquetError("a page has another size than its header says")
    out, end = bytearray(), len(data)
    while at < end:
        tag = data[at]
        kind = tag & 3
        if kind == 0:
            length, at = tag >> 2, at + 1
            if length >= 60:
                more = length - 59
                length, at = int.from_bytes(data[at:at + more], "little"), at + more
            at += length + 1
            if at > end or len(out) + length >= size:
                break
            out += data[at - length - 1:at]
            continue
        more = (0, 1, 2, 4)[kind]
        offset = int.from_bytes(data[at + 1:at + 1 + more], "little")
        length = (tag >> 2) + 1
        if kind == 1:
            length, offset = (tag >> 2 & 7) + 4, offset | tag >> 5 << 8
        at += 1 + more
        start = len(out) - offset
        if at > end or offset == 0 or start < 0 or len(out) + length > size:
            break
        piece = out[start:start + length]
        out += piece if offset >= length else (piece * (length // offset + 1))[:length]
    else:
        if len(out) == size:
            return bytes(out)
    raise ParquetError("a page is damaged: it cannot be decompressed by snappy")


def gunzip(data, size):
    parts, left = [], size
    while data and left > 0:
        stream = zlib.decompressobj(47)
        try:
            parts.append(stream.decompress(data, left + 1))  # 0 would be without a limit
        except zlib.error as error:
            raise ParquetError("a page is damaged: %s" % error) from None
        left -= len(parts[-1])
        if not stream.eof and left > 0:
            raise ParquetError("a page is damaged: it is cut off")
        data = stream.unused_data
    return b"".join(parts)


def library(name):
    import ctypes
    try:
        return ctypes.CDLL(name), ctypes
    except OSError:
        raise ParquetError(
            "it is compressed in a way that needs %s, which is not here: use an image that has it, "
            "install pyarrow, or write it with snappy, gzip or no compression" % name) from None


def unzstd(data, size):
    zstd, ctypes = library("libzstd.so.1")
    out = ctypes.create_string_buffer(size + 1)
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    done = zstd.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    return ctypes.string_at(out, done) if done == size else b""


def unlz4(data, size):
    lz4, ctypes = library("liblz4.so.1")
    out = ctypes.create_string_buffer(size + 1)
    done = lz4.LZ4_decompress_safe(data, out, len(data), size)
    return ctypes.string_at(out, done) if done == size else b""


def unbrotli(data, size):
    brotli, ctypes = library("libbrotlidec.so.1")
    out, done = ctypes.create_string_buffer(size + 1), ctypes.c_size_t(size)
    fine = brotli.BrotliDecoderDecompress(ctypes.c_size_t(len(data)), data, ctypes.byref(done), out)
    return ctypes.string_at(out, size) if fine == 1 and done.value == size else b""


CODECS = {1: snappy, 2: gunzip, 4: unbrotli, 6: unzstd, 7: unlz4}
OTHER_CODECS = {3: "LZO", 5: "the LZ4 of Hadoop"}


def decompress(codec, data, size):
    if size > PAGE_MAX:
        raise ParquetError("a page has more than %d MB" % (PAGE_MAX >> 20))
    if codec != 0:
        if codec not in CODECS:
            raise ParquetError("it is compressed by %s, which is not known here: write it with "
                               "snappy, gzip or zstd"
                               % OTHER_CODECS.get(codec, "codec %d" % codec))
        data = CODECS[codec](bytes(data), size) if size > 0 else b""
    if len(data) != size:
        raise ParquetError("a page is damaged: it has another size than its header says")
    return data


# ---- encodings ----

def unpack(data, width, count):
    """Numbers of so many bits, the lowest first."""
    if width == 0:
        return numpy.zeros(count, numpy.uint8)
    size = (count * width + 7) // 8
    if size > len(data):
        raise ParquetError("a page ends too early")
    bits = numpy.unpackbits(numpy.frombuffer(data, numpy.uint8, size), bitorder="little")
    wide = next(wide for wide in (8, 16, 32, 64) if wide >= width)
    padded = numpy.zeros((count, wide), numpy.uint8)
    padded[:, :width] = bits[:count * width].reshape(count, width)
    packed = numpy.packbits(padded, axis=1, bitorder="little")
    return packed.view("<u%d" % (wide // 8)).reshape(count)


def read_runs(data, width, count):
    """Runs of one value, and packed ones, in any order."""
    if width > 32:
        raise ParquetError("numbers of %d bits are no indices" % width)
    out = numpy.empty(count, numpy.uint8 if width <= 8 else numpy.uint32)
    at = done = 0
    while done < count:
        head, at = varint(data, at)
        if head & 1:
            length = min((head >> 1) * 8, count - done)
            out[done:done + length] = unpack(data[at:], width, length)
            at += (head >> 1) * width
        else:
            length, size = min(head >> 1, count - done), (width + 7) // 8
            if size > len(data) - at:
                raise ParquetError("a page ends too early")
            value = int.from_bytes(data[at:at + size], "little")
            if value >> width:
                raise ParquetError("a number has more than its %d bits" % width)
            out[done:done + length] = value
            at += size
        done += length
    return out


def read_deltas(data, count):
    """Differences, packed in blocks; and where they end."""
    block, at = varint(data, 0)
    minis, at = varint(data, at)
    total, at = varint(data, at)
    first, at = varint(data, at)
    if total > count or minis == 0 or block % minis or (block // minis) % 8:
        raise ParquetError("a page has differences of an impossible shape")
    each = block // minis
    out = numpy.empty(total, numpy.uint64)
    out[:1] = (first >> 1) ^ (-(first & 1) & (1 << 64) - 1)
    done = 1
    while done < total:
        least, at = varint(data, at)
        least = numpy.uint64((least >> 1) ^ (-(least & 1) & (1 << 64) - 1))
        widths, at = data[at:at + minis], at + minis
        for width in widths:
            length = min(each, total - done)
            if length <= 0:
                break
            if width > 64:
                raise ParquetError("a page has differences of an impossible shape")
            out[done:done + length] = unpack(data[at:], width, length)
            out[done:done + length] += least
            done, at = done + length, at + each * width // 8
        if len(widths) < minis:
            raise ParquetError("a page ends too early")
    return numpy.cumsum(out, dtype=numpy.uint64).view(numpy.int64), min(at, len(data))


def read_all_deltas(data, count):
    values, at = read_deltas(data, count)
    if len(values) != count:
        raise ParquetError("a page has fewer values than its header says")
    return values, data[at:]


def cut(data, lengths):
    """Strings that lie one behind the other."""
    ends = numpy.cumsum(lengths)
    if len(lengths) and (lengths.min() < 0 or lengths.max() > len(data) or ends[-1] > len(data)):
        raise ParquetError("a page ends too early")
    data, start, out = bytes(data), 0, []
    for end in ends.tolist():
        out.append(data[start:end])
        start = end
    return out


def read_shared(data, count):
    """Strings, each of which begins as the one before."""
    prefixes, rest = read_all_deltas(data, count)
    lengths, rest = read_all_deltas(rest, count)
    last, out, most = b"", [], min(PAGE_MAX, TEXT_FREE + TEXT_PER_BYTE * len(data))
    if count and (prefixes.min() < 0 or prefixes.max() > most or prefixes.sum() > most):
        raise ParquetError("a page has strings that are too long together")
    for prefix, suffix in zip(prefixes.tolist(), cut(rest, lengths)):
        if prefix > len(last):
            raise ParquetError("a page has strings of an impossible shape")
        last = last[:prefix] + suffix
        out.append(last)
    return out


def read_strings(data, count):
    data, at, out = bytes(data), 0, []
    for _ in range(count):
        start = at + 4
        at = start + int.from_bytes(data[at:start], "little")
        if at > len(data) or start > len(data):
            raise ParquetError("a page ends too early")
        out.append(data[start:at])
    return out


def objects(values):
    out = numpy.empty(len(values), object)
    out[:] = values
    return out


def read_plain(data, kind, width, count):
    if kind == BOOLEAN:
        return unpack(data, 1, count).astype(bool)
    if kind == BYTE_ARRAY:
        return objects(read_strings(data, count))
    size = {INT96: 12, FIXED: width}.get(kind) or NUMBERS[kind].itemsize
    if count * size > len(data):
        raise ParquetError("a page ends too early")
    if kind in NUMBERS:
        return numpy.frombuffer(data, NUMBERS[kind], count)
    if kind == INT96:
        parts = numpy.frombuffer(data, numpy.dtype([("ns", "<i8"), ("day", "<i4")]), count)
        return (parts["day"].astype(numpy.int64) - 2440588) * 86_400_000_000_000 + parts["ns"]
    data = bytes(data)
    return objects([data[at:at + size] for at in range(0, count * size, size)])


def read_split(data, kind, width, count):
    """The first bytes of all numbers, then their second ones, and so on."""
    size = width if kind == FIXED else NUMBERS[kind].itemsize if kind in NUMBERS else 0
    if size == 0 or count * size > len(data):
        raise ParquetError("a page ends too early")
    bytes_of = numpy.frombuffer(data, numpy.uint8, count * size).reshape(size, count)
    return read_plain(bytes_of.T.tobytes(), kind, width, count)


def read_values(data, encoding, kind, width, count):
    if encoding == PLAIN:
        return read_plain(data, kind, width, count)
    if encoding == RLE and kind == BOOLEAN:
        return read_runs(data[4:], 1, count).astype(bool)
    if encoding == DELTA and kind in (INT32, INT64):
        return read_all_deltas(data, count)[0].astype(NUMBERS[kind])
    if encoding == DELTA_LENGTH and kind == BYTE_ARRAY:
        lengths, rest = read_all_deltas(data, count)
        return objects(cut(rest, lengths))
    if encoding == DELTA_BYTES and kind in (BYTE_ARRAY, FIXED):
        return objects(read_shared(data, count))
    if encoding == SPLIT:
        return read_split(data, kind, width, count)
    raise ParquetError("encoding %s of type %s is not known here" % (encoding, kind))
