//! Reads a profile of the AWS command line: keys, region and endpoint.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::settings::Settings;

/// What a profile says.
#[derive(Default)]
pub(super) struct Profile {
    pub(super) name: String,
    values: HashMap<String, String>,
}

impl Profile {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A way to get credentials that is not built.
    pub(super) fn unsupported(&self) -> Option<&str> {
        let ways = ["credential_process", "sso_session", "sso_start_url", "role_arn", "login_session"];
        ways.into_iter().find(|key| self.get(key).is_some())
    }
}

/// The profile that the variables name; `None` when there is none and nobody asked for one.
pub(super) fn read(settings: &Settings) -> Result<Option<Profile>, String> {
    let asked = settings.var("AWS_PROFILE").or_else(|| settings.var("AWS_DEFAULT_PROFILE"));
    let name = asked.unwrap_or("default");
    let file = |variable: &str, default: &str| -> Option<PathBuf> {
        settings.var(variable).map(PathBuf::from).or_else(|| Some(settings.home()?.join(".aws").join(default)))
    };
    let mut values = HashMap::new();
    let mut found = false;
    // The file of credentials wins over the other one.
    for (path, heading) in [
        (file("AWS_CONFIG_FILE", "config"), format!("profile {name}")),
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.to_owned()),
    ] {
        let Some(path) = path else { continue };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
        };
        found |= section(&text, |head| head == heading || name == "default" && head == name, &mut values);
    }
    match (found, asked) {
        (true, _) => Ok(Some(Profile { name: name.to_owned(), values })),
        (false, None) => Ok(None),
        (false, Some(name)) => Err(format!("AWS_PROFILE names {name:?}, and no such profile is in the AWS files")),
    }
}

/// Adds what the sections of a heading say; whether there is one.
fn section(text: &str, is_heading: impl Fn(&str) -> bool, values: &mut HashMap<String, String>) -> bool {
    let (mut inside, mut found) = (false, false);
    for line in text.lines() {
        // An indented line belongs to a nested block, such as `s3 =`.
        if line.starts_with([' ', '\t']) || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let words: Vec<&str> = head.0.split_whitespace().collect();
            inside = is_heading(&words.join(" "));
            found |= inside;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}
