//! What every shelf has to keep, as one suite; behind feature `testing`, so that it is run against real stores.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::Shelf;
use crate::effect::{Effect, Effects, Stop};
use crate::error;
use crate::storage::{Location, Settings};

/// How much a store is asked to bear.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Creators of one name at the same time.
    pub racers: usize,
    /// Races.
    pub rounds: usize,
    /// The size of the largest file, in bytes.
    pub large: usize,
}

/// Every check, one after the other, in a directory that is empty at first and used by nobody else.
///
/// # Errors
/// What the shelf does not keep, and where.
pub async fn run(location: &Location, settings: &Settings, load: Load) -> Result<(), String> {
    let shelf = Shelf::open(location, settings, Effects::default()).map_err(|e| e.to_string())?;
    Box::pin(run_on(&shelf, load)).await
}

/// Makes one file.
///
/// # Errors
/// Those of the shelf.
pub async fn create(location: &Location, settings: &Settings, name: &str, bytes: Vec<u8>) -> error::Result<bool> {
    Box::pin(Shelf::open(location, settings, Effects::default())?.create(name, bytes.into())).await
}

/// Uploads one file.
///
/// # Errors
/// Those of the shelf.
pub async fn upload(location: &Location, settings: &Settings, from: File, name: &str) -> error::Result<()> {
    Box::pin(Shelf::open(location, settings, Effects::default())?.upload(from, name)).await
}

/// [`run`], on a shelf that is open.
pub(super) async fn run_on(shelf: &Shelf, load: Load) -> Result<(), String> {
    let part = |name: &str| shelf.below(name);
    Box::pin(tells_what_is_missing(&part("missing"))).await.map_err(|e| format!("missing: {e}"))?;
    Box::pin(makes_a_file_once(&part("once"))).await.map_err(|e| format!("create: {e}"))?;
    Box::pin(knows_its_own_again(&part("lost"))).await.map_err(|e| format!("lost answer: {e}"))?;
    Box::pin(survives_a_stop(&part("stop"))).await.map_err(|e| format!("crash: {e}"))?;
    Box::pin(renames_again(&part("rename"))).await.map_err(|e| format!("rename: {e}"))?;
    Box::pin(uploads(&part("upload"), load.large)).await.map_err(|e| format!("upload: {e}"))?;
    Box::pin(race(&part("race"), load)).await.map_err(|e| format!("race: {e}"))?;
    let left = listed(shelf).await?;
    expect("what stands above all that", &left, &vec![])
}

/// The same shelf with effects that are stopped.
fn watched(shelf: &Shelf, watch: impl Fn(Effect) -> Option<Stop> + Send + Sync + 'static) -> Shelf {
    shelf.watched(&Effects::watched(watch))
}

/// Nothing is nothing, and an error only where something must be there.
async fn tells_what_is_missing(shelf: &Shelf) -> Result<(), String> {
    expect("the names in a directory that is not there", &listed(shelf).await?, &vec![])?;
    expect("a file that is not there", &read(shelf, "none").await?, &None)?;
    told(shelf.remove("none").await)?;
    let said = shelf.rename("none", "nothing").await.err().map(|e| e.to_string()).unwrap_or_default();
    expect("an error that names the file", &said.contains(&shelf.describe("none")), &true)?;
    told(shelf.create("one", "1".into()).await)?;
    if let Some(dir) = shelf.local() {
        expect("the file itself", &std::fs::read(dir.join("one")).ok(), &Some(b"1".to_vec()))?;
    }
    expect("another file", &read(shelf, "none").await?, &None)
}

/// The first one makes it; what stands there stays; names are what they were.
async fn makes_a_file_once(shelf: &Shelf) -> Result<(), String> {
    let odd = "a b%20é";
    for name in ["0", ".hidden", odd, "empty"] {
        let bytes = if name == "empty" { Bytes::new() } else { Bytes::from(format!("first {name}")) };
        let create = |bytes: &Bytes| shelf.create(name, bytes.clone());
        expect("the first", &told(create(&bytes).await)?, &true)?;
        expect("the first again", &told(create(&bytes).await)?, &true)?;
        expect("a longer one", &told(create(&Bytes::from(format!("first {name} and more"))).await)?, &false)?;
        expect("what stands there", &read(shelf, name).await?, &Some(bytes.clone()))?;
        expect("with no byte to spare", &told(shelf.read(name, bytes.len() as u64).await)?, &Some(bytes))?;
    }
    let said = shelf.read("0", 6).await.err().map(|e| e.to_string()).unwrap_or_default();
    expect("a file that is too large is named", &said.contains(&shelf.describe("0")), &true)?;
    told(shelf.below("deeper").create("below", "x".into()).await)?;
    expect("the names", &listed(shelf).await?, &[".hidden", "0", odd, "empty"].map(str::to_owned).to_vec())?;
    told(shelf.remove("0").await)?;
    told(shelf.remove("0").await)?;
    expect("a file that was removed", &read(shelf, "0").await?, &None)?;
    expect("one that comes after it", &told(shelf.create("0", "second".into()).await)?, &true)
}

