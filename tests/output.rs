//! What comes out: every format through the binary, messages for machines, previews, schemas that can be pasted, and
//! outputs that are not there.

use std::fs::File;
use std::process::{Command, Stdio};

use arrow_array::RecordBatch;
use serde_json::{Value, json};

use crate::support::{Api, Mark, Place, Reply, Route, Trap, get};

/// A row of every type, and one that is all NULL.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
types = {
  endpoint = "/all", data-path = "/items", columns {
    id { type = int64 }, small { type = int32 }, ratio { type = float64 }, price { type = "decimal(10,2)" }
    yes { type = boolean }, name { type = string }, day { type = date }, at { type = timestamp }, more { type = json }
  }
}
tables {
  all { ENDPOINT }
  kept { ENDPOINT, checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = timestamp, timestamp-path = "/at"
                                timestamp-param = since } }
  found { endpoint = "/found", data-path = "/items" }
}
"#;

fn config() -> String {
    let (head, rest) = CONFIG.split_once("types = {").expect("the shared block");
    let (block, tables) = rest.split_once("\n}\n").expect("its end");
    format!("{head}{}", tables.replace("ENDPOINT", block))
}

fn api() -> Api {
    Api::new(vec![
        get("/all", &all()),
        get("/found", &json!({ "items": [{ "id": 1, "include": true, "a": { "b": [1] }, "odd name": "x" }] })),
    ])
}

fn all() -> Value {
    json!({ "items": [
        { "id": 9_007_199_254_740_993_i64, "small": 7, "ratio": 1.5, "price": "12.30", "yes": true, "name": "a,\"b\"\nc",
          "day": "2026-01-31", "at": "2026-01-31T10:00:00.25Z", "more": { "k": [1, 2] } },
        { "id": 2 },
    ] })
}

fn place(api: &Api) -> Place {
    Place::new(&api.base(), &config())
}

/// The one visible file of a directory.
fn file(place: &Place, folder: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(place.path(folder)).expect("a directory");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| !path.file_name().expect("a name").to_string_lossy().starts_with(['.', '_']));
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

fn assert_holds_all(batches: &[RecordBatch]) {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!((rows, batches[0].num_columns()), (2, 9));
    let text = format!("{:?}", batches[0]);
    assert!(text.contains("9007199254740993") && text.contains("2026-01-31"), "{text}");
}

#[test]
fn r24_every_format_holds_every_type() {
    let api = api();
    let place = place(&api);
    for format in ["parquet", "arrow", "ndjson", "csv"] {
        let to = format!("{{{{DIR}}}}/{format}");
        let to = place.fill(&to);
        place.read("all").args(["--to", &to, "--format", format]).output().expect(0).says("2 rows read");
        let path = file(&place, format);
        let text = || std::fs::read_to_string(&path).expect("a text");
        match format {
            "parquet" => {
                let reader =
                    parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(File::open(path).unwrap(), 9);
                assert_holds_all(&reader.unwrap().collect::<Result<Vec<_>, _>>().unwrap());
            }
            "arrow" => {
                let reader = arrow_ipc::reader::FileReader::try_new(File::open(path).unwrap(), None).unwrap();
                assert_holds_all(&reader.collect::<Result<Vec<_>, _>>().unwrap());
            }
            "ndjson" => {
                let first: Value = serde_json::from_str(text().lines().next().unwrap()).unwrap();
                assert_eq!(first["name"], "a,\"b\"\nc");
                assert_eq!(first["at"], "2026-01-31T10:00:00.250Z");
                assert!(text().contains("\"price\":12.30"), "{}", text());
            }
            _ => {
                let text = text();
                assert!(text.starts_with("id,small,ratio,price,yes,name,day,at,more\n"), "{text}");
                assert!(text.contains("\"a,\"\"b\"\"\nc\"") && text.trim_end().ends_with("2,,,,,,,,"), "{text}");
            }
        }
    }
}

#[test]
fn r01_a_preview_shows_every_type() {
    let api = api();
    let shown = place(&api).run(&["preview", "CONFIG", "all"]).output().expect(0).stdout;
    for text in ["9007199254740993", "12.30", "2026-01-31T10:00:00.250Z", "| id ", "true"] {
        assert!(shown.contains(text), "no {text} in\n{shown}");
    }
}

#[test]
fn r11_the_schema_of_a_first_page_can_be_pasted() {
    let api = api();
    let place = place(&api);
    let block = place.run(&["schema", "CONFIG", "found"]).output().expect(0).stdout;
    let pasted = config().replace("found { endpoint", &format!("found {{\n{block}\nendpoint"));
    place.write("source.conf", &pasted);
    let row = place.read("found").output().expect(0).rows().remove(0);
    assert_eq!(row, json!({ "id": 1, "include": true, "a_b": "[1]", "odd name": "x" }));
}

#[test]
fn r25_the_report_is_one_json_object_for_machines() {
    let api = api();
    let output = place(&api).read("all").args(["--log", "json", "-q"]).output().expect(0);
    let reports: Vec<Value> = output.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let counts = &reports.last().expect("a report")["counts"];
    assert_eq!((&counts["rows_read"], &counts["rows_emitted"], &counts["pages"]), (&json!(2), &json!(2), &json!(1)));
    assert_eq!(counts["converted"]["price"]["count"], 1, "a text became a decimal");
}

#[test]
fn r13_a_predicate_on_a_checkpointed_table_is_warned_about() {
    let api = api();
    let place = place(&api);
    place.read("kept").args(["--where", "id > 5"]).output().expect(0).says("moves past the rows it drops");
    let said = place.read("all").args(["--where", "id > 5"]).output().expect(0).stderr;
    assert!(!said.contains("moves past"), "{said}");
}

