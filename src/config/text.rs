//! HOCON text becomes one tree of values and the place of every key; includes are followed and checked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use hocon::HoconValue;
use hocon::parser::{AstField, AstNode};
use hocon::resolver::InternalResolveOptions;

use crate::error::Problem;

/// Objects and dotted keys may nest this deep, all files together; more would exhaust the parser's stack.
const MAX_DEPTH: usize = 100;
/// A chain of substitutions is resolved recursively; a configuration has a handful.
const MAX_SUBSTITUTIONS: usize = 2_000;
/// What substitutions of keys may add to a configuration, in keys: copies of copies grow without end.
const MAX_COPIED: usize = 20_000;
/// Resolving runs on a stack of its own, so that such a chain cannot exhaust the caller's.
const RESOLVER_STACK: usize = 256 << 20;

/// Where a key stands: the file, named as it was included, and the line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    file: PathBuf,
    line: usize,
}

/// A `${...}` and the key whose value it is part of.
#[derive(Debug)]
struct Substitution {
    name: String,
    /// The key it copies if it names one: inside an included file names begin at the block of the include.
    target: String,
    key: String,
    place: Place,
}

/// Where every key of a configuration stands.
#[derive(Debug, Default)]
pub(super) struct Places {
    keys: HashMap<String, Place>,
    substitutions: Vec<Substitution>,
    /// Values joined of several pieces, by key.
    joined: Vec<(String, Place)>,
}

impl Places {
    /// A problem at a key; one that stands nowhere is shown at the nearest block around it.
    pub(super) fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        let place = ancestors(key).find_map(|at| self.keys.get(at));
        Problem {
            key: key.to_owned(),
            message: message.into(),
            file: place.map(|p| p.file.clone()),
            line: place.map(|p| p.line),
        }
    }

    /// The number of keys that the substitutions below `key` add, those inside what they copy included.
    fn copied<'a>(&'a self, key: &str, known: &mut HashMap<&'a str, usize>) -> usize {
        let below = |other: &str| other == key || ancestors(other).any(|at| at == key) || key.is_empty();
        let mut sum = 0_usize;
        for substitution in self.substitutions.iter().filter(|s| below(&s.key)) {
            let name = substitution.target.as_str();
            let size = known.get(name).copied().unwrap_or_else(|| {
                // A circle counts as nothing here: the resolver refuses it.
                known.insert(name, 0);
                let written = self.keys.keys().filter(|k| ancestors(k).any(|at| at == name)).count();
                let size = written.saturating_add(self.copied(name, known));
                known.insert(name, size);
                size
            });
            sum = sum.saturating_add(size).min(MAX_COPIED + 1);
        }
        sum
    }

    /// Whether a key's value was written out, not substituted: only then may a message show it.
    pub(super) fn is_literal(&self, key: &str) -> bool {
        !self.substitutions.iter().any(|s| ancestors(key).any(|at| at == s.key))
    }
}

/// A loaded text.
#[derive(Debug)]
pub(super) struct Text {
    /// Always an object.
    pub(super) root: HoconValue,
    pub(super) places: Places,
    /// Required substitutions without a value; their keys hold an empty text.
    pub(super) unresolved: Vec<Problem>,
}

/// Reads a file, the files it includes and the environment variables it names; `text` is what the file holds, where it
/// is none of this machine.
pub(super) fn read(path: &Path, text: Option<&str>, env: &HashMap<String, String>) -> Result<Text, Vec<Problem>> {
    let mut walk = Walk::default();
    let place = Place { file: path.to_owned(), line: 1 };
    let ast = match text {
        Some(text) => walk.parsed(text, path, "", 0, &place),
        None => walk.file(path, "", 0, &place),
    };
    let Some(ast) = ast else { return Err(walk.problems) };
    if walk.places.substitutions.len() > MAX_SUBSTITUTIONS {
        walk.fail("", &place, format!("more than {MAX_SUBSTITUTIONS} substitutions"));
    } else if walk.places.copied("", &mut HashMap::new()) > MAX_COPIED {
        walk.fail("", &place, format!("substitutions copy more than {MAX_COPIED} keys"));
    }
    walk.refuse_lost_properties();
    if !walk.problems.is_empty() {
        return Err(walk.problems);
    }
    let (root, unresolved) = resolve(&ast, path, env, &walk.places).map_err(|problem| vec![problem])?;
    Ok(Text { root, places: walk.places, unresolved })
}

/// The key path of a key inside a block; keys that are no plain words are quoted.
pub(super) fn join(block: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    let key = if plain { key.to_owned() } else { format!("{key:?}") };
    if block.is_empty() { key } else { format!("{block}.{key}") }
}

/// A key path and the paths of the blocks around it, innermost first.
fn ancestors(key: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut ends: Vec<usize> = key
        .char_indices()
        .filter_map(|(at, c)| {
            quoted ^= c == '"';
            (!quoted && at > 0 && matches!(c, '.' | '[')).then_some(at)
        })
        .collect();
    ends.push(key.len());
    ends.into_iter().rev().map(|end| &key[..end])
}

