//! `restmark completions`: a script for a shell.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::args::Args;
use super::console::Console;
use crate::error::Result;

pub(super) fn run(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "restmark", &mut script);
    Console::print_bytes(&script)
}
