// The load of a k6 script, from the environment: RATE (0 for a closed load), CLIENTS, SECONDS, or ONCE for a
// single iteration, whose cost is that of k6's start.
export function scenarios() {
  const rate = Number(__ENV.RATE);
  const seconds = __ENV.SECONDS + 's';
  const clients = Number(__ENV.CLIENTS);
  let load = { executor: 'constant-vus', vus: clients, duration: seconds };
  if (__ENV.ONCE) {
    load = { executor: 'shared-iterations', vus: 1, iterations: 1 };
  } else if (rate > 0) {
    load = {
      executor: 'constant-arrival-rate', rate: rate, timeUnit: '1s', duration: seconds,
      preAllocatedVUs: clients, maxVUs: clients,
    };
  }
  return {
    discardResponseBodies: true,
    summaryTrendStats: ['med', 'p(95)', 'p(99)', 'count'],
    scenarios: { load: load },
  };
}
