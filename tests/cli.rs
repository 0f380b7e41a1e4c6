//! The command line as a contract: commands, destinations, exit codes, and what a checkpoint command does.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Api, Mark, Place, Reply, Route, Stdout, Trap, get, run::rows};

/// Two tables over the same endpoint: one keeps its offset, the other keeps nothing.
const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0, timeout = 5s }
tables {
  kept {
    endpoint = "/items"
    data-path = "/items"
    pagination { style = offset, max-page-size = 2 }
    columns { id { type = int64 } }
    checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = offset }
  }
  plain {
    endpoint = "/items"
    data-path = "/items"
    pagination { style = offset, max-page-size = 2 }
    columns { id { type = int64 } }
  }
}
"#;

/// Five rows, two a page.
fn api() -> Api {
    let page = |offset: i64, ids: &[i64]| {
        let items: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
        get(&format!("/items?offset={offset}&limit=2"), &json!({ "items": items }))
    };
    Api::new(vec![page(0, &[1, 2]), page(2, &[3, 4]), page(4, &[5]), page(5, &[])])
}

fn offset(value: u64) -> Value {
    json!({ "type": "offset", "value": value })
}

/// The data files of a directory: those that are visible.
fn visible(place: &Place, folder: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(place.path(folder)) else { return vec![] };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| !path.file_name().expect("a name").to_string_lossy().starts_with(['.', '_']));
    paths.sort();
    paths
}

/// The ids in the data files of a directory.
fn ids_in(place: &Place, folder: &str) -> Vec<i64> {
    let texts = visible(place, folder).into_iter().map(|path| std::fs::read_to_string(path).expect("a text"));
    let all: Vec<_> = texts.flat_map(|text| rows(&text)).collect();
    all.iter().map(|row| row["id"].as_i64().expect("an id")).collect()
}

mod commands {
    use super::*;

    #[test]
    fn every_command_has_help() {
        let place = Place::new("", CONFIG);
        let help = place.run(&["--help"]).output().expect(0).stdout;
        let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
        let commands: Vec<_> = commands
            .take_while(|line| line.starts_with("  "))
            .filter(|line| !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for wanted in ["check", "read", "tables", "schema", "preview", "checkpoint", "completions"] {
            assert!(commands.contains(&wanted), "{wanted} is not in {commands:?}");
        }
        for command in commands.into_iter().filter(|command| *command != "help") {
            let help = place.run(&[command, "--help"]).output().expect(0).stdout;
            assert!(help.contains("Usage:"), "{command}: {help}");
        }
        for command in ["show", "set", "clear"] {
            place.run(&["checkpoint", command, "--help"]).output().expect(0);
        }
    }

    #[test]
    fn completions_are_printed_for_a_shell() {
        let place = Place::new("", CONFIG);
        let script = place.run(&["completions", "bash"]).output().expect(0).stdout;
        assert!(script.contains("restmark") && script.contains("checkpoint"), "{script}");
        place.run(&["completions", "no-such-shell"]).output().expect(2);
    }

    #[test]
    fn looking_before_reading_sends_nothing() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.run(&["check", "CONFIG"]).output().expect(0);
        let tables = place.run(&["tables", "CONFIG"]).output().expect(0).stdout;
        assert!(tables.contains("kept") && tables.contains("plain"), "{tables}");
        place.run(&["schema", "CONFIG", "plain"]).output().expect(0);
        assert_eq!(api.asked(), [""; 0]);
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r01_a_preview_moves_nothing() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.run(&["preview", "CONFIG", "kept"]).output().expect(0);
        assert_eq!(place.mark("kept"), Mark::NONE);
    }
}

mod exit_codes {
    use super::*;

