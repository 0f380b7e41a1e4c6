//! The decompressors behind one stepwise face: some input, some output, never more than asked for (R26).

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use encoding_rs::Encoding;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::Operation as _;

use super::body::{Undecodable, text_step};

const GZIP_MAGIC: [u8; 3] = [0x1F, 0x8B, 0x08];
const GZIP_HEADER: usize = 10;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const WINDOW_BITS: u8 = 15;

/// A content coding (RFC 9110 section 8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// The coding of a name in `Content-Encoding`.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// How many bytes must be there before [`Codec::unpack`] can tell what they are.
    pub(super) fn needed(declared: Option<Self>, first: u8) -> usize {
        match declared {
            _ if first == GZIP_MAGIC[0] => GZIP_HEADER,
            Some(Self::Zstd) => ZSTD_MAGIC.len(),
            Some(Self::Deflate) => 2,
            _ => 1,
        }
    }
}

/// Brotli could begin with the magic bytes of gzip, so the flags and the system are looked at too.
fn is_gzip(head: &[u8]) -> bool {
    match head.get(..GZIP_HEADER) {
        Some(head) => head.starts_with(&GZIP_MAGIC) && head[3] & 0xE0 == 0 && matches!(head[9], 0..=19 | 255),
        None => head.starts_with(&GZIP_MAGIC[..2]),
    }
}

/// RFC 1950: method 8 and a checksum over the first two bytes; without it `deflate` is the raw format.
fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [a, b, ..] if a & 0x0F == 8 && (u16::from(*a) << 8 | u16::from(*b)) % 31 == 0)
}

/// One step's worth of work. Nothing read and nothing written: it needs more input, or it is done.
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
}

/// What turns input into output.
pub(super) enum Codec {
    /// Nothing to do.
    Plain,
    /// A decompressor.
    Packed(Packed),
    /// A charset other than UTF-8; `bool`: it has seen the end.
    Text(Box<encoding_rs::Decoder>, bool),
}

/// A decompressor and whether its stream is complete.
pub(super) struct Packed {
    name: &'static str,
    engine: Engine,
    complete: bool,
}

enum Engine {
    /// Gzip, zlib or raw deflate.
    Flate(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

impl Codec {
    /// The decompressor for a body that begins with `head`: gzip by its bytes, else what is declared and not belied.
    pub(super) fn unpack(declared: Option<Coding>, head: &[u8]) -> Result<Self, Undecodable> {
        let (name, engine) = match declared {
            _ if is_gzip(head) => ("gzip", Engine::Flate(Decompress::new_gzip(WINDOW_BITS))),
            None | Some(Coding::Gzip) => return Ok(Self::Plain),
            Some(Coding::Deflate) => ("deflate", Engine::Flate(Decompress::new(is_zlib(head)))),
            Some(Coding::Brotli) => {
                let alloc = StandardAlloc::default;
                let state = BrotliState::new_strict(alloc(), alloc(), alloc());
                ("br", Engine::Brotli(Box::new(state)))
            }
            Some(Coding::Zstd) if !head.starts_with(&ZSTD_MAGIC) => return Ok(Self::Plain),
            Some(Coding::Zstd) => {
                let decoder = zstd::stream::raw::Decoder::new().map_err(|e| damaged("zstd", &e))?;
                ("zstd", Engine::Zstd(decoder))
            }
        };
        Ok(Self::Packed(Packed { name, engine, complete: false }))
    }

    /// The decoder of a charset.
    pub(super) fn text(encoding: &'static Encoding) -> Self {
        Self::Text(Box::new(encoding.new_decoder_without_bom_handling()), false)
    }

    /// Does some work. `last`: no input follows.
    pub(super) fn step(&mut self, input: &[u8], last: bool, out: &mut [u8]) -> Result<Step, Undecodable> {
        match self {
            Self::Plain | Self::Text(_, true) => Ok(Step { read: 0, written: 0 }),
            Self::Packed(packed) => packed.step(input, out),
            Self::Text(decoder, ended) => {
                let (read, written) = text_step(decoder, input, last, out)?;
                *ended = last && written == 0 && read == input.len();
                Ok(Step { read, written })
            }
        }
    }

    /// Fails if the input ended in the middle.
    pub(super) fn finish(&self) -> Result<(), Undecodable> {
        match self {
            Self::Packed(packed) if !packed.complete => {
                let message = format!("the {} body was cut short", packed.name);
                Err(Undecodable { message, is_passing: true })
            }
            _ => Ok(()),
        }
    }
}

impl Packed {
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, Undecodable> {
        if self.complete && !matches!(self.engine, Engine::Zstd(_)) {
            return self.after_the_end(input, out);
        }
        match &mut self.engine {
            Engine::Flate(decoder) => {
                let (read, written) = (decoder.total_in(), decoder.total_out());
                let status =
                    decoder.decompress(input, out, FlushDecompress::None).map_err(|e| damaged(self.name, &e))?;
                self.complete = status == Status::StreamEnd;
                Ok(Step { read: less(decoder.total_in(), read), written: less(decoder.total_out(), written) })
            }
            Engine::Zstd(decoder) => {
                let status = decoder.run_on_buffers(input, out).map_err(|e| damaged(self.name, &e))?;
                let step = Step { read: status.bytes_read, written: status.bytes_written };
                if step.read > 0 || step.written > 0 {
                    self.complete = status.remaining == 0;
                }
                Ok(step)
            }
            Engine::Brotli(state) => {
                let (mut left, mut read, mut room, mut written, mut total) = (input.len(), 0, out.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut left,
                    &mut read,
                    input,
                    &mut room,
                    &mut written,
                    out,
                    &mut total,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => Err(damaged(self.name, &"not valid")),
                    result => {
                        self.complete = matches!(result, BrotliResult::ResultSuccess);
                        Ok(Step { read, written })
                    }
                }
            }
        }
    }

    /// Behind a complete stream there may be padding, and behind a gzip member another one.
    fn after_the_end(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, Undecodable> {
        match input.first() {
            None => Ok(Step { read: 0, written: 0 }),
            Some(0) => Ok(Step { read: input.iter().take_while(|b| **b == 0).count(), written: 0 }),
            Some(first) if self.name == "gzip" && *first == GZIP_MAGIC[0] => {
                self.engine = Engine::Flate(Decompress::new_gzip(WINDOW_BITS));
                self.complete = false;
                self.step(input, out)
            }
            Some(_) => Err(damaged(self.name, &"something follows its end")),
        }
    }
}

fn less(now: u64, before: u64) -> usize {
    usize::try_from(now - before).unwrap_or(usize::MAX)
}

fn damaged(name: &str, why: &dyn std::fmt::Display) -> Undecodable {
    Undecodable { message: format!("the {name} body is damaged: {why}"), is_passing: true }
}
