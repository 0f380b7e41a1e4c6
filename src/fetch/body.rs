//! From the bytes on the wire to UTF-8 text: decompression and charset, incrementally (R24, R26).

use bytes::{Bytes, BytesMut};
use encoding_rs::{DecoderResult, Encoding, UTF_8};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::codec::{Codec, Coding};

/// The most bytes that one step hands out, so that a decompression bomb goes off in small pieces.
const CHUNK: usize = 256 * 1024;

/// No honest answer is packed more often than this.
const MAX_CODINGS: usize = 4;

/// A body that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Undecodable {
    pub(super) message: String,
    /// Whether asking again may help: a damaged compression is a transport fault, a wrong charset is not (R19).
    pub(super) is_passing: bool,
}

/// Unpacks a body chunk by chunk: `feed`, then `pull` until it gives nothing; after the last chunk `end` and `pull`.
pub(super) struct Decoder {
    layers: Vec<Layer>,
}

impl Decoder {
    /// The layers that the headers declare, outermost first, then one for gzip that no header declares, then the text.
    pub(super) fn new(headers: &HeaderMap) -> Result<Self, Undecodable> {
        let declared = codings(headers);
        if declared.len() > MAX_CODINGS {
            let message = format!("Content-Encoding names {} codings", declared.len());
            return Err(Undecodable { message, is_passing: false });
        }
        let unpack = declared.into_iter().rev().map(Some).chain([None]).map(Role::Unpack);
        Ok(Self { layers: unpack.chain([Role::Text(charset(headers))]).map(Layer::new).collect() })
    }

    /// Bytes off the wire.
    pub(super) fn feed(&mut self, bytes: Bytes) {
        if let Some(first) = self.layers.first_mut() {
            first.feed(bytes);
        }
    }

    /// Whether nothing had to be unpacked or put into UTF-8 so far.
    pub(super) fn is_plain(&self) -> bool {
        self.layers.iter().all(|layer| matches!(layer.codec, None | Some(Codec::Plain)))
    }

    /// No more bytes will come.
    pub(super) fn end(&mut self) {
        if let Some(first) = self.layers.first_mut() {
            first.ended = true;
        }
    }

    /// The next decoded bytes, at most 256 KiB where something was unpacked; `None` when more must be fed first, or
    /// at the end.
    pub(super) fn pull(&mut self) -> Result<Option<Bytes>, Undecodable> {
        pull(&mut self.layers)
    }
}

/// Pulls from the last layer, feeding it from those before.
fn pull(layers: &mut [Layer]) -> Result<Option<Bytes>, Undecodable> {
    let Some((last, before)) = layers.split_last_mut() else { return Ok(None) };
    loop {
        if let Some(bytes) = last.pull()? {
            return Ok(Some(bytes));
        }
        if last.ended || before.is_empty() {
            return Ok(None);
        }
        match pull(before)? {
            Some(bytes) => last.feed(bytes),
            None if before.last().is_some_and(|layer| layer.ended) => last.ended = true,
            None => return Ok(None),
        }
    }
}

/// What a layer is there for; what it does is decided by the first bytes.
enum Role {
    Unpack(Option<Coding>),
    Text(&'static Encoding),
}

struct Layer {
    role: Role,
    codec: Option<Codec>,
    input: Bytes,
    ended: bool,
    out: BytesMut,
}

impl Layer {
    fn new(role: Role) -> Self {
        Self { role, codec: None, input: Bytes::new(), ended: false, out: BytesMut::new() }
    }

    fn feed(&mut self, bytes: Bytes) {
        self.input = if self.input.is_empty() {
            bytes
        } else {
            let mut joined = BytesMut::from(self.input.as_ref());
            joined.extend_from_slice(&bytes);
            joined.freeze()
        };
    }

    fn pull(&mut self) -> Result<Option<Bytes>, Undecodable> {
        if self.codec.is_none() {
            self.codec = self.choose()?;
        }
        match &mut self.codec {
            None => Ok(None),
            Some(Codec::Plain) if self.input.is_empty() => Ok(None),
            Some(Codec::Plain) => Ok(Some(std::mem::take(&mut self.input))),
            Some(codec) => {
                self.out.resize(CHUNK, 0);
                loop {
                    let step = codec.step(&self.input, self.ended, &mut self.out)?;
                    let _ = self.input.split_to(step.read);
                    if step.written > 0 {
                        return Ok(Some(self.out.split_to(step.written).freeze()));
                    }
                    if step.read == 0 {
                        return if self.ended { codec.finish().map(|()| None) } else { Ok(None) };
                    }
                }
            }
        }
    }

