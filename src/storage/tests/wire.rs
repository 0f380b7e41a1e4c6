//! What goes over the wire: to a server of our own, which says yes to everything.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use object_store::ObjectStoreExt as _;

use super::*;

/// A server on loopback, its URL and the heads of the requests it got.
fn server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (heads, got) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            if head.starts_with(b"PUT") {
                stream.read_exact(&mut [0]).unwrap();
            }
            if heads.send(String::from_utf8(head).unwrap()).is_err() {
                return;
            }
            let answer = b"HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
    });
    (url, got)
}

#[tokio::test]
async fn r09_requests_go_where_the_properties_say() {
    let (url, got) = server();
    let azure = format!("{url}/devstoreaccount1/");
    let (url, azure) = (url.as_str(), azure.as_str());
    let at_azure = "abfs://c@devstoreaccount1.dfs.core.windows.net/a";
    let s3 = [("fs.s3a.endpoint", url), ("fs.s3a.access.key", "AKIDxxxx"), ("fs.s3a.secret.key", "SKIDxxxx")];
    let google = [("fs.gs.storage.root.url", url), ("fs.gs.auth.type", "UNAUTHENTICATED")];
    let key = [("fs.azure.endpoint", azure), ("fs.azure.account.key", "QUJD")];
    let signature = [("fs.azure.endpoint", azure), ("fs.azure.sas.fixed.token", "?sv=1&sig=a%2Bb%3D")];
    let cases: [(&str, Pairs<'_>, &[&str]); 4] = [
        // `%` stands for itself.
        (
            "s3a://my_bucket/a%20b/c d",
            &s3,
            &["PUT /my_bucket/a%2520b/c%20d/x ", "Credential=AKIDxxxx/", "us-east-1/s3"],
        ),
        ("gs://my_bucket/a", &google, &["PUT /my%5Fbucket/a%2Fx "]),
        (at_azure, &key, &["PUT /devstoreaccount1/c/a/x ", "SharedKey devstoreaccount1:"]),
        (at_azure, &signature, &["PUT /devstoreaccount1/c/a/x?sv=1&sig=a%2Bb%3D "]),
    ];
    for (text, properties, words) in cases {
        let (objects, _) = objects(text, properties, &[]);
        objects.store.put(&objects.prefix.clone().join("x"), "1".into()).await.unwrap();
        let head = got.recv().unwrap();
        has(&head, words);
        has(&head, &["user-agent: restmark/"]);
    }
}

/// A machine's own credentials come over http, whatever the store itself is asked by.
#[tokio::test]
async fn r09_the_credentials_of_a_container_are_asked_for_over_http() {
    let (url, got) = server();
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "made-up").unwrap();
    let env = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
    ];
    let endpoint = [("fs.s3a.endpoint", "https://127.0.0.1:1"), ("fs.s3a.attempts.maximum", "0")];
    let (objects, _) = objects("s3a://bucket/a", &endpoint, &env);
    objects.store.head(&objects.prefix).await.unwrap_err();
    has(&got.recv_timeout(std::time::Duration::from_secs(30)).unwrap(), &["GET / ", "authorization: made-up"]);
}
