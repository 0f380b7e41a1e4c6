//! What travels of a configuration, and what does not.

use std::collections::HashMap;
use std::path::Path;

use crate::config::Auth;
use crate::config::load::{load_text, load_travelled, travelling};
use crate::storage::Location;

const FILE: &str = "/etc/restmark/api.conf";

fn env(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const TEXT: &str = r#"
base-url = ${BASE}"/v1"
auth { type = header, header-name = X-Auth, header-value = "Bearer "${TOKEN} }
http { rate-limit = "100 / minute", headers { X-Api-Key = ${KEY}, X-Where = ${WHERE} } }
hadoop { fs.s3a.secret.key = ${?STORE}, fs.s3a.endpoint = "http://127.0.0.1:1" }
tables {
  events {
    endpoint = /events
    params { sig = ${KEY}, n = 3, flag = true, "a.b" = "quote \" and ${no}" }
    columns { id { type = int64 }, "größe" { type = string } }
    checkpoint { enabled = true, path = state, mode = timestamp, timestamp-path = "/ts", timestamp-param = from }
  }
}
"#;

#[test]
fn r23_everything_travels_but_the_secrets_which_the_other_host_answers_for() {
    let here = env(&[
        ("BASE", "http://127.0.0.1:9"),
        ("TOKEN", "S3CR3T-token"),
        ("KEY", "S3CR3T-key"),
        ("WHERE", "north"),
        ("STORE", "S3CR3T-store"),
    ]);
    let text = travelling(Path::new(FILE), Some(TEXT), &here).unwrap();
    assert!(!text.contains("S3CR3T"), "{text}");
    let there =
        [("TOKEN", "theirs-token"), ("KEY", "theirs-key"), ("WHERE", "south"), ("STORE", "theirs"), ("BASE", "no")];
    let there = env(&there);
    let config = load_travelled(Path::new("api.conf"), &text, &there).unwrap();
    let own = load_text(Path::new(FILE), TEXT, &here).unwrap();
    assert_eq!((&config.base_url, &config.http.rate_limit), (&own.base_url, &own.http.rate_limit));
    let Auth::Header { value, .. } = &config.auth else { panic!("{:?}", config.auth) };
    assert_eq!(value.expose(), "Bearer theirs-token");
    let (table, own) = (&config.tables[0], &own.tables[0]);
    assert_eq!(table.params[0], ("sig".into(), "theirs-key".into()), "whatever is sent stays with the environment");
    assert_eq!(table.params[1..], own.params[1..]);
    assert_eq!(table.columns, own.columns);
    let Location::Local(path) = &table.checkpoint.as_ref().unwrap().location else { panic!() };
    assert_eq!(path, Path::new("/etc/restmark/state"));
    let lacking = load_travelled(Path::new("api.conf"), &text, &env(&[])).unwrap_err();
    assert!(lacking.config_problems().iter().any(|p| p.key == "auth.header-value"), "{lacking:?}");
}

#[test]
fn r23_a_secret_that_is_written_out_does_not_travel() {
    let text = r#"
        base-url = "http://127.0.0.1:9"
        auth { type = bearer, token = "S3CR3T-in-the-file" }
        tables { t { endpoint = "/S3CR3T-in-the-file", columns { id { type = int64 } } } }
    "#;
    let error = travelling(Path::new(FILE), Some(text), &env(&[])).unwrap_err();
    let keys: Vec<&str> = error.config_problems().iter().map(|p| p.key.as_str()).collect();
    assert_eq!(keys, ["auth.token", "tables.t.endpoint"], "{error:?}");
    assert!(!format!("{error:?}").contains("S3CR3T"), "{error:?}");
}

#[test]
fn r23_what_may_hold_a_secret_stays_behind_wherever_it_stands() {
    let text = |more: &str| {
        format!(
            r#"
            base-url = "http://127.0.0.1:9"
            {more}
            tables {{ t {{ endpoint = "/bot"${{K}}"/x", method = POST, columns {{ id {{ type = int64 }} }},
                params {{ code = ${{K}} }}, headers {{ X-Auth = ${{K}}, Where = ${{K}} }},
                body {{ credentials {{ value = ${{K}} }}, list = [{{ a = ${{K}} }}, plain] }} }} }}
            "#
        )
    };
    let here = env(&[("K", "S3CR3T-1234"), ("PW", "20240117")]);
    let more = "hadoop { fs.s3a.proxy.password = ${PW}, fs.s3a.secret.key = \"${env.K}\" }";
    let said = travelling(Path::new(FILE), Some(&text(more)), &here).unwrap();
    assert!(!said.contains("S3CR3T") && !said.contains("20240117"), "{said}");
    let there = env(&[("K", "theirs"), ("PW", "1")]);
    let table = &load_travelled(Path::new(FILE), &said, &there).unwrap().tables[0];
    assert_eq!((table.url.path(), table.params[0].1.as_str()), ("/bottheirs/x", "theirs"));
    assert_eq!(table.body.as_ref().unwrap()["list"], serde_json::json!([{ "a": "theirs" }, "plain"]));
    for (key, more) in [
        ("base-url", "base-url = \"http://127.0.0.1:9/\"${K}, auth { type = bearer, token = ${K} }"),
        ("hadoop.fs.s3a.proxy.password", "hadoop { fs.s3a.proxy.password = 20240117 }"),
        ("http.headers.X-Auth", "http { headers { X-Auth = literal } }"),
        ("tables.t.params.api_key", "tables.t.params.api_key = literal"),
    ] {
        let error = travelling(Path::new(FILE), Some(&text(more)), &here).unwrap_err();
        let keys: Vec<&str> = error.config_problems().iter().map(|p| p.key.as_str()).collect();
        assert_eq!(keys, [key], "{error:?}");
        assert!(!format!("{error:?}").contains("S3CR3T"), "{error:?}");
    }
}
