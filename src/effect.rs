//! The seam where a test stops a store: whatever a store does to the world passes here first.
//!
//! A crash test counts the effects of a commit and runs it again for every k, stopping at the k-th one.

use std::fmt;
use std::io;
use std::sync::Arc;

/// One thing that a store does to the world. Reads are none: stopping before one is stopping after the effect before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// A directory comes into being.
    MakeDirectory,
    /// An empty file comes into being.
    Create,
    /// Bytes are written to a file.
    Write,
    /// What was written is made durable.
    Sync,
    /// A file takes the name of another.
    Rename,
    /// A file gets one more name, which nothing had.
    Link,
    /// The names in a directory are made durable.
    SyncDirectory,
    /// An object is written whole, on a condition.
    Put,
    /// A file or an object is removed.
    Delete,
}

/// Where at an effect the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// It does not happen.
    Before,
    /// Half of it happens: half of the bytes are written. What happens whole or not at all does not happen.
    Torn,
    /// It happens, and nobody is told.
    After,
}

/// Every effect of a store, watched or (always, outside tests) not.
#[derive(Clone, Default)]
pub struct Effects(Option<Arc<dyn Fn(Effect) -> Option<Stop> + Send + Sync>>);

/// A test has stopped the process here.
#[derive(Debug)]
pub(crate) struct Stopped(Effect, Stop);

impl Effects {
    /// `watch` is asked before every effect and says where to stop, if at all.
    ///
    /// A process that has ended does nothing more: once it has stopped one effect, `watch` has to stop all that follow.
    pub fn watched(watch: impl Fn(Effect) -> Option<Stop> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(watch)))
    }

    fn stop(&self, effect: Effect) -> Option<Stop> {
        self.0.as_ref().and_then(|watch| watch(effect))
    }

    /// Does `work`, unless the process ends here.
    pub(crate) fn run<T>(&self, effect: Effect, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.stop(effect) {
            None => work(),
            Some(stop) => {
                if stop == Stop::After {
                    work()?;
                }
                Err(Stopped(effect, stop).into())
            }
        }
    }

    /// [`Effects::run`] for work that is awaited.
    pub(crate) async fn act<T, E: From<Stopped>>(
        &self,
        effect: Effect,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match self.stop(effect) {
            None => work.await,
            Some(stop) => {
                if stop == Stop::After {
                    work.await?;
                }
                Err(Stopped(effect, stop).into())
            }
        }
    }

    /// How much of `bytes` is written before the process ends, and whether it ends there.
    pub(crate) fn write<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], Result<(), Stopped>) {
        match self.stop(Effect::Write) {
            None => (bytes, Ok(())),
            Some(stop) => {
                let kept = match stop {
                    Stop::Before => 0,
                    Stop::Torn => bytes.len() / 2,
                    Stop::After => bytes.len(),
                };
                (&bytes[..kept], Err(Stopped(Effect::Write, stop)))
            }
        }
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "watched" } else { "unwatched" })
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by a test at {:?} ({:?})", self.0, self.1)
    }
}

impl std::error::Error for Stopped {}

impl From<Stopped> for io::Error {
    fn from(stopped: Stopped) -> Self {
        Self::other(stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_happens_before_after_or_in_half() {
        let happened = |stop: Option<Stop>| {
            let effects = Effects::watched(move |_| stop);
            let mut done = false;
            let said = effects.run(Effect::Rename, || {
                done = true;
                Ok(())
            });
            let (kept, outcome) = effects.write(b"abcd");
            assert_eq!(said.is_ok(), stop.is_none());
            assert_eq!(outcome.is_ok(), stop.is_none());
            (done, kept.len())
        };
        assert_eq!(happened(None), (true, 4));
        assert_eq!(happened(Some(Stop::Before)), (false, 0));
        assert_eq!(happened(Some(Stop::Torn)), (false, 2));
        assert_eq!(happened(Some(Stop::After)), (true, 4));
        assert!(Effects::default().run(Effect::Put, || Ok(())).is_ok());
    }
}
