//! One page becomes the next request, or the end: pure state machines, and the loop guard once for all styles.
//!
//! A walk ends only when the API says so (R14) and never goes round (R15). One file a style; this one holds what
//! they share: the guard, the page cap, and what a walk has reached.

pub mod cursor;
pub mod link;
pub mod next_url;
pub mod offset;
pub mod page;

use std::collections::HashSet;

use http::HeaderMap;
use url::Url;

use crate::config::{DeclaredEnd, Pagination, Style};
use crate::decode::{Envelope, Scalar};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Request;
use crate::plan::request::RequestTemplate;
use crate::position::Position;

/// What a page said, as far as paging cares.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The URL that answered, after redirects.
    pub url: &'a Url,
    /// All header lines.
    pub headers: &'a HeaderMap,
    /// Raw records received.
    pub received: u64,
    /// A hash of the raw record array, where it was taken.
    pub content: Option<u128>,
    /// What the document says of its neighbours.
    pub envelope: &'a Envelope,
}

/// What comes after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask for this.
    Next(Request),
    /// The API said that there is no more.
    End,
}

/// One walk over the pages of an endpoint.
#[derive(Debug)]
pub struct Walk {
    template: RequestTemplate,
    paging: Pagination,
    state: State,
    /// The request whose page is answered next.
    current: Request,
    made: HashSet<[u8; 32]>,
    pages: u64,
    last_content: Option<u128>,
    last_received: u64,
    warnings: Vec<String>,
}

/// What a style has to remember.
#[derive(Debug)]
enum State {
    Single,
    Offset(offset::Offset),
    Page(page::PageNumber),
    Cursor(cursor::Cursor),
    Link,
    NextUrl,
}

impl Walk {
    /// Starts a walk; `start` is a stored cursor or offset, other positions travel in the template.
    pub fn new(template: RequestTemplate, paging: &Pagination, start: Option<&Position>) -> Result<Self> {
        let state = match &paging.style {
            Style::None => State::Single,
            Style::LinkHeader => State::Link,
            Style::NextUrl { .. } => State::NextUrl,
            Style::Offset { .. } => State::Offset(offset::Offset::starting(match start {
                Some(Position::Offset(n)) => *n,
                _ => 0,
            })),
            Style::Page { first, .. } => State::Page(page::PageNumber::starting(*first)),
            Style::Cursor { initial, .. } => State::Cursor(cursor::Cursor::starting(match start {
                Some(Position::Cursor(cursor)) => Some(cursor.clone()),
                _ => initial.clone(),
            })),
        };
        let mut walk = Self {
            current: template.with_params(&[]),
            template,
            paging: paging.clone(),
            state,
            made: HashSet::new(),
            pages: 0,
            last_content: None,
            last_received: 0,
            warnings: Vec::new(),
        };
        // A stored link is followed verbatim (R4, R17); everything else carries its paging parameters.
        walk.current = match walk.template.link() {
            Some(link) => link,
            None => walk.built(0)?,
        };
        Ok(walk)
    }

    /// The same walk over a window of offsets, from `start` up to, not including, `end` (R30).
    ///
    /// # Errors
    /// Kind `Bug` for a walk of another style.
    pub fn within(mut self, start: u64, end: u64, is_last: bool) -> Result<Self> {
        let State::Offset(state) = &mut self.state else {
            return Err(Error::new(ErrorKind::Bug, "a window of offsets needs the offset style"));
        };
        *state = offset::Offset::within(start, end, is_last);
        self.current = self.built(0)?;
        Ok(self)
    }

    /// The request whose page is expected next.
    pub fn current(&self) -> &Request {
        &self.current
    }

