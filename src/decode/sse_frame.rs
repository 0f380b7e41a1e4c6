//! The lines of an event stream become events, as its specification says (R24); nothing here knows JSON.
//!
//! Lines end in LF, CR or CRLF; a line that begins with a colon is a comment; an event is the lines up to a blank one,
//! its data the `data:` lines joined by LF. `id` and `retry` are about connections, not about records.

use super::record::{Place, cut};
use super::stream::too_long;
use crate::error::{Error, ErrorKind, Result};

/// One event with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event<'a> {
    /// The number of its first line.
    pub line: u64,
    /// What `event:` says; empty without it.
    pub name: &'a str,
    pub data: &'a str,
}

/// Cuts one body into events.
#[derive(Debug)]
pub(super) struct EventFramer {
    max: u64,
    /// Whole lines so far.
    lines: u64,
    /// A line that has not ended, and whether the last one ended in CR: then an LF belongs to it.
    line: String,
    after_cr: bool,
    /// The event at hand: the number of its first line, its name, and its data once there is any.
    begun: Option<u64>,
    name: String,
    data: Option<String>,
    /// Whether any line was of an event stream; until then, the first that was not.
    known: bool,
    unknown: Option<String>,
}

impl EventFramer {
    /// An event whose data, or a line, is longer than `max` bytes is an error.
    pub(super) fn new(max: u64) -> Self {
        Self {
            max,
            lines: 0,
            line: String::new(),
            after_cr: false,
            begun: None,
            name: String::new(),
            data: None,
            known: false,
            unknown: None,
        }
    }

    /// Another body begins.
    pub(super) fn begin(&mut self) {
        *self = Self::new(self.max);
    }

    /// Takes the next text, cut anywhere; shows every event that ends in it.
    pub(super) fn push(&mut self, mut text: &str, mut show: impl FnMut(Event<'_>) -> Result<()>) -> Result<()> {
        loop {
            if self.after_cr && !text.is_empty() {
                text = text.strip_prefix('\n').unwrap_or(text);
                self.after_cr = false;
            }
            let Some(end) = text.bytes().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.line.push_str(text);
                return self.check(self.line.len());
            };
            let (piece, rest) = text.split_at(end);
            self.after_cr = rest.starts_with('\r');
            text = rest.get(1..).unwrap_or_default();
            self.check(self.line.len() + piece.len())?;
            self.lines += 1;
            if self.line.is_empty() {
                self.end_line(piece, &mut show)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.push_str(piece);
                self.end_line(&line, &mut show)?;
                // Its room is used again.
                line.clear();
                self.line = line;
            }
        }
    }

    /// The data of an event whose blank line has not come; `None` while a line is open.
    pub(super) fn open_data(&self) -> Option<&str> {
        self.data.as_deref().filter(|_| self.line.is_empty())
    }

    /// The body has ended: nothing may be half there, and something of an event stream must, if there is anything. An
    /// error with status 200 must not be an empty stream (R16).
    pub(super) fn finish(&self) -> Result<()> {
        let first = self.unknown.as_deref().or(Some(self.line.as_str())).filter(|line| !line.is_empty() && !self.known);
        if let Some(first) = first.filter(|line| !line.starts_with(':')) {
            return Err(Error::new(ErrorKind::Decode, format!("this is no event stream: {}", cut(first, 120))));
        }
        let open = !self.line.is_empty() && !self.line.starts_with(':');
        match self.begun.or(open.then_some(self.lines + 1)) {
            None => Ok(()),
            Some(line) => {
                let said = format!("{} is cut off: the body ends before the blank line after it", Place::Event(line));
                Err(Error::new(ErrorKind::Decode, said))
            }
        }
    }

