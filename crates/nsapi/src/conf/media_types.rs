//! Files of media types, as `load-types` names them: in the form of the Netscape servers (`type=text/html
//! exts=htm,html`), and in the common form (`text/html htm html`). Lines that assign a coding or a language
//! to an extension are left out.

use std::sync::Arc;

use super::lines::LONGEST_FILE_BYTES;
use super::parameters::{parameter, parse_parameters};
use super::{Problem, SourceLocation};

/// Reads a file of types: each extension in lower case with its type.
pub fn read_media_types(file: &Arc<str>, text: &[u8], types: &mut Vec<(String, String)>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if text.len() > LONGEST_FILE_BYTES {
        let message = format!("the file is longer than {LONGEST_FILE_BYTES} bytes");
        return vec![Problem { location: SourceLocation { file: file.clone(), line: 1 }, message }];
    }
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        if let Err(message) = read_line(line, types) {
            let location = SourceLocation { file: file.clone(), line: index + 1 };
            problems.push(Problem { location, message: message.to_string() });
        }
    }
    problems
}

fn read_line(line: &[u8], types: &mut Vec<(String, String)>) -> Result<(), &'static str> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_ascii_lowercase();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let (media_type, endings): (String, Vec<String>) = if first.contains(&b'=') {
        let parameters = parse_parameters(line)?;
        let Some(media_type) = parameter(&parameters, "type") else { return Ok(()) };
        let endings = parameter(&parameters, "exts").ok_or("a type needs exts=, its file name extensions")?;
        (text(media_type), endings.split(|byte| *byte == b',').map(text).collect())
    } else {
        (text(first), words.map(text).collect())
    };
    if !media_type.contains('/') {
        return Err("a line must be type=TYPE exts=EXTENSION,EXTENSION or TYPE EXTENSION EXTENSION");
    }
    let endings =
        endings.iter().map(|ending| ending.trim_start_matches('.')).filter(|ending| !ending.is_empty());
    types.extend(endings.map(|ending| (ending.to_string(), media_type.clone())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_are_read() {
        let text = b"#--Netscape Communications Corporation MIME Information\n\n\
            type=magnus-internal/x-httpd-php exts=php,.PHP3\n\
            enc=x-gzip exts=gz\n\
            text/html\thtml htm\n\
            text/none\n\
            type=text/plain\n\
            nonsense x\n";
        let mut types = Vec::new();
        let problems = read_media_types(&Arc::from("mime.types"), text, &mut types);
        let read: Vec<String> = types.iter().map(|(ending, kind)| format!("{ending}={kind}")).collect();
        assert_eq!(
            read,
            [
                "php=magnus-internal/x-httpd-php",
                "php3=magnus-internal/x-httpd-php",
                "html=text/html",
                "htm=text/html"
            ]
        );
        let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("mime.types:7: a type needs exts="), "{problems:?}");
        assert!(problems[1].starts_with("mime.types:8: a line must be type="), "{problems:?}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text: Vec<u8>) {
            read_media_types(&Arc::from("f"), &text, &mut Vec::new());
        }
    }
}
