//! The live view of a terminal: the state of a run drawn with ratatui, on the whole screen.
//!
//! Only echo and line editing are switched off, so that Ctrl-C is still a signal and ends the run in order
//! also while systems are started. Dropping the [`Screen`] always restores the terminal.

use super::{CurrentFigures, State};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, Stderr, Write};
use touchstone_lab::figures::{count, milliseconds, rate, significant, time_left};

/// A terminal of fewer columns or rows is no place for it.
pub const WIDTH_MIN: u16 = 60;
/// The same for rows.
pub const HEIGHT_MIN: u16 = 18;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Enters the alternate screen and hides the cursor; the way back (xterm's control sequences).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The whole screen of standard error's terminal, until this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    before: Option<Termios>,
}

impl Screen {
    /// Takes the screen. An error where it is too small, or no terminal.
    pub fn take() -> io::Result<Screen> {
        let terminal = Terminal::new(CrosstermBackend::new(io::stderr()))?;
        let size = terminal.backend().size()?;
        if size.width < WIDTH_MIN || size.height < HEIGHT_MIN {
            return Err(io::Error::other("the terminal is too small for the live view"));
        }
        let before = without_echo();
        let mut screen = Screen { terminal, before };
        io::stderr().write_all(ENTER)?;
        screen.terminal.clear()?;
        Ok(screen)
    }

    /// Draws a state. Parts that do not fit are left out: the run continues.
    pub fn draw(&mut self, state: &State) {
        let _ = self.terminal.draw(|frame| draw(frame, state));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = io::stderr().write_all(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stderr(), OptionalActions::Flush, before);
        }
    }
}

/// Switches echo and line editing off; returns the previous modes.
fn without_echo() -> Option<Termios> {
    let before = tcgetattr(io::stderr()).ok()?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    tcsetattr(io::stderr(), OptionalActions::Now, &quiet).ok()?;
    Some(before)
}

/// Draws a state on a frame.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let machines = u16::try_from(state.load_machines.len().clamp(1, 8)).unwrap_or(1);
    let [head, figures, curves, load, done, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(machines + 3),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    head_of(frame, head, state);
    figures_of(frame, figures, state.now.as_ref());
    curves_of(frame, curves, state);
    machines_of(frame, load, state);
    finished_of(frame, done, state);
    foot_of(frame, foot, state);
}

fn soft() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn titled(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).border_style(soft()).title(Span::styled(title, soft()))
}

fn head_of(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [first, second, bar] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let left = match state.seconds_left {
        Some(seconds) if !state.ended => format!("{} left", time_left(seconds)),
        _ => String::new(),
    };
    let [title, right] =
        Layout::horizontal([Constraint::Min(10), Constraint::Length(left.len() as u16)]).areas(first);
    frame.render_widget(Line::styled(format!("touchstone bench {}", state.suite), strong()), title);
    frame.render_widget(Line::raw(left), right);
    let words = match state.mix.as_ref().filter(|_| !state.ended) {
        Some(mix) => {
            format!("[{}/{}] {}, {}: {}", mix.number, mix.of, mix.system, mix.load, mix.phase)
        }
        None => state.doing.clone(),
    };
    frame.render_widget(Line::raw(words), second);
    let gauge = Gauge::default().gauge_style(Style::new().fg(Color::Blue)).ratio(state.progress());
    frame.render_widget(gauge, bar);
}

