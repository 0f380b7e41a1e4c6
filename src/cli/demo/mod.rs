//! `restmark demo`: a read, a failure and a resume against a small API, with every claim checked as it is made.

mod api;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;

use super::console::Console;
use crate::error::{Error, ErrorKind, Result};
use crate::run::{BatchRun, Outcome, Report};
use crate::sink::{Format, Output};
use crate::source::Source;
use api::Api;

/// Events of the first read; the rest appears later.
const AT_FIRST: usize = 25;

pub(super) async fn run(console: &Console) -> Result<()> {
    let demo = Demo::start().await?;
    console.print(&format!(
        "A small API is listening on 127.0.0.1:{}: order events, ten a page, a cursor leads to the next page.\n\
         This configuration reads it ({}):\n\n{}",
        demo.api.port(),
        demo.config().display(),
        indented(&demo.config_text())
    ))?;
    let first = demo.first_read(console).await?;
    demo.failing_read(console, &first).await?;
    demo.resume(console).await?;
    console.print(&format!(
        "\nThat is the whole idea: a position moves only after everything that was read is written.\n\
         Next: write such a file for your API, then `restmark check`, `restmark preview` and `restmark read`.\n\
         All of it stays in {} until you remove it.",
        demo.dir.display()
    ))
}

struct Demo {
    api: Api,
    dir: PathBuf,
}

impl Demo {
    async fn start() -> Result<Self> {
        let api = Api::start(AT_FIRST).await?;
        let dir = std::env::temp_dir().join(format!("restmark-demo-{:08x}", fastrand::u32(..)));
        fs::create_dir(&dir).map_err(|e| failed(&dir, &e))?;
        let demo = Self { api, dir };
        fs::write(demo.config(), demo.config_text()).map_err(|e| failed(&demo.config(), &e))?;
        Ok(demo)
    }

    fn config(&self) -> PathBuf {
        self.dir.join("demo.conf")
    }

    fn config_text(&self) -> String {
        let checkpoints = self.dir.join("checkpoints").display().to_string();
        format!(
            r#"base-url = "http://127.0.0.1:{port}"
http {{ max-retries = 0 }}                # the failure below shall not take long
tables {{
  events {{
    endpoint   = "/events"
    data-path  = "/events"
    pagination {{ style = cursor, cursor-path = "/next", page-size-param = limit, max-page-size = 10 }}
    columns {{
      id          {{ type = int64 }}
      type        {{ type = string }}
      order       {{ type = int64 }}
      customer    {{ type = string, path = "/customer/email" }}
      amount      {{ type = "decimal(12,2)" }}
      occurred_at {{ type = timestamp }}
    }}
    checkpoint {{ enabled = true, path = {path}, mode = cursor, dedup-key = "/id" }}
  }}
}}
"#,
            port = self.api.port(),
            path = serde_json::Value::from(checkpoints)
        )
    }

    async fn first_read(&self, console: &Console) -> Result<Vec<u8>> {
        self.heading(console, "1. The first read", "from the beginning to the end")?;
        let report = self.read().await?;
        claim(report.counts.rows_emitted == AT_FIRST as u64, "the first read delivers every event")?;
        let checkpoint = self.checkpoint()?;
        self.tell(console, &report, &checkpoint)?;
        Ok(checkpoint)
    }

    async fn failing_read(&self, console: &Console, before: &[u8]) -> Result<()> {
        self.api.show_all();
        self.api.break_at(3);
        let new = self.api.len() - AT_FIRST;
        self.heading(console, "2. A failure", &format!("{new} events are new, and page 3 is answered with 500"))?;
        let Err(error) = self.read().await else {
            return claim(false, "a read of a broken API fails");
        };
        claim(error.kind() == ErrorKind::Http, "the failure is the API's")?;
        claim(self.checkpoint()? == before, "a failed read leaves the checkpoint as it was")?;
        claim(self.ids()?.len() == AT_FIRST, "a failed read leaves no rows behind")?;
        console.print(&format!(
            "   error: {error}\n   Two pages had been read well. Still: no new file, and the checkpoint did not move:\n{}",
            indented(&String::from_utf8_lossy(before))
        ))
    }

    async fn resume(&self, console: &Console) -> Result<()> {
        self.api.mend();
        self.heading(console, "3. The resume", "the API is well again, the same command once more")?;
        let report = self.read().await?;
        let ids = self.ids()?;
        let distinct: HashSet<i64> = ids.iter().copied().collect();
        claim(ids.len() == self.api.len(), "the files hold every event")?;
        claim(distinct.len() == ids.len(), "no event stands there twice")?;
        self.tell(console, &report, &self.checkpoint()?)?;
        console.print(&format!(
            "   It began with the last page of read 1, because more might have been appended to it; the {} events\n   \
             of it that were delivered before were dropped (dedup-key). All files together hold {} events, each once.",
            report.counts.duplicates_dropped,
            ids.len()
        ))
    }

    fn heading(&self, console: &Console, title: &str, what: &str) -> Result<()> {
        let out = self.out();
        console.print(&format!(
            "\n{title}: {what}\n   $ restmark read {} events --to {} --format ndjson",
            self.config().display(),
            out.display()
        ))
    }

    fn tell(&self, console: &Console, report: &Report, checkpoint: &[u8]) -> Result<()> {
        let counts = &report.counts;
        let files = &report.files;
        console.print(&format!(
            "   {} rows read in {} pages, {} written to {}\n   The checkpoint, {}, now says:\n{}",
            counts.rows_read,
            counts.pages,
            counts.rows_emitted,
            files.join(", "),
            self.checkpoint_file().display(),
            indented(&String::from_utf8_lossy(checkpoint))
        ))
    }

    /// The command of the walk-through.
    async fn read(&self) -> Result<Box<Report>> {
        let source = Source::open(self.config())?;
        let run = BatchRun::new("events", Output::directory(self.out(), Format::Ndjson));
        match run.run(&source, Utc::now(), &Arc::default(), std::future::pending()).await? {
            Outcome::Done(report) => Ok(report),
            Outcome::Interrupted => Err(Error::new(ErrorKind::Bug, "the demo was interrupted by nobody")),
        }
    }

    fn out(&self) -> PathBuf {
        self.dir.join("out")
    }

    fn checkpoint_file(&self) -> PathBuf {
        self.dir.join("checkpoints").join("events.checkpoint.json")
    }

    fn checkpoint(&self) -> Result<Vec<u8>> {
        let file = self.checkpoint_file();
        fs::read(&file).map_err(|e| failed(&file, &e))
    }

    /// The ids in all visible files.
    fn ids(&self) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.out()).map_err(|e| failed(&self.out(), &e))? {
            let path = entry.map_err(|e| failed(&self.out(), &e))?.path();
            if path.extension().is_none_or(|ending| ending != "ndjson") {
                continue;
            }
            for line in fs::read_to_string(&path).map_err(|e| failed(&path, &e))?.lines() {
                let row: serde_json::Value = serde_json::from_str(line)
                    .map_err(|e| Error::new(ErrorKind::Bug, format!("a row that was written does not read: {e}")))?;
                ids.extend(row["id"].as_i64());
            }
        }
        Ok(ids)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's care of temporary files.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A demo that does not show what it says is a bug.
fn claim(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(ErrorKind::Bug, format!("the demo did not show that {what}"))) }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("the demo's file cannot be used: {error}")).with("path", path.display())
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("     {line}")).collect::<Vec<_>>().join("\n")
}
