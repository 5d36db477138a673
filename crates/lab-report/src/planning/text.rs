//! A plan as text for a terminal.

use super::usl::{self, Usl};
use super::{Assumptions, Plan, mva, users};
use std::fmt::Write as _;
use touchstone_lab::figures::{clients, count, milliseconds, rate, significant};

/// The plans, one after the other.
pub fn text(plans: &[Plan], assumed: &Assumptions) -> String {
    let mut text = String::new();
    for plan in plans {
        // Writing to a String cannot fail.
        let _ = write_plan(&mut text, plan, assumed);
    }
    text
}

fn write_plan(text: &mut String, plan: &Plan, assumed: &Assumptions) -> std::fmt::Result {
    writeln!(text, "{}", plan.system)?;
    writeln!(
        text,
        "  peak          {} requests/s with {}, mean latency {} ms",
        rate(plan.peak_rate),
        clients(plan.peak_clients),
        milliseconds(plan.peak_latency_us)
    )?;
    if let Some(found) = &plan.useful_peak {
        let useful = match &found.useful {
            Some(load) => format!("{} requests/s with {}", rate(load.rate), clients(load.load as u64)),
            None => "none".to_owned(),
        };
        let difference = found.difference.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        writeln!(text, "  useful peak   {useful}{difference}")?;
    }
    writeln!(text, "  bottleneck    {}: {}", plan.bottleneck.verdict.name(), plan.bottleneck.sentence)?;
    for it in &plan.bottleneck.evidence {
        let word = match it.speaks {
            Some(true) => "yes",
            Some(false) => "no",
            None => "?",
        };
        writeln!(text, "      {word:<4}{:<13} {} (limit: {})", it.verdict.name(), it.figure, it.limit)?;
    }
    if let Some(usage) = &plan.usage {
        writeln!(
            text,
            "      the monitor itself used {} % of one processor, {} µs a look",
            significant(usage.monitor_share * 100.0),
            significant(usage.snapshot_us)
        )?;
    }
    write_usl(text, &plan.usl)?;
    write_mva(text, &plan.mva)?;
    write_users(text, plan, assumed)?;
    writeln!(text, "  what to change first")?;
    for (index, advice) in plan.advice.iter().enumerate() {
        writeln!(text, "    {}. {}:\n       {}", index + 1, advice.change, advice.gives)?;
    }
    writeln!(text)
}

fn write_usl(text: &mut String, outcome: &usl::Outcome) -> std::fmt::Result {
    match outcome {
        usl::Outcome::Identified(usl) => {
            writeln!(text, "  scalability   {}", parameters(usl))?;
            match (usl.peak_load(), usl.ceiling()) {
                (Some(load), _) => writeln!(
                    text,
                    "                its peak is {} requests/s with {} clients",
                    rate(usl.rate(load)),
                    rate(load)
                ),
                (None, Some(ceiling)) => writeln!(
                    text,
                    "                no crosstalk is shown, so no peak is known; contention bounds it at {} \
                     requests/s",
                    rate(ceiling)
                ),
                (None, None) => writeln!(
                    text,
                    "                neither contention nor crosstalk is shown: it scales as far as it was \
                     measured"
                ),
            }
        }
        usl::Outcome::NotIdentified { reasons, .. } => {
            writeln!(text, "  scalability   not identified: {}", reasons.join("; "))
        }
    }
}

fn parameters(usl: &Usl) -> String {
    format!(
        "gamma {}, alpha {}, beta {} (Universal Scalability Law, {:.1} % of the variance)",
        significant(usl.gamma.estimate),
        significant(usl.alpha.estimate),
        scientific(usl.beta.estimate),
        usl.explained * 100.0
    )
}

fn scientific(number: f64) -> String {
    if number == 0.0 || number >= 0.001 { significant(number) } else { format!("{number:.3e}") }
}

fn write_mva(text: &mut String, outcome: &mva::Outcome) -> std::fmt::Result {
    match outcome {
        mva::Outcome::Identified(model) => {
            let demand_us: f64 = model.stations.iter().map(|station| station.demand_s * 1e6).sum();
            writeln!(
                text,
                "  queues        a request needs {} µs of the processors and {} µs elsewhere; the model is \
                 {:.0} % off on average",
                significant(demand_us),
                significant(model.delay_s * 1e6),
                model.error * 100.0
            )?;
            let knee = mva::knee(&model.stations, model.delay_s, model.think_s);
            match (knee, mva::ceiling(&model.stations)) {
                (Some(knee), Some(ceiling)) => writeln!(
                    text,
                    "                requests queue from about {} clients on; the processors allow {} \
                     requests/s",
                    rate(knee),
                    rate(ceiling)
                ),
                _ => Ok(()),
            }
        }
        mva::Outcome::NotIdentified { reasons } => {
            writeln!(text, "  queues        not identified: {}", reasons.join("; "))
        }
    }
}

fn write_users(text: &mut String, plan: &Plan, assumed: &Assumptions) -> std::fmt::Result {
    writeln!(
        text,
        "  users         of pages of {} requests, {} % of them to this server, by how many the \
         browser\u{2019}s cache answers",
        significant(assumed.requests_per_page),
        significant(assumed.first_party_share * 100.0)
    )?;
    let heads =
        users::CACHE_HIT_SHARES.map(|share| format!("{:>12}", format!("{:.0} % cached", share * 100.0)));
    writeln!(text, "      {:<20}{}", "pages a minute", heads.concat())?;
    for (pages, row) in users::PAGES_PER_MINUTE.iter().zip(&plan.users) {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| {
                let users = cell.users.map_or("-".to_owned(), |users| count(users.round().max(0.0) as u64));
                format!("{users:>12}")
            })
            .collect();
        writeln!(text, "      {:<20}{}", significant(*pages), cells.concat())?;
    }
    writeln!(
        text,
        "      the formula of 1997 (5 requests a minute, ten minutes): {} users",
        count(plan.users_of_1997.round().max(0.0) as u64)
    )
}
