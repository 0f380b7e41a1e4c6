//! One block of the configuration: typed readers that collect problems instead of failing at the first.

use std::cell::RefCell;
use std::time::Duration;

use hocon::{HoconValue, ScalarType, ScalarValue};
use jsonptr::PointerBuf;
use serde::Deserialize;

use super::keys::TEMPLATE;
use super::text::{Places, join};
use crate::error::Problem;
use crate::position::TimestampFormat;
use crate::secret::Secret;

/// What was found wrong or worth saying so far.
pub(super) struct Report<'a> {
    places: &'a Places,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

impl<'a> Report<'a> {
    /// A report that begins with some problems.
    pub(super) fn new(places: &'a Places, problems: Vec<Problem>) -> Self {
        Self { places, problems: RefCell::new(problems), warnings: RefCell::default() }
    }

    /// Adds a problem at a key.
    pub(super) fn problem(&self, key: &str, message: impl Into<String>) {
        add(&self.problems, self.places.problem(key, message));
    }

    /// Adds a warning at a key.
    pub(super) fn warn(&self, key: &str, message: impl Into<String>) {
        add(&self.warnings, self.places.problem(key, message));
    }

    /// All problems and all warnings, in the order they were found.
    pub(super) fn into_parts(self) -> (Vec<Problem>, Vec<Problem>) {
        (self.problems.into_inner(), self.warnings.into_inner())
    }
}

/// Whether a credential may stand at a key, rightly or by mistake (R23): its value is never shown.
fn is_private(key: &str) -> bool {
    key.split('.').any(|word| matches!(word, "auth" | "headers" | "params" | "hadoop" | "body"))
}

/// A block that several tables share is read once for each of them: its problems are said once.
fn add(list: &RefCell<Vec<Problem>>, problem: Problem) {
    let mut list = list.borrow_mut();
    if !list.contains(&problem) {
        list.push(problem);
    }
}

/// A block as written, by its path.
#[derive(Clone)]
struct Layer<'a> {
    path: String,
    fields: Option<&'a HoconValue>,
}

/// A block: what the file says, over what another block says, over the defaults.
#[derive(Clone)]
pub(super) struct Section<'a> {
    /// The first one that has a key wins; never empty.
    layers: Vec<Layer<'a>>,
    defaults: Option<&'a HoconValue>,
    report: &'a Report<'a>,
}

/// A value and the path of its key.
struct Found<'a> {
    value: &'a HoconValue,
    path: String,
}

impl<'a> Section<'a> {
    /// The block at `path`, which must be an object with no other than the known keys.
    pub(super) fn new(
        path: String,
        value: Option<&'a HoconValue>,
        defaults: Option<&'a HoconValue>,
        known: &[&str],
        report: &'a Report<'a>,
    ) -> Self {
        if let Some(value) = value {
            match value.as_object() {
                Some(fields) => fields.keys().filter(|k| !known.contains(&k.as_str())).for_each(|key| {
                    report.problem(&join(&path, key), unknown_key(key, known));
                }),
                None => report.problem(&path, format!("expected a block {{ ... }}, not {}", kind(value))),
            }
        }
        Self { layers: vec![Layer { path, fields: value }], defaults, report }
    }

    /// This block with the defaults of another one of the same kind.
    pub(super) fn with_defaults_of(mut self, other: &Section<'a>) -> Self {
        self.defaults = other.defaults;
        self
    }

    /// This block over another one of the same kind.
    pub(super) fn over(mut self, other: &Section<'a>) -> Self {
        self.layers.extend(other.layers.iter().cloned());
        self
    }

    /// Where problems go.
    pub(super) fn report(&self) -> &'a Report<'a> {
        self.report
    }

    /// The path of this block.
    pub(super) fn path(&self) -> &str {
        self.layers.first().map_or("", |l| l.path.as_str())
    }

    /// Whether the file has this block at all.
    pub(super) fn is_written(&self) -> bool {
        self.layers.iter().any(|l| l.fields.is_some())
    }

    /// Which of the blocks, counted from the top, sets a key; `None` if only a default or nothing does.
    pub(super) fn layer(&self, key: &str) -> Option<usize> {
        self.layers.iter().position(|l| lookup(l.fields, key).is_some())
    }

    /// Whether the file sets a key.
    pub(super) fn sets(&self, key: &str) -> bool {
        self.layer(key).is_some()
    }

    /// The path of a key: of the block that sets it, else of the top one.
    pub(super) fn key(&self, key: &str) -> String {
        let layer = self.layers.get(self.layer(key).unwrap_or(0));
        join(layer.map_or("", |l| l.path.as_str()), key)
    }

