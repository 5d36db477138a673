//! Tests of the whole page: that it is well formed, loads no other files, is safe against injected markup,
//! and has in its tables what it draws.

use std::collections::HashSet;

use super::fixture;
use super::{Side, SuitesDiffer, write_html};
use touchstone_lab::result::{HandshakeRecord, MachineFacts, ResultFile, TlsRecord};

/// The report without raw data.
fn html(result: &ResultFile) -> String {
    super::html(result, None)
}

/// The report of several results without raw data.
fn side_by_side(results: &[(String, ResultFile)]) -> Result<String, SuitesDiffer> {
    let side = |(label, result): &(String, ResultFile)| Side {
        label: label.clone(),
        result: result.clone(),
        raw: None,
    };
    super::side_by_side(&results.iter().map(side).collect::<Vec<_>>())
}

/// A tag of the page, or the text between two.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Open(String, Vec<(String, String)>),
    Close(String),
    Text(String),
}

/// Elements that have no end tag.
const VOID: [&str; 2] = ["meta", "br"];

/// Splits a page strictly: everything that a browser would have to correct is a failure of the test.
fn tokens(page: &str) -> Vec<Token> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    let mut tokens = Vec::new();
    while let Some(start) = rest.find('<') {
        if start > 0 {
            tokens.push(Token::Text(unescaped(&rest[..start])));
        }
        let end = start + end_of_tag(&rest[start..]);
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            tokens.push(Token::Close(name.to_owned()));
            continue;
        }
        let (name, attributes) = attributes(tag);
        tokens.push(Token::Open(name.clone(), attributes));
        if name == "style" || name == "script" {
            let close = rest.find("</").expect("raw text ends");
            tokens.push(Token::Text(rest[..close].to_owned()));
            rest = &rest[close..];
        }
    }
    assert_eq!(rest.trim(), "");
    tokens
}

fn end_of_tag(text: &str) -> usize {
    let mut quoted = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'>' if !quoted => return index,
            b'<' if index > 0 && !quoted => panic!("a tag in a tag: {}", &text[..index]),
            _ => {}
        }
    }
    panic!("a tag without end")
}

fn attributes(tag: &str) -> (String, Vec<(String, String)>) {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let (key, after) =
            rest.split_once("=\"").unwrap_or_else(|| panic!("an attribute without value: {tag}"));
        let (value, after) = after.split_once('"').expect("a closing quote");
        assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{key}");
        assert!(!attributes.iter().any(|(other, _)| other == key), "{key} twice: {tag}");
        attributes.push((key.to_owned(), unescaped(value)));
        rest = after.trim_start();
    }
    (name.to_owned(), attributes)
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn value<'t>(token: &'t Token, key: &str) -> Option<&'t str> {
    match token {
        Token::Open(_, attributes) => {
            attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
        }
        _ => None,
    }
}

fn is_open(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Open(name, _) if name == wanted)
}

fn is_close(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Close(name) if name == wanted)
}

/// The tokens of every element of a name, with its own tags.
fn elements<'t>(tokens: &'t [Token], name: &str) -> Vec<&'t [Token]> {
    let mut found = Vec::new();
    for (start, _) in tokens.iter().enumerate().filter(|(_, token)| is_open(token, name)) {
        let mut depth = 0;
        let end = tokens[start..]
            .iter()
            .position(|token| {
                depth += i32::from(is_open(token, name)) - i32::from(is_close(token, name));
                depth == 0
            })
            .expect("an end");
        found.push(&tokens[start..=start + end]);
    }
    found
}

fn text(tokens: &[Token]) -> String {
    tokens
        .iter()
        .filter_map(|token| if let Token::Text(text) = token { Some(text.as_str()) } else { None })
        .collect()
}

fn all_fixtures() -> Vec<(&'static str, String)> {
    let pair = [("monday".to_owned(), fixture::full()), ("tuesday".to_owned(), fixture::incomplete())];
    vec![
        ("full", html(&fixture::full())),
        ("incomplete", html(&fixture::incomplete())),
        ("single", html(&fixture::single())),
        ("spice", html(&fixture::spice())),
        ("empty", html(&fixture::empty())),
        ("hostile", html(&fixture::hostile())),
        ("pair", side_by_side(&pair).expect("the same suite")),
    ]
}

