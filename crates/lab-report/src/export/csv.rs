//! The summary as comma-separated values (RFC 4180): a row for each run of each mix of each system.

use std::fmt::Write as _;
use touchstone_lab::output::csv_text;
use touchstone_lab::result::{LatencyRecord, MixResult, ResultFile, SystemResult};

/// The names of the columns, with their units.
const COLUMNS: &str = "system,interface,mix,run,clients,window_s,requests,errors,requests_per_second,\
bytes_per_second,mean_body_bytes,\
mean_us,p50_us,p95_us,p99_us,max_us,server_cpu_us_per_request,server_cpu_share,load_cpu_us_per_request,complete,\
generator_saturated,arrivals_per_second,due,never_started,service_p99_us,messages_per_second,first_message_p99_us,\
message_gap_p99_us";

/// The result as CSV.
pub fn csv(result: &ResultFile) -> String {
    let mut text = format!("{COLUMNS}\r\n");
    for system in &result.systems {
        for mix in &system.mixes {
            // Writing to a String cannot fail.
            let _ = write_row(&mut text, system, mix);
        }
    }
    text
}

fn write_row(text: &mut String, system: &SystemResult, mix: &MixResult) -> std::fmt::Result {
    let latency = &mix.latency;
    // What was not measured is empty, never zero.
    let server = |figure: fn(&touchstone_lab::result::ProcessUse) -> f64| {
        mix.server.as_ref().map(|server| figure(server).to_string()).unwrap_or_default()
    };
    write!(text, "{},{},", csv_text(&system.title), csv_text(&mix.interface))?;
    write!(text, "{},{},{},", csv_text(&mix.name), mix.run, mix.clients)?;
    write!(text, "{},{},{},", mix.window_s, mix.requests, mix.errors.total())?;
    write!(text, "{},{},{},", mix.requests_per_second, mix.bytes_per_second, mix.mean_body_bytes)?;
    write!(text, "{},{},{},", latency.mean_us, latency.p50_us, latency.p95_us)?;
    write!(text, "{},{},", latency.p99_us, latency.max_us)?;
    write!(text, "{},{},", server(|server| server.cpu_us_per_request), server(|server| server.cpu_share))?;
    write!(text, "{},{},", mix.load.cpu_us_per_request, mix.complete)?;
    write!(text, "{},", csv_text(mix.generator_saturated.as_deref().unwrap_or_default()))?;
    match &mix.arrivals {
        None => write!(text, ",,,,")?,
        Some(arrivals) => {
            let unsent = arrivals.due.saturating_sub(arrivals.started);
            write!(text, "{},{},{unsent},{},", arrivals.per_second, arrivals.due, arrivals.service.p99_us)?;
        }
    }
    let p99 = |latency: &Option<LatencyRecord>| {
        latency.as_ref().map(|latency| latency.p99_us.to_string()).unwrap_or_default()
    };
    match &mix.messages {
        None => write!(text, ",,\r\n"),
        Some(messages) => {
            let (first, gap) = (p99(&messages.first), p99(&messages.gap));
            write!(text, "{},{first},{gap}\r\n", messages.per_second)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_and_messages_stand_in_columns_of_their_own() {
        let mut result = touchstone_lab::sample::open();
        result.systems[1].mixes[2].messages = Some(touchstone_lab::sample::messages());
        let text = csv(&result);
        let columns = COLUMNS.matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() == columns), "{text}");
        assert!(text.lines().last().unwrap().ends_with(",,4000,20000,6000,1800,200,600,2000"), "{text}");
    }

    #[test]
    fn every_mix_has_a_row_of_as_many_fields_as_there_are_columns() {
        let mut result = touchstone_lab::sample::result();
        result.systems[0].title = "a, \"b\"".into();
        result.systems[1].mixes[0].server = None;
        let text = csv(&result);
        assert_eq!(text.matches("\r\n").count(), 1 + 9);
        let columns = COLUMNS.matches(',').count();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("\"a, \"\"b\"\"\",,1_client,1,1,5,75000,0,15000,"), "{}", lines[1]);
        assert!(lines[4..].iter().all(|line| line.matches(',').count() == columns));
        assert!(lines[4].contains(",,"), "{}", lines[4]);
    }
}
