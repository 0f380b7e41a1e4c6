//! One walk over a record's text: values of the wanted paths go straight into their columns, the rest is stepped over.
//!
//! The wanted paths are a trie. Each of its objects remembers which key followed which in the record before, so that
//! a key is usually recognised by one comparison. Nothing is built for a field that nobody asked for.

use std::collections::{HashMap, HashSet};
use std::fmt;

use jsonptr::Pointer;

use super::columns::Columns;
use super::scan::{Bridge, Flaw, Kind, Quoted, Scanner, Token};
use crate::config::OnMismatch;
use crate::counts::Tally;
use crate::error::{Error, ErrorKind};
use crate::text::{self, one_line};

/// Why a walk stopped.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The text is not JSON.
    Flaw(Flaw),
    /// The data cannot be used.
    Error(Error),
}

impl From<Flaw> for Halt {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Where a record stands, for messages; both count from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The n-th record of its page.
    Record(u64),
    /// The n-th line of the body.
    Line(u64),
    /// The event that begins at the n-th line of the body.
    Event(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(n) => write!(f, "record {n}"),
            Self::Line(n) => write!(f, "line {n}"),
            Self::Event(n) => write!(f, "the event at line {n}"),
        }
    }
}

/// A value that is looked at besides the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// `timestamp-path`.
    Timestamp,
    /// `dedup-key`.
    Identity,
    /// `error-path`, where every record could be an error (a streamed body).
    Error,
    /// The array whose elements are the rows.
    Elements,
}

/// The watched values of one record, as raw JSON texts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watched<'a> {
    pub timestamp: Option<&'a str>,
    pub identity: Option<&'a str>,
    pub error: Option<&'a str>,
    pub elements: Option<&'a str>,
    /// What stands where an object on the way to the array should.
    pub blocked: Option<&'a str>,
}

/// What happens to keys that no declared path goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undeclared {
    /// They are left out, as declared.
    Skip,
    /// They are counted: the schema was inferred and has no room for them.
    Count,
    /// They go into the rest column.
    Keep,
}

/// Where the values of the records go.
#[derive(Debug)]
pub(crate) struct Sink {
    pub columns: Columns,
    pub on_mismatch: OnMismatch,
    pub undeclared: Undeclared,
    /// The rest text of the record at hand.
    pub rest: String,
    pub duplicate_keys: Tally,
    pub undeclared_keys: Tally,
    /// Where keys of the record at hand stand that stand again behind.
    pub superseded: HashSet<usize>,
}

impl Sink {
    pub(crate) fn new(columns: Columns, on_mismatch: OnMismatch, undeclared: Undeclared) -> Self {
        let (duplicate_keys, undeclared_keys) = (Tally::default(), Tally::default());
        let (rest, superseded) = (String::new(), HashSet::new());
        Self { columns, on_mismatch, undeclared, rest, duplicate_keys, undeclared_keys, superseded }
    }

    /// An empty sink of the same columns.
    pub(crate) fn spare(&self) -> Self {
        Self::new(self.columns.spare(), self.on_mismatch, self.undeclared)
    }

    /// Takes back what `other` counted.
    pub(crate) fn take_back(&mut self, other: &Self) {
        self.columns.take_back(&other.columns);
        self.duplicate_keys.take_back(&other.duplicate_keys);
        self.undeclared_keys.take_back(&other.undeclared_keys);
        self.superseded.clear();
    }
}

/// A place in a record that wanted paths go to or through.
#[derive(Debug, Default)]
pub(crate) struct Node {
    keys: Keys,
    children: Vec<Self>,
    /// Children that are elements of an array.
    items: Vec<(usize, usize)>,
    columns: Vec<usize>,
    watch: Vec<Watch>,
    /// Whether a path of the table's columns (not only a watched one) goes here.
    declared: bool,
    /// Whether one of them ends here: then nothing inside is undeclared.
    whole: bool,
    /// The record in which it was last seen, and where its key stands there.
    stamp: u64,
    key_at: usize,
}

impl Node {
    /// Marks the path as one of the table's columns, projected or not.
    pub(crate) fn declare(&mut self, path: &Pointer) {
        self.declared = true;
        match path.split_front() {
            Some((token, rest)) => self.child(&token.decoded()).declare(rest),
            None => self.whole = true,
        }
    }

    /// The value at `path` goes into a column.
    pub(crate) fn read(&mut self, path: &Pointer, column: usize) {
        self.reach(path).columns.push(column);
    }

