//! The cost of the work: processor time of the server for each request, its share of its processors, the load
//! engine's busiest thread, memory, and the state of the machine while each system was at its peak.

use maud::{Markup, html};

use super::chart::Canvas;
use super::figure::{Best, Measure};
use super::number::{self, NOT_MEASURED};
use super::table::{Part, Row, Table};
use super::view::{SystemView, View};
use super::words;
use touchstone_lab::result::{MachineUse, MixResult};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The section of the four figures and the machine's table.
pub(super) fn section(view: &View) -> Markup {
    html! {
        section aria-labelledby="processor" {
            h2 id="processor" { "Processor and memory" }
            // Many curves, and long names, need the whole width.
            @let names_fit = view.systems.iter().all(|system| Canvas::HALF.fits(&system.label));
            @let (class, canvas) = if view.systems.len() <= 6 && names_fit {
                ("figures two", Canvas::HALF)
            } else {
                ("figures", Canvas::WIDE)
            };
            div class=(class) {
                @for measure in [cost(), share(), load(), memory()] {
                    (measure.figure(view, canvas).write())
                }
            }
            h3 { "The machine at the peak of each system" }
            p { "Shares of each processor\u{2019}s time while the mix of the highest rate ran, used by any \
                 process: "
                "server, load engine and everything else." }
            (machine_table(view).write())
            (pressure_table(view).write())
        }
    }
}

fn cost() -> Measure<'static> {
    Measure {
        id: "processor-cost",
        heading: "Processor time per request",
        unit: "µs of the server\u{2019}s CPU",
        second: None,
        meaning: "User and system time of the server\u{2019}s processes, divided by its valid answers; lower \
                  is better.",
        best: Best::Lowest,
        value: &|mix| mix.server.as_ref().map(|server| server.cpu_us_per_request),
        write: number::rate,
        of_the_limit: " The thin dashed line is the limit: what a program that only answers spends.",
        follows_rate: false,
    }
}

fn share() -> Measure<'static> {
    Measure {
        id: "processor-share",
        heading: "The server\u{2019}s share of its processors",
        unit: "%",
        second: None,
        meaning: "At 100 % the server has no processor time left: it is the bottleneck.",
        best: Best::Highest,
        value: &|mix| mix.server.as_ref().map(|server| server.cpu_share * 100.0),
        write: |value| number::grouped(value, 1),
        of_the_limit: "",
        follows_rate: false,
    }
}

fn load() -> Measure<'static> {
    Measure {
        id: "load-engine",
        heading: "The load engine\u{2019}s busiest thread",
        unit: "% of a processor",
        second: None,
        meaning: "Near 100 % the load engine sets the rate, unless the server is at 100 %, too.",
        best: Best::Highest,
        value: &|mix| Some(mix.load.busiest_thread * 100.0),
        write: |value| number::grouped(value, 1),
        of_the_limit: "",
        follows_rate: false,
    }
}

fn memory() -> Measure<'static> {
    Measure {
        id: "memory",
        heading: "The server\u{2019}s memory",
        unit: "MiB resident",
        second: None,
        meaning: "The largest resident memory of the server\u{2019}s processes together, as seen in \
                  each mix.",
        best: Best::Highest,
        value: &|mix| mix.server.as_ref().map(|server| server.resident_bytes_max as f64 / MEBIBYTE),
        write: |value| number::grouped(value, 1),
        of_the_limit: "",
        follows_rate: false,
    }
}

fn peaks<'v>(view: &'v View) -> impl Iterator<Item = (&'v SystemView<'v>, &'v MixResult)> {
    view.systems.iter().filter_map(|system| Some((system, system.peak?)))
}

fn machine_table(view: &View) -> Table {
    let parts = peaks(view)
        .map(|(system, peak)| Part {
            heading: Some(format!("{}, {}", system.label, words::load(peak))),
            rows: match &peak.machine {
                Some(machine) if !machine.cpus.is_empty() => processor_rows(machine),
                _ => vec![Row::new("every processor", vec![NOT_MEASURED.to_owned(); 5])],
            },
        })
        .collect();
    Table {
        caption: "Processors of the machine at the peak".to_owned(),
        columns: ["Processor", "user", "system", "softirq", "stolen", "idle"].map(str::to_owned).to_vec(),
        words: vec![0],
        parts,
        ..Table::default()
    }
}

fn processor_rows(machine: &MachineUse) -> Vec<Row> {
    machine
        .cpus
        .iter()
        .map(|cpu| {
            let shares = [cpu.user, cpu.system, cpu.softirq, cpu.steal, cpu.idle];
            Row::new(format!("processor {}", cpu.cpu), shares.map(number::percent).to_vec())
        })
        .collect()
}

fn pressure_table(view: &View) -> Table {
    let rows = peaks(view)
        .map(|(system, peak)| {
            let cells = match &peak.machine {
                None => vec![NOT_MEASURED.to_owned(); 6],
                Some(machine) => vec![
                    number::bytes(machine.memory_used_bytes_max as f64),
                    number::grouped(machine.network_in_bytes_per_second / 1e6, 1),
                    number::grouped(machine.network_out_bytes_per_second / 1e6, 1),
                    number::optional(machine.psi_cpu_some, number::percent),
                    number::optional(machine.psi_memory_some, number::percent),
                    number::optional(machine.psi_io_some, number::percent),
                ],
            };
            Row::new(system.label.clone(), cells)
        })
        .collect();
    Table::new(
        "Memory, network and pressure at the peak; pressure is the share of time in which some task \
         had to wait",
        &[
            "System",
            "Memory used",
            "Network in, MB/s",
            "Network out, MB/s",
            "Waiting for CPU",
            "Waiting for memory",
            "Waiting for I/O",
        ],
        rows,
    )
    .with_words(&[0])
}
