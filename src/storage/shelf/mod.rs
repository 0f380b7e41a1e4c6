//! stub
use std::path::{Path, PathBuf};
use std::sync::Arc;
use bytes::Bytes;
use crate::effect::Effects;
use crate::disk;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Location, Settings};
#[derive(Debug, Clone)]
pub(crate) struct Shelf { dir: PathBuf, effects: Effects }
fn io(e: std::io::Error) -> Error { Error::new(ErrorKind::Store, e.to_string()) }
impl Shelf {
    pub(crate) fn open(location: &Location, _settings: &Settings, effects: Effects) -> Result<Self> {
        match location { Location::Local(dir) => Ok(Self { dir: dir.clone(), effects }), _ => Err(Error::new(ErrorKind::Config, "stub")) }
    }
    pub(crate) fn below(&self, dir: &str) -> Self { Self { dir: self.dir.join(dir), effects: self.effects.clone() } }
    pub(crate) fn describe(&self, name: &str) -> String { self.dir.join(name).display().to_string() }
    pub(crate) fn effects(&self) -> &Effects { &self.effects }
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> Result<bool> {
        disk::make_dir(&self.dir, &self.effects).map_err(io)?;
        let temp = self.dir.join(format!(".restmark-{:x}.tmp", fastrand::u64(..)));
        std::fs::write(&temp, &bytes).map_err(io)?;
        let linked = std::fs::hard_link(&temp, self.dir.join(name));
        let _ = std::fs::remove_file(&temp);
        match linked { Ok(()) => Ok(true), Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(std::fs::read(self.dir.join(name)).map_err(io)? == bytes), Err(e) => Err(io(e)) }
    }
    pub(crate) async fn read(&self, name: &str, _max: u64) -> Result<Option<Bytes>> {
        match std::fs::read(self.dir.join(name)) { Ok(b) => Ok(Some(b.into())), Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None), Err(e) => Err(io(e)) }
    }
    pub(crate) async fn list(&self) -> Result<Vec<String>> {
        let dir = match std::fs::read_dir(&self.dir) { Ok(d) => d, Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]), Err(e) => return Err(io(e)) };
        let mut names = vec![];
        for e in dir { let e = e.map_err(io)?; if e.path().is_file() { names.push(e.file_name().to_string_lossy().into_owned()); } }
        Ok(names)
    }
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        match std::fs::remove_file(self.dir.join(name)) { Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io(e)), _ => Ok(()) }
    }
    pub(crate) async fn upload(&self, _from: std::fs::File, _name: &str) -> Result<()> { Err(Error::new(ErrorKind::Bug, "stub")) }
    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        match std::fs::rename(self.dir.join(from), self.dir.join(to)) { Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.dir.join(to).exists() => Ok(()), o => o.map_err(io) }
    }
    pub(crate) async fn sync(&self) -> Result<()> { disk::sync_dir(&self.dir, &self.effects).map_err(io) }
    pub(crate) fn local(&self) -> Option<&Path> { Some(&self.dir) }
}
#[allow(dead_code)] fn unused(_: Arc<()>) {}
