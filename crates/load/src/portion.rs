//! The part of a plan that one of several load machines executes.
//!
//! A plan is divided by engine threads, as on one machine. Each thread has its own clients with their seeds,
//! and its part of the arrivals and of the requests. These do not depend on the machine on which the thread
//! runs. The portions therefore add up exactly to the whole plan, and a fleet sends the same requests as one
//! machine with the same number of processors.

use crate::plan::Plan;
use crate::thread_share::clients_of_thread;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Some of a plan's engine threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// The numbers of the threads in ascending order; never empty.
    pub threads: Vec<usize>,
    /// The number of all threads of the plan.
    pub of: usize,
}

impl Portion {
    /// The whole plan on one machine: one thread for each of the plan's processors, but not more than there
    /// are clients.
    pub fn whole(plan: &Plan) -> Portion {
        let of = threads(plan, plan.cores.len());
        Portion { threads: (0..of).collect(), of }
    }

    /// A portion for each machine according to its number of processors; `None` for machines without clients.
    /// Threads are assigned to the machines in turn, so that few clients are distributed over many machines.
    pub fn divide(plan: &Plan, processors: &[usize]) -> Vec<Option<Portion>> {
        let of = threads(plan, processors.iter().sum());
        let mut assigned: Vec<Vec<usize>> = vec![Vec::new(); processors.len()];
        let rounds = processors.iter().copied().max().unwrap_or(0);
        let turns = (0..rounds).flat_map(|round| {
            processors
                .iter()
                .enumerate()
                .filter(move |(_, count)| **count > round)
                .map(|(machine, _)| machine)
        });
        for (thread, machine) in turns.take(of).enumerate() {
            assigned[machine].push(thread);
        }
        let portion = |threads: Vec<usize>| (!threads.is_empty()).then_some(Portion { threads, of });
        assigned.into_iter().map(portion).collect()
    }

    /// The client numbers of each of its threads.
    pub fn clients<'p>(&'p self, plan: &'p Plan) -> impl Iterator<Item = Range<usize>> + 'p {
        self.threads
            .iter()
            .map(|&thread| clients_of_thread(plan.clients, plan.streams.max(1), self.of, thread))
    }

    /// The number of its clients.
    pub fn client_count(&self, plan: &Plan) -> usize {
        self.clients(plan).map(|clients| clients.len()).sum()
    }
}

/// The number of threads. Threads without clients are not created.
fn threads(plan: &Plan, processors: usize) -> usize {
    processors.clamp(1, plan.clients.div_ceil(plan.streams.max(1)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use proptest::prelude::*;

    fn plan(clients: usize, streams: usize) -> Plan {
        let target = Target::plain(([127, 0, 0, 1], 80).into(), "127.0.0.1");
        Plan { clients, streams, ..Plan::of_one(target, "/") }
    }

    proptest! {
        #[test]
        fn the_portions_cover_all_clients(
            clients in 1usize..3000,
            streams in 1usize..9,
            processors in prop::collection::vec(1usize..9, 1..40),
        ) {
            let plan = plan(clients, streams);
            let portions = Portion::divide(&plan, &processors);
            let mut all: Vec<usize> =
                portions.iter().flatten().flat_map(|portion| portion.clients(&plan).flatten()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..clients).collect::<Vec<_>>());
            for (portion, processors) in portions.iter().zip(&processors) {
                prop_assert!(portion.as_ref().is_none_or(|portion| portion.threads.len() <= *processors));
            }
        }
    }

    #[test]
    fn few_clients_are_distributed_over_the_machines() {
        let counts = |clients, processors: &[usize]| -> Vec<usize> {
            let plan = plan(clients, 1);
            let count = |portion: &Option<Portion>| portion.as_ref().map_or(0, |it| it.client_count(&plan));
            Portion::divide(&plan, processors).iter().map(count).collect()
        };
        assert_eq!(counts(1, &[2, 2]), [1, 0]);
        assert_eq!(counts(3, &[4, 4, 4, 4]), [1, 1, 1, 0]);
        assert_eq!(counts(60, &[1, 2]), [20, 40]);
        let whole = Portion::whole(&Plan { cores: vec![0, 1], ..plan(8, 1) });
        assert_eq!((whole.threads, whole.of), (vec![0, 1], 2));
    }
}
