//! Walks JSON text token by token: finds where values begin and end, checks the grammar, builds nothing.
//!
//! The text is valid UTF-8 already. Every value comes out as its own slice of the text, so that no digit is lost
//! before somebody decides what it means. Nothing here recurses; nesting is bounded by [`DEPTH_MAX`].

/// The deepest nesting that is read, the same as in `serde_json`.
pub(crate) const DEPTH_MAX: u32 = 128;

/// Where a text stops being JSON, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// Byte offset in the text.
    pub at: usize,
    /// What was expected or found.
    pub what: &'static str,
}

/// What a value is, before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    True,
    False,
    /// A number without fraction and exponent.
    Integer,
    /// A number with either.
    Fraction,
    /// A string without escapes: the text between the quotes is the value.
    Plain,
    /// A string with escapes.
    Escaped,
    Object,
    Array,
}

/// One value: what it is and its own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub kind: Kind,
    pub raw: &'a str,
}

/// A place in a JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A key as it is written, its quotes included.
#[derive(Debug)]
pub(crate) struct Quoted {
    text: Box<str>,
    /// Its first 16 bytes, and which of them there are.
    head: u128,
    mask: u128,
}

impl Quoted {
    pub(crate) fn new(text: &str) -> Self {
        let (mut head, mut mask) = ([0; 16], [0; 16]);
        for ((byte, head), mask) in text.bytes().zip(&mut head).zip(&mut mask) {
            (*head, *mask) = (byte, u8::MAX);
        }
        Self { text: text.into(), head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask) }
    }
}

/// What stands between two values of an object: a comma, a key, its colon, and the space around them.
///
/// Records of one API repeat it byte for byte, so that it is stepped over in one comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bridge {
    text: [u8; Self::MAX],
    length: usize,
    mask: [u128; 2],
    /// Where the key with its quotes begins and ends in it.
    key: (usize, usize),
}

impl Bridge {
    /// Longer ones are not remembered.
    const MAX: usize = 64;

    /// A bridge of this text; `key` is where the key stands in it.
    pub(crate) fn new(text: &str, key: (usize, usize)) -> Option<Self> {
        let mut bridge = Self { text: [0; Self::MAX], length: text.len(), mask: [0; 2], key };
        bridge.text.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        for (half, mask) in bridge.mask.iter_mut().enumerate() {
            let bytes = text.len().saturating_sub(half * 16).min(16);
            *mask = if bytes == 16 { u128::MAX } else { (1 << (bytes * 8)) - 1 };
        }
        Some(bridge)
    }

    /// Where its key begins and ends, if it begins at `from`.
    #[inline]
    pub(crate) fn key_at(&self, from: usize) -> (usize, usize) {
        (from + self.key.0, from + self.key.1)
    }
}

/// Powers of ten that a double holds exactly.
const TENS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

// Eight bytes are looked at in one step, each in its own lane of an integer.
const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES * 0x80;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;
const SPACES: u64 = ONES * b' ' as u64;

/// How many bytes from the first are neither a quote, a backslash nor a control character; 8 if all are plain.
#[inline]
fn plain_lanes(word: u64) -> usize {
    let (quote, backslash) = (word ^ QUOTES, word ^ BACKSLASHES);
    // The lowest set bit is exact: a borrow only reaches lanes above a true hit.
    let hits = (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(SPACES) & !word);
    ((hits & HIGH).trailing_zeros() / 8) as usize
}

impl<'a> Scanner<'a> {
    /// At the beginning of `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The byte offset.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// A second scanner of the same text at another offset.
    pub(crate) fn again_at(&self, at: usize) -> Self {
        Self { text: self.text, at }
    }

    /// The text from an offset to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The first byte of the next token, which is not consumed.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }

