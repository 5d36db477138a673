//! WebBench's workbook: a Summary Report with its charts, a Client Data Report, and what was run.
//!
//! The sheets have WebBench's names and words. Figures are numbers and not text, so that a reader can compute
//! with them; what was not measured is an empty cell.

use crate::hardware;
use rust_xlsxwriter::{
    Chart, ChartLegendPosition, ChartMarker, ChartMarkerType, ChartType, DocProperties, ExcelDateTime,
    Format, FormatAlign, Workbook, Worksheet, XlsxError,
};
use touchstone_lab::arrivals::is_open;
use touchstone_lab::raw::RawMix;
use touchstone_lab::result::{ClientRow, MixResult, ResultFile};
use touchstone_lab::saturation::engine_limit;
use touchstone_lab::series::{self, Series};
use touchstone_lab::verdict::sentences;
use touchstone_lab::warnings;

const SUMMARY: &str = "Summary Report";
const CLIENT_DATA: &str = "Client Data Report";
const TEST: &str = "Test";
/// The rows of a sheet, less the heads: rows that do not fit are left out, and this is stated.
const ROWS_MAX: u32 = 1_048_000;
/// Columns of the summary that charts are made of.
const CLIENTS: u16 = 2;
const RATE: u16 = 3;
const THROUGHPUT: u16 = 4;
const LATENCY: u16 = 5;
const P99: u16 = 6;

const SUMMARY_COLUMNS: [(&str, f64); 13] = [
    ("System", 26.0),
    ("Mix Name", 14.0),
    ("Number of Clients", 12.0),
    ("Requests Per Second", 14.0),
    ("Throughput (Bytes/Sec)", 16.0),
    ("Average Latency (ms)", 14.0),
    ("99th Percentile (ms)", 14.0),
    ("Maximum Latency (ms)", 14.0),
    ("Total Requests", 14.0),
    ("Errors", 10.0),
    ("Server CPU (µs/request)", 14.0),
    ("Server CPU (share)", 12.0),
    ("Remark", 40.0),
];
/// How wide the column of texts is, in characters, and how high a line of it, in points.
const TEXT_WIDTH: f64 = 110.0;
const LINE_HEIGHT: f64 = 15.0;
/// The number that workbooks have for this paper.
const A4: u8 = 9;
const CLIENT_COLUMNS: [(&str, f64); 9] = [
    ("System", 26.0),
    ("Mix Name", 14.0),
    ("Client", 10.0),
    ("Requests", 12.0),
    ("Errors", 10.0),
    ("Bytes Received", 16.0),
    ("Average Latency (ms)", 14.0),
    ("95th Percentile (ms)", 14.0),
    ("Maximum Latency (ms)", 14.0),
];

/// The workbook's bytes; the text of an error states why it cannot be written.
pub fn workbook(result: &ResultFile, raw: &[RawMix]) -> Result<Vec<u8>, String> {
    make(result, raw).map_err(|error| error.to_string())
}

fn make(result: &ResultFile, raw: &[RawMix]) -> Result<Vec<u8>, XlsxError> {
    let mut workbook = Workbook::new();
    let mut properties = DocProperties::new().set_title(&result.suite.title).set_author("touchstone");
    // The time of the run, not the time of writing: the same result gives the same workbook.
    if let Ok(time) = ExcelDateTime::parse_from_str(result.started_at.trim_end_matches('Z')) {
        properties = properties.set_creation_datetime(&time);
    }
    workbook.set_properties(&properties);
    let formats = Formats::new();
    let spans = summary(workbook.add_worksheet(), result, &formats)?;
    let client_span = client_data(workbook.add_worksheet(), result, &formats)?;
    test(workbook.add_worksheet(), &told(result, raw), &formats)?;
    let sheet = workbook.worksheet_from_name(SUMMARY)?;
    let below = spans.iter().map(|span| span.last).max().unwrap_or(0) + 3;
    let across = if is_open(result) { "arrivals a second" } else { "clients" };
    insert_charts(sheet, across, &spans, below)?;
    if let Some(span) = client_span {
        let chart = fairness_chart(&span);
        workbook.worksheet_from_name(CLIENT_DATA)?.insert_chart(
            1,
            CLIENT_COLUMNS.len() as u16 + 1,
            &chart,
        )?;
    }
    workbook.save_to_buffer()
}