#[test]
fn r02_a_standard_output_that_is_not_open_moves_nothing() {
    let api = api();
    let place = place(&api);
    for (how, is_lost) in [(">&-", true), ("1</dev/null", true), (">/dev/null", false)] {
        let line = format!("exec \"$0\" read \"$1\" kept {how}");
        let config = place.path("source.conf");
        let status = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_restmark")])
            .arg(config)
            .stderr(Stdio::null())
            .status();
        let code = status.expect("sh starts").code();
        assert_eq!(code, Some(if is_lost { 5 } else { 0 }), "{how}");
        assert_eq!(place.mark("kept") == Mark::NONE, is_lost, "{how}");
    }
}

#[test]
fn r08_the_files_of_a_run_that_lost_the_race_are_withdrawn() {
    let api = api();
    let place = place(&api);
    let out = place.fill("{{DIR}}/out");
    let (winner, config) = (env!("CARGO_BIN_EXE_restmark"), place.path("source.conf"));
    let winners = place.fill("{{DIR}}/winner");
    api.at(
        1,
        Trap::First(Box::new(move || {
            let run = Command::new(winner)
                .arg("read")
                .arg(config)
                .args(["kept", "--to", &winners])
                .stderr(Stdio::null())
                .status();
            assert!(run.expect("the binary starts").success());
        })),
    );
    place.read("kept").args(["--to", &out]).output().expect(5).says("withdrawn");
    assert_eq!(std::fs::read_dir(out).expect("the directory").count(), 0, "nothing of the loser is left");
    file(&place, "winner");
}

#[test]
fn a_run_that_was_overtaken_looks_again_before_it_shows_its_files() {
    let api = api();
    let place = place(&api);
    let out = place.fill("{{DIR}}/out");
    let (faster, config, to) = (env!("CARGO_BIN_EXE_restmark"), place.path("source.conf"), out.clone());
    api.at(
        1,
        Trap::First(Box::new(move || {
            let mut run = Command::new(faster);
            let run = run.arg("read").arg(config).args(["all", "--to", &to]).stderr(Stdio::null());
            assert!(run.status().expect("the binary starts").success());
        })),
    );
    place.read("all").args(["--to", &out]).output().expect(2).says("already holds data");
    file(&place, "out");
}

#[test]
fn r29_overwriting_takes_no_rows_that_a_position_has_moved_past() {
    let api = api();
    let place = place(&api);
    let out = place.fill("{{DIR}}/out");
    place.read("kept").args(["--to", &out]).output().expect(0);
    let run = place.read("all").args(["--to", &out, "--mode", "overwrite"]);
    run.output().expect(2).says("table kept, whose position has moved past them");
    file(&place, "out");
}

#[test]
fn r01_what_a_killed_run_left_is_swept_by_the_next_and_not_before() {
    let api = api();
    let place = place(&api);
    let out = place.fill("{{DIR}}/out");
    let hidden = || {
        let names = std::fs::read_dir(&out).expect("the directory").map(|entry| entry.expect("an entry").file_name());
        names.filter(|name| name.to_string_lossy().starts_with('.')).count()
    };
    let read = || place.read("all").args(["--to", &out, "--mode", "append"]);
    let until_there = api.hold_at(1);
    let run = read().spawn();
    until_there();
    read().output().expect(0);
    assert_eq!(hidden(), 1, "the lock of a run that lives");
    run.signal("KILL");
    run.output();
    assert_eq!(hidden(), 1, "nobody was there to remove it");
    read().output().expect(0);
    assert_eq!(hidden(), 0);
}

#[test]
fn r19_a_streamed_body_is_asked_again_before_its_first_row_and_not_after() {
    let lines = (0..20_000).fold(String::new(), |lines, id| lines + &format!("{{\"id\":{id}}}\n"));
    let api = Api::new(vec![Route::new("GET", "/lines", Reply::text(&lines))]);
    let config = "base-url = \"{{BASE}}\"\nhttp { response-format = ndjson, max-retries = 2, max-backoff = 1ms }\n\
                  tables { t { endpoint = \"/lines\", columns { id { type = int64 } } } }";
    let place = Place::new(&api.base(), config);
    api.at(1, Trap::Reply(Reply::status(503)));
    api.at(2, Trap::Reset);
    assert_eq!(place.read("t").output().expect(0).ids().len(), 20_000);
    assert_eq!(api.asked().len(), 3);
    api.at(1, Trap::Cut);
    let cut = place.read("t").output().expect(3);
    assert_eq!(api.asked().len(), 3 + 1, "rows had left: asking again would repeat them");
    assert!(cut.stdout.lines().count() >= 8192, "{}", cut.stderr);
}

#[cfg(not(feature = "sql"))]
#[test]
fn sql_that_was_not_built_says_how_to_get_it() {
    Place::new("", &config()).run(&["sql", "CONFIG", "SELECT 1"]).output().expect(2).says("--features sql");
}

#[test]
fn r01_the_demo_shows_what_it_says() {
    let said = Place::new("", &config()).run(&["demo"]).output().expect(0).stdout;
    assert!(said.contains("checkpoint"), "{said}");
}

#[test]
fn r02_the_embedding_example_moves_nothing_when_its_task_fails() {
    // Built with the tests, beside them.
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_restmark")).with_file_name("examples").join("embed");
    let output = Command::new(&binary).output().expect("the example starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("the task failed"), "{said}");
}
