//! Progress while a load runs: a line that changes each second on a terminal, a plain line now and then
//! elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_lab::figures::{count, milliseconds, rate};
use touchstone_load::{AbortWatch, Plan, Progress};

/// How often a plain line is written where standard error is not a terminal.
const PLAIN_LINE_EACH: Duration = Duration::from_secs(10);
/// How often the interrupt is looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Does the work and shows its progress; passes the interrupt on to the engine.
pub(super) fn shown_while<T>(
    plan: &Plan,
    progress: &Progress,
    interrupt: &AtomicBool,
    watch: &AbortWatch,
    work: impl FnOnce() -> T,
) -> T {
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let display = scope.spawn(|| show(plan, progress, interrupt, watch, &finished));
        let result = work();
        finished.store(true, Ordering::Relaxed);
        // The line is cleared before anything else is printed. The error of a failed display is ignored.
        let _ = display.join();
        result
    })
}

fn show(plan: &Plan, progress: &Progress, interrupt: &AtomicBool, watch: &AbortWatch, finished: &AtomicBool) {
    let terminal = std::io::stderr().is_terminal();
    let each = if terminal { Duration::from_secs(1) } else { PLAIN_LINE_EACH };
    let start = Instant::now();
    let (mut last, mut last_requests) = (start, 0);
    while !finished.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK_INTERVAL);
        if interrupt.load(Ordering::Relaxed) {
            progress.stop.store(true, Ordering::Relaxed);
        }
        watch.check(progress);
        if last.elapsed() < each {
            continue;
        }
        let requests = progress.requests.load(Ordering::Relaxed);
        let a_second = (requests - last_requests) as f64 / last.elapsed().as_secs_f64();
        let line = line(start.elapsed(), plan, a_second, progress);
        if terminal {
            eprint!("\r\x1b[2K{line}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
        (last, last_requests) = (Instant::now(), requests);
    }
    if terminal {
        eprint!("\r\x1b[2K");
    }
}

fn line(elapsed: Duration, plan: &Plan, a_second: f64, progress: &Progress) -> String {
    let state = match plan.request_limit {
        _ if elapsed >= plan.length => "waiting for the last answers".to_string(),
        Some(limit) => format!("{} s, to {} requests", elapsed.as_secs(), count(limit)),
        None => format!("{} s of {} s", elapsed.as_secs(), plan.length.as_secs_f64()),
    };
    let latency = match progress.recent.histogram() {
        None => String::new(),
        Some(recent) => {
            let at = |quantile| milliseconds(recent.value_at_quantile(quantile) as f64 / 1e3);
            format!(", p50 {} ms, p99 {} ms", at(0.5), at(0.99))
        }
    };
    format!(
        "{state}: {} requests, {} a second now{latency}, {} errors",
        count(progress.requests.load(Ordering::Relaxed)),
        rate(a_second),
        count(progress.errors.load(Ordering::Relaxed))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let progress = Progress::default();
        progress.requests.store(12_345, Ordering::Relaxed);
        let target = touchstone_load::Target::plain(([127, 0, 0, 1], 80).into(), "localhost");
        let (elapsed, mut plan) = (Duration::from_millis(3200), Plan::of_one(target, "/"));
        assert_eq!(
            line(elapsed, &plan, 4115.3, &progress),
            "3 s of 10 s: 12,345 requests, 4,115 a second now, 0 errors"
        );
        assert!(line(plan.length, &plan, 0.0, &progress).starts_with("waiting for the last answers"));
        plan.request_limit = Some(20_000);
        assert!(line(elapsed, &plan, 0.0, &progress).starts_with("3 s, to 20,000 requests: 12,345"));
    }
}
