// Signs requests as a bot, with Cloudflare's package web-bot-auth.
//
//   node sign.mjs PACKAGE < {"requests": [{"url": ..., "agent": ..., "seconds": ...}]}
//
// Prints the public key, and the fields for each request.
import { readFileSync } from "node:fs";

const { signatureHeaders, jwkToKeyID, generateNonce } = await import(`${process.argv[2]}/dist/index.mjs`);
const { signerFromJWK, helpers } = await import(`${process.argv[2]}/dist/crypto.mjs`);

const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
const jwk = await crypto.subtle.exportKey("jwk", pair.privateKey);
const signer = await signerFromJWK(jwk);
const { requests } = JSON.parse(readFileSync(0, "utf8"));
const signed = [];
for (const { url, agent, seconds } of requests) {
  const given = agent ? { "Signature-Agent": `"${agent}"` } : {};
  const now = Date.now();
  const times = { created: new Date(now - 1000), expires: new Date(now + (seconds ?? 60) * 1000) };
  const request = new Request(url, { headers: given });
  const made = await signatureHeaders(request, signer, { ...times, nonce: generateNonce() });
  signed.push({ ...given, ...made });
}
const { kty, crv, x } = jwk;
const kid = await jwkToKeyID(jwk, helpers.WEBCRYPTO_SHA256, helpers.BASE64URL_DECODE);
console.log(JSON.stringify({ jwk: { kty, crv, x, kid }, requests: signed }));
