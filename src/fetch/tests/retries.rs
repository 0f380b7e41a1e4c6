//! R19, R20, R21: one budget, bounded time, a ceiling for every attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::server::{Act, Canned, Server, client, get, head, json, link, reply, source, source_at};
use crate::config::Rate;
use crate::counts::Meter;
use crate::error::{Error, ErrorKind};
use crate::fetch::{Client, Outgoing};
use crate::secret::Redactor;

const SHORT: Duration = Duration::from_millis(100);

async fn fails(acts: Vec<Act>, retries: u32) -> (Error, Server) {
    let server = Server::in_order(acts).await;
    let mut config = source(&server);
    config.http.max_retries = retries;
    let error = client(&config).page(&get(server.url("/items"))).await.unwrap_err();
    (error, server)
}

#[tokio::test]
async fn r19_every_passing_failure_is_tried_exactly_one_plus_max_retries_times() {
    let cut = [head(200, &["Content-Length: 100".into()]), b"[1".to_vec()].concat();
    let unzippable = reply(200, &["Content-Encoding: gzip"], b"\x1F\x8B\x08\0\0\0\0\0\0\xFFjunkjunk");
    let mut acts: Vec<_> = [408, 425, 429, 500, 502, 503, 504, 599].map(|s| reply(s, &[], "")).to_vec();
    acts.extend([Act::Say(cut.clone()), Act::Reset(Vec::new()), Act::Reset(cut), Act::Say(Vec::new()), unzippable]);
    for act in acts {
        let (error, server) = fails(vec![act], 2).await;
        assert_eq!(server.requests().len(), 3, "{error}");
        assert_eq!(error.context("attempts"), Some("3"), "{error}");
    }
}

#[tokio::test]
async fn r19_other_statuses_fail_at_once_and_say_why() {
    for status in [304, 400, 401, 403, 404, 410, 422] {
        let (error, server) = fails(vec![reply(status, &[], if status == 304 { "" } else { "no\nway" })], 3).await;
        assert_eq!(server.requests().len(), 1, "{error}");
        let auth = matches!(status, 401 | 403);
        assert_eq!(error.kind(), if auth { ErrorKind::Auth } else { ErrorKind::Http });
        let text = error.to_string();
        assert!(text.contains(&status.to_string()) && text.contains("/items") && !text.contains('\n'), "{text}");
        assert!(status == 304 || text.contains("no way"), "{text}");
    }
}

#[tokio::test]
async fn r19_mixed_failures_share_one_budget_and_then_the_page_is_whole() {
    let cut = [head(200, &["Content-Length: 7".into()]), b"[1,".to_vec()].concat();
    let acts = vec![reply(500, &[], ""), Act::Reset(Vec::new()), Act::Say(cut), json("[1,2,3]")];
    let server = Server::in_order(acts).await;
    let mut config = source(&server);
    config.http.max_retries = 3;
    let meter = Arc::new(Meter::default());
    let page = client(&config).for_read(&[], meter.clone()).page(&get(server.url("/items"))).await.unwrap();
    assert_eq!((page.status, page.body.as_ref()), (200, &b"[1,2,3]"[..]));
    assert_eq!((Meter::get(&meter.requests), Meter::get(&meter.retries)), (4, 3));
    assert_eq!(meter.note(), "");
}

#[tokio::test]
async fn r19_connection_refused_names_host_and_cause() {
    let server = Server::in_order(vec![json("[]")]).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut config = source(&server);
    config.http.max_retries = 1;
    config.base_url = format!("http://{gone}").parse().unwrap();
    let error = client(&config).page(&get(config.base_url.clone())).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&gone.to_string()) && text.to_lowercase().contains("refused"), "{text}");
    assert_eq!((error.kind(), error.context("attempts")), (ErrorKind::Http, Some("2")));
}

#[tokio::test]
async fn r19_a_failed_handshake_names_host_and_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"this is no TLS").await.unwrap();
        let _ = stream.read(&mut [0; 1000]).await;
    });
    let config = source_at(format!("http://{address}").parse().unwrap());
    let url = format!("https://{address}/").parse().unwrap();
    let text = client(&config).page(&link(url)).await.unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot connect to {address}: ")), "{text}");
}

