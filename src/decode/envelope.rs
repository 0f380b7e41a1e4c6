//! One walk over a page's document: the records are read where they stand, the values around them are noted (R14, R16).

use std::ops::Range;

use jsonptr::Pointer;

use super::json::said;
use super::record::{Halt, array_index, cut};
use super::scan::{Flaw, Kind, Scanner};
use super::spec::DecodeSpec;
use super::{Envelope, Scalar};
use crate::error::{Error, ErrorKind, Result};

/// What stands at a place of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Records,
    Results,
    Error,
    Next,
    Total,
    HasMore,
    Token,
}

/// The wanted places of a document, as a trie.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    children: Vec<(String, Self)>,
    slots: Vec<Slot>,
}

/// What takes the place of the record array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Records {
    #[default]
    Missing,
    /// Neither an array nor what may stand for one.
    Other,
    Null,
    Read {
        count: u64,
        range: Range<usize>,
    },
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found<'a> {
    records: Records,
    /// The length of `results-path`, once it was seen as an array or null.
    results: Option<u64>,
    error: Option<&'a str>,
    next: Option<&'a str>,
    total: Option<&'a str>,
    has_more: Option<&'a str>,
    token: Option<&'a str>,
    /// Records that could not be read; what the envelope says comes first.
    failed: Option<Error>,
}

/// What a good page says.
#[derive(Debug)]
pub(crate) struct Said<'a> {
    pub received: u64,
    /// The text of the record array.
    pub content: &'a str,
    pub envelope: Envelope,
}

impl Outline {
    /// The places that a table wants.
    pub(crate) fn new(spec: &DecodeSpec) -> Self {
        let mut root = Self::default();
        root.put(spec.data.as_deref().unwrap_or(Pointer::root()), Slot::Records);
        let optional = [
            (&spec.results, Slot::Results),
            (&spec.error, Slot::Error),
            (&spec.next, Slot::Next),
            (&spec.total, Slot::Total),
            (&spec.has_more, Slot::HasMore),
            (&spec.token, Slot::Token),
        ];
        for (path, slot) in optional {
            if let Some(path) = path {
                root.put(path, slot);
            }
        }
        root
    }

    fn put(&mut self, path: &Pointer, slot: Slot) {
        match path.split_front() {
            Some((token, rest)) => {
                let name = token.decoded();
                let at = self.children.iter().position(|(key, _)| *key == name).unwrap_or_else(|| {
                    self.children.push((name.into_owned(), Self::default()));
                    self.children.len() - 1
                });
                if let Some((_, child)) = self.children.get_mut(at) {
                    child.put(rest, slot);
                }
            }
            None => self.slots.push(slot),
        }
    }

