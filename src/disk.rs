//! Local files that survive a power cut: directories made durable, files replaced whole (R7).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::effect::{Effect, Effects};

/// Makes a directory and its missing parents, each durable in its own parent.
pub(crate) fn make_dir(dir: &Path, effects: &Effects) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    make_dir(parent, effects)?;
    match effects.run(Effect::MakeDirectory, || fs::create_dir(dir)) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists || !dir.is_dir() => Err(e),
        _ => sync_dir(parent, effects),
    }
}

/// Makes the names in a directory durable.
#[cfg(unix)]
pub(crate) fn sync_dir(dir: &Path, effects: &Effects) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    effects.run(Effect::SyncDirectory, || File::open(dir)?.sync_all())
}

/// Directories cannot be synced here; the file system's own order has to do.
#[cfg(not(unix))]
pub(crate) fn sync_dir(_dir: &Path, _effects: &Effects) -> io::Result<()> {
    Ok(())
}

/// The name beside `path` under which its next content is written.
pub(crate) fn temp_name(name: &str) -> String {
    format!(".{name}.tmp")
}

/// Replaces a file: the old or the new one is there, whole, at any instant of a crash. One writer at a time.
pub(crate) fn replace(path: &Path, bytes: &[u8], effects: &Effects) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = dir.join(temp_name(&name));
    let mut file = effects.run(Effect::Create, || File::create(&temp))?;
    let (written, whole) = effects.write(bytes);
    file.write_all(written)?;
    whole?;
    effects.run(Effect::Sync, || file.sync_all())?;
    effects.run(Effect::Rename, || fs::rename(&temp, path))?;
    sync_dir(dir, effects)
}
