//! Checkpoints on real storage: HDFS, S3 (Moto), Azure (Azurite) and a stand-in of Google's XML calls.
//!
//! Every store is held to the one suite; then the binary reads, resumes and fails on each of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt as _};
use restmark::CheckpointStore;
use restmark::commit::suite::{self, Race, Subject};
use restmark::effect::Effects;
use restmark::storage::{Location, Settings};
use serde_json::{Value, json};

use crate::crash::{self, Shelf};
use crate::support::files::Files;
use crate::support::hdfs::Hdfs;
use crate::support::servers::Cache;
use crate::support::stores::{Azurite, GcsStandIn, Moto};
use crate::support::{Api, Output, Place, Reply, Route, get};

/// A directory of a store: its path as a configuration has it, what opens it, and a way in that is not ours.
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) properties: BTreeMap<String, String>,
    raw: Raw,
}

/// The plain client of a store, and the directory's place in it.
enum Raw {
    Objects(Arc<dyn ObjectStore>, String),
    Hdfs(hdfs_native::Client, String),
}

impl Directory {
    fn store(&self, effects: Effects) -> Arc<dyn CheckpointStore> {
        let location: Location = self.path.parse().expect("a location");
        let settings = Settings::new(self.properties.clone(), &HashMap::new());
        restmark::commit::open_watched(&location, &settings, effects).expect("a store")
    }

    /// The `hadoop` block of a configuration.
    pub(crate) fn block(&self) -> String {
        let lines = self.properties.iter().map(|(name, value)| format!("  \"{name}\" = \"{value}\"\n"));
        format!("hadoop {{\n{}}}\n", lines.collect::<String>())
    }

    /// What stands in a directory below, by name.
    pub(crate) async fn files(&self, below: &str) -> Files {
        let mut files = Files::new();
        match &self.raw {
            Raw::Objects(store, dir) => {
                let prefix = Key::from(format!("{dir}/{below}"));
                for found in store.list_with_delimiter(Some(&prefix)).await.expect("a list").objects {
                    let bytes = store.get(&found.location).await.expect("an object").bytes().await.expect("its bytes");
                    files.insert(found.location.filename().expect("a name").to_owned(), bytes.to_vec());
                }
            }
            Raw::Hdfs(client, dir) => {
                let listed = Box::pin(client.list_status(&format!("{dir}/{below}"), false)).await.unwrap_or_default();
                for found in listed.into_iter().filter(|found| !found.isdir) {
                    let file = Box::pin(client.read(&found.path)).await.expect("a file");
                    let bytes = Box::pin(file.read_range(0, file.file_length())).await.expect("its bytes");
                    files.insert(found.path.rsplit('/').next().expect("a name").to_owned(), bytes.to_vec());
                }
            }
        }
        files
    }

    pub(crate) async fn write(&self, name: &str, bytes: &[u8]) {
        match &self.raw {
            Raw::Objects(store, dir) => {
                store.put(&Key::from(format!("{dir}/{name}")), bytes.to_vec().into()).await.expect("a put");
            }
            Raw::Hdfs(client, dir) => {
                let options = hdfs_native::WriteOptions::default().overwrite(true);
                let mut file = client.create(&format!("{dir}/{name}"), options).await.expect("a file");
                if !bytes.is_empty() {
                    Box::pin(file.write_bytes(bytes.to_vec().into())).await.expect("a write");
                }
                Box::pin(file.close()).await.expect("a close");
            }
        }
    }
}

impl Subject for Directory {
    fn open(&self, effects: Effects) -> Arc<dyn CheckpointStore> {
        self.store(effects)
    }

    fn put<'a>(&'a self, table: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            Box::pin(self.write(&format!("{table}.checkpoint.json"), bytes)).await;
            Ok(())
        })
    }
}

impl Shelf for Directory {
    fn path(&self) -> String {
        self.path.clone()
    }

    fn properties(&self) -> String {
        self.block()
    }

    fn store(&self, effects: Effects) -> Arc<dyn CheckpointStore> {
        Directory::store(self, effects)
    }

