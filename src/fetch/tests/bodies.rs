//! R23, R24, R26: what comes in is text, bounded, and what goes out in messages is clean.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::server::{Act, Canned, Server, client, fixed, get, head, header, json, reply, source};
use crate::config::{Auth, Method, ResponseFormat};
use crate::error::ErrorKind;
use crate::fetch::{Client, Outgoing};
use crate::plan::Request;
use crate::secret::{Redactor, Secret};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn r24_compressed_or_not_whatever_the_header_says() {
    for act in [
        reply(200, &["Content-Encoding: gzip"], gzip(b"[1]")),
        reply(200, &[], gzip(b"[1]")),
        reply(200, &["Content-Encoding: gzip"], "[1]"),
        reply(200, &["Content-Type: application/json; charset=utf-8"], b"\xEF\xBB\xBF[1]"),
    ] {
        let server = Server::in_order(vec![act]).await;
        let page = client(&source(&server)).page(&get(server.url("/"))).await.unwrap();
        assert_eq!(page.body.as_ref(), b"[1]");
        assert_eq!(header(&server.requests()[0], "accept-encoding").unwrap(), "gzip, deflate, br, zstd");
    }
}

#[tokio::test]
async fn r16_no_content_and_an_empty_body_are_empty() {
    for act in [Act::Say(head(204, &[])), reply(200, &["Content-Encoding: gzip"], "")] {
        let server = Server::in_order(vec![act]).await;
        assert!(client(&source(&server)).page(&get(server.url("/"))).await.unwrap().body.is_empty());
    }
}

#[tokio::test]
async fn r26_a_page_beyond_the_limit_is_an_error_before_memory_is() {
    let declared = Act::Stall(head(200, &["Content-Length: 99000000000".into()]));
    let bomb = reply(200, &["Content-Encoding: gzip"], gzip(&vec![b' '; 8 << 20]));
    let endless = Act::Say([head(200, &[]), vec![b' '; 2 << 20]].concat());
    for act in [declared, bomb, endless] {
        let server = Server::in_order(vec![act]).await;
        let mut config = source(&server);
        config.http.max_retries = 3;
        let error = client(&config).page(&get(server.url("/"))).await.unwrap_err();
        assert_eq!((error.kind(), server.requests().len()), (ErrorKind::Decode, 1), "{error}");
        assert!(error.to_string().contains("http.max-body-bytes"), "{error}");
    }
}

#[tokio::test]
async fn r26_a_page_of_exactly_the_limit_is_good() {
    let server = Server::in_order(vec![reply(200, &[], gzip(&[b' '; 1000])), reply(200, &[], [b' '; 1000])]).await;
    let mut config = source(&server);
    config.http.max_body_bytes = 1000;
    let client = client(&config);
    for _ in 0..2 {
        assert_eq!(client.page(&get(server.url("/"))).await.unwrap().body.len(), 1000);
    }
}

#[tokio::test]
async fn r23_an_echoed_secret_is_in_no_error() {
    let token = "S3CR3T/x+y==";
    let long = format!("{}{token} tail", "x".repeat(194));
    let cut = token.repeat(9000);
    for body in ["denied S3CR3T/x+y== S3CR3T%2Fx%2By%3D%3D UzNDUjNUL3greT09", &long, &cut] {
        let server = Server::in_order(vec![reply(403, &[], body)]).await;
        let mut config = source(&server);
        config.auth = Auth::Bearer(Secret::new(token));
        let error = client(&config).page(&get(server.url(&format!("/x?q={token}&api_key=unheard")))).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("403") && text.contains("***"), "{text}");
        for secret in ["S3CR", "UzND", "unheard"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.len() < 1200, "{text}");
    }
}

#[tokio::test]
async fn r19_a_stream_is_opened_again_only_by_its_reader_and_within_the_budget() {
    let whole = reply(200, &[], "{\"id\":1}\n{\"id\":2}\n");
    let cut = Act::Say([head(200, &["Content-Length: 18".into()]), b"{\"id\":1}\n".to_vec()].concat());
    let server = Server::in_order(vec![reply(503, &[], ""), cut, whole]).await;
    let mut config = source(&server);
    config.http.max_retries = 2;
    config.http.response_format = ResponseFormat::Ndjson;
    let client = client(&config);
    let mut attempts = client.attempts();
    let text = loop {
        let all = async {
            let mut stream = client.open(&get(server.url("/")), &mut attempts).await?;
            let mut text = Vec::new();
            while let Some(bytes) = stream.chunk().await? {
                text.extend_from_slice(&bytes);
            }
            Ok::<_, crate::error::Error>(text)
        };
        match all.await {
            Ok(text) => break text,
            Err(error) => attempts.again(error).await.unwrap(),
        }
    };
    assert_eq!(text, b"{\"id\":1}\n{\"id\":2}\n");
    assert_eq!((attempts.made(), server.requests().len()), (3, 3));
    assert!(header(&server.requests()[0], "accept").unwrap().starts_with("application/x-ndjson"));
}

