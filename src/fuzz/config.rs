//! The configuration loader: it ends, and what comes from the environment is in no message.

use std::collections::HashMap;

use super::hold;
use crate::config::load::load_with_env;

/// Stands in the environment as `SECRET`.
const SECRET: &str = "hunter2-hunter2";

/// A configuration file. One that includes others is left out: they would be files of this machine.
pub fn config(data: &[u8]) -> Result<(), String> {
    if data.windows(7).any(|word| word.eq_ignore_ascii_case(b"include"))
        || data.windows(7).any(|word| word == b"hunter2")
    {
        return Ok(());
    }
    let name = format!("restmark-fuzz-{}-{:?}.conf", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, data).map_err(|e| format!("{}: {e}", path.display()))?;
    let env = HashMap::from([("SECRET".to_owned(), SECRET.to_owned()), ("N".to_owned(), "7".to_owned())]);
    let loaded = load_with_env(&path, &env);
    std::fs::remove_file(&path).map_err(|e| e.to_string())?;
    let Err(error) = loaded else { return Ok(()) };
    let said = format!("{error} {error:?} {:?}", error.config_problems());
    // Elsewhere it may be no credential; as a token it is one, wherever else it stands.
    let is_token = data.starts_with(b"auth { type = bearer, token = ${SECRET} }");
    hold(!is_token || !said.contains(SECRET), || format!("a credential is in {said}"))
}