    fn files<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Files> {
        Box::pin(Self::files(self, dir))
    }
}

fn properties<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The plain clients are built without a TLS provider of their own.
fn with_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A name that no other test uses.
pub(crate) fn fresh() -> String {
    format!("t{:016x}", fastrand::u64(..))
}

pub(crate) fn s3(moto: &Moto, scheme: &str) -> Directory {
    let (bucket, dir) = (fresh(), "deep/check points");
    moto.make_bucket(&bucket);
    with_tls();
    let raw = object_store::aws::AmazonS3Builder::new()
        .with_bucket_name(&bucket)
        .with_endpoint(moto.endpoint())
        .with_allow_http(true)
        .with_access_key_id("AKIDTEST")
        .with_secret_access_key("made-up-secret");
    Directory {
        path: format!("{scheme}://{bucket}/{dir}"),
        properties: properties([
            ("fs.s3a.endpoint", moto.endpoint()),
            ("fs.s3a.access.key", "AKIDTEST"),
            ("fs.s3a.secret.key", "made-up-secret"),
        ]),
        raw: Raw::Objects(Arc::new(raw.build().expect("a client")), dir.to_owned()),
    }
}

pub(crate) fn azure(azurite: &Azurite, scheme: &str) -> Directory {
    let (container, dir) = (fresh(), "deep/check points");
    azurite.make_container(&container);
    let host = if scheme.starts_with("abfs") { "dfs" } else { "blob" };
    with_tls();
    let raw = object_store::azure::MicrosoftAzureBuilder::new()
        .with_endpoint(azurite.endpoint())
        .with_allow_http(true)
        .with_account(Azurite::ACCOUNT)
        .with_access_key(Azurite::KEY)
        .with_container_name(&container);
    Directory {
        path: format!("{scheme}://{container}@devstoreaccount1.{host}.core.windows.net/{dir}"),
        properties: properties([("fs.azure.endpoint", &azurite.endpoint()), ("fs.azure.account.key", Azurite::KEY)]),
        raw: Raw::Objects(Arc::new(raw.build().expect("a client")), dir.to_owned()),
    }
}

pub(crate) fn google(stand_in: &GcsStandIn) -> Directory {
    let (bucket, dir) = (fresh(), "deep/check points");
    with_tls();
    // A token that asks nobody: without one a put goes to the metadata server of the machine.
    let token = object_store::gcp::GcpCredential { bearer: String::new() };
    let raw = object_store::gcp::GoogleCloudStorageBuilder::new()
        .with_bucket_name(&bucket)
        .with_base_url(stand_in.endpoint())
        .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
        .with_credentials(Arc::new(object_store::StaticCredentialProvider::new(token)));
    Directory {
        path: format!("gs://{bucket}/{dir}"),
        properties: properties([
            ("fs.gs.storage.root.url", stand_in.endpoint()),
            ("fs.gs.auth.type", "UNAUTHENTICATED"),
        ]),
        raw: Raw::Objects(Arc::new(raw.build().expect("a client")), dir.to_owned()),
    }
}

/// Must be called inside a runtime.
pub(crate) fn hdfs(cluster: &Hdfs) -> Directory {
    let dir = format!("/{}/deep/check points", fresh());
    let client = hdfs_native::ClientBuilder::new().with_url(cluster.url()).build().expect("a client");
    Directory { path: format!("{}{dir}", cluster.url()), properties: BTreeMap::new(), raw: Raw::Hdfs(client, dir) }
}

/// Sixteen at once, a hundred times.
const RACE: Race = Race { racers: 16, rounds: 100 };

