//! What can go wrong, whose fault it is, and which exit code says so.

use std::fmt;
use std::path::PathBuf;

use crate::text::one_line;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault an [`Error`] is. The one table from kind to exit code is [`ErrorKind::exit_code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration or the command line cannot be right (R11, R12).
    Config,
    /// A schema cannot be built or does not fit the query.
    Schema,
    /// The query asks for something this table cannot give.
    Scan,
    /// The API did not accept our credentials (R22).
    Auth,
    /// The API failed: a status after retries, the network, a refused origin, `error-path` (R16-R20).
    Http,
    /// The API answered with data that cannot be what was asked for (R16, R24, R26).
    Decode,
    /// The walk did not reach its end: a repeated request, the page cap, an early empty page (R14, R15).
    Incomplete,
    /// Another run moved the checkpoint first (R8).
    Conflict,
    /// A stored state or a destination cannot be read or written (R6, R9).
    Store,
    /// A mistake of ours.
    Bug,
}

impl ErrorKind {
    /// The process exit code that stands for this kind (CLI contract).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Config | Self::Schema | Self::Scan => 2,
            Self::Auth | Self::Http => 3,
            Self::Decode | Self::Incomplete => 4,
            Self::Conflict | Self::Store => 5,
            Self::Bug => 70,
        }
    }

    /// Whether the same call may succeed later without anyone changing anything.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Http | Self::Conflict | Self::Store)
    }
}

/// One problem of a configuration: what, at which key, and where it stands in the file (R11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key path, such as `tables.events.checkpoint.path`; empty for a problem of the whole file.
    pub key: String,
    /// What is wrong and what to do about it, without secrets.
    pub message: String,
    /// The file the key stands in, where known (an included file is named as itself).
    pub file: Option<PathBuf>,
    /// The 1-based line in that file, where known.
    pub line: Option<usize>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            write!(f, ": ")?;
        }
        if self.key.is_empty() { write!(f, "{}", self.message) } else { write!(f, "{}: {}", self.key, self.message) }
    }
}

/// One opaque error: its `Display` is one line that says what, where and what to do.
///
/// The context pairs (`table`, `page`, `url`, `path`, ...) are appended in parentheses. No type of a
/// dependency is part of it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    problems: Vec<Problem>,
    /// The HTTP status that it is about.
    status: Option<u16>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (message, context, problems) = (message.into(), Vec::new(), Vec::new());
        Self(Box::new(Inner { kind, message, context, problems, status: None, source: None }))
    }

    /// All the problems of a configuration at once (R11). `problems` must not be empty.
    pub fn problems(problems: Vec<Problem>) -> Self {
        let message = match problems.as_slice() {
            [one] => one.to_string(),
            many => format!("{} problems in the configuration", many.len()),
        };
        let mut error = Self::new(ErrorKind::Config, message);
        error.0.problems = problems;
        error
    }

    /// Adds where it happened; the first value of a key stays, so inner rooms know best.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        if !self.0.context.iter().any(|(k, _)| *k == key) {
            self.0.context.push((key, value.to_string()));
        }
        self
    }

    /// The same error with other words before the rest of its context.
    #[must_use]
    pub(crate) fn reworded(mut self, words: impl FnOnce(&str) -> String) -> Self {
        self.0.message = words(&self.0.message);
        self
    }

    /// Keeps the cause for `source()`; it does not appear in the one line.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Passes every text of the error through `scrub` (R23) and forgets the cause, whose text cannot be scrubbed.
    #[must_use]
    pub fn scrubbed(mut self, scrub: impl Fn(&str) -> String) -> Self {
        self.0.message = scrub(&self.0.message);
        for (_, value) in &mut self.0.context {
            *value = scrub(value);
        }
        self.0.source = None;
        self
    }

    /// The same error, about an answer with this HTTP status.
    #[must_use]
    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// The HTTP status that it is about, if the API answered with one that is an error.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The same error without its cause, for whoever holds it only by reference.
    #[must_use]
    pub fn copied(&self) -> Self {
        let Inner { kind, message, context, problems, status, .. } = &*self.0;
        let (message, context, problems) = (message.clone(), context.clone(), problems.clone());
        Self(Box::new(Inner { kind: *kind, message, context, problems, status: *status, source: None }))
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is wrong, without the context.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The problems of a configuration, when this is such an error.
    pub fn config_problems(&self) -> &[Problem] {
        &self.0.problems
    }

    /// The value of one context pair, such as `"url"`.
    pub fn context(&self, key: &str) -> Option<&str> {
        self.0.context.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever an API wrote into it.
        write!(f, "{}", one_line(&self.0.message))?;
        for (i, (key, value)) in self.0.context.iter().enumerate() {
            write!(f, "{}{key}: {value}", if i == 0 { " (" } else { ", " })?;
        }
        if self.0.context.is_empty() { Ok(()) } else { write!(f, ")") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        for problem in &self.0.problems {
            write!(f, "\n  {problem}")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, "\n  caused by: {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_line_names_the_context_and_the_innermost_value_wins() {
        let error = Error::new(ErrorKind::Http, "status 500").with("page", 2).with("table", "t").with("page", 9);
        assert_eq!(error.to_string(), "status 500 (page: 2, table: t)");
        assert_eq!(error.kind().exit_code(), 3);
    }

    #[test]
    fn r23_scrubbing_reaches_message_and_context_and_drops_the_cause() {
        let error = Error::new(ErrorKind::Http, "x SECRET").with("url", "SECRET").caused_by("SECRET");
        let scrubbed = error.scrubbed(|t| t.replace("SECRET", "***"));
        assert!(!format!("{scrubbed:?} {scrubbed}").contains("SECRET"));
    }
}
