// Requests of HTTP by k6.
import http from 'k6/http';
import { scenarios } from './k6_scenarios.js';

export const options = scenarios();

export default function () {
  http.get(__ENV.URL);
}