#[test]
fn every_page_is_well_formed() {
    for (name, page) in all_fixtures() {
        let mut open: Vec<String> = Vec::new();
        for token in tokens(&page) {
            match token {
                Token::Open(tag, _) if !VOID.contains(&tag.as_str()) => open.push(tag),
                Token::Close(tag) => assert_eq!(open.pop(), Some(tag), "{name}"),
                _ => {}
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
    }
}

#[test]
fn every_id_is_unique_and_every_reference_exists() {
    for (name, page) in all_fixtures() {
        let tokens = tokens(&page);
        let mut ids = HashSet::new();
        for id in tokens.iter().filter_map(|token| value(token, "id")) {
            assert!(ids.insert(id), "{name}: {id} twice");
            assert!(!id.contains(' '), "{name}: {id}");
        }
        for key in ["aria-labelledby", "aria-describedby", "aria-controls"] {
            for references in tokens.iter().filter_map(|token| value(token, key)) {
                for id in references.split(' ') {
                    assert!(ids.contains(id), "{name}: {key} {id} does not exist");
                }
            }
        }
        for link in tokens.iter().filter_map(|token| value(token, "href")) {
            assert!(ids.contains(link.strip_prefix('#').expect("an inner link")), "{name}: {link}");
        }
    }
}

#[test]
fn nothing_is_loaded_and_nothing_foreign_runs() {
    const FORBIDDEN: [&str; 15] = [
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "input",
        "video",
        "audio",
        "image",
        "use",
        "foreignObject",
        "animate",
        "set",
    ];
    for (name, page) in all_fixtures() {
        let tokens = tokens(&page);
        for token in &tokens {
            let Token::Open(tag, attributes) = token else { continue };
            assert!(!FORBIDDEN.contains(&tag.as_str()), "{name}: <{tag}>");
            for (key, _) in attributes {
                assert!(!key.starts_with("on"), "{name}: {key}");
                assert!(
                    !["src", "style", "srcset", "action", "xlink:href"].contains(&key.as_str()),
                    "{name}: {key}"
                );
            }
        }
        assert_eq!(tokens.iter().filter(|token| is_open(token, "script")).count(), 1, "{name}");
        let style = text(elements(&tokens, "style")[0]);
        assert!(!style.contains("url(") && !style.contains("@import"), "{name}");
    }
}

#[test]
fn control_and_direction_characters_do_not_get_through() {
    let page = html(&fixture::hostile());
    for character in ['\0', '\u{1b}', '\u{202e}'] {
        assert!(!page.contains(character), "{character:?}");
    }
    assert!(page.contains("\u{27e8}U+202E\u{27e9}") && page.contains('␛'));
}

#[test]
fn coordinates_are_always_numbers() {
    for (name, page) in all_fixtures() {
        for svg in elements(&tokens(&page), "svg") {
            for token in svg {
                let Token::Open(tag, attributes) = token else { continue };
                for (key, value) in attributes {
                    let coordinates =
                        ["d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "viewBox", "data-x"];
                    if coordinates.contains(&key.as_str()) {
                        let numbers = value.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
                        for number in numbers.filter(|number| !number.is_empty()) {
                            number.parse::<f64>().unwrap_or_else(|_| panic!("{name}: <{tag} {key}={value}>"));
                        }
                        assert!(!value.contains("NaN") && !value.contains("inf"), "{name}: {value}");
                    }
                    let lengths = ["width", "height"];
                    assert!(
                        !lengths.contains(&key.as_str()) || !value.starts_with('-'),
                        "{name}: {key}={value}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_chart_has_a_name_a_description_and_its_numbers_as_a_table() {
    for (name, page) in all_fixtures() {
        let tokens = tokens(&page);
        let mut charts = 0;
        for figure in elements(&tokens, "figure") {
            let images: Vec<_> = elements(figure, "svg")
                .into_iter()
                .filter(|svg| value(&svg[0], "role") == Some("img"))
                .collect();
            if images.is_empty() {
                continue;
            }
            charts += images.len();
            for image in &images {
                assert!(is_open(&image[1], "title") && !text(&image[1..3]).is_empty(), "{name}");
                assert_eq!(
                    value(&image[0], "aria-labelledby").map(|ids| ids.split(' ').count()),
                    Some(2),
                    "{name}"
                );
                assert!(image.iter().any(|token| is_open(token, "desc")), "{name}");
            }
            let cells: HashSet<String> =
                elements(figure, "td").into_iter().map(|cell| text(cell).trim().to_owned()).collect();
            assert!(!cells.is_empty(), "{name}: {:?}", value(&figure[0], "id"));
            for figure in shown_figures(figure) {
                assert!(cells.contains(&figure), "{name}: {figure} is drawn, and in no table");
            }
        }
        assert!(name == "empty" || charts > 10, "{name}: {charts}");
    }
}

/// The figures in the words of the points, dots and targets: what follows the colon, each up to its unit.
fn shown_figures(figure: &[Token]) -> Vec<String> {
    let marked = |group: &[Token]| {
        let class = value(&group[0], "class");
        (class == Some("point") || class == Some("dot") || class == Some("target")).then(|| text(group))
    };
    let groups = elements(figure, "g").into_iter().chain(elements(figure, "rect"));
    groups
        .filter_map(marked)
        .flat_map(|words| {
            let (_, figures) = words.rsplit_once(": ").unwrap_or_else(|| panic!("{words}"));
            figures
                .split([',', ' '])
                .next()
                .map(|_| {
                    figures
                        .split(", ")
                        .filter_map(|part| part.split(' ').next())
                        .map(str::to_owned)
                        .collect::<Vec<_>>()
                })
                .unwrap_or_default()
        })
        .filter(|figure| figure != "not")
        .collect()
}

#[test]
fn tables_have_scopes_and_even_rows() {
    for (name, page) in all_fixtures() {
        for table in elements(&tokens(&page), "table") {
            // Cells of rows above that reach into a row, by how many rows they still reach.
            let mut reaching: Vec<(usize, usize)> = Vec::new();
            let mut width = None;
            for row in &elements(table, "tr") {
                let cells: Vec<(usize, usize)> = row
                    .iter()
                    .filter(|token| is_open(token, "th") || is_open(token, "td"))
                    .map(|cell| {
                        let span = |key| value(cell, key).map_or(1, |span| span.parse().expect("a number"));
                        (span("colspan"), span("rowspan"))
                    })
                    .collect();
                let from_above: usize = reaching.iter().map(|(columns, _)| columns).sum();
                let own: usize = cells.iter().map(|(columns, _)| columns).sum();
                assert_eq!(*width.get_or_insert(from_above + own), from_above + own, "{name}: {}", text(row));
                reaching.extend(cells);
                reaching.iter_mut().for_each(|(_, rows)| *rows -= 1);
                reaching.retain(|(_, rows)| *rows > 0);
            }
            for header in elements(table, "th") {
                assert!(value(&header[0], "scope").is_some(), "{name}: {}", text(header));
            }
            assert_eq!(elements(table, "caption").len(), 1, "{name}");
        }
    }
}

#[test]
fn headings_descend_by_one() {
    for (name, page) in all_fixtures() {
        let mut last = 0;
        for token in &tokens(&page) {
            let Token::Open(tag, _) = token else { continue };
            let Some(level) = tag.strip_prefix('h').and_then(|level| level.parse::<u32>().ok()) else {
                continue;
            };
            assert!(level <= last + 1, "{name}: h{level} after h{last}");
            assert!(level > 1 || last == 0, "{name}: a second h1");
            last = level;
        }
        assert!(last > 1, "{name}");
    }
}

#[test]
fn what_was_not_measured_is_said_so() {
    let page = html(&fixture::single());
    let tokens = tokens(&page);
    for id in ["processor-cost", "processor-share", "memory"] {
        let figure =
            elements(&tokens, "figure").into_iter().find(|figure| value(&figure[0], "id") == Some(id));
        assert!(text(figure.expect(id)).contains("not measured"), "{id}");
    }
    for name in ["full", "incomplete", "single", "empty"] {
        let page = all_fixtures().into_iter().find(|fixture| fixture.0 == name).expect("there").1;
        assert!(!page.contains("NaN"), "{name}");
    }
}

#[test]
fn spice_stands_in_the_verdict_with_every_form_and_the_reports() {
    let page = html(&fixture::spice());
    let tokens = tokens(&page);
    let verdict = elements(&tokens, "section")
        .into_iter()
        .find(|section| value(&section[0], "aria-labelledby") == Some("in-words"))
        .expect("a verdict");
    let table = elements(verdict, "table").into_iter().next().expect("a table in the verdict");
    let rows: Vec<Vec<String>> = elements(table, "tbody")
        .into_iter()
        .flat_map(|group| elements(group, "tr"))
        .map(|row| {
            let ends = |from: usize| {
                (from..row.len()).find(|&at| is_close(&row[at], "th") || is_close(&row[at], "td"))
            };
            (0..row.len())
                .filter(|&at| is_open(&row[at], "th") || is_open(&row[at], "td"))
                .map(|at| text(&row[at..ends(at).expect("an end")]))
                .collect()
        })
        .collect();
    let cgi = rows.iter().find(|row| row[0] == "CGI").expect("a row of CGI");
    let expected = [
        "CGI",
        "touchstone 0.1.0",
        "1,200",
        "3.333",
        "2.0\u{a0}%",
        "8.0\u{a0}%",
        "1.7\u{a0}%",
        "1.7\u{a0}%",
        "960.0",
        "1.7\u{a0}%",
    ];
    assert_eq!(cgi[..10], expected);
    assert!(cgi[10].starts_with("17.9\u{a0}% iWS 4.0, 4P"), "{}", cgi[10]);
    let systems: Vec<&str> =
        rows.iter().map(|row| if row.len() == 11 { row[1].as_str() } else { row[0].as_str() }).collect();
    let [ours, theirs] = ["touchstone 0.1.0", "nginx 1.22.1"];
    assert_eq!(systems, [ours, theirs, ours, theirs, ours]);
    let words = text(verdict);
    assert!(words.contains("Not measured: nginx 1.22.1 does not run CGI programs."), "{words}");
    assert!(words.contains("Stronghold 2.4.2 (2000), Tables 1 and 3"), "{words}");
    // Configurations are shown once for each system, curves once for each interface.
    assert_eq!(
        page.matches("touchstone.conf").count(),
        html(&fixture_of_two()).matches("touchstone.conf").count()
    );
    assert!(page.contains("SHTML, touchstone 0.1.0"));
    assert!(!html(&fixture::full()).contains("class=\"spice\""));
}

/// The same two systems without interfaces.
fn fixture_of_two() -> ResultFile {
    let mut result = touchstone_lab::sample::result();
    result.systems.truncate(2);
    result
}

#[test]
fn the_first_screen_answers_five_questions_and_says_how_far_to_trust_them() {
    // The figures of the accelerated sample do not obey Little's law, so that it is invalid.
    let of_class = [
        (fixture::full(), "Indicative: compare the systems of this run"),
        (fixture::spice(), "Indicative: compare the systems of this run"),
        (touchstone_lab::sample::accelerated(), "Invalid: nothing of it may be quoted"),
    ];
    for (result, class) in of_class {
        let page = html(&result);
        let tokens = tokens(&page);
        let first = elements(&tokens, "section").into_iter().next().expect("a section");
        let terms: Vec<String> = elements(first, "dt").into_iter().map(text).collect();
        let questions = [
            "Which server?",
            "Which interface?",
            "How many users?",
            "What breaks first?",
            "What to change first?",
        ];
        assert_eq!(terms, questions);
        for answer in elements(first, "dd") {
            let strong = elements(answer, "strong").into_iter().next().expect("an answer");
            assert!(!text(strong).is_empty() && text(answer).len() > text(strong).len(), "{}", text(answer));
        }
        let words = text(first);
        assert!(words.contains(class), "{words}");
    }
}

#[test]
fn several_runs_of_a_mix_are_one_point_with_a_bar() {
    let mut result = fixture::full();
    for system in &mut result.systems {
        let once = system.mixes.clone();
        for factor in [0.9, 1.1] {
            system.mixes.extend(once.iter().cloned().map(|mut mix| {
                mix.requests_per_second *= factor;
                mix
            }));
        }
    }
    let page = html(&result);
    let tokens = tokens(&page);
    let figure = |id| {
        elements(&tokens, "figure").into_iter().find(|it| value(&it[0], "id") == Some(id)).expect("a figure")
    };
    let bars = figure("requests").iter().filter(|token| value(token, "class") == Some("interval")).count();
    // Three systems of seven mixes, drawn for two widths.
    assert_eq!(bars, 2 * 3 * 7);
    let words = text(figure("requests"));
    assert!(words.contains("from the lowest to the highest of them"), "{words}");
    // 55,943 is the median of the runs of the peak.
    assert!(words.contains("50,349 to 61,537") && words.contains("55,943"), "{words}");
    let summary = elements(&tokens, "table")
        .into_iter()
        .find(|table| text(table).contains("Summary Report: every mix"))
        .expect("the Summary Report");
    assert_eq!(
        elements(summary, "tbody").into_iter().map(|part| elements(part, "tr").len() - 1).sum::<usize>(),
        21
    );
    assert!(text(summary).contains("lowest to highest run"));
}

#[test]
fn latencies_that_spread_far_are_spaced_by_powers_of_ten_and_say_so() {
    let latency = |result: &ResultFile| {
        let page = html(result);
        let start = page.find("id=\"latency\"").unwrap();
        page[start..start + page[start..].find("id=\"percentiles\"").unwrap()].to_owned()
    };
    let far = latency(&fixture::full());
    assert!(far.contains("(log scale)</text>") && far.contains("spaced by powers of ten"), "{far}");
    let near = latency(&fixture::single());
    assert!(!near.contains("(log scale)</text>") && !near.contains("powers of ten"), "{near}");
}

#[test]
fn an_incomplete_run_says_so_first() {
    let page = html(&fixture::incomplete());
    let banner = page.find("This run is incomplete").expect("a banner");
    assert!(banner < page.find("id=\"verdict\"").expect("a verdict"));
    assert!(page.contains("nginx ended with signal 9 in the mix 8_clients"));
    assert!(page.contains("worker process 4212 exited on signal 9"));
    assert!(!html(&fixture::full()).contains("This run is incomplete"));
}

#[test]
fn the_same_result_gives_the_same_page() {
    assert_eq!(html(&fixture::full()), html(&fixture::full()));
}

#[test]
fn systems_of_one_name_are_told_apart() {
    let mut result = fixture::full();
    result.systems[1].title = result.systems[0].title.clone();
    let page = html(&result);
    assert!(page.contains("touchstone 0.1.0 #2"));
}

#[test]
fn results_of_one_suite_stand_side_by_side() {
    let pair = [("monday".to_owned(), fixture::full()), ("tuesday".to_owned(), fixture::full())];
    let page = side_by_side(&pair).expect("the same suite");
    for name in ["nginx 1.22.1 (monday)", "nginx 1.22.1 (tuesday)", "the limit (monday)"] {
        assert!(page.contains(name), "{name}");
    }
    let mut other = fixture::full();
    other.machine = MachineFacts { host: "lab-2".to_owned(), ..other.machine };
    let page =
        side_by_side(&[("a".to_owned(), fixture::full()), ("b".to_owned(), other)]).expect("the same suite");
    assert!(page.contains("different machines"));
}

#[test]
fn handshakes_are_told_where_there_were_any() {
    let columns = ["Full TLS handshakes in all", "Resumed in all"];
    let plain = html(&fixture::full());
    assert!(columns.iter().all(|column| !plain.contains(column)));
    let mut result = fixture::full();
    result.suite.tls = Some(TlsRecord { version: Some("1.3".to_owned()), resumption_share: 0.25 });
    result.systems[0].mixes[0].tls_handshakes = Some(HandshakeRecord { full: 60_001, resumed: 20_002 });
    let page = html(&result);
    let texts = ["60,001", "20,002", "1.3 alone; 25 % of the handshakes resumed a session"];
    assert!(columns.iter().chain(&texts).all(|text| page.contains(text)));
}

#[test]
fn different_suites_are_refused() {
    type Change = fn(&mut ResultFile);
    let changes: [(Change, &str); 7] = [
        (|result| result.suite.name = "spice".to_owned(), "name (webbench-1.1-static against spice)"),
        (|result| result.suite.quick = false, "form (quick against whole)"),
        (|result| result.suite.keep_alive = false, "connections (kept against new)"),
        (
            |result| result.suite.http_version = "HTTP/1.0".to_owned(),
            "HTTP version (HTTP/1.1 against HTTP/1.0)",
        ),
        (
            |result| result.suite.tls = Some(TlsRecord { version: None, resumption_share: 0.0 }),
            "TLS (none against 1.2 or 1.3, as the system chose; full handshakes)",
        ),
        (|result| result.suite.classes[0].weight_percent = 8.0, "the classes of the workload"),
        (
            |result| result.suite.interfaces = fixture::spice().suite.interfaces,
            "the interfaces (none against static, shtml and cgi)",
        ),
    ];
    for (change, difference) in changes {
        let mut other = fixture::full();
        change(&mut other);
        let refused = side_by_side(&[("a".to_owned(), fixture::full()), ("b".to_owned(), other)]);
        let expected =
            SuitesDiffer { first: "a".to_owned(), second: "b".to_owned(), difference: difference.to_owned() };
        assert_eq!(refused, Err(expected));
    }
}

#[test]
fn the_report_is_written_whole_and_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = write_html(&fixture::full(), directory.path()).expect("written");
    let again = write_html(&fixture::single(), directory.path()).expect("written over");
    assert_eq!(path, again);
    assert_eq!(std::fs::read_to_string(path).expect("readable"), html(&fixture::single()));
    assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 1);
    assert!(write_html(&fixture::full(), &directory.path().join("none")).is_err());
}

#[test]
#[ignore = "writes every fixture's report into $TOUCHSTONE_SAMPLES, to be looked at"]
fn samples() {
    let directory =
        std::path::PathBuf::from(std::env::var("TOUCHSTONE_SAMPLES").expect("TOUCHSTONE_SAMPLES is set"));
    for (name, page) in all_fixtures() {
        super::write_file(&directory.join(format!("{name}.html")), &page).expect("written");
    }
}
