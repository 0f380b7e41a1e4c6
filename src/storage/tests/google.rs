//! Google Cloud Storage: keys, stand-ins, the machine's account.

use super::*;

/// A stand-in's key: nobody is asked for a token.
const OPEN: &str = r#"{ "type": "service_account", "disable_oauth": true, "client_email": "", "private_key": "",
                        "private_key_id": "", "gcs_base_url": "http://stand-in:1/" }"#;
const USER: &str = r#"{ "type": "authorized_user", "client_id": "c", "client_secret": "S3CR3T-c",
                        "refresh_token": "S3CR3T-r" }"#;

fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.json");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[test]
fn r09_a_public_bucket_is_read_without_a_key() {
    for property in [
        ("fs.gs.auth.type", "UNAUTHENTICATED"),
        ("google.cloud.auth.null.enable", "true"),
        ("fs.gs.auth.type", "unauthenticated"),
    ] {
        let (objects, inside) = objects("gs://my_bucket/a/b", &[property, ("fs.gs.project.id", "p")], &[]);
        assert_eq!(objects.prefix.as_ref(), "a/b");
        has(
            &inside,
            &["my_bucket", "https://storage.googleapis.com", "skip_signature: true", "allow_http: Parsed(false)"],
        );
    }
}

#[test]
fn r09_a_stand_in_may_be_asked_over_http_when_it_is_written_out() {
    let properties = [("fs.gs.auth.type", "UNAUTHENTICATED"), ("fs.gs.storage.root.url", "http://localhost:4443/")];
    has(&inside("gs://b/x", &properties, &[]), &["\"http://localhost:4443\"", "allow_http: Parsed(true)"]);
    let (_dir, path) = file(OPEN);
    let key = [("fs.gs.auth.service.account.json.keyfile", path.as_str())];
    has(&inside("gs://b/x", &key, &[]), &["\"http://stand-in:1\"", "allow_http: Parsed(true)"]);
}

#[test]
fn r09_keys_of_google_have_an_order() {
    let (_dir, open) = file(OPEN);
    let (_other, user) = file(USER);
    let env = [("GOOGLE_APPLICATION_CREDENTIALS", user.as_str())];
    let key = [("google.cloud.auth.service.account.json.keyfile", open.as_str())];
    has(&inside("gs://b/x", &key, &env), &["http://stand-in:1"]);
    let (objects, _) = objects("gs://b/x", &[], &env);
    let secrets: Vec<&str> = objects.secrets.iter().map(Secret::expose).collect();
    assert_eq!(secrets, ["S3CR3T-c", "S3CR3T-r"]);
    has(&inside("gs://b/x", &[], &[("GOOGLE_SERVICE_ACCOUNT", open.as_str())]), &["http://stand-in:1"]);
    has(&inside("gs://b/x", &[], &[("GOOGLE_SERVICE_ACCOUNT_KEY", OPEN)]), &["http://stand-in:1"]);

    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".config/gcloud")).unwrap();
    std::fs::write(home.path().join(".config/gcloud/application_default_credentials.json"), USER).unwrap();
    let left = super::objects("gs://b/x", &[], &[("HOME", home.path().to_str().unwrap())]).0;
    assert_eq!(left.secrets.len(), 2);
    has(&inside("gs://b/x", &[("fs.gs.auth.type", "COMPUTE_ENGINE")], &env), &["Instance"]);
}

#[test]
fn r11_a_key_that_cannot_be_used_is_a_problem_at_load() {
    let keyfile = "fs.gs.auth.service.account.json.keyfile";
    refuses("gs://b/x", &[(keyfile, "/no/such.json")], &[], &[keyfile, "/no/such.json"]);
    for (text, word) in [
        ("S3CR3T", "JSON"),
        ("{\"type\": \"service_account\", \"private_key\": \"S3CR3T\"}", "private_key_id"),
        ("{\"type\": \"external_account\", \"x\": \"S3CR3T\"}", "external_account"),
        ("{\"private_key\": \"S3CR3T-x\", \"private_key_id\": \"i\", \"client_email\": \"e\"}", "cannot be opened"),
    ] {
        let (_dir, path) = file(text);
        refuses("gs://b/x", &[(keyfile, &path)], &[], &[word]);
        refuses("gs://b/x", &[], &[("GOOGLE_APPLICATION_CREDENTIALS", &path)], &[word]);
    }
    refuses("gs://b/x", &[("fs.gs.auth.type", "USER_CREDENTIALS")], &[], &["USER_CREDENTIALS", "UNAUTHENTICATED"]);
    refuses("gs://b/x", &[("fs.gs.auth.type", "SERVICE_ACCOUNT_JSON_KEYFILE")], &[], &[keyfile]);
    refuses(
        "gs://b/x",
        &[],
        &[("NO_GCE_CHECK", "true")],
        &["no credential", keyfile, "GOOGLE_APPLICATION_CREDENTIALS"],
    );
    let two = [("fs.gs.storage.root.url", "ftp://x"), ("fs.gs.http.read-timeout", "x"), ("fs.gs.auth.type", "x")];
    assert_eq!(opened("gs://b/x", &two, &[]).unwrap_err().len(), 3);
}
