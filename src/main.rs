//! The command line of Rondo. Reading arguments and printing; everything else is in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    rondo::cli::run(rondo::cli::Arguments::parse())
}
