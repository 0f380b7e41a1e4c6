//! The rule: what seals, what is refused, who wins. And the local store under crashes and races.

use std::sync::Barrier;

use super::local::LocalStore;
use super::*;
use crate::effect::Effects;
use crate::plan::Partition;
use crate::secret::Redactor;
use crate::storage::object_files::ObjectFiles;

fn plan(id: &str, base: Base, position: Option<Position>) -> Plan {
    Plan::of_test(id, base, position, None)
}

fn sealed(id: &str, base: Base, reached: Position) -> Commit {
    plan(id, base, None).seal(vec![Receipt::forged(id, "all", Some(reached))]).unwrap()
}

fn cursor(text: &str) -> Position {
    Position::Cursor(text.to_owned())
}

#[test]
fn r01_a_plan_is_sealed_by_exactly_one_receipt_a_partition() {
    let plan = plan("p", Base::Missing, None);
    let receipt = |plan: &str, partition: &str| Receipt::forged(plan, partition, Some(cursor("a")));
    assert!(plan.seal(vec![]).is_err());
    assert!(plan.seal(vec![receipt("p", "all"), receipt("p", "all")]).is_err());
    assert!(plan.seal(vec![receipt("other", "all")]).is_err());
    assert!(plan.seal(vec![receipt("p", "all"), receipt("other", "all")]).is_err());
    assert_eq!(plan.seal(vec![receipt("p", "all")]).unwrap().position(), Some(&cursor("a")));
}

#[test]
fn r01_a_limited_plan_cannot_be_sealed() {
    let plan = Plan { limited: true, ..plan("p", Base::Missing, None) };
    let error = plan.seal(vec![Receipt::forged("p", "all", None)]).unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}

#[test]
fn r04_nothing_reached_leaves_what_is_stored() {
    let fresh = plan("p", Base::Missing, None).seal(vec![Receipt::forged("p", "all", None)]).unwrap();
    assert_eq!((fresh.position(), fresh.judge(None, Instant::default())), (None, Verdict::Done));
    let resumed = plan("p", Base::Missing, Some(Position::Token("t".into())));
    let commit = resumed.seal(vec![Receipt::forged("p", "all", None)]).unwrap();
    assert_eq!(commit.position(), Some(&Position::Token("t".into())));
}

#[test]
fn r05_an_offset_never_goes_back() {
    let plan = plan("p", Base::Missing, Some(Position::Offset(9)));
    let commit = plan.seal(vec![Receipt::forged("p", "all", Some(Position::Offset(3)))]).unwrap();
    assert_eq!(commit.position(), Some(&Position::Offset(9)));
}

#[test]
fn r08_what_stands_there_decides_who_wins() {
    let now = Instant::default();
    let commit = sealed("p", Base::of(Some(b"old")), cursor("a"));
    let Verdict::Replace(bytes) = commit.judge(Some(b"old"), now) else { panic!("refused") };
    assert_eq!(commit.judge(Some(&bytes), now), Verdict::Done, "a lost acknowledgement is no conflict");
    assert_eq!(commit.judge(Some(b"new"), now), Verdict::Conflict);
    assert_eq!(commit.judge(None, now), Verdict::Conflict, "cleared meanwhile");
    assert_eq!(sealed("q", Base::Missing, cursor("b")).judge(Some(&bytes), now), Verdict::Conflict);
}

#[test]
fn plans_and_partitions_survive_the_journey() {
    let plan = plan("p", Base::Bytes("00".into()), Some(Position::Timestamp("2026-01-01T00:00:00Z".into())));
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    let partition = serde_json::to_string(&plan.partitions()[0]).unwrap();
    assert_eq!(serde_json::from_str::<Partition>(&partition).unwrap(), plan.partitions()[0]);
}

