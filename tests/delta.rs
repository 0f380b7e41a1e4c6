//! Delta tables: what others commit stays, what they change is noticed, and a table that takes no rows moves nothing (R29).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use restmark::run::BatchRun;
use restmark::sink::{Destination, Format, Output};
use restmark::{ErrorKind, Source};
use serde_json::json;

use crate::crash::in_directory;
use crate::readers::figures;
use crate::support::files::seen;
use crate::support::servers::Cache;
use crate::support::{Api, Place, get};

/// Tables with a checkpoint, each with a ledger of its own, and one without.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
tables {
  a { endpoint = "/a", columns { id { type = int64 }, name { type = string } }, pagination { style = offset, max-page-size = 2 }
      checkpoint { enabled = true, path = "state", mode = offset } }
  b = ${tables.a} { endpoint = "/b" }
  c = ${tables.a} { endpoint = "/c" }
  whole { endpoint = "/a", columns = ${tables.a.columns}, pagination = ${tables.a.pagination} }
  wider = ${tables.whole} { columns { more { type = string } } }
  other = ${tables.whole} { columns { id { type = string } } }
  twins = ${tables.whole} { columns { ID { type = int64, path = "/id" } } }
  spaces = ${tables.whole} { columns { "an id" { type = int64, path = "/id" } } }
}
"#;

fn world() -> (Api, Place) {
    let api = Api::new(vec![]);
    let place = Place::new(&api.base(), CONFIG);
    (api, place)
}

/// So many rows of each endpoint, whose ids begin somewhere else.
fn tell(api: &Api, rows: i64) {
    let routes = [("a", 0), ("b", 1000), ("c", 2000)].into_iter().flat_map(|(name, base)| {
        (0..=rows).map(move |from| {
            let page: Vec<_> = (from..rows.min(from + 2)).map(|id| json!({ "id": base + id, "name": "n" })).collect();
            get(&format!("/{name}?offset={from}&limit=2"), &json!(page))
        })
    });
    api.script(routes.collect());
}

fn ids(dir: &Path) -> Vec<i64> {
    let rows = seen(&in_directory(dir), &in_directory(&dir.join("_delta_log")));
    let mut ids: Vec<i64> = rows.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids
}

