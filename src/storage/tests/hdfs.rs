//! HDFS: name services, ports, mount tables, Kerberos.

use super::*;

fn options(text: &str, properties: Pairs<'_>) -> HdfsOptions {
    match opened(text, properties, &[]) {
        Ok(Opened::Hdfs(options)) => options,
        other => panic!("{text} {properties:?}: {other:?}"),
    }
}

fn url(text: &str, properties: Pairs<'_>) -> String {
    let options = options(text, properties);
    format!("{} {}", options.url, options.dir)
}

const HA: [(&str, &str); 4] = [
    ("dfs.nameservices", "ns_1"),
    ("dfs.ha.namenodes.ns_1", "nn1, nn2"),
    ("dfs.namenode.rpc-address.ns_1.nn1", "a:9000"),
    ("dfs.namenode.rpc-address.ns_1.nn2", "b"),
];

#[test]
fn r09_a_host_has_a_port_unless_it_is_a_name_service() {
    assert_eq!(url("hdfs://nn/a/b/", &[]), "hdfs://nn:8020 /a/b");
    assert_eq!(url("hdfs://nn:9000", &[]), "hdfs://nn:9000 /");
    assert_eq!(url("hdfs://[::1]/a", &[]), "hdfs://[::1]:8020 /a");
    assert_eq!(url("hdfs://ns_1/a", &HA), "hdfs://ns_1 /a");
    assert_eq!(url("hdfs://one/a", &[("dfs.namenode.rpc-address.one", "h:1")]), "hdfs://h:1 /a");
    let config = options("hdfs://ns_1/a", &HA).config;
    assert_eq!(config["dfs.ha.namenodes.ns_1"], "nn1,nn2", "the client does not trim");
    assert_eq!(config["dfs.namenode.rpc-address.ns_1.nn2"], "b:8020");
}

#[test]
fn r09_without_a_host_the_default_file_system_names_it() {
    for text in ["hdfs:///a", "hdfs:/a"] {
        assert_eq!(url(text, &[("fs.defaultFS", "hdfs://nn:1/")]), "hdfs://nn:1 /a");
        let ha: Vec<_> = HA.iter().copied().chain([("fs.defaultFS", "hdfs://ns_1")]).collect();
        assert_eq!(url(text, &ha), "hdfs://ns_1 /a");
        refuses(text, &[], &[], &["names no host", "fs.defaultFS"]);
        refuses(text, &[("fs.defaultFS", "s3a://b")], &[], &["fs.defaultFS", "hdfs://"]);
        refuses(text, &[("fs.defaultFS", "xx://b")], &[], &["fs.defaultFS", "unknown scheme"]);
    }
}

#[test]
fn r11_a_name_service_without_addresses_is_a_problem() {
    refuses("hdfs://ns_1/a", &HA[..2], &[], &["rpc-address.ns_1.nn1: required", "rpc-address.ns_1.nn2: required"]);
    refuses("hdfs://ns_1/a", &HA[..1], &[], &["dfs.ha.namenodes.ns_1 or dfs.namenode.rpc-address.ns_1: required"]);
    refuses("hdfs://ns_1/a", &[("dfs.ha.namenodes.ns_1", " ")], &[], &["names no name node"]);
}

#[test]
fn r09_a_silent_name_node_is_not_waited_for_long() {
    let config = options("hdfs://nn/a", &[("dfs.replication", "2")]).config;
    let of = |name: &str| config[name].as_str();
    assert_eq!((of("dfs.client.failover.max.attempts"), of("dfs.client.socket-timeout")), ("4", "10000"));
    assert_eq!(of("dfs.replication"), "2");
    let set = [("dfs.client.failover.max.attempts", "9"), ("dfs.client.socket-timeout", "60s")];
    let config = options("hdfs://nn/a", &set).config;
    assert_eq!((&*config["dfs.client.failover.max.attempts"], &*config["dfs.client.socket-timeout"]), ("9", "60000"));
    refuses("hdfs://nn/a", &[("dfs.client.socket-timeout", "x")], &[], &["dfs.client.socket-timeout"]);
}

