// WebSockets by k6. With MESSAGES=all a WebSocket lives as long as the run, and its next message follows the
// answer to the last; else it has one message. Scripts have only whole milliseconds.
import ws from 'k6/ws';
import { Trend } from 'k6/metrics';
import { scenarios } from './k6_scenarios.js';

const answer = new Trend('answer', true);
const all = __ENV.MESSAGES === 'all';

export const options = scenarios();

export default function () {
  let sent = Date.now();
  ws.connect(__ENV.URL, {}, (socket) => {
    const send = () => {
      if (all) {
        sent = Date.now();
      }
      socket.send('hello');
    };
    socket.on('open', send);
    socket.on('message', () => {
      // Of a WebSocket with one message, the time counts from before the WebSocket was opened.
      answer.add(Date.now() - sent);
      if (all) {
        send();
      } else {
        socket.close();
      }
    });
    if (all) {
      socket.setTimeout(() => socket.close(), Number(__ENV.SECONDS) * 1000);
    }
  });
}
