//! A folder that holds a set of plans: written as a whole or not at all.
//!
//! Some runtimes load every file of a folder, so nothing else may lie there, above all no plan of an earlier set.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rondo_ir::diagnostic::Diagnostic;
use serde_json::Value;

use crate::cli::io::{read, temporary_folder, write};

/// What the index says that it is.
pub const FORMAT: &str = "rondo.set";
/// The file that lists the plans of a set.
pub const INDEX: &str = "index.json";
/// The folder in it that holds the plans, and nothing else.
pub const PLANS: &str = "algorithms";

/// Whether a set may be written there: nothing is there, or an empty folder, or an earlier set and nothing besides.
///
/// # Errors
/// X017, with what is there.
pub fn check(folder: &Path) -> Result<(), Diagnostic> {
    let refuse = |what: String| {
        Err(Diagnostic::error("X017", format!("{} {what}", folder.display()))
            .note("a set of plans takes a folder of its own, since runtimes load every file there")
            .help("name another folder, or remove this one"))
    };
    match std::fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(facts) if !facts.is_dir() => return refuse("is no folder".to_owned()),
        // What cannot be looked at is reported where it is read.
        _ => {}
    }
    let found = entries(folder)?;
    if found.is_empty() {
        return Ok(());
    }
    let index = if found.contains(INDEX) { read(&folder.join(INDEX))? } else { Vec::new() };
    let index: Value = serde_json::from_slice(&index).unwrap_or_default();
    if index["format"] != FORMAT {
        return refuse("is not empty, and holds no set of plans that could be replaced".to_owned());
    }
    let listed: BTreeSet<&str> =
        index["plans"].as_array().into_iter().flatten().filter_map(|p| p["file"].as_str()).collect();
    let mut inner = BTreeSet::new();
    if found.contains(PLANS) {
        inner = entries(&folder.join(PLANS))?;
    }
    let foreign = found.into_iter().filter(|name| name != INDEX && name != PLANS);
    let unlisted =
        inner.into_iter().map(|name| format!("{PLANS}/{name}")).filter(|name| !listed.contains(name.as_str()));
    match foreign.chain(unlisted).next() {
        Some(name) => refuse(format!("holds `{name}`, which is not of the set of plans there")),
        None => Ok(()),
    }
}

/// Names in a folder.
fn entries(folder: &Path) -> Result<BTreeSet<String>, Diagnostic> {
    let list = || -> io::Result<BTreeSet<String>> {
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    list().map_err(|error| Diagnostic::error("X001", format!("cannot read {}: {error}", folder.display())))
}

/// Folders with their files (path below the folder, content).
pub type Contents<'a> = (&'a Path, &'a [(String, String)]);

/// Writes the files of each folder to one beside it, then puts those in their places. The earlier sets stay as they are if anything
/// fails before that.
///
/// # Errors
/// X003 with the reason of the operating system; as [`check`].
pub fn replace(folders: &[Contents<'_>]) -> Result<(), Diagnostic> {
    let mut staged = Vec::with_capacity(folders.len());
    for (folder, files) in folders {
        check(folder)?;
        let fail = |error| unwritable(folder, &error);
        // A link to a folder stays one.
        let target = if folder.exists() { folder.canonicalize().map_err(fail)? } else { folder.to_path_buf() };
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(fail)?;
        let stage = temporary_folder(parent).map_err(fail)?;
        std::fs::create_dir(stage.path().join(PLANS)).map_err(fail)?;
        for (name, text) in *files {
            write(&stage.path().join(name), text.as_bytes())?;
        }
        staged.push((stage, target));
    }
    for (stage, target) in staged {
        swap(stage, &target).map_err(|error| unwritable(&target, &error))?;
    }
    Ok(())
}

fn unwritable(folder: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("X003", format!("cannot write {}: {error}", folder.display()))
        .help("check that the folder around it can be written")
}

/// Puts the staged folder in place of the target, whatever there was.
fn swap(stage: tempfile::TempDir, target: &Path) -> io::Result<()> {
    // Over nothing or an empty folder, a rename is all.
    let Err(error) = std::fs::rename(stage.path(), target) else {
        let _: PathBuf = stage.keep();
        return Ok(());
    };
    if !target.is_dir() {
        return Err(error);
    }
    exchange(stage.path(), target)?;
    // Now the stage is what was there before.
    stage.close().map_err(|error| {
        io::Error::new(error.kind(), format!("the set is in place, but the earlier one cannot be removed: {error}"))
    })
}

/// Exchanges two folders in one step.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        // Not every file system can.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => exchange_by_three(one, other),
        result => Ok(result?),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    exchange_by_three(one, other)
}

/// Exchanges two folders in three steps; if the second fails, the first is undone.
fn exchange_by_three(one: &Path, other: &Path) -> io::Result<()> {
    let aside = temporary_folder(one.parent().unwrap_or(Path::new(".")))?;
    let aside = aside.path().join("old");
    std::fs::rename(other, &aside)?;
    if let Err(error) = std::fs::rename(one, other) {
        std::fs::rename(&aside, other)?;
        return Err(error);
    }
    std::fs::rename(&aside, one)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_exchanged_either_way() {
        for exchange in [exchange, exchange_by_three] {
            let around = tempfile::tempdir().unwrap();
            let [one, other] = ["one", "other"].map(|name| around.path().join(name));
            for folder in [&one, &other] {
                std::fs::create_dir(folder).unwrap();
                std::fs::write(folder.join("of"), folder.file_name().unwrap().as_encoded_bytes()).unwrap();
            }
            exchange(&one, &other).unwrap();
            assert_eq!(std::fs::read_to_string(one.join("of")).unwrap(), "other");
            assert_eq!(std::fs::read_to_string(other.join("of")).unwrap(), "one");
            assert_eq!(std::fs::read_dir(around.path()).unwrap().count(), 2);
        }
    }
}