/// What another program does to the table, by deltalake; `table` is its path.
fn by_deltalake(cache: &Cache, table: &Path, code: &str) -> String {
    let mut command = Command::new(cache.path("readers/bin/python"));
    command
        .arg("-c")
        .arg(format!("import deltalake, os, pyarrow\ntable = {:?}\n{code}\nos._exit(0)", table.display().to_string()));
    let done = command.output().expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn r29_several_writers_of_one_delta_table_lose_nothing_and_repeat_nothing() {
    let (api, place) = world();
    let out = place.path("out");
    let run = async |table: &str| {
        let source = Source::open(place.path("source.conf")).expect("a source");
        let output = Output { format: Format::Delta, ..Output::directory(&out, Format::Delta) };
        let run = BatchRun::new(table, output);
        run.run(&source, chrono::Utc::now(), &Arc::default(), std::future::pending()).await.map(drop)
    };
    for round in 1..=12 {
        tell(&api, round * 2);
        // Three ledgers, and two runners of one of them.
        let all = tokio::join!(run("a"), run("b"), run("c"), run("a"));
        for error in [all.0.err(), all.1.err(), all.2.err(), all.3.err()].into_iter().flatten() {
            assert_eq!(error.kind(), ErrorKind::Conflict, "round {round}: {error}");
        }
        for table in ["a", "b", "c"] {
            run(table).await.unwrap_or_else(|e| panic!("round {round}, what is left of {table}: {e}"));
        }
        let wanted: Vec<i64> = [0, 1000, 2000].into_iter().flat_map(|base| base..base + round * 2).collect();
        assert_eq!(ids(&out), wanted, "round {round}");
    }
    assert!(matches!(Output::directory(&out, Format::Delta).destination, Destination::Files(_)));
}

#[test]
fn r29_what_others_do_to_a_delta_table_stays() {
    let Some(cache) = Cache::with(&["readers"]) else { return };
    let (api, place) = world();
    let out = place.path("out");
    let to = out.display().to_string();
    let read = |table: &str| place.read(table).args(["--to", &to, "--format", "delta"]).output();
    tell(&api, 4);
    read("a").expect(0);
    by_deltalake(
        &cache,
        &out,
        "deltalake.write_deltalake(table, pyarrow.table({'id': [70], 'name': ['x']}), mode='append')",
    );
    tell(&api, 6);
    read("a").expect(0);
    let figures = |rows: i64, sum: i64| {
        assert_eq!(figures(&cache, "arrow", &["delta".to_owned(), to.clone()]), [json!([rows, sum, rows])]);
    };
    figures(7, 15 + 70);
    // Merged into one file and cleaned up: what we wrote is no longer there as we wrote it.
    let code = "t = deltalake.DeltaTable(table)\nt.optimize.compact()\n\
                t.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)";
    by_deltalake(&cache, &out, code);
    place.run(&["verify", &to]).output().expect(0).says("2 files are no longer of the Delta table");
    // An epoch that was decided, shown and merged is not shown again.
    std::fs::remove_file(place.path("state/a.ledger/done/1")).unwrap();
    tell(&api, 7);
    read("a").expect(0).says("epoch 1, which an earlier run had committed, is finished now");
    figures(8, 21 + 70);
    place.run(&["verify", &to]).output().expect(0).says("1 file in 3 manifests as written, 1 row");
    // Rows that others deleted stay deleted.
    by_deltalake(&cache, &out, "deltalake.DeltaTable(table).delete('id < 3')");
    read("a").expect(0);
    figures(5, 18 + 70);
}

#[test]
fn r29_a_delta_table_that_takes_no_such_rows_moves_nothing() {
    let Some(cache) = Cache::with(&["readers"]) else { return };
    let (api, place) = world();
    tell(&api, 4);
    let made = |name: &str, code: &str| {
        let table = place.path(name);
        by_deltalake(&cache, &table, code);
        table.display().to_string()
    };
    let columns = "pyarrow.table({'id': pyarrow.array([1], type=TYPE), 'name': ['x']})";
    let write =
        |of: &str, rest: &str| format!("deltalake.write_deltalake(table, {}{rest})", columns.replace("TYPE", of));
    let int64 = "pyarrow.int64()";
    let cases = [
        (made("narrow", &write("pyarrow.int32()", "")), "column id is integer in the Delta table, long here"),
        (made("parted", &write(int64, ", partition_by=['name']")), "partitioned by columns"),
        (made("lacking", "deltalake.write_deltalake(table, pyarrow.table({'id': [1]}))"), "has no column name"),
        (
            made(
                "strict",
                "s = pyarrow.schema([pyarrow.field('id', pyarrow.int64()), pyarrow.field('name', pyarrow.string()), \
                 pyarrow.field('must', pyarrow.int64(), nullable=False)])\n\
                 deltalake.write_deltalake(table, pyarrow.table([[1], ['x'], [2]], schema=s))",
            ),
            "column must of the Delta table is NOT NULL",
        ),
    ];
    for (to, why) in &cases {
        let refused = place.read("a").args(["--to", to, "--format", "delta"]).output();
        assert_ne!(refused.code, Some(0), "{to}");
        refused.says(why);
        assert!(!place.path("state/a.checkpoint.json").exists(), "{to}: the position moved");
        assert!(!place.path("state/a.ledger/commits/0").exists(), "{to}: an epoch was decided that nobody can show");
    }
    for (table, why) in [("twins", "differ in case alone"), ("spaces", "cannot be one of a Delta table")] {
        place.read(table).args(["--to", "fresh", "--format", "delta"]).output().says(why);
    }
}

#[test]
fn r29_a_ledger_that_begins_again_is_not_taken_for_the_one_before() {
    let (api, place) = world();
    tell(&api, 4);
    let read = || place.read("a").args(["--to", "out", "--format", "delta"]).output();
    read().expect(0);
    std::fs::remove_dir_all(place.path("state")).unwrap();
    tell(&api, 6);
    read().expect(5).says("has epoch 0 of this ledger");
    assert_eq!(ids(&place.path("out")), [0, 1, 2, 3]);
    assert!(!place.path("state/a.checkpoint.json").exists(), "the position moved past rows that nobody sees");
}

#[test]
fn r29_a_delta_table_is_not_mixed_with_plain_files() {
    let (api, place) = world();
    tell(&api, 4);
    let read =
        |table: &str, to: &str, args: &[&str]| place.read(table).args(["--to", to]).args(args.iter().copied()).output();
    read("whole", "table", &["--format", "delta"]).expect(0);
    for args in [&[][..], &["--format", "ndjson", "--mode", "append"]] {
        read("whole", "table", args).expect(2).says("say --format delta");
    }
    read("a", "table", &[]).expect(2).says("say --format delta");
    read("whole", "table", &["--format", "delta"]).expect(2).says("is a Delta table already");
    read("whole", "table", &["--format", "delta", "--mode", "append"]).expect(0);
    assert_eq!(ids(&place.path("table")), [0, 0, 1, 1, 2, 2, 3, 3]);
    read("whole", "table", &["--format", "delta", "--mode", "overwrite"]).expect(0);
    assert_eq!(ids(&place.path("table")), [0, 1, 2, 3]);
    for (table, why) in
        [("wider", "has no column more"), ("other", "column id is long in the Delta table, string here")]
    {
        let refused = read(table, "table", &["--format", "delta", "--mode", "append"]);
        refused.expect(2).says(why);
    }
    assert_eq!(ids(&place.path("table")), [0, 1, 2, 3]);
    // Nor is a table made over files that are there already.
    read("whole", "files", &[]).expect(0);
    std::fs::write(place.path("files/theirs.parquet"), "x").unwrap();
    read("whole", "files", &["--format", "delta"]).expect(2).says("holds files and is no Delta table");
    // Rows that a position has moved past are not overwritten.
    read("a", "kept", &["--format", "delta"]).expect(0);
    read("whole", "kept", &["--format", "delta", "--mode", "overwrite"])
        .expect(2)
        .says("whose position has moved past");
}

#[test]
fn r29_a_long_log_gets_checkpoints_and_is_read_by_them() {
    let Some(cache) = Cache::with(&["readers"]) else { return };
    let (api, place) = world();
    let out = place.path("out");
    let to = out.display().to_string();
    let read = || place.read("a").args(["--to", &to, "--format", "delta"]).output().expect(0);
    tell(&api, 2);
    read();
    // A table of which a checkpoint is wanted often.
    by_deltalake(
        &cache,
        &out,
        "deltalake.DeltaTable(table).alter.set_table_properties({'delta.checkpointInterval': '4'})",
    );
    for rows in 3..=11 {
        tell(&api, rows);
        read();
    }
    let log = in_directory(&out.join("_delta_log"));
    let checkpoints: Vec<_> = log.keys().filter(|name| name.ends_with(".checkpoint.parquet")).collect();
    assert_eq!(checkpoints.len(), 2, "{checkpoints:?}");
    assert!(log.contains_key("_last_checkpoint"));
    // What the checkpoint covers is no longer looked at.
    for version in 0..8 {
        std::fs::remove_file(out.join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    tell(&api, 12);
    read();
    for reader in ["arrow", "duckdb"] {
        assert_eq!(figures(&cache, reader, &["delta".to_owned(), to.clone()]), [json!([12, 66, 12])], "{reader}");
    }
    place.run(&["verify", &to]).output().expect(0).says("12 rows");
}
