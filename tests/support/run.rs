//! One run of the binary.

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::{PATIENCE, wait_for};

/// A run in the making.
#[must_use = "a run does nothing until `output` or `spawn`"]
pub(crate) struct Run {
    command: Command,
    stdout: Stdout,
    patience: Duration,
}

/// What standard output is.
pub(crate) enum Stdout {
    /// Read to its end.
    Kept,
    /// A device without space.
    Full,
    /// A pipe that nobody reads any more once this text came by.
    ClosedAfter(&'static str),
    /// A pipe that is read until this text came by, and then left to fill up.
    StalledAfter(&'static str),
    /// A file.
    File(File),
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    patience: Duration,
    readers: Vec<JoinHandle<()>>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

/// A run that is over.
pub(crate) struct Output {
    /// The exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// What was read of standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Run {
    /// The binary in a directory, with a clean environment.
    pub(crate) fn new(dir: &Path, args: impl IntoIterator<Item = String>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restmark"));
        command.args(args).current_dir(dir).env_clear().env("HOME", dir);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        Self { command, stdout: Stdout::Kept, patience: PATIENCE }
    }

    /// More arguments.
    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(args);
        self
    }

    /// An environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Where standard output goes.
    pub(crate) fn stdout(mut self, stdout: Stdout) -> Self {
        self.stdout = stdout;
        self
    }

    /// How long the run may take.
    pub(crate) fn patience(mut self, limit: Duration) -> Self {
        self.patience = limit;
        self
    }

    /// Starts it.
    pub(crate) fn spawn(self) -> Running {
        let Self { mut command, stdout, patience } = self;
        let (out, until) = match stdout {
            Stdout::Kept => (Stdio::piped(), None),
            Stdout::Full => (File::options().write(true).open("/dev/full").expect("/dev/full").into(), None),
            Stdout::ClosedAfter(text) => (Stdio::piped(), Some((text, true))),
            Stdout::StalledAfter(text) => (Stdio::piped(), Some((text, false))),
            Stdout::File(file) => (file.into(), None),
        };
        let mut child = command.stdout(out).spawn().expect("the binary starts");
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let mut readers = vec![];
        if let Some(pipe) = child.stderr.take() {
            readers.push(collect(pipe, &stderr));
        }
        if let Some(mut pipe) = child.stdout.take() {
            match until {
                None => readers.push(collect(pipe, &stdout)),
                Some((text, close)) => {
                    let (sender, receiver) = channel();
                    let seen = Arc::clone(&stdout);
                    readers.push(std::thread::spawn(move || {
                        read_until(&mut pipe, &seen, text);
                        let _ = sender.send(pipe);
                    }));
                    let Ok(pipe) = receiver.recv_timeout(patience) else {
                        let _ = child.kill();
                        panic!("standard output never said {text:?}");
                    };
                    child.stdout = (!close).then_some(pipe);
                }
            }
        }
        Running { child, patience, readers, stdout, stderr }
    }

    /// Runs it to its end.
    pub(crate) fn output(self) -> Output {
        self.spawn().output()
    }
}

impl Running {
    /// Sends a signal by its name, such as `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, &self.child.id().to_string());
    }

    /// Waits for its end; a run that never ends is killed and fails the test.
    pub(crate) fn output(mut self) -> Output {
        let status = wait_for("the end of the run", self.patience, || self.child.try_wait().expect("a child"));
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader");
        }
        let text = |bytes: &Mutex<Vec<u8>>| String::from_utf8_lossy(&bytes.lock().expect("a lock")).into_owned();
        Output { code: status.code(), stdout: text(&self.stdout), stderr: text(&self.stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Output {
    /// The same output, if the run ended with this exit code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code; standard error:\n{}", self.stderr);
        self
    }

    /// The same output, if the run failed by itself.
    #[track_caller]
    pub(crate) fn expect_failure(self) -> Self {
        assert!(self.code.is_none_or(|code| code != 0), "it should have failed; standard error:\n{}", self.stderr);
        self
    }

    /// The same output, if standard error holds the text, whatever the case.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        let stderr = &self.stderr;
        assert!(stderr.to_lowercase().contains(&text.to_lowercase()), "no {text:?} in standard error:\n{stderr}");
        self
    }

    /// Standard output as rows.
    #[track_caller]
    pub(crate) fn rows(&self) -> Vec<Value> {
        rows(&self.stdout)
    }

    /// One column of standard output as integers.
    #[track_caller]
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.rows().iter().map(|row| row["id"].as_i64().unwrap_or_else(|| panic!("no id in {row}"))).collect()
    }
}

/// NDJSON as rows.
#[track_caller]
pub(crate) fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}"))).collect()
}

/// Sends a signal to a process, or with a `-` in front to a process group.
pub(crate) fn signal(name: &str, pid: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -s {name} -- {pid} 2>/dev/null")]).status();
    status.expect("sh starts");
}

fn collect(mut pipe: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut chunk = vec![0; 65536];
        while let Ok(n @ 1..) = pipe.read(&mut chunk) {
            into.lock().expect("a lock").write_all(&chunk[..n]).expect("memory");
        }
    })
}

fn read_until(pipe: &mut impl Read, into: &Mutex<Vec<u8>>, text: &str) {
    let mut byte = [0];
    while let Ok(1) = pipe.read(&mut byte) {
        let mut seen = into.lock().expect("a lock");
        seen.push(byte[0]);
        if seen.ends_with(text.as_bytes()) {
            return;
        }
    }
}
