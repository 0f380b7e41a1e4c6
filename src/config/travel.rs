//! A configuration as a text that can travel: all is resolved but what may be a secret, which stays a variable (R23).

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

const WRITTEN_OUT: &str =
    "holds a secret that is written out: it would travel with the plan; take it from the environment, as ${VARIABLE}";

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
                if key.is_empty() {
                    // The document that names it may stay behind.
                    let base_url = self.config.base_url.to_string();
                    self.field("base-url", |writer| writer.literal("base-url", &base_url, ScalarType::String));
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
        let raw = scalar.raw.as_str();
        match marked {
            Some(HoconValue::Scalar(marked)) if marked.raw.contains(MARKS[0]) && self.stays_variable() => {
                self.template(key, &marked.raw);
            }
            // Hadoop's own way to name a variable, which the other host answers too.
            _ if self.words.first().is_some_and(|word| word == "hadoop") && raw.starts_with("${env.") => {
                self.quoted(raw);
            }
            _ if self.is_secret() && !raw.is_empty() => self.refuse(key, WRITTEN_OUT),
            _ => match self.absolute(raw) {
                Some(path) => self.quoted(&path.to_string_lossy()),
                None => self.literal(key, raw, scalar.value_type),
            },
        }
    }

    /// What is no credential of its own may still hold one.
    fn literal(&mut self, key: &str, raw: &str, of: ScalarType) {
        match of {
            _ if self.redactor.finds(raw) => self.refuse(key, WRITTEN_OUT),
            ScalarType::String => self.quoted(raw),
            _ => self.out.push_str(raw),
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

    /// Whether the key that is being written holds a credential, by its name.
    fn is_secret(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["auth", "token" | "password" | "header-value" | "client-secret" | "query-value"] => true,
            ["http", "headers", name]
            | ["tables", _, "headers" | "params" | "body", .., name]
            | ["tables", _, "aggregations", .., "params", name] => names_a_secret(name),
            ["hadoop", name @ ..] => holds_a_secret(&name.join("."), "whatever it is"),
            _ => false,
        }
    }

    /// Whether what comes out of the environment stays there: all that is sent to an API or opens a store, since any of
    /// it may be a credential. What has to be the same for all (where state stands, how much is asked for) is resolved.
    fn stays_variable(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["auth", "token-file"] | ["tables", _, "checkpoint", ..] => false,
            ["auth" | "hadoop" | "openapi" | "pagination" | "tables", ..] | ["http", "headers", ..] => true,
            _ => false,
        }
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