/// The first look at a configuration: its syntax, its includes, its keys.
#[derive(Default)]
struct Walk {
    places: Places,
    problems: Vec<Problem>,
    /// The files being read, to refuse circles.
    open: Vec<PathBuf>,
    /// The block that the file being read was included in.
    scope: String,
    /// Properties of `hadoop` that hold a text, and those that hold others below them.
    texts: HashSet<String>,
    blocks: HashSet<String>,
}

impl Walk {
    fn fail(&mut self, key: &str, place: &Place, message: String) {
        let (file, line) = (Some(place.file.clone()), Some(place.line));
        self.problems.push(Problem { key: key.to_owned(), message, file, line });
    }

    /// Reads one file whose keys stand in `block`; `from` is where it was named.
    fn file(&mut self, path: &Path, block: &str, depth: usize, from: &Place) -> Option<AstNode> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                self.fail(block, from, format!("{} is not UTF-8: save it as UTF-8", path.display()));
                return None;
            }
            Err(e) => {
                self.fail(block, from, format!("cannot read {}: {e}", path.display()));
                return None;
            }
        };
        self.parsed(&text, path, block, depth, from)
    }

    /// Reads what a file holds.
    fn parsed(&mut self, text: &str, path: &Path, block: &str, depth: usize, from: &Place) -> Option<AstNode> {
        let parsed = hocon::tokenize(text).and_then(|tokens| {
            let stray = stray_brace(&tokens).map(|token| (token.line, token.col));
            hocon::parser::parse_tokens(&tokens).map(|ast| (ast, stray))
        });
        let failure = match parsed {
            Ok((ast, None)) => Ok(ast),
            // The parser would take it for the end of the file, and drop what follows.
            Ok((_, Some((line, column)))) => {
                Err((line, format!("syntax error at column {column}: this }} closes nothing")))
            }
            Err(e) => Err((e.line, syntax_error(&e.message, e.col))),
        };
        let ast = match failure {
            Ok(ast) => ast,
            Err((line, message)) => {
                self.fail("", &Place { file: path.to_owned(), line: line.max(1) }, message);
                return None;
            }
        };
        let AstNode::Object { fields, .. } = &ast else {
            self.fail(block, &Place { file: path.to_owned(), line: 1 }, "the file must hold keys, not a list".into());
            return None;
        };
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.open.contains(&canonical) {
            self.fail(block, from, format!("{} includes itself", path.display()));
            return None;
        }
        self.open.push(canonical);
        let outer = std::mem::replace(&mut self.scope, block.to_owned());
        self.fields(fields, path, block, depth);
        self.scope = outer;
        self.open.pop();
        Some(ast)
    }

    fn fields(&mut self, fields: &[AstField], file: &Path, block: &str, depth: usize) {
        for field in fields {
            let place = Place { file: file.to_owned(), line: field.pos.line };
            if let AstNode::Include { path, is_file, .. } = &field.value {
                self.include(path, *is_file, block, depth, &place);
                continue;
            }
            let depth = depth + field.key.len();
            if depth > MAX_DEPTH {
                self.fail(block, &place, format!("keys nest deeper than {MAX_DEPTH} levels"));
                continue;
            }
            let mut key = block.to_owned();
            for (i, word) in field.key.iter().enumerate() {
                key = join(&key, word);
                if i + 1 == field.key.len() {
                    self.places.keys.insert(key.clone(), place.clone());
                } else {
                    self.places.keys.entry(key.clone()).or_insert_with(|| place.clone());
                }
            }
            self.note_property(&key, &field.value);
            self.value(&field.value, file, &key, depth);
        }
    }

    /// `a.b = 1` and `a.b.c = 2` are two properties for Hadoop, but HOCON keeps one of them only.
    fn refuse_lost_properties(&mut self) {
        let both: Vec<String> = self.texts.intersection(&self.blocks).cloned().collect();
        for key in both {
            let said = "holds a text and also keys below it: HOCON would lose one; quote the longer name as a whole";
            self.problems.push(self.places.problem(&key, said));
        }
    }

    fn note_property(&mut self, key: &str, value: &AstNode) {
        if key.starts_with("hadoop.") {
            self.blocks.extend(ancestors(key).skip(1).map(str::to_owned));
            if !matches!(value, AstNode::Object { .. }) {
                self.texts.insert(key.to_owned());
            }
        }
    }

    fn value(&mut self, value: &AstNode, file: &Path, key: &str, depth: usize) {
        match value {
            AstNode::Object { fields, .. } => self.fields(fields, file, key, depth),
            AstNode::Array { items, .. } => {
                for (i, item) in items.iter().enumerate() {
                    let key = format!("{key}[{i}]");
                    if let AstNode::Object { pos, .. } = item {
                        let place = Place { file: file.to_owned(), line: pos.line };
                        self.places.keys.insert(key.clone(), place);
                    }
                    self.value(item, file, &key, depth + 1);
                }
            }
            AstNode::Concat { nodes, pos } => {
                self.places.joined.push((key.to_owned(), Place { file: file.to_owned(), line: pos.line }));
                for node in nodes {
                    self.value(node, file, key, depth);
                }
            }
            AstNode::Substitution { segments, pos, .. } => {
                let name = segments.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(".");
                let place = Place { file: file.to_owned(), line: pos.line };
                let target = segments.iter().fold(self.scope.clone(), |at, s| join(&at, &s.text));
                self.places.substitutions.push(Substitution { name, target, key: key.to_owned(), place });
            }
            _ => {}
        }
    }

    /// Reads what an `include` names: HOCON lets a missing file pass, here it is a problem.
    fn include(&mut self, name: &str, from_working_directory: bool, block: &str, depth: usize, place: &Place) {
        let directory =
            if from_working_directory { Path::new("") } else { place.file.parent().unwrap_or(Path::new("")) };
        let path = directory.join(name);
        let candidates = match path.extension() {
            Some(_) => vec![path.clone()],
            None => ["properties", "json", "conf"].map(|ext| path.with_extension(ext)).to_vec(),
        };
        let mut found = false;
        for candidate in candidates.iter().filter(|c| c.is_file()) {
            found = true;
            // Properties files have no blocks; their keys are shown at the include.
            if depth >= MAX_DEPTH {
                self.fail(block, place, format!("files and keys nest deeper than {MAX_DEPTH} levels"));
            } else if candidate.extension().is_none_or(|ext| ext != "properties") {
                self.file(candidate, block, depth + 1, place);
            }
        }
        if !found {
            self.fail(block, place, format!("the included file {} does not exist", path.display()));
        }
    }
}