#[tokio::test]
async fn r19_retry_after_is_honoured_above_max_backoff_on_any_retried_status() {
    for status in [429, 503, 500] {
        let server =
            Server::in_order(vec![reply(status, &["Retry-After: 0.1", "Retry-After: 0.2"], ""), json("[]")]).await;
        let mut config = source(&server);
        config.http.max_retries = 1;
        let start = Instant::now();
        client(&config).page(&get(server.url("/"))).await.unwrap();
        assert!(start.elapsed() >= Duration::from_millis(200), "{status}");
    }
}

#[tokio::test]
async fn r19_beyond_max_retry_after_the_read_fails_now_and_says_when_to_come_back() {
    for retries in [0, 5] {
        let (error, server) = fails(vec![reply(429, &["Retry-After: 4000"], "slow down")], retries).await;
        assert_eq!(server.requests().len(), 1);
        let text = error.to_string();
        assert!(text.contains("429") && text.contains("come back: in 4000 s, at 2"), "{text}");
    }
}

#[tokio::test]
async fn r20_silence_and_drips_end_in_bounded_time() {
    let start = head(200, &["Content-Length: 1000".into()]);
    for (act, word) in [
        (Act::Stall(Vec::new()), "no answer"),
        (Act::Drip([head(200, &[]), vec![b' '; 4000]].concat()), "no answer"),
        (Act::Stall([start.clone(), b"[1,".to_vec()].concat()), "idle-timeout"),
    ] {
        let server = Server::in_order(vec![act]).await;
        let mut config = source(&server);
        config.http.max_retries = 1;
        let limit = if word == "no answer" { &mut config.http.timeout } else { &mut config.http.idle_timeout };
        *limit = SHORT;
        let error = client(&config).page(&get(server.url("/items"))).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!((error.kind(), error.context("attempts")), (ErrorKind::Http, Some("2")), "{error}");
    }
}

#[tokio::test]
async fn r20_a_page_that_comes_in_too_slowly_ends_by_page_timeout() {
    let start = head(200, &["Content-Length: 10000".into()]);
    let drip = Act::Drip([start, vec![b' '; 9999]].concat());
    for (act, limit, word) in [(drip, 20 * SHORT, "page-timeout"), (Act::Stall(Vec::new()), SHORT, "no answer")] {
        let server = Server::in_order(vec![act]).await;
        let mut config = source(&server);
        config.http.page_timeout = limit;
        let error = client(&config).page(&get(server.url("/"))).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn r20_an_error_body_that_never_ends_does_not_hold_the_error() {
    let start = [head(404, &["Content-Length: 1000".into()]), b"not here".to_vec()].concat();
    let server = Server::in_order(vec![Act::Stall(start)]).await;
    let mut config = source(&server);
    config.http.idle_timeout = SHORT;
    let error = client(&config).page(&get(server.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn r21_every_attempt_takes_a_permit_and_clones_share_them() {
    let acts = vec![reply(503, &[], ""), reply(503, &[], ""), json("[]")];
    let server = Server::in_order(acts).await;
    let mut config = source(&server);
    config.http.max_retries = 2;
    config.http.max_backoff = Duration::from_millis(1);
    config.http.rate_limit = Some(Rate { per_second: 20.0 });
    let client = client(&config);
    let start = Instant::now();
    client.page(&get(server.url("/"))).await.unwrap();
    client.for_read(&[], Arc::default()).page(&get(server.url("/"))).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn r20_waiting_for_a_permit_is_no_slow_page() {
    let mut config = source_at("http://api.test".parse().unwrap());
    config.http.rate_limit = Some(Rate { per_second: 0.01 });
    let canned = Arc::new(Canned(|_: &Outgoing| "[]".to_owned()));
    let client = Client::with_transport(&config, Redactor::default(), canned).unwrap();
    let start = tokio::time::Instant::now();
    for _ in 0..3 {
        client.page(&get(config.base_url.clone())).await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_secs(200));
}
