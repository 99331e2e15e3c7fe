"""What reads Parquet for pandas in the image cay/data (images/data/cay_parquet): files by Arrow's writer and another, and
files that are not what they say."""

import datetime as dt
import io
import json
import random
import resource
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path

import pytest
from parquets import dictionary, page, parquet, thrift, varint, zigzag
from support import ROOT, is_sanitized

if is_sanitized():
    pytest.skip("nothing of what was built is in it", allow_module_level=True)
pytest.importorskip("pandas", reason="pandas is not installed: apt-get install python3-pandas")
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

sys.path.insert(0, str(ROOT / "images/data"))
from cay_parquet.tables import Engine  # noqa: E402
from cay_parquet.values import ParquetError  # noqa: E402

FILES = Path(__file__).parent / "parquet"  # made by make.mjs there
N = 100
DAY = dt.timedelta(days=1)
EPOCH = dt.datetime(1970, 1, 1)
MUTATIONS = 600


def read(source, **options):
    if isinstance(source, bytes):
        source = io.BytesIO(source)
    return Engine(ImportError("nothing else")).read(source, **options)


def refuses(source, *parts, **options):
    with pytest.raises(ParquetError) as caught:
        read(source, **options)
    for part in parts:
        assert part in str(caught.value)


# ---- what writers write ----

def maybe(value, none=None):
    return [none if i % 7 == 3 else value(i) for i in range(N)]


def floats(value, kind="float64"):
    return np.array(maybe(value, np.nan), kind)


def times(value):
    return pd.to_datetime(pd.Series(maybe(value, pd.NaT)))


def clock(microseconds):
    return (EPOCH + dt.timedelta(microseconds=microseconds)).time()


def objects(values):
    return pd.Series(values, dtype=object)


COLUMNS = {
    "bool": lambda: objects(maybe(lambda i: i % 3 == 0)),
    "i8": lambda: floats(lambda i: i % 256 - 100),
    "i16": lambda: floats(lambda i: i * 100 - 15000),
    "i32": lambda: floats(lambda i: (i - 100) * 1000003),
    "i64": lambda: floats(lambda i: (i - 100) * 1000000007 * 1000003),
    "u8": lambda: floats(lambda i: 255 - i),
    "u16": lambda: floats(lambda i: 65535 - i),
    "u32": lambda: floats(lambda i: 4294967295 - i),
    "f16": lambda: floats(lambda i: 1 + i / 1024, "float16"),
    "f32": lambda: floats(lambda i: i / 8 - 3, "float32"),
    "f64": lambda: floats(lambda i: 1 / (i + 1)),
    "u64_all": lambda: np.array([(1 << 64) - 1 - i for i in range(N)], "uint64"),
    "i64_all": lambda: np.array([i * 7919 % 1009 for i in range(N)], "int64"),
    "bool_all": lambda: np.array([i % 5 < 2 for i in range(N)]),
    "text": lambda: objects(maybe(lambda i: f"row {i % 10} ☃é")),
    "text_all": lambda: objects([f"{'x' * (i % 4)}-{i}" for i in range(N)]),
    "bytes": lambda: objects(maybe(lambda i: bytes([i, 0, 255]))),
    "fixed": lambda: objects(maybe(lambda i: bytes([1, 2, i, 4, 5]))),
    "date": lambda: objects(maybe(lambda i: (EPOCH + (i - 20) * 400 * DAY).date())),
    "time_ms": lambda: objects(maybe(lambda i: clock(i * 431999000))),
    "time_us": lambda: objects(maybe(lambda i: clock(i * 431999001))),
    "time_ns": lambda: objects(maybe(lambda i: clock(i * 431999001))),
    "ts_ms": lambda: times(lambda i: EPOCH + (i - 100) * DAY + dt.timedelta(milliseconds=1)),
    "ts_us": lambda: times(lambda i: EPOCH + i * DAY + dt.timedelta(microseconds=1)),
    "ts_ns": lambda: times(lambda i: pd.Timestamp(i * 86400 * 10**9 + 1)),
    "ts_utc": lambda: times(lambda i: EPOCH + i * DAY).dt.tz_localize("UTC"),
    "ts_far": lambda: objects(maybe(lambda i: EPOCH + i * 10000 * DAY)),
    "dec_9": lambda: objects(maybe(lambda i: Decimal(i * 1001 - 50000).scaleb(-2))),
    "dec_18": lambda: objects(maybe(lambda i: Decimal((i - 7) * 10000000019).scaleb(-4))),
    "dec_38": lambda: objects(maybe(lambda i: Decimal(f"{(i - 7) * 10**35 + 1}e-10"))),
    "category": lambda: objects(maybe(lambda i: "abc"[i % 3])),
}