/// The first closing brace that nothing opened.
fn stray_brace(tokens: &[hocon::Token]) -> Option<&hocon::Token> {
    let mut open = 0_usize;
    tokens.iter().find(|token| match token.kind {
        hocon::TokenKind::LBrace => {
            open += 1;
            false
        }
        hocon::TokenKind::RBrace => match open.checked_sub(1) {
            Some(left) => {
                open = left;
                false
            }
            None => true,
        },
        _ => false,
    })
}

/// What the parser said, without the source text it may quote (R23).
fn syntax_error(message: &str, column: usize) -> String {
    let words = message.split(['"', '\'', ':', '(', '`', '{']).next().unwrap_or("").trim();
    format!("syntax error at column {column}: {}", if words.is_empty() { "unexpected text" } else { words })
}

/// Resolves all substitutions; those without a value are all reported, not only the first.
fn resolve(
    ast: &AstNode,
    path: &Path,
    env: &HashMap<String, String>,
    places: &Places,
) -> Result<(HoconValue, Vec<Problem>), Problem> {
    let mut env = env.clone();
    let mut unresolved = Vec::new();
    let whole = |message: String| Problem { key: String::new(), message, file: Some(path.to_owned()), line: None };
    loop {
        let base = path.parent().map(Path::to_path_buf);
        let options = InternalResolveOptions::new(env.clone()).with_base_dir_opt(base);
        let resolved = thread::scope(|scope| {
            let work = || hocon::resolver::resolve(ast.clone(), &options);
            thread::Builder::new().stack_size(RESOLVER_STACK).spawn_scoped(scope, work).map(ScopedJoinHandle::join)
        });
        let error = match resolved {
            Ok(Ok(Ok(root @ HoconValue::Object(_)))) => return Ok((root, unresolved)),
            Ok(Ok(Err(error))) => error,
            _ => return Err(whole("the configuration cannot be resolved".into())),
        };
        let at = places.substitutions.iter().find(|s| {
            s.place.line == error.line && (s.name == error.path || error.path.ends_with(&format!(".{}", s.name)))
        });
        let Some(at) = at else {
            let joined = places.joined.iter().find(|(_, place)| place.line == error.line);
            let Some((key, place)) = joined else { return Err(whole(resolve_error(&error.message))) };
            let (file, line) = (Some(place.file.clone()), Some(place.line));
            return Err(Problem { key: key.clone(), message: resolve_error(&error.message), file, line });
        };
        let (key, file, line) = (at.key.clone(), Some(at.place.file.clone()), Some(at.place.line));
        if !error.message.starts_with("could not resolve") || env.contains_key(&error.path) {
            return Err(Problem { key, message: resolve_error(&error.message), file, line });
        }
        let message =
            format!("${{{}}} is neither set in the environment nor a key; ${{?{}}} is optional", at.name, at.name);
        unresolved.push(Problem { key, message, file, line });
        env.insert(error.path, String::new());
    }
}

/// What the resolver said: it names kinds and substitutions, never values; only its first clause is shown.
fn resolve_error(message: &str) -> String {
    if message.contains("concatenation") {
        return "two values stand side by side: put a comma or a new line between settings".to_owned();
    }
    message.split(';').next().unwrap_or(message).to_owned()
}
