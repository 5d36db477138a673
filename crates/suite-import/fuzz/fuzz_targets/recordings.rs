//! No bytes make an importer panic, and every import makes a suite that can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_suite_import::suite_text::{Form, SuiteOptions};
use touchstone_suite_import::{LogFormat, access_log, curl, file_text, filelist, har, suite_text, url_list};
use touchstone_lab::suite::Suite;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let form = if kind & 0x80 == 0 { Form::Mix } else { Form::Session };
    let Ok(text) = file_text("fuzz", bytes) else { return };
    let text = text.as_str();
    let recording = match kind % 6 {
        0 => har::read("fuzz", text, &har::HarOptions::default()),
        1 => access_log::read("fuzz", text, None),
        2 => url_list::read("fuzz", text, false),
        3 => filelist::read("fuzz", text),
        4 => curl::read("fuzz", text, true),
        // The first line is the format of the others.
        _ => {
            let (format, text) = text.split_once('\n').unwrap_or_default();
            let Ok(format) = LogFormat::parse(format) else { return };
            access_log::read("fuzz", text, Some(&format))
        }
    };
    let Ok(recording) = recording else { return };
    let wishes = SuiteOptions { name: "fuzz".to_string(), source: text.to_string(), most: 1000, form };
    let (text, _) = suite_text(&recording, &wishes);
    match Suite::read("fuzz.toml", &text) {
        Ok(_) => {}
        // A file that was recorded in two sizes, or with more bytes than a file may have, is reported to the
        // user.
        Err(error) => assert!(error.message.contains("bytes"), "{error}"),
    }
});
