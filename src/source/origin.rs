//! A configuration file as it was read once, of this machine or of a store: what is opened of it, and what travels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Source;
use crate::config::load::{environment, load_text, load_travelled, travelling};
use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Problem, Result};
use crate::storage::shelf::Shelf;
use crate::storage::{Location, Settings, location};

/// No configuration has this size, in bytes.
const SIZE_MAX: u64 = 16 << 20;

/// What a configuration file holds.
#[derive(Debug, Clone)]
pub struct Origin {
    path: PathBuf,
    text: String,
    /// The directory, where it is one of a store.
    store: Option<Location>,
}

impl Origin {
    /// Reads the file at a path as `checkpoint.path` has them: local, or with the scheme of a store, which takes its
    /// credentials from the environment and the files of Hadoop.
    ///
    /// # Errors
    /// Kind `Config` for a file that is not there or no text; kind `Store` where the store does not answer.
    pub async fn read(path: &str) -> Result<Self> {
        let refuse = |said: String| Error::new(ErrorKind::Config, format!("{path}: {said}"));
        let location = location::parse(path).map_err(refuse)?;
        let Some((dir, name)) = location.remote_file() else {
            let Location::Local(file) = location else { return Err(refuse("names no file".into())) };
            let text = std::fs::read_to_string(&file).map_err(|e| refuse(format!("cannot be read: {e}")))?;
            return Ok(Self { path: file, text, store: None });
        };
        let settings = Settings::new(BTreeMap::new(), &environment());
        let shelf = Shelf::open(&dir, &settings, Effects::default())?;
        let bytes = shelf.read(name, SIZE_MAX).await?.ok_or_else(|| refuse("there is no such file".into()))?;
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| refuse("is not UTF-8: save it as UTF-8".into()))?;
        Ok(Self { path: path.into(), text, store: Some(dir) })
    }

    /// Checks it and makes the client. Sends nothing.
    ///
    /// # Errors
    /// Kind `Config` with all problems at once (R11).
    pub fn open(&self) -> Result<Source> {
        let config = load_text(&self.path, &self.text, &environment())?;
        let Some(dir) = &self.store else { return Source::new(config) };
        // What is relative to the file of a store is no place of this machine.
        let here = self.path.parent().unwrap_or(Path::new(""));
        let is_relative = |place: &Location| matches!(place, Location::Local(path) if path.starts_with(here));
        let relative = config
            .tables
            .iter()
            .filter(|table| table.checkpoint.as_ref().is_some_and(|checkpoint| is_relative(&checkpoint.location)));
        let problem = |table: &str| Problem {
            key: format!("tables.{table}.checkpoint.path"),
            message: format!(
                "is relative, and the configuration stands in a store: name it in full, such as {dir}/state"
            ),
            file: Some(self.path.clone()),
            line: None,
        };
        let problems: Vec<Problem> = relative.map(|table| problem(&table.name)).collect();
        if problems.is_empty() { Source::new(config) } else { Err(Error::problems(problems)) }
    }

    /// It as a text that can travel to other hosts, see [`travelling`].
    ///
    /// # Errors
    /// Kind `Config` as [`Origin::open`], and for a secret that is written out.
    pub fn travelling(&self) -> Result<String> {
        travelling(&self.path, Some(&self.text), &environment())
    }

    /// The source of a text that [`Origin::travelling`] made elsewhere; the environment of this process answers for its
    /// secrets. `name` is what messages call it.
    ///
    /// # Errors
    /// Kind `Config`, such as for a variable that is not set here.
    pub fn arrived(name: &str, text: &str) -> Result<Source> {
        Source::new(load_travelled(Path::new(name), text, &environment())?)
    }
}