struct Formats {
    head: Format,
    whole: Format,
    decimals: Format,
    percent: Format,
    wrapped: Format,
}

impl Formats {
    fn new() -> Formats {
        Formats {
            head: Format::new().set_bold().set_text_wrap().set_align(FormatAlign::Top),
            whole: Format::new().set_num_format("#,##0"),
            decimals: Format::new().set_num_format("#,##0.000"),
            percent: Format::new().set_num_format("0.0%"),
            wrapped: Format::new().set_text_wrap().set_align(FormatAlign::Top),
        }
    }
}

/// The rows of one system on a sheet.
struct Span {
    title: String,
    first: u32,
    last: u32,
}

fn heads(sheet: &mut Worksheet, columns: &[(&str, f64)], formats: &Formats) -> Result<(), XlsxError> {
    let mut height: f64 = 1.0;
    for (column, (name, width)) in columns.iter().enumerate() {
        let column = column as u16;
        sheet.set_column_width(column, *width)?;
        sheet.write_with_format(0, column, *name, &formats.head)?;
        height = height.max(lines(name, *width));
    }
    sheet.set_row_height(0, height * LINE_HEIGHT)?;
    sheet.set_freeze_panes(1, 0)?;
    sheet.set_repeat_rows(0, 0)?;
    on_paper(sheet);
    Ok(())
}

fn summary(sheet: &mut Worksheet, result: &ResultFile, formats: &Formats) -> Result<Vec<Span>, XlsxError> {
    sheet.set_name(SUMMARY)?;
    let mut columns = SUMMARY_COLUMNS;
    if is_open(result) {
        columns[usize::from(CLIENTS)].0 = "Arrivals Per Second";
    }
    heads(sheet, &columns, formats)?;
    fit_systems(sheet, result)?;
    let mut spans = Vec::new();
    let mut row = 1;
    for series in series::from_result(result) {
        let first = row;
        for mix in series.mixes.iter().take((ROWS_MAX - row.min(ROWS_MAX)) as usize) {
            summary_row(sheet, row, &series, mix, formats)?;
            row += 1;
        }
        if row > first {
            spans.push(Span { title: name_text(&series.title), first, last: row - 1 });
        }
    }
    Ok(spans)
}

fn summary_row(
    sheet: &mut Worksheet,
    row: u32,
    series: &Series<'_>,
    mix: &MixResult,
    formats: &Formats,
) -> Result<(), XlsxError> {
    let Formats { whole, decimals, percent, .. } = formats;
    let latency = &mix.latency;
    sheet.write(row, 0, cell_text(&series.title))?;
    sheet.write(row, 1, cell_text(&mix.name))?;
    sheet.write(row, CLIENTS, mix.load() as f64)?;
    number(sheet, row, RATE, mix.requests_per_second, decimals)?;
    number(sheet, row, THROUGHPUT, mix.bytes_per_second, whole)?;
    number(sheet, row, LATENCY, latency.mean_us / 1000.0, decimals)?;
    number(sheet, row, P99, latency.p99_us / 1000.0, decimals)?;
    number(sheet, row, 7, latency.max_us / 1000.0, decimals)?;
    number(sheet, row, 8, mix.requests as f64, whole)?;
    number(sheet, row, 9, mix.errors.total() as f64, whole)?;
    if let Some(server) = &mix.server {
        number(sheet, row, 10, server.cpu_us_per_request, decimals)?;
        number(sheet, row, 11, server.cpu_share, percent)?;
    }
    sheet.write(row, 12, remarks(series, mix).join("; "))?;
    Ok(())
}

