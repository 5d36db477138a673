//! Mean value analysis: the behaviour of a closed system of queues for any number of clients, from the demand
//! of a request at each.
//!
//! The exact recursion of Reiser and Lavenberg (1980) for one class of requests; a resource with several
//! servers (a processor with cores) is modelled as one fast server and a delay (Seidmann, 1987). It answers
//! "what if the processor were twice as fast", which a fitted curve cannot.

use serde::Serialize;

/// A resource and the demand of a request for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Station {
    /// Its name.
    pub name: String,
    /// Time of it that a request needs, seconds.
    pub demand_s: f64,
    /// How many requests it can process at the same time.
    pub servers: u32,
}

/// The model's figures for one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Clients.
    pub clients: u32,
    /// Requests a second.
    pub rate: f64,
    /// Mean response time, seconds.
    pub response_s: f64,
    /// Each station's utilisation, 0 to 1.
    pub utilisation: Vec<f64>,
}

/// The most clients that are computed.
pub const CLIENTS_MAX: u32 = 100_000;

/// The curve from 1 client to `clients`. `delay_s` is the time of a request without queueing (the network,
/// the client itself), `think_s` the client's wait between requests.
pub fn curve(stations: &[Station], delay_s: f64, think_s: f64, clients: u32) -> Vec<Point> {
    // Seidmann: with m servers, a queue with the demand D / m and a delay of D (m - 1) / m.
    let servers = |station: &Station| f64::from(station.servers.max(1));
    let demands: Vec<f64> = stations.iter().map(|station| station.demand_s / servers(station)).collect();
    let more: f64 = stations.iter().map(|station| station.demand_s * (1.0 - 1.0 / servers(station))).sum();
    let mut queues = vec![0.0; stations.len()];
    let mut points = Vec::new();
    for count in 1..=clients.min(CLIENTS_MAX) {
        let responses: Vec<f64> =
            demands.iter().zip(&queues).map(|(demand, queue)| demand * (1.0 + queue)).collect();
        let response_s = responses.iter().sum::<f64>() + delay_s + more;
        let rate = f64::from(count) / (response_s + think_s);
        queues = responses.iter().map(|response| response * rate).collect();
        let utilisation = demands.iter().map(|demand| (demand * rate).min(1.0)).collect();
        points.push(Point { clients: count, rate, response_s, utilisation });
    }
    points
}

/// The upper bound of the rate: the rate at which the scarcest station is full.
pub fn ceiling(stations: &[Station]) -> Option<f64> {
    let demands = stations.iter().map(|station| station.demand_s / f64::from(station.servers.max(1)));
    demands.reduce(f64::max).filter(|demand| *demand > 0.0).map(|demand| 1.0 / demand)
}

/// The number of clients at which the two bounds of the rate meet: from about there on, requests queue.
pub fn knee(stations: &[Station], delay_s: f64, think_s: f64) -> Option<f64> {
    let all: f64 = stations.iter().map(|station| station.demand_s).sum();
    ceiling(stations).map(|ceiling| (all + delay_s + think_s) * ceiling)
}

/// The rates may differ from the measured ones by this share on average.
pub const ERROR_MAX: f64 = 0.15;

/// The outcome of a fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Outcome {
    /// The model describes what was measured.
    Identified(Model),
    /// It does not, or a figure that it needs was not measured; a sentence each.
    NotIdentified {
        /// Why not.
        reasons: Vec<String>,
    },
}

/// A model whose parameters were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// The resources.
    pub stations: Vec<Station>,
    /// Time that a request spends outside the stations, seconds.
    pub delay_s: f64,
    /// Think time, seconds.
    pub think_s: f64,
    /// Mean difference of its rates from those measured, as a share.
    pub error: f64,
}

impl Model {
    /// The rate with as many clients.
    pub fn rate(&self, clients: u32) -> Option<f64> {
        curve(&self.stations, self.delay_s, self.think_s, clients).last().map(|point| point.rate)
    }
}

/// A measured load.
#[derive(Debug, Clone, Copy)]
pub struct LoadPoint {
    /// Clients.
    pub clients: u32,
    /// Requests a second.
    pub rate: f64,
    /// Mean response time, seconds.
    pub response_s: f64,
}

/// The model of the measured loads: the stations' demands are from the monitor (utilisation / rate), the
/// delay from the lightest load, where requests hardly queue.
pub fn solve(stations: &[Station], think_s: f64, measured: &[LoadPoint]) -> Outcome {
    let mut reasons = Vec::new();
    let demand: f64 = stations.iter().map(|station| station.demand_s).sum();
    if stations.is_empty() || demand <= 0.0 || !demand.is_finite() {
        reasons.push("what a request needs of the server\u{2019}s processors was not measured".to_owned());
    }
    let lightest = measured.iter().min_by_key(|load| load.clients);
    match lightest {
        None => reasons.push("nothing was measured".to_owned()),
        Some(LoadPoint { clients, .. }) if *clients > 2 => reasons.push(format!(
            "the delay outside of the server is not identified: the lightest load was {clients} clients; \
             measure with 1"
        )),
        Some(_) => {}
    }
    let (Some(LoadPoint { response_s, .. }), true) = (lightest, reasons.is_empty()) else {
        return Outcome::NotIdentified { reasons };
    };
    let delay_s = (response_s - demand).max(0.0);
    let error = error(stations, delay_s, think_s, measured);
    if error.is_nan() || error > ERROR_MAX {
        reasons.push(format!(
            "the model\u{2019}s rates differ from those measured by {:.0} % on average (at most {:.0} %): \
             something that it does not know limits this system",
            error * 100.0,
            ERROR_MAX * 100.0
        ));
        return Outcome::NotIdentified { reasons };
    }
    Outcome::Identified(Model { stations: stations.to_vec(), delay_s, think_s, error })
}