#[tokio::test]
async fn r07_the_first_commit_makes_the_directory_and_the_next_replaces_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path().join("deep/er"));
    assert_eq!(store.load("items").await.unwrap(), None);
    let now = Instant::default();
    store.commit(&sealed("p", Base::Missing, cursor("a")), now).await.unwrap();
    let bytes = store.load("items").await.unwrap().unwrap();
    assert_eq!(Checkpoint::parse(&bytes).unwrap().position, cursor("a"));
    store.commit(&sealed("q", Base::of(Some(&bytes)), cursor("b")), now).await.unwrap();
    assert_eq!(
        store.commit(&sealed("r", Base::of(Some(&bytes)), cursor("c")), now).await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let bytes = store.load("items").await.unwrap().unwrap();
    let checkpoint = Checkpoint::parse(&bytes).unwrap();
    assert_eq!((checkpoint.position, checkpoint.generation), (cursor("b"), 5));
    assert!(store.clear("items").await.unwrap() && !store.clear("items").await.unwrap());
}

#[tokio::test]
async fn r07_what_a_crashed_writer_left_is_swept_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".items.checkpoint.json.tmp"), "{\"type\":\"cur").unwrap();
    std::fs::write(dir.path().join(".other.checkpoint.json.tmp"), "another table's").unwrap();
    let store = LocalStore::new(dir.path());
    assert_eq!(store.load("items").await.unwrap(), None);
    store.commit(&sealed("p", Base::Missing, cursor("a")), Instant::default()).await.unwrap();
    assert!(!dir.path().join(".items.checkpoint.json.tmp").exists());
    assert!(dir.path().join(".other.checkpoint.json.tmp").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn r06_only_a_missing_file_is_a_first_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path());
    std::fs::create_dir(dir.path().join("folder.checkpoint.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("link.checkpoint.json")).unwrap();
    for table in ["folder", "link"] {
        assert_eq!(store.load(table).await.unwrap_err().kind(), ErrorKind::Store, "{table}");
    }
    std::fs::create_dir(dir.path().join(".items.checkpoint.lock")).unwrap();
    let error = store.commit(&sealed("p", Base::Missing, cursor("a")), Instant::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store, "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn r07_behind_a_link_the_file_it_leads_to_is_replaced() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = elsewhere.path().join("real.json");
    std::fs::write(&target, br#"{"type":"cursor","value":"a"}"#).unwrap();
    std::os::unix::fs::symlink(&target, dir.path().join("items.checkpoint.json")).unwrap();
    let store = LocalStore::new(dir.path());
    let base = Base::of(store.load("items").await.unwrap().as_deref());
    store.commit(&sealed("p", base, cursor("b")), Instant::default()).await.unwrap();
    assert_eq!(Checkpoint::parse(&std::fs::read(&target).unwrap()).unwrap().position, cursor("b"));
}

#[tokio::test]
async fn r08_a_held_lock_is_a_conflict_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let held = std::fs::File::create(dir.path().join(".items.checkpoint.lock")).unwrap();
    held.lock().unwrap();
    let store = LocalStore::new(dir.path());
    let commit = sealed("p", Base::Missing, cursor("a"));
    assert_eq!(store.commit(&commit, Instant::default()).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(held);
    store.commit(&commit, Instant::default()).await.unwrap();
}

#[test]
fn r08_of_sixteen_racing_committers_exactly_one_wins() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for round in 0..100 {
        let store = LocalStore::new(dir.path());
        let base = Base::of(runtime.block_on(store.load("items")).unwrap().as_deref());
        let start = Barrier::new(16);
        let wins = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..16)
                .map(|racer| {
                    let (store, base, start) = (store.clone(), base.clone(), &start);
                    scope.spawn(move || {
                        let commit = sealed(&format!("{round}-{racer}"), base, cursor(&format!("{round}-{racer}")));
                        start.wait();
                        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                        match runtime.block_on(store.commit(&commit, Instant::default())) {
                            Ok(()) => true,
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                                false
                            }
                        }
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(wins, 1, "round {round}");
    }
}

/// A directory, held to the suite.
struct Directory(tempfile::TempDir);

impl suite::Subject for Directory {
    fn open(&self, effects: Effects) -> Arc<dyn CheckpointStore> {
        Arc::new(LocalStore::watched(self.0.path().join("ckpt"), effects))
    }

    fn put<'a>(&'a self, table: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        std::fs::create_dir_all(self.0.path().join("ckpt")).unwrap();
        std::fs::write(self.0.path().join("ckpt").join(file_name(table)), bytes).unwrap();
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r07_the_local_store_keeps_the_contract() {
    let directory = Directory(tempfile::tempdir().unwrap());
    suite::run(&directory, suite::Race { racers: 16, rounds: 100 }).await.unwrap();
}

/// Objects in memory, with the conditions of a real store.
struct Memory(Arc<dyn object_store::ObjectStore>);

impl suite::Subject for Memory {
    fn open(&self, effects: Effects) -> Arc<dyn CheckpointStore> {
        let (store, prefix) = (Arc::clone(&self.0), "ckpt".into());
        let objects = storage::Objects { store, prefix, secrets: vec![] };
        let files = ObjectFiles::new(objects, "memory://ckpt".into(), Redactor::default(), effects);
        Arc::new(object::ObjectCheckpoints::new(files))
    }

    fn put<'a>(&'a self, table: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        let path = object_store::path::Path::from("ckpt").join(file_name(table));
        let put =
            async move { self.0.put_opts(&path, bytes.to_vec().into(), object_store::PutOptions::default()).await };
        Box::pin(async { put.await.map(drop).map_err(|e| e.to_string()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r08_objects_keep_the_contract() {
    let memory = Memory(Arc::new(object_store::memory::InMemory::new()));
    suite::run(&memory, suite::Race { racers: 16, rounds: 100 }).await.unwrap();
}

#[test]
fn r08_a_race_is_lost_only_where_the_plans_of_the_file_reach_back_to_the_base() {
    use crate::position::PLANS_KEPT;

    let file = |plans: &[String]| {
        let mut stands = Checkpoint::at(cursor("z"));
        stands.committed_by(&plans[0], &plans[1..]);
        stands.render()
    };
    let others = |n: usize| (0..n).map(|i| format!("other{i}")).collect::<Vec<_>>();
    let base = file(&["base".to_owned()]);
    let mut commit = sealed("mine", Base::of(Some(&base)), cursor("a"));
    if let Some(next) = &mut commit.next {
        next.committed_by("mine", &["base".to_owned()]);
    }
    let judged = |plans: &[String]| commit.judge(Some(&file(plans)), Instant::default());
    let with = |n: usize, last: &str| [others(n), vec![last.to_owned()]].concat();
    assert_eq!(judged(&with(1, "base")), Verdict::Conflict);
    assert_eq!(judged(&with(PLANS_KEPT, "base")), Verdict::Conflict, "the base is the oldest that is kept");
    assert_eq!(judged(&with(PLANS_KEPT, "mine")), Verdict::Done);
    assert_eq!(judged(&others(PLANS_KEPT + 1)), Verdict::Unknown, "it may stand before all of them");
    assert_eq!(commit.judge(None, Instant::default()), Verdict::Conflict, "cleared: whoever comes reads everything");
}

#[tokio::test]
async fn r06_clearing_what_cannot_be_looked_at_is_an_error_and_a_link_to_nothing_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::new(dir.path());
    std::os::unix::fs::symlink("nowhere", dir.path().join("items.checkpoint.json")).unwrap();
    assert!(store.load("items").await.is_err());
    assert!(store.clear("items").await.unwrap());
    assert_eq!(store.load("items").await.unwrap(), None);
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(LocalStore::new(dir.path().join("file/below")).clear("items").await.is_err());
}

#[tokio::test]
async fn r07_an_object_is_named_as_the_table_is() {
    let memory = Memory(Arc::new(object_store::memory::InMemory::new()));
    let store = suite::Subject::open(&memory, Effects::default());
    for table in ["événements", "a%b", "a[b]~*\"|"] {
        store.commit(&commit_of(table), Instant::default()).await.unwrap();
    }
    let listed: Vec<_> = futures::StreamExt::collect(memory.0.list(None)).await;
    let names: std::collections::BTreeSet<String> =
        listed.into_iter().map(|meta| meta.unwrap().location.to_string()).collect();
    for table in ["événements", "a%b", "a[b]~*\"|"] {
        assert!(names.contains(&format!("ckpt/{table}.checkpoint.json")), "{names:?}");
    }
}

fn commit_of(table: &str) -> Commit {
    let commit = sealed("p", Base::Missing, cursor("a"));
    Commit { table: table.to_owned(), ..commit }
}
