//! Takes a page apart that is too large to be held: groups of whole records as they come, and the document around them.
//!
//! Only brackets, quotes and the keys on the way to the record array are looked at; whether all of it is JSON is decided
//! where the pieces are read. Memory is one group, one record and the envelope (R26).

/// Records are read in groups of about this size; small in tests, which then have many.
const GROUP: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// A page that comes in.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The names on the way to the record array.
    path: Vec<String>,
    phase: Phase,
    /// The document with an empty array in place of the records.
    envelope: Vec<u8>,
    /// An array of the records that are not handed out yet, open at its end.
    group: Vec<u8>,
    /// Where its first record begins in the page.
    group_at: u64,
    /// Whether records were handed out up to a comma.
    after_comma: bool,
    /// Bytes so far.
    at: u64,
    quoted: Quoted,
    /// What is open around the place at hand, before the records.
    frames: Vec<Frame>,
    /// How many brackets are open inside the record array.
    depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Records,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    No,
    Yes,
    Escape,
}

#[derive(Debug)]
enum Frame {
    Object { key: Vec<u8>, is_key: bool },
    Array { index: u64 },
}

/// An array of whole records, and where it begins in the page.
pub(super) struct Group {
    pub(super) text: Vec<u8>,
    pub(super) at: u64,
}

/// What is left when the page has ended.
pub(super) enum Rest {
    /// There was no record array: the whole page.
    Whole(Vec<u8>),
    /// The document with an empty record array.
    Envelope(Vec<u8>),
    /// The page ended inside the record array: what was not handed out.
    Torn(Group),
}

impl Splitter {
    /// A page whose records stand at this path.
    pub(super) fn new(path: Vec<String>) -> Self {
        Self {
            path,
            phase: Phase::Before,
            envelope: Vec::new(),
            group: Vec::new(),
            group_at: 0,
            after_comma: false,
            at: 0,
            quoted: Quoted::No,
            frames: Vec::new(),
            depth: 0,
        }
    }

