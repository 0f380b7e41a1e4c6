//! A real HDFS on loopback: one NameNode and three DataNodes, each in a process of its own that a test may kill.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::PATIENCE;
use super::http::try_to_ask;
use super::process::Process;
use super::servers::{Cache, shared};

/// How many DataNodes there are.
pub(crate) const DATANODES: usize = 3;

const NAMENODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATANODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";

/// A cluster that runs until it is dropped. Its superuser is who runs the tests; `HADOOP_USER_NAME` in a client's
/// environment makes it another user. A file has three replicas, and is written once one is; blocks are of 1 MiB.
pub(crate) struct Hdfs {
    // The processes go before their folder.
    nodes: Mutex<Nodes>,
    port: u16,
    jars: PathBuf,
    dir: TempDir,
}

#[derive(Default)]
struct Nodes {
    name: Option<Node>,
    data: [Option<Node>; DATANODES],
    /// How many logs there are; every start has its own.
    logs: usize,
}

/// A process, its log, and the port that the log named: of HTTP for the NameNode, of blocks for a DataNode.
struct Node {
    process: Process,
    log: PathBuf,
    port: u16,
}

impl Hdfs {
    /// A cluster that tests which run at the same time share. Its nodes are not to be killed.
    pub(crate) fn shared(cache: &Cache) -> Arc<Self> {
        static SHARED: Mutex<Weak<Hdfs>> = Mutex::new(Weak::new());
        shared(&SHARED, || Self::of_its_own(cache))
    }