    /// Nothing but whitespace may follow.
    pub(crate) fn end(&mut self) -> Result<(), Flaw> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.flaw("text after the end of the document")),
        }
    }

    /// Goes into an object or array, whose opening bracket is next.
    #[inline]
    pub(crate) fn open(&mut self) {
        self.at += 1;
    }

    /// Goes into an object or array, whose opening bracket is next; says whether it has a first member.
    #[inline]
    pub(crate) fn enter(&mut self, close: u8) -> Result<bool, Flaw> {
        self.open();
        self.begins(close)
    }

    /// Inside an object or array: says whether it has a first member.
    #[inline]
    pub(crate) fn begins(&mut self, close: u8) -> Result<bool, Flaw> {
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Ok(true),
            None => Err(self.flaw("the text ends inside an object or array")),
        }
    }

    /// After a member: says whether another one follows.
    #[inline]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, Flaw> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            None => Err(self.flaw("the text ends inside an object or array")),
            Some(_) => Err(self.flaw(if close == b'}' { "expected `,` or `}`" } else { "expected `,` or `]`" })),
        }
    }

    /// A key with its quotes.
    pub(crate) fn key(&mut self) -> Result<Token<'a>, Flaw> {
        if self.peek() != Some(b'"') {
            return Err(self.flaw("expected a key in quotes"));
        }
        let start = self.at;
        let kind = self.string()?;
        Ok(Token { kind, raw: self.since(start) })
    }

    /// Consumes a key if it is written exactly as this one.
    #[inline]
    pub(crate) fn take_key(&mut self, key: &Quoted) -> bool {
        self.peek();
        let Some(rest) = self.text.as_bytes().get(self.at..) else { return false };
        let hit = match rest.first_chunk::<16>() {
            // Nearly all keys are compared here, in one step.
            Some(head) if (u128::from_le_bytes(*head) ^ key.head) & key.mask != 0 => false,
            Some(_) if key.text.len() <= 16 => true,
            _ => rest.starts_with(key.text.as_bytes()),
        };
        if hit {
            self.at += key.text.len();
        }
        hit
    }

    /// Goes over a bridge, if it is next.
    #[inline]
    pub(crate) fn cross(&mut self, bridge: &Bridge) -> bool {
        let Some(rest) = self.text.as_bytes().get(self.at..) else { return false };
        let hit = match (rest.first_chunk::<32>(), bridge.text.first_chunk::<32>()) {
            (Some(here), Some(there)) => {
                let half = |bytes: &[u8; 32], at: usize| {
                    let mut half = [0; 16];
                    half.copy_from_slice(&bytes[at..at + 16]);
                    u128::from_le_bytes(half)
                };
                let differ = (half(here, 0) ^ half(there, 0)) & bridge.mask[0]
                    | (half(here, 16) ^ half(there, 16)) & bridge.mask[1];
                differ == 0 && (bridge.length <= 32 || rest.starts_with(&bridge.text[..bridge.length]))
            }
            _ => rest.starts_with(&bridge.text[..bridge.length]),
        };
        if hit {
            self.at += bridge.length;
        }
        hit
    }

    /// The next value, if it is an integer of at most 18 digits; otherwise nothing is consumed.
    #[inline]
    pub(crate) fn small_integer(&mut self) -> Option<i64> {
        let bytes = self.text.as_bytes().get(self.at..)?;
        let negative = bytes.first() == Some(&b'-');
        let digits = &bytes[usize::from(negative)..];
        let (mut value, mut count) = (0_i64, 0);
        while let Some(digit) = digits.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            count += 1;
        }
        let plain = !matches!(digits.get(count), Some(b'.' | b'e' | b'E'));
        if count == 0 || count > 18 || !plain || (count > 1 && digits[0] == b'0') {
            return None;
        }
        self.at += count + usize::from(negative);
        Some(if negative { -value } else { value })
    }

    /// The same for an integer of 32 bits.
    #[inline]
    pub(crate) fn small_i32(&mut self) -> Option<i32> {
        let start = self.at;
        let value = self.small_integer().and_then(|value| i32::try_from(value).ok());
        if value.is_none() {
            self.at = start;
        }
        value
    }

    /// The next value, if it is a boolean; otherwise nothing is consumed.
    #[inline]
    pub(crate) fn boolean(&mut self) -> Option<bool> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let value = rest.starts_with(b"true");
        if !value && !rest.starts_with(b"false") {
            return None;
        }
        self.at += if value { 4 } else { 5 };
        Some(value)
    }

    /// The next value, if it is a number of at most 15 digits without exponent, whose double is exact or correctly
    /// rounded by one division; otherwise nothing is consumed.
    #[inline]
    pub(crate) fn small_float(&mut self) -> Option<f64> {
        let bytes = self.text.as_bytes().get(self.at..)?;
        let negative = bytes.first() == Some(&b'-');
        let whole = usize::from(negative);
        let (mut mantissa, mut at) = (0_u64, whole);
        let mut digits = |at: &mut usize| {
            while let Some(digit) = bytes.get(*at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
                *at += 1;
            }
        };
        digits(&mut at);
        let count = at - whole;
        if count == 0 || (count > 1 && bytes[whole] == b'0') {
            return None;
        }
        let mut fraction = 0;
        if bytes.get(at) == Some(&b'.') {
            let start = at + 1;
            at = start;
            digits(&mut at);
            fraction = at - start;
            if fraction == 0 {
                return None;
            }
        }
        if count + fraction > 15 || matches!(bytes.get(at), Some(b'e' | b'E')) {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "fifteen digits are exact")]
        let value = mantissa as f64 / TENS[fraction];
        self.at += at;
        Some(if negative { -value } else { value })
    }

    /// The next value, if it is a string of exactly `N` bytes with its quotes that `read` accepts; otherwise nothing is
    /// consumed.
    #[inline]
    pub(crate) fn fixed<const N: usize, T>(&mut self, read: impl FnOnce(&[u8; N]) -> Option<T>) -> Option<T> {
        let value = read(self.text.as_bytes().get(self.at..)?.first_chunk::<N>()?)?;
        self.at += N;
        Some(value)
    }

    /// The next value, if it is a string of fewer than `max` bytes whose escapes are single letters: written to `out`.
    /// Otherwise nothing is consumed, and `out` holds nothing of use.
    pub(crate) fn unescaped(&mut self, max: usize, out: &mut String) -> bool {
        let start = self.at;
        out.clear();
        let is_string = self.byte(start) == Some(b'"') && self.string().is_ok() && self.at - start < max;
        let mut rest = if is_string { self.text.get(start + 1..self.at - 1).unwrap_or_default() } else { "\\u" };
        while let Some((plain, after)) = rest.split_once('\\') {
            out.push_str(plain);
            let letter = after.chars().next();
            out.push(match letter {
                Some(c @ ('"' | '\\' | '/')) => c,
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                _ => {
                    self.at = start;
                    return false;
                }
            });
            rest = after.get(1..).unwrap_or_default();
        }
        out.push_str(rest);
        true
    }

    /// The next value without its quotes, if it is a string without escapes of fewer than `max` bytes; otherwise nothing
    /// is consumed.
    #[inline]
    pub(crate) fn plain(&mut self, max: usize) -> Option<&'a str> {
        let start = self.at;
        if self.byte(start) != Some(b'"') {
            return None;
        }
        match self.string() {
            Ok(Kind::Plain) if self.at - start < max => self.text.get(start + 1..self.at - 1),
            _ => {
                self.at = start;
                None
            }
        }
    }

    /// The colon after a key.
    #[inline]
    pub(crate) fn colon(&mut self) -> Result<(), Flaw> {
        if self.peek() == Some(b':') {
            self.at += 1;
            Ok(())
        } else {
            Err(self.flaw("expected `:`"))
        }
    }

    /// The next value, whole.
    #[allow(clippy::inline_always, reason = "a token that goes through memory costs a fifth of the whole decoding")]
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Result<Token<'a>, Flaw> {
        let first = self.peek();
        let start = self.at;
        let kind = match first {
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'{' | b'[') => self.structure()?,
            _ => self.literal()?,
        };
        Ok(Token { kind, raw: self.since(start) })
    }

    /// Steps over the next value.
    pub(crate) fn skip(&mut self) -> Result<(), Flaw> {
        self.value().map(drop)
    }

    #[inline]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn flaw(&self, what: &'static str) -> Flaw {
        Flaw { at: self.at, what }
    }

    fn flaw_at(at: usize, what: &'static str) -> Flaw {
        Flaw { at, what }
    }

    #[inline]
    fn string(&mut self) -> Result<Kind, Flaw> {
        let bytes = self.text.as_bytes();
        let (mut i, mut kind) = (self.at + 1, Kind::Plain);
        loop {
            while let Some(lanes) = bytes.get(i..).and_then(<[u8]>::first_chunk::<8>) {
                let plain = plain_lanes(u64::from_le_bytes(*lanes));
                i += plain;
                if plain < 8 {
                    break;
                }
            }
            match bytes.get(i) {
                Some(b'"') => {
                    self.at = i + 1;
                    return Ok(kind);
                }
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    i = Self::escape(bytes, i)?;
                }
                Some(0..0x20) => return Err(Self::flaw_at(i, "a control character inside a string")),
                Some(_) => i += 1,
                None => return Err(Self::flaw_at(i, "the text ends inside a string")),
            }
        }
    }

    fn escape(bytes: &[u8], at: usize) -> Result<usize, Flaw> {
        match bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') if bytes.get(at + 2..at + 6).is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) => {
                Ok(at + 6)
            }
            _ => Err(Self::flaw_at(at, "an escape that JSON does not have")),
        }
    }

    #[inline]
    fn number(&mut self) -> Result<Kind, Flaw> {
        let bytes = self.text.as_bytes();
        let digits = |mut i: usize| {
            while bytes.get(i).is_some_and(u8::is_ascii_digit) {
                i += 1;
            }
            i
        };
        let whole = self.at + usize::from(bytes.get(self.at) == Some(&b'-'));
        let mut i = digits(whole);
        if i == whole || (i > whole + 1 && bytes.get(whole) == Some(&b'0')) {
            return Err(Self::flaw_at(whole, "a number that JSON does not have"));
        }
        let mut kind = Kind::Integer;
        if bytes.get(i) == Some(&b'.') {
            kind = Kind::Fraction;
            let end = digits(i + 1);
            if end == i + 1 {
                return Err(Self::flaw_at(end, "expected a digit"));
            }
            i = end;
        }
        if matches!(bytes.get(i), Some(b'e' | b'E')) {
            kind = Kind::Fraction;
            let start = i + 1 + usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
            i = digits(start);
            if i == start {
                return Err(Self::flaw_at(i, "expected a digit"));
            }
        }
        self.at = i;
        Ok(kind)
    }

    fn literal(&mut self) -> Result<Kind, Flaw> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        for (word, kind) in [("true", Kind::True), ("false", Kind::False), ("null", Kind::Null)] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        Err(self.flaw(if rest.is_empty() { "the text ends where a value was expected" } else { "expected a value" }))
    }

    /// Steps over an object or array without recursion: one bit a level says which bracket is open.
    fn structure(&mut self) -> Result<Kind, Flaw> {
        let outer = if self.byte(self.at) == Some(b'{') { Kind::Object } else { Kind::Array };
        let (mut objects, mut depth) = (0_u128, 0_u32);
        loop {
            match self.peek() {
                Some(b'"') => drop(self.string()?),
                Some(b'-' | b'0'..=b'9') => drop(self.number()?),
                Some(open @ (b'{' | b'[')) => {
                    let is_object = open == b'{';
                    if self.enter(if is_object { b'}' } else { b']' })? {
                        if depth == DEPTH_MAX {
                            return Err(self.flaw("nested deeper than 128 levels"));
                        }
                        objects = objects << 1 | u128::from(is_object);
                        depth += 1;
                        if is_object {
                            self.skip_key()?;
                        }
                        continue;
                    }
                }
                _ => drop(self.literal()?),
            }
            loop {
                if depth == 0 {
                    return Ok(outer);
                }
                let is_object = objects & 1 == 1;
                if self.more(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.skip_key()?;
                    }
                    break;
                }
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    #[inline]
    fn skip_key(&mut self) -> Result<(), Flaw> {
        if self.peek() != Some(b'"') {
            return Err(self.flaw("expected a key in quotes"));
        }
        self.string()?;
        self.colon()
    }
}

impl<'a> Token<'a> {
    /// The value of a string, or `None` when it is no string or no text (a lone surrogate).
    #[inline]
    pub(crate) fn text(&self) -> Option<std::borrow::Cow<'a, str>> {
        match self.kind {
            Kind::Plain => self.raw.get(1..self.raw.len() - 1).map(std::borrow::Cow::Borrowed),
            Kind::Escaped => serde_json::from_str(self.raw).ok().map(std::borrow::Cow::Owned),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn whole(text: &str) -> Result<Token<'_>, Flaw> {
        let mut scanner = Scanner::new(text);
        let token = scanner.value()?;
        scanner.end()?;
        Ok(token)
    }

    #[test]
    fn r24_values_keep_their_own_text() {
        for (text, kind, raw) in [
            (" 12345678901234567890123 ", Kind::Integer, "12345678901234567890123"),
            ("-0.10e+5", Kind::Fraction, "-0.10e+5"),
            (r#""a\u00e9b""#, Kind::Escaped, r#""a\u00e9b""#),
            ("\"plain é text, long enough\"", Kind::Plain, "\"plain é text, long enough\""),
            ("{\"a\" : [1, {}] }", Kind::Object, "{\"a\" : [1, {}] }"),
            ("[]", Kind::Array, "[]"),
            ("null", Kind::Null, "null"),
        ] {
            assert_eq!(whole(text), Ok(Token { kind, raw }));
        }
    }

    #[test]
    fn r16_flaws_name_their_place() {
        for (text, at) in
            [("{\"a\":1,}", 7), ("[1 2]", 3), ("01", 0), ("\"a\u{1}\"", 2), ("[1]x", 3), ("", 0), ("[tru]", 1)]
        {
            assert_eq!(whole(text).map_err(|flaw| flaw.at), Err(at), "{text}");
        }
    }

    #[test]
    fn r26_nesting_is_bounded_without_recursion() {
        assert!(whole(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
        assert!(whole(&"[".repeat(1_000_000)).is_err());
        assert!(whole(&"{\"a\":".repeat(1_000_000)).is_err());
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|b| b.to_string()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
            "\\PC{0,20}".prop_map(|s| serde_json::Value::from(s).to_string()),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|v| format!("[{}]", v.join(" ,"))),
                prop::collection::vec(("[a-z\\\\\"é]{0,4}", inner), 0..5).prop_map(|v| {
                    let members: Vec<_> =
                        v.into_iter().map(|(k, v)| format!("{}:\n{v}", serde_json::Value::from(k))).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn r24_the_short_way_reads_what_the_long_way_reads(text in "-?[0-9]{0,20}(\\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?[ ,}x]?") {
            use super::super::value::{Reading, float64, int64};
            let mut scanner = Scanner::new(&text);
            let token = scanner.value();
            let (mut short, mut float) = (Scanner::new(&text), Scanner::new(&text));
            if let Some(value) = short.small_integer() {
                let token = token.unwrap();
                prop_assert_eq!((int64(&token), short.at()), (Reading::Exact(value), scanner.at()));
            }
            if let Some(value) = float.small_float() {
                let Reading::Exact(long) = float64(&token.unwrap()) else { panic!("not exact: {text}") };
                prop_assert_eq!((long.to_bits(), float.at()), (value.to_bits(), scanner.at()));
            }
            prop_assert_eq!(Scanner::new("\"1\"").small_integer(), None);
        }

        #[test]
        fn r24_texts_read_in_place_are_those_of_serde_json(text in "\\PC{0,12}", escape in "(\\\\[nrtbf/\"\\\\]|\\\\u00e9|)", end in "\\PC{0,12}") {
            let quote = |text: &str| serde_json::Value::from(text).to_string();
            let (head, tail) = (quote(&text), quote(&end));
            let json = format!("{}{escape}{},", &head[..head.len() - 1], &tail[1..]);
            let want: String = serde_json::from_str(json.trim_end_matches(',')).unwrap();
            let (mut scanner, mut out) = (Scanner::new(&json), String::new());
            let read = match scanner.plain(1 << 20) {
                Some(plain) => Some(plain.to_owned()),
                None => scanner.unescaped(1 << 20, &mut out).then_some(out),
            };
            prop_assert_eq!(read.is_none(), escape.starts_with("\\u"), "{}", json);
            prop_assert_eq!(scanner.at(), if read.is_some() { json.len() - 1 } else { 0 });
            if let Some(read) = read {
                prop_assert_eq!(read, want);
            }
        }

        #[test]
        fn r24_the_same_texts_are_json_as_for_serde_json(text in json(), at in any::<prop::sample::Index>(), put in "[\\[\\]{},:\"\\\\0-9eE.\\-tfnu \n]{0,2}") {
            prop_assert!(whole(&text).is_ok(), "{text}");
            let mut chars: Vec<char> = text.chars().collect();
            let i = at.index(chars.len());
            chars.splice(i..=i, put.chars());
            let broken: String = chars.into_iter().collect();
            prop_assert_eq!(whole(&broken).is_ok(), serde_json::from_str::<IgnoredAny>(&broken).is_ok(), "{}", broken);
        }

        #[test]
        fn r16_any_text_cut_anywhere_never_panics(text in "\\PC{0,60}", cut in 0_usize..60) {
            let _ = whole(&text);
            let cut: String = text.chars().take(cut).collect();
            let _ = whole(&cut);
        }
    }
}
