//! Object stores on loopback: Moto for S3, Azurite for Azure, and a stand-in for Google's XML API.

use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::http::{Answer, ask};
use super::servers::{Cache, Server, app, shared};

/// S3; it checks no signature, so any key and secret will do. What is not signed at all may not touch an object.
pub(crate) struct Moto(Server);

/// Azure Blob; it does check signatures.
pub(crate) struct Azurite(Server);

/// The calls of Google's XML API that `tests/apps/gcs.py` knows. Not Google's server.
pub(crate) struct GcsStandIn(Server);

impl Moto {
    /// Tests that run at the same time share it.
    pub(crate) fn shared(cache: &Cache) -> Arc<Self> {
        static SHARED: Mutex<Weak<Moto>> = Mutex::new(Weak::new());
        shared(&SHARED, || {
            let mut command = Command::new(cache.path("moto/bin/python"));
            command.arg(app("s3.py"));
            Self(Server::start(command))
        })
    }

    /// `http://127.0.0.1:port`; a bucket is the first part of a path.
    pub(crate) fn endpoint(&self) -> &str {
        self.0.base()
    }

    /// Makes a bucket in the region us-east-1.
    pub(crate) fn make_bucket(&self, name: &str) {
        self.ask("PUT", name, &[], "").expect(200);
    }

    /// A request that looks signed; the path begins with a bucket.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let signed =
            "AWS4-HMAC-SHA256 Credential=test/20130101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let headers: Vec<_> = headers.iter().copied().chain([("Authorization", signed)]).collect();
        ask(self.endpoint(), method, &format!("/{path}"), &headers, body)
    }
}

impl Azurite {
    /// The account.
    pub(crate) const ACCOUNT: &'static str = "devstoreaccount1";
    /// Its key: the one that every emulator has and the documentation prints.
    pub(crate) const KEY: &'static str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    /// Tests that run at the same time share it.
    pub(crate) fn shared(cache: &Cache) -> Arc<Self> {
        static SHARED: Mutex<Weak<Azurite>> = Mutex::new(Weak::new());
        shared(&SHARED, || {
            let mut command = Command::new("node");
            command.arg(cache.path("azurite/node_modules/azurite/dist/src/blob/main.js"));
            // Without the fourth it reports to its makers.
            command.args(["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
            command.args(["--blobHost", "127.0.0.1", "--blobPort", "0"]);
            Self(Server::start(command))
        })
    }

    /// `http://127.0.0.1:port/devstoreaccount1`; a container is the next part of a path.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}/{}", self.0.base(), Self::ACCOUNT)
    }

    /// Makes a container.
    pub(crate) fn make_container(&self, name: &str) {
        self.ask("PUT", name, &[("restype", "container")], &[], "").expect(201);
    }

    /// A request signed with the account's key; the path begins with a container.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let length = if body.is_empty() { String::new() } else { body.len().to_string() };
        let mut headers = headers.to_vec();
        headers.extend([("x-ms-date", date.as_str()), ("x-ms-version", "2021-12-02")]);
        headers.sort_unstable();
        let value = |name: &str| headers.iter().find(|(own, _)| *own == name).map_or("", |(_, value)| value);
        // "Authorize with Shared Key" in the documentation of Azure Storage: twelve lines, then headers, then the path.
        let kind = value("Content-Type");
        let (is, is_not, range) = (value("If-Match"), value("If-None-Match"), value("Range"));
        let mut text = format!("{method}\n\n\n{length}\n\n{kind}\n\n\n{is}\n{is_not}\n\n{range}\n");
        let own = headers.iter().filter(|(name, _)| name.starts_with("x-ms-"));
        text.extend(own.map(|(name, value)| format!("{name}:{value}\n")));
        // The account comes twice: once for itself, once as the first part of the emulator's paths.
        text.extend(["/", Self::ACCOUNT, "/", Self::ACCOUNT, "/", path]);
        let mut query = query.to_vec();
        query.sort_unstable();
        text.extend(query.iter().map(|(name, value)| format!("\n{name}:{value}")));
        let signature = BASE64_STANDARD.encode(hmac(&BASE64_STANDARD.decode(Self::KEY).expect("a key"), &text));
        let signed = format!("SharedKey {}:{signature}", Self::ACCOUNT);
        headers.push(("Authorization", &signed));
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let target = format!("/{}/{path}?{}", Self::ACCOUNT, query.join("&"));
        ask(self.0.base(), method, target.trim_end_matches('?'), &headers, body)
    }
}

impl GcsStandIn {
    /// Tests that run at the same time share it.
    pub(crate) fn shared(cache: &Cache) -> Arc<Self> {
        static SHARED: Mutex<Weak<GcsStandIn>> = Mutex::new(Weak::new());
        shared(&SHARED, || {
            let mut command = cache.python("python");
            command.arg(app("gcs.py"));
            Self(Server::start(command))
        })
    }

    /// `http://127.0.0.1:port`; a bucket is the first part of a path, and there unless its name begins with `no-such`.
    pub(crate) fn endpoint(&self) -> &str {
        self.0.base()
    }