def same(found, expected):
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected), check_exact=True)


@pytest.mark.parametrize("name, columns", [
    ("snappy", list(COLUMNS)),  # Arrow's usual way: dictionaries
    ("plain", list(COLUMNS)),   # two row groups of several pages
    ("pages2", list(COLUMNS)),  # data pages of the second kind, gzip
    ("delta", ["i32", "i64", "u32", "i64_all", "u64_all", "ts_us", "date"]),
    ("delta_length", ["text", "text_all", "bytes"]),                     # zstd
    ("delta_bytes", ["text", "text_all", "bytes", "fixed", "dec_38"]),
    ("split", ["i32", "i64", "f32", "f64", "f16", "fixed"]),             # lz4
    ("runs", ["bool", "bool_all"])])                                     # brotli
def test_files_of_arrow(name, columns):
    path = FILES / f"{name}.parquet"
    try:
        found = read(path)
    except ParquetError as error:
        if "which is not here" in str(error):
            pytest.skip(str(error))
        raise
    same(found, {column: COLUMNS[column]() for column in columns})
    assert found["category"].iloc[4] == "b" if "category" in found else True
    for column in columns[:3]:
        same(read(str(path), columns=[column]), {column: COLUMNS[column]()})


@pytest.mark.parametrize("name", ["lists", "lists2"])
def test_lists(name):
    path = FILES / f"{name}.parquet"
    found = read(path, columns=["words", "plain", "ints"])
    assert list(found.columns) == ["words", "plain", "ints"]
    lists = [None if row is None else [None if item != item else item for item in row] for row in found["ints"]]
    assert lists == maybe(lambda i: [None if k == 2 else i + k for k in range(i % 4)])
    assert [None if row is None else list(row) for row in found["words"]] == \
        maybe(lambda i: [f"w{i + k}" for k in range(i % 3)])
    assert found["plain"].tolist() == list(range(N))
    refuses(path, f"{name}.parquet: column 'nested' is nested", "columns=[...]")


def test_another_writer():
    found = read(FILES / "hyparquet.parquet")
    same(found, {
        "uuid": objects([uuid.UUID(f"00000000-0000-4000-8000-{i:012x}") for i in range(N)]),
        "json": objects([json.dumps({"a": i}, separators=(",", ":")) for i in range(N)]),
        "half": np.arange(N, dtype="float16") / np.float16(4),
        "when": pd.Series([EPOCH + i * DAY for i in range(N)]),
        "split": np.arange(N) / 3,
        "delta": np.arange(N) ** 2 - 77,
        "shared": objects([f"common-{i >> 3}-{i}" for i in range(N)]),
        "few": objects([None if i % 50 == 0 else ("red", "green")[i % 2] for i in range(N)]),
        "none": np.full(N, np.nan)})


# ---- what they seldom write ----

def test_times_of_96_bits():
    day = 2440588 + 20000
    data = b"".join((i * 10**9 + 7).to_bytes(8, "little") + (day + i).to_bytes(4, "little") for i in range(3))
    same(read(parquet(3, page(data, 3), 3)),
         {"a": pd.Series([pd.Timestamp((20000 + i) * 86400 * 10**9 + i * 10**9 + 7) for i in range(3)])})


