//! Standard output and standard error, scrubbed of secrets (R23).

use std::io::{self, Write as _};
use std::sync::{Arc, RwLock};

use serde_json::{Value, json};

use super::args::Log;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Redactor;

/// Where commands print.
#[derive(Debug, Clone)]
pub(super) struct Console {
    form: Log,
    quiet: bool,
    redactors: Arc<RwLock<Vec<Redactor>>>,
}

impl Console {
    pub(super) fn new(form: Log, quiet: bool) -> Self {
        Self { form, quiet, redactors: Arc::default() }
    }

    /// From here on these secrets are removed from everything that is printed.
    pub(super) fn hide(&self, redactor: &Redactor) {
        if let Ok(mut held) = self.redactors.write() {
            held.push(redactor.clone());
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(super) fn is_json(&self) -> bool {
        self.form == Log::Json
    }

    /// What a command was asked for: standard output.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        Self::print_bytes(format!("{}\n", self.scrub(text)).as_bytes())
    }

    /// Bytes as they are.
    pub(super) fn print_bytes(bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| {
            Error::new(ErrorKind::Store, format!("standard output could not be written: {error}")).caused_by(error)
        })
    }

    /// News, unless it is to be quiet.
    pub(super) fn say(&self, text: &str) {
        if !self.quiet {
            self.message("info", "", text);
        }
    }

    /// What was lost is said even when it is to be quiet.
    pub(super) fn loss(&self, text: &str) {
        self.message("info", "", text);
    }

    pub(super) fn warn(&self, text: &str) {
        self.message("warn", "warning: ", text);
    }

    pub(super) fn error(&self, text: &str) {
        self.message("error", "error: ", text);
    }

    /// A problem begins with its place, so that editors find it.
    pub(super) fn problem(&self, text: &str) {
        self.message("error", "", text);
    }

    /// One line for machines.
    pub(super) fn event(&self, event: &Value) {
        self.stderr(&event.to_string());
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        let scrub = |held: &[Redactor]| held.iter().fold(text.to_owned(), |text, redactor| redactor.scrub(&text));
        self.redactors.read().map_or_else(|_| String::new(), |held| scrub(&held))
    }

    fn message(&self, level: &str, lead: &str, text: &str) {
        // What an API sent must not draw on the terminal, nor look like a line of ours.
        let text = &text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
        match self.form {
            Log::Text => self.stderr(&format!("{lead}{text}")),
            Log::Json => self.event(&json!({ "level": level, "message": text })),
        }
    }

    /// A standard error that nobody takes is no reason to stop.
    fn stderr(&self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", self.scrub(line));
    }
}
