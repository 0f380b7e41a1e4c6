//! CSV text becomes records of cells, as RFC 4180 says; the first record is the header (R24).
//!
//! Quotes are doubled inside quotes, and mean nothing in a cell that does not begin with one. Records end in LF, CRLF
//! or CR. An empty line is a record only where there is one column, whose cell is empty; else it is nothing.

use super::record::Place;
use super::stream::too_long;
use crate::error::{Error, ErrorKind, Result};

/// The most columns of a header.
const NAMES_MAX: usize = 10_000;

/// One record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// The line it begins at.
    pub place: Place,
    text: &'a str,
    ends: &'a [usize],
}

impl<'a> Row<'a> {
    /// The cells, without their quotes.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (text, mut start) = (self.text, 0);
        self.ends.iter().map(move |end| text.get(std::mem::replace(&mut start, *end)..*end).unwrap_or_default())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first character of a cell.
    Start,
    Plain,
    Quoted,
    /// After a quote inside quotes: the end of the cell, or half of a doubled one.
    Quote,
}

/// Cuts one body into records.
#[derive(Debug)]
pub(super) struct RowFramer {
    max: u64,
    /// Cells of the header, once it was read.
    width: Option<usize>,
    state: State,
    /// Line ends so far, and whether the last character was a CR: then an LF belongs to it.
    lines: u64,
    after_cr: bool,
    /// The record at hand: the line it begins at, its text without quotes, where its cells end.
    first_line: u64,
    text: String,
    ends: Vec<usize>,
}

impl RowFramer {
    /// A record longer than `max` bytes is an error.
    pub(super) fn new(max: u64) -> Self {
        Self {
            max,
            width: None,
            state: State::Start,
            lines: 0,
            after_cr: false,
            first_line: 1,
            text: String::new(),
            ends: Vec::new(),
        }
    }

    /// Another body begins.
    pub(super) fn begin(&mut self) {
        *self = Self::new(self.max);
    }

    /// Takes the next text, cut anywhere; shows every record that ends in it.
    pub(super) fn push(&mut self, mut text: &str, mut show: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        while let Some(first) = text.as_bytes().first().copied() {
            match self.state {
                State::Quoted => {
                    let end = text.find('"');
                    let (run, rest) = text.split_at(end.unwrap_or(text.len()));
                    self.count_lines(run);
                    self.keep(run)?;
                    text = rest;
                    if end.is_some() {
                        (self.state, self.after_cr) = (State::Quote, false);
                        text = text.get(1..).unwrap_or_default();
                    }
                    continue;
                }
                State::Quote if first == b'"' => {
                    self.keep("\"")?;
                    self.state = State::Quoted;
                }
                State::Start if first == b'\n' && self.after_cr => {}
                State::Start if first == b'"' => self.state = State::Quoted,
                _ => match first {
                    b',' => self.end_cell(true)?,
                    b'\n' | b'\r' => {
                        self.lines += 1;
                        self.end_row(&mut show)?;
                        self.after_cr = first == b'\r';
                        text = text.get(1..).unwrap_or_default();
                        continue;
                    }
                    _ if self.state == State::Quote => {
                        let said = "text after the quote that ends a cell; a quote inside quotes is doubled";
                        return Err(Error::new(ErrorKind::Decode, format!("{}: {said}", Place::Line(self.lines + 1))));
                    }
                    _ => {
                        let end = text.bytes().position(|byte| matches!(byte, b',' | b'\n' | b'\r'));
                        let (run, rest) = text.split_at(end.unwrap_or(text.len()));
                        self.keep(run)?;
                        (self.state, self.after_cr) = (State::Plain, false);
                        text = rest;
                        continue;
                    }
                },
            }
            self.after_cr = false;
            text = text.get(1..).unwrap_or_default();
        }
        Ok(())
    }

    /// The body has ended; its last record needs no line end, but its quotes.
    pub(super) fn finish(&mut self, mut show: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        if self.state == State::Quoted {
            let said = format!("{} is cut off: the body ends inside quotes", Place::Line(self.first_line));
            return Err(Error::new(ErrorKind::Decode, said));
        }
        if self.state == State::Start && self.ends.is_empty() { Ok(()) } else { self.end_row(&mut show) }
    }

    fn keep(&mut self, run: &str) -> Result<()> {
        if (self.text.len() + run.len()) as u64 > self.max {
            return Err(too_long(Place::Line(self.first_line), self.max));
        }
        self.text.push_str(run);
        Ok(())
    }