    /// Takes the page that answered [`Walk::current`] and says what comes next.
    pub fn advance(&mut self, answer: Answer<'_>) -> Result<Step> {
        self.pages += 1;
        self.made.insert(self.current.identity());
        self.refuse_the_same_page(answer)?;
        self.last_received = answer.received;
        let next = match (&mut self.state, &self.paging.style) {
            (State::Offset(state), Style::Offset { end, .. }) => {
                if state.pass(answer, end, &mut self.warnings)? {
                    Some(self.built(0)?)
                } else {
                    None
                }
            }
            (State::Page(state), Style::Page { end, .. }) => {
                if state.pass(answer, end)? {
                    Some(self.built(0)?)
                } else {
                    None
                }
            }
            (State::Cursor(state), Style::Cursor { from, .. }) => {
                if state.pass(answer, from)? {
                    Some(self.built(0)?)
                } else {
                    None
                }
            }
            (State::Link, _) => link::next(answer)?,
            (State::NextUrl, _) => next_url::next(answer)?,
            _ => None,
        };
        let Some(next) = next else { return Ok(Step::End) };
        if self.made.contains(&next.identity()) {
            if answer.received == 0 && next.identity() == self.current.identity() {
                return Ok(Step::End);
            }
            return Err(Error::new(
                ErrorKind::Incomplete,
                "the API sent the walk to a request that was already made: it goes round and its end was not seen",
            ));
        }
        if self.paging.max_pages.is_some_and(|max| self.pages >= max) {
            return Err(Error::new(
                ErrorKind::Incomplete,
                format!(
                    "the walk needs more than pagination.max-pages = {} pages: rows are missing; raise it or leave it out",
                    self.pages
                ),
            ));
        }
        self.current = next.clone();
        Ok(Step::Next(next))
    }

    /// The request `steps` pages after [`Walk::current`], where it can be known before its turn: offset and page
    /// styles, once a total was declared and the last page kept to its size.
    pub fn ahead(&self, steps: u64) -> Option<Request> {
        let size = self.paging.max_page_size;
        let total = match &self.state {
            State::Offset(state) => {
                let total = state.total()?;
                state.end().map_or(total, |end| end.min(total)).checked_sub(state.next())?
            }
            State::Page(state) => state.total()?.checked_sub(state.received())?,
            _ => return None,
        };
        let asked = self.paging.page_size_param.is_some();
        if !asked || self.pages == 0 || self.last_received != size || total <= steps.checked_mul(size)? {
            return None;
        }
        if self.paging.max_pages.is_some_and(|max| self.pages + steps >= max) {
            return None;
        }
        self.built(steps).ok()
    }

    /// The request that the page at hand seems to lead to, before its records are read: cursor, link and next-URL styles.
    ///
    /// It may be sent at once. [`Walk::advance`] has the last word: what it does not confirm is thrown away. Never a
    /// request that was made, nor one beyond `max-pages` (R15).
    pub fn guess(&self, url: &Url, headers: &HeaderMap, envelope: &Envelope) -> Option<Request> {
        let answer = Answer { url, headers, received: 1, content: None, envelope };
        let next = match (&self.state, &self.paging.style) {
            (State::Cursor(state), Style::Cursor { from, to, .. }) => {
                let mut state = state.clone();
                let size = self.paging.max_page_size.to_string();
                let params = self.paging.page_size_param.iter().map(|name| (name.as_str(), size.as_str())).collect();
                if !state.pass(answer, from).ok()? {
                    return None;
                }
                state.request(&self.template, to, params).ok()?
            }
            (State::Link, _) => link::next(answer).ok()??,
            (State::NextUrl, _) => next_url::next(answer).ok()??,
            _ => return None,
        };
        let is_new = !self.made.contains(&next.identity()) && next.identity() != self.current.identity();
        let is_allowed = self.paging.max_pages.is_none_or(|max| self.pages + 1 < max);
        (is_new && is_allowed).then_some(next)
    }

    /// Pages answered so far.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The cursor that fetched the last page (R4); `None` for a first page without one.
    pub fn cursor(&self) -> Option<&str> {
        match &self.state {
            State::Cursor(state) => state.fetched(),
            _ => None,
        }
    }

    /// Start plus records received (R4).
    pub fn offset(&self) -> Option<u64> {
        match &self.state {
            State::Offset(state) => Some(state.next()),
            _ => None,
        }
    }

    /// Whether the walk that ended has seen everything there is, as far as the API says (R30).
    ///
    /// # Errors
    /// Kind `Incomplete` where records lie beyond the last window.
    pub fn ended(&self) -> Result<()> {
        match &self.state {
            State::Offset(state) => state.missing().map_or(Ok(()), |said| Err(Error::new(ErrorKind::Incomplete, said))),
            _ => Ok(()),
        }
    }

