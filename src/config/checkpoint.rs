//! Reads the `checkpoint` block of a table.

use super::section::Section;
use super::table::Shared;
use super::validate::Sent;
use super::{CheckpointConfig, Future, ModeConfig};
use crate::position::Mode;
use crate::storage::Location;
use crate::storage::location;

/// A table's checkpoint as far as it could be read.
pub(super) struct Saving<'a> {
    pub(super) section: Section<'a>,
    pub(super) enabled: bool,
    pub(super) mode: Option<Mode>,
    /// The query parameter it sends when it is enabled.
    pub(super) sends: Option<Sent>,
    /// The enabled checkpoint.
    pub(super) config: Option<CheckpointConfig>,
}

const MODES: [(&str, Mode); 4] =
    [("cursor", Mode::Cursor), ("offset", Mode::Offset), ("timestamp", Mode::Timestamp), ("token", Mode::Token)];

/// What only timestamp mode reads.
const TIMESTAMP_KEYS: [&str; 5] = ["timestamp-path", "timestamp-param", "timestamp-format", "lag", "future"];

/// Reads the block; a disabled one is checked by type only.
pub(super) fn read<'a>(section: Section<'a>, shared: &Shared<'_>) -> Saving<'a> {
    let enabled = section.flag("enabled").unwrap_or(false);
    let mode = section.choice("mode", &MODES);
    if enabled {
        section.require("path", " when the checkpoint is enabled");
        let needs: &[&str] = match mode {
            Some(Mode::Timestamp) => &["timestamp-path", "timestamp-param"],
            Some(Mode::Token) => &["token-path", "token-param"],
            _ => &[],
        };
        let why = mode.map(|m| format!(" with mode = {m}")).unwrap_or_default();
        if mode.is_some_and(|mode| mode != Mode::Timestamp) {
            section.unused(&TIMESTAMP_KEYS, why.trim_start_matches(" with "));
        }
        if mode.is_some_and(|mode| mode != Mode::Token) {
            section.unused(&["token-path", "token-param"], why.trim_start_matches(" with "));
        }
        for key in needs {
            section.require(key, &why);
        }
    }
    let location = read_location(&section, enabled, shared);
    let timestamp_path = section.pointer("timestamp-path");
    let timestamp_param = section.name("timestamp-param");
    let timestamp_format = section.timestamp_format("timestamp-format");
    let token_path = section.pointer("token-path");
    let token_param = section.name("token-param");
    let lag = section.duration("lag");
    let dedup_key = section.pointer("dedup-key");
    let future = section.choice("future", &[("clamp", Future::Clamp), ("follow", Future::Follow)]);

    let sent = match mode {
        Some(Mode::Timestamp) => timestamp_param.as_deref().map(|p| ("timestamp-param", p)),
        Some(Mode::Token) => token_param.as_deref().map(|p| ("token-param", p)),
        _ => None,
    };
    let sends = sent.filter(|_| enabled).map(|(key, param)| Sent::by(&section, key, param));
    let mode_config = mode.and_then(|mode| {
        Some(match mode {
            Mode::Cursor => ModeConfig::Cursor,
            Mode::Offset => ModeConfig::Offset,
            Mode::Timestamp => {
                ModeConfig::Timestamp { path: timestamp_path?, param: timestamp_param?, format: timestamp_format? }
            }
            Mode::Token => ModeConfig::Token { path: token_path?, param: token_param? },
        })
    });
    let config =
        || Some(CheckpointConfig { location: location?, mode: mode_config?, lag: lag?, dedup_key, future: future? });
    let config = if enabled { config() } else { None };
    Saving { section, enabled, mode, sends, config }
}

/// An enabled checkpoint must lead to a store that can be opened, as far as this is known without asking it.
fn read_location(section: &Section<'_>, enabled: bool, shared: &Shared<'_>) -> Option<Location> {
    let location = match location::parse(&section.text("path")?) {
        // Relative to the configuration, as everything it names: a scheduler starts us anywhere.
        Ok(Location::Local(path)) => return Some(Location::Local(shared.directory.join(path))),
        Ok(remote) => remote,
        Err(said) => {
            section.problem("path", said);
            return None;
        }
    };
    shared.has_remote.set(true);
    if enabled {
        shared.problems_of(&location).into_iter().for_each(|said| section.problem("path", said));
    }
    Some(location)
}
