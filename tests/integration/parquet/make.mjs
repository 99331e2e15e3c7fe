// Makes the Parquet files of this folder, by writers that are not ours: Apache Arrow's (in Rust, as
// parquet-wasm) and hyparquet-writer. To make them again, in an empty folder:
//   npm install parquet-wasm@0.8.0 apache-arrow@21.2.0 hyparquet-writer@0.16.10
//   cp CAY/tests/integration/parquet/make.mjs . && node make.mjs CAY
// What is in them is told a second time, by test_parquet.py.
import fs from 'node:fs'
import * as arrow from 'apache-arrow'
import * as wasm from 'parquet-wasm/node'
import { parquetWriteBuffer } from 'hyparquet-writer'

const folder = `${process.argv[2]}/tests/integration/parquet`
const N = 100
const rows = [...Array(N).keys()]
const DAY = 86400000n

// ---- columns: some with nulls in every seventh row ----

const bitmap = new Uint8Array(Math.ceil(N / 8))
rows.filter((i) => i % 7 !== 3).forEach((i) => (bitmap[i >> 3] |= 1 << (i & 7)))
const nulls = { nullBitmap: bitmap, nullCount: rows.filter((i) => i % 7 === 3).length }

function numbers(type, Kind, value, more = nulls) {
  return arrow.makeVector(arrow.makeData({ type, length: N, data: Kind.from(rows, value), ...more }))
}

const maybe = (value) => rows.map((i) => (i % 7 === 3 ? null : value(i)))
const all = (value) => rows.map(value)
const B = BigInt

// The parts of 128 bits, the lowest first.
function decimals(precision, scale, value) {
  const data = new Uint32Array(4 * N)
  rows.forEach((i) => [0, 1, 2, 3].forEach((k) => (data[4 * i + k] = Number((value(i) >> B(32 * k)) & 0xffffffffn))))
  return arrow.makeVector(arrow.makeData({ type: new arrow.Decimal(scale, precision), length: N, data, ...nulls }))
}

const columns = {
  bool: arrow.vectorFromArray(maybe((i) => i % 3 === 0), new arrow.Bool()),
  i8: numbers(new arrow.Int8(), Int8Array, (i) => (i % 256) - 100),
  i16: numbers(new arrow.Int16(), Int16Array, (i) => i * 100 - 15000),
  i32: numbers(new arrow.Int32(), Int32Array, (i) => (i - 100) * 1000003),
  i64: numbers(new arrow.Int64(), BigInt64Array, (i) => B(i - 100) * 1000000007n * 1000003n),
  u8: numbers(new arrow.Uint8(), Uint8Array, (i) => 255 - i),
  u16: numbers(new arrow.Uint16(), Uint16Array, (i) => 65535 - i),
  u32: numbers(new arrow.Uint32(), Uint32Array, (i) => 4294967295 - i),
  f16: numbers(new arrow.Float16(), Uint16Array, (i) => 0x3c00 + i),
  f32: numbers(new arrow.Float32(), Float32Array, (i) => i / 8 - 3),
  f64: numbers(new arrow.Float64(), Float64Array, (i) => 1 / (i + 1)),
  u64_all: numbers(new arrow.Uint64(), BigUint64Array, (i) => (1n << 64n) - 1n - B(i), {}),
  i64_all: numbers(new arrow.Int64(), BigInt64Array, (i) => (B(i) * 7919n) % 1009n, {}),
  bool_all: arrow.vectorFromArray(all((i) => i % 5 < 2), new arrow.Bool()),
  text: arrow.vectorFromArray(maybe((i) => `row ${i % 10} ☃é`), new arrow.Utf8()),
  text_all: arrow.vectorFromArray(all((i) => `${'x'.repeat(i % 4)}-${i}`), new arrow.Utf8()),
  bytes: arrow.vectorFromArray(maybe((i) => Uint8Array.of(i, 0, 255)), new arrow.Binary()),
  fixed: arrow.vectorFromArray(maybe((i) => Uint8Array.of(1, 2, i, 4, 5)), new arrow.FixedSizeBinary(5)),
  date: numbers(new arrow.DateDay(), Int32Array, (i) => (i - 20) * 400),
  time_ms: numbers(new arrow.TimeMillisecond(), Int32Array, (i) => i * 431999),
  time_us: numbers(new arrow.TimeMicrosecond(), BigInt64Array, (i) => B(i) * 431999001n),
  time_ns: numbers(new arrow.TimeNanosecond(), BigInt64Array, (i) => B(i) * 431999001000n),
  ts_ms: numbers(new arrow.TimestampMillisecond(), BigInt64Array, (i) => B(i - 100) * DAY + 1n),
  ts_us: numbers(new arrow.TimestampMicrosecond(), BigInt64Array, (i) => B(i) * DAY * 1000n + 1n),
  ts_ns: numbers(new arrow.TimestampNanosecond(), BigInt64Array, (i) => B(i) * DAY * 1000000n + 1n),
  ts_utc: numbers(new arrow.TimestampMicrosecond('UTC'), BigInt64Array, (i) => B(i) * DAY * 1000n),
  ts_far: numbers(new arrow.TimestampMillisecond(), BigInt64Array, (i) => B(i) * 10000n * DAY),
  dec_9: decimals(9, 2, (i) => B(i * 1001 - 50000)),
  dec_18: decimals(18, 4, (i) => B(i - 7) * 10000000019n),
  dec_38: decimals(38, 10, (i) => B(i - 7) * 10n ** 35n + 1n),
  category: arrow.vectorFromArray(maybe((i) => 'abc'[i % 3]), new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())),
}