def test_the_older_words_for_types():
    def column(kind, data, converted):
        return read(parquet(kind, page(data, 2), 2, element={6: converted}))["a"]
    assert column(6, b"\1\0\0\0a\2\0\0\0bc", 0).tolist() == ["a", "bc"]
    assert column(1, b"\1\0\0\0\2\0\0\0", 6).tolist() == [dt.date(1970, 1, 2), dt.date(1970, 1, 3)]
    assert column(1, b"\xff\0\0\0\x80\0\0\0", 15).tolist() == [-1, -128]
    assert column(1, b"\xff" * 8, 13).tolist() == [2**32 - 1] * 2
    when = column(2, (1000).to_bytes(8, "little") * 2, 9)
    assert when.dt.tz is None and when.tolist() == [pd.Timestamp(10**9)] * 2


@pytest.mark.parametrize("kind, data, numbers", [
    (1, b"\x9c\xff\xff\xff\x05\0\0\0", ["-1.00", "0.05"]),
    (6, b"\1\0\0\0\xff\2\0\0\0\1\0", ["-0.01", "2.56"])])
def test_decimal_numbers(kind, data, numbers):
    found = read(parquet(kind, page(data, 2), 2, element={6: 5, 7: 2, 8: 9}))["a"]
    assert found.tolist() == [Decimal(number) for number in numbers]


def test_what_pandas_says_of_an_index():
    def indexed(index):
        notes = json.dumps({"index_columns": index}).encode()
        return read(parquet(2, page(bytes(range(24)), 3), 3, footer={5: [{1: b"pandas", 2: notes}]}))
    assert indexed([{"kind": "range", "start": 5, "stop": 11, "step": 2}]).index.tolist() == [5, 7, 9]
    assert indexed([{"kind": "range", "start": 0, "stop": 9, "step": 0}]).index.tolist() == [0, 1, 2]
    assert indexed(["a"]).index.name == "a"
    assert list(indexed(7).columns) == ["a"]


def test_a_folder_of_parts(tmp_path):
    for number in range(3):
        (tmp_path / f"part-{number}.parquet").write_bytes(parquet(2, page(number.to_bytes(8, "little"), 1), 1))
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path)["a"].tolist() == [0, 1, 2]
    (tmp_path / "year=2026").mkdir()
    refuses(tmp_path, "one for each value of a column")


def test_tables_of_nothing():
    assert read(parquet(2, b"", 0))["a"].dtype == "int64"
    assert read(parquet(6, b"", 0, element={6: 0})).shape == (0, 1)


@pytest.mark.parametrize("encoding", [0, 8, 5], ids=["plain", "dictionary", "deltas"])
@pytest.mark.parametrize("kind, element", [
    (0, {}), (1, {}), (2, {}), (3, {}), (4, {}), (5, {}), (6, {}), (6, {6: 0}), (1, {6: 6}), (2, {6: 8}), (2, {6: 10}),
    (2, {6: 5, 7: 2}), (2, {6: 14}), (7, {2: 5}), (7, {2: 16, 10: {14: {}}}), (7, {2: 2, 10: {15: {}}})],
    ids=lambda value: str(value).replace(" ", ""))
def test_columns_of_nothing_but_nulls(kind, element, encoding):
    """Some writers leave even the dictionary away, to which the page refers."""
    levels = varint(3 << 1) + b"\0"
    data = page(len(levels).to_bytes(4, "little") + levels, 3, encoding=encoding)
    assert read(parquet(kind, data, 3, element={3: 1, **element}))["a"].isna().tolist() == [True] * 3


# ---- what is asked of it ----

def test_columns_that_are_not_there():
    refuses(FILES / "runs.parquet", "it has no column 'x'", "'bool', 'bool_all'", columns=["x"])


