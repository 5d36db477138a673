"use strict";
// The check: finds a number so that the SHA-256 of task, colon and number begins with some zero bits, at most
// 28. The same file is the page's script and the worker that computes.

const BATCH = 256;

// SHA-256 (FIPS 180-4) of a text with a number behind it: returns the first 32 bits of the hash. Pages
// without TLS have no WebCrypto, which is also slower for short texts where scripts are compiled.
function ownHash(text) {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  const part = (root) => ((root - Math.floor(root)) * 4294967296) | 0;
  const k = Int32Array.from(primes, (prime) => part(Math.cbrt(prime)));
  const start = Int32Array.from(primes.slice(0, 8), (prime) => part(Math.sqrt(prime)));
  const w = new Int32Array(64);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));

  function addBlock(h, view, at) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + i * 4);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      const s0 = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      const s1 = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    let a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], j = h[7];
    for (let i = 0; i < 64; i++) {
      const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const t1 = (j + s1 + ((e & f) ^ (~e & g)) + k[i] + w[i]) | 0;
      const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      j = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0;
    }
    h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += j;
  }

  // The whole blocks of the text are the same for all numbers.
  const bytes = new TextEncoder().encode(text);
  const whole = bytes.length & ~63;
  const begun = start.slice();
  for (let at = 0; at < whole; at += 64) addBlock(begun, new DataView(bytes.buffer, bytes.byteOffset), at);
  const rest = bytes.subarray(whole);
  const tail = new Uint8Array(128);
  const view = new DataView(tail.buffer);
  return (number) => {
    const digits = String(number);
    const length = rest.length + digits.length;
    const end = length + 9 <= 64 ? 64 : 128;
    tail.fill(0);
    tail.set(rest);
    for (let i = 0; i < digits.length; i++) tail[rest.length + i] = digits.charCodeAt(i);
    tail[length] = 0x80;
    view.setUint32(end - 4, (whole + length) * 8);
    const h = begun.slice();
    for (let at = 0; at < end; at += 64) addBlock(h, view, at);
    return h[0];
  };
}

// The same by WebCrypto.
function webHash(text) {
  const encoder = new TextEncoder();
  return async (number) => {
    const hash = await self.crypto.subtle.digest("SHA-256", encoder.encode(text + number));
    return new DataView(hash).getInt32(0);
  };
}

// Tries numbers with the way to compute that is faster here.
async function search(task, bits) {
  const text = task + ":";
  const numbers = (first) => Array.from({ length: BATCH }, (_, i) => first + i);
  const own = ownHash(text);
  let batch = (first) => numbers(first).map(own);
  batch(0);
  if (self.crypto && self.crypto.subtle) {
    const web = webHash(text);
    const webBatch = (first) => Promise.all(numbers(first).map(web));
    const times = [];
    for (const one of [batch, webBatch]) {
      const begin = performance.now();
      await one(0);
      times.push(performance.now() - begin);
    }
    if (times[1] < times[0]) batch = webBatch;
  }
  for (let first = 0; ; first += BATCH) {
    const words = await batch(first);
    const found = words.findIndex((word) => Math.clz32(word) >= bits);
    if (found >= 0) return postMessage({ answer: first + found });
    if (first % 4096 === 0) postMessage({ tried: first });
  }
}

if (typeof document === "undefined") {
  self.onmessage = (event) => { search(event.data.task, event.data.bits); };
} else {
  const { task, bits, to } = document.currentScript.dataset;
  const status = document.getElementById("status");
  const progress = document.getElementById("progress");
  const worker = new Worker(document.currentScript.src);
  progress.hidden = false;
  worker.onerror = () => {
    progress.hidden = true;
    status.textContent = "The check does not work in this browser. Please use the link below.";
  };
  worker.onmessage = (event) => {
    if (event.data.answer === undefined) {
      // The share of visitors that would have an answer by now.
      progress.value = 1 - Math.exp(-event.data.tried / 2 ** bits);
      return;
    }
    progress.value = 1;
    status.textContent = "Done. The page is loading.";
    const query = new URLSearchParams({ task, answer: String(event.data.answer), to });
    location.replace("/.touchstone/check/pass?" + query + location.hash);
  };
  worker.postMessage({ task, bits: Number(bits) });
}
