//! Progress is for people: on a terminal, and nowhere else.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod common;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// What a run writes to a terminal that is its standard error.
fn on_a_terminal(arguments: &[&str], ci: bool) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = File::options().write(true).open(OsStr::from_bytes(name.as_bytes())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rondo"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("CI").env("TERM", "xterm");
    if ci {
        command.env("CI", "true");
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(terminal).spawn().unwrap();
    // Closes our end of the terminal, so that reading ends with the child.
    drop(command);
    let mut shown = Vec::new();
    let mut master = File::from(master);
    let mut some = [0; 4096];
    // The last read fails: nobody holds the terminal any more.
    while let Ok(length @ 1..) = master.read(&mut some) {
        shown.extend_from_slice(&some[..length]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_terminal_shows_how_far_the_candidates_are() {
    let ring = "examples/ring8/job.toml";
    for arguments in [&["compile", ring, "--no-smt"][..], &["cost", ring], &["compile", "examples/size-range/job.toml"]]
    {
        let shown = on_a_terminal(arguments, false);
        assert!(shown.contains("building candidates"), "{arguments:?}: {shown:?}");
        let json = [arguments, &["--output-format", "json"]].concat();
        assert_eq!(on_a_terminal(&json, false), "", "{json:?}");
        assert_eq!(on_a_terminal(arguments, true), "", "{arguments:?} in CI");
        assert_eq!(common::rondo(arguments).expect(0).stderr, "", "{arguments:?} in a pipe");
    }
}