    /// The codec, once enough bytes are there to know it; nothing at all is plain.
    fn choose(&mut self) -> Result<Option<Codec>, Undecodable> {
        let Some(first) = self.input.first() else {
            return Ok(self.ended.then_some(Codec::Plain));
        };
        let needed = match &self.role {
            Role::Unpack(coding) => Coding::needed(*coding, *first),
            Role::Text(_) => {
                if matches!(first, 0xEF | 0xFE | 0xFF) {
                    3
                } else {
                    1
                }
            }
        };
        if self.input.len() < needed && !self.ended {
            return Ok(None);
        }
        match self.role {
            Role::Unpack(declared) => Codec::unpack(declared, &self.input).map(Some),
            Role::Text(declared) => {
                let (encoding, mark) = Encoding::for_bom(&self.input).unwrap_or((declared, 0));
                let _ = self.input.split_to(mark);
                Ok(Some(if encoding == UTF_8 { Codec::Plain } else { Codec::text(encoding) }))
            }
        }
    }
}

/// The codings of all `Content-Encoding` lines in the order they were applied; unknown names say nothing.
fn codings(headers: &HeaderMap) -> Vec<Coding> {
    let lines = headers.get_all(CONTENT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).filter_map(Coding::named).collect()
}

/// The charset of `Content-Type`. ASCII is a part of UTF-8, and so is what no one can name.
fn charset(headers: &HeaderMap) -> &'static Encoding {
    let line = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or("");
    let label = line.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
    });
    match label {
        Some(label) if !label.to_ascii_lowercase().ends_with("ascii") => {
            Encoding::for_label_no_replacement(label.as_bytes()).unwrap_or(UTF_8)
        }
        _ => UTF_8,
    }
}