#[tokio::test]
async fn r19_a_packed_stream_is_whole_or_an_error() {
    let text: Vec<u8> = (0..300_000_u32).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    let packed = gzip(&text);
    for cut in [0, 5] {
        let server = Server::in_order(vec![reply(200, &[], &packed[..packed.len() - cut])]).await;
        let client = client(&source(&server));
        let mut stream = client.open(&get(server.url("/")), &mut client.attempts()).await.unwrap();
        let mut read = Vec::new();
        let ended = loop {
            match stream.chunk().await {
                Ok(Some(bytes)) => read.extend_from_slice(&bytes),
                ended => break ended,
            }
        };
        assert!(text.starts_with(&read) && read.len() > 1 << 20, "{} bytes", read.len());
        match cut {
            0 => assert!(ended.unwrap().is_none() && read == text && stream.chunk().await.unwrap().is_none()),
            _ => assert!(ended.unwrap_err().to_string().contains("cut short")),
        }
    }
}

#[tokio::test]
async fn r20_a_stream_may_last_as_long_as_it_speaks() {
    let body = "{\"id\":1}\n".repeat(4);
    let head = head(200, &[format!("Content-Length: {}", body.len())]);
    let server = Server::in_order(vec![Act::Drip([head, body.clone().into_bytes()].concat())]).await;
    let mut config = source(&server);
    config.http.page_timeout = Duration::from_millis(100);
    let client = client(&config);
    let mut stream = client.open(&get(server.url("/")), &mut client.attempts()).await.unwrap();
    let (mut text, mut chunks) = (Vec::new(), 0);
    while let Some(bytes) = stream.chunk().await.unwrap() {
        text.extend_from_slice(&bytes);
        chunks += 1;
    }
    assert_eq!(text, body.into_bytes());
    assert!(chunks > 3, "{chunks} chunks: it came as it was sent");
}

#[tokio::test]
async fn requests_say_who_asks_and_for_what_and_tables_may_say_otherwise() {
    let server = Server::in_order(vec![json("[]")]).await;
    let mut config = source(&server);
    config.http.compression = false;
    config.http.headers = vec![fixed("X-Version", "1"), fixed("X-Other", "o")];
    let client = client(&config).for_read(&[fixed("x-version", "2")], Arc::default());
    let body = Some("{\"q\":\"é\"}".to_owned());
    client.page(&Request { method: Method::Post, body, ..get(server.url("/search?a=%2B")) }).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /search?a=%2B HTTP/1.1"), "{request}");
    assert!(request.ends_with("{\"q\":\"é\"}"), "{request}");
    let said = |name: &str| header(request, name).unwrap();
    assert_eq!(said("user-agent"), concat!("restmark/", env!("CARGO_PKG_VERSION")));
    assert_eq!(said("accept-encoding"), "identity");
    assert_eq!(said("content-type"), "application/json");
    assert_eq!((said("x-version").as_str(), said("x-other").as_str()), ("2", "o"));
    assert_eq!(request.matches("x-version").count(), 1);
}

#[tokio::test]
async fn a_client_works_over_any_transport() {
    let server = Server::in_order(vec![json("[]")]).await;
    let canned = Canned(|request: &Outgoing| format!("[\"{} {}\"]", request.method, request.url.path()));
    let client = Client::with_transport(&source(&server), Redactor::default(), Arc::new(canned)).unwrap();
    assert_eq!(client.page(&get(server.url("/x"))).await.unwrap().body.as_ref(), b"[\"GET /x\"]");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn every_future_of_a_client_can_move_between_threads() {
    fn moves<T: Send>(value: T) -> T {
        value
    }
    let server = Server::in_order(vec![json("[]")]).await;
    let client = moves(client(&source(&server)));
    let request = get(server.url("/"));
    moves(client.page(&request)).await.unwrap();
    let mut attempts = moves(client.attempts());
    let mut stream = moves(moves(client.open(&request, &mut attempts)).await.unwrap());
    moves(stream.chunk()).await.unwrap();
    moves(attempts.again(crate::Error::new(ErrorKind::Bug, "x"))).await.unwrap_err();
}
