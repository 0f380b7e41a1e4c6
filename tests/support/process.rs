//! A server's process, in a group of its own that ends with it, and with the tests however those end.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::run::signal;

/// A process group that is killed when this is dropped.
pub(crate) struct Process(Child);

/// The shell becomes the server. What it leaves in the background waits on a pipe whose other end only the tests hold,
/// so that tests which are killed or interrupted leave no server behind.
const GUARD: &str = r#"exec 3<&0; { read -r _ <&3; kill -s KILL 0; } >/dev/null 2>&1 & exec "$@" </dev/null 3<&-"#;

impl Process {
    /// Starts what the command says, with an empty standard input.
    pub(crate) fn start(command: &Command, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Self {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => guard.env(name, value),
                None => guard.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            guard.current_dir(folder);
        }
        guard.stdin(Stdio::piped()).stdout(stdout).stderr(stderr).process_group(0);
        Self(guard.spawn().expect("sh starts"))
    }

    /// The process itself, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        signal("KILL", &format!("-{}", self.0.id()));
        let _ = self.0.wait();
    }
}

/// The guard itself.
mod tests {
    use super::super::{PATIENCE, wait_for};
    use super::*;

    #[test]
    fn a_process_ends_with_the_pipe_that_the_tests_hold() {
        let mut process = Process::start(Command::new("sleep").arg("600"), Stdio::null(), Stdio::null());
        assert!(process.ended().is_none());
        // As the system does it for tests that are killed.
        drop(process.child().stdin.take().expect("a pipe"));
        wait_for("the end of the process", PATIENCE, || process.ended());
    }
}