def test_what_it_does_not_do(tmp_path):
    refuses(FILES / "plain.parquet", "filters= is not known here", filters=[("i8", ">", 1)])
    assert len(read(FILES / "plain.parquet", storage_options=None, use_nullable_dtypes=False)) == N
    with pytest.raises(ImportError, match="nothing else"):
        Engine(ImportError("nothing else")).write(None, tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.parquet")


def test_a_library_that_is_missing(monkeypatch):
    def missing(name):
        raise OSError
    monkeypatch.setattr("ctypes.CDLL", missing)
    refuses(FILES / "delta_length.parquet", "libzstd.so.1, which is not here", "install pyarrow")
    assert len(read(FILES / "snappy.parquet")) == N  # ours


# ---- files that lie ----

ONE = page(bytes(8), 1)
MANY = 1 << 40


def squeezed(body, size):
    """A page that snappy made smaller, or so it says."""
    return parquet(6, page(varint(size) + body, 1, size=size), 1, codec=1)


@pytest.mark.parametrize("data, why", [
    (b"", "it has 0 bytes"),
    (b"a,b\n1,2\n3,4\n5,6\n", "it is no Parquet file"),
    (b"PAR1" + bytes(20) + b"PARE", "encrypted"),
    (b"PAR1" + b"\xff" * 4 + b"PAR1", "impossible size"),
    (b"PAR1\x19\xfc\xff\xff\xff\x7f\x06\0\0\0PAR1", "too long or too deep"),
    (b"PAR1" + b"\x1c" * 60 + b"\x3c\0\0\0PAR1", "too deep"),
    (b"PAR1" + b"\x19\x19" * 30 + b"\x3c\0\0\0PAR1", "too deep"),
    (parquet(2, ONE, 1)[:-20] + b"PAR1", "impossible size"),
    (parquet(2, ONE, MANY), f"it has {MANY} values in"),
    (parquet(2, ONE, 1, rows=2), "not the same everywhere"),
    (parquet(2, ONE, 1, footer={3: 7}), "not the same everywhere"),
    (parquet(2, ONE, 1, footer={3: -1}), "negative"),
    (parquet(2, ONE, 2), "ends too early"),
    (parquet(2, page(bytes(8), 2), 2), "ends too early"),
    (parquet(2, page(bytes(8), MANY), 1), "more values than its column"),
    (parquet(2, page(bytes(8), 1, size=MANY), 1, codec=2), "more than 256 MB"),
    (parquet(2, page(bytes(8), 1, size=9), 1), "another size"),
    (parquet(2, ONE, 1, codec=3), "LZO"),
    (parquet(2, ONE, 1, codec=77), "codec 77"),
    (parquet(2, page(bytes(8), 1, encoding=4), 1), "encoding 4"),
    (parquet(2, page(bytes(8), 1, encoding=8), 1), "a dictionary that is not there"),
    (parquet(2, dictionary(bytes(8), MANY) + ONE, 1), "more values than bytes"),
    (parquet(2, dictionary(bytes(8), 1) + page(b"\x08\x02\x01", 1, encoding=8), 1), "does not have"),
    (parquet(2, dictionary(bytes(8), 1) + page(b"\xff\x02\x01", 1, encoding=8), 1), "no indices"),
    (parquet(6, page(b"\xff\xff\xff\x7fab", 1), 1), "ends too early"),
    (parquet(6, page(b"\1\0\0\0\xff", 1), 1, element={6: 0}), "not in UTF-8"),
    (parquet(7, page(b"", 1), 1, element={2: 0}), "no type that is known"),
    (parquet(1, page(b"\xff\xff\xff\x7f", 1), 1, element={6: 6}), "years 1 to 9999"),
    (parquet(1, page(b"\xff\xff\xff\xff", 1), 1, element={6: 7}), "within a day"),
    (parquet(2, ONE, 1, chunk={8: {1: {}}}), "encrypted"),
    (parquet(2, ONE, 1, chunk={1: b"/etc/passwd"}), "in another file"),
    (parquet(2, ONE, 1, footer={2: [{4: b"s", 5: 2}, {1: 2, 3: 0, 4: b"a"}, {1: 2, 3: 0, 4: b"a"}]}), "the same name"),
    (parquet(2, ONE, 1, footer={2: [{4: b"s", 5: MANY}]}), "schema is damaged"),
    (squeezed(b"\xfe\xff\xff\xff\x05", 1 << 20), "snappy"),
    (squeezed(b"\x00a\xff\x02\x00\x00\x00", 64), "snappy"),
    (squeezed(b"\x00a\x01\x00", 5), "snappy"),
    (parquet(2, page(varint(0) + varint(0) + varint(1) + b"\0", 1, encoding=5), 1), "impossible shape"),
    (parquet(2, page(varint(128) + varint(4) + varint(MANY) + b"\0", 1, encoding=5), 1), "impossible shape"),
    (parquet(2, page(varint(128) + varint(4) + varint(2) + b"\0\0\x41\0\0\0", 2, encoding=5), 2), "impossible shape"),
])
def test_files_that_lie(data, why):
    refuses(data, why)


def deltas(numbers):
    """All of them in one part of a block, 32 bits each."""
    steps = [b - a for a, b in zip(numbers, numbers[1:])]
    each, least = -(-len(steps) // 32) * 32, min(steps)
    packed = b"".join((step - least).to_bytes(4, "little") for step in steps) + bytes(4 * (each - len(steps)))
    return varint(each) + varint(1) + varint(len(numbers)) + zigzag(numbers[0]) + zigzag(least) + b"\x20" + packed


def test_strings_that_share_what_they_begin_with():
    """A page of some KB that would be gigabytes."""
    def shared(count):
        begins = deltas([0] + [1 << 16] * (count - 1)) + deltas([1 << 16] + [0] * (count - 1))
        return parquet(6, page(begins + bytes(1 << 16), count, encoding=7), count)
    assert read(shared(3))["a"].map(len).tolist() == [1 << 16] * 3
    refuses(shared(40000), "too long together")


def test_a_checksum():
    good = thrift({1: 0, 2: 8, 3: 8, 4: 0x6522DF69, 5: {1: 1, 2: 0, 3: 3, 4: 3}}) + bytes(8)
    assert read(parquet(2, good, 1))["a"].tolist() == [0]
    refuses(parquet(2, good[:-1] + b"\1", 1), "its checksum is another")


# ---- files that are damaged ----

def mutated(data, draw):
    data, footer = bytearray(data), int.from_bytes(data[-8:-4], "little")
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        first = len(data) - 8 - footer if draw.random() < .5 else 0
        at = draw.randrange(max(first, 0), len(data))
        way = draw.randrange(5)
        if way < 2:
            data[at] = draw.randrange(256)
        elif way == 2:
            data[at:at + draw.randrange(1, 9)] = bytes([draw.choice((0, 127, 128, 255))]) * draw.randrange(1, 9)
        elif way == 3:
            del data[at:at + draw.randrange(1, 20)]
        else:
            data[at] ^= 1 << draw.randrange(8)
    return bytes(data)


def try_mutations():
    """In a process of its own, with little memory."""
    files, draw, read_ones = [path.read_bytes() for path in sorted(FILES.glob("*.parquet"))], random.Random(6), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(MUTATIONS):
        try:
            read(mutated(files[number % len(files)], draw), columns=["ints", "plain"] if number % 9 == 0 else None)
            read_ones += 1
        except ParquetError:
            pass
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"read": read_ones, "more_kb": more}))


def test_damaged_files_are_read_or_refused():
    done = subprocess.run([sys.executable, __file__], capture_output=True, timeout=120, text=True,
                          env={"PYTHONPATH": ":".join(sys.path)},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["read"] > 0 and told["more_kb"] < 200 << 10, told


if __name__ == "__main__":
    try_mutations()
