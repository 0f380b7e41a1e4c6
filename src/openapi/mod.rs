//! An OpenAPI 3.x or Swagger 2.0 document: the columns of a table's records, and where its API is. Asks nobody.
//!
//! A document is read as a JSON value, since no model knows all dialects; only what leads to a table's records is
//! looked at.

mod endpoint;
mod field;
mod response;
mod schema;
mod server;
mod text;
mod yaml;

use std::fmt;

use jsonptr::PointerBuf;
use serde_json::{Map, Value};
use url::Url;

use crate::column::Column;
use crate::text::{cut, one_line};

pub use text::parse;

/// The most `$ref`s that lead from one to the next outside schemas.
const HOPS_MAX: usize = 32;

/// The most names of a document that an error lists.
const NAMES_MAX: usize = 5;

/// The most names that are looked at to find those.
const COMPARED_MAX: usize = 20_000;

/// A document whose dialect is known.
#[derive(Clone, PartialEq)]
pub struct Spec {
    root: Value,
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Swagger2,
    OpenApi3,
}

/// What a table asks of its document.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The endpoint.
    pub url: &'a Url,
    /// The base URL, which may be another one than the document's.
    pub base: &'a Url,
    /// Where the document came from, if that is a URL: its servers may be relative to it.
    pub origin: Option<&'a Url>,
    /// `GET` or `POST`.
    pub method: &'a str,
    /// The record array; `None` is the document itself.
    pub data_path: Option<&'a PointerBuf>,
    /// Whether the table pages: then an object is no record (R16).
    pub is_paged: bool,
    /// Whether records come one by one.
    pub is_streamed: bool,
    /// Levels of nested objects that become columns.
    pub flatten_depth: usize,
}

/// Why a document gives no columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What of the table does not lead to records.
    pub about: About,
    /// What is wrong and what there is instead.
    pub message: String,
}

/// The part of a table that a [`Fault`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Its endpoint, method or records.
    Endpoint,
    /// Its `data-path`.
    DataPath,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self { about: About::Endpoint, message }
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

impl Spec {
    /// A document as a value, if it is one of a known dialect.
    pub fn new(root: Value) -> Result<Self, String> {
        let version = |key| root.get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        let dialect = match (version("openapi"), version("swagger")) {
            (Some(v), _) if v == "3" || v.starts_with("3.") => Dialect::OpenApi3,
            (None, Some(v)) if v == "2" || v.starts_with("2.") => Dialect::Swagger2,
            (Some(v), _) | (None, Some(v)) => {
                return Err(format!("is of version {}; OpenAPI 3.x and Swagger 2.0 can be read", shown(&v, 20)));
            }
            (None, None) => return Err("is no OpenAPI document: it has neither openapi nor swagger at its top".into()),
        };
        if root.get("paths").is_none_or(|paths| !paths.is_object()) {
            return Err("has no paths".into());
        }
        Ok(Self { root, dialect })
    }

    /// The URL of the first server; one that is relative needs the `origin` of the document.
    pub fn server(&self, origin: Option<&Url>) -> Result<Url, String> {
        server::first(self, origin)
    }

    /// The columns of the records that a table reads, in the order of the document.
    pub fn columns(&self, ask: &Ask<'_>) -> Result<Vec<Column>, Fault> {
        let (template, item) = endpoint::find(self, ask)?;
        let operation = response::operation(self, template, item, ask.method)?;
        let schema = response::schema(self, operation).map_err(|why| format!("{} {template} {why}", ask.method))?;
        field::columns(self, schema, ask)
    }

    fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        self.root.get(key)?.as_object()
    }

    /// What a local reference leads to.
    fn target(&self, reference: &str) -> Result<&Value, String> {
        let name = || shown(reference, 100);
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(format!("the $ref {} leads to another document: bundle them, or declare columns", name()));
        };
        let pointer = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
        self.root.pointer(&pointer).ok_or_else(|| format!("the $ref {} leads nowhere in the document", name()))
    }

    /// A path item, response or the like, which a reference may stand for.
    fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        let mut at = value;
        for _ in 0..HOPS_MAX {
            match at.get("$ref").and_then(Value::as_str) {
                Some(reference) => at = self.target(reference)?,
                None => return Ok(at),
            }
        }
        Err(format!("more than {HOPS_MAX} $refs lead from one to the next"))
    }
}

/// Some names, the ones most like `wanted` first.
fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<(f64, &str)> =
        names.into_iter().take(COMPARED_MAX).map(|name| (likeness(wanted, name), name)).collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    listed(names.into_iter().map(|(_, name)| name))
}

/// The first few names, and how many there are more.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown: Vec<String> = names.take(NAMES_MAX).map(|name| shown(name, 100)).collect();
    match (shown.is_empty(), more) {
        (true, _) => "none".into(),
        (_, 0) => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

fn likeness(wanted: &str, name: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(&cut(wanted, 200), &cut(name, 200))
}

/// A text of a document, fit for a message.
fn shown(text: &str, max: usize) -> String {
    one_line(&cut(text, max))
}

#[cfg(test)]
mod tests;