    /// What is worth saying at the end, once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The request of the state, `steps` full pages later.
    fn built(&self, steps: u64) -> Result<Request> {
        let mut size = self.paging.max_page_size;
        let skipped = steps * size;
        if let State::Offset(state) = &self.state {
            let left = state.end().map(|end| end.saturating_sub(state.next() + skipped).max(1));
            size = left.map_or(size, |left| size.min(left));
        }
        let size = size.to_string();
        let mut params: Vec<(&str, &str)> = Vec::with_capacity(2);
        if let Some(name) = &self.paging.page_size_param {
            params.push((name, &size));
        }
        let at;
        match (&self.state, &self.paging.style) {
            (State::Offset(state), Style::Offset { param, .. }) => {
                at = (state.next() + skipped).to_string();
                params.push((param, &at));
            }
            (State::Page(state), Style::Page { param, .. }) => {
                at = (state.number() + steps).to_string();
                params.push((param, &at));
            }
            (State::Cursor(state), Style::Cursor { to, .. }) => return state.request(&self.template, to, params),
            _ => {}
        }
        Ok(self.template.with_params(&params))
    }

    /// A server that ignores the offset sends the same rows for ever (R15).
    fn refuse_the_same_page(&mut self, answer: Answer<'_>) -> Result<()> {
        if !matches!(self.state, State::Offset(_) | State::Page(_)) || answer.received == 0 {
            return Ok(());
        }
        if answer.content.is_some() && answer.content == self.last_content {
            return Err(Error::new(
                ErrorKind::Incomplete,
                format!("the API sent the same page twice: it ignores the {} parameter", self.paging.style.name()),
            ));
        }
        self.last_content = answer.content;
        Ok(())
    }
}

/// What the declared end of an offset or page style says after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Declared {
    total: Option<u64>,
    has_more: Option<bool>,
}

impl Declared {
    fn read(envelope: &Envelope, end: &DeclaredEnd) -> Result<Self> {
        let total = match &end.total_path {
            Some(path) => total_of(&envelope.total)
                .map_err(|what| Error::new(ErrorKind::Decode, format!("total-path {path} is no number: {what}")))?,
            None => None,
        };
        let has_more = match &end.has_more_path {
            Some(path) => flag_of(&envelope.has_more)
                .map_err(|what| Error::new(ErrorKind::Decode, format!("has-more-path {path} is no boolean: {what}")))?,
            None => None,
        };
        Ok(Self { total, has_more })
    }

    /// What is known after an empty page that declares nothing itself: the last total still stands, and so does a flag
    /// of the page just before it, or rows that were promised would be lost in silence.
    fn or(self, last: Self) -> Self {
        Self { total: self.total.or(last.total), has_more: self.has_more.or(last.has_more) }
    }

    /// Whether the walk goes on after a page of `received` records that brought it to `position` (R14).
    fn goes_on(self, received: u64, position: u64) -> Result<bool> {
        let more_by_total = self.total.map(|total| position < total);
        if received == 0 {
            if more_by_total == Some(true) || self.has_more == Some(true) {
                let said = match self.total.filter(|total| position < *total) {
                    Some(total) => format!("its total is {total}, {position} were received"),
                    None => "its flag says that more is to come".to_owned(),
                };
                return Err(Error::new(ErrorKind::Incomplete, format!("the API sent an empty page although {said}")));
            }
            return Ok(false);
        }
        // A total below what already came is no end that can be trusted: the empty page is.
        let more_by_total = if self.total.is_some_and(|total| total < position) { Some(true) } else { more_by_total };
        Ok(match (more_by_total, self.has_more) {
            (Some(total), Some(flag)) => total || flag,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => true,
        })
    }
}

fn total_of(scalar: &Scalar) -> Result<Option<u64>, String> {
    let text = match scalar {
        Scalar::Absent => return Ok(None),
        Scalar::Number(text) | Scalar::Text(text) => text.trim(),
        Scalar::Bool(flag) => return Err(flag.to_string()),
        Scalar::Structure(text) => return Err(text.clone()),
    };
    if let Ok(total) = text.parse::<u64>() {
        return Ok(Some(total));
    }
    match text.parse::<f64>() {
        // -1 is how some APIs say that they do not know.
        Ok(number) if number < 0.0 => Ok(None),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and below 2^53")]
        Ok(number) if number.fract() == 0.0 && number < 9_007_199_254_740_992.0 => Ok(Some(number as u64)),
        _ => Err(text.to_owned()),
    }
}

fn flag_of(scalar: &Scalar) -> Result<Option<bool>, String> {
    match scalar {
        Scalar::Absent => Ok(None),
        Scalar::Bool(flag) => Ok(Some(*flag)),
        Scalar::Text(text) | Scalar::Number(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(text.clone()),
        },
        Scalar::Structure(text) => Err(text.clone()),
    }
}

#[cfg(test)]
mod tests;