    fn end_line(&mut self, line: &str, show: &mut impl FnMut(Event<'_>) -> Result<()>) -> Result<()> {
        if line.is_empty() {
            return self.end_event(show);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        self.known |= matches!(field, "" | "data" | "event" | "id" | "retry");
        if !self.known {
            self.unknown.get_or_insert_with(|| cut(line, 120));
        }
        match field {
            "data" => {
                let before = self.data.as_ref().map_or(0, |data| data.len() + 1);
                self.begun.get_or_insert(self.lines);
                self.check(before + value.len())?;
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => self.data = Some(value.to_owned()),
                }
            }
            "event" => {
                self.begun.get_or_insert(self.lines);
                value.clone_into(&mut self.name);
            }
            "id" => drop(self.begun.get_or_insert(self.lines)),
            // Comments (no field name), `retry` and what nobody knows.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self, show: &mut impl FnMut(Event<'_>) -> Result<()>) -> Result<()> {
        let (begun, data) = (self.begun.take(), self.data.take());
        if let (Some(line), Some(data)) = (begun, &data) {
            show(Event { line, name: &self.name, data })?;
        }
        self.name.clear();
        Ok(())
    }

    fn check(&self, length: usize) -> Result<()> {
        if length as u64 <= self.max {
            return Ok(());
        }
        Err(too_long(Place::Event(self.begun.unwrap_or(self.lines + 1)), self.max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Shown = Vec<(u64, String, String)>;

    fn frame(pieces: &[&str]) -> (Shown, Result<()>) {
        let (mut framer, mut shown) = (EventFramer::new(100), Vec::new());
        for piece in pieces {
            let pushed = framer.push(piece, |event| {
                shown.push((event.line, event.name.to_owned(), event.data.to_owned()));
                Ok(())
            });
            if pushed.is_err() {
                return (shown, pushed);
            }
        }
        let ended = framer.finish();
        (shown, ended)
    }

    fn events(text: &str) -> Vec<(u64, &'static str, String)> {
        let (shown, ended) = frame(&[text]);
        ended.unwrap();
        shown.into_iter().map(|(line, name, data)| (line, if name.is_empty() { "" } else { "named" }, data)).collect()
    }

    #[test]
    fn r24_fields_are_read_as_the_specification_says() {
        for (text, want) in [
            ("data: a\n\n", vec![(1, "", "a")]),
            ("data:a\n\n", vec![(1, "", "a")]),
            ("data:  a \n\n", vec![(1, "", " a ")]),
            ("data: a\ndata\ndata: b:c\n\n", vec![(1, "", "a\n\nb:c")]),
            (": ping\n\n:\nretry: 10\n\ndata:x\n\n", vec![(6, "", "x")]),
            ("id: 4\nevent: x\ndata: a\n\ndata: b\n\n", vec![(1, "named", "a"), (5, "", "b")]),
            ("event: x\nid: 1\n\ndata: b\n\n", vec![(4, "", "b")]),
            ("DATA: a\n data: b\nfoo: bar\nfoo\n\nretry\n", vec![]),
            ("data: a\r\rdata: b\r\n\r\ndata: c\n\n", vec![(1, "", "a"), (3, "", "b"), (5, "", "c")]),
            ("data: a\r\n\ndata: b\n\r", vec![(1, "", "a"), (3, "", "b")]),
            ("", vec![]),
            ("\n\r\n\r", vec![]),
            (": a comment may be cut off", vec![]),
        ] {
            let want: Vec<_> = want.into_iter().map(|(line, name, data)| (line, name, data.to_owned())).collect();
            assert_eq!(events(text), want, "{text:?}");
        }
    }

    #[test]
    fn r24_an_event_without_its_blank_line_is_cut_off() {
        for (text, line) in [
            ("data: a\n\ndata: b\n", 3),
            ("data: a\n\ndata: b", 3),
            ("data: a\n\nda", 3),
            ("id: 7\n", 1),
            ("event: x\r\n", 1),
            ("\ndata: a\ndata: b\r", 2),
        ] {
            let error = frame(&[text]).1.unwrap_err();
            assert!(error.to_string().contains(&format!("the event at line {line} is cut off")), "{text:?}: {error}");
        }
    }

    #[test]
    fn r16_a_body_of_another_kind_is_no_empty_stream() {
        for text in ["{\"error\":\"quota\"}", "{\"error\":\"quota\"}\n", "\n<html>\n</html>\n\n", "busy\r"] {
            let error = frame(&[text]).1.unwrap_err();
            assert!(error.to_string().contains("this is no event stream: "), "{text:?}: {error}");
        }
    }

    #[test]
    fn r26_an_event_longer_than_the_limit_is_an_error() {
        let long = "x".repeat(101);
        let lines = "data: 0123456789\n".repeat(11);
        for text in [format!("\ndata: {long}"), format!("\n{lines}"), format!("\n: {long}\n")] {
            let error = frame(&[&text]).1.unwrap_err().to_string();
            assert!(error.contains("the event at line 2 is longer than http.max-body-bytes"), "{error}");
        }
        assert_eq!(events(&format!("{}\n", "data: 0123456789\n".repeat(9))).len(), 1);
    }

    proptest! {
        #[test]
        fn r24_events_cut_anywhere_are_the_same(text in "(data: ?|id:|event:e|[a:é \n\r]){0,40}", size in 1_usize..9) {
            let pieces: Vec<String> = text.chars().collect::<Vec<_>>().chunks(size).map(|c| c.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let show = |(shown, ended): (Shown, Result<()>)| (shown, ended.map_err(|error| error.to_string()));
            prop_assert_eq!(show(frame(&[&text])), show(frame(&pieces)));
        }

        #[test]
        fn r24_any_line_ending_is_the_same_event(ends in prop::collection::vec(0_usize..3, 12)) {
            // CR before LF would be one line end: a blank line after CR ends in CR or CRLF here.
            let mut text = String::new();
            let mut last = "";
            for (line, end) in ["data: a", "data: b", "", "data: c", "", ": x", "", "id: 1", "data: d", ""].iter().zip(ends) {
                let end = ["\n", "\r", "\r\n"][end];
                let end = if last == "\r" && line.is_empty() && end == "\n" { "\r\n" } else { end };
                text.push_str(line);
                text.push_str(end);
                last = end;
            }
            let data: Vec<String> = events(&text).into_iter().map(|(_, _, data)| data).collect();
            prop_assert_eq!(data, ["a\nb", "c", "d"]);
        }
    }
}