#[tokio::test(flavor = "multi_thread")]
async fn r08_s3_keeps_the_contract() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let server = Moto::shared(&cache);
    suite::run(&s3(&server, "s3a"), RACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_azure_keeps_the_contract() {
    let Some(cache) = Cache::with(&["azurite"]) else { return };
    let server = Azurite::shared(&cache);
    suite::run(&azure(&server, "abfss"), RACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_google_keeps_the_contract_as_far_as_a_stand_in_can_tell() {
    let Some(cache) = Cache::with(&["python"]) else { return };
    let server = GcsStandIn::shared(&cache);
    suite::run(&google(&server), RACE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_hdfs_keeps_the_contract() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let server = Hdfs::shared(&cache);
    suite::run(&hdfs(&server), Race { racers: 16, rounds: 5 }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_a_run_that_ends_at_any_effect_of_s3_loses_nothing() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    crash::stopped_everywhere(|| Box::new(s3(&moto, "s3a"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_a_run_that_ends_at_any_effect_of_hdfs_loses_nothing() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    crash::stopped_everywhere(|| Box::new(hdfs(&cluster))).await;
}

#[test]
fn r07_a_binary_killed_at_random_loses_nothing_on_hdfs() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let directory = {
        let _inside = runtime.enter();
        hdfs(&cluster)
    };
    crash::killed_at_random(&directory, crash::rounds(), 400);
}

/// An API with three rows, read by cursor.
fn api() -> Api {
    Api::new(vec![
        get("/rows", &json!({ "items": [{ "id": 1 }, { "id": 2 }], "next": "A" })),
        get("/rows?cursor=A", &json!({ "items": [{ "id": 3 }], "next": null })),
    ])
}

/// A configuration whose only table keeps its checkpoint at `path`.
fn config(path: &str, rest: &str) -> String {
    format!(
        r#"
base-url = "{{{{BASE}}}}"
tables {{ rows {{
  endpoint = "/rows", data-path = "/items"
  pagination {{ style = cursor, cursor-path = "/next" }}
  columns {{ id {{ type = int64 }} }}
  checkpoint {{ enabled = true, path = "{path}", mode = cursor }}
}} }}
{rest}"#
    )
}

fn place(api: &Api, path: &str, rest: &str) -> Place {
    Place::new(&api.base(), &config(path, rest))
}

/// Reads twice, looks at the position in between, clears it.
fn reads_and_resumes(path: &str, rest: &str, env: &[(&str, &str)]) {
    let api = api();
    let place = place(&api, path, rest);
    let run = |args: &[&str]| env.iter().fold(place.run(args), |run, (name, value)| run.env(name, value)).output();
    run(&["check", "CONFIG", "--connect"]).expect(0).says("not there yet");
    assert_eq!(run(&["read", "CONFIG", "rows"]).expect(0).ids(), [1, 2, 3]);
    let shown = run(&["checkpoint", "show", "CONFIG", "rows"]).expect(0).stdout;
    // `hdfs:///x` is shown as `hdfs:/x`.
    let file = format!("{}/rows.checkpoint.json", path.replace(":///", ":/"));
    assert!(shown.to_lowercase().contains(&file.to_lowercase()) && shown.contains("cursor A"), "{shown}");
    assert_eq!(run(&["read", "CONFIG", "rows"]).expect(0).ids(), [3], "{path}: goes on at the cursor");
    run(&["check", "CONFIG", "--connect"]).expect(0).says("holds cursor A");
    run(&["checkpoint", "set", "CONFIG", "rows", "A"]).expect(0);
    run(&["checkpoint", "clear", "CONFIG", "rows"]).expect(0);
    assert_eq!(run(&["read", "CONFIG", "rows"]).expect(0).ids(), [1, 2, 3], "{path}: cleared");
}

#[test]
fn r09_every_scheme_of_s3_is_read_and_resumed() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    for scheme in ["s3", "s3a", "s3n", "S3A"] {
        let directory = s3(&moto, scheme);
        reads_and_resumes(&directory.path, &directory.block(), &[]);
    }
}

#[test]
fn r09_s3_is_opened_by_the_environment_too() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let moto = Moto::shared(&cache);
    let env = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "AKIDTEST"),
        ("AWS_SECRET_ACCESS_KEY", "made-up-secret"),
    ];
    reads_and_resumes(&s3(&moto, "s3a").path, "", &env);
}

#[test]
fn r09_every_scheme_of_azure_is_read_and_resumed() {
    let Some(cache) = Cache::with(&["azurite"]) else { return };
    let azurite = Azurite::shared(&cache);
    for scheme in ["abfs", "abfss", "wasb", "wasbs"] {
        let directory = azure(&azurite, scheme);
        reads_and_resumes(&directory.path, &directory.block(), &[]);
    }
}

#[test]
fn r09_gs_is_read_and_resumed() {
    let Some(cache) = Cache::with(&["python"]) else { return };
    let stand_in = GcsStandIn::shared(&cache);
    let directory = google(&stand_in);
    reads_and_resumes(&directory.path, &directory.block(), &[]);
}

#[test]
fn r09_hdfs_is_read_by_address_by_name_service_by_default_and_by_mount_table() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    let (dir, port) = (fresh(), cluster.port());
    reads_and_resumes(&format!("{}/{dir}/a", cluster.url()), "", &[]);
    // The first NameNode of the service does not answer.
    let service = format!(
        r#"hadoop {{
  "dfs.nameservices" = lake, "dfs.ha.namenodes.lake" = "nn1,nn2"
  "dfs.namenode.rpc-address.lake.nn1" = "127.0.0.1:1", "dfs.namenode.rpc-address.lake.nn2" = "127.0.0.1:{port}"
}}"#
    );
    reads_and_resumes(&format!("hdfs://lake/{dir}/b"), &service, &[]);
    let conf = cluster.conf().display().to_string();
    reads_and_resumes(&format!("hdfs:///{dir}/c"), "", &[("HADOOP_CONF_DIR", &conf)]);
    let mounts = format!("hadoop {{ \"fs.viewfs.mounttable.all.link./data\" = \"{}/{dir}\" }}", cluster.url());
    reads_and_resumes("viewfs://all/data/d", &mounts, &[]);
}