    /// Walks the document. `read` reads the records where the scanner stands (an array, or one object where `paged`
    /// is false) and says how many there are.
    pub(crate) fn walk<'a>(
        &self,
        text: &'a str,
        paged: bool,
        mut read: impl FnMut(&mut Scanner<'a>) -> Result<u64, Halt>,
    ) -> Result<Found<'a>, Halt> {
        let mut scanner = Scanner::new(text);
        let mut found = Found::default();
        self.value(&mut scanner, paged, &mut found, &mut read)?;
        scanner.end()?;
        Ok(found)
    }

    fn value<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        paged: bool,
        found: &mut Found<'a>,
        read: &mut impl FnMut(&mut Scanner<'a>) -> Result<u64, Halt>,
    ) -> Result<(), Halt> {
        let first = scanner.peek();
        let start = scanner.at();
        if self.slots.contains(&Slot::Records) {
            found.records = match first {
                Some(b'[') => Self::records(scanner, found, read)?,
                Some(b'{') if !paged => Self::records(scanner, found, read)?,
                Some(b'n') => scanner.skip().map(|()| Records::Null)?,
                _ => scanner.skip().map(|()| Records::Other)?,
            };
            if !self.children.is_empty() {
                self.descend(&mut scanner.again_at(start), paged, found, read)?;
            }
        } else if self.children.is_empty() {
            scanner.skip()?;
        } else {
            self.descend(scanner, paged, found, read)?;
        }
        let raw = scanner.since(start);
        for slot in &self.slots {
            match slot {
                Slot::Records => {}
                Slot::Results if first == Some(b'n') => found.results = Some(0),
                Slot::Results => {
                    found.results = match &found.records {
                        Records::Read { count, range } if range.start == start && first == Some(b'[') => Some(*count),
                        _ if first == Some(b'[') => Some(length(&mut scanner.again_at(start))?),
                        _ => None,
                    }
                }
                Slot::Error => found.error = Some(raw).filter(|raw| *raw != "null"),
                Slot::Next => found.next = Some(raw),
                Slot::Total => found.total = Some(raw),
                Slot::HasMore => found.has_more = Some(raw),
                Slot::Token => found.token = Some(raw),
            }
        }
        Ok(())
    }

    fn records<'a>(
        scanner: &mut Scanner<'a>,
        found: &mut Found<'a>,
        read: &mut impl FnMut(&mut Scanner<'a>) -> Result<u64, Halt>,
    ) -> Result<Records, Halt> {
        let start = scanner.at();
        let count = match read(scanner) {
            Ok(count) => count,
            Err(Halt::Error(error)) => {
                // The document may still say why.
                found.failed = Some(error);
                *scanner = scanner.again_at(start);
                scanner.skip()?;
                0
            }
            Err(flaw) => return Err(flaw),
        };
        Ok(Records::Read { count, range: start..scanner.at() })
    }

    fn descend<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        paged: bool,
        found: &mut Found<'a>,
        read: &mut impl FnMut(&mut Scanner<'a>) -> Result<u64, Halt>,
    ) -> Result<(), Halt> {
        match scanner.peek() {
            Some(b'{') => {
                let mut seen = vec![false; self.children.len()];
                let mut more = scanner.enter(b'}')?;
                while more {
                    let key = scanner.key()?;
                    let name = key.text().unwrap_or_default();
                    let child = self.children.iter().position(|(child, _)| *child == name && key.kind != Kind::Null);
                    scanner.colon()?;
                    match child.and_then(|at| Some((self.children.get(at)?, seen.get_mut(at)?))) {
                        Some((_, true)) => {
                            let said =
                                format!("the key `{name}` stands twice in the page: it is not clear which counts");
                            return Err(Error::new(ErrorKind::Decode, said).into());
                        }
                        Some(((_, child), seen)) => {
                            *seen = true;
                            child.value(scanner, paged, found, read)?;
                        }
                        None => scanner.skip()?,
                    }
                    more = scanner.more(b'}')?;
                }
            }
            Some(b'[') => {
                let mut index = 0;
                let mut more = scanner.enter(b']')?;
                while more {
                    match self.children.iter().find(|(name, _)| array_index(name) == Some(index)) {
                        Some((_, child)) => child.value(scanner, paged, found, read)?,
                        None => scanner.skip()?,
                    }
                    index += 1;
                    more = scanner.more(b']')?;
                }
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }
}

/// The length of the array that is next.
pub(super) fn length(scanner: &mut Scanner<'_>) -> Result<u64, Flaw> {
    let mut length = 0;
    let mut more = scanner.enter(b']')?;
    while more {
        scanner.skip()?;
        length += 1;
        more = scanner.more(b']')?;
    }
    Ok(length)
}

impl<'a> Found<'a> {
    /// Judges the page (R16): an error of the API first, then a missing array, then records that could not be read.
    pub(crate) fn judge(self, spec: &DecodeSpec, status: u16, text: &'a str) -> Result<Said<'a>> {
        if let (Some(error), Some(path)) = (self.error, &spec.error) {
            let said = format!("the API reports an error at {path} (HTTP status {status}): {}", said(error));
            return Err(Error::new(ErrorKind::Http, said));
        }
        let (count, content) = match &self.records {
            Records::Read { count, range } => (*count, text.get(range.clone()).unwrap_or_default()),
            Records::Null => (0, ""),
            Records::Missing | Records::Other => {
                let at = spec.data.as_ref().map_or("the document".to_owned(), |path| format!("`{path}`"));
                return Err(no_array(&at, "data-path", status, text));
            }
        };
        if let Some(error) = self.failed {
            return Err(error);
        }
        let received = match (&spec.results, self.results) {
            (None, _) => count,
            (Some(_), Some(length)) => length,
            (Some(path), None) => return Err(no_array(&format!("`{path}`"), "pagination.results-path", status, text)),
        };
        let envelope = Envelope {
            next: scalar(self.next)?,
            total: scalar(self.total)?,
            has_more: scalar(self.has_more)?,
            token: scalar(self.token)?,
        };
        Ok(Said { received, content, envelope })
    }
}

/// The scalar at a place of a document.
pub(super) fn scalar_at(text: &str, path: &Pointer) -> Result<Scalar, Halt> {
    let mut outline = Outline::default();
    outline.put(path, Slot::Total);
    let found = outline.walk(text, true, |_| Ok(0))?;
    Ok(scalar(found.total)?)
}

fn no_array(at: &str, key: &str, status: u16, text: &str) -> Error {
    let said =
        format!("no record array at {at} (HTTP status {status}, {key}); the body begins: {}", cut(text.trim(), 200));
    Error::new(ErrorKind::Decode, said)
}

fn scalar(raw: Option<&str>) -> Result<Scalar> {
    let Some(raw) = raw else { return Ok(Scalar::Absent) };
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Scalar::Text(serde_json::from_str(raw).map_err(|_| {
            Error::new(ErrorKind::Decode, format!("half a character (a lone surrogate) in {}", cut(raw, 120)))
        })?),
        Some(b't') => Scalar::Bool(true),
        Some(b'f') => Scalar::Bool(false),
        Some(b'{' | b'[') => Scalar::Structure(cut(raw, 120)),
        Some(b'n') | None => Scalar::Absent,
        Some(_) => Scalar::Number(raw.to_owned()),
    })
}