    #[test]
    fn r11_usage_and_configuration_are_2() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.run(&[]).output().expect(2);
        place.run(&["no-such-command"]).output().expect(2);
        place.run(&["read", "CONFIG"]).output().expect(2);
        place.read("plain").args(["--no-such-option"]).output().expect(2);
        place.read("no-such-table").output().expect(2).says("plain");
        place.run(&["read", "{{DIR}}/no-such-file.conf", "plain"]).output().expect(2).says("no-such-file.conf");
        place.write("source.conf", "tables { t { endpoint = \"/x\", enpoint = 1 } }");
        place.read("t").output().expect(2).says("enpoint").says("base-url");
        assert_eq!(api.asked(), [""; 0]);
    }

    #[test]
    fn r19_an_api_that_fails_is_3() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        api.at(1, Trap::Reply(Reply::status(404)));
        place.read("plain").output().expect(3).says("404");
        api.at(1, Trap::Reset);
        place.read("plain").output().expect(3);
        // A part of a page is not the page.
        api.at(1, Trap::Reply(Reply::status(206)));
        place.read("plain").output().expect(3).says("206");
        Place::new("http://127.0.0.1:1", CONFIG).read("plain").output().expect(3);
    }

    #[test]
    fn r20_an_api_that_never_answers_is_3() {
        let api = api();
        let place = Place::new(&api.base(), &CONFIG.replace("timeout = 5s", "timeout = 300ms"));
        api.at(2, Trap::Reply(Reply::hang()));
        place.read("kept").output().expect(3);
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r16_data_that_cannot_be_read_is_4() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        api.at(1, Trap::Reply(Reply::text("<html>")));
        place.read("plain").output().expect(4);
        api.at(1, Trap::Reply(Reply::json(&json!({ "rows": [] }))));
        place.read("plain").output().expect(4).says("/items");
    }

    #[test]
    fn r09_a_checkpoint_directory_that_cannot_be_written_is_5() {
        let api = api();
        let place = Place::new(&api.base(), &CONFIG.replace("/ckpt", "/file/ckpt"));
        place.write("file", "no directory");
        place.read("kept").output().expect(5).says("file");
    }

    #[test]
    fn r02_a_destination_that_cannot_be_written_is_5() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.write("file", "no directory");
        place.run(&["read", "CONFIG", "kept", "--to", "{{DIR}}/file/out"]).output().expect(5);
        place.read("kept").stdout(Stdout::Full).output().expect(5);
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r01_an_interrupted_run_is_130_and_shows_nothing() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        let until_there = api.hold_at(3);
        let run = place.run(&["read", "CONFIG", "kept", "--to", "{{DIR}}/out", "--format", "ndjson"]).spawn();
        until_there();
        run.signal("INT");
        run.output().expect(130);
        assert_eq!(visible(&place, "out"), Vec::<PathBuf>::new());
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r23_a_refused_token_is_3_and_is_never_shown() {
        let refused = Route::new("GET", "/items?offset=0&limit=2", Reply::status(401));
        let api = Api::new(vec![refused]);
        let place = Place::new(&api.base(), &format!("auth {{ type = bearer, token = ${{TOKEN}} }}\n{CONFIG}"));
        place.read("plain").output().expect(2).says("TOKEN");
        let output = place.read("plain").env("TOKEN", "s3cr3t-t0ken").args(["-v"]).output().expect(3).says("401");
        assert!(!output.stderr.contains("s3cr3t-t0ken"), "{}", output.stderr);
        assert_eq!(api.requests()[0].headers["authorization"], "Bearer s3cr3t-t0ken");
    }
}

mod destinations {
    use super::*;

