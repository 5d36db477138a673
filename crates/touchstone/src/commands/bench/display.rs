//! A running bench, on standard error: the whole screen of a terminal, one line that changes, or plain lines;
//! and beside it the live page, if it was requested.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;
use touchstone_lab::figures::{count, milliseconds, rate, time_left};
use touchstone_lab::machine;
use touchstone_lab::result::MixResult;
use touchstone_lab_run::bench::{Event, LoadMachine, Observer, Tick, Turn};
use touchstone_lab_run::live::screen::Screen;
use touchstone_lab_run::live::web::PageListener;
use touchstone_lab_run::live::{Hub, Live, State};

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The whole screen.
    Screen,
    /// One line that changes.
    Line,
    /// Plain lines.
    Plain,
}

impl Form {
    /// The requested form, or the one that suits the destination of standard error.
    pub(super) fn of(wanted: Option<&str>) -> Form {
        match wanted {
            Some("screen") => Form::Screen,
            Some("line") => Form::Line,
            Some(_) => Form::Plain,
            None if std::io::stderr().is_terminal() => Form::Screen,
            None => Form::Plain,
        }
    }
}

/// Shows a run.
pub(super) struct Display {
    form: Form,
    screen: Option<Screen>,
    hub: Arc<Hub>,
    live: Live,
    /// The running mix, for the line at its end.
    place: String,
    /// The load machines with a problem now; each was reported to the user.
    troubles: Vec<Trouble>,
}

/// A load machine in a state that stops it from taking part.
struct Trouble {
    machine: String,
    state: String,
    since: Instant,
}

impl Display {
    /// Takes the screen, where that is the form and it can be had; otherwise a line.
    pub(super) fn new(wanted: Form, suite: &str, page: Option<PageListener>) -> Display {
        if let Some(page) = &page {
            eprintln!("live page: http://{}/", page.address());
        }
        let screen = (wanted == Form::Screen).then(Screen::take).and_then(Result::ok);
        let form = if wanted == Form::Screen && screen.is_none() { Form::Line } else { wanted };
        let hub = Hub::new(State::new(suite, &machine::facts(true).host));
        let live = Live::new(Arc::clone(&hub), page);
        let mut display = Display { form, screen, live, hub, place: String::new(), troubles: Vec::new() };
        display.draw();
        display
    }

    /// The run is over; `words` state how. The terminal is restored.
    pub(super) fn end(&mut self, words: &str) {
        let on_screen = self.screen.take().is_some();
        self.live.end(words);
        if self.form == Form::Line {
            eprint!("\r\x1b[2K");
        }
        if on_screen {
            // The messages on the screen have disappeared with it.
            self.hub.state().notes.iter().for_each(|note| eprintln!("not measured: {note}"));
        }
    }

    fn draw(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.draw(&self.hub.state());
        }
    }

    /// Puts the line in the place of the one before.
    fn line(&self, text: &str) {
        if self.form == Form::Line {
            // Back to the first column, erase; no wrapping while it is written, so that it remains one line.
            eprint!("\r\x1b[2K\x1b[?7l{text}\x1b[?7h");
            let _ = std::io::stderr().flush();
        }
    }

    fn plain(&self, text: &str) {
        if self.form == Form::Plain {
            eprintln!("{text}");
        }
    }

    /// Reports once what is wrong with a load machine, and when its messages arrive again; on the screen its
    /// row shows that.
    fn report_machines(&mut self, machines: &[LoadMachine]) {
        for LoadMachine { name, state, .. } in machines {
            let known = self.troubles.iter().position(|trouble| trouble.machine == *name);
            let Some(words) = trouble(state) else {
                if let Some(ended) = known.map(|index| self.troubles.remove(index)) {
                    let seconds = ended.since.elapsed().as_secs_f64();
                    self.event_line(&format!("agent {name} sends messages again after {seconds:.1} s"));
                }
                continue;
            };
            if known.is_some_and(|index| self.troubles[index].state == *state) {
                continue;
            }
            self.troubles.retain(|trouble| trouble.machine != *name);
            self.troubles.push(Trouble {
                machine: name.clone(),
                state: state.clone(),
                since: Instant::now(),
            });
            self.event_line(&format!("agent {name} {words}"));
        }
    }

    /// A line that remains, above the one that changes.
    fn event_line(&self, text: &str) {
        match self.form {
            Form::Screen => {}
            Form::Line => eprintln!("\r\x1b[2K{text}"),
            Form::Plain => eprintln!("{text}"),
        }
    }

    fn skipped(&self, reason: &str) {
        self.event_line(&format!("not measured: {reason}"));
    }
}

