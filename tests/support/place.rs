//! A temporary directory with a configuration and the checkpoint files that belong to it.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use super::Run;

/// A temporary directory; `{{DIR}}` and `{{BASE}}` in the texts written to it are filled in.
pub(crate) struct Place {
    dir: TempDir,
    base: String,
}

/// The exact bytes of a checkpoint file at one moment; `None` is no file.
#[derive(PartialEq, Eq)]
pub(crate) struct Mark(Option<Vec<u8>>);

impl Place {
    /// A place for runs against the API at `base`, with its configuration.
    pub(crate) fn new(base: &str, config: &str) -> Self {
        let place = Self { dir: tempfile::tempdir().expect("a temporary directory"), base: base.to_owned() };
        place.write("source.conf", config);
        place
    }

    /// A path below the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Fills the placeholders in.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{{DIR}}", &self.dir.path().display().to_string()).replace("{{BASE}}", &self.base)
    }

    /// Writes a file; missing directories are made.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, self.fill(text)).expect("a file");
    }

    /// `restmark` with these arguments; the word `CONFIG` stands for the configuration file.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        let config = self.path("source.conf").display().to_string();
        let args = args.iter().map(|arg| if *arg == "CONFIG" { config.clone() } else { self.fill(arg) });
        Run::new(self.dir.path(), args)
    }

    /// `restmark read CONFIG TABLE`.
    pub(crate) fn read(&self, table: &str) -> Run {
        self.run(&["read", "CONFIG", table])
    }

    /// The checkpoint of a table, to the byte.
    pub(crate) fn mark(&self, table: &str) -> Mark {
        Mark(std::fs::read(self.path(&format!("ckpt/{table}.checkpoint.json"))).ok())
    }

    /// Puts a checkpoint file there, as another connector may have written it.
    pub(crate) fn seed(&self, table: &str, text: &str) {
        self.write(&format!("ckpt/{table}.checkpoint.json"), text);
    }
}

impl Mark {
    /// The mark of a place where nothing was ever committed.
    pub(crate) const NONE: Self = Self(None);

    /// `{"type": .., "value": ..}`, which must be the first two keys of the file (R7).
    #[track_caller]
    pub(crate) fn position(&self) -> Value {
        let bytes = self.0.as_deref().expect("a checkpoint file");
        let value: Value = serde_json::from_slice(bytes).expect("whole JSON");
        let keys: Vec<_> = value.as_object().expect("an object").keys().take(2).cloned().collect();
        assert_eq!(keys, ["type", "value"], "the first keys of the checkpoint file");
        serde_json::json!({ "type": value["type"], "value": value["value"] })
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("no checkpoint file"),
            Some(bytes) => write!(f, "{}", String::from_utf8_lossy(bytes)),
        }
    }
}
