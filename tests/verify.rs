//! `restmark verify`: what was written is told from what was lost or changed, wherever it stands.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Api, Place, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  rows { endpoint = "/rows", columns { id { type = int64 }, name { type = string } } }
  parts { endpoint = "/rows", columns { id { type = int64 } }, partition { type = enum, param = of, values = [a, b] } }
  kept {
    endpoint = "/rows", columns { id { type = int64 } }, pagination { style = offset }
    checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = offset }
  }
}
"#;

fn place() -> (Api, Place) {
    let rows = json!([{ "id": 1, "name": "a" }, { "id": 2, "name": null }]);
    let api = Api::new(vec![
        get("/rows", &rows),
        get("/rows?of=a", &rows),
        get("/rows?of=b", &json!([{ "id": 3 }])),
        get("/rows?offset=0&limit=100", &rows),
        get("/rows?offset=2&limit=100", &json!([])),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    (api, place)
}

fn files(dir: &Path, is_hidden: bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(['.', '_']) == is_hidden)
        .collect();
    files.sort();
    files
}

fn flip_a_byte(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn r29_what_every_format_wrote_is_verified_and_a_changed_byte_is_found() {
    let (_api, place) = place();
    for format in ["parquet", "arrow", "ndjson", "csv"] {
        let to = format!("{{{{DIR}}}}/{format}");
        place.read("rows").args(["--to", &place.fill(&to), "--format", format]).output().expect(0);
        place.run(&["verify", &to]).output().expect(0).says("1 file in 1 manifest as written, 2 rows");
        let dir = place.path(format);
        let file = &files(&dir, false)[0];
        flip_a_byte(file);
        let output = place.run(&["verify", &to]).output().expect(4).says("1 file is not what was written");
        assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
        assert!(output.stdout.contains("checksum") && output.stdout.contains(&file.display().to_string()));
    }
}

#[test]
fn r29_cut_missing_and_foreign_files_are_told_apart() {
    let (_api, place) = place();
    let to = ["--to", &place.fill("{{DIR}}/out"), "--format", "ndjson"].map(str::to_owned);
    place.read("parts").args(to.iter().map(String::as_str)).output().expect(0);
    let dir = place.path("out");
    let shown = files(&dir, false);
    assert_eq!((shown.len(), files(&dir, true).len()), (2, 1));
    let manifest: Value = serde_json::from_slice(&std::fs::read(&files(&dir, true)[0]).unwrap()).unwrap();
    assert_eq!(
        (&manifest["restmark-manifest"], &manifest["table"], &manifest["epoch"]),
        (&json!(1), &json!("parts"), &Value::Null)
    );
    assert_eq!(
        manifest["files"].as_array().unwrap().iter().map(|file| file["rows"].clone()).collect::<Vec<_>>(),
        [2, 1]
    );
    std::fs::write(dir.join("notes.txt"), "not ours").unwrap();
    place.run(&["verify", "{{DIR}}/out"]).output().expect(0).says("notes.txt is named by no manifest");
    std::fs::write(&shown[0], "{\"id\":1}\n").unwrap();
    std::fs::remove_file(&shown[1]).unwrap();
    let output = place.run(&["verify", "{{DIR}}/out"]).output().expect(4).says("2 files are not what was written");
    let lines: Vec<_> = output.stdout.lines().collect();
    assert!(lines[0].contains("9 bytes, 18 were written") && lines[1].ends_with("missing"), "{lines:?}");
}

#[test]
fn r29_epochs_are_verified_too() {
    let (api, place) = place();
    let to = place.fill("{{DIR}}/out");
    place.read("kept").args(["--to", &to]).output().expect(0);
    api.script(vec![
        get("/rows?offset=2&limit=100", &json!([{ "id": 3 }])),
        get("/rows?offset=3&limit=100", &json!([])),
    ]);
    place.read("kept").args(["--to", &to]).output().expect(0);
    place.run(&["verify", "{{DIR}}/out"]).output().expect(0).says("2 files in 2 manifests as written, 3 rows");
    let manifests = files(&place.path("out"), true);
    let epoch = |path: &Path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap()["epoch"].clone();
    assert_eq!(manifests.iter().map(|path| epoch(path)).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn r29_files_that_are_replaced_take_their_manifests_with_them() {
    let (_api, place) = place();
    let to = ["--to", &place.fill("{{DIR}}/out")].map(str::to_owned);
    let to = || to.iter().map(String::as_str);
    place.read("rows").args(to()).output().expect(0);
    place.read("rows").args(to()).args(["--mode", "overwrite"]).output().expect(0);
    assert_eq!(files(&place.path("out"), true).len(), 1);
    place.run(&["verify", "{{DIR}}/out"]).output().expect(0).says("1 file in 1 manifest");
}

#[test]
fn r29_a_directory_that_cannot_be_read_is_no_difference() {
    let (_api, place) = place();
    place.run(&["verify", "{{DIR}}/none"]).output().expect(5).says("no such directory");
    place.run(&["verify", "-"]).output().expect(2);
    place.write("blocker", "");
    place.run(&["verify", "{{DIR}}/blocker"]).output().expect(5).says("blocker");
    place.write("empty/notes.txt", "");
    place.run(&["verify", "{{DIR}}/empty"]).output().expect(0).says("0 files in 0 manifests");
}

#[test]
fn r29_a_manifest_that_cannot_be_used_is_a_difference_and_hides_no_other() {
    let (_api, place) = place();
    place.read("rows").args(["--to", &place.fill("{{DIR}}/out")]).output().expect(0);
    place.write("out/_restmark-a.json", "{\"restmark-man");
    place.write("out/_restmark-b.json", r#"{"restmark-manifest":9,"table":"t","epoch":null,"run":"r","files":[]}"#);
    let output = place.run(&["verify", "{{DIR}}/out"]).output().expect(4).says("1 file in 1 manifest as written");
    let lines: Vec<_> = output.stdout.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].contains("_restmark-a.json") && lines[1].contains("version is 9"),
        "{lines:?}"
    );
}

#[test]
fn r29_what_holds_is_said_for_each_kind_of_output() {
    let (_api, place) = place();
    let checked = place.run(&["check", "CONFIG"]).output().expect(0).stdout;
    for line in [
        "  to files    each record once a run; a kill while its files appear leaves some of them in sight",
        "  to files    each run an epoch that a crash anywhere neither loses nor repeats; once over all runs, while the API only appends",
        "  to stdout   at least once: a crash between the last row and the commit repeats the run",
    ] {
        assert!(checked.lines().any(|own| own == line), "no {line:?} in\n{checked}");
    }
    assert!(!checked.contains("  stream"), "no table has timestamps");
    let explained = place.run(&["explain", "CONFIG", "kept"]).output().expect(0).stdout;
    assert!(explained.contains("  to files    each run an epoch"), "{explained}");
    place.write(
        "source.conf",
        &CONFIG
            .replace("mode = offset }", "mode = timestamp, timestamp-path = \"/at\", timestamp-param = s, lag = 90s }"),
    );
    let checked = place.run(&["check", "CONFIG"]).output().expect(0).stdout;
    assert!(checked.contains("  stream      once in files, while none comes later than 90 s (lag)"), "{checked}");
}