    #[test]
    fn standard_output_is_the_default_and_a_dash() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        assert_eq!(place.read("plain").output().expect(0).ids(), [1, 2, 3, 4, 5]);
        assert_eq!(place.read("plain").args(["--to", "-"]).output().expect(0).ids(), [1, 2, 3, 4, 5]);
        assert_eq!(place.read("plain").args(["--limit", "3"]).output().expect(0).ids(), [1, 2, 3]);
        assert!(!place.path("ckpt").exists(), "a table without a checkpoint leaves nothing");
    }

    #[test]
    fn r01_a_read_to_nowhere_moves_nothing() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        assert_eq!(place.read("kept").args(["--to", "null:"]).output().expect(0).stdout, "");
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn a_pipe_that_closes_early_ends_the_run() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        // Whether five short rows still fit into the pipe is a matter of luck; that the run ends is not.
        place.read("plain").stdout(Stdout::ClosedAfter("\n")).output();
        place.read("plain").stdout(Stdout::Full).output().expect(5);
    }

    #[test]
    fn visible_files_are_an_error_unless_the_mode_says_otherwise() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        let to = place.fill("{{DIR}}/out");
        let read = |more: &[&str]| {
            let args = ["--to", &to, "--format", "ndjson"].into_iter().chain(more.iter().copied());
            place.read("plain").args(args).output()
        };
        read(&[]).expect(0);
        assert_eq!(ids_in(&place, "out"), [1, 2, 3, 4, 5]);
        let asked = api.asked().len();
        read(&[]).expect_failure();
        read(&["--mode", "error"]).expect_failure();
        assert_eq!(api.asked().len(), asked, "it fails before it asks");
        assert_eq!(ids_in(&place, "out"), [1, 2, 3, 4, 5]);
        read(&["--mode", "append"]).expect(0);
        assert_eq!(ids_in(&place, "out").len(), 10);
        read(&["--mode", "overwrite"]).expect(0);
        assert_eq!(ids_in(&place, "out"), [1, 2, 3, 4, 5]);
        read(&["--mode", "no-such-mode"]).expect(2);
    }

    #[test]
    fn r02_a_failed_overwrite_leaves_the_old_files() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        let to = ["--to", "out", "--format", "ndjson"];
        place.read("plain").args(to).output().expect(0);
        let before = visible(&place, "out");
        api.at(2, Trap::Reply(Reply::status(500)));
        place.read("plain").args(to).args(["--mode", "overwrite"]).output().expect(3);
        assert_eq!(visible(&place, "out"), before);
        assert_eq!(ids_in(&place, "out"), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn r01_a_limit_into_a_directory_of_a_checkpointed_table_is_a_usage_error() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.read("kept").args(["--to", "out", "--limit", "3"]).output().expect(2).says("limit");
        assert_eq!(api.asked(), [""; 0]);
        assert_eq!(visible(&place, "out"), Vec::<PathBuf>::new());
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r25_every_read_ends_with_its_counts() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        let output = place.read("plain").output().expect(0);
        for word in ["request", "page", "rows"] {
            assert!(output.stderr.to_lowercase().contains(word), "no {word} in:\n{}", output.stderr);
        }
    }
}

mod reading {
    use super::*;

    #[test]
    fn r10_a_filter_of_a_checkpointed_table_is_applied_here_and_never_sent() {
        let filters = "filters = [{ param = above, column = id, operators = [gt] }]";
        let api = api();
        let place = Place::new(&api.base(), &CONFIG.replace("checkpoint {", &format!("{filters}\n    checkpoint {{")));
        assert_eq!(place.read("kept").args(["--where", "id > 3"]).output().expect(0).ids(), [4, 5]);
        assert!(api.asked().iter().all(|request| !request.contains("above")), "{:?}", api.asked());
        assert_eq!(place.mark("kept").position(), offset(5));
    }

    #[test]
    fn r12_a_position_that_the_paging_would_overwrite_is_refused_before_anything_is_asked() {
        let api = api();
        let clash = "mode = timestamp, timestamp-path = \"/id\", timestamp-param = offset";
        let place = Place::new(&api.base(), &CONFIG.replace("mode = offset", clash));
        place.read("kept").output().expect(2).says("timestamp-param");
        assert_eq!(api.asked(), [""; 0]);
    }

