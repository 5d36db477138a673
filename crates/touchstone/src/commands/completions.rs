//! `touchstone completions`: the completions of commands and options for a shell, generated from their
//! definitions.

use super::print::print;
use crate::exit::Exit;

/// The shell to complete for.
#[derive(clap::Args)]
#[command(
    after_help = "bash: touchstone completions bash > ~/.local/share/bash-completion/completions/touchstone\n\
    zsh:  touchstone completions zsh > ~/.zfunc/_touchstone   (with ~/.zfunc in fpath before compinit)\n\
    fish: touchstone completions fish > ~/.config/fish/completions/touchstone.fish\n\
    The Debian package has all three in their places."
)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The shells for which completions exist.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Prints the script.
pub(crate) fn run(arguments: &Arguments) -> Exit {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::definition(), "touchstone", &mut script);
    print(&String::from_utf8_lossy(&script));
    Exit::Done
}
