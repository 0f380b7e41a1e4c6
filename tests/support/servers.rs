//! The real servers that `scripts/setup` installs, each on a port of its own choice and stopped by its process id.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;
use url::form_urlencoded;

use super::PATIENCE;
use super::http::ask;
use super::process::Process;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    _process: Process,
    base: String,
}

/// What `scripts/setup` left, or the reason why a test cannot run here.
pub(crate) struct Cache(PathBuf);

impl Cache {
    /// The cache, if these parts of it are there. Otherwise the reason is printed and the test is to return;
    /// with `RESTMARK_FORBID_SKIPS` it fails instead.
    pub(crate) fn with(parts: &[&str]) -> Option<Self> {
        let folder = std::env::var_os("RESTMARK_TEST_CACHE").map(PathBuf::from).or_else(|| {
            let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
            let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
            caches.map(|folder| folder.join("restmark-test"))
        })?;
        let missing = parts.iter().find(|part| !folder.join("stamps").join(part).exists());
        let Some(part) = missing else { return Some(Self(folder)) };
        let reason = std::fs::read_to_string(folder.join("missing").join(part));
        let reason = reason.unwrap_or_else(|_| format!("{part} is not set up; run scripts/setup"));
        assert!(std::env::var_os("RESTMARK_FORBID_SKIPS").is_none(), "skips are forbidden: {reason}");
        // Written past the capture of the test harness, which shows nothing of a test that passes.
        let _ = writeln!(std::io::stderr(), "skipped: {}", reason.trim());
        None
    }

    /// The folder of a part, or of a file below one.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file of the data.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.0.join("data").join(name)
    }

    /// What the setup counted and summed in a table of the data.
    pub(crate) fn totals(&self, table: &str) -> Value {
        let text = std::fs::read_to_string(self.data("totals.json")).expect("the totals");
        let totals: Value = serde_json::from_str(&text).expect("JSON");
        totals[table].clone()
    }

    /// A program of the Python environment.
    pub(crate) fn python(&self, program: &str) -> Command {
        Command::new(self.0.join("venv/bin").join(program))
    }

    /// Datasette over the flights; tests that run at the same time share it.
    pub(crate) fn datasette(&self) -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        shared(&SHARED, || self.datasette_over(&self.data("flights.db")))
    }

    /// Datasette over a database file that a test may change.
    pub(crate) fn datasette_over(&self, database: &Path) -> Server {
        let mut command = self.python("datasette");
        command.arg("serve").arg(database).args(["--host", "127.0.0.1", "--port", "0"]);
        command.args(["--setting", "max_returned_rows", "5000", "--setting", "sql_time_limit_ms", "30000"]);
        Server::start(command)
    }

    /// json-server over the airports.
    pub(crate) fn json_server(&self) -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        shared(&SHARED, || {
            let mut command = Command::new("node");
            command.arg(app("json-server.js")).arg(self.data("airports.json"));
            Server::start_with(command.env("NODE_PATH", self.0.join("node/node_modules")))
        })
    }

    /// Kinto with an empty memory of its own; its configuration is written to `dir`.
    pub(crate) fn kinto(&self, dir: &Path) -> Server {
        let kinto = || Command::new(self.0.join("kinto/bin/kinto"));
        let config = dir.join("kinto.ini");
        let made = kinto().arg("init").arg("--ini").arg(&config).args(KINTO).output().expect("kinto starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Server::start_with(kinto().arg("start").arg("--ini").arg(&config).args(["--port", "0"]))
    }

    /// The Django REST framework app over the flights database.
    pub(crate) fn django(&self) -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        shared(&SHARED, || self.django_of_its_own())
    }

    /// The same for a test that must not share its throttle.
    pub(crate) fn django_of_its_own(&self) -> Server {
        let mut command = self.python("gunicorn");
        command.args(["--bind", "127.0.0.1:0", "--no-control-socket", "app:application", "--chdir"]).arg(app("drf"));
        Server::start_with(command.env("FLIGHTS_DB", self.data("flights.db")))
    }
}

const KINTO: [&str; 6] = ["--backend", "memory", "--cache-backend", "memory", "--host", "127.0.0.1"];

/// A file of `tests/apps`.
pub(crate) fn app(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps").join(name)
}

