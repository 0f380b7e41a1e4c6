//! The command line: one file a command, and the only place that prints.

mod args;
mod check;
mod checkpoint;
mod completions;
mod console;
mod demo;
mod describe;
mod explain;
mod log;
#[cfg(feature = "sql")]
mod plain;
mod preview;
mod problems;
mod progress;
mod read;
mod report;
mod schema;
mod signals;
#[cfg(feature = "sql")]
mod sql;
mod stream;
mod table_text;
mod tables;
mod verify;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::error::{Error, ErrorKind, Result};
use crate::source::Source;
use args::{Args, Command};
use console::Console;
use signals::Signals;

/// How long output that is in flight may take to be put away after an interrupt.
const GRACE: Duration = Duration::from_millis(500);

/// The exit code of a run that was interrupted.
const INTERRUPTED: u8 = 130;

/// How a command ended that did not fail.
enum Ended {
    Well,
    Interrupted,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    log::report_panics();
    let args = Args::parse();
    let mut console = Console::new(args.log, args.quiet);
    log::start(&args, &console);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = Error::new(ErrorKind::Bug, format!("no runtime could be started: {error}"));
            return finish(&console, Err(error));
        }
    };
    let ended = runtime.block_on(run(args.command, &mut console));
    // A reader of our output that stalls must not keep us.
    runtime.shutdown_timeout(GRACE);
    finish(&console, ended)
}

async fn run(command: Command, console: &mut Console) -> Result<Ended> {
    let mut signals = Signals::listen()?;
    if let Command::Read(read) = command {
        return read::run(read, console, signals.next()).await;
    }
    if let Command::Stream(args) = command {
        let (interrupted, ended) = signals.apart();
        return stream::run(args, console, interrupted, ended).await;
    }
    // A change by hand that was sent may have arrived: it is waited for, or nobody would know. Every store has its limit.
    if let Command::Checkpoint(change) = &command
        && change.is_change()
    {
        return look(command, console).await.map(|()| Ended::Well);
    }
    tokio::select! {
        () = signals.next() => Ok(Ended::Interrupted),
        done = look(command, console) => done.map(|()| Ended::Well),
    }
}

/// Every command but `read`: they can be dropped anywhere, but for changes of a checkpoint.
async fn look(command: Command, console: &mut Console) -> Result<()> {
    match command {
        Command::Check(args) => check::run(&args.file.config, args.connect, console).await,
        Command::Tables(file) => tables::run(&file.config, console),
        Command::Schema(of) => schema::run(&of.config, &of.table, console).await,
        Command::Preview(preview) => preview::run(preview, console).await,
        Command::Checkpoint(command) => checkpoint::run(command, console).await,
        Command::Demo => demo::run(console).await,
        Command::Completions { shell } => completions::run(shell),
        Command::Read(_) | Command::Stream(_) => Err(Error::new(ErrorKind::Bug, "it has its own way")),
        Command::Explain(args) => explain::run(args, console).await,
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(args, console).await,
        #[cfg(not(feature = "sql"))]
        Command::Sql(_) => {
            let what = "this restmark was built without SQL: cargo install --path . --features sql";
            Err(Error::new(ErrorKind::Config, what))
        }
        Command::Verify(args) => verify::run(args, console).await,
    }
}

/// `1 page`, `2 pages`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Loads a configuration; its warnings are said once (R13) and its secrets are known from here on (R23).
fn open(config: &Path, console: &mut Console) -> Result<Source> {
    let source = Source::open(config)?;
    console.hide(source.redactor());
    for warning in &source.config().warnings {
        console.warn(&problems::render(warning));
    }
    Ok(source)
}

fn finish(console: &Console, ended: Result<Ended>) -> ExitCode {
    match ended {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Interrupted) => {
            console.error("interrupted: nothing moved");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            let problems = error.config_problems();
            for problem in problems {
                console.problem(&problems::render(problem));
            }
            match problems.len() {
                0 => console.error(&error.to_string()),
                1 => console.error("the configuration has a problem"),
                many => console.error(&format!("the configuration has {many} problems")),
            }
            ExitCode::from(error.kind().exit_code())
        }
    }
}
