// Runs the worker of the check as it runs in a page without TLS, where there is no WebCrypto.
//
//   node search.mjs check.js TASK BITS
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [, , script, task, bits] = process.argv;
const worker = { TextEncoder, performance, postMessage: (told) => told.answer !== undefined && console.log(told.answer) };
worker.self = worker;
vm.runInNewContext(readFileSync(script, "utf8"), worker);
worker.onmessage({ data: { task, bits: Number(bits) } });