/// The file was made and the answer lost.
async fn knows_its_own_again(shelf: &Shelf) -> Result<(), String> {
    let lossy =
        watched(shelf, |effect| matches!(effect, Effect::Put | Effect::Link | Effect::Rename).then_some(Stop::After));
    expect("at once", &told(lossy.create("0", "mine".into()).await)?, &true)?;
    expect("when it is tried again", &told(shelf.create("0", "mine".into()).await)?, &true)?;
    expect("somebody else's", &told(lossy.create("0", "yours".into()).await)?, &false)?;
    expect("what stands there", &read(shelf, "0").await?, &Some("mine".into()))?;
    let failing =
        watched(shelf, |effect| matches!(effect, Effect::Put | Effect::Link | Effect::Rename).then_some(Stop::Before));
    expect("what was not made is no success", &failing.create("1", "mine".into()).await.is_err(), &true)?;
    expect("nor is it there", &read(shelf, "1").await?, &None)
}

/// A creator that ends at any effect leaves nothing in sight or the whole file, and keeps nobody from making it.
async fn survives_a_stop(shelf: &Shelf) -> Result<(), String> {
    let bytes = Bytes::from_static(b"an entry that must be whole");
    for stop in [Stop::Before, Stop::Torn, Stop::After] {
        for k in 0.. {
            let shelf = shelf.below(&format!("{stop:?}-{k}"));
            let seen = Arc::new(AtomicUsize::new(0));
            let ending = ends_at(&shelf, k, stop, &seen);
            let made = ending.create("0", bytes.clone()).await;
            let stands = read(&shelf, "0").await?;
            if made.is_ok_and(|made| made) || stands.is_some() {
                expect(&format!("what stands after {stop:?} {k}"), &stands.as_ref(), &Some(&bytes))?;
            }
            let names = if stands.is_some() { vec!["0".to_owned()] } else { vec![] };
            expect(&format!("the names after {stop:?} {k}"), &listed(&shelf).await?, &names)?;
            expect("the next", &told(shelf.create("0", bytes.clone()).await)?, &true)?;
            expect("the names then", &listed(&shelf).await?, &vec!["0".to_owned()])?;
            if seen.load(Ordering::SeqCst) <= k {
                break;
            }
        }
    }
    Ok(())
}

/// A renaming that ends at any effect is finished by the next.
async fn renames_again(shelf: &Shelf) -> Result<(), String> {
    for stop in [Stop::Before, Stop::After] {
        for k in 0.. {
            let shelf = shelf.below(&format!("{stop:?}-{k}"));
            told(shelf.create(".staged", "rows".into()).await)?;
            let seen = Arc::new(AtomicUsize::new(0));
            let _ = ends_at(&shelf, k, stop, &seen).rename(".staged", "rows").await;
            told(shelf.rename(".staged", "rows").await)?;
            told(shelf.rename(".staged", "rows").await)?;
            told(shelf.sync().await)?;
            expect("the names", &listed(&shelf).await?, &vec!["rows".to_owned()])?;
            expect("the file", &read(&shelf, "rows").await?, &Some("rows".into()))?;
            if seen.load(Ordering::SeqCst) <= k {
                break;
            }
        }
    }
    told(shelf.create("old", "old".into()).await)?;
    told(shelf.create("new", "new".into()).await)?;
    told(shelf.rename("new", "old").await)?;
    expect("what was renamed over", &read(shelf, "old").await?, &Some("new".into()))
}

/// What a download holds.
async fn download(shelf: &Shelf, name: &str) -> Result<Option<Vec<u8>>, String> {
    let Some(mut file) = told(shelf.download(name).await)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    Ok(Some(bytes))
}