/// A failed read: its code is 5, its last line names path and cause, and nothing moved.
#[track_caller]
fn refused(output: Output, path: &str, causes: &[&str]) {
    let output = output.expect(5);
    let last = output.stderr.lines().rfind(|line| line.contains("error")).unwrap_or_default().to_owned();
    assert!(last.contains(path), "no {path} in {last:?}");
    for cause in causes {
        assert!(last.contains(cause), "no {cause:?} in {last:?}");
    }
    assert_eq!(output.stdout, "", "nothing is read before the position is known");
}

#[test]
fn r06_a_bucket_that_does_not_exist_is_no_first_run() {
    let Some(cache) = Cache::with(&["moto", "azurite", "python"]) else { return };
    let (moto, azurite, stand_in, api) =
        (Moto::shared(&cache), Azurite::shared(&cache), GcsStandIn::shared(&cache), api());
    let s3 = Directory { path: "s3a://no-such-bucket/x".into(), ..s3(&moto, "s3a") };
    refused(place(&api, &s3.path, &s3.block()).read("rows").output(), &s3.path, &["NoSuchBucket"]);
    let path = "abfss://no-such@devstoreaccount1.dfs.core.windows.net/x".to_owned();
    let azure = Directory { path, ..azure(&azurite, "abfss") };
    refused(place(&api, &azure.path, &azure.block()).read("rows").output(), &azure.path, &["ContainerNotFound"]);
    let google = Directory { path: "gs://no-such-bucket/x".into(), ..google(&stand_in) };
    refused(place(&api, &google.path, &google.block()).read("rows").output(), &google.path, &["NoSuchBucket"]);
    assert!(api.asked().is_empty(), "nothing was asked of the API");
}

#[test]
fn r06_a_server_that_is_no_store_is_no_first_run() {
    let api = api();
    let page = Reply::text("<html>no such page</html>").with_status(404);
    let not_found = Api::new(vec![Route::new("GET", "/bucket/x/rows.checkpoint.json", page)]);
    let block = |endpoint: &str| {
        format!(
            "hadoop {{ \"fs.s3a.endpoint\" = \"{endpoint}\", \"fs.s3a.access.key\" = AKIDTEST, \
             \"fs.s3a.secret.key\" = \"made-up-secret\" }}"
        )
    };
    let place = place(&api, "s3a://bucket/x", &block(&not_found.base()));
    refused(place.read("rows").output(), "s3a://bucket/x/rows.checkpoint.json", &["404", "no such page"]);
}