    /// The value at `path` is watched.
    pub(crate) fn watch(&mut self, path: &Pointer, watch: Watch) {
        self.reach(path).watch.push(watch);
    }

    /// Whether somebody reads the value here as a whole.
    pub(crate) fn is_read(&self) -> bool {
        !self.columns.is_empty()
    }

    fn reach(&mut self, path: &Pointer) -> &mut Self {
        match path.split_front() {
            Some((token, rest)) => self.child(&token.decoded()).reach(rest),
            None => self,
        }
    }

    fn child(&mut self, name: &str) -> &mut Self {
        let next = self.children.len();
        let at = *self.keys.wanted.entry(name.to_owned()).or_insert(next);
        if at == next {
            self.children.push(Self::default());
            if let Some(index) = array_index(name) {
                self.items.push((index, at));
            }
        }
        &mut self.children[at]
    }

    fn leads_to_elements(&self) -> bool {
        self.children.iter().any(|child| child.watch.contains(&Watch::Elements) || child.leads_to_elements())
    }

    fn each_column_below(&self, visit: &mut impl FnMut(usize) -> Result<(), Error>) -> Result<(), Error> {
        for child in &self.children {
            for column in &child.columns {
                visit(*column)?;
            }
            child.each_column_below(visit)?;
        }
        Ok(())
    }
}

/// A pointer token that can be an array index.
pub(super) fn array_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with('0');
    (canonical && token.bytes().all(|b| b.is_ascii_digit())).then(|| token.parse().ok()).flatten()
}

/// The keys of an object: which are wanted, and which followed which.
#[derive(Debug, Default)]
struct Keys {
    wanted: HashMap<String, usize>,
    known: Vec<Known>,
    index: HashMap<Box<str>, usize>,
    /// From the opening bracket.
    entry: Way,
}

#[derive(Debug)]
struct Known {
    quoted: Quoted,
    child: Option<usize>,
    /// From its value.
    way: Way,
}

/// Where records usually go on from a place: the key, and all that stands before its value.
#[derive(Debug)]
struct Way {
    next: usize,
    bridge: Option<Bridge>,
    /// Records that went elsewhere.
    missed: u8,
}

impl Default for Way {
    fn default() -> Self {
        Self { next: NOWHERE, bridge: None, missed: 0 }
    }
}

/// A key that was reached: its child, if it is wanted, and where it begins and ends.
type Reached = (Option<usize>, (usize, usize));

/// Keys that are remembered per object; objects with data for keys stay bounded (R26).
const KNOWN_MAX: usize = 4_096;
/// After the opening bracket.
const START: usize = usize::MAX;
/// After a key that is not remembered.
const NOWHERE: usize = usize::MAX - 1;

impl Keys {
    /// Goes to the value of the key that usually comes next, if it comes here too: its child, and where the key stands.
    /// `last` is the key before it.
    #[inline]
    fn leap(&self, last: &mut usize, scanner: &mut Scanner<'_>) -> Option<Reached> {
        let way = self.way(*last)?;
        let (known, from) = (self.known.get(way.next)?, scanner.at());
        if !scanner.cross(way.bridge.as_ref()?) {
            return None;
        }
        *last = way.next;
        Some((known.child, way.bridge.as_ref()?.key_at(from)))
    }

    #[inline]
    fn way(&self, from: usize) -> Option<&Way> {
        match self.known.get(from) {
            Some(known) => Some(&known.way),
            None => (from == START).then_some(&self.entry),
        }
    }

    /// Remembers how the key `next` was reached after `before`. One record that goes another way changes nothing.
    fn learn(&mut self, before: usize, next: usize, bridge: impl FnOnce() -> Option<Bridge>) {
        let way = match self.known.get_mut(before) {
            Some(known) => &mut known.way,
            None if before == START => &mut self.entry,
            None => return,
        };
        way.missed = way.missed.wrapping_add(1);
        if next != NOWHERE && (way.bridge.is_none() || way.missed.is_multiple_of(4)) {
            (way.next, way.bridge) = (next, bridge());
        }
    }

