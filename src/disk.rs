//! Local files that survive a power cut: directories made durable, files replaced whole (R7).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// Makes a directory and its missing parents, each durable in its own parent.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    make_dir(parent)?;
    match fs::create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists || !dir.is_dir() => Err(e),
        _ => sync_dir(parent),
    }
}

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?.sync_all()
}

/// Directories cannot be synced here; the file system's own order has to do.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// The name beside `path` under which its next content is written.
pub(crate) fn temp_name(name: &str) -> String {
    format!(".{name}.tmp")
}

/// Replaces a file: the old or the new one is there, whole, at any instant of a crash. One writer at a time.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = dir.join(temp_name(&name));
    let mut file = File::create(&temp)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temp, path)?;
    sync_dir(dir)
}
