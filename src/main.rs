//! The command line of Rondo. Reading arguments and printing; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rondo::cli::main()
}