/// One step of a charset decoder; a malformed sequence is an error, never a replacement character.
pub(super) fn text_step(
    decoder: &mut encoding_rs::Decoder,
    input: &[u8],
    last: bool,
    out: &mut [u8],
) -> Result<(usize, usize), Undecodable> {
    let (result, read, written) = decoder.decode_to_utf8_without_replacement(input, out, last);
    match result {
        DecoderResult::Malformed(..) => {
            let message = format!("the body is no valid {}", decoder.encoding().name());
            Err(Undecodable { message, is_passing: false })
        }
        DecoderResult::InputEmpty | DecoderResult::OutputFull => Ok((read, written)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[(http::HeaderName, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).fold(
            HeaderMap::new(),
            |mut all, (name, value)| {
                all.append(name, value);
                all
            },
        )
    }

    fn decode_in(size: usize, headers: &HeaderMap, body: &[u8]) -> Result<Vec<u8>, Undecodable> {
        let mut decoder = Decoder::new(headers)?;
        let mut out = Vec::new();
        for piece in body.chunks(size) {
            decoder.feed(Bytes::copy_from_slice(piece));
            while let Some(bytes) = decoder.pull()? {
                assert!(!bytes.is_empty());
                out.extend_from_slice(&bytes);
            }
        }
        decoder.end();
        while let Some(bytes) = decoder.pull()? {
            out.extend_from_slice(&bytes);
        }
        Ok(out)
    }

    fn decode(encoding: &str, body: &[u8]) -> Result<Vec<u8>, Undecodable> {
        let headers = headers(&[(CONTENT_ENCODING, encoding)]);
        let whole = decode_in(usize::MAX, &headers, body);
        for size in [1, 2, 7] {
            assert_eq!(decode_in(size, &headers, body), whole, "in pieces of {size}");
        }
        whole
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn deflate(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        let quick = brotli::enc::BrotliEncoderParams { quality: 2, ..Default::default() };
        brotli::BrotliCompress(&mut &text[..], &mut packed, &quick).unwrap();
        packed
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    const TEXT: &[u8] = br#"{"items":[{"id":1,"name":"caf\u00e9 caf\u00e9 caf\u00e9 caf\u00e9"}]}"#;

    #[test]
    fn r24_every_coding_is_unpacked_in_any_pieces() {
        for (name, packed) in [
            ("gzip", gzip(TEXT)),
            ("X-GZIP", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", deflate(TEXT)),
            ("br", brotli(TEXT)),
            ("zstd", zstd(TEXT)),
            ("identity", TEXT.to_vec()),
            ("utf-8", TEXT.to_vec()),
            ("gzip, br", brotli(&gzip(TEXT))),
            ("zstd,identity, deflate", zlib(&zstd(TEXT))),
        ] {
            assert_eq!(decode(name, &packed).unwrap(), TEXT, "{name}");
        }
    }

    #[test]
    fn r24_gzip_is_known_by_its_bytes_and_a_header_without_them_says_nothing() {
        for name in ["", "identity", "br", "zstd", "deflate", "gzip"] {
            assert_eq!(decode(name, &gzip(TEXT)).unwrap(), TEXT, "{name}");
        }
        assert_eq!(decode("gzip", &gzip(&gzip(TEXT))).unwrap(), TEXT, "a .gz file sent compressed");
        assert_eq!(decode("gzip", TEXT).unwrap(), TEXT);
        assert_eq!(decode("gzip, gzip", &gzip(TEXT)).unwrap(), TEXT);
        assert_eq!(decode("zstd", TEXT).unwrap(), TEXT);
        for name in ["gzip", "br", "deflate", "zstd", ""] {
            assert_eq!(decode(name, b"").unwrap(), b"", "an empty body of {name}");
        }
    }

    #[test]
    fn r24_members_and_frames_follow_each_other() {
        assert_eq!(decode("gzip", &[gzip(b"[1,"), gzip(b""), gzip(b"2]")].concat()).unwrap(), b"[1,2]");
        assert_eq!(decode("gzip", &[gzip(b"[1]"), vec![0; 20]].concat()).unwrap(), b"[1]", "padding");
        assert_eq!(decode("zstd", &[zstd(b"[1,"), zstd(b"2]")].concat()).unwrap(), b"[1,2]");
    }

    #[test]
    fn r19_a_damaged_or_short_compression_may_pass() {
        for (name, packed) in [
            ("gzip", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", deflate(TEXT)),
            ("br", brotli(TEXT)),
            ("zstd", zstd(TEXT)),
        ] {
            let short = decode(name, &packed[..packed.len() - 5]).unwrap_err();
            assert!(short.is_passing && short.message.contains("cut short"), "{name}: {short:?}");
        }
        let mut damaged = gzip(TEXT);
        let at = damaged.len() - 6;
        damaged[at] ^= 1;
        assert!(decode("gzip", &damaged).unwrap_err().is_passing, "checksum");
        assert!(decode("gzip", &[gzip(TEXT), b"junk".to_vec()].concat()).unwrap_err().is_passing);
        assert!(decode("br", TEXT).is_err());
    }

    #[test]
    fn r24_marks_and_charsets_become_utf_8() {
        let typed = |line: &str, body: &[u8]| {
            let headers = headers(&[(CONTENT_TYPE, line)]);
            let whole = decode_in(usize::MAX, &headers, body);
            assert_eq!(decode_in(1, &headers, body), whole);
            whole
        };
        let utf16: Vec<u8> = "\u{FEFF}[\"é\"]".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(typed("application/json", b"\xEF\xBB\xBF[1]").unwrap(), b"[1]");
        assert_eq!(typed("application/json", &utf16).unwrap(), "[\"é\"]".as_bytes());
        assert_eq!(typed("text/json; Charset=\"ISO-8859-1\"", b"[\"\xE9\"]").unwrap(), "[\"é\"]".as_bytes());
        assert_eq!(typed("text/json; charset=made-up", "é".as_bytes()).unwrap(), "é".as_bytes());
        assert_eq!(typed("text/json; charset=us-ascii", "é".as_bytes()).unwrap(), "é".as_bytes());
        assert_eq!(typed("application/json", b"a\xFF\xFE").unwrap(), b"a\xFF\xFE", "left to whoever reads it");
        let broken = typed("text/json; charset=shift_jis", b"ab\x81").unwrap_err();
        assert!(!broken.is_passing && broken.message.contains("Shift_JIS"), "{broken:?}");
    }

    #[test]
    fn r26_a_bomb_comes_in_small_pieces() {
        let zeros = vec![b'0'; 2 << 20];
        for (name, packed) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros)), ("deflate", zlib(&zeros))] {
            let mut decoder = Decoder::new(&headers(&[(CONTENT_ENCODING, name)])).unwrap();
            decoder.feed(packed.into());
            assert!(decoder.pull().unwrap().unwrap().len() <= CHUNK, "{name}");
        }
        let many = headers(&[(CONTENT_ENCODING, "gzip,gzip,gzip"), (CONTENT_ENCODING, "gzip,gzip")]);
        assert!(Decoder::new(&many).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn r24_what_was_packed_comes_back(text in proptest::collection::vec(32_u8..127, 0..2000), size in 1_usize..600) {
            for (name, packed) in [("gzip", gzip(&text)), ("deflate", zlib(&text)), ("deflate", deflate(&text)), ("br", brotli(&text)), ("zstd", zstd(&text)), ("", text.clone())] {
                prop_assert_eq!(&decode_in(size, &headers(&[(CONTENT_ENCODING, name)]), &packed).unwrap(), &text);
            }
        }

        #[test]
        fn r24_no_bytes_bring_the_decoder_down(body in proptest::collection::vec(any::<u8>(), 0..300), size in 1_usize..50, lead in 0_usize..4) {
            let lead: &[u8] = [&b""[..], b"\x1F\x8B\x08", b"\x28\xB5\x2F\xFD", b"\x78\x9C"][lead];
            for name in ["gzip", "deflate", "br", "zstd", ""] {
                let _ = decode_in(size, &headers(&[(CONTENT_ENCODING, name)]), &[lead, &body].concat());
            }
        }
    }
}