    fn count_lines(&mut self, run: &str) {
        if !self.after_cr && !run.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return;
        }
        for byte in run.bytes() {
            self.lines += u64::from(byte == b'\r' || (byte == b'\n' && !self.after_cr));
            self.after_cr = byte == b'\r';
        }
    }

    /// Ends a cell; `more` says that another one follows.
    fn end_cell(&mut self, more: bool) -> Result<()> {
        self.ends.push(self.text.len());
        self.state = State::Start;
        let most = self.width.unwrap_or(NAMES_MAX);
        if self.ends.len() + usize::from(more) <= most {
            return Ok(());
        }
        let place = Place::Line(self.first_line);
        let said = match self.width {
            Some(width) => format!("{place} has more fields than the header, which has {width}"),
            None => format!("the header has more than {NAMES_MAX} names"),
        };
        Err(Error::new(ErrorKind::Decode, said))
    }

    fn end_row(&mut self, show: &mut impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let is_blank = self.state == State::Start && self.ends.is_empty();
        if !is_blank || self.width == Some(1) {
            self.end_cell(false)?;
            let (place, fields) = (Place::Line(self.first_line), self.ends.len());
            let width = *self.width.get_or_insert(fields);
            if fields < width {
                let fields = if fields == 1 { "1 field".to_owned() } else { format!("{fields} fields") };
                let said = format!("{place} has {fields}, the header has {width}");
                return Err(Error::new(ErrorKind::Decode, said));
            }
            show(Row { place, text: &self.text, ends: &self.ends })?;
        }
        self.text.clear();
        self.ends.clear();
        (self.state, self.first_line) = (State::Start, self.lines + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(pieces: &[&str]) -> (Vec<String>, Result<()>) {
        let (mut framer, mut shown) = (RowFramer::new(50), Vec::new());
        let mut show = |row: Row<'_>| {
            shown.push(format!("{}: <{}>", row.place, row.cells().collect::<Vec<_>>().join("><")));
            Ok(())
        };
        let read = pieces.iter().try_for_each(|piece| framer.push(piece, &mut show)).and_then(|()| framer.finish(show));
        (shown, read)
    }

    #[test]
    fn r24_quotes_commas_and_line_ends() {
        for (text, want) in [
            ("a,b\n1,2\n", vec!["line 1: <a><b>", "line 2: <1><2>"]),
            ("a,b\r\n1,2", vec!["line 1: <a><b>", "line 2: <1><2>"]),
            ("a,b\r1,2\r", vec!["line 1: <a><b>", "line 2: <1><2>"]),
            ("a,b\n\n,\r\n\n\"\",\n", vec!["line 1: <a><b>", "line 3: <><>", "line 5: <><>"]),
            ("a,b\n\"x,\"\"y\"\"\",\"\"\"\"\n", vec!["line 1: <a><b>", "line 2: <x,\"y\"><\">"]),
            ("a,b\n\"1\r\n\n2\r3\",4\n5,6\n", vec!["line 1: <a><b>", "line 2: <1\r\n\n2\r3><4>", "line 6: <5><6>"]),
            ("a\n5\" pipe\n 'x' \n", vec!["line 1: <a>", "line 2: <5\" pipe>", "line 3: < 'x' >"]),
            ("\r\n\na\n\n\"\"\nx\n", vec!["line 3: <a>", "line 4: <>", "line 5: <>", "line 6: <x>"]),
            ("a,b\n1,\"2\"", vec!["line 1: <a><b>", "line 2: <1><2>"]),
            ("a,b\n1,", vec!["line 1: <a><b>", "line 2: <1><>"]),
            ("", vec![]),
            ("\n\r\n", vec![]),
            ("é,ü\nß,\u{1f600}\n", vec!["line 1: <é><ü>", "line 2: <ß><\u{1f600}>"]),
        ] {
            let (shown, read) = frame(&[text]);
            read.unwrap();
            assert_eq!(shown, want, "{text:?}");
        }
    }

    #[test]
    fn r24_what_is_no_csv_is_an_error_with_its_line() {
        for (text, part) in [
            ("a,b\n1,2\n\"3", "line 3 is cut off: the body ends inside quotes"),
            ("a,b\n1,2\n\"3\n\n\"\"", "line 3 is cut off: the body ends inside quotes"),
            ("a,b\n1,2\n3\n", "line 3 has 1 field, the header has 2"),
            ("a,b,c\n\"\n\",2\n", "line 2 has 2 fields, the header has 3"),
            ("a,b\n1,2,3\n", "line 2 has more fields than the header, which has 2"),
            ("a,b\n1,2,", "line 2 has more fields than the header, which has 2"),
            ("a,b\n\"1\n\"x,2\n", "line 3: text after the quote"),
            ("a,b\n\"1\" ,2\n", "line 2: text after the quote"),
        ] {
            let error = frame(&[text]).1.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(error.to_string().contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn r26_a_record_longer_than_the_limit_is_an_error() {
        let long = "x".repeat(26);
        for text in [format!("a,b\n{long},{long}\n"), format!("a,b\n\"{long}\n{long}"), format!("a,b\n{long}{long}")] {
            let error = frame(&[&text]).1.unwrap_err();
            assert!(error.to_string().contains("line 2 is longer than http.max-body-bytes"), "{error}");
        }
        assert!(frame(&[&",".repeat(NAMES_MAX)]).1.unwrap_err().to_string().contains("more than 10000 names"));
    }

    proptest! {
        #[test]
        fn r24_records_cut_anywhere_are_the_same(text in "[a,\"\n\ré]{0,40}", size in 1_usize..9) {
            let pieces: Vec<String> = text.chars().collect::<Vec<_>>().chunks(size).map(|c| c.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let show = |(shown, read): (Vec<String>, Result<()>)| (shown, read.map_err(|error| error.to_string()));
            prop_assert_eq!(show(frame(&[&text])), show(frame(&pieces)));
        }

        #[test]
        fn r24_what_was_written_as_csv_comes_back(rows in prop::collection::vec(prop::collection::vec("[a, \"\n\ré]{0,4}", 2), 1..4)) {
            let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
            let text: String = rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n").collect();
            let (shown, read) = frame(&[&text]);
            read.unwrap();
            let cells = |row: &Vec<String>| format!("<{}>", row.join("><"));
            let shown: Vec<_> = shown.iter().map(|row| row.split_once(": ").unwrap().1.to_owned()).collect();
            prop_assert_eq!(shown, rows.iter().map(cells).collect::<Vec<_>>());
        }
    }
}