    /// A cluster for a test that kills nodes.
    pub(crate) fn of_its_own(cache: &Cache) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let hdfs = Self { nodes: Mutex::default(), port: lasting_port(), jars: cache.path("hadoop"), dir };
        // The servers insist on folders for their pages, and take ten seconds to unpack those of their jars.
        for folder in ["logs", "tmp", "conf/webapps/hdfs", "conf/webapps/datanode", "conf/webapps/static"] {
            std::fs::create_dir_all(hdfs.dir.path().join(folder)).expect("a directory");
        }
        hdfs.configure();
        hdfs.java(NAMENODE, &["-format", "-nonInteractive"]);
        {
            let mut nodes = hdfs.lock();
            // All at once, as the DataNodes wait for the NameNode by themselves.
            hdfs.spawn_namenode(&mut nodes);
            for i in 0..DATANODES {
                hdfs.spawn_datanode(&mut nodes, i);
            }
            nodes.settle();
        }
        hdfs
    }

    /// `hdfs://127.0.0.1:port`.
    pub(crate) fn url(&self) -> String {
        format!("hdfs://127.0.0.1:{}", self.port)
    }

    /// The NameNode's port, which stays the same when it is started again.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The folder with `core-site.xml` and `hdfs-site.xml`, for a client's `HADOOP_CONF_DIR`.
    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.path().join("conf")
    }

    /// Kills a DataNode at once; the NameNode notices after about eleven seconds.
    pub(crate) fn kill_datanode(&self, i: usize) {
        self.lock().data[i].take().expect("a DataNode that runs");
    }

    /// Starts a killed DataNode over the blocks it had, on other ports, and waits until the NameNode counts on it.
    pub(crate) fn start_datanode(&self, i: usize) {
        let mut nodes = self.lock();
        assert!(nodes.data[i].is_none(), "DataNode {i} runs");
        self.spawn_datanode(&mut nodes, i);
        nodes.settle();
    }

    /// Kills the NameNode at once.
    pub(crate) fn kill_namenode(&self) {
        self.lock().name.take().expect("a NameNode that runs");
    }

    /// Starts a killed NameNode and waits until every DataNode that runs is back and safe mode is over.
    pub(crate) fn start_namenode(&self) {
        let mut nodes = self.lock();
        assert!(nodes.name.is_none(), "the NameNode runs");
        self.spawn_namenode(&mut nodes);
        nodes.settle();
    }

    /// How many DataNodes the NameNode counts on.
    pub(crate) fn live(&self) -> usize {
        self.lock().members().expect("a NameNode that answers").1.len()
    }

    /// `hadoop fs` as the superuser; its standard output. A path without a scheme is one of this cluster.
    #[track_caller]
    pub(crate) fn shell(&self, args: &[&str]) -> String {
        self.java("org.apache.hadoop.fs.FsShell", args)
    }

    /// `hdfs dfsadmin` as the superuser; its standard output.
    #[track_caller]
    pub(crate) fn admin(&self, args: &[&str]) -> String {
        self.java("org.apache.hadoop.hdfs.tools.DFSAdmin", args)
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn configure(&self) {
        let (url, dir) = (self.url(), self.dir.path().display());
        let (tmp, name) = (format!("{dir}/tmp"), format!("file://{dir}/name"));
        let core = [
            ("fs.defaultFS", url.as_str()),
            ("hadoop.tmp.dir", &tmp),
            // A NameNode that starts again is found soon; one that stays away is given up after ten seconds.
            ("ipc.client.connect.retry.interval", "200"),
            ("ipc.client.connect.max.retries", "50"),
        ];
        let hdfs = [
            ("dfs.namenode.name.dir", name.as_str()),
            ("dfs.namenode.http-address", "127.0.0.1:0"),
            ("dfs.datanode.address", "127.0.0.1:0"),
            ("dfs.datanode.http.address", "127.0.0.1:0"),
            ("dfs.datanode.ipc.address", "127.0.0.1:0"),
            ("dfs.datanode.hostname", "127.0.0.1"),
            ("dfs.namenode.datanode.registration.ip-hostname-check", "false"),
            ("dfs.permissions.enabled", "true"),
            ("dfs.replication", "3"),
            ("dfs.namenode.replication.min", "1"),
            // A space quota is charged with whole blocks, so they are the smallest that are allowed.
            ("dfs.blocksize", "1048576"),
            ("dfs.namenode.safemode.extension", "0"),
            // A DataNode is dead after 2 x the recheck interval and 10 heartbeats without a word.
            ("dfs.heartbeat.interval", "1"),
            ("dfs.namenode.heartbeat.recheck-interval", "500"),
            ("dfs.namenode.redundancy.interval.seconds", "1"),
            // With three DataNodes there is none to put in the place of a dead one.
            ("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER"),
            ("dfs.datanode.du.reserved", "0"),
            ("dfs.namenode.handler.count", "4"),
            ("dfs.datanode.handler.count", "3"),
            ("dfs.datanode.scan.period.hours", "-1"),
        ];
        self.write_xml("core-site.xml", &core);
        self.write_xml("hdfs-site.xml", &hdfs);
    }

    fn write_xml(&self, name: &str, settings: &[(&str, &str)]) {
        let property = |(key, value)| format!("<property><name>{key}</name><value>{value}</value></property>\n");
        let properties: String = settings.iter().copied().map(property).collect();
        let xml = format!("<configuration>\n{properties}</configuration>\n");
        std::fs::write(self.conf().join(name), xml).expect("a file");
    }

    /// A small JVM that starts fast.
    fn jvm(&self, class: &str, log_level: &str) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto"]);
        command.arg("-Djava.net.preferIPv4Stack=true");
        command.arg(format!("-Djava.io.tmpdir={}", self.dir.path().join("tmp").display()));
        command.arg(format!("-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"));
        // It has a line for each of 65,536 locks.
        command.arg("-Dorg.slf4j.simpleLogger.log.org.apache.hadoop.hdfs.server.datanode.fsdataset=warn");
        command.args([
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ]);
        command.arg("-cp").arg(format!("{}:{}/*", self.conf().display(), self.jars.display())).arg(class);
        // What a person has set for a cluster of their own stays out.
        for name in ["HADOOP_USER_NAME", "HADOOP_CONF_DIR", "HADOOP_PROXY_USER", "CLASSPATH", "JDK_JAVA_OPTIONS"] {
            command.env_remove(name);
        }
        command.current_dir(self.dir.path());
        command
    }

    /// Runs a class to its end, which must be a success.
    #[track_caller]
    fn java(&self, class: &str, args: &[&str]) -> String {
        let (out, err) = (tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file"));
        let mut command = self.jvm(class, "warn");
        let streams = (out.try_clone().expect("a file"), err.try_clone().expect("a file"));
        let mut process = Process::start(command.args(args), streams.0, streams.1);
        let start = Instant::now();
        let status = loop {
            match process.ended() {
                Some(status) => break Some(status),
                None if start.elapsed() > PATIENCE => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let (out, err) = (text_of(out), text_of(err));
        assert!(status.is_some_and(|status| status.success()), "{class} {args:?}: {status:?}\n{out}\n{err}");
        out
    }

    fn spawn_namenode(&self, nodes: &mut Nodes) {
        nodes.name = Some(self.spawn(&mut nodes.logs, &self.jvm(NAMENODE, "info")));
    }

    fn spawn_datanode(&self, nodes: &mut Nodes, i: usize) {
        let mut command = self.jvm(DATANODE, "info");
        command.arg("-D").arg(format!("dfs.datanode.data.dir=file://{}/data{i}", self.dir.path().display()));
        nodes.data[i] = Some(self.spawn(&mut nodes.logs, &command));
    }

    fn spawn(&self, logs: &mut usize, command: &Command) -> Node {
        *logs += 1;
        let log = self.dir.path().join(format!("logs/{logs}.log"));
        let file = File::create(&log).expect("a file");
        let process = Process::start(command, file.try_clone().expect("a file"), file);
        Node { process, log, port: 0 }
    }
}

impl Nodes {
    /// Waits until those that were just started have named their ports, the NameNode counts on every DataNode that
    /// runs, and it is out of safe mode.
    fn settle(&mut self) {
        if let Some(node) = &mut self.name {
            node.await_port("NameNode", "Jetty bound to port ");
        }
        for node in self.data.iter_mut().flatten() {
            node.await_port("DataNode", "Opened streaming server at /127.0.0.1:");
        }
        let expected: Vec<_> = self.data.iter().flatten().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let start = Instant::now();
        loop {
            let seen = self.members();
            if let Some((false, live)) = &seen
                && expected.iter().all(|address| live.contains(address))
            {
                return;
            }
            if start.elapsed() > PATIENCE {
                let logs: Vec<_> = self.name.iter().chain(self.data.iter().flatten()).map(Node::tail).collect();
                panic!("waited for {expected:?}, safe mode and members are {seen:?}\n{}", logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether safe mode is on, and the addresses of the live DataNodes; nothing while the NameNode does not answer.
    fn members(&self) -> Option<(bool, Vec<String>)> {
        let base = format!("http://127.0.0.1:{}", self.name.as_ref()?.port);
        let answer = try_to_ask(&base, "GET", "/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo", &[], "").ok()?;
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        let info = answer["beans"].get(0)?;
        let live: Value = serde_json::from_str(info["LiveNodes"].as_str()?).ok()?;
        let live = live.as_object()?.values().filter_map(|node| node["xferaddr"].as_str()).map(str::to_owned).collect();
        Some((info["Safemode"] != "", live))
    }
}

impl Node {
    /// Waits until the log has the text that the port follows.
    fn await_port(&mut self, what: &str, text: &str) {
        let start = Instant::now();
        while self.port == 0 {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            // Only a whole line has the whole number.
            let port = log.split_once(text).and_then(|(_, rest)| rest.split_once('\n'));
            self.port = port.map_or(0, |(port, _)| port.trim().parse().expect("a port"));
            let ended = self.process.ended();
            assert!(
                ended.is_none() && start.elapsed() < PATIENCE,
                "the {what} did not start ({ended:?}):\n{}",
                self.tail()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The end of the log.
    fn tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        format!("{}:\n{}", self.log.display(), lines[lines.len().saturating_sub(40)..].join("\n"))
    }
}

/// A port that nobody is given by chance while its server is down: below those that the system hands out.
fn lasting_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).take(1000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

fn text_of(mut file: File) -> String {
    use std::io::{Read as _, Seek as _};
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("a text");
    text
}

/// The cluster itself.
mod tests {
    use super::*;

    /// Stores a file by way of a local one.
    fn put(hdfs: &Hdfs, path: &str, text: &str) {
        let local = hdfs.dir.path().join("local");
        std::fs::write(&local, text).expect("a file");
        hdfs.shell(&["-put", &local.display().to_string(), path]);
    }

    #[test]
    fn hdfs_has_owners_and_quotas() {
        let Some(cache) = Cache::with(&["hadoop"]) else { return };
        let hdfs = Hdfs::shared(&cache);
        hdfs.shell(&["-mkdir", "-p", "/own-test/of-ann"]);
        hdfs.shell(&["-chown", "ann", "/own-test/of-ann"]);
        hdfs.admin(&["-setQuota", "3", "/own-test"]);
        put(&hdfs, &format!("{}/own-test/file", hdfs.url()), "kept");
        let listed = hdfs.shell(&["-ls", "/own-test"]);
        assert!(listed.contains(" ann ") && listed.contains("/own-test/file"), "{listed}");
        // The quota, and what is left of it.
        let counts = hdfs.shell(&["-count", "-q", "/own-test"]);
        assert_eq!(counts.split_whitespace().take(2).collect::<Vec<_>>(), ["3", "0"], "{counts}");
        assert!(hdfs.conf().join("hdfs-site.xml").exists() && hdfs.url().ends_with(&hdfs.port().to_string()));
    }

    #[test]
    fn hdfs_outlives_its_nodes() {
        let Some(cache) = Cache::with(&["hadoop"]) else { return };
        let hdfs = Hdfs::of_its_own(&cache);
        put(&hdfs, "/before", "kept");
        hdfs.kill_datanode(1);
        hdfs.kill_namenode();
        assert!(try_to_ask(&format!("http://127.0.0.1:{}", hdfs.port()), "GET", "/", &[], "").is_err());
        hdfs.start_namenode();
        assert_eq!((hdfs.live(), hdfs.shell(&["-cat", "/before"])), (2, "kept".into()));
        hdfs.start_datanode(1);
        assert_eq!(hdfs.live(), 3);
        hdfs.kill_datanode(0);
        super::super::wait_for("a dead DataNode is noticed", PATIENCE, || (hdfs.live() == 2).then_some(()));
        assert_eq!(hdfs.shell(&["-cat", "/before"]), "kept");
    }
}