    /// The key file of a client: it names the stand-in and asks nobody for a token. A client without a key and without
    /// this would ask the machine's own account before it writes, even when told not to sign.
    pub(crate) fn key(&self) -> String {
        let (url, none) = (self.endpoint(), "");
        json!({
            "type": "service_account", "disable_oauth": true, "gcs_base_url": url,
            "client_email": none, "private_key": none, "private_key_id": none,
        })
        .to_string()
    }
}

/// HMAC-SHA256 for a key that fills a block, as the emulator's does.
fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    assert_eq!(key.len(), 64, "the length of the key");
    let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect::<Vec<_>>();
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// The servers themselves: what is stored can be read, and of many who write on a condition one wins.
mod tests {
    use super::*;

    /// The statuses of eight writers who start together, in order.
    fn race(write: impl Fn(&str) -> Answer + Sync) -> Vec<u16> {
        let start = std::sync::Barrier::new(8);
        let one = |i: usize| {
            start.wait();
            write(&format!("writer {i}")).status
        };
        let mut statuses: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8).map(|i| scope.spawn(move || one(i))).collect();
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
        });
        statuses.sort_unstable();
        statuses
    }

    /// One of this status, and seven of that.
    fn one(winner: u16, losers: u16) -> Vec<u16> {
        let mut statuses = vec![losers; 7];
        statuses.push(winner);
        statuses.sort_unstable();
        statuses
    }

    #[test]
    fn moto_has_one_winner() {
        let Some(cache) = Cache::with(&["moto"]) else { return };
        let moto = Moto::shared(&cache);
        moto.make_bucket("own-test");
        let put = |condition: (&str, &str), body: &str| moto.ask("PUT", "own-test/key", &[condition], body);
        assert_eq!(race(|body| put(("If-None-Match", "*"), body)), one(200, 412));
        let first = moto.ask("GET", "own-test/key", &[], "").expect(200);
        assert!(first.body.starts_with("writer "));
        // Other bodies than before: an ETag of S3 is the content's, so who writes the same again changes nothing.
        let put_again = |body: &str| put(("If-Match", first.header("ETag")), &format!("again {body}"));
        assert_eq!(race(put_again), one(200, 412));
        moto.ask("GET", "no-such-bucket/key", &[], "").expect(404);
    }

    #[test]
    fn azurite_has_one_winner_and_checks_signatures() {
        let Some(cache) = Cache::with(&["azurite"]) else { return };
        let azurite = Azurite::shared(&cache);
        azurite.make_container("own-test");
        let put = |condition, body: &str| {
            azurite.ask("PUT", "own-test/key", &[], &[condition, ("x-ms-blob-type", "BlockBlob")], body)
        };
        assert_eq!(race(|body| put(("If-None-Match", "*"), body)), one(201, 409));
        let first = azurite.ask("GET", "own-test/key", &[], &[], "").expect(200);
        assert!(first.body.starts_with("writer "));
        assert_eq!(race(|body| put(("If-Match", first.header("ETag")), body)), one(201, 412));
        let (base, forged) = (azurite.0.base(), ("Authorization", "SharedKey devstoreaccount1:bm8="));
        ask(base, "GET", "/devstoreaccount1/own-test/key", &[forged], "").expect(403);
        assert_eq!(azurite.endpoint(), format!("{base}/devstoreaccount1"));
    }

    #[test]
    fn the_stand_in_for_google_has_one_winner() {
        let Some(cache) = Cache::with(&["python"]) else { return };
        let google = GcsStandIn::shared(&cache);
        let put = |generation: &str, body: &str| {
            ask(google.endpoint(), "PUT", "/own-test/a%2Fkey", &[("x-goog-if-generation-match", generation)], body)
        };
        assert_eq!(race(|body| put("0", body)), one(200, 412));
        let first = ask(google.endpoint(), "GET", "/own-test/a%2Fkey", &[], "").expect(200);
        assert!(first.body.starts_with("writer "));
        assert_eq!(race(|body| put(first.header("x-goog-generation"), body)), one(200, 412));
        let list = ask(google.endpoint(), "GET", "/own-test?list-type=2&prefix=a%2F", &[], "").expect(200);
        assert!(list.body.contains("<Key>a/key</Key>"), "{list:?}");
        let second = ask(google.endpoint(), "HEAD", "/own-test/a%2Fkey", &[], "").expect(200);
        assert_ne!(second.header("x-goog-generation"), first.header("x-goog-generation"));
        assert_eq!(second.header("Content-Length"), first.body.len().to_string());
        ask(google.endpoint(), "DELETE", "/own-test/a%2Fkey", &[], "").expect(204);
        let answer = ask(google.endpoint(), "GET", "/own-test/a%2Fkey", &[], "").expect(404);
        assert!(answer.body.contains("<Code>NoSuchKey</Code>"), "{answer:?}");
        let answer = ask(google.endpoint(), "PUT", "/no-such-bucket/key", &[], "").expect(404);
        assert!(answer.body.contains("<Code>NoSuchBucket</Code>"), "{answer:?}");
        ask(google.endpoint(), "POST", "/own-test/key?compose", &[], "").expect(501);
        assert!(google.key().contains(google.endpoint()));
    }
}