impl Observer for Display {
    fn event(&mut self, event: Event<'_>) {
        self.live.event(event);
        self.draw();
        match event {
            Event::Starting { system } => self.line(&format!("starting {system}")),
            Event::Ready { system } => {
                self.line(&format!("{system} is ready"));
                self.plain(&format!("{system} is ready"));
            }
            Event::Skipped { reason } => self.skipped(reason),
            Event::Conformance { system, done, of } => {
                self.line(&format!("rules of HTTP on {system}: {done} of {of} cases"));
                if done == of && of > 0 {
                    self.plain(&format!("{system}: {of} cases of the rules of HTTP were tried"));
                }
            }
            Event::MixStarted(turn) => {
                self.place = place(&turn);
                self.line(&self.place);
                if !turn.is_counted {
                    // Its end is not reported.
                    self.plain(&self.place);
                }
            }
            Event::Tick(tick) => self.line(&tick_line(&tick)),
            Event::LoadMachines(machines) => self.report_machines(machines),
            Event::MixFinished { result, .. } => self.plain(&finished_line(&self.place, result)),
        }
    }
}

/// The message about a load machine in this state.
fn trouble(state: &str) -> Option<&'static str> {
    match state {
        "lost" => Some("is lost"),
        "gone" => Some("is gone"),
        "no broker" => Some("sends no messages: the connection to the broker is lost"),
        _ => None,
    }
}

fn place(turn: &Turn<'_>) -> String {
    let width = turn.of.to_string().len();
    format!("[{:>width$}/{}] {}, {}", turn.number, turn.of, turn.system, turn.load_in_words())
}

fn tick_line(tick: &Tick<'_>) -> String {
    format!(
        "{}: {} requests/s, {} errors, {} left",
        place(&tick.turn),
        rate(tick.requests_per_second),
        count(tick.errors),
        time_left(tick.seconds_left)
    )
}

fn finished_line(place: &str, mix: &MixResult) -> String {
    let cut = if mix.complete { "" } else { " (cut short)" };
    format!(
        "{place}: {} requests/s, mean {} ms, p99 {} ms, {} errors{cut}",
        rate(mix.requests_per_second),
        milliseconds(mix.latency.mean_us),
        milliseconds(mix.latency.p99_us),
        count(mix.errors.total())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_lab_run::monitor::LatestFigures;

    #[test]
    fn progress_lines_say_where_and_how_fast() {
        let turn = Turn {
            system: "nginx 1.22.1",
            mix: "16_clients",
            clients: 16,
            rate: None,
            is_counted: true,
            number: 5,
            of: 21,
        };
        let tick = Tick {
            turn,
            requests_per_second: 41_234.4,
            errors: 3,
            bytes_per_second: 0.0,
            latency_ns: None,
            monitor: LatestFigures::default(),
            elapsed_s: 1.0,
            length_s: 5.0,
            ramp_up_s: 1.0,
            ramp_down_s: 1.0,
            seconds_left: 91.2,
        };
        let expected = "[ 5/21] nginx 1.22.1, 16 clients: 41,234 requests/s, 3 errors, 1 min 32 s left";
        assert_eq!(tick_line(&tick), expected);
        assert_eq!(time_left(0.2), "1 s");
    }

    #[test]
    fn a_form_that_is_named_is_taken() {
        assert_eq!(Form::of(Some("line")), Form::Line);
        assert_eq!(Form::of(Some("screen")), Form::Screen);
        assert_eq!(Form::of(Some("plain")), Form::Plain);
    }
}
