//! Whole locations opened with made-up properties and variables; nothing here asks anybody.

mod azure;
mod google;
mod hdfs;
mod s3;
mod wire;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn settings(properties: Pairs<'_>, env: Pairs<'_>) -> Settings {
    let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    Settings::new(properties.iter().map(own).collect(), &env.iter().map(own).collect())
}

fn opened(text: &str, properties: Pairs<'_>, env: Pairs<'_>) -> Result<Opened, Vec<String>> {
    open(&location::parse(text).unwrap(), &settings(properties, env))
}

/// The store in its own words, which show all it is made of.
fn objects(text: &str, properties: Pairs<'_>, env: Pairs<'_>) -> (Objects, String) {
    match opened(text, properties, env) {
        Ok(Opened::Objects(objects)) => {
            let inside = format!("{:?}", objects.store);
            (objects, inside)
        }
        other => panic!("{text} {properties:?} {env:?}: {other:?}"),
    }
}

fn inside(text: &str, properties: Pairs<'_>, env: Pairs<'_>) -> String {
    objects(text, properties, env).1
}

#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[track_caller]
fn refuses(text: &str, properties: Pairs<'_>, env: Pairs<'_>, words: &[&str]) {
    match opened(text, properties, env) {
        Ok(opened) => panic!("{text} {properties:?} opens: {opened:?}"),
        Err(problems) => {
            let all = problems.join("\n");
            assert!(!all.contains("S3CR3T"), "{all}");
            has(&all, words);
        }
    }
}

#[test]
fn r09_a_local_directory_is_itself() {
    assert!(matches!(opened("/tmp/x", &[], &[]), Ok(Opened::Local(dir)) if dir == std::path::Path::new("/tmp/x")));
}

#[test]
fn r09_dbfs_is_a_mounted_directory() {
    let mount = tempfile::tempdir().unwrap();
    let location = location::parse("dbfs:/ckpt/a").unwrap();
    let there = open(&location, &settings(&[], &[]).with_dbfs(mount.path()));
    assert!(matches!(there, Ok(Opened::Local(dir)) if dir == mount.path().join("ckpt/a")));
    let gone = open(&location, &settings(&[], &[]).with_dbfs(&mount.path().join("none")));
    has(&gone.unwrap_err()[0], &["none", "not mounted"]);
}

#[test]
fn r11_broken_files_of_hadoop_are_a_problem_of_stores_only() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("core-site.xml"), "<configuration>\n<x>").unwrap();
    let env = [("HADOOP_CONF_DIR", dir.path().to_str().unwrap())];
    refuses("s3a://b/x", &[], &env, &["core-site.xml:2"]);
    refuses("hdfs://nn/x", &[], &env, &["core-site.xml:2"]);
    assert!(opened("/tmp/x", &[], &env).is_ok());
}
