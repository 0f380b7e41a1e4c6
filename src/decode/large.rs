//! A page that is too large to be held: its records are read group by group as it comes in, its envelope at the end.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;

use super::decoder::{Decoder, records_at, stopped, text_of};
use super::split::{Group, Rest, Splitter};
use super::{Envelope, Page, Scalar};
use crate::error::{Error, ErrorKind, Result};
use crate::position::Boundary;

/// So much of a page's beginning and end is looked at for its envelope.
const AROUND: usize = 64 << 10;

/// How many bytes of that are looked at before it is asked whether it was enough.
const PIECE: usize = 256;

/// How far such a page was read.
#[derive(Debug)]
pub(super) struct Large {
    splitter: Splitter,
    received: u64,
    content: DefaultHasher,
    /// Whether the columns were known before it.
    known: bool,
}

impl Decoder {
    /// A page begins whose bytes come in pieces, or the same one again: what is half read is forgotten. The boundary is
    /// told, and is shown every record.
    pub fn begin_large(&mut self, boundary: &mut Boundary) -> Result<()> {
        let known = self.large.as_ref().map_or(self.rows.is_some(), |large| large.known);
        self.forget_rows(known)?;
        boundary.begin_page();
        self.large = Some(Large { splitter: self.splitter(), received: 0, content: DefaultHasher::new(), known });
        Ok(())
    }

    /// The next bytes of the page; yields its rows as batches are full. After an error the page has to begin again.
    pub fn push_large(&mut self, chunk: &[u8], boundary: &mut Boundary) -> Result<Vec<Page>> {
        let Some(mut large) = self.large.take() else { return Err(Error::new(ErrorKind::Bug, "no page has begun")) };
        let groups = large.splitter.push(chunk);
        let pages = groups.into_iter().map(|group| self.group(&group, &mut large, boundary)).collect();
        self.large = Some(large);
        pages
    }

    /// The page has ended: its last rows, how many records it had in all, and what its envelope says.
    ///
    /// Columns are inferred from the first group alone. A second record array, which would stand for the first, is an
    /// error here: rows of the first have been handed out.
    pub fn finish_large(&mut self, status: u16, boundary: &mut Boundary) -> Result<Page> {
        let Some(mut large) = self.large.take() else { return Err(Error::new(ErrorKind::Bug, "no page has begun")) };
        let envelope = match std::mem::replace(&mut large.splitter, Splitter::new(Vec::new())).finish() {
            Rest::Whole(body) => return self.document(status, &body, boundary),
            Rest::Torn(group) => {
                self.group(&group, &mut large, boundary)?;
                return Err(Error::new(ErrorKind::Bug, "a torn record array was read"));
            }
            Rest::Envelope(envelope) => envelope,
        };
        let text = text_of(&envelope, 0)?;
        let mut arrays = 0;
        let found = self
            .outline
            .walk(text, self.setup.spec.paged, |scanner| {
                arrays += 1;
                scanner.skip()?;
                Ok(large.received)
            })
            .map_err(|halt| stopped(halt, text, "the body around the records"))?;
        if arrays != 1 {
            let said = "the record array stands twice in a page that is too large to be held: ask for smaller pages";
            return Err(Error::new(ErrorKind::Decode, said));
        }
        let said = found.judge(&self.setup.spec, status, text)?;
        let mut page = Page { received: said.received, envelope: said.envelope, ..Page::default() };
        if let Some(rows) = &mut self.rows {
            rows.decoder.end_batch()?;
            rows.decoder.take_rows(&mut page);
        }
        if self.setup.spec.hash_content {
            page.content = u128::from(large.content.finish()) | 1 << 64;
        }
        Ok(page)
    }

    fn splitter(&self) -> Splitter {
        let path = self.setup.spec.data.as_deref().into_iter().flat_map(|path| path.tokens());
        Splitter::new(path.map(|token| token.decoded().into_owned()).collect())
    }

    /// What the envelope of a page seems to say, from what stands before its records and after the last bracket: found in
    /// no time, and only a guess. Decoding the page has the last word.
    pub fn glance(&self, body: &[u8]) -> Envelope {
        self.seems(body).unwrap_or_default()
    }

    fn seems(&self, body: &[u8]) -> Option<Envelope> {
        let mut splitter = self.splitter();
        let mut pieces = body.get(..AROUND).unwrap_or(body).chunks(PIECE);
        while splitter.is_before() {
            splitter.push(pieces.next()?);
        }
        let seen = if splitter.is_past() { None } else { self.behind_the_last_bracket(&splitter, body) };
        if seen.as_ref().is_some_and(|seen| seen.next != Scalar::Absent) {
            return seen;
        }
        // Perhaps it stands before another bracket: then it is seen where the array ends early.
        pieces.for_each(|piece| drop(splitter.push(piece)));
        let rest = body.get(AROUND..).unwrap_or_default();
        if splitter.is_past() { self.envelope(&[splitter.around(), rest].concat()) } else { seen }
    }

    fn behind_the_last_bracket(&self, splitter: &Splitter, body: &[u8]) -> Option<Envelope> {
        let end = body.get(body.len().saturating_sub(AROUND)..)?;
        let end = end.get(end.iter().rposition(|byte| *byte == b']')? + 1..)?;
        self.envelope(&[splitter.around(), end].concat())
    }

    fn envelope(&self, document: &[u8]) -> Option<Envelope> {
        let text = std::str::from_utf8(document).ok()?;
        let skip = |scanner: &mut super::scan::Scanner<'_>| Ok(scanner.skip().map(|()| 1)?);
        let found = self.outline.walk(text, self.setup.spec.paged, skip).ok()?;
        found.judge(&self.setup.spec, 200, text).ok().map(|said| said.envelope)
    }

    fn group(&mut self, group: &Group, large: &mut Large, boundary: &mut Boundary) -> Result<Page> {
        let text = text_of(&group.text, group.at)?;
        large.content.write(group.text.get(1..group.text.len() - 1).unwrap_or_default());
        let (mut scanner, already) = (super::scan::Scanner::new(text), large.received);
        let read = records_at(&self.setup, &mut self.rows, &mut scanner, already, boundary);
        let what = || format!("the body, {} bytes in,", group.at);
        let received =
            read.and_then(|count| Ok(scanner.end().map(|()| count)?)).map_err(|halt| stopped(halt, text, &what()))?;
        large.received += received;
        let mut page = Page { received, ..Page::default() };
        if let Some(rows) = &mut self.rows {
            rows.decoder.take_rows(&mut page);
        }
        Ok(page)
    }
}
