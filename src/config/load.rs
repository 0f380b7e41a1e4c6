//! HOCON text, the reference and the environment become the typed model.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use hocon::HoconValue;
use url::Url;

use super::openapi::Described;
use super::section::{Report, Section};
use super::table::{self, Shared};
use super::text::{self, Text, join};
use super::validate::{self, Sent};
use super::{
    SourceConfig, SpecPlace, TableConfig, auth, child, explode, http, keys, openapi, pagination, travel, urls,
};
use crate::error::{Error, ErrorKind, Problem, Result};
use crate::secret::{Redactor, Secret, names_a_secret};
use crate::storage::Settings;

/// Every key with its default.
const REFERENCE: &str = include_str!("../../config/reference.conf");

/// Loads and checks a configuration file with the process environment.
///
/// Variables that are not UTF-8 count as not set.
pub fn load(path: &Path) -> Result<SourceConfig> {
    load_with_env(path, &environment())
}

/// The environment of this process, but for what is not UTF-8.
pub fn environment() -> HashMap<String, String> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
}

/// Loads and checks a configuration file; `env` answers `${VAR}`.
///
/// The error holds every problem of the configuration (R11).
#[allow(clippy::implicit_hasher, reason = "the parser takes this one")]
pub fn load_with_env(path: &Path, env: &HashMap<String, String>) -> Result<SourceConfig> {
    read(path, None, env, Spec::IsRead).map(|(config, ..)| config)
}

/// Loads and checks what a file holds that is none of this machine; `path` is its name, for messages and for what it
/// names relative to itself.
#[allow(clippy::implicit_hasher, reason = "the parser takes this one")]
pub fn load_text(path: &Path, text: &str, env: &HashMap<String, String>) -> Result<SourceConfig> {
    read(path, Some(text), env, Spec::IsRead).map(|(config, ..)| config)
}

/// Loads and checks a text that [`travelling`] made; `env` answers for its secrets.
///
/// A local `openapi` document stayed behind: the columns of its tables come with the plan.
#[allow(clippy::implicit_hasher, reason = "the parser takes this one")]
pub fn load_travelled(path: &Path, text: &str, env: &HashMap<String, String>) -> Result<SourceConfig> {
    read(path, Some(text), env, Spec::StayedBehind).map(|(config, ..)| config)
}

/// A configuration as a text that can travel to other hosts: everything in it is resolved but what came from the environment
/// and may be a secret, which is a `${VARIABLE}` as it was (R23). `text` as for [`load_text`], `None` to read the file.
///
/// # Errors
/// Kind `Config` as [`load_with_env`]; and for a secret that is written out, at its key: it would travel with the text.
#[allow(clippy::implicit_hasher, reason = "the parser takes this one")]
pub fn travelling(path: &Path, text: Option<&str>, env: &HashMap<String, String>) -> Result<String> {
    let (config, read, redactor) = read(path, text, env, Spec::IsRead)?;
    let marked = text::read(path, text, &travel::marked(env)).map_err(Error::problems)?;
    travel::text(&config, &read, &marked.root, &redactor).map_err(Error::problems)
}

/// Whether a local `openapi` document is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spec {
    IsRead,
    StayedBehind,
}

fn read(
    path: &Path,
    text: Option<&str>,
    env: &HashMap<String, String>,
    spec: Spec,
) -> Result<(SourceConfig, Text, Redactor)> {
    let defaults = reference()?;
    let mut text = text::read(path, text, env).map_err(Error::problems)?;
    let unresolved = std::mem::take(&mut text.unresolved);
    let unset: Vec<String> = unresolved.iter().map(|p| p.key.clone()).collect();
    let report = Report::new(&text.places, unresolved);
    let top = Section::new(String::new(), Some(&text.root), Some(&defaults), keys::TOP, &report);
    let (config, redactor) = read_source(path, &top, env, spec);
    drop(top);

    let (mut problems, mut warnings) = report.into_parts();
    // What follows from a variable that is not set is said by that.
    let mut first = unset.len();
    problems.retain(|problem| {
        let said = first > 0 || !unset.contains(&problem.key);
        first = first.saturating_sub(1);
        said
    });
    scrub(&mut problems, &redactor);
    scrub(&mut warnings, &redactor);
    match config {
        Some(config) if problems.is_empty() => Ok((SourceConfig { warnings, ..config }, text, redactor)),
        _ if problems.is_empty() => Err(Error::new(ErrorKind::Bug, "a configuration is incomplete without a reason")),
        _ => Err(Error::problems(problems)),
    }
}

/// The reference as a tree: the only home of defaults.
pub(super) fn reference() -> Result<HoconValue> {
    let broken = |said: String| Error::new(ErrorKind::Bug, format!("the built-in reference.conf is broken: {said}"));
    let tokens = hocon::tokenize(REFERENCE).map_err(|e| broken(e.to_string()))?;
    let ast = hocon::parser::parse_tokens(&tokens).map_err(|e| broken(e.to_string()))?;
    let options = hocon::resolver::InternalResolveOptions::new(HashMap::new());
    hocon::resolver::resolve(ast, &options).map_err(|e| broken(e.to_string()))
}

