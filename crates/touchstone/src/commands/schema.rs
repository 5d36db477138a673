//! `touchstone schema`: the JSON schema of the configuration, for editors.

use super::print::print;
use crate::exit::Exit;

/// No arguments.
#[derive(clap::Args)]
#[command(
    after_help = "taplo and the VS Code extension \"Even Better TOML\" take it from a file's first line:\n\
    #:schema ./touchstone.schema.json\n\
    See docs/schema.md."
)]
pub(crate) struct Arguments {}

/// Prints the schema.
pub(crate) fn run(_: &Arguments) -> Exit {
    print(&touchstone_config::json_schema());
    Exit::Done
}
