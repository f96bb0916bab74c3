//! `rondo completions SHELL`

use clap::CommandFactory;

use crate::cli::{Arguments, CommandResult, Status, io};

/// Prints the script.
pub fn run(shell: clap_complete::Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "rondo", &mut script);
    io::print(&script).map_err(|d| vec![d])?;
    Ok(Status::Done)
}