/// A figure with its name: what was not measured is a dash.
type LabelledFigure = (&'static str, Option<String>);

fn figures_of(frame: &mut Frame<'_>, area: Rect, now: Option<&CurrentFigures>) {
    let current = |figure: &dyn Fn(&CurrentFigures) -> Option<String>| now.and_then(figure);
    let columns: [[LabelledFigure; 4]; 3] = [
        [
            ("requests/s", current(&|now| Some(rate(now.requests_per_second)))),
            ("MB/s", current(&|now| Some(significant(now.bytes_per_second / 1e6)))),
            ("errors", current(&|now| Some(count(now.errors)))),
            ("", None),
        ],
        [
            ("half within, ms", current(&|now| now.p50_us.map(milliseconds))),
            ("95 % within, ms", current(&|now| now.p95_us.map(milliseconds))),
            ("99 % within, ms", current(&|now| now.p99_us.map(milliseconds))),
            ("", None),
        ],
        [
            ("server, processors", current(&|now| now.server_cpus.map(|cpus| format!("{cpus:.2}")))),
            (
                "server, MiB",
                current(&|now| {
                    now.server_resident_bytes.map(|bytes| format!("{:.1}", bytes as f64 / MEBIBYTE))
                }),
            ),
            (
                "machine busy, %",
                current(&|now| now.machine_share.map(|share| format!("{:.0}", share * 100.0))),
            ),
            ("", None),
        ],
    ];
    let block = titled(" now ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let places = Layout::horizontal([Constraint::Ratio(1, 3); 3]).split(inner);
    let has_errors = now.is_some_and(|now| now.errors > 0);
    for (column, place) in columns.iter().zip(places.iter()) {
        let lines: Vec<Line> = column
            .iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| {
                let alarm = *name == "errors" && has_errors;
                let style = if alarm { strong().fg(Color::Red) } else { strong() };
                let value = value.clone().unwrap_or_else(|| "\u{2013}".to_owned());
                Line::from(vec![
                    Span::styled(format!("{name:<19}"), soft()),
                    Span::styled(format!("{value:>10}"), style),
                ])
            })
            .collect();
        frame.render_widget(Paragraph::new(lines), *place);
    }
}

fn curves_of(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let [left, right] = Layout::horizontal([Constraint::Ratio(1, 2), Constraint::Ratio(1, 2)]).areas(area);
    let rates: Vec<u64> =
        state.history.iter().map(|point| point.requests_per_second.max(0.0) as u64).collect();
    let tails: Vec<u64> = state.history.iter().map(|point| point.p99_us.unwrap_or(0.0) as u64).collect();
    let top = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let rate_title = format!(" requests/s, up to {} ", rate(top(&rates) as f64));
    let tail_title = format!(" 99 % within, up to {} ms ", milliseconds(top(&tails) as f64));
    // Of a fleet latencies are known when a mix is over.
    let has_tails = state.history.is_empty() || state.history.iter().any(|point| point.p99_us.is_some());
    let both = [(&rates, &rate_title, Color::Blue, left), (&tails, &tail_title, Color::Yellow, right)];
    let alone = [(&rates, &rate_title, Color::Blue, area)];
    for (values, title, colour, place) in if has_tails { both.to_vec() } else { alone.to_vec() } {
        let block = titled(title);
        // The latest is at the right end.
        let room = usize::from(block.inner(place).width);
        let shown = &values[values.len().saturating_sub(room)..];
        frame.render_widget(
            Sparkline::default().block(block).data(shown).style(Style::new().fg(colour)),
            place,
        );
    }
}

fn machines_of(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rows = state.load_machines.iter().map(|machine| {
        let red = |is_alarm: bool| if is_alarm { Style::new().fg(Color::Red) } else { Style::new() };
        Row::new([
            Cell::from(machine.title()),
            right(rate(machine.requests_per_second)),
            right(count(machine.errors)),
            right(match (machine.cpus, machine.busy) {
                (Some(cpus), _) => format!("{cpus:.2}"),
                (None, Some(busy)) => format!("{:.0} % busy", 100.0 * busy),
                (None, None) => "\u{2013}".to_owned(),
            })
            .style(red(machine.saturated)),
            right(machine.clock_offset_us.map_or_else(String::new, |us| clock(us, machine.clock_bound_us))),
        ])
        .style(red(machine.missing))
    });
    let widths = [
        Constraint::Min(20),
        Constraint::Length(12),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(18),
    ];
    let is_fleet = state.load_machines.iter().any(|machine| machine.state.is_some());
    let clock = if is_fleet { "clock ahead, \u{b5}s" } else { "" };
    let titles = [right("requests/s"), right("errors"), right("processors"), right(clock)];
    let title = match state.fleet.as_str() {
        "" => " load ".to_owned(),
        fleet => format!(" load: {fleet} "),
    };
    let header = Row::new(std::iter::once(Cell::from("machine")).chain(titles));
    frame.render_widget(Table::new(rows, widths).header(header.style(soft())).block(titled(&title)), area);
}

/// By how much a clock is ahead, and how exactly that is known.
fn clock(offset_us: f64, bound_us: Option<f64>) -> String {
    let bound = bound_us.map(|us| format!(" \u{b1} {us:.0}")).unwrap_or_default();
    format!("{offset_us:+.0}{bound}")
}

fn finished_of(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let room = usize::from(area.height.saturating_sub(2));
    let rows = state.finished.iter().rev().take(room).map(|mix| {
        let cut = if mix.complete { "" } else { " (cut short)" };
        Row::new([
            Cell::from(format!("{}{cut}", mix.system)),
            right(mix.load.clone()),
            right(rate(mix.requests_per_second)),
            right(milliseconds(mix.p99_us)),
            right(mix.cpu_us_per_request.map_or_else(|| "\u{2013}".to_owned(), |us| format!("{us:.1}"))),
            right(count(mix.errors)),
        ])
    });
    let widths = [
        Constraint::Min(20),
        Constraint::Length(16),
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(8),
    ];
    let header = Row::new([
        Cell::from("system"),
        right("load"),
        right("requests/s"),
        right("99 %, ms"),
        right("CPU, \u{b5}s"),
        right("errors"),
    ]);
    let title = format!(" done: {} ", state.finished_count);
    frame.render_widget(Table::new(rows, widths).header(header.style(soft())).block(titled(&title)), area);
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::raw(text.into()).right_aligned())
}

