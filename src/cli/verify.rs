//! `restmark verify`: whether the files of a directory are what was written there.

use std::collections::BTreeMap;

use serde_json::json;

use super::args::VerifyArgs;
use super::console::Console;
use super::counted;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Redactor;
use crate::sink::Destination;
use crate::storage::Settings;
use crate::verify::{Findings, verify};

pub(super) async fn run(args: VerifyArgs, console: &mut Console) -> Result<()> {
    let Destination::Files(to) = Destination::parse(&args.to)? else {
        return Err(Error::new(ErrorKind::Config, "verify needs a directory"));
    };
    let utf8 = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let settings = Settings::new(BTreeMap::new(), &utf8.collect());
    let redactor = Redactor::default();
    settings.secrets().iter().for_each(|secret| redactor.learn(secret));
    console.hide(&redactor);
    let findings = verify(&to, &settings).await?;
    let Findings { manifests, whole, rows, differences, unnamed, replaced } = &findings;
    for difference in differences {
        console.print(&difference.to_string())?;
    }
    for file in unnamed {
        console.say(&format!("note: {file} is named by no manifest"));
    }
    if *replaced > 0 {
        let said = counted(*replaced, "file");
        console.say(&format!("note: {said} are no longer of the Delta table: merged into others, or deleted"));
    }
    if console.is_json() {
        console.event(&json!({
            "level": "info", "event": "verified", "manifests": manifests, "whole": whole, "rows": rows,
            "differences": differences.len(), "unnamed": unnamed, "replaced": replaced,
        }));
    } else {
        let (manifests, rows) = (counted(*manifests, "manifest"), counted(*rows, "row"));
        console.say(&format!("{to}: {} in {manifests} as written, {rows}", counted(*whole, "file")));
    }
    match differences.len() {
        0 => Ok(()),
        some => {
            let said = format!(
                "{} not what was written",
                if some == 1 { "1 file is".into() } else { format!("{some} files are") }
            );
            Err(Error::new(ErrorKind::Decode, said).with("path", &to))
        }
    }
}
