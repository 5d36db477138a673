//! `touchstone completions`: what a shell needs to complete commands and options, made of their definitions.

use super::print::print;
use crate::exit::Exit;

/// For which shell.
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

/// The shells that there are completions for.
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
