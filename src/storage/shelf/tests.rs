//! The shelves of this machine and of memory, held to the suite.

use std::sync::Arc;

use super::suite::{Load, run_on};
use super::*;
use crate::secret::Redactor;
use crate::storage::object_files::ObjectFiles;

const LOAD: Load = Load { racers: 16, rounds: 100, large: 20_000_000 };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r28_a_local_shelf_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::Local(dir.path().join("deep/er"));
    let shelf = Shelf::open(&location, &Settings::default(), Effects::default()).unwrap();
    assert_eq!(shelf.local(), Some(dir.path().join("deep/er").as_path()));
    run_on(&shelf, LOAD).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r28_a_shelf_of_objects_keeps_the_contract() {
    for prefix in ["deep/er", ""] {
        let store = Arc::new(object_store::memory::InMemory::new());
        let objects = crate::storage::Objects { store, prefix: prefix.into(), secrets: vec![] };
        let files = ObjectFiles::new(objects, "memory://".into(), Redactor::default(), Effects::default());
        let shelf = Shelf::Objects(object::Objects(files));
        assert_eq!((shelf.local(), shelf.describe("0").as_str()), (None, "memory:/0"));
        run_on(&shelf, LOAD).await.unwrap();
    }
}

#[test]
fn what_is_being_made_is_known_by_its_name() {
    assert!(is_unborn(&unborn()));
    for name in ["0", ".created", ".0123.created", "0123456789abcdef.created", ".0123456789abcdeg.created"] {
        assert!(!is_unborn(name), "{name}");
    }
}
