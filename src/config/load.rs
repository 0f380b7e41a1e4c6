//! HOCON text, the reference and the environment become the typed model.

use std::collections::HashMap;
use std::path::Path;

use super::SourceConfig;
use crate::error::{Error, ErrorKind, Result};

/// Loads and checks a configuration file with the process environment.
pub fn load(path: &Path) -> Result<SourceConfig> {
    load_with_env(path, &std::env::vars().collect())
}

/// Loads and checks a configuration file; `env` answers `${VAR}`.
pub fn load_with_env(path: &Path, _env: &HashMap<String, String>) -> Result<SourceConfig> {
    Err(Error::new(ErrorKind::Bug, "not built").with("path", path.display()))
}
