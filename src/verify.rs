//! Whether a directory of files is what was written there, by the manifests beside them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use arrow_ipc::reader::FileReader;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use crate::effect::Effects;
use crate::error::{Error, ErrorKind, Result};
use crate::integrity::Crc;
use crate::sink::manifest::{self, Listed, Manifest};
use crate::sink::{self, Finished, StagedFile};
use crate::storage::shelf::Shelf;
use crate::storage::{Location, Settings};

/// What was found in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// Manifests that were read.
    pub manifests: u64,
    /// Files that are what their manifest says.
    pub whole: u64,
    /// The rows in them.
    pub rows: u64,
    /// What is not as it was written.
    pub differences: Vec<Difference>,
    /// Files in sight that no manifest names.
    pub unnamed: Vec<String>,
    /// Files of manifests that a Delta table no longer holds: their rows were merged into other files, or deleted.
    pub replaced: u64,
}

/// A file, or a manifest, that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where it stands.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

/// Reads every file that the manifests of a directory name, and compares.
///
/// # Errors
/// Kind `Store` or `Config` where the directory or a file of it cannot be read at all.
pub async fn verify(to: &Location, settings: &Settings) -> Result<Findings> {
    let shelf = Shelf::open(to, settings, Effects::default())?;
    let names = shelf.list().await?;
    if names.is_empty() && shelf.local().is_none_or(|dir| !dir.is_dir()) {
        return Err(Error::new(ErrorKind::Store, "there is no such directory").with("path", shelf.describe("")));
    }
    let held = sink::held(&shelf).await?;
    let (mut findings, mut listed_names) = (Findings::default(), BTreeSet::new());
    for name in names.iter().filter(|name| manifest::is_one(name)) {
        let manifest = match Manifest::read(&shelf, name).await? {
            None => continue,
            Some(Ok(manifest)) => manifest,
            Some(Err(why)) => {
                let what = format!("the manifest cannot be used: {why}");
                findings.differences.push(Difference { file: shelf.describe(name), what });
                continue;
            }
        };
        findings.manifests += 1;
        for listed in manifest.files {
            if held.as_ref().is_some_and(|held| !held.contains(&listed.name)) {
                findings.replaced += 1;
                listed_names.insert(listed.name);
                continue;
            }
            let difference = check(&shelf, &listed).await?;
            match difference {
                None => {
                    findings.whole += 1;
                    findings.rows += listed.rows;
                }
                Some(what) => {
                    findings.differences.push(Difference { file: shelf.describe(&listed.name), what });
                }
            }
            listed_names.insert(listed.name);
        }
    }
    let is_unnamed = |name: &&String| !name.starts_with(['.', '_']) && !listed_names.contains(*name);
    findings.unnamed = names.iter().filter(is_unnamed).map(|name| shelf.describe(name)).collect();
    Ok(findings)
}

/// Compares what an epoch has staged with what was decided of it, before another process shows it.
///
/// # Errors
/// Kind `Store` for a file that is not what was written: its rows would be lost with a green light.
pub(crate) async fn staged(to: &Location, settings: &Settings, parts: &[Finished]) -> Result<()> {
    let shelf = Shelf::open(to, settings, Effects::default())?;
    let names: BTreeSet<String> = shelf.list().await?.into_iter().collect();
    for part in parts {
        let Some(file) = part.file.as_ref().filter(|file| names.contains(&file.staged)) else { continue };
        let StagedFile { staged, bytes, crc, .. } = file.clone();
        let listed = Listed { name: staged, rows: part.rows, bytes, crc, content: part.content };
        if let Some(what) = check(&shelf, &listed).await? {
            let said = format!("a file that was staged is no longer what was written: {what}");
            return Err(Error::new(ErrorKind::Store, said).with("path", shelf.describe(&listed.name)));
        }
    }
    Ok(())
}

/// What is wrong with a file.
async fn check(shelf: &Shelf, listed: &Listed) -> Result<Option<String>> {
    let Some(file) = shelf.download(&listed.name).await? else { return Ok(Some("missing".to_owned())) };
    let wanted = listed.clone();
    let compared = tokio::task::spawn_blocking(move || compare(file, &wanted)).await;
    let compared = compared.map_err(|e| Error::new(ErrorKind::Bug, "a disk task ended early").caused_by(e))?;
    compared.map_err(|e| {
        let said = format!("the file cannot be read: {e}");
        Error::new(ErrorKind::Store, said).with("path", shelf.describe(&listed.name))
    })
}

/// Size and checksum first: what has them is read as rows too, where its format says more than that.
fn compare(mut file: File, wanted: &Listed) -> io::Result<Option<String>> {
    let bytes = file.metadata()?.len();
    if bytes != wanted.bytes {
        return Ok(Some(format!("changed: it has {bytes} bytes, {} were written", wanted.bytes)));
    }
    let (mut crc, mut piece) = (Crc::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(size) => crc.add(&piece[..size]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    if crc.value() != wanted.crc {
        let said = format!("changed: the checksum of its bytes is {:08x}, not {:08x}", crc.value(), wanted.crc);
        return Ok(Some(said));
    }
    file.rewind()?;
    let is = |ending: &str| wanted.name.ends_with(ending);
    let read = match () {
        () if is(".arrow") => content(file, wanted),
        () if is(".parquet") => footer(file, wanted),
        () => Ok(None),
    };
    Ok(read.unwrap_or_else(|said| Some(format!("its rows cannot be read: {said}"))))
}

/// An Arrow file keeps its batches, so that what was written can be summed again.
fn content(file: File, wanted: &Listed) -> Result<Option<String>, String> {
    let (mut crc, mut rows) = (Crc::new(), 0);
    for batch in FileReader::try_new(file, None).map_err(|e| e.to_string())? {
        let batch = batch.map_err(|e| e.to_string())?;
        rows += batch.num_rows() as u64;
        crc.add_batch(&batch).map_err(|e| e.to_string())?;
    }
    let differs = crc.value() != wanted.content;
    let said = || format!("the checksum of its rows is {:08x}, not {:08x}", crc.value(), wanted.content);
    Ok(counted(rows, wanted).or_else(|| differs.then(said)))
}

/// Parquet forgets where batches ended; it knows its rows.
fn footer(file: File, wanted: &Listed) -> Result<Option<String>, String> {
    let reader = SerializedFileReader::new(file).map_err(|e| e.to_string())?;
    let rows = reader.metadata().file_metadata().num_rows();
    Ok(counted(u64::try_from(rows).unwrap_or_default(), wanted))
}

fn counted(rows: u64, wanted: &Listed) -> Option<String> {
    (rows != wanted.rows).then(|| format!("it has {rows} rows, {} were written", wanted.rows))
}
