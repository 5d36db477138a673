// Runs the public tests for HTTP caches against a cache, and prints one line for each: its kind, whether it passed, its
// name, and what was wrong.
//
//   node conformance.mjs PACKAGE http://CACHE [NAME...]
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [home, base, ...names] = process.argv.slice(2)
const load = file => import(pathToFileURL(path.join(home, file)))

const { runTests, getResults } = await load('client/runner.mjs')
const { default: suites } = await load('tests/index.mjs')
const { default: surrogate } = await load('tests/surrogate-control.mjs')
const { default: fetch } = await load('../node-fetch/lib/index.mjs')

const all = [...suites, surrogate].flatMap(suite => suite.tests).filter(test => test.browser_only !== true)
const tests = names.length === 0 ? all : all.filter(test => names.includes(test.id))
await runTests([{ tests }], fetch, false, base)
const results = getResults()
for (const test of tests) {
  const result = results[test.id]
  const why = result === true ? '' : String(result?.[1] ?? 'no result')
  console.log([test.kind ?? 'required', result === true, test.id, why.replaceAll(/\s+/g, ' ')].join('\t'))
}
