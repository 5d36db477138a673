// Prints what the rules of MDN's HTTP Observatory say of https://localhost:PORT/: one object, by the names of
// the tests.
//
//   node observatory.mjs DIRECTORY_OF_THE_PACKAGE PORT
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , directory, port] = process.argv;
const load = (name) => import(pathToFileURL(path.join(directory, "src", name)));

// The list of preloaded hosts is fetched when the package is installed; no host here is in it.
const list = path.join(directory, "conf", "hsts-preload.json");
if (!fs.existsSync(list)) fs.writeFileSync(list, "{}");

const { retrieve } = await load("retriever/retriever.js");
const { ALL_TESTS } = await load("constants.js");
const { getScoreModifier } = await load("grader/grader.js");

const retrieved = await retrieve("localhost", { httpsPort: Number(port), httpPort: Number(port) });
const result = {};
for (const test of ALL_TESTS) {
  const output = test(retrieved);
  const name = test.name.replace(/Test$/, "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  result[name] = { result: output.result, pass: output.pass, modifier: getScoreModifier(output.result) };
}
console.log(JSON.stringify(result));
