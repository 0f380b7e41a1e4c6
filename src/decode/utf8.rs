//! Bytes that arrive in pieces become text in pieces; what is no UTF-8 is an error with its place in the body (R24).

use crate::error::{Error, ErrorKind, Result};

/// Checks one body; characters that a piece cuts are put together again.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The beginning of a character, at most three bytes.
    cut: Vec<u8>,
    /// Bytes that were handed on.
    at: u64,
}

impl Utf8 {
    /// Hands the next piece on as text, without the byte order mark that a body may begin with. What stands before a
    /// flaw comes out first, so that the first flaw of a body is the one that is told.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
        while !self.cut.is_empty() {
            let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
            self.cut.push(*first);
            bytes = rest;
            let cut = std::mem::take(&mut self.cut);
            self.text(&cut, &mut take)?;
        }
        self.text(bytes, &mut take)
    }

    /// The body has ended.
    pub(super) fn finish(&self) -> Result<()> {
        if self.cut.is_empty() { Ok(()) } else { Err(self.flaw()) }
    }

    fn text(&mut self, bytes: &[u8], take: &mut impl FnMut(&str) -> Result<()>) -> Result<()> {
        let (text, flaw) = match simdutf8::compat::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(flaw) => {
                let valid = bytes.get(..flaw.valid_up_to()).unwrap_or_default();
                (std::str::from_utf8(valid).unwrap_or_default(), Some(flaw))
            }
        };
        let begins = self.at == 0;
        self.at += text.len() as u64;
        let text = if begins { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        if !text.is_empty() {
            take(text)?;
        }
        match flaw {
            Some(flaw) if flaw.error_len().is_some() => Err(self.flaw()),
            Some(flaw) => {
                self.cut.extend_from_slice(bytes.get(flaw.valid_up_to()..).unwrap_or_default());
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn flaw(&self) -> Error {
        Error::new(ErrorKind::Decode, format!("the body is not valid UTF-8 at byte {}", self.at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &[u8], size: usize) -> (String, Result<()>) {
        let (mut utf8, mut out) = (Utf8::default(), String::new());
        for piece in body.chunks(size.max(1)) {
            let pushed = utf8.push(piece, |text| {
                out.push_str(text);
                Ok(())
            });
            if pushed.is_err() {
                return (out, pushed);
            }
        }
        let ended = utf8.finish();
        (out, ended)
    }

    proptest! {
        #[test]
        fn r24_any_pieces_are_the_same_text(text in "\\PC{0,20}", junk in prop::collection::vec(any::<u8>(), 0..6), mark in any::<bool>(), size in 1_usize..9) {
            let mark = if mark { "\u{feff}" } else { "" };
            let body = [mark.as_bytes(), text.as_bytes(), &junk].concat();
            let (read, ended) = read(&body, size);
            match std::str::from_utf8(&body) {
                Ok(whole) => {
                    prop_assert_eq!(read.as_str(), whole.strip_prefix('\u{feff}').unwrap_or(whole));
                    prop_assert!(ended.is_ok());
                }
                Err(flaw) => {
                    let said = ended.unwrap_err().to_string();
                    prop_assert!(said.contains(&format!("UTF-8 at byte {}", flaw.valid_up_to())), "{}", said);
                }
            }
        }
    }
}
