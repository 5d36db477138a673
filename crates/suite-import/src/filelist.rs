//! File lists of WebStone, in both forms.
//!
//! Version 2: a line is `URL [weight] [#bytes]`; a weight that is missing or not above 0 is 1
//! (parse_file_list.c of 2.0.1). Text after `#` is a comment, which may begin with the size of the file in
//! bytes; otherwise a name such as `file5k.html` contains it. Version 1: the number of pages, and for each a
//! line `weight files` and this many lines with a file each; the weights sum to 100 (white paper, section 7).
//! The first line that is not a comment shows the version.

use super::url_list::place_of;
use super::{ImportError, OmittedEntries, Page, RecordedRequest, Recording};

/// The most pages that WebStone accepts (MAXNUMOFPAGES), and files of a page (the white paper's limit).
const PAGES_MAX: usize = 100;
const FILES_OF_PAGE_MAX: usize = 50;

/// A line with content, with its number.
type Line<'t> = (usize, &'t str);

/// Reads a list; `file` names it in messages.
pub fn read(file: &str, text: &str) -> Result<Recording, ImportError> {
    let lines: Vec<Line<'_>> = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.trim().trim_start_matches('\u{feff}')))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let Some((first, rest)) = lines.split_first() else {
        return Err(ImportError::new(
            file,
            0,
            "there is no file in it: a line of version 2 is \"/file500.html 350 #500\"",
        ));
    };
    match without_comment(first.1).0.parse::<usize>() {
        Ok(pages) => version_1(file, (first.0, pages), rest),
        Err(_) => version_2(file, &lines),
    }
}

/// A line without the comment at its end, and the comment.
fn without_comment(line: &str) -> (&str, Option<&str>) {
    match line.split_once('#') {
        Some((line, comment)) => (line.trim_end(), Some(comment)),
        None => (line, None),
    }
}

/// The bytes of the file, if a comment begins with them.
fn bytes_of_comment(comment: &str) -> Option<u64> {
    comment.split(|c: char| c == '#' || c.is_ascii_whitespace()).find(|word| !word.is_empty())?.parse().ok()
}

