//! Text for standard output. A reader that stops reading (`| head`) is no error.

use std::io::Write;

/// Writes the text, and a line end unless it has one.
pub(super) fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // Nothing can be done where standard output is closed.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.write_all(end.as_bytes()));
    let _ = output.flush();
}
