//! R17: links and redirects, and where credentials may go.

use std::sync::Arc;

use super::server::{Act, Server, client, fixed, get, header, json, link, reply, source};
use crate::config::{Auth, Method, Redirects, SourceConfig};
use crate::error::ErrorKind;
use crate::plan::Request;
use crate::secret::Secret;

fn with_token(server: &Server) -> SourceConfig {
    SourceConfig { auth: Auth::Bearer(Secret::new("T0K3N-abc")), ..source(server) }
}

fn to(location: &str) -> Act {
    reply(302, &[&format!("Location: {location}")], "")
}

#[tokio::test]
async fn r17_with_credentials_a_link_to_another_origin_fails_before_anything_is_sent() {
    let (home, other) = (Server::in_order(vec![json("[]")]).await, Server::in_order(vec![json("[]")]).await);
    let mut secret_header = source(&home);
    secret_header.http.headers = vec![fixed("X-Api-Key", "K3Y-12345")];
    for config in [with_token(&home), secret_header] {
        let error = client(&config).page(&link(other.url("/items?page=2"))).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Http);
        assert!(text.contains(&other.address.to_string()) && text.contains("follow-redirects"), "{text}");
    }
    let table = client(&source(&home)).for_read(&[fixed("Cookie", "session=12345678")], Arc::default());
    assert!(table.page(&link(other.url("/"))).await.is_err(), "a header of the table counts too");
    let error = client(&with_token(&home)).page(&link("https://127.0.0.1:1/".parse().unwrap())).await.unwrap_err();
    assert!(!error.to_string().contains("connect"), "{error}");
    assert!(other.requests().is_empty() && home.requests().is_empty());
}