#[test]
fn r19_a_wrong_endpoint_fails_within_the_time_outs() {
    let api = api();
    for (path, block) in [
        (
            "s3a://bucket/x",
            "hadoop { \"fs.s3a.endpoint\" = \"http://127.0.0.1:1\", \"fs.s3a.access.key\" = AKIDTEST, \
             \"fs.s3a.secret.key\" = \"made-up-secret\", \"fs.s3a.attempts.maximum\" = \"1\" }",
        ),
        ("hdfs://127.0.0.1:1/x", "hadoop { \"dfs.client.failover.max.attempts\" = \"1\" }"),
    ] {
        let output = place(&api, path, block).read("rows").patience(Duration::from_mins(2)).output();
        refused(output, path, &["onnect"]);
    }
}

#[test]
fn r17_a_store_that_redirects_gets_no_credential_to_another_host_and_is_no_first_run() {
    let (api, foreign) = (api(), Api::new(vec![]));
    let location = format!("{}/bucket/x/rows.checkpoint.json", foreign.base());
    for status in [301, 302, 307, 308] {
        let reply = Reply::text("").with_status(status).header("Location", &location);
        let redirecting = Api::new(vec![Route::new("GET", "/bucket/x/rows.checkpoint.json", reply)]);
        let block = format!(
            "hadoop {{ \"fs.s3a.endpoint\" = \"{}\", \"fs.s3a.access.key\" = AKIDTEST, \
             \"fs.s3a.secret.key\" = \"made-up-secret\", \"fs.s3a.session.token\" = \"made-up-token\" }}",
            redirecting.base()
        );
        let output = place(&api, "s3a://bucket/x", &block).run(&["checkpoint", "show", "CONFIG", "rows"]).output();
        refused(output, "s3a://bucket/x/rows.checkpoint.json", &[]);
    }
    assert!(foreign.asked().is_empty(), "nothing was asked elsewhere: {:?}", foreign.asked());
}

#[test]
fn r06_a_directory_on_hdfs_in_place_of_the_file_is_no_first_run() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let (cluster, api, dir) = (Hdfs::shared(&cache), api(), fresh());
    cluster.shell(&["-mkdir", "-p", &format!("/{dir}/rows.checkpoint.json")]);
    let path = format!("{}/{dir}", cluster.url());
    refused(place(&api, &path, "").read("rows").output(), &path, &["is not a file"]);
    assert!(api.asked().is_empty(), "nothing was asked of the API");
}

#[test]
fn r08_a_claim_of_a_number_that_no_counting_reaches_blocks_nobody() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let (cluster, api, dir) = (Hdfs::shared(&cache), api(), fresh());
    let claim = format!("/{dir}/.rows.checkpoint.json.{}-ffffffffffffffff.claim", u64::MAX);
    cluster.shell(&["-mkdir", "-p", &format!("/{dir}")]);
    cluster.shell(&["-touchz", &claim]);
    let place = place(&api, &format!("{}/{dir}", cluster.url()), "");
    assert_eq!(place.read("rows").output().expect(0).ids(), [1, 2, 3]);
    assert_eq!(place.read("rows").output().expect(0).ids(), [3]);
}

