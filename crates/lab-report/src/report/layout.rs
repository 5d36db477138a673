//! What can be seen of the pages without scrolling, measured in a real browser: at 390 pixels the first
//! figure of every table, at 1280 pixels the remarks of the Summary Report and every column of the page of
//! the reports of 1996 to 2000. No page scrolls sideways as a whole.

use super::browser::{self, LOOKS, Viewport};
use super::{fixture, html, reference_html};
use touchstone_lab::result::ResultFile;

/// For each table: its caption, whether its first figure is in its visible part, and how far its columns
/// extend beyond that. A figure is a cell that is not formatted as words.
const MEASURE: &str = r#"
addEventListener("load", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
  const tables = [...document.querySelectorAll("table")].map((table) => {
    const region = (table.closest(".scroll") ?? table).getBoundingClientRect();
    const seen = Math.min(region.right, innerWidth);
    const rows = [...table.querySelectorAll("tbody tr")];
    const figures = rows.map((row) => [...row.cells].find((cell) => cell.tagName === "TD"
      && !cell.classList.contains("words") && cell.textContent.trim())).filter((cell) => cell);
    const hidden = figures.filter((cell) => cell.getBoundingClientRect().right > seen + 1);
    const first = table.querySelector("tbody th[scope=row]");
    return {
      caption: table.caption?.textContent ?? "", rows: rows.length, figures: figures.length,
      hidden: hidden.length, example: hidden[0]?.parentElement.textContent ?? "",
      beyond: table.getBoundingClientRect().right - seen,
      header: first?.getBoundingClientRect().width ?? 0,
    };
  });
  const clipped = [...document.querySelectorAll("svg.chart text")].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.width > 0 && (box.left < -1 || box.right > innerWidth + 1);
  }).map((text) => text.textContent);
  parent.postMessage(encodeURIComponent(JSON.stringify({
    width: innerWidth, page: document.documentElement.scrollWidth, tables, clipped,
  })), "*");
});
"#;

/// A result with long names, several runs, and a load engine at its limit, so that there are remarks.
fn with_remarks() -> ResultFile {
    let mut result = touchstone_lab::sample::result();
    for system in &mut result.systems {
        let again = system.mixes.iter().map(|mix| {
            let mut mix = mix.clone();
            mix.run = 2;
            mix
        });
        let again: Vec<_> = again.collect();
        system.mixes.extend(again);
        for mix in &mut system.mixes {
            mix.generator_saturated = Some(
                "its busiest thread used 0.98 of a processor, and 12 % of the requests were late".into(),
            );
            mix.server.as_mut().expect("watched").cpu_share = 0.6;
        }
    }
    touchstone_lab::derived::make(&mut result);
    result
}

/// SPICE with more interfaces and systems than a drawing has curves.
pub(super) fn many() -> ResultFile {
    let mut result = touchstone_lab::sample::spice();
    let template = result.systems[0].clone();
    result.systems.clear();
    for (number, name) in ["touchstone", "nginx", "h2o", "lighttpd", "Apache httpd"].iter().enumerate() {
        let mut system = template.clone();
        system.name = (*name).to_owned();
        system.title = format!("{name} 2.4.71");
        for mix in &mut system.mixes {
            mix.requests_per_second *= 1.0 - number as f64 * 0.13;
            mix.bytes_per_second *= 1.0 - number as f64 * 0.13;
            mix.megabits_per_second *= 1.0 - number as f64 * 0.13;
            mix.latency.mean_us /= 1.0 - number as f64 * 0.13;
        }
        result.systems.push(system);
    }
    touchstone_lab::derived::make(&mut result);
    result
}

