//! The statements of a result in all its forms, piece by piece: the blocks and tables of the page, the lines
//! of the terminal, the last sheet and the remarks of the workbook, the rows of Markdown, the messages of
//! JUnit.

use crate::export::{junit, markdown, remarks_in_workbook, told_in_workbook};
use crate::planning::{Assumptions, plan};
use crate::{answers, report, run_rules, table};
use touchstone_lab::result::ResultFile;
use touchstone_lab::{series, verdict, warnings};

/// A statement and its place.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) place: String,
    pub(super) text: String,
}

/// A table of the page.
#[derive(Debug, Default)]
pub(super) struct PageTable {
    pub(super) caption: String,
    /// The cells of each row, with the heading of its part.
    pub(super) rows: Vec<(String, Vec<String>)>,
}

/// Elements whose text is no statement.
const LEFT_OUT: [&str; 7] = ["head", "style", "script", "svg", "nav", "pre", "table"];
/// Elements that begin and end a statement.
const BLOCKS: [&str; 20] = [
    "p",
    "li",
    "dd",
    "dt",
    "h1",
    "h2",
    "h3",
    "div",
    "strong",
    "caption",
    "span",
    "summary",
    "section",
    "ul",
    "figcaption",
    "figure",
    "header",
    "footer",
    "a",
    "ol",
];

/// The statements of the page outside its tables, and its tables.
fn page(html: &str) -> (Vec<String>, Vec<PageTable>) {
    let (mut blocks, mut text) = (Vec::new(), String::new());
    let mut tables: Vec<PageTable> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    let mut cell: Option<String> = None;
    let (mut part, mut is_part) = (String::new(), false);
    for piece in html.split('<') {
        let (tag, rest) = piece.split_once('>').unwrap_or(("", piece));
        let (is_end, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
        if BLOCKS.contains(&name) && !text.trim().is_empty() && cell.is_none() {
            blocks.push(std::mem::take(&mut text));
        }
        if LEFT_OUT.contains(&name) {
            if is_end {
                left_out.pop();
            } else {
                left_out.push(name.to_owned());
            }
        }
        let in_table = left_out.last().is_some_and(|name| name == "table");
        match (in_table, name, is_end) {
            (true, "table", false) => {
                tables.push(PageTable::default());
                part.clear();
            }
            (true, "tr", false) => {
                is_part = tag.contains("\"part\"");
                tables.last_mut().expect("a table").rows.push((part.clone(), Vec::new()));
            }
            (true, "td" | "th" | "caption", false) => cell = Some(String::new()),
            (true, "td" | "th" | "caption", true) => {
                let text = plain(&cell.take().unwrap_or_default());
                let table = tables.last_mut().expect("a table");
                match name {
                    "caption" => table.caption = text,
                    _ if is_part => part = text,
                    _ => table.rows.last_mut().expect("a row").1.push(text),
                }
            }
            _ => {}
        }
        match &mut cell {
            Some(cell) => cell.push_str(rest),
            None if left_out.is_empty() => text.push_str(rest),
            None => {}
        }
    }
    blocks.push(text);
    (blocks.iter().map(|block| plain(block)).filter(|block| !block.is_empty()).collect(), tables)
}

/// Text as a reader sees it.
fn plain(html: &str) -> String {
    let text = html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.replace('\u{a0}', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The sentences of a text: they end at a point before a capital letter.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let text = text.trim_start_matches(": ");
    let mut all = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(". ") {
        if text[at + 2..].starts_with(|next: char| next.is_uppercase() || next.is_ascii_digit()) {
            all.push(text[start..=at].trim().to_owned());
            start = at + 2;
        }
    }
    all.push(text[start..].trim().to_owned());
    all.retain(|sentence| !sentence.is_empty());
    all
}

/// Every statement of every form, and the page's tables.
pub(super) fn of(result: &ResultFile) -> (Vec<Statement>, Vec<PageTable>) {
    let (blocks, tables) = page(&report::html(result, None));
    let mut all = Vec::new();
    let mut add = |place: &str, text: &str| {
        let text = plain(text);
        all.extend(sentences(&text).into_iter().map(|text| Statement { place: place.to_owned(), text }));
    };
    blocks.iter().for_each(|block| add("page", block));
    verdict::sentences(result, &[]).iter().for_each(|sentence| add("terminal", sentence));
    for answer in answers::of(result, &plan(result, &[], &Assumptions::default())) {
        add("terminal", &answer.answer);
        add("terminal", &answer.because);
    }
    warnings::each_once(&result.warnings).iter().for_each(|warning| add("terminal", warning));
    let standing = run_rules::Assessment::of(result, None);
    for rule in &standing.rules {
        let finding = &rule.finding;
        let capital = finding[..1].to_uppercase() + &finding[1..];
        add("run rules", &format!("{capital}."));
    }
    for (name, text) in told_in_workbook(result, &[]) {
        if ["Verdict", "Warning"].contains(&name.as_str()) {
            add("workbook", &text);
        }
    }
    (all, tables)
}

/// The remarks on each mix in the table of the terminal and in the workbook: system, mix, run, remarks.
pub(super) fn remarks(result: &ResultFile) -> Vec<(String, String, u64, Vec<String>)> {
    let mut all = Vec::new();
    for series in series::from_result(result) {
        for mix in &series.mixes {
            let own = remarks_in_workbook(&series, mix).iter().map(|it| (*it).to_owned()).collect();
            all.push((series.title.clone(), mix.name.clone(), mix.run, own));
        }
    }
    all
}

/// The lines of the terminal's table.
pub(super) fn lines(result: &ResultFile) -> Vec<String> {
    table::summary(result).lines().map(str::to_owned).collect()
}

/// The rows of Markdown's first table, cell by cell.
pub(super) fn rows_of_markdown(result: &ResultFile) -> Vec<Vec<String>> {
    let text = markdown(result);
    let rows = text.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(plain).collect()).collect()
}

/// The tests of JUnit that did not pass: suite, name, message.
pub(super) fn failures_of_junit(result: &ResultFile) -> Vec<(String, String, String)> {
    let text = junit(result);
    let attribute = |tag: &str, name: &str| {
        let start = tag.find(&format!("{name}=\"")).expect("the attribute") + name.len() + 2;
        plain(&tag[start..start + tag[start..].find('"').expect("it ends")])
    };
    let mut all = Vec::new();
    let mut test = None;
    for piece in text.split('<') {
        if piece.starts_with("testcase") {
            test = Some((attribute(piece, "classname"), attribute(piece, " name")));
        } else if piece.starts_with("failure") || piece.starts_with("skipped") {
            let (suite, name) = test.clone().expect("a test");
            all.push((suite, name, attribute(piece, "message")));
        }
    }
    all
}

#[test]
fn a_page_is_read_block_by_block_and_table_by_table() {
    let html = "<head><title>x</title></head><p>One of nginx 1.22.1. Two &lt; three.</p>\
                <svg><text>no</text></svg>\
                <table><caption><span>C</span></caption><tr><th>a</th></tr><tbody><tr class=\"part\"><th>of \
                b</th></tr><tr><th>r</th><td>1</td></tr></table><p><strong>Invalid</strong>: x</p>";
    let (blocks, tables) = page(html);
    assert_eq!(blocks, ["One of nginx 1.22.1. Two < three.", "Invalid", ": x"]);
    assert_eq!(sentences(&blocks[0]), ["One of nginx 1.22.1.", "Two < three."]);
    assert_eq!(tables[0].caption, "C");
    let row = ("of b".to_owned(), vec!["r".to_owned(), "1".to_owned()]);
    assert_eq!(tables[0].rows.last(), Some(&row));
}
