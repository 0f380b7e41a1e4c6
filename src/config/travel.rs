//! A configuration as a text that can travel: everything is resolved but the secrets, which stay variables (R23).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hocon::{HoconValue, ScalarType, ScalarValue};

use super::text::{Text, join};
use super::{SourceConfig, SpecPlace};
use crate::error::Problem;
use crate::secret::{Redactor, names_a_secret};
use crate::storage::{Location, holds_a_secret, location};

/// What stands around the name of a variable where its value would be: private characters, which no file holds.
const MARKS: [char; 2] = ['\u{E0F0}', '\u{E0F1}'];

/// An environment whose values are the names of its variables.
pub(super) fn marked(env: &HashMap<String, String>) -> HashMap<String, String> {
    let [open, close] = MARKS;
    env.keys().map(|name| (name.clone(), format!("{open}{name}{close}"))).collect()
}

/// The text of a configuration that was `read`; `marked` is the same, read with the environment of [`marked`].
///
/// # Errors
/// Each secret that is written out, at its key.
pub(super) fn text(
    config: &SourceConfig,
    read: &Text,
    marked: &HoconValue,
    redactor: &Redactor,
) -> Result<String, Vec<Problem>> {
    let mut writer = Writer { config, read, redactor, words: Vec::new(), out: String::new(), problems: Vec::new() };
    writer.value("", &read.root, Some(marked));
    if writer.problems.is_empty() { Ok(writer.out) } else { Err(writer.problems) }
}

struct Writer<'a> {
    config: &'a SourceConfig,
    read: &'a Text,
    redactor: &'a Redactor,
    /// The key that is being written, word by word.
    words: Vec<String>,
    out: String,
    problems: Vec<Problem>,
}

impl Writer<'_> {
    /// Writes a value whose key is `key`; the marked tree has the same shape.
    fn value(&mut self, key: &str, value: &HoconValue, marked: Option<&HoconValue>) {
        match value {
            HoconValue::Object(fields) => {
                self.out.push_str("{\n");
                let base_url = key.is_empty().then(|| self.config.base_url.to_string());
                if let Some(base_url) = base_url {
                    // The document that names it may stay behind.
                    self.field("base-url", |writer| writer.quoted(&base_url));
                }
                for (word, value) in fields.iter().filter(|(word, _)| !key.is_empty() || *word != "base-url") {
                    let marked = marked.and_then(HoconValue::as_object).and_then(|fields| fields.get(word));
                    self.words.push(word.clone());
                    self.field(word, |writer| writer.value(&join(key, word), value, marked));
                    self.words.pop();
                }
                self.out.push_str("}\n");
            }
            HoconValue::Array(items) => {
                let marked = marked.and_then(HoconValue::as_array);
                self.out.push('[');
                for (place, item) in items.iter().enumerate() {
                    self.value(&format!("{key}[{place}]"), item, marked.and_then(|items| items.get(place)));
                    self.out.push_str(",\n");
                }
                self.out.push(']');
            }
            HoconValue::Scalar(scalar) => self.scalar(key, scalar, marked),
            _ => self.refuse(key, "holds what is not resolved"),
        }
    }

    fn field(&mut self, word: &str, value: impl FnOnce(&mut Self)) {
        self.quoted(word);
        self.out.push_str(" = ");
        value(self);
        self.out.push('\n');
    }

    fn scalar(&mut self, key: &str, scalar: &ScalarValue, marked: Option<&HoconValue>) {
        let template = match marked {
            Some(HoconValue::Scalar(marked)) if marked.raw.contains(MARKS[0]) => Some(marked.raw.as_str()),
            _ => None,
        };
        if let Some(template) = template.filter(|_| self.is_secret(scalar) || self.may_be_secret()) {
            return self.template(key, template);
        }
        let raw = scalar.raw.as_str();
        if self.is_secret(scalar) && !raw.is_empty() || self.redactor.finds(raw) {
            let said = "holds a secret that is written out: it would travel with the plan; take it from the environment, \
                        as ${VARIABLE}";
            return self.refuse(key, said);
        }
        match (scalar.value_type, self.absolute(raw)) {
            (_, Some(path)) => self.quoted(&path.to_string_lossy()),
            (ScalarType::String, None) => self.quoted(raw),
            (_, None) => self.out.push_str(raw),
        }
    }

    /// Text and variables side by side, as HOCON joins them.
    fn template(&mut self, key: &str, template: &str) {
        for (place, piece) in template.split(MARKS).enumerate() {
            let is_name = piece.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            match (place % 2 == 1, is_name) {
                (false, _) if piece.is_empty() => {}
                (false, _) if self.redactor.finds(piece) => {
                    return self.refuse(key, "holds a secret beside a variable");
                }
                (false, _) => self.quoted(piece),
                (true, true) => drop(write!(self.out, "${{{piece}}}")),
                (true, false) => return self.refuse(key, "comes from a variable whose name is not of A-Z, 0-9 and _"),
            }
        }
    }

    fn quoted(&mut self, text: &str) {
        self.out.push_str(&serde_json::Value::from(text).to_string());
    }

    /// Whether the key that is being written holds a credential.
    fn is_secret(&self, scalar: &ScalarValue) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["auth", "token" | "password" | "header-value" | "client-secret" | "query-value"] => true,
            ["http", "headers", name] | ["tables", _, "headers", name] => names_a_secret(name),
            ["hadoop", name @ ..] => holds_a_secret(&name.join("."), &scalar.raw),
            _ => false,
        }
    }

    /// Whether a value out of the environment is better left to it: what it is called says so.
    fn may_be_secret(&self) -> bool {
        let is_sent = |word: &String| matches!(word.as_str(), "params" | "body" | "headers");
        self.words.iter().skip(1).any(is_sent) && self.words.last().is_some_and(|word| names_a_secret(word))
    }

    /// The path that a value names, where it is relative to the file and so means nothing elsewhere.
    fn absolute(&self, raw: &str) -> Option<PathBuf> {
        let directory = self.config.file.parent().unwrap_or(Path::new(""));
        let path = match self.words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["auth", "token-file"] => PathBuf::from(raw),
            ["openapi"] => match &self.config.openapi {
                Some(SpecPlace::File(path)) => return std::path::absolute(path).ok(),
                _ => return None,
            },
            ["tables", _, "checkpoint", "path"] => match location::parse(raw) {
                Ok(Location::Local(path)) => path,
                _ => return None,
            },
            _ => return None,
        };
        std::path::absolute(directory.join(path)).ok()
    }

    fn refuse(&mut self, key: &str, said: &str) {
        self.problems.push(self.read.places.problem(key, said));
    }
}