fn foot_of(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let note = state.notes.back().map(|note| format!("  not measured: {note}")).unwrap_or_default();
    let line = Line::styled(format!("Ctrl-C ends the run and keeps what was measured.{note}"), soft());
    frame.render_widget(line, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::sample::state;
    use ratatui::backend::TestBackend;

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn the_screen_says_what_runs_how_fast_and_how_long() {
        let text = drawn(&state(), 120, 30);
        for words in [
            "touchstone bench spice",
            "8 s left",
            "[2/4] touchstone 0.1.0, CGI, 8 clients: counted",
            "requests/s",
            "7,200",
            "99 % within, ms",
            "0.97",
            "lab-1",
            "0.42",
            "done: 1",
            "41,234",
            "not measured: nginx 1.22.1 does not run CGI programs",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn the_agents_of_a_fleet_are_counted_and_their_clocks_told() {
        let mut state = state();
        state.fleet = "1 running".to_owned();
        state.load_machines = vec![super::super::LoadMachine {
            name: "load-1".to_owned(),
            state: Some("running".to_owned()),
            busy: Some(0.25),
            clock_offset_us: Some(-12.4),
            clock_bound_us: Some(40.2),
            ..super::super::LoadMachine::default()
        }];
        let text = drawn(&state, 100, 30);
        for words in
            ["load: 1 running", "load-1 (running)", "25 % busy", "clock ahead, \u{b5}s", "-12 \u{b1} 40"]
        {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn every_size_can_be_drawn_and_many_machines_have_a_row_each() {
        let mut state = state();
        let own = state.load_machines[0].clone();
        state.load_machines.extend(
            (2..=4).map(|number| super::super::LoadMachine { name: format!("lab-{number}"), ..own.clone() }),
        );
        assert!(drawn(&state, 80, 30).contains("lab-4"));
        for (width, height) in [(1, 1), (20, 5), (WIDTH_MIN, HEIGHT_MIN), (200, 60)] {
            drawn(&state, width, height);
            drawn(&State::default(), width, height);
        }
        state.end("done");
        assert!(drawn(&state, 100, 30).contains("done"));
    }
}