/// What tests that run at the same time have in common; it ends with the last of them.
pub(crate) fn shared<T>(slot: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    slot.upgrade().unwrap_or_else(|| {
        let server = Arc::new(start());
        *slot = Arc::downgrade(&server);
        server
    })
}

impl Server {
    /// Starts a server and waits until its output has named the port.
    pub(crate) fn start(mut command: Command) -> Self {
        Self::start_with(&mut command)
    }

    fn start_with(command: &mut Command) -> Self {
        let command = command.env("PYTHONUNBUFFERED", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = Process::start(command, Stdio::piped(), Stdio::piped());
        let (sender, lines) = channel();
        pump(process.child().stdout.take().expect("a pipe"), sender.clone());
        pump(process.child().stderr.take().expect("a pipe"), sender);
        let mut said = vec![];
        while let Ok(line) = lines.recv_timeout(PATIENCE) {
            if let Some(address) = address_in(&line) {
                TcpStream::connect(&address).expect("a server that says it listens");
                return Self { _process: process, base: format!("http://{address}") };
            }
            said.push(line);
        }
        panic!("the server did not start:\n{}", said.join("\n"));
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// What Datasette's own SQL says: the ids of the flights for which this is true, in their order.
    pub(crate) fn flights_where(&self, predicate: &str) -> Vec<i64> {
        // One row, since the server cuts after some thousand.
        let sql = format!("select json_group_array(id) from (select id from flights where {predicate} order by id)");
        let sql: String = form_urlencoded::byte_serialize(sql.as_bytes()).collect();
        let answer = ask(&self.base, "GET", &format!("/flights.json?_shape=arrayfirst&sql={sql}"), &[], "").expect(200);
        let rows: Vec<String> = serde_json::from_str(&answer.body).expect("one text");
        serde_json::from_str(&rows.concat()).expect("ids")
    }
}

/// Reads a pipe to its end, so that the server never waits for a reader.
fn pump(pipe: impl Read + Send + 'static, into: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = into.send(line);
        }
    });
}

/// `127.0.0.1:port` in a line of a server's output.
fn address_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("http://127.0.0.1:")?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    (port != "0").then(|| format!("127.0.0.1:{port}"))
}

/// The servers themselves, so that a failure of `real` can be told from a failure to start.
mod tests {
    use super::super::http::Answer;
    use super::*;

    fn get(server: &Server, target: &str) -> Answer {
        ask(server.base(), "GET", target, &[], "")
    }

    #[test]
    fn datasette_answers_with_a_cursor_a_url_and_a_link() {
        let Some(cache) = Cache::with(&["python", "data"]) else { return };
        let answer = get(&cache.datasette(), "/flights/flights.json?_shape=objects&_size=2&_nocount=1&_nofacet=1");
        assert!(answer.body.contains("\"next\": \"2\""), "{answer:?}");
        assert!(answer.body.contains("\"next_url\": \"http://127.0.0.1:"), "{answer:?}");
        assert!(answer.header("Link").starts_with("<http://127.0.0.1:"), "{answer:?}");
    }

    #[test]
    fn json_server_answers_with_links_and_slices() {
        let Some(cache) = Cache::with(&["node", "data"]) else { return };
        let answer = get(&cache.json_server(), "/airports?_page=2&_limit=5");
        assert!(answer.header("Link").contains("rel=\"next\"") && answer.header("X-Total-Count") != "0", "{answer:?}");
        assert!(get(&cache.json_server(), "/airports?_start=100000&_limit=5").body == "[]");
    }

    #[test]
    fn django_answers_with_counts_and_refuses_a_page_after_the_last() {
        let Some(cache) = Cache::with(&["python", "data"]) else { return };
        let count = format!("\"count\":{}", cache.totals("airports")["count"]);
        assert!(get(&cache.django(), "/offset/airports?limit=3&offset=3").body.contains(&count));
        get(&cache.django(), "/page/airports?page=100000").expect(404);
        assert!(get(&cache.django(), "/cursor/weather").body.contains("/cursor/weather?cursor="));
    }

    #[test]
    fn a_dropped_server_is_gone() {
        let Some(cache) = Cache::with(&["python", "data"]) else { return };
        let server = cache.django_of_its_own();
        let address = server.base().strip_prefix("http://").expect("a base").to_owned();
        drop(server);
        super::super::wait_for("the port is closed", PATIENCE, || TcpStream::connect(&address).err());
    }
}