const lists = {
  ints: arrow.vectorFromArray(maybe((i) => [...Array(i % 4).keys()].map((k) => (k === 2 ? null : i + k))),
    new arrow.List(new arrow.Field('item', new arrow.Int32(), true))),
  words: arrow.vectorFromArray(maybe((i) => [...Array(i % 3).keys()].map((k) => `w${i + k}`)),
    new arrow.List(new arrow.Field('item', new arrow.Utf8(), true))),
  plain: numbers(new arrow.Int32(), Int32Array, (i) => i, {}),
  nested: arrow.vectorFromArray(all((i) => ({ a: i, b: `${i}` })),
    new arrow.Struct([new arrow.Field('a', new arrow.Int32()), new arrow.Field('b', new arrow.Utf8())])),
}

// ---- Arrow's writer ----

function write(name, table, set) {
  const ipc = arrow.tableToIPC(new arrow.Table(table), 'stream')
  const properties = set(new wasm.WriterPropertiesBuilder()).build()
  fs.writeFileSync(`${folder}/${name}.parquet`, wasm.writeParquet(wasm.Table.fromIPCStream(ipc), properties))
}

const { Compression: C, Encoding: E, WriterVersion: V } = wasm
const common = (b) => b.setStatisticsEnabled(wasm.EnabledStatistics.None).setKeyValueMetadata(new Map())
const only = (...names) => Object.fromEntries(names.map((name) => [name, columns[name]]))

write('snappy', columns, (b) => common(b).setCompression(C.SNAPPY))
write('plain', columns, (b) => common(b).setCompression(C.UNCOMPRESSED).setDictionaryEnabled(false)
  .setMaxRowGroupSize(90).setWriteBatchSize(16).setDataPageSizeLimit(400))
write('pages2', columns, (b) => common(b).setCompression(C.GZIP).setWriterVersion(V.V2).setMaxRowGroupSize(150))
write('delta', only('i32', 'i64', 'u32', 'i64_all', 'u64_all', 'ts_us', 'date'), (b) => common(b)
  .setCompression(C.UNCOMPRESSED).setWriterVersion(V.V2).setDictionaryEnabled(false).setEncoding(E.DELTA_BINARY_PACKED))
write('delta_length', only('text', 'text_all', 'bytes'), (b) => common(b).setCompression(C.ZSTD)
  .setDictionaryEnabled(false).setEncoding(E.DELTA_LENGTH_BYTE_ARRAY))
write('delta_bytes', only('text', 'text_all', 'bytes', 'fixed', 'dec_38'), (b) => common(b).setCompression(C.SNAPPY)
  .setDictionaryEnabled(false).setEncoding(E.DELTA_BYTE_ARRAY))
write('split', only('i32', 'i64', 'f32', 'f64', 'f16', 'fixed'), (b) => common(b).setCompression(C.LZ4_RAW)
  .setDictionaryEnabled(false).setEncoding(E.BYTE_STREAM_SPLIT))
write('runs', only('bool', 'bool_all'), (b) => common(b).setCompression(C.BROTLI).setWriterVersion(V.V2)
  .setDictionaryEnabled(false).setEncoding(E.RLE))
write('lists', lists, (b) => common(b).setCompression(C.SNAPPY).setMaxRowGroupSize(64).setDataPageSizeLimit(100)
  .setWriteBatchSize(8))
write('lists2', lists, (b) => common(b).setCompression(C.ZSTD).setWriterVersion(V.V2))

// ---- hyparquet-writer ----

const text = rows.map((i) => `00000000-0000-4000-8000-${i.toString(16).padStart(12, '0')}`)
fs.writeFileSync(`${folder}/hyparquet.parquet`, Buffer.from(parquetWriteBuffer({
  statistics: false,
  rowGroupSize: 120,
  columnData: [
    { name: 'uuid', data: text, type: 'UUID' },
    { name: 'json', data: rows.map((i) => ({ a: i })), type: 'JSON' },
    { name: 'half', data: rows.map((i) => i / 4), type: 'FLOAT16' },
    { name: 'when', data: rows.map((i) => new Date(i * 86400000)), type: 'TIMESTAMP' },
    { name: 'split', data: Float64Array.from(rows, (i) => i / 3), encoding: 'BYTE_STREAM_SPLIT' },
    { name: 'delta', data: BigInt64Array.from(rows, (i) => B(i * i) - 77n), encoding: 'DELTA_BINARY_PACKED' },
    { name: 'shared', data: rows.map((i) => `common-${i >> 3}-${i}`), encoding: 'DELTA_BYTE_ARRAY' },
    { name: 'few', data: rows.map((i) => (i % 50 === 0 ? null : ['red', 'green'][i % 2])), type: 'STRING' },
    { name: 'none', data: rows.map(() => null), type: 'INT32' },
  ],
})))

// ---- the example's data ----

const [head, ...lines] = fs.readFileSync(`${process.argv[2]}/docs/examples/report/sales.csv`, 'utf8').trim().split('\n')
const table = head.split(',').map((name, i) => [name, lines.map((line) => line.split(',')[i])])
fs.writeFileSync(`${folder}/sales.parquet`, Buffer.from(parquetWriteBuffer({
  columnData: table.map(([name, data]) => ({
    name,
    data: name === 'date' ? data.map((day) => new Date(day)) : ['units', 'price'].includes(name)
      ? data.map((item) => (item === '' ? null : Number(item))) : data,
    type: { date: 'TIMESTAMP', units: 'DOUBLE', price: 'DOUBLE' }[name] ?? 'STRING',
  })),
})))
