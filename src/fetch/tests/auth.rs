//! R22: tokens are fetched once, kept fresh, renewed once after a 401, and never shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::server::{Act, Canned, Server, client, fixed, get, header, json, reply, source, source_at};
use crate::config::{Auth, ClientAuth, OAuth2, SourceConfig};
use crate::counts::Meter;
use crate::error::ErrorKind;
use crate::fetch::{Client, Outgoing};
use crate::secret::{Redactor, Secret};

fn oauth2(server: &Server, client_auth: ClientAuth) -> SourceConfig {
    oauth2_at(server.url("/"), client_auth)
}

fn oauth2_at(base_url: url::Url, client_auth: ClientAuth) -> SourceConfig {
    let auth = Auth::OAuth2(OAuth2 {
        client_id: "app id".into(),
        client_secret: Secret::new("S3CR3T/+="),
        token_url: base_url.join("/token").unwrap(),
        scope: Some("a b".into()),
        audience: Some("me".into()),
        client_auth,
    });
    SourceConfig { auth, ..source_at(base_url) }
}

/// Grants `AT-1x`, `AT-2x`, ... and accepts only the tokens from `good` on.
async fn granting(expires_in: &'static str, good: usize) -> Server {
    let granted = Arc::new(AtomicUsize::new(0));
    Server::start(move |_, request| {
        if request.starts_with("POST /token") {
            let n = granted.fetch_add(1, Ordering::SeqCst) + 1;
            return json(&format!("{{\"access_token\":\"AT-{n}x\",\"expires_in\":{expires_in}}}"));
        }
        let token = header(request, "authorization").unwrap_or_default();
        let n: usize = token.trim_start_matches("Bearer AT-").trim_end_matches('x').parse().unwrap_or(0);
        if n >= good { json("[]") } else { reply(401, &[], format!("no, {token}")) }
    })
    .await
}

fn tokens_asked(server: &Server) -> usize {
    server.lines().iter().filter(|line| *line == "POST /token").count()
}

#[tokio::test]
async fn r22_eight_pages_at_once_fetch_one_token() {
    for expires_in in ["3600", "\"3600\"", "0", "null"] {
        let server = granting(expires_in, 1).await;
        let client = client(&oauth2(&server, ClientAuth::Body));
        let request = get(server.url("/items"));
        let pages = futures::future::join_all((0..8).map(|_| client.page(&request))).await;
        assert!(pages.iter().all(Result::is_ok), "{pages:?}");
        client.page(&request).await.unwrap();
        assert_eq!(tokens_asked(&server), 1, "{expires_in}");
    }
}

#[tokio::test]
async fn r22_the_client_identifies_itself_in_the_body_or_in_a_header() {
    let server = granting("60", 1).await;
    client(&oauth2(&server, ClientAuth::Body)).page(&get(server.url("/"))).await.unwrap();
    let form = "grant_type=client_credentials&client_id=app+id&client_secret=S3CR3T%2F%2B%3D&scope=a+b&audience=me";
    assert!(server.requests()[0].ends_with(form), "{}", server.requests()[0]);
    let server = granting("60", 1).await;
    client(&oauth2(&server, ClientAuth::Basic)).page(&get(server.url("/"))).await.unwrap();
    let request = &server.requests()[0];
    assert!(request.ends_with("\r\n\r\ngrant_type=client_credentials&scope=a+b&audience=me"), "{request}");
    // base64 of app+id:S3CR3T%2F%2B%3D
    assert_eq!(header(request, "authorization").unwrap(), "Basic YXBwK2lkOlMzQ1IzVCUyRiUyQiUzRA==");
}

#[tokio::test(start_paused = true)]
async fn r22_a_token_is_renewed_before_it_expires() {
    for (life, early) in
        [(3600, Duration::from_secs(30)), (100, Duration::from_secs(10)), (2, Duration::from_millis(200))]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let canned = Canned(move |request: &Outgoing| {
            let is_token = request.url.path() == "/token";
            counter.fetch_add(usize::from(is_token), Ordering::SeqCst);
            if is_token { format!("{{\"access_token\":\"AT-1x\",\"expires_in\":{life}}}") } else { "[]".into() }
        });
        let base: url::Url = "http://api.test/".parse().unwrap();
        let config = oauth2_at(base.clone(), ClientAuth::Body);
        let client = Client::with_transport(&config, Redactor::default(), Arc::new(canned)).unwrap();
        client.page(&get(base.clone())).await.unwrap();
        let nearly = early + Duration::from_millis(10);
        tokio::time::sleep(Duration::from_secs(life).saturating_sub(nearly)).await;
        client.page(&get(base.clone())).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{life}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.page(&get(base.clone())).await.unwrap();
        client.page(&get(base)).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{life}");
    }
}

#[tokio::test]
async fn r22_a_401_renews_the_token_once_on_top_of_the_budget() {
    let server = granting("3600", 2).await;
    let meter = Arc::new(Meter::default());
    let client = client(&oauth2(&server, ClientAuth::Body)).for_read(&[], meter.clone());
    client.page(&get(server.url("/items"))).await.unwrap();
    assert_eq!(server.lines(), ["POST /token", "GET /items", "POST /token", "GET /items"]);
    assert_eq!((Meter::get(&meter.requests), Meter::get(&meter.retries)), (4, 1));
}

#[tokio::test]
async fn r22_eight_401s_at_once_renew_one_token() {
    let server = granting("3600", 2).await;
    let client = client(&oauth2(&server, ClientAuth::Body));
    let request = get(server.url("/items"));
    let pages = futures::future::join_all((0..8).map(|_| client.page(&request))).await;
    assert!(pages.iter().all(Result::is_ok), "{pages:?}");
    assert_eq!(tokens_asked(&server), 2);
}