/// The remarks on a mix.
pub(crate) fn remarks(series: &Series<'_>, mix: &MixResult) -> Vec<&'static str> {
    let mut remarks = Vec::new();
    if mix.arrivals.is_none() && series.peak().is_some_and(|best| std::ptr::eq(best, mix)) {
        remarks.push("peak");
    }
    if mix.arrivals.is_some() && !mix.carried() {
        remarks.push("not carried");
    }
    if !mix.complete {
        remarks.push("cut short");
    }
    // The sign is on the last sheet, in whole sentences.
    remarks.extend(engine_limit(&series.system.cpus, mix).map(|(limit, _)| limit.remark()));
    remarks
}

/// A number, or an empty cell where a damaged result holds none that a workbook can have.
fn number(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    value: f64,
    format: &Format,
) -> Result<(), XlsxError> {
    if value.is_finite() {
        sheet.write_number_with_format(row, column, value, format)?;
    }
    Ok(())
}

/// Text that a cell can hold: at most 32,767 characters.
fn cell_text(text: &str) -> String {
    const CHARACTERS_MAX: usize = 32_767;
    text.chars().take(CHARACTERS_MAX).collect()
}

/// Text that a chart can show as a name.
fn name_text(text: &str) -> String {
    const CHARACTERS_MAX: usize = 100;
    text.chars().take(CHARACTERS_MAX).collect()
}

/// Every client of every mix. Returns the place of the clients of the first system's peak.
fn client_data(
    sheet: &mut Worksheet,
    result: &ResultFile,
    formats: &Formats,
) -> Result<Option<Span>, XlsxError> {
    sheet.set_name(CLIENT_DATA)?;
    heads(sheet, &CLIENT_COLUMNS, formats)?;
    fit_systems(sheet, result)?;
    let mut of_peak = None;
    let mut row = 1;
    for series in series::from_result(result) {
        let best = series.peak();
        for mix in series.mixes.iter().copied() {
            let first = row;
            for client in &mix.client_rows {
                if row > ROWS_MAX {
                    sheet.write(row, 0, "more clients than a sheet has rows: see clients.csv")?;
                    return Ok(of_peak);
                }
                client_row(sheet, row, &series, mix, client, formats)?;
                row += 1;
            }
            if of_peak.is_none() && row > first && best.is_some_and(|best| std::ptr::eq(best, mix)) {
                let title = name_text(&format!("{}, {}", series.title, mix.name));
                of_peak = Some(Span { title, first, last: row - 1 });
            }
        }
    }
    Ok(of_peak)
}

fn client_row(
    sheet: &mut Worksheet,
    row: u32,
    series: &Series<'_>,
    mix: &MixResult,
    client: &ClientRow,
    formats: &Formats,
) -> Result<(), XlsxError> {
    let Formats { whole, decimals, .. } = formats;
    sheet.write(row, 0, cell_text(&series.title))?;
    sheet.write(row, 1, cell_text(&mix.name))?;
    sheet.write(row, 2, client.client as f64)?;
    number(sheet, row, 3, client.requests as f64, whole)?;
    number(sheet, row, 4, client.errors as f64, whole)?;
    number(sheet, row, 5, client.bytes as f64, whole)?;
    number(sheet, row, 6, client.mean_us / 1000.0, decimals)?;
    number(sheet, row, 7, client.p95_us / 1000.0, decimals)?;
    number(sheet, row, 8, client.max_us / 1000.0, decimals)
}

/// What was run, where, and the outcome.
fn test(sheet: &mut Worksheet, rows: &[(String, String)], formats: &Formats) -> Result<(), XlsxError> {
    sheet.set_name(TEST)?;
    on_paper(sheet);
    sheet.set_column_width(0, 24)?;
    sheet.set_column_width(1, TEXT_WIDTH)?;
    for (row, (name, text)) in rows.iter().enumerate() {
        sheet.write_with_format(row as u32, 0, name, &formats.head)?;
        let text = cell_text(text);
        sheet.set_row_height(row as u32, lines(&text, TEXT_WIDTH) * LINE_HEIGHT)?;
        sheet.write_with_format(row as u32, 1, text, &formats.wrapped)?;
    }
    Ok(())
}

/// The rows of the last sheet: a name and a text.
pub(crate) fn told(result: &ResultFile, raw: &[RawMix]) -> Vec<(String, String)> {
    let machine = &result.machine;
    let suite = &result.suite;
    let mut rows: Vec<(String, String)> = [
        ("Suite", format!("{}{}", suite.title, if suite.quick { " (short form)" } else { "" })),
        ("Source", suite.source.clone()),
        ("Started", result.started_at.clone()),
        ("Finished", result.finished_at.clone()),
        ("Command", result.command_line.join(" ")),
        ("Measured by", format!("{} {}", result.tool.name, result.tool.version)),
        (
            "Machine",
            format!(
                "{}, {} processors, {}, Linux {}",
                machine.cpu_model, machine.cpus, machine.os, machine.kernel
            ),
        ),
        (
            "Load and server",
            if machine.same_host { "on one machine" } else { "on separate machines" }.to_owned(),
        ),
        ("Connections", if suite.keep_alive { "kept" } else { "a new one for each request" }.to_owned()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec();
    rows.extend(
        [
            ("Network cards", hardware::network_cards(machine)),
            ("Disks", hardware::disks(machine)),
            ("Switch", hardware::switch(&result.disclosure, machine)),
            ("Sponsor", hardware::sponsor(&result.disclosure)),
        ]
        .map(|(name, text)| (name.to_owned(), text)),
    );
    rows.extend(result.disclosure.notes.iter().map(|note| ("Note".to_owned(), note.clone())));
    rows.extend(sentences(result, raw).into_iter().map(|sentence| ("Verdict".to_owned(), sentence)));
    let warnings = warnings::each_once(&result.warnings);
    rows.extend(warnings.into_iter().map(|warning| ("Warning".to_owned(), warning)));
    rows
}

/// A sheet is printed across, as wide as the paper.
fn on_paper(sheet: &mut Worksheet) {
    sheet.set_landscape().set_paper_size(A4).set_print_fit_to_pages(1, 0);
}

/// The number of lines of a text in a column of this many characters. Rows have their heights stated: not
/// every program finds them out.
fn lines(text: &str, width: f64) -> f64 {
    // Bold letters are wider, and a line holds slightly less than its nominal width.
    let most = (width * 0.9).max(1.0);
    let (mut lines, mut used) = (1.0, 0.0);
    for word in text.split(' ') {
        let length = word.chars().count() as f64;
        if used > 0.0 && used + 1.0 + length > most {
            lines += 1.0;
            used = 0.0;
        }
        // A word that is longer than a line continues in the next.
        lines += ((length / most).ceil() - 1.0).max(0.0);
        used += length + if used > 0.0 { 1.0 } else { 0.0 };
    }
    lines
}

/// The column of systems is as wide as the longest name, up to a limit.
fn fit_systems(sheet: &mut Worksheet, result: &ResultFile) -> Result<(), XlsxError> {
    const WIDEST: f64 = 60.0;
    let longest =
        series::from_result(result).iter().map(|series| series.title.chars().count()).max().unwrap_or(0);
    sheet.set_column_width(0, (longest as f64 + 2.0).clamp(SUMMARY_COLUMNS[0].1, WIDEST))?;
    Ok(())
}

/// Charts of all systems, at most this many curves in each.
fn insert_charts(sheet: &mut Worksheet, across: &str, spans: &[Span], below: u32) -> Result<(), XlsxError> {
    /// Rows and columns that a chart takes.
    const HEIGHT: u32 = 26;
    const WIDTH: u16 = 5;
    const CURVES: usize = 8;
    let charts = [
        ("Requests Per Second", RATE, "requests/s"),
        ("Throughput", THROUGHPUT, "bytes/s"),
        ("Average Latency", LATENCY, "ms"),
        ("99th Percentile of the Latency", P99, "ms"),
    ];
    let groups = spans.len().div_ceil(CURVES);
    // Evenly: eight and one would leave a chart with one curve.
    let curves = spans.len().div_ceil(groups.max(1)).max(1);
    // On paper each group of four has its own page, so that no chart is cut.
    let pages = (0..groups).map(|group| below + (group * charts.len() / 2) as u32 * HEIGHT);
    sheet.set_page_breaks(&pages.collect::<Vec<_>>())?;
    // A chart without a series would be refused, so it is not made.
    for (group, spans) in spans.chunks(curves).enumerate() {
        for (index, (name, column, unit)) in charts.into_iter().enumerate() {
            let title =
                if groups > 1 { format!("{name}, {} of {groups}", group + 1) } else { name.to_owned() };
            let row = below + (group * charts.len() + index) as u32 / 2 * HEIGHT;
            let chart = summary_chart((&title, across), column, unit, spans);
            sheet.insert_chart(row, (index as u16 % 2) * WIDTH, &chart)?;
        }
    }
    Ok(())
}

/// The markers of the systems of a chart: they differ without colours, too.
const MARKERS: [ChartMarkerType; 8] = [
    ChartMarkerType::Circle,
    ChartMarkerType::Square,
    ChartMarkerType::Triangle,
    ChartMarkerType::Diamond,
    ChartMarkerType::X,
    ChartMarkerType::Star,
    ChartMarkerType::LongDash,
    ChartMarkerType::ShortDash,
];

fn summary_chart((title, across): (&str, &str), column: u16, unit: &str, spans: &[Span]) -> Chart {
    let mut chart = Chart::new(ChartType::ScatterStraightWithMarkers);
    chart.title().set_name(title);
    chart.x_axis().set_name(across);
    chart.y_axis().set_name(unit).set_min(0);
    chart.legend().set_position(ChartLegendPosition::Bottom);
    chart.set_width(640).set_height(500).set_alt_text(format!("{title} over {across}, a curve a system"));
    for (index, span) in spans.iter().enumerate() {
        chart
            .add_series()
            .set_name(&span.title)
            .set_categories((SUMMARY, span.first, CLIENTS, span.last, CLIENTS))
            .set_values((SUMMARY, span.first, column, span.last, column))
            .set_marker(ChartMarker::new().set_type(MARKERS[index % MARKERS.len()]).set_size(7));
    }
    chart
}

fn fairness_chart(span: &Span) -> Chart {
    let mut chart = Chart::new(ChartType::Scatter);
    chart.title().set_name(&format!("Average Latency of each client: {}", span.title));
    chart.x_axis().set_name("client");
    chart.y_axis().set_name("ms").set_min(0);
    chart.set_width(640).set_height(380).set_alt_text("the average latency of each client at the peak");
    chart
        .add_series()
        .set_name(&span.title)
        .set_categories((CLIENT_DATA, span.first, 2, span.last, 2))
        .set_values((CLIENT_DATA, span.first, 6, span.last, 6));
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the files in the archive: they are not compressed.
    fn holds(bytes: &[u8], name: &str) -> bool {
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    }

    #[test]
    fn the_workbook_has_its_sheets_and_charts() {
        let bytes = workbook(&touchstone_lab::sample::result(), &[]).unwrap();
        for name in ["sheet1.xml", "sheet2.xml", "sheet3.xml", "charts/chart5.xml"] {
            assert!(holds(&bytes, name), "{name}");
        }
        assert!(!holds(&bytes, "charts/chart6.xml"));
        assert_eq!(
            workbook(&touchstone_lab::sample::result(), &[]).unwrap(),
            bytes,
            "the same result, the same workbook"
        );
    }

    #[test]
    fn many_systems_have_several_charts() {
        let mut result = touchstone_lab::sample::result();
        let one = result.systems[0].clone();
        result.systems = vec![one; 10];
        let bytes = workbook(&result, &[]).unwrap();
        // Four of five systems each, twice, and that of the clients.
        assert!(holds(&bytes, "charts/chart9.xml") && !holds(&bytes, "charts/chart10.xml"));
    }

    #[test]
    fn texts_are_broken_between_words() {
        for (text, width, expected) in [
            ("", 10.0, 1.0),
            ("Errors", 10.0, 1.0),
            ("99th Percentile (ms)", 14.0, 3.0),
            ("Server CPU (µs/request)", 14.0, 2.0),
            ("a".repeat(25).as_str(), 10.0, 3.0),
        ] {
            assert_eq!(lines(text, width), expected, "{text}");
        }
    }

    #[test]
    fn what_was_not_measured_or_is_no_number_makes_no_fault() {
        let mut result = touchstone_lab::sample::result();
        result.systems[0].mixes[0].server = None;
        result.systems[0].mixes[0].requests_per_second = f64::NAN;
        result.systems[0].title = "x".repeat(40_000);
        result.systems[1].mixes.clear();
        result.systems[2].mixes.iter_mut().for_each(|mix| mix.client_rows.clear());
        assert!(workbook(&result, &[]).is_ok());
        result.systems.clear();
        assert!(workbook(&result, &[]).is_ok());
    }
}