#[tokio::test]
async fn r17_without_credentials_links_lead_anywhere_but_redirects_do_not() {
    let other = Server::in_order(vec![json("[2]")]).await;
    let home = Server::in_order(vec![to(other.url("/x").as_str())]).await;
    let client = client(&source(&home));
    assert_eq!(client.page(&link(other.url("/"))).await.unwrap().url, other.url("/"));
    let error = client.page(&get(home.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains(&other.address.to_string()), "{error}");
    assert_eq!((home.requests().len(), other.requests().len()), (1, 1));
}

#[tokio::test]
async fn r17_any_goes_elsewhere_without_a_credential() {
    let other = Server::in_order(vec![json("[2]")]).await;
    let (there, back) = (other.url("/x?api_key=K3Y-s3cret&p=1"), other.url("/y"));
    let home = Server::in_order(vec![to(there.as_str())]).await;
    let mut config = source(&home);
    config.auth = Auth::Query { param: "api_key".into(), value: Secret::new("K3Y-s3cret") };
    config.http.follow_redirects = Redirects::Any;
    config.http.headers = vec![fixed("X-Token", "H34D3R-s3cret"), fixed("X-Plain", "1")];
    let query = client(&config);
    assert_eq!(query.page(&get(home.url("/"))).await.unwrap().url, other.url("/x?p=1"));
    query.page(&link(back)).await.unwrap();
    let second = Server::in_order(vec![to(other.url("/z").as_str())]).await;
    config.base_url = second.url("");
    config.auth = Auth::Bearer(Secret::new("T0K3N-abc"));
    client(&config).page(&get(second.url("/"))).await.unwrap();
    assert_eq!(header(&second.requests()[0], "authorization").unwrap(), "Bearer T0K3N-abc");
    assert_eq!(other.lines(), ["GET /x?p=1", "GET /y", "GET /z"]);
    for request in other.requests() {
        assert!(!request.contains("s3cret"), "{request}");
        assert!(header(&request, "authorization").is_none() && header(&request, "x-token").is_none(), "{request}");
        assert_eq!(header(&request, "x-plain").unwrap(), "1");
    }
}

#[tokio::test]
async fn r17_a_document_elsewhere_is_asked_without_anything_of_ours() {
    let home = Server::in_order(vec![json("{}"), json("{}")]).await;
    let other = Server::in_order(vec![json("{}"), to(home.url("/x").as_str())]).await;
    let mut config = with_token(&home);
    config.http.headers = vec![fixed("X-Token", "H34D3R-s3cret"), fixed("X-Plain", "1")];
    let ours = client(&config);
    ours.document(&home.url("/spec")).await.unwrap();
    let asked = home.requests();
    assert_eq!(header(&asked[0], "authorization").unwrap(), "Bearer T0K3N-abc");
    assert_eq!(header(&asked[0], "x-token").unwrap(), "H34D3R-s3cret");
    ours.document(&other.url("/spec")).await.unwrap();
    assert!(ours.document(&other.url("/moved")).await.is_err(), "a redirect to another origin");
    for request in other.requests() {
        for name in ["authorization", "x-token", "x-plain"] {
            assert!(header(&request, name).is_none(), "{request}");
        }
    }
    assert_eq!((home.requests().len(), other.requests().len()), (1, 2));
}

#[tokio::test]
async fn r17_a_secret_in_a_foreign_url_stays_here() {
    let other = Server::in_order(vec![json("[]")]).await;
    let home = Server::in_order(vec![to(other.url("/x?t=T0K3N-abc").as_str())]).await;
    let mut config = with_token(&home);
    config.http.follow_redirects = Redirects::Any;
    let error = client(&config).page(&get(home.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains("credential") && !error.to_string().contains("T0K3N"), "{error}");
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn r17_with_credentials_a_redirect_to_another_origin_fails_before_anything_is_sent() {
    let other = Server::in_order(vec![json("[]")]).await;
    let home = Server::in_order(vec![to(other.url("/x").as_str())]).await;
    let mut config = with_token(&home);
    config.http.max_retries = 2;
    let error = client(&config).page(&get(home.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains(&other.address.to_string()), "{error}");
    assert_eq!((home.requests().len(), other.requests().len()), (1, 0));
}

#[tokio::test]
async fn r17_redirects_at_home_are_followed_with_the_credential() {
    let home = Server::in_order(vec![to("/a/b?x=1"), to("c"), json("[]")]).await;
    let mut config = with_token(&home);
    let page = client(&config).page(&get(home.url("/"))).await.unwrap();
    assert_eq!(page.url, home.url("/a/c"));
    assert_eq!(home.lines(), ["GET /", "GET /a/b?x=1", "GET /a/c"]);
    assert!(home.requests().iter().all(|r| header(r, "authorization").is_some()));
    config.http.follow_redirects = Redirects::Never;
    let never = Server::in_order(vec![to("/x")]).await;
    config.base_url = never.url("");
    assert!(client(&config).page(&get(never.url("/"))).await.unwrap_err().to_string().contains("never"));
}

#[tokio::test]
async fn r17_a_redirected_post_becomes_a_get_or_stays_as_the_status_says() {
    for (status, line) in [(303, "GET /y"), (302, "GET /y"), (307, "POST /y"), (308, "POST /y")] {
        let home = Server::in_order(vec![reply(status, &["Location: /y"], ""), json("[]")]).await;
        let post = Request { method: Method::Post, body: Some("{}".into()), ..get(home.url("/x")) };
        client(&source(&home)).page(&post).await.unwrap();
        assert_eq!(home.lines(), ["POST /x", line], "{status}");
        assert_eq!(home.requests()[1].ends_with("{}"), line.starts_with("POST"));
    }
}

#[tokio::test]
async fn r17_redirects_never_go_round_or_on_for_ever() {
    let circle = Server::start(|_, request| to(if request.starts_with("GET /a") { "/b" } else { "/a" })).await;
    let error = client(&source(&circle)).page(&get(circle.url("/a"))).await.unwrap_err();
    assert!(error.to_string().contains("circle"), "{error}");
    assert_eq!(circle.requests().len(), 2);
    let endless = Server::start(|n, _| to(&format!("/{n}"))).await;
    let error = client(&source(&endless)).page(&get(endless.url("/a"))).await.unwrap_err();
    assert!(error.to_string().contains("10 times"), "{error}");
    assert_eq!(endless.requests().len(), 11);
    let lost = Server::in_order(vec![reply(302, &[], "")]).await;
    let error = client(&source(&lost)).page(&get(lost.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains("without a Location"), "{error}");
}

#[tokio::test]
async fn r17_the_query_credential_is_added_to_links_once() {
    let home = Server::in_order(vec![json("[]")]).await;
    let mut config = source(&home);
    config.auth = Auth::Query { param: "api_key".into(), value: Secret::new("K3Y/=") };
    let client = client(&config);
    let first = client.page(&get(home.url("/items?a=1"))).await.unwrap();
    assert_eq!(first.url, home.url("/items?a=1"), "an answer's URL holds no credential");
    client.page(&link(home.url("/items?page=2&api_key=K3Y%2F%3D&z=a%2Bb"))).await.unwrap();
    client.page(&link(home.url("/items?page=3"))).await.unwrap();
    assert_eq!(
        home.lines(),
        [
            "GET /items?a=1&api_key=K3Y%2F%3D",
            "GET /items?page=2&api_key=K3Y%2F%3D&z=a%2Bb",
            "GET /items?page=3&api_key=K3Y%2F%3D"
        ]
    );
}