    #[test]
    fn r13_a_mode_that_the_paging_cannot_serve_is_warned_about_and_saves_nothing() {
        let api = api();
        let place = Place::new(&api.base(), &CONFIG.replace("mode = offset", "mode = cursor"));
        let output = place.read("kept").output().expect(0).says("warning").says("cursor");
        assert_eq!(output.ids(), [1, 2, 3, 4, 5]);
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r26_a_body_beyond_the_limit_is_an_error_however_it_is_packed() {
        for packed in [false, true] {
            let big = Reply::json(&json!({ "items": [{ "id": 1, "text": "a".repeat(3_000_000) }] }));
            let big = if packed { big.gzip() } else { big };
            let api = Api::new(vec![Route::new("GET", "/items?offset=0&limit=2", big)]);
            let place = Place::new(&api.base(), &CONFIG.replace("timeout = 5s", "max-body-bytes = 1 MiB"));
            place.read("kept").output().expect(4).says("max-body-bytes");
            assert_eq!(place.mark("kept"), Mark::NONE);
        }
    }
}

mod checkpoints {
    use super::*;

    fn checkpoint(place: &Place, args: &[&str]) -> crate::support::Output {
        let (command, rest) = args.split_first().expect("a command");
        place.run(&["checkpoint", command, "CONFIG", "kept"]).args(rest.iter().copied()).output()
    }

    #[test]
    fn r06_set_show_and_clear_are_a_whole_circle() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        checkpoint(&place, &["show"]).expect(0);
        assert_eq!(place.mark("kept"), Mark::NONE);

        checkpoint(&place, &["set", "2"]).expect(0);
        assert_eq!(place.mark("kept").position(), offset(2));
        assert!(checkpoint(&place, &["show"]).expect(0).stdout.contains('2'));
        assert_eq!(place.read("kept").output().expect(0).ids(), [3, 4, 5]);
        assert_eq!(place.mark("kept").position(), offset(5));
        assert_eq!(place.read("kept").output().expect(0).ids(), [0; 0]);

        // By hand it may go back.
        checkpoint(&place, &["set", "4"]).expect(0);
        assert_eq!(place.read("kept").output().expect(0).ids(), [5]);

        checkpoint(&place, &["clear"]).expect(0);
        assert_eq!(place.mark("kept"), Mark::NONE);
        checkpoint(&place, &["clear"]).expect(0);
        assert_eq!(place.read("kept").output().expect(0).ids(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn r06_a_value_of_another_type_is_not_set() {
        let place = Place::new("http://127.0.0.1:9", CONFIG);
        checkpoint(&place, &["set", "2026-01-01"]).expect_failure();
        assert_eq!(place.mark("kept"), Mark::NONE);
    }

    #[test]
    fn r06_a_table_without_a_checkpoint_has_none_to_set() {
        let place = Place::new("http://127.0.0.1:9", CONFIG);
        place.run(&["checkpoint", "set", "CONFIG", "plain", "3"]).output().expect(2);
        place.run(&["checkpoint", "set", "CONFIG", "no-such-table", "3"]).output().expect(2);
    }

    #[test]
    fn r06_a_spoilt_file_is_an_error_that_names_what_mends_it() {
        let api = api();
        for spoilt in ["", "{\"type\":\"off", r#"{"type":"cursor","value":"x"}"#, r#"{"type":"offset","value":"x"}"#] {
            let place = Place::new(&api.base(), CONFIG);
            place.seed("kept", spoilt);
            let before = place.mark("kept");
            let output = place.read("kept").output().expect(5).says("kept.checkpoint.json");
            output.says("restmark checkpoint");
            assert_eq!(place.mark("kept"), before);
            checkpoint(&place, &["clear"]).expect(0);
            assert_eq!(place.read("kept").output().expect(0).ids(), [1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn r07_a_file_of_two_keys_is_read() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.seed("kept", r#"{"type":"offset","value":4}"#);
        assert_eq!(place.read("kept").output().expect(0).ids(), [5]);
        assert_eq!(place.mark("kept").position(), offset(5));
    }

    #[test]
    fn r05_a_full_read_starts_over_and_never_goes_back() {
        let api = api();
        let place = Place::new(&api.base(), CONFIG);
        place.seed("kept", r#"{"type":"offset","value":9}"#);
        assert_eq!(place.read("kept").args(["--full"]).output().expect(0).ids(), [1, 2, 3, 4, 5]);
        assert_eq!(place.mark("kept").position(), offset(9));
    }
}