/// An upload is what the file holds, whatever its size and wherever the file was read before; it goes on after any stop.
async fn uploads(shelf: &Shelf, large: usize) -> Result<(), String> {
    let bytes: Bytes = (0..=250).cycle().take(large).collect();
    let file = file_of(&bytes)?;
    let handle = || file.try_clone().map_err(|e| e.to_string());
    told(shelf.upload(handle()?, "large").await)?;
    expect("the large file", &(read(shelf, "large").await? == Some(bytes.clone())), &true)?;
    expect("what comes down again", &(download(shelf, "large").await? == Some(bytes.to_vec())), &true)?;
    expect("nothing", &download(shelf, "none").await?, &None)?;
    for small in ["", "a few rows"] {
        told(shelf.upload(file_of(small.as_bytes())?, "small").await)?;
        expect("the small file", &read(shelf, "small").await?, &Some(small.into()))?;
        expect("what comes down of it", &download(shelf, "small").await?, &Some(small.into()))?;
    }
    let bytes = bytes.slice(..large / 2);
    let file = file_of(&bytes)?;
    let handle = || file.try_clone().map_err(|e| e.to_string());
    for k in 0..4 {
        let seen = Arc::new(AtomicUsize::new(0));
        let _ = ends_at(shelf, k, Stop::Torn, &seen).upload(handle()?, "again").await;
        told(shelf.upload(handle()?, "again").await)?;
        expect("what was uploaded again", &(read(shelf, "again").await? == Some(bytes.clone())), &true)?;
    }
    let pieces = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pieces);
    let counting = watched(shelf, move |effect| {
        count.fetch_add(usize::from(effect == Effect::Write), Ordering::SeqCst);
        None
    });
    told(counting.upload(handle()?, "again").await)?;
    expect("it goes in pieces", &(pieces.load(Ordering::SeqCst) >= bytes.len().div_ceil(8 << 20)), &true)?;
    expect("the names", &listed(shelf).await?, &["again", "large", "small"].map(str::to_owned).to_vec())
}

/// Many make one file at once: one does, and its bytes stand.
async fn race(shelf: &Shelf, load: Load) -> Result<(), String> {
    for round in 0..load.rounds {
        let name = round.to_string();
        let racers = (0..load.racers).map(|racer| {
            let (shelf, name, own) = (watched(shelf, |_| None), name.clone(), Bytes::from(format!("racer {racer}")));
            tokio::spawn(async move { (shelf.create(&name, own.clone()).await.map_err(|e| e.to_string()), own) })
        });
        let mut winners = vec![];
        for racer in futures::future::join_all(racers).await {
            let (made, own) = racer.map_err(|e| e.to_string())?;
            if made? {
                winners.push(own);
            }
        }
        let [winner] = winners.as_slice() else {
            return Err(format!("round {round} had {} winners: {winners:?}", winners.len()));
        };
        expect("what stands there", &read(shelf, &name).await?.as_ref(), &Some(winner))?;
    }
    expect("how many files there are", &listed(shelf).await?.len(), &load.rounds)
}

/// The same shelf for a process that ends at its k-th effect and does nothing more.
fn ends_at(shelf: &Shelf, k: usize, stop: Stop, seen: &Arc<AtomicUsize>) -> Shelf {
    let seen = Arc::clone(seen);
    watched(shelf, move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        n if n < k => None,
        n if n == k => Some(stop),
        _ => Some(Stop::Before),
    })
}

/// A local file, read to its end.
fn file_of(bytes: &[u8]) -> Result<File, String> {
    let path = std::env::temp_dir().join(format!("restmark-suite-{:016x}", fastrand::u64(..)));
    let made = (|| {
        let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        file.write_all(bytes)?;
        file.seek(std::io::SeekFrom::End(0))?;
        Ok(file)
    })();
    made.map_err(|e: std::io::Error| e.to_string())
}

async fn read(shelf: &Shelf, name: &str) -> Result<Option<Bytes>, String> {
    told(shelf.read(name, 1 << 30).await)
}

async fn listed(shelf: &Shelf) -> Result<Vec<String>, String> {
    told(shelf.list().await)
}

fn told<T>(done: error::Result<T>) -> Result<T, String> {
    done.map_err(|e| e.to_string())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what} was {found:?}, not {wanted:?}")) }
}
