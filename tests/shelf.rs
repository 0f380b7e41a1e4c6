//! Shelves of files on real storage: HDFS, S3 (Moto), Azure (Azurite) and a stand-in of Google's XML calls.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;

use restmark::error::Result;
use restmark::storage::shelf::suite::{self, Load};
use restmark::storage::{Location, Settings};

use crate::stores::{Directory, azure, fresh, google, hdfs, s3};
use crate::support::hdfs::Hdfs;
use crate::support::servers::Cache;
use crate::support::stores::{Azurite, GcsStandIn, Moto};

/// Sixteen at once; twenty megabytes are three parts, and twenty blocks of the cluster.
const LOAD: Load = Load { racers: 16, rounds: 20, large: 20_000_000 };

fn opens(directory: &Directory) -> (Location, Settings) {
    let location = directory.path.parse().expect("a location");
    (location, Settings::new(directory.properties.clone(), &HashMap::new()))
}

async fn keeps_the_contract(directory: &Directory, load: Load) {
    let (location, settings) = opens(directory);
    suite::run(&location, &settings, load).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_shelf_on_s3_keeps_the_contract() {
    let Some(cache) = Cache::with(&["moto"]) else { return };
    let server = Moto::shared(&cache);
    keeps_the_contract(&s3(&server, "s3a"), LOAD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_shelf_on_azure_keeps_the_contract() {
    let Some(cache) = Cache::with(&["azurite"]) else { return };
    let server = Azurite::shared(&cache);
    keeps_the_contract(&azure(&server, "abfss"), LOAD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_shelf_on_google_keeps_the_contract_as_far_as_a_stand_in_can_tell() {
    let Some(cache) = Cache::with(&["python"]) else { return };
    let server = GcsStandIn::shared(&cache);
    keeps_the_contract(&google(&server), LOAD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_shelf_on_hdfs_keeps_the_contract() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let server = Hdfs::shared(&cache);
    keeps_the_contract(&hdfs(&server), Load { rounds: 3, ..LOAD }).await;
}

/// One line that names the file and says why.
#[track_caller]
fn refused<T: std::fmt::Debug>(done: Result<T>, name: &str, why: &str) {
    let said = done.expect_err("a refusal").to_string();
    assert!(said.contains(name) && said.contains(why) && said.lines().count() == 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_what_hdfs_does_not_allow_is_said_in_one_line_and_leaves_nothing() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    let dir = fresh();
    let at = |name: &str| {
        let location: Location = format!("{}/{dir}/{name}", cluster.url()).parse().expect("a location");
        (location, Settings::default())
    };
    cluster.shell(&["-mkdir", "-p", &format!("/{dir}/names"), &format!("/{dir}/space")]);
    cluster.shell(&["-touchz", &format!("/{dir}/file")]);
    cluster.admin(&["-setQuota", "1", &format!("/{dir}/names")]);
    cluster.admin(&["-setSpaceQuota", "4m", &format!("/{dir}/space")]);
    let create = async |(location, settings): &(Location, Settings)| {
        suite::create(location, settings, "0", b"entry".to_vec()).await
    };
    let upload = async |(location, settings): &(Location, Settings)| {
        let mut file: File = tempfile::tempfile().expect("a file");
        file.write_all(&vec![7; 5 << 20]).expect("a write");
        suite::upload(location, settings, file, "rows").await
    };
    refused(create(&at("names")).await, "names/0", "NSQuotaExceededException");
    refused(upload(&at("names")).await, "names/rows", "NSQuotaExceededException");
    // An entry needs one block of three replicas; five megabytes need more.
    assert!(create(&at("space")).await.unwrap());
    refused(upload(&at("space")).await, "space/rows", "DSQuotaExceededException");
    refused(create(&at("file")).await, "file/0", "file");
    assert_eq!(cluster.shell(&["-ls", "-C", &format!("/{dir}/names")]), "");
    assert_eq!(cluster.shell(&["-ls", "-C", &format!("/{dir}/space")]).trim(), format!("/{dir}/space/0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_datanode_that_is_killed_costs_no_entry_and_no_upload() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::of_its_own(&cache);
    let (location, settings) = opens(&hdfs(&cluster));
    cluster.kill_datanode(1);
    for n in 0..4 {
        let made = suite::create(&location, &settings, &n.to_string(), b"entry".to_vec()).await;
        assert!(made.unwrap(), "the NameNode still counts on it, and so may a new file");
    }
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&vec![7; 5 << 20]).expect("a write");
    suite::upload(&location, &settings, file, "rows").await.unwrap();
    let dir = location.to_string().replace(&cluster.url(), "");
    let stat = cluster.shell(&["-stat", "%r %b", &format!("{dir}/rows")]);
    assert_eq!(stat.trim(), "3 5242880");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_on_hdfs_long_ago_is_swept() {
    let Some(cache) = Cache::with(&["hadoop"]) else { return };
    let cluster = Hdfs::shared(&cache);
    let dir = format!("/{}", fresh());
    cluster.shell(&["-mkdir", &dir]);
    let at = |name: &str| format!("{dir}/{name}");
    let (old, young, other) =
        (at(".00000000000000aa.created"), at(".00000000000000bb.created"), at(".00000000000000cc.tmp"));
    cluster.shell(&["-touch", "-m", "-t", "20200101:000000", &old, &other]);
    cluster.shell(&["-touchz", &young]);
    let location: Location = format!("{}{dir}", cluster.url()).parse().expect("a location");
    assert!(suite::create(&location, &Settings::default(), "0", b"entry".to_vec()).await.unwrap());
    let left = cluster.shell(&["-ls", "-C", &dir]);
    assert_eq!(left.lines().collect::<Vec<_>>(), [young.as_str(), &other, &at("0")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_a_bucket_that_does_not_exist_holds_no_empty_shelf() {
    let Some(cache) = Cache::with(&["moto", "azurite", "python"]) else { return };
    let (moto, azurite, stand_in) = (Moto::shared(&cache), Azurite::shared(&cache), GcsStandIn::shared(&cache));
    for (directory, path, why) in [
        (s3(&moto, "s3a"), "s3a://no-such-bucket/x", "NoSuchBucket"),
        (azure(&azurite, "abfss"), "abfss://no-such@devstoreaccount1.dfs.core.windows.net/x", "ContainerNotFound"),
        (google(&stand_in), "gs://no-such-bucket/x", "NoSuchBucket"),
    ] {
        let (location, (_, settings)) = (path.parse().expect("a location"), opens(&directory));
        refused(suite::create(&location, &settings, "0", b"entry".to_vec()).await, "x/0", why);
        let said = suite::run(&location, &settings, LOAD).await.expect_err("a refusal");
        assert!(said.starts_with("missing: ") && said.contains(why), "{said}");
    }
}