#[tokio::test]
async fn r22_a_second_401_fails() {
    let server = granting("3600", 9).await;
    let mut config = oauth2(&server, ClientAuth::Body);
    config.http.max_retries = 3;
    let error = client(&config).page(&get(server.url("/items"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(error.to_string().contains("401") && !error.to_string().contains("AT-"), "{error}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn r22_token_requests_are_retried_like_any_other() {
    let granted = json("{\"access_token\":\"AT-1x\"}");
    let server = Server::in_order(vec![reply(503, &[], ""), Act::Reset(Vec::new()), granted, json("[]")]).await;
    let mut config = oauth2(&server, ClientAuth::Body);
    config.http.max_retries = 2;
    client(&config).page(&get(server.url("/items"))).await.unwrap();
    assert_eq!(server.lines(), ["POST /token", "POST /token", "POST /token", "GET /items"]);
}

#[tokio::test]
async fn r22_a_refused_client_fails_once_for_all_who_wait_and_shows_no_secret() {
    let body = "{\"error\":\"invalid_client\",\"sent\":\"S3CR3T/+= S3CR3T%2F%2B%3D\"}";
    for (status, kind, asked) in [(400, ErrorKind::Auth, 1), (401, ErrorKind::Auth, 1), (503, ErrorKind::Http, 3)] {
        let server = Server::in_order(vec![reply(status, &[], body)]).await;
        let mut config = oauth2(&server, ClientAuth::Body);
        config.http.max_retries = 2;
        let client = client(&config);
        let request = get(server.url("/items"));
        for page in futures::future::join_all((0..8).map(|_| client.page(&request))).await {
            let error = page.unwrap_err();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), kind, "{text}");
            assert!(text.contains("invalid_client") && text.contains("/token") && !text.contains("S3CR3T"), "{text}");
        }
        assert_eq!(server.requests().len(), asked, "{status}");
    }
}

#[tokio::test]
async fn r23_a_grant_without_a_token_is_not_shown() {
    for body in ["{\"accessToken\":\"AT-9x\"}", "AT-9x", "{\"access_token\":17}"] {
        let server = Server::in_order(vec![json(body)]).await;
        let error = client(&oauth2(&server, ClientAuth::Body)).page(&get(server.url("/"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth);
        assert!(error.to_string().contains("access_token") && !error.to_string().contains("AT-9x"), "{error}");
    }
}

#[tokio::test]
async fn r22_a_token_file_is_read_again_after_a_401_and_asked_again_only_if_it_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "first-token\n").unwrap();
    let file = path.clone();
    let server = Server::start(move |_, request| match header(request, "authorization").unwrap().as_str() {
        "Bearer first-token" if request.starts_with("GET /ok") => json("[]"),
        "Bearer first-token" if request.starts_with("GET /same") => reply(401, &[], ""),
        "Bearer first-token" => {
            std::fs::write(&file, "  second-token").unwrap();
            reply(401, &[], "")
        }
        "Bearer second-token" => json("[]"),
        _ => reply(401, &[], ""),
    })
    .await;
    let config = SourceConfig { auth: Auth::BearerFile(path.clone()), ..source(&server) };
    let client = client(&config);
    client.page(&get(server.url("/ok"))).await.unwrap();
    assert_eq!(client.page(&get(server.url("/same"))).await.unwrap_err().kind(), ErrorKind::Auth);
    assert_eq!(server.requests().len(), 2, "an unchanged token is not tried again");
    client.page(&get(server.url("/changed"))).await.unwrap();
    client.page(&get(server.url("/ok"))).await.unwrap();
    assert_eq!(server.requests().len(), 5);
    assert_eq!(client.redactor().scrub("first-token second-token"), "*** ***");
    std::fs::remove_file(&path).unwrap();
    let error = super::server::client(&config).page(&get(server.url("/ok"))).await.unwrap_err();
    assert!(error.to_string().contains("auth.token-file"), "{error}");
}

#[tokio::test]
async fn r22_fixed_credentials_travel_where_they_are_configured() {
    let server = Server::in_order(vec![json("[]")]).await;
    let secret = || Secret::new("pässword:x");
    let basic = Auth::Basic { username: "me".into(), password: secret() };
    let own = Auth::Header { name: "X-Auth".into(), value: Secret::new("Token abcdefgh") };
    let clients = [basic, own].map(|auth| client(&SourceConfig { auth, ..source(&server) }));
    for client in &clients {
        client.page(&get(server.url("/"))).await.unwrap();
    }
    let requests = server.requests();
    assert_eq!(header(&requests[0], "authorization").unwrap(), "Basic bWU6cMOkc3N3b3JkOng=");
    assert_eq!(clients[0].redactor().scrub("bWU6cMOkc3N3b3JkOng= pässword:x"), "*** ***");
    assert_eq!(header(&requests[1], "x-auth").unwrap(), "Token abcdefgh");
    assert_eq!(clients[1].redactor().scrub("got abcdefgh"), "got ***");
}

#[tokio::test]
async fn r23_a_credential_that_no_header_carries_is_a_config_error_without_it() {
    let server = Server::in_order(vec![json("[]")]).await;
    let config = SourceConfig { auth: Auth::Bearer(Secret::new("abc\ndef")), ..source(&server) };
    let error = Client::new(&config, Redactor::default()).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && !error.to_string().contains("abc"), "{error}");
    let client = client(&source(&server)).for_read(&[fixed("X-Key", "abc\ndef")], Arc::default());
    let error = client.page(&get(server.url("/"))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && !error.to_string().contains("abc"), "{error}");
    assert!(!format!("{client:?}").contains("abc"));
}