fn error(stations: &[Station], delay_s: f64, think_s: f64, measured: &[LoadPoint]) -> f64 {
    let most = measured.iter().map(|load| load.clients).max().unwrap_or(0);
    let points = curve(stations, delay_s, think_s, most);
    let differences: Vec<f64> = measured
        .iter()
        .filter_map(|load| {
            let model = points.get(load.clients.checked_sub(1)? as usize)?;
            Some((model.rate / load.rate - 1.0).abs())
        })
        .collect();
    differences.iter().sum::<f64>() / differences.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn station(demand_s: f64) -> Station {
        Station { name: "processor".into(), demand_s, servers: 1 }
    }

    #[test]
    fn balanced_queues_have_the_rate_of_the_textbook() {
        // M stations of equal demand: X(N) = N / (D (N + M - 1)).
        let stations = vec![station(0.01); 4];
        for point in curve(&stations, 0.0, 0.0, 50) {
            let expected = f64::from(point.clients) / (0.01 * (f64::from(point.clients) + 3.0));
            assert!((point.rate / expected - 1.0).abs() < 1e-12);
            assert!((point.rate * point.response_s / f64::from(point.clients) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn one_queue_with_think_time_is_the_machine_repairman() {
        // M/M/1//N by its birth and death equations: p(k) ~ N! / (N - k)! (S / Z)^k.
        let (service, think, clients) = (0.02, 0.1, 12u32);
        let mut weights = vec![1.0];
        for k in 1..=clients {
            weights.push(weights[k as usize - 1] * f64::from(clients - k + 1) * service / think);
        }
        let idle = 1.0 / weights.iter().sum::<f64>();
        let expected = (1.0 - idle) / service;
        let found = curve(&[station(service)], 0.0, think, clients).last().unwrap().rate;
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn bounds_are_those_of_the_operational_laws() {
        // Seed 002: with D = 1/1072 s and R0 = 31 ms the knee is near 33 clients.
        let demand = 1.0 / 1072.0;
        assert!((knee(&[station(demand)], 0.031 - demand, 0.0).unwrap() - 33.2).abs() < 0.1);
        let cores = Station { servers: 4, ..station(0.004) };
        assert!((ceiling(&[cores.clone(), station(0.0005)]).unwrap() - 1000.0).abs() < 1e-9);
        assert!((curve(&[cores], 0.0, 0.0, 1)[0].response_s - 0.004).abs() < 1e-12);
        assert_eq!(ceiling(&[]), None);
    }

    #[test]
    fn a_model_is_believed_only_where_it_fits() {
        let stations = [station(0.001)];
        let measured: Vec<LoadPoint> = curve(&stations, 0.002, 0.0, 32)
            .iter()
            .filter(|point| point.clients.is_power_of_two())
            .map(|point| LoadPoint { clients: point.clients, rate: point.rate, response_s: point.response_s })
            .collect();
        let Outcome::Identified(model) = solve(&stations, 0.0, &measured) else { panic!() };
        assert!((model.delay_s - 0.002).abs() < 1e-12 && model.error < 1e-9);
        assert!((model.rate(32).unwrap() / measured[5].rate - 1.0).abs() < 1e-9);
        // A lock without effect on processor time: the rate remains 300.
        let locked: Vec<LoadPoint> =
            measured.iter().map(|load| LoadPoint { rate: load.rate.min(300.0), ..*load }).collect();
        let Outcome::NotIdentified { reasons } = solve(&stations, 0.0, &locked) else { panic!() };
        assert!(reasons[0].contains("differ from those measured"), "{reasons:?}");
        let Outcome::NotIdentified { reasons } = solve(&stations, 0.0, &measured[3..]) else { panic!() };
        assert!(reasons[0].contains("the lightest load was 8 clients"), "{reasons:?}");
        assert!(matches!(solve(&[], 0.0, &measured), Outcome::NotIdentified { .. }));
        assert!(matches!(solve(&stations, 0.0, &[]), Outcome::NotIdentified { .. }));
    }

    proptest! {
        #[test]
        fn the_bounds_hold(
            demands in proptest::collection::vec(1e-5f64..0.1, 1..5),
            delay in 0.0f64..0.1,
            think in 0.0f64..1.0,
            clients in 1u32..200,
        ) {
            let stations: Vec<Station> = demands.iter().map(|demand| station(*demand)).collect();
            let points = curve(&stations, delay, think, clients);
            let all: f64 = demands.iter().sum();
            for pair in points.windows(2) {
                prop_assert!(pair[0].rate <= pair[1].rate * (1.0 + 1e-12));
            }
            for point in points {
                prop_assert!(point.rate <= ceiling(&stations).unwrap() * (1.0 + 1e-9));
                prop_assert!(point.rate <= f64::from(point.clients) / (all + delay + think) * (1.0 + 1e-9));
            }
        }
    }
}