    /// The next bytes; yields the groups that are complete.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut rest = chunk;
        while let Some(byte) = rest.first() {
            let taken = match self.phase {
                Phase::Before => {
                    self.before(*byte);
                    1
                }
                Phase::Records => self.records(rest, &mut groups),
                Phase::After => {
                    self.envelope.extend_from_slice(rest);
                    rest.len()
                }
            };
            self.at += taken as u64;
            rest = rest.get(taken..).unwrap_or_default();
        }
        groups
    }

    /// The document so far, with an empty record array; with what follows it, once that has ended.
    pub(super) fn around(&self) -> &[u8] {
        &self.envelope
    }

    /// Whether the record array was not met yet.
    pub(super) fn is_before(&self) -> bool {
        self.phase == Phase::Before
    }

    /// Whether the record array has ended.
    pub(super) fn is_past(&self) -> bool {
        self.phase == Phase::After
    }

    /// The page has ended.
    pub(super) fn finish(self) -> Rest {
        match self.phase {
            Phase::Before => Rest::Whole(self.envelope),
            Phase::Records => Rest::Torn(Group { text: self.group, at: self.group_at.saturating_sub(1) }),
            Phase::After => Rest::Envelope(self.envelope),
        }
    }

    /// A byte before the record array.
    fn before(&mut self, byte: u8) {
        if byte == b'[' && self.quoted == Quoted::No && self.is_here() {
            self.phase = Phase::Records;
            self.envelope.extend_from_slice(b"[]");
            self.group.push(b'[');
            self.group_at = self.at + 1;
            return;
        }
        self.envelope.push(byte);
        if let Some(Frame::Object { key, is_key: true }) = self.frames.last_mut()
            && self.quoted != Quoted::No
        {
            key.push(byte);
        }
        match self.quoted {
            Quoted::Escape => self.quoted = Quoted::Yes,
            Quoted::Yes if byte == b'\\' => self.quoted = Quoted::Escape,
            Quoted::Yes if byte == b'"' => self.quoted = Quoted::No,
            Quoted::Yes => {}
            Quoted::No => self.structure(byte),
        }
    }

    fn structure(&mut self, byte: u8) {
        match (byte, self.frames.last_mut()) {
            (b'"', frame) => {
                self.quoted = Quoted::Yes;
                if let Some(Frame::Object { key, is_key: true }) = frame {
                    key.clear();
                    key.push(b'"');
                }
            }
            (b'{', _) => self.frames.push(Frame::Object { key: Vec::new(), is_key: true }),
            (b'[', _) => self.frames.push(Frame::Array { index: 0 }),
            (b'}' | b']', _) => drop(self.frames.pop()),
            (b':', Some(Frame::Object { is_key, .. })) => *is_key = false,
            (b',', Some(Frame::Object { is_key, .. })) => *is_key = true,
            (b',', Some(Frame::Array { index })) => *index += 1,
            _ => {}
        }
    }

    /// Whether the value at hand is the one at the path.
    fn is_here(&self) -> bool {
        let is_on = |(frame, name): (&Frame, &String)| match frame {
            Frame::Object { key, is_key } => {
                !is_key && serde_json::from_slice::<String>(key).is_ok_and(|key| key == *name)
            }
            Frame::Array { index } => index.to_string() == *name,
        };
        self.frames.len() == self.path.len() && self.frames.iter().zip(&self.path).all(is_on)
    }

    /// Bytes inside the record array, up to its end or that of a group; says how many were taken.
    fn records(&mut self, bytes: &[u8], groups: &mut Vec<Group>) -> usize {
        for (i, byte) in bytes.iter().enumerate() {
            match self.quoted {
                Quoted::Escape => self.quoted = Quoted::Yes,
                Quoted::Yes => match byte {
                    b'\\' => self.quoted = Quoted::Escape,
                    b'"' => self.quoted = Quoted::No,
                    _ => {}
                },
                Quoted::No => match byte {
                    b'"' => self.quoted = Quoted::Yes,
                    b'{' | b'[' => self.depth += 1,
                    b']' if self.depth == 0 => {
                        self.end(&bytes[..i], groups);
                        return i + 1;
                    }
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    b',' if self.depth == 0 && self.group.len() + i >= GROUP => {
                        self.close(&bytes[..i], self.at + i as u64 + 1, groups);
                        return i + 1;
                    }
                    _ => {}
                },
            }
        }
        self.group.extend_from_slice(bytes);
        bytes.len()
    }

    /// A group ends at a comma.
    fn close(&mut self, bytes: &[u8], next_at: u64, groups: &mut Vec<Group>) {
        self.group.extend_from_slice(bytes);
        self.group.push(b']');
        let text = std::mem::replace(&mut self.group, vec![b'[']);
        groups.push(Group { text, at: self.group_at.saturating_sub(1) });
        self.group_at = next_at;
        self.after_comma = true;
    }

    /// The record array ends.
    fn end(&mut self, bytes: &[u8], groups: &mut Vec<Group>) {
        let is_empty = self.group.iter().skip(1).chain(bytes).all(u8::is_ascii_whitespace);
        if is_empty && self.after_comma {
            // A comma that nothing follows is no JSON: whoever reads this finds it.
            self.group.push(b',');
        }
        self.close(bytes, 0, groups);
        self.group = Vec::new();
        self.phase = Phase::After;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records that come out, and what is left.
    fn split(path: &[&str], page: &str, pieces: usize) -> (Vec<serde_json::Value>, Rest) {
        let mut splitter = Splitter::new(path.iter().map(|name| (*name).to_owned()).collect());
        let mut records = vec![];
        for piece in page.as_bytes().chunks(pieces) {
            for group in splitter.push(piece) {
                let text = String::from_utf8(group.text).unwrap();
                let at = usize::try_from(group.at).unwrap();
                let first = text[1..].trim_end_matches(']').trim_end();
                assert!(page[at + 1..].starts_with(first), "the group stands at {at}");
                records.extend(serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap());
            }
        }
        (records, splitter.finish())
    }

    #[test]
    fn r26_records_come_out_whole_whatever_the_pieces() {
        let big = "x".repeat(GROUP / 3);
        let records: Vec<_> =
            (0..8).map(|i| format!(r#"{{"id":{i}, "t":"],[\"{{\\" , "b":[[{{}}]],"x":"{big}"}}"#)).collect();
        let page = format!(
            r#"{{"a\"b":[1,{{"items":[9]}}],"d":{{"it\u0065ms": [ {} ] ,"next":"n"}},"total":8}}"#,
            records.join(" , ")
        );
        for pieces in [7, 4096, page.len()] {
            let (found, rest) = split(&["d", "items"], &page, pieces);
            assert_eq!(found.len(), 8);
            assert!(found.iter().enumerate().all(|(i, record)| record["id"] == i && record["t"] == "],[\"{\\"));
            let Rest::Envelope(envelope) = rest else { panic!("the page was whole") };
            let text = String::from_utf8(envelope).unwrap();
            assert_eq!(text, r#"{"a\"b":[1,{"items":[9]}],"d":{"it\u0065ms": [] ,"next":"n"},"total":8}"#);
        }
    }

    #[test]
    fn r16_a_page_without_the_array_or_torn_inside_is_told_apart() {
        assert!(
            matches!(split(&["items"], r#"{"error":"no"}"#, 3).1, Rest::Whole(page) if page == br#"{"error":"no"}"#)
        );
        assert!(matches!(split(&[], "[1,2", 1).1, Rest::Torn(group) if group.text == b"[1,2"));
        assert!(matches!(split(&["0", "r"], r#"[{"r":[]}]"#, 1).1, Rest::Envelope(page) if page == br#"[{"r":[]}]"#));
    }

    #[test]
    fn r24_a_comma_that_nothing_follows_stays_an_error() {
        let mut splitter = Splitter::new(vec![]);
        let page = format!("[\"{}\", ]", "x".repeat(GROUP));
        let groups: Vec<_> = splitter.push(page.as_bytes()).into_iter().map(|group| group.text).collect();
        assert_eq!(groups.len(), 2);
        assert!(serde_json::from_slice::<Vec<String>>(&groups[0]).is_ok());
        assert!(serde_json::from_slice::<Vec<String>>(&groups[1]).is_err());
    }
}