fn pages() -> Vec<(&'static str, String)> {
    let mut conformance = touchstone_lab::sample::result();
    conformance.conformance = Some(touchstone_lab::sample::conformance());
    vec![
        ("full", html(&fixture::full(), None)),
        ("spice", html(&fixture::spice(), None)),
        ("many", html(&many(), None)),
        ("remarks", html(&with_remarks(), None)),
        ("incomplete", html(&fixture::incomplete(), None)),
        ("accelerated", html(&touchstone_lab::sample::accelerated(), None)),
        ("conformance", html(&conformance, None)),
        ("reference", reference_html(&fixture::full())),
        ("reference of SPICE", reference_html(&fixture::spice())),
    ]
}

#[test]
fn what_a_reader_needs_is_seen_without_scrolling() {
    let Some(program) = browser::program() else {
        return touchstone_lab::sample::skipped("the layout of the pages (install chromium)");
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut faults = Vec::new();
    for (name, page) in pages() {
        for look in LOOKS.into_iter().filter(|look| !look.is_dark) {
            let found = browser::run(program, directory.path(), &page, &[MEASURE], look);
            assert_eq!(found["width"].as_u64(), Some(u64::from(look.width)), "the frame has its width");
            faults.extend(faults_of(name, look, &found));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn faults_of(name: &str, look: Viewport, found: &serde_json::Value) -> Vec<String> {
    let mut faults = Vec::new();
    if found["page"].as_u64() > Some(u64::from(look.width)) {
        faults.push(format!("{name}, {}: the page is {} wide", look.width, found["page"]));
    }
    for text in found["clipped"].as_array().expect("a list") {
        faults.push(format!("{name}, {}: a text of a chart is cut: {text}", look.width));
    }
    let tables = found["tables"].as_array().expect("a list");
    assert!(!tables.is_empty(), "{name}: no table was measured");
    for table in tables {
        let caption = table["caption"].as_str().unwrap_or_default();
        if table["hidden"].as_u64() > Some(0) {
            faults.push(format!(
                "{name}, {}: {} of {} first figures are hidden in: {caption}: {}",
                look.width, table["hidden"], table["figures"], table["example"]
            ));
        }
        let whole = name.starts_with("reference")
            || ["Summary Report", "SPICE: "].iter().any(|start| caption.starts_with(start));
        let beyond = table["beyond"].as_f64().unwrap_or(0.0);
        if look.width == 1280 && whole && beyond > 1.0 {
            faults.push(format!("{name}, {}: {beyond} pixels are clipped of: {caption}", look.width));
        }
    }
    faults
}

/// Writes the pages to the directory of `TOUCHSTONE_PAGES`, for inspection.
#[test]
fn the_pages_can_be_written() {
    let place = std::env::var_os("TOUCHSTONE_PAGES").map(std::path::PathBuf::from);
    for (name, page) in pages() {
        assert!(page.starts_with("<!DOCTYPE html>"), "{name}");
        if let Some(place) = &place {
            std::fs::write(place.join(format!("{}.html", name.replace(' ', "-"))), page).expect("written");
        }
    }
}

#[test]
fn no_drawing_has_more_curves_than_a_reader_tells_apart() {
    let page = html(&many(), None);
    let mut drawings = 0;
    for svg in page.split("<svg class=\"chart ").skip(1) {
        let svg = &svg[..svg.find("</svg>").expect("it ends")];
        let lines: Vec<&str> = svg.split("<g class=\"hue-").skip(1).collect();
        let hues: Vec<&str> = lines
            .iter()
            .filter(|line| line.contains("class=\"line\""))
            .map(|line| line.split('"').next().unwrap_or_default())
            .collect();
        let mut different = hues.clone();
        different.sort_unstable();
        different.dedup();
        assert!(hues.len() <= super::style::CURVES_MAX, "{} curves", hues.len());
        // The percentiles of one system have one colour, and differ by dashes and markers.
        assert!(different.len() == hues.len() || different.len() == 1, "{hues:?}");
        drawings += 1;
    }
    assert!(drawings > 8, "{drawings}");
    assert!(page.contains("<details class=\"further-curves\">"), "the others open on demand");
}
