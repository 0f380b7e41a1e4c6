//! Cross-key rules: what is refused (R12) and what is said aloud (R13).

use super::checkpoint::Saving;
use super::http::Format;
use super::pagination::{Paging, StyleName};
use super::partition::{PartitionKind, Splitting};
use super::section::{Report, Section};
use super::{Auth, Filter, FixedHeader, TableConfig, keys};
use crate::position::Mode;
use url::Url;

/// A query parameter and the key that says it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) param: String,
    key: String,
    by_default: bool,
}

impl Sent {
    /// The parameter that a key of a block names.
    pub(super) fn by(section: &Section<'_>, key: &str, param: &str) -> Self {
        Self { param: param.to_owned(), key: section.key(key), by_default: !section.sets(key) }
    }

    /// The parameter at a key path.
    pub(super) fn at(key: String, param: &str) -> Self {
        Self { param: param.to_owned(), key, by_default: false }
    }

    fn writer(&self) -> String {
        format!("{}{}", self.key, if self.by_default { " (its default)" } else { "" })
    }
}

/// One table as far as it could be read.
pub(super) struct Facts<'a> {
    pub(super) table: &'a Section<'a>,
    pub(super) format: Option<Format>,
    pub(super) paging: &'a Paging<'a>,
    pub(super) saving: &'a Saving<'a>,
    pub(super) partition: Option<&'a Splitting>,
    pub(super) is_child: bool,
}

/// All rules about the combinations of one table's keys.
pub(super) fn check(facts: &Facts<'_>) {
    checkpoint_beside(facts);
    position_that_cannot_be_saved(facts);
    streamed_body(facts);
    flat_records(facts);
}

/// One position cannot describe several partitions, nor several parents.
fn checkpoint_beside(facts: &Facts<'_>) {
    if !facts.saving.enabled {
        return;
    }
    if let Some(partition) = facts.partition {
        let kind = partition.kind.map(PartitionKind::name).map(|k| format!("type = {k}, ")).unwrap_or_default();
        let said = format!("a partition ({kind}of any type) cannot stand beside an enabled checkpoint");
        facts.table.report().problem(&partition.key, said);
    }
    if facts.is_child {
        facts.saving.section.problem("enabled", "a child table (parent-table) cannot have a checkpoint");
    }
}

/// The mode, if it needs a cursor or an offset.
fn walked_mode(facts: &Facts<'_>) -> Option<Mode> {
    facts.saving.mode.filter(|mode| facts.saving.enabled && matches!(mode, Mode::Cursor | Mode::Offset))
}

fn position_that_cannot_be_saved(facts: &Facts<'_>) {
    let (Some(mode), Some(style)) = (walked_mode(facts), facts.paging.style) else { return };
    if matches!(style, StyleName::LinkHeader | StyleName::NextUrl) {
        let said = format!("pagination style = {} has no {mode} to save; use mode = timestamp or token", style.name());
        facts.saving.section.problem("mode", said);
    }
}

/// Whether the paging can serve the checkpoint's mode; if not, a warning says that nothing is saved.
pub(super) fn is_served(saving: &Saving<'_>, style: StyleName) -> bool {
    let (Some(mode), true) = (saving.mode, saving.enabled) else { return false };
    let served = match mode {
        Mode::Cursor => style == StyleName::Cursor,
        Mode::Offset => style == StyleName::Offset,
        _ => true,
    };
    if !served {
        let said = format!(
            "mode = {mode} saves nothing under pagination style = {}: the table is read as one without a checkpoint",
            style.name()
        );
        saving.section.report().warn(&saving.section.key("mode"), said);
    }
    served
}

/// A streamed body is records, one by one: there is no document to point into.
fn streamed_body(facts: &Facts<'_>) {
    let Some(format) = facts.format.filter(|f| f.is_streamed()) else { return };
    let streamed = format!("http.response-format = {} is a streamed body", format.name());
    if let Some(mode) = walked_mode(facts) {
        facts.saving.section.problem("mode", format!("{streamed}, which has no {mode} to save"));
    }
    let say = |section: &Section<'_>, key: &str| {
        if section.sets(key) {
            section.problem(key, format!("{streamed}, which has no document to point into"));
        }
    };
    for key in ["cursor-path", "next-url-path", "total-path", "has-more-path", "results-path"] {
        say(&facts.paging.section, key);
    }
    if facts.saving.enabled && facts.saving.mode == Some(Mode::Token) {
        say(&facts.saving.section, "token-path");
    }
    say(facts.table, "data-path");
}

/// The cells of a CSV record have names, and nothing inside them.
fn flat_records(facts: &Facts<'_>) {
    if facts.format != Some(Format::Csv) {
        return;
    }
    let check = |section: &Section<'_>, key: &str| {
        let path = if section.sets(key) { section.pointer(key) } else { None };
        if let Some(path) = path.filter(|path| path.count() != 1) {
            section
                .problem(key, format!("expected /name, the name of a CSV column, not {path:?}: cells are not nested"));
        }
    };
    for (_, column) in facts.table.blocks("columns", keys::COLUMN) {
        check(&column, "path");
    }
    check(facts.table, "error-path");
    if facts.saving.enabled {
        check(&facts.saving.section, "timestamp-path");
        check(&facts.saving.section, "dedup-key");
    }
}

/// Any two writers of one query parameter; the later one in the list is the one to change.
pub(super) fn writers(sends: &[Sent], report: &Report) {
    for (i, sent) in sends.iter().enumerate() {
        if let Some(first) = sends[..i].iter().find(|s| s.param == sent.param) {
            let said = format!("the query parameter {:?} is already sent by {}", sent.param, first.writer());
            report.problem(&sent.key, said);
        }
    }
}

/// A filter on a parameter that something else sends is left to the engine, with exactly one warning.
pub(super) fn filters(filters: &mut [(String, Filter)], sends: &[Sent], report: &Report) {
    for (key, filter) in filters {
        if let Some(first) = sends.iter().find(|s| s.param == filter.param) {
            let said = format!(
                "the query parameter {:?} is sent by {}: the filter is not sent, the engine applies it",
                filter.param,
                first.writer()
            );
            report.warn(key, said);
            filter.is_taken = true;
        }
    }
}

/// Credentials that travel without encryption.
pub(super) fn plain_http(
    base: Option<&Url>,
    auth: Option<&Auth>,
    headers: &[FixedHeader],
    tables: &[TableConfig],
    report: &Report,
) {
    let mut all_headers = headers.iter().chain(tables.iter().flat_map(|t| &t.headers));
    let has_credentials = auth.is_some_and(Auth::is_some) || all_headers.any(|h| h.is_secret);
    if has_credentials && base.is_some_and(|url| url.scheme() == "http") {
        report.warn("base-url", "credentials travel unencrypted over plain http://; use https://");
    }
    let token_url = auth.and_then(|auth| if let Auth::OAuth2(o) = auth { Some(&o.token_url) } else { None });
    if token_url.is_some_and(|url| url.scheme() == "http") {
        report.warn("auth.token-url", "credentials travel unencrypted over plain http://; use https://");
    }
}