    /// Consumes the next key. `last` is the key before it.
    fn next(&mut self, last: &mut usize, scanner: &mut Scanner<'_>) -> Result<Option<usize>, Flaw> {
        let guess = self.way(*last).map_or(NOWHERE, |way| way.next);
        if let Some(known) = self.known.get(guess)
            && scanner.take_key(&known.quoted)
        {
            *last = guess;
            return Ok(known.child);
        }
        let key = scanner.key()?;
        if let Some(at) = self.index.get(key.raw) {
            *last = *at;
            return Ok(self.known.get(*at).and_then(|known| known.child));
        }
        let child = key.text().and_then(|name| self.wanted.get(name.as_ref()).copied());
        *last = NOWHERE;
        if self.known.len() < KNOWN_MAX {
            *last = self.known.len();
            self.index.insert(key.raw.into(), *last);
            self.known.push(Known { quoted: Quoted::new(key.raw), child, way: Way::default() });
        }
        Ok(child)
    }
}

/// A walk over one record.
pub(crate) struct Walk<'w, 'a> {
    pub scanner: &'w mut Scanner<'a>,
    pub sink: &'w mut Sink,
    pub watched: Watched<'a>,
    pub stamp: u64,
    /// Whether superseded keys are known and left out.
    pub is_again: bool,
    pub place: Place,
}