/// What S3 answers to credentials that have expired and to a clock that is off, from a server that always says so.
#[test]
fn r23_expired_credentials_and_a_clock_that_is_off_are_said_in_one_line() {
    let api = api();
    for (code, hint) in [("ExpiredToken", "get new ones"), ("RequestTimeTooSkewed", "clock")] {
        let xml = format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>Said so.</Message></Error>");
        let target = "/bucket/x/rows.checkpoint.json";
        let refusing = Api::new(vec![Route::new("GET", target, Reply::text(&xml).with_status(403))]);
        let block = format!(
            "hadoop {{ \"fs.s3a.endpoint\" = \"{}\", \"fs.s3a.access.key\" = AKIDTEST, \
             \"fs.s3a.secret.key\" = \"made-up-secret\", \"fs.s3a.session.token\" = \"made-up-token\" }}",
            refusing.base()
        );
        let output = place(&api, "s3a://bucket/x", &block).read("rows").args(["-vv"]).output();
        assert!(!output.stderr.contains("made-up"), "{}", output.stderr);
        refused(output, "s3a://bucket/x/rows.checkpoint.json", &[code, "Said so.", hint]);
    }
}

#[test]
fn r11_what_cannot_open_a_store_is_said_at_load() {
    let api = api();
    for (path, block, cause) in [
        ("s3x://bucket/x", "", "s3x"),
        ("s3a:///x", "", "bucket"),
        ("s3a://bucket/x", "", "AWS_ACCESS_KEY_ID"),
        ("s3a://bucket/x", "hadoop { \"fs.s3a.access.key\" = a }", "fs.s3a.secret.key"),
        ("gs://bucket/x", "", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("gs://b/x", "hadoop { \"fs.gs.auth.service.account.json.keyfile\" = \"/no/such.json\" }", "/no/such.json"),
        ("viewfs://all/x", "", "mounttable"),
        ("hdfs:///x", "", "fs.defaultFS"),
        ("dbfs:/x", "", "mounted"),
    ] {
        let place = place(&api, path, block);
        let run = place.run(&["check", "CONFIG"]).env("AWS_EC2_METADATA_DISABLED", "true");
        let output = run.env("NO_GCE_CHECK", "true").output().expect(2);
        output.says("tables.rows.checkpoint.path").says(cause);
    }
}

#[test]
fn r07_a_datanode_that_is_killed_between_two_commits_costs_nothing() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::of_its_own(&cache);
    let api = api();
    let place = place(&api, &format!("{}/ckpt", cluster.url()), "");
    let read = || place.read("rows").patience(Duration::from_mins(3)).output().expect(0).ids();
    assert_eq!(read(), [1, 2, 3]);
    cluster.kill_datanode(1);
    for _ in 0..4 {
        assert_eq!(read(), [3], "the NameNode still counts on it, and so may a new file");
    }
    cluster.start_datanode(1);
    assert_eq!(read(), [3]);
    // However few nodes took it at first.
    let replicas = || cluster.shell(&["-stat", "%r", "/ckpt/rows.checkpoint.json"]).trim().to_owned();
    assert_eq!(replicas(), "3");
}

#[test]
fn r07_a_namenode_that_is_killed_and_started_again_keeps_the_position() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::of_its_own(&cache);
    let api = api();
    let path = format!("{}/ckpt", cluster.url());
    let place = place(&api, &path, "hadoop { \"dfs.client.failover.max.attempts\" = \"1\" }");
    assert_eq!(place.read("rows").output().expect(0).ids(), [1, 2, 3]);
    cluster.kill_namenode();
    refused(place.read("rows").output(), &path, &["onnect"]);
    cluster.start_namenode();
    assert_eq!(place.read("rows").output().expect(0).ids(), [3]);
}

