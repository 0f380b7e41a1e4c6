//! The bytes of one body as they come in, decompressed and in UTF-8; on demand, or in a task that works ahead.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::answer::Place;
use super::body::Decoder;
use super::retry::seconds;
use super::transport::Failure;
use crate::error::{Error, ErrorKind, Result};

/// A body that is unpacked by whoever asks for its bytes.
pub(super) struct Unpacking {
    body: BoxStream<'static, Result<Bytes, Failure>>,
    decoder: Decoder,
    idle: Duration,
    ended: bool,
    place: Place,
}

impl Unpacking {
    pub(super) fn new(
        body: BoxStream<'static, Result<Bytes, Failure>>,
        decoder: Decoder,
        idle: Duration,
        place: Place,
    ) -> Self {
        Self { body, decoder, idle, ended: false, place }
    }

    /// Whether there is more to do than to pass bytes on.
    pub(super) fn is_work(&self) -> bool {
        !self.decoder.is_plain()
    }

    /// The next bytes; `None` at the end of a body that came in whole.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.decoder.pull().map_err(|e| self.place.undecodable(e))? {
                return Ok(Some(bytes));
            }
            if self.ended {
                return Ok(None);
            }
            match timeout(self.idle, self.body.next()).await {
                Ok(Some(Ok(bytes))) => self.decoder.feed(bytes),
                Ok(Some(Err(failure))) => return Err(self.place.failed(failure)),
                Ok(None) => {
                    self.decoder.end();
                    self.ended = true;
                }
                Err(_) => {
                    let message = format!("the body fell silent for {} (http.idle-timeout)", seconds(self.idle));
                    return Err(self.place.passing(ErrorKind::Http, "silence", message));
                }
            }
        }
    }
}

/// How many chunks wait for their consumer (R26).
const WAITING: usize = 2;

/// A body that is unpacked by a task of its own, so that the consumer's thread is free for rows. Dropping it ends the task.
pub(super) struct Ahead {
    chunks: mpsc::Receiver<Result<Option<Bytes>>>,
    ended: bool,
    task: JoinHandle<()>,
}

impl Ahead {
    pub(super) fn start(mut unpacking: Unpacking) -> Self {
        let (sender, chunks) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            loop {
                let chunk = unpacking.chunk().await;
                let is_last = !matches!(chunk, Ok(Some(_)));
                if sender.send(chunk).await.is_err() || is_last {
                    return;
                }
            }
        });
        Self { chunks, ended: false, task }
    }

    /// The next bytes; `None` only where the task saw the end of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        let gone = || Err(Error::new(ErrorKind::Bug, "the task that unpacks a body ended early"));
        let chunk = self.chunks.recv().await.unwrap_or_else(gone)?;
        self.ended = chunk.is_none();
        Ok(chunk)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}
