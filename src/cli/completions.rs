//! `restmark completions`: a script for a shell.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::args::Args;
use super::console::Console;
use crate::error::Result;

pub(super) fn run(shell: Shell) -> Result<()> {
    // Hidden commands are not there yet.
    let whole = Args::command();
    let there = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = clap::Command::new("restmark").args(whole.get_arguments().cloned()).subcommands(there);
    let mut script = Vec::new();
    generate(shell, &mut shown, "restmark", &mut script);
    Console::print_bytes(&script)
}
