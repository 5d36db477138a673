// Calls of gRPC by k6: unary calls, or streams of the server. Streams have no duration of their own in k6,
// and scripts have only whole milliseconds.
import { Client, Stream, StatusOK } from 'k6/net/grpc';
import { Counter, Trend } from 'k6/metrics';
import { scenarios } from './k6_scenarios.js';

const whole = new Trend('whole', true);
const failed = new Counter('failed');
const client = new Client();
client.load([__ENV.DEFINITIONS], 'calls.proto');
let connected = false;

export const options = scenarios();

function stream() {
  const began = Date.now();
  const call = new Stream(client, 'load.Calls/Count');
  call.on('end', () => whole.add(Date.now() - began));
  call.on('error', () => failed.add(1));
  call.write({ number: Number(__ENV.MESSAGES) });
  call.end();
}

export default function () {
  if (!connected) {
    client.connect(__ENV.ADDRESS, { plaintext: true });
    connected = true;
  }
  if (__ENV.METHOD === 'Count') {
    stream();
  } else if (client.invoke('load.Calls/Echo', { text: 'hello' }).status !== StatusOK) {
    failed.add(1);
  }
}