#[test]
fn r07_a_quota_and_a_directory_without_a_right_move_nothing() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    let api = api();
    let dir = format!("/{}", fresh());
    let path = format!("{}{dir}/ckpt", cluster.url());
    let place = place(&api, &path, "");
    let last = |output: Output| output.expect(5).stderr;
    cluster.shell(&["-mkdir", "-p", &format!("{dir}/ckpt")]);
    cluster.shell(&["-chmod", "777", &format!("{dir}/ckpt")]);

    // No file more; no byte more; enough again.
    for quota in ["-setQuota", "-setSpaceQuota"] {
        cluster.admin(&[quota, if quota == "-setQuota" { "1" } else { "1000" }, &format!("{dir}/ckpt")]);
        let said = last(place.read("rows").output());
        assert!(said.contains("QuotaExceeded") && said.contains(&path), "{said}");
        assert!(cluster.shell(&["-ls", &format!("{dir}/ckpt")]).trim().is_empty(), "a claim was left");
        cluster.admin(&[if quota == "-setQuota" { "-clrQuota" } else { "-clrSpaceQuota" }, &format!("{dir}/ckpt")]);
    }
    assert_eq!(place.read("rows").output().expect(0).ids(), [1, 2, 3]);
    let before = cluster.shell(&["-cat", &format!("{dir}/ckpt/rows.checkpoint.json")]);

    // A user who may read and not write, and one who may not even look.
    cluster.shell(&["-chmod", "755", &format!("{dir}/ckpt")]);
    let said = last(place.read("rows").env("HADOOP_USER_NAME", "somebody").output());
    assert!(said.contains("AccessControlException") && said.contains(&path), "{said}");
    cluster.shell(&["-chmod", "700", &format!("{dir}/ckpt")]);
    refused(
        place.read("rows").env("HADOOP_USER_NAME", "somebody").output(),
        &path,
        &["AccessControlException", "somebody"],
    );
    assert_eq!(cluster.shell(&["-cat", &format!("{dir}/ckpt/rows.checkpoint.json")]), before);
    assert_eq!(place.read("rows").output().expect(0).ids(), [3]);
}

/// The first HOCON block of a page of the guide, which shows a whole configuration.
fn shown_in(page: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/stores").join(page);
    let text = std::fs::read_to_string(path).expect("a page");
    let (_, rest) = text.split_once("```hocon\n").expect("a block");
    rest.split_once("```").expect("its end").0.to_owned()
}

/// What the guide shows was run: only addresses, buckets and directories are others here.
#[test]
fn the_configurations_of_the_guide_run() {
    let Some(cache) = Cache::with(&["hadoop", "moto", "azurite", "python"]) else { return };
    let (moto, azurite) = (Moto::shared(&cache), Azurite::shared(&cache));
    let (cluster, stand_in) = (Hdfs::shared(&cache), GcsStandIn::shared(&cache));
    moto.make_bucket("lake");
    azurite.make_container("lake");
    let key = tempfile::NamedTempFile::new().expect("a file");
    let key_path = key.path().display().to_string();
    std::fs::write(
        key.path(),
        r#"{ "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": "" }"#,
    )
    .expect("a key file");
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("restmark").display().to_string();
    for (page, here) in [
        ("local.md", vec![("/var/lib/restmark", dir.as_str())]),
        ("hdfs.md", vec![("hdfs://namenode:8020", &cluster.url())]),
        ("s3.md", vec![("https://s3.eu-central-1.amazonaws.com", moto.endpoint())]),
        (
            "google.md",
            vec![("https://storage.googleapis.com", stand_in.endpoint()), ("/etc/restmark/key.json", &key_path)],
        ),
        (
            "azure.md",
            vec![("https://lakeaccount.blob.core.windows.net", &azurite.endpoint()), ("lakeaccount", Azurite::ACCOUNT)],
        ),
    ] {
        let rows: Vec<Value> = vec![json!({ "id": 1 }), json!({ "id": 2 })];
        let api = Api::new(vec![
            get("/orders?offset=0&limit=100", &json!(rows)),
            get("/orders?offset=2&limit=100", &json!([])),
        ]);
        let config = shown_in(page).replace("https://shop.example.com/api/v2", "{{BASE}}");
        let config = here.iter().fold(config, |config, (there, here)| {
            assert!(config.contains(there), "{page}: no {there}");
            config.replace(there, here)
        });
        let place = Place::new(&api.base(), &config);
        let run = || {
            let read = place.read("orders").env("LAKE_ACCESS_KEY", "AKIDTEST").env("LAKE_SECRET_KEY", "made-up-secret");
            read.env("LAKE_ACCOUNT_KEY", Azurite::KEY).output().expect(0)
        };
        assert_eq!(run().rows(), rows, "{page}");
        assert_eq!(run().rows(), Vec::<Value>::new(), "{page}: resumed");
    }
}
