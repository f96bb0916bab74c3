//! Reading and writing files as a person expects: `-`, whole files or nothing, errors that name the file.

use std::io::{self, Read, Write};
use std::path::Path;

use rondo_ir::diagnostic::Diagnostic;

/// What cannot be read stops here: a file larger than this is refused by name.
const LARGEST_INPUT: u64 = 4 << 30;

/// How the file is called in messages.
#[must_use]
pub fn display_name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Reads a whole file; `-` is standard input.
///
/// # Errors
/// X001 with the reason of the operating system, X002 for a file that is too large.
pub fn read(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    let fail = |error: &io::Error| {
        let help = match error.kind() {
            io::ErrorKind::NotFound => "check the path; `-` reads standard input",
            io::ErrorKind::PermissionDenied => "make the file readable for this user",
            _ => "name a regular file, or `-` for standard input",
        };
        Diagnostic::error("X001", format!("cannot read {}: {error}", display_name(path))).help(help)
    };
    let mut bytes = Vec::new();
    let mut reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = std::fs::File::open(path).map_err(|e| fail(&e))?;
        let length = file.metadata().map_or(0, |m| if m.is_file() { m.len() } else { 0 });
        bytes.reserve_exact(usize::try_from(length.min(LARGEST_INPUT)).unwrap_or(0));
        Box::new(file)
    };
    reader.by_ref().take(LARGEST_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    if bytes.len() as u64 > LARGEST_INPUT {
        return Err(Diagnostic::error("X002", format!("{} is larger than 4 GiB", display_name(path))));
    }
    Ok(bytes)
}

/// Writes a whole file or nothing: to a temporary file beside it, then renamed. `-` is standard output.
///
/// # Errors
/// X003 with the reason of the operating system. A closed standard output is no error.
pub fn write(path: &Path, contents: &[u8]) -> Result<(), Diagnostic> {
    write_all(&[(path, contents)])
}

/// Writes several files or, as far as that is possible, none: all are complete beside their places before the first is renamed.
///
/// # Errors
/// As [`write`].
pub fn write_all(files: &[(&Path, &[u8])]) -> Result<(), Diagnostic> {
    let staged = files.iter().map(|(path, contents)| stage(path, contents).map_err(|e| unwritable(path, &e)));
    let staged: Vec<Option<tempfile::NamedTempFile>> = staged.collect::<Result<_, _>>()?;
    for (file, (path, contents)) in staged.into_iter().zip(files) {
        let written = match file {
            Some(file) => file.persist(path).map(drop).map_err(|e| e.error),
            None if *path == Path::new("-") => {
                print(contents)?;
                continue;
            }
            None => std::fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(contents)),
        };
        written.map_err(|error| unwritable(path, &error))?;
    }
    Ok(())
}

/// A temporary file that only has to be renamed; `None` for what cannot be renamed over.
fn stage(path: &Path, contents: &[u8]) -> io::Result<Option<tempfile::NamedTempFile>> {
    // A device or pipe (`/dev/null`).
    if path == Path::new("-") || std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return Ok(None);
    }
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = temporary_file(folder)?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    keep_permissions(file.as_file(), path)?;
    Ok(Some(file))
}

fn unwritable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("X003", format!("cannot write {}: {}", path.display(), reason(error)))
        .help("check that the folder exists and can be written; `-` writes to standard output")
}

/// The reason of the operating system, without the name of a temporary file, which `tempfile` adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" at path ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}

/// A temporary file with the mode that any new file gets: what the process's umask leaves.
#[cfg(unix)]
fn temporary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".rondo-").permissions(mode).tempfile_in(folder)
}

/// A temporary folder with the mode that any new folder gets.
///
/// # Errors
/// That of the operating system.
#[cfg(unix)]
pub fn temporary_folder(parent: &Path) -> io::Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o777);
    tempfile::Builder::new().prefix(".rondo-").permissions(mode).tempdir_in(parent)
}

#[cfg(not(unix))]
fn temporary_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(".rondo-").tempfile_in(folder)
}

/// A temporary folder.
///
/// # Errors
/// That of the operating system.
#[cfg(not(unix))]
pub fn temporary_folder(parent: &Path) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(".rondo-").tempdir_in(parent)
}

/// Gives a file the mode of what it replaces, if that exists.
fn keep_permissions(file: &std::fs::File, path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(old) => file.set_permissions(old.permissions()),
        Err(_) => Ok(()),
    }
}

/// Writes to standard output. A reader that has gone is no error.
///
/// # Errors
/// X003 for anything else.
pub fn print(contents: &[u8]) -> Result<(), Diagnostic> {
    let mut out = io::stdout().lock();
    match out.write_all(contents).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error("X003", format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