#[test]
fn r09_kerberos_has_a_principal_and_a_key_file() {
    let dir = tempfile::tempdir().unwrap();
    let keytab = dir.path().join("me.keytab");
    std::fs::write(&keytab, "k").unwrap();
    let keytab = keytab.to_str().unwrap();
    let (principal, file) = (("dfs.client.kerberos.principal", "me@X"), ("dfs.client.keytab.file", keytab));
    let options = options("hdfs://nn/a", &[("hadoop.security.authentication", "kerberos"), principal, file]);
    assert_eq!((options.principal.as_deref(), options.keytab.as_deref()), (Some("me@X"), Some(keytab)));
    assert_eq!(options.config["hadoop.security.authentication"], "kerberos");
    refuses("hdfs://nn/a", &[file], &[], &["keytab.file is set without dfs.client.kerberos.principal"]);
    refuses("hdfs://nn/a", &[principal, ("dfs.client.keytab.file", "/no/such")], &[], &["/no/such"]);
    refuses("hdfs://nn/a", &[("hadoop.security.authentication", "ldap")], &[], &["simple or kerberos"]);
}

#[test]
fn r09_mount_tables_lead_to_their_targets() {
    let table = [
        ("fs.viewfs.mounttable.c.link./data", "hdfs://nn1/warehouse/"),
        ("fs.viewfs.mounttable.c.link./data/hot", "hdfs://nn2:1/hot"),
        ("fs.viewfs.mounttable.c.link./bucket", "s3a://b/x"),
        ("fs.viewfs.mounttable.c.link./local", "file:///srv"),
        ("fs.viewfs.mounttable.c.link./bad", "viewfs://d/"),
        ("fs.viewfs.mounttable.c.homedir", "/user"),
        ("fs.s3a.aws.credentials.provider", "AnonymousAWSCredentialsProvider"),
    ];
    assert_eq!(url("viewfs://c/data/a/b", &table), "hdfs://nn1:8020 /warehouse/a/b");
    assert_eq!(url("viewfs://c/data", &table), "hdfs://nn1:8020 /warehouse");
    assert_eq!(url("viewfs://c/data/hot/x", &table), "hdfs://nn2:1 /hot/x");
    assert_eq!(url("viewfs://c/data/hotter", &table), "hdfs://nn1:8020 /warehouse/hotter");
    assert_eq!(objects("viewfs://c/bucket/y", &table, &[]).0.prefix.as_ref(), "x/y");
    assert!(
        matches!(opened("viewfs://c/local/y", &table, &[]), Ok(Opened::Local(dir)) if dir == std::path::Path::new("/srv/y"))
    );
    refuses("viewfs://c/dat", &table, &[], &["no mount of \"c\" holds /dat"]);
    refuses("viewfs://c/bad/x", &table, &[], &["link./bad", "another mount table"]);
    refuses("viewfs://d/x", &table, &[], &["no mount table of \"d\""]);
    refuses("viewfs:///x", &table, &[], &["names no host"]);
    let by_default: Vec<_> = table.iter().copied().chain([("fs.defaultFS", "viewfs://c/")]).collect();
    assert_eq!(url("viewfs:///data/a", &by_default), "hdfs://nn1:8020 /warehouse/a");
    let fallback = [("fs.viewfs.mounttable.default.linkFallback", "hdfs://nn3/base")];
    assert_eq!(url("viewfs:/a", &fallback), "hdfs://nn3:8020 /base/a");
}

#[test]
fn r23_options_show_names_only() {
    let debug = format!("{:?}", options("hdfs://nn/a", &[("fs.s3a.secret.key", "S3CR3T-x")]));
    assert!(debug.contains("fs.s3a.secret.key") && !debug.contains("S3CR3T"), "{debug}");
}
