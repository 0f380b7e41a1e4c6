//! SIGINT and SIGTERM, heard from the start.

use std::io;

use crate::error::{Error, ErrorKind, Result};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What asks the process to end.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Heard so that a file beyond the limit of its size is an error of the write, and not the end of the process.
    _too_large: Signal,
}

/// `SIGXFSZ`, wherever there is one.
#[cfg(unix)]
const TOO_LARGE: i32 = 25;

#[cfg(unix)]
impl Signals {
    pub(super) fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(|e| deaf(&e))?,
            terminate: signal(SignalKind::terminate()).map_err(|e| deaf(&e))?,
            _too_large: signal(SignalKind::from_raw(TOO_LARGE)).map_err(|e| deaf(&e))?,
        })
    }

    /// Completes with the next interrupt, and with the next wish that it ends.
    pub(super) fn apart(&mut self) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
        let Self { interrupt, terminate, .. } = self;
        (next(interrupt), next(terminate))
    }

    /// Completes with the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(unix)]
async fn next(signal: &mut Signal) {
    signal.recv().await;
}

/// What asks the process to end.
#[cfg(windows)]
pub(super) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    pub(super) fn listen() -> Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self).map_err(|e| deaf(&e))
    }

    /// Completes with the next interrupt; nothing else asks.
    pub(super) fn apart(&mut self) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
        let Self(interrupt) = self;
        let interrupted = async {
            interrupt.recv().await;
        };
        (interrupted, std::future::pending())
    }

    /// Completes with the next signal.
    pub(super) async fn next(&mut self) {
        self.0.recv().await;
    }
}

fn deaf(error: &io::Error) -> Error {
    Error::new(ErrorKind::Bug, format!("signals cannot be heard: {error}"))
}
