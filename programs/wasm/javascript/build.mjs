// Builds a component from a JavaScript file: node build.mjs SOURCE WIT WORLD OUT
import { readFile, writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [source, witPath, worldName, out] = process.argv.slice(2);
const enableFeatures = ["http", "fetch-event"];
const text = await readFile(source, "utf8");
const { component } = await componentize(text, { witPath, worldName, enableFeatures });
await writeFile(out, component);