fn version_2(file: &str, lines: &[Line<'_>]) -> Result<Recording, ImportError> {
    let (mut recording, mut left_out) = (of_webstone(), OmittedEntries::default());
    for &(number, line) in lines {
        let wrong = |reason: String| ImportError::new(file, number, reason);
        let (line, comment) = without_comment(line);
        let bytes = comment.and_then(bytes_of_comment);
        let mut words = line.split_ascii_whitespace();
        let place = words.next().ok_or_else(|| wrong("there is no URL before #".to_string()))?;
        let weight = match words.next().map(str::parse::<i64>) {
            None => 1,
            Some(Ok(weight)) => weight.max(1),
            Some(Err(_)) => return Err(wrong("the weight after the URL must be a whole number".to_string())),
        };
        if words.next().is_some() {
            return Err(wrong("a line is a URL, a weight and # with the file's bytes".to_string()));
        }
        if let Some(request) = request(&mut recording, &mut left_out, number, place).map_err(wrong)? {
            let bytes = bytes.or(request.bytes);
            recording.requests.push(RecordedRequest { weight: weight as f64, bytes, ..request });
        }
    }
    // Each file is its own page, which the report counts separately.
    if recording.requests.len() <= PAGES_MAX {
        let page = |(place, request): (usize, &RecordedRequest)| Page {
            weight: request.weight,
            requests: vec![place],
        };
        recording.pages = recording.requests.iter().enumerate().map(page).collect();
    }
    recording.notes = left_out.notes();
    Ok(recording)
}

fn of_webstone() -> Recording {
    Recording { is_webstone: true, ..Recording::default() }
}

fn version_1(file: &str, pages: (usize, usize), mut lines: &[Line<'_>]) -> Result<Recording, ImportError> {
    let (mut recording, mut left_out) = (of_webstone(), OmittedEntries::default());
    let (first, count) = pages;
    if !(1..=PAGES_MAX).contains(&count) {
        return Err(ImportError::new(file, first, format!("{count} pages; WebStone has 1 to {PAGES_MAX}")));
    }
    let mut weights = 0;
    for page in 0..count {
        let Some((&(number, head), rest)) = lines.split_first() else {
            let message = format!("the list should have {count} pages and ends after {page}");
            return Err(ImportError::new(file, first, message));
        };
        let head = without_comment(head).0;
        let words: Vec<Option<usize>> = head.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        let [Some(weight @ 1..=100), Some(files @ 1..=FILES_OF_PAGE_MAX)] = words[..] else {
            let message = format!(
                "a page begins with its weight (1 to 100 percent) and the number of its files (1 to \
                 {FILES_OF_PAGE_MAX}); here is {head:?}"
            );
            return Err(ImportError::new(file, number, message));
        };
        if rest.len() < files {
            let message =
                format!("the page should have {files} files, and the list ends after {}", rest.len());
            return Err(ImportError::new(file, number, message));
        }
        let (of_page, following) = rest.split_at(files);
        let mut requests = Vec::new();
        for &(number, place) in of_page {
            let (place, comment) = without_comment(place);
            let bytes = comment.and_then(bytes_of_comment);
            let read = request(&mut recording, &mut left_out, number, place);
            if let Some(request) = read.map_err(|reason| ImportError::new(file, number, reason))? {
                requests.push(recording.requests.len());
                recording.requests.push(RecordedRequest { bytes: bytes.or(request.bytes), ..request });
            }
        }
        weights += weight;
        if !requests.is_empty() {
            recording.pages.push(Page { weight: weight as f64, requests });
        }
        lines = following;
    }
    if let Some((number, line)) = lines.first() {
        return Err(ImportError::new(file, *number, format!("{line:?} follows the last of {count} pages")));
    }
    if weights != 100 {
        return Err(ImportError::new(
            file,
            first,
            format!("the weights of the pages sum to {weights}, and must to 100"),
        ));
    }
    recording.notes = left_out.notes();
    Ok(recording)
}

/// One file; `None` if it is on another server than the first one.
fn request(
    recording: &mut Recording,
    left_out: &mut OmittedEntries,
    number: usize,
    place: &str,
) -> Result<Option<RecordedRequest>, String> {
    let (path, origin) = place_of(place)?;
    if let Some(origin) = origin {
        let first = recording.origin.get_or_insert_with(|| origin.clone());
        if *first != origin {
            left_out.note(format!("files of other servers than {first}"), number);
            return Ok(None);
        }
    }
    Ok(Some(RecordedRequest { bytes: bytes_of_name(&path), ..RecordedRequest::get(path) }))
}

/// The size in a name of WebStone's own files: `file5k.html` has 5,125 bytes, as genfiles makes it.
fn bytes_of_name(path: &str) -> Option<u64> {
    let digits = path.strip_prefix("/file")?.strip_suffix(".html")?;
    let (digits, unit) = match digits.strip_suffix('k') {
        Some(digits) => (digits, 1025),
        None => match digits.strip_suffix('m') {
            Some(digits) => (digits, 1025 * 1024),
            None => (digits, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| (1..=1 << 30).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// filelist.standard of WebStone 2.0.1.
    const VERSION_2: &str = "# standard\n/file500.html 350 #500\n/file5k.html 500 #5125\n\
                             /file50k.html 140 #51250\n/file500k.html 9 #512500\n/file5m.html 1 #5248000\n";
    /// The beginning of the example of the white paper's section 7.
    const VERSION_1: &str = "#general and media-rich mix\n2\n40 3\n/file3k.html\n/file4k.html\n/file5k.html\n\
                             60 2\n/file10k.html\n/file17k.html\n";

    #[test]
    fn the_standard_list_is_that_of_the_suite() {
        let recording = read("filelist", VERSION_2).unwrap();
        let mean: f64 = recording.requests.iter().map(|r| r.weight / 1000.0 * r.bytes.unwrap() as f64).sum();
        assert!((mean - 19_773.0).abs() < 1.0, "{mean}");
        // Each is a page.
        let pages: Vec<(f64, &[usize])> =
            recording.pages.iter().map(|page| (page.weight, &page.requests[..])).collect();
        assert_eq!(pages[..2], [(350.0, &[0][..]), (500.0, &[1])]);
        // The names result in the same sizes.
        for request in &recording.requests {
            assert_eq!(bytes_of_name(&request.path), request.bytes, "{}", request.path);
        }
    }

    #[test]
    fn sizes_stand_in_comments_or_in_names_and_comments_may_end_a_line() {
        let text = "/file5k.html 500\n/file500.html 350 # the small one\n/a 1 #77\n/b 2 # 88 bytes\n\
                    /file1k.html#9#x\n";
        let bytes = |text: &str| -> Vec<Option<u64>> {
            read("l", text).unwrap().requests.iter().map(|request| request.bytes).collect()
        };
        assert_eq!(bytes(text), [5125, 500, 77, 88, 9].map(Some));
        let pages = "2 # pages\n40 1 # home\n/file3k.html # logo\n60 1\n/b #12\n";
        assert_eq!(bytes(pages), [3075, 12].map(Some));
    }

    #[test]
    fn pages_of_the_first_version_are_pages() {
        let recording = read("filelist", VERSION_1).unwrap();
        assert_eq!(
            recording.pages,
            [Page { weight: 40.0, requests: vec![0, 1, 2] }, Page { weight: 60.0, requests: vec![3, 4] }]
        );
        assert_eq!(recording.requests[4].bytes, Some(17_425));
    }

    #[test]
    fn weights_are_as_webstone_reads_them() {
        let recording = read("filelist", "/a\n/b 0\n/c -3 #7\nhttp://h/d 5\nhttp://other/e").unwrap();
        let weights: Vec<f64> = recording.requests.iter().map(|r| r.weight).collect();
        assert_eq!((weights, recording.notes.len()), (vec![1.0, 1.0, 1.0, 5.0], 1));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("# nothing\n", "l: there is no file in it"),
            ("/a x\n", "l:1: the weight after the URL"),
            ("/a 1 2\n", "l:1: a line is a URL"),
            ("#c\n0\n", "l:2: 0 pages"),
            ("2\n100 1\n/a\n", "l:1: the list should have 2 pages and ends after 1"),
            ("1\n100\n/a\n", "l:2: a page begins with its weight"),
            ("1\n100 2\n/a\n", "l:2: the page should have 2 files, and the list ends after 1"),
            ("1\n99 1\n/a\n", "l:1: the weights of the pages sum to 99"),
            ("1\n100 1\n/a\n/b\n", "l:4: \"/b\" follows the last of 1 pages"),
        ] {
            let message = read("l", text).unwrap_err().to_string();
            assert!(message.starts_with(said), "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_damage_to_a_good_list_makes_the_reader_panic(
            is_old: bool, at in 0usize..120, put in "[\\x20-\\x7e\\n]{0,8}",
        ) {
            let mut text = if is_old { VERSION_1 } else { VERSION_2 }.to_string();
            let at = at % text.len();
            text.replace_range(at..(at + 1), &put);
            if let Ok(recording) = read("any", &text) {
                let places = recording.requests.len();
                prop_assert!(recording
                    .pages
                    .iter()
                    .all(|page| page.requests.iter().all(|place| *place < places)));
            }
        }
    }
}