    fn find(&self, key: &str) -> Option<Found<'a>> {
        let set = self.layers.iter().find_map(|l| lookup(l.fields, key));
        let value = set.or_else(|| lookup(self.defaults, key))?;
        Some(Found { value, path: self.key(key) })
    }

    /// Adds a problem at a key of this block.
    pub(super) fn problem(&self, key: &str, message: impl Into<String>) {
        self.report.problem(&self.key(key), message);
    }

    /// Warns of keys that the file sets and nothing reads; `with` says why.
    pub(super) fn unused(&self, keys: &[&str], with: &str) {
        for key in keys.iter().filter(|key| self.sets(key)) {
            self.report.warn(&self.key(key), format!("has no effect with {with}"));
        }
    }

    /// Says that a key must be set, when it is not; `why` follows "required".
    pub(super) fn require(&self, key: &str, why: &str) {
        if self.find(key).is_none() {
            self.problem(key, format!("required{why}"));
        }
    }

    /// Says of a wrong value what was expected; shows the value if it was written out.
    fn wrong<T>(&self, found: &Found<'_>, expected: &str) -> Option<T> {
        let shown = match found.value {
            HoconValue::Scalar(s) if self.report.places.is_literal(&found.path) && !is_private(&found.path) => {
                format!("{:?}", s.raw)
            }
            other => kind(other).to_owned(),
        };
        self.report.problem(&found.path, format!("expected {expected}, not {shown}"));
        None
    }

    /// A scalar as written.
    fn scalar(&self, found: &Found<'a>, expected: &str) -> Option<&'a str> {
        match found.value {
            HoconValue::Scalar(s) => Some(&s.raw),
            _ => self.wrong(found, expected),
        }
    }

    /// A text; numbers and booleans as written.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        let found = self.find(key)?;
        self.scalar(&found, "a text").map(str::to_owned)
    }

    /// A text that is not empty, such as the name of a parameter.
    pub(super) fn name(&self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        if text.is_empty() {
            self.problem(key, "must not be empty");
            return None;
        }
        Some(text)
    }

    /// A credential: a text that is not empty and never shown.
    pub(super) fn secret(&self, key: &str) -> Option<Secret> {
        self.name(key).map(Secret::new)
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let found = self.find(key)?;
        let words = choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let expected = format!("one of {words}");
        let raw = self.scalar(&found, &expected)?;
        let choice = choices.iter().find(|(word, _)| *word == raw).map(|(_, choice)| *choice);
        choice.or_else(|| self.wrong(&found, &expected))
    }

    /// A whole number that is at least `least`.
    pub(super) fn whole(&self, key: &str, least: u64) -> Option<u64> {
        let found = self.find(key)?;
        let expected = if least == 0 { "a whole number".into() } else { format!("a whole number of at least {least}") };
        let value = found.value.as_i64().and_then(|n| u64::try_from(n).ok()).filter(|n| *n >= least);
        value.or_else(|| self.wrong(&found, &expected))
    }

    /// A whole number that fits into memory sizes.
    pub(super) fn size(&self, key: &str, least: u64) -> Option<usize> {
        self.whole(key, least).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let found = self.find(key)?;
        found.value.as_bool().or_else(|| self.wrong(&found, "true or false"))
    }

    /// A duration with its unit.
    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        let found = self.find(key)?;
        let read = hocon::from_value::<WithUnit>(found.value).ok().map(|d| d.0);
        read.or_else(|| self.wrong(&found, "a duration with a unit, such as 30s or \"5 minutes\""))
    }

    /// A duration that is more than nothing.
    pub(super) fn time_out(&self, key: &str) -> Option<Duration> {
        let duration = self.duration(key)?;
        if duration.is_zero() {
            self.problem(key, "must be longer than nothing");
            return None;
        }
        Some(duration)
    }

    /// A size in bytes that is more than nothing.
    pub(super) fn bytes(&self, key: &str) -> Option<u64> {
        let found = self.find(key)?;
        let read = hocon::from_value::<Bytes>(found.value).ok().map(|b| b.0).filter(|n| *n > 0);
        read.or_else(|| self.wrong(&found, "a size of at least one byte, such as 256 MiB"))
    }

    /// A JSON pointer (RFC 6901).
    pub(super) fn pointer(&self, key: &str) -> Option<PointerBuf> {
        let found = self.find(key)?;
        let raw = self.scalar(&found, "a JSON pointer")?;
        match PointerBuf::parse(raw) {
            Ok(pointer) => Some(pointer),
            Err(_) if !raw.starts_with('/') => self.wrong(&found, "a JSON pointer, which begins with /"),
            Err(_) => self.wrong(&found, "a JSON pointer, in which ~ is written ~0 and / is written ~1"),
        }
    }

    /// A timestamp format.
    pub(super) fn timestamp_format(&self, key: &str) -> Option<TimestampFormat> {
        let found = self.find(key)?;
        let raw = self.scalar(&found, "a timestamp format")?;
        match TimestampFormat::named(raw) {
            Ok(format) => Some(format),
            Err(said) => {
                self.report.problem(&found.path, said);
                None
            }
        }
    }

    /// The names and texts of a free-form block, in order; a list gives its name several times.
    pub(super) fn pairs(&self, key: &str) -> Vec<(String, String)> {
        let Some(found) = self.find(key) else { return Vec::new() };
        let Some(fields) = found.value.as_object() else {
            self.wrong::<()>(&found, "a block { ... }");
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (name, value) in fields {
            let path = join(&found.path, name);
            if name.is_empty() {
                self.report.problem(&path, "the name must not be empty");
            }
            let values = value.as_array().unwrap_or(std::slice::from_ref(value));
            for value in values {
                match value {
                    HoconValue::Scalar(s) if s.value_type == ScalarType::Null => {}
                    HoconValue::Scalar(s) => pairs.push((name.clone(), s.raw.clone())),
                    HoconValue::Object(_) => {
                        self.report.problem(&path, "expected a text, not a block; quote a name that has a dot");
                    }
                    other => self.report.problem(&path, format!("expected a text, not {}", kind(other))),
                }
            }
        }
        pairs
    }

    /// A list of texts; `None` when absent or wrong.
    pub(super) fn texts(&self, key: &str) -> Option<Vec<String>> {
        let found = self.find(key)?;
        let Some(items) = found.value.as_array() else { return self.wrong(&found, "a list of texts") };
        let texts: Option<Vec<String>> = items
            .iter()
            .map(|item| match item {
                HoconValue::Scalar(s) if s.value_type != ScalarType::Null => Some(s.raw.clone()),
                _ => None,
            })
            .collect();
        texts.or_else(|| self.wrong(&found, "a list of texts"))
    }

    /// The value itself.
    pub(super) fn raw(&self, key: &str) -> Option<&'a HoconValue> {
        self.find(key).map(|found| found.value)
    }

    /// The explicit `null` that HOCON otherwise reads as "not set".
    pub(super) fn is_null(&self, key: &str) -> bool {
        let value = self.layers.first().and_then(|l| l.fields?.as_object()?.get(key));
        value.is_some_and(HoconValue::is_null)
    }

    /// A block inside this one; absent, it holds the defaults only.
    pub(super) fn block(&self, key: &str, known: &[&str]) -> Section<'a> {
        let value = self.layers.iter().find_map(|l| lookup(l.fields, key));
        Section::new(self.key(key), value, lookup(self.defaults, key), known, self.report)
    }

    /// The named blocks of a block, in order.
    pub(super) fn blocks(&self, key: &str, known: &[&str]) -> Vec<(String, Section<'a>)> {
        let Some(found) = self.find(key).filter(|_| self.sets(key)) else { return Vec::new() };
        let Some(fields) = found.value.as_object() else {
            self.wrong::<()>(&found, "a block { ... }");
            return Vec::new();
        };
        let defaults = lookup(lookup(self.defaults, key), TEMPLATE);
        let named = fields.iter().filter(|(_, value)| !value.is_null());
        named
            .map(|(name, value)| {
                (name.clone(), Section::new(join(&found.path, name), Some(value), defaults, known, self.report))
            })
            .collect()
    }

    /// The blocks of a list.
    pub(super) fn list(&self, key: &str, known: &[&str]) -> Vec<Section<'a>> {
        let Some(found) = self.find(key).filter(|_| self.sets(key)) else { return Vec::new() };
        let Some(items) = found.value.as_array() else {
            self.wrong::<()>(&found, "a list of blocks [ { ... } ]");
            return Vec::new();
        };
        let defaults = lookup(self.defaults, key).and_then(|list| list.as_array()?.first());
        let numbered = items.iter().enumerate();
        numbered
            .map(|(i, item)| Section::new(format!("{}[{i}]", found.path), Some(item), defaults, known, self.report))
            .collect()
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct WithUnit(#[serde(with = "hocon::serde::duration::require_unit")] Duration);

/// A duration with its unit, as a configuration writes it; `None` for any other text.
pub fn duration(text: &str) -> Option<Duration> {
    let value = HoconValue::Scalar(ScalarValue::new(text.to_owned(), ScalarType::String));
    hocon::from_value::<WithUnit>(&value).ok().map(|duration| duration.0)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Bytes(#[serde(with = "hocon::serde::bytes")] u64);

/// A key's value; an explicit `null` is as good as none.
fn lookup<'a>(block: Option<&'a HoconValue>, key: &str) -> Option<&'a HoconValue> {
    block?.as_object()?.get(key).filter(|value| !value.is_null())
}

/// What kind of value it is, for messages.
fn kind(value: &HoconValue) -> &'static str {
    match value {
        HoconValue::Object(_) => "a block",
        HoconValue::Array(_) => "a list",
        HoconValue::Scalar(s) if s.value_type == ScalarType::Null => "null",
        _ => "this value",
    }
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|k| (strsim::normalized_damerau_levenshtein(&key.to_lowercase(), k), *k))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, nearest)) if likeness > 0.4 => format!("unknown key; did you mean {nearest}?"),
        _ => format!("unknown key; valid here: {}", known.join(", ")),
    }
}