/// Reads all blocks; also returns what removes the credentials it met from messages.
fn read_source(
    path: &Path,
    top: &Section<'_>,
    env: &HashMap<String, String>,
    spec: Spec,
) -> (Option<SourceConfig>, Redactor) {
    let report = top.report();
    let http_block = top.block("http", keys::HTTP);
    let described = openapi::read(top, &http_block, path.parent().unwrap_or(Path::new("")), spec);
    let base_url = read_base_url(top, described.as_ref());
    let auth_block = top.block("auth", keys::AUTH);
    let auth = auth::read(&auth_block, path.parent().unwrap_or(Path::new("")));
    let http = http::read(&http_block);
    let schema = top.block("schema", keys::SCHEMA);
    let pagination = top.block("pagination", keys::PAGINATION);
    pagination::check_types(&pagination);
    let hadoop = read_hadoop(top);
    let has_hadoop = !hadoop.is_empty();
    let storage = Settings::new(hadoop, env);

    let blocks = top.blocks("tables", keys::TABLE);
    if !top.sets("tables") {
        top.problem("tables", "required: a block with one block a table");
    } else if blocks.is_empty() {
        top.problem("tables", "names no table");
    }
    let shared = Shared {
        base_url: base_url.clone(),
        described: described.as_ref(),
        directory: path.parent().unwrap_or(Path::new("")),
        format: http::read_format(&http_block),
        auth_sends: auth_block.name("query-param").map(|param| Sent::by(&auth_block, "query-param", &param)),
        pagination,
        schema,
        names: blocks.iter().map(|(name, _)| name.clone()).collect(),
        storage: &storage,
        opened: RefCell::default(),
        has_remote: Cell::default(),
    };
    let tables: Vec<Option<TableConfig>> =
        blocks.iter().map(|(name, block)| table::read(name, block, &shared)).collect();
    if has_hadoop && !shared.has_remote.get() {
        report.warn("hadoop", "has no effect: no checkpoint.path of a table leads to a store");
    }
    let mut read: Vec<TableConfig> = tables.iter().flatten().cloned().collect();
    if described.is_some() && top.sets("base-url") && !tables.iter().any(Option::is_none) {
        openapi::warn_if_unused(&read, report);
    }
    let headers = http.as_ref().map_or(&[][..], |h| &h.headers);
    explode::check(&read, report);
    child::no_circles(&read, report);
    child::find_keys(&mut read);
    validate::plain_http(base_url.as_ref(), auth.as_ref(), headers, &read, report);

    let with_headers = std::iter::once(&http_block).chain(blocks.iter().map(|(_, block)| block));
    let redactor = redactor(&auth_block, with_headers, &storage);
    let complete = read.len() == tables.len();
    let config = || {
        Some(SourceConfig {
            file: path.to_owned(),
            base_url: base_url?,
            openapi: described.map(|described| described.place),
            auth: auth?,
            http: http?,
            storage,
            tables: read,
            warnings: Vec::new(),
        })
    };
    (if complete { config() } else { None }, redactor)
}

/// `base-url`, or the first server of a document that is at hand.
fn read_base_url(top: &Section<'_>, described: Option<&Described>) -> Option<Url> {
    if top.sets("base-url") || !top.sets("openapi") {
        top.require("base-url", ": an absolute http or https URL");
        return urls::base(&top.text("base-url")?).map_err(|said| top.problem("base-url", said)).ok();
    }
    let server = match described? {
        Described { place: SpecPlace::Url(_), .. } => {
            Err("required: openapi is a URL, and nothing is asked when a configuration is loaded".to_owned())
        }
        Described { spec, .. } => {
            let server = spec.as_ref()?.server(None).map_err(|why| format!("required: openapi does not say it, {why}"));
            server.and_then(|url| {
                urls::base(url.as_str()).map_err(|said| format!("required: the first server of openapi {said}"))
            })
        }
    };
    server.map_err(|said| top.problem("base-url", said)).ok()
}

/// The `hadoop` block: HOCON nests dotted names, Hadoop knows them flat.
fn read_hadoop(top: &Section<'_>) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    if let Some(value) = top.raw("hadoop") {
        if value.is_object() {
            flatten(value, "", "hadoop", &mut flat, top.report());
        } else {
            top.problem("hadoop", "expected a block { ... }");
        }
    }
    flat
}

fn flatten(value: &HoconValue, name: &str, key: &str, flat: &mut BTreeMap<String, String>, report: &Report) {
    match value {
        HoconValue::Object(fields) => {
            for (word, value) in fields {
                let name = if name.is_empty() { word.clone() } else { format!("{name}.{word}") };
                flatten(value, &name, &join(key, word), flat, report);
            }
        }
        HoconValue::Scalar(_) if value.is_null() => {}
        HoconValue::Scalar(scalar) => {
            flat.insert(name.to_owned(), scalar.raw.clone());
        }
        _ => report.problem(key, "expected a text"),
    }
}

/// Everything that must not stand in a message, whatever led it there (R23). Learnt from the blocks, right or wrong.
fn redactor<'a>(
    auth: &Section<'_>,
    with_headers: impl Iterator<Item = &'a Section<'a>>,
    storage: &Settings,
) -> Redactor {
    let redactor = Redactor::default();
    for key in ["token", "password", "header-value", "client-secret", "query-value"] {
        auth.text(key).into_iter().for_each(|text| redactor.learn(&Secret::new(text)));
    }
    let headers = with_headers.flat_map(|block| block.pairs("headers"));
    for (_, value) in headers.filter(|(name, _)| names_a_secret(name)) {
        redactor.learn(&Secret::new(value));
    }
    storage.secrets().iter().for_each(|secret| redactor.learn(secret));
    redactor
}

fn scrub(problems: &mut [Problem], redactor: &Redactor) {
    for problem in problems {
        problem.message = redactor.scrub(&problem.message);
    }
}