impl<'a> Walk<'_, 'a> {
    /// Reads the value at a node. `keep` says whether undeclared keys inside are of interest.
    #[inline]
    pub(crate) fn value(&mut self, node: &mut Node, keep: bool) -> Result<(), Halt> {
        if node.children.is_empty() {
            if let ([column], []) = (node.columns.as_slice(), node.watch.as_slice())
                && self.sink.columns.push_next(*column, self.scanner)
            {
                return Ok(());
            }
            let token = self.scanner.value()?;
            return self.take(node, &token);
        }
        self.inner(node, keep)
    }

    fn inner(&mut self, node: &mut Node, keep: bool) -> Result<(), Halt> {
        let first = self.scanner.peek();
        let start = self.scanner.at();
        let kind = match first {
            Some(b'{') => {
                self.object(node, keep && !node.whole)?;
                Kind::Object
            }
            Some(b'[') if !node.items.is_empty() => {
                self.array(node)?;
                self.keep_raw(start, keep && !node.whole);
                Kind::Array
            }
            _ => {
                let token = self.scanner.value()?;
                if token.kind != Kind::Null {
                    node.each_column_below(&mut |column| {
                        if self.sink.columns.push_mismatch(column, token.raw) {
                            Ok(())
                        } else {
                            self.mismatch(column, token.raw)
                        }
                    })?;
                    if node.leads_to_elements() {
                        self.watched.blocked = Some(token.raw);
                    }
                    self.keep_raw(start, keep && !node.whole);
                }
                token.kind
            }
        };
        if node.columns.is_empty() && node.watch.is_empty() {
            return Ok(());
        }
        let token = Token { kind, raw: self.scanner.since(start) };
        self.take(node, &token)
    }

    fn object(&mut self, node: &mut Node, keep: bool) -> Result<(), Halt> {
        let rest = keep && self.sink.undeclared == Undeclared::Keep;
        if rest {
            self.sink.rest.push('{');
        }
        let mut last = START;
        self.scanner.open();
        loop {
            let (child, (start, end)) = match node.keys.leap(&mut last, self.scanner) {
                Some(reached) => reached,
                None => match self.step(node, &mut last)? {
                    Some(reached) => reached,
                    None => break,
                },
            };
            match child.and_then(|at| node.children.get_mut(at)) {
                Some(child) if child.stamp == self.stamp => {
                    let earlier = std::mem::replace(&mut child.key_at, start);
                    if self.sink.superseded.insert(earlier) {
                        let (key, place) = (self.scanner.again_at(end).since(start), self.place);
                        self.sink.duplicate_keys.add(|| format!("key `{}` in {place}", key.trim_matches('"')));
                    }
                    self.scanner.skip()?;
                }
                Some(_) if self.is_again && self.sink.superseded.contains(&start) => self.scanner.skip()?,
                Some(child) => {
                    (child.stamp, child.key_at) = (self.stamp, start);
                    if keep {
                        self.kept_member(child, start, end)?;
                    } else {
                        self.value(child, false)?;
                    }
                }
                None if keep => {
                    self.undeclared(start, end, |walk| Ok(walk.scanner.skip()?))?;
                }
                None => self.scanner.skip()?,
            }
        }
        if rest {
            self.sink.rest.push('}');
        }
        Ok(())
    }

    /// Goes to the value of the next key, token by token: its child, and where the key stands; `None` at the end of the
    /// object.
    fn step(&mut self, node: &mut Node, last: &mut usize) -> Result<Option<Reached>, Flaw> {
        let (from, before) = (self.scanner.at(), *last);
        if !(if before == START { self.scanner.begins(b'}') } else { self.scanner.more(b'}') })? {
            return Ok(None);
        }
        self.scanner.peek();
        let start = self.scanner.at();
        let child = node.keys.next(last, self.scanner)?;
        let end = self.scanner.at();
        self.scanner.colon()?;
        self.scanner.peek();
        let text = self.scanner.since(from);
        node.keys.learn(before, *last, || Bridge::new(text, (start - from, end - from)));
        Ok(Some((child, (start, end))))
    }

    /// A member on a wanted path, while undeclared keys are of interest.
    fn kept_member(&mut self, child: &mut Node, start: usize, end: usize) -> Result<(), Halt> {
        if !child.declared {
            return self.undeclared(start, end, |walk| walk.value(child, false));
        }
        if child.children.is_empty() || self.sink.undeclared != Undeclared::Keep {
            return self.value(child, true);
        }
        let before = self.sink.rest.len();
        self.open_member(start, end);
        let open = self.sink.rest.len();
        self.value(child, true)?;
        if matches!(self.sink.rest.get(open..), Some("" | "{}")) {
            self.sink.rest.truncate(before);
        }
        Ok(())
    }

    /// A member that no column reads: counted or kept; `step` reads over its value.
    fn undeclared(
        &mut self,
        start: usize,
        end: usize,
        step: impl FnOnce(&mut Self) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        if self.sink.undeclared != Undeclared::Keep {
            let (key, place) = (self.scanner.again_at(end).since(start), self.place);
            self.sink.undeclared_keys.add(|| format!("key `{}` in {place}", key.trim_matches('"')));
            return step(self);
        }
        self.open_member(start, end);
        self.scanner.peek();
        let value = self.scanner.at();
        step(self)?;
        self.keep_raw(value, true);
        Ok(())
    }

    fn open_member(&mut self, start: usize, end: usize) {
        let key = self.scanner.again_at(end).since(start);
        if !self.sink.rest.ends_with('{') {
            self.sink.rest.push(',');
        }
        self.sink.rest.push_str(key);
        self.sink.rest.push(':');
    }

    fn keep_raw(&mut self, start: usize, keep: bool) {
        if keep && self.sink.undeclared == Undeclared::Keep {
            self.sink.rest.push_str(self.scanner.since(start));
        }
    }

    fn array(&mut self, node: &mut Node) -> Result<(), Halt> {
        let mut more = self.scanner.enter(b']')?;
        let mut index = 0;
        while more {
            let child = node.items.iter().find(|(item, _)| *item == index).map(|(_, at)| *at);
            match child.and_then(|at| node.children.get_mut(at)) {
                Some(child) => self.value(child, false)?,
                None => self.scanner.skip()?,
            }
            index += 1;
            more = self.scanner.more(b']')?;
        }
        Ok(())
    }

    #[allow(clippy::inline_always, reason = "the token stays in registers")]
    #[inline(always)]
    fn take(&mut self, node: &Node, token: &Token<'a>) -> Result<(), Halt> {
        for column in &node.columns {
            if !self.sink.columns.push(*column, token) {
                self.mismatch(*column, token.raw)?;
            }
        }
        for watch in &node.watch {
            match watch {
                Watch::Timestamp => self.watched.timestamp = Some(token.raw),
                Watch::Identity => self.watched.identity = Some(token.raw),
                Watch::Elements => self.watched.elements = Some(token.raw).filter(|_| token.kind != Kind::Null),
                Watch::Error => self.watched.error = Some(token.raw).filter(|_| token.kind != Kind::Null),
            }
        }
        Ok(())
    }

    #[cold]
    fn mismatch(&self, column: usize, raw: &str) -> Result<(), Error> {
        if self.sink.on_mismatch == OnMismatch::Null {
            return Ok(());
        }
        Err(misfit(&self.sink.columns, column, raw, self.place))
    }
}

/// The error of a value that does not fit its column.
pub(super) fn misfit(columns: &Columns, column: usize, raw: &str, place: Place) -> Error {
    let (name, data_type) = columns.describe(column);
    let said = format!(
        "{place}, column `{name}`: {} is not {data_type}; declare another type, or set schema.on-mismatch = null to \
         read such values as NULL",
        cut(raw, 120)
    );
    Error::new(ErrorKind::Decode, said)
}

/// The first `max` characters of a text, on one line.
pub(super) fn cut(text: &str, max: usize) -> String {
    one_line(&text::cut(text, max))
}
