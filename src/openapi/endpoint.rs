//! Which path of a document an endpoint is: templates such as `/repos/{owner}/{repo}` match concrete paths.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use super::{Ask, Spec, nearest, server};

/// The template of the endpoint and what stands at it; else an error that names those most like it.
pub(super) fn find<'a>(spec: &'a Spec, ask: &Ask<'_>) -> Result<(&'a str, &'a Value), String> {
    let Some(paths) = spec.object("paths") else { return Err("the document has no paths".into()) };
    let candidates = candidates(ask, &server::all(spec, ask.origin));
    let templates = || paths.keys().filter(|key| key.starts_with('/'));
    for path in &candidates {
        let matches = templates().filter_map(|template| Some((score(template, path)?, template)));
        // Of equals the first.
        let best = matches.reduce(|best, next| if next.0 > best.0 { next } else { best });
        if let Some((template, item)) = best.and_then(|(_, template)| paths.get_key_value(template)) {
            return Ok((template, spec.resolve(item)?));
        }
    }
    let wanted = candidates.first().map_or("", String::as_str);
    Err(format!("the document has no path {wanted}; it has {}", nearest(wanted, templates().map(String::as_str))))
}

/// The paths that the endpoint may have in the document, the likeliest first.
///
/// Below a server of the same origin; below the base URL, which may be a stand-in's; below any other server; whole.
fn candidates(ask: &Ask<'_>, servers: &[(Option<Url>, String)]) -> Vec<String> {
    let origin = ask.base.origin();
    let is_ours = |server: &Option<Url>| server.as_ref().is_some_and(|url| url.origin() == origin);
    let mut roots: Vec<(u8, &str)> =
        servers.iter().map(|(url, path)| (if is_ours(url) { 0 } else { 2 }, path.as_str())).collect();
    roots.push((1, ask.base.path()));
    roots.push((3, "/"));
    roots.sort_by_key(|(rank, root)| (*rank, std::cmp::Reverse(root.trim_end_matches('/').len())));
    let path = decoded(ask.url.path());
    let mut candidates: Vec<String> = Vec::new();
    for (_, root) in roots {
        let root = decoded(root.trim_end_matches('/'));
        let below = path.strip_prefix(&root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let below = below.map(|rest| if rest.is_empty() { "/" } else { rest });
        if let Some(below) = below.filter(|below| !candidates.iter().any(|known| known == below)) {
            candidates.push(below.to_owned());
        }
    }
    candidates
}

fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// How well a template fits a path; `None` if it does not. A slash at the end is no difference, but counts.
fn score(template: &str, path: &str) -> Option<(usize, bool)> {
    let is_same_end = template.ends_with('/') == path.ends_with('/');
    let (mut templates, mut segments) =
        (template.trim_end_matches('/').split('/'), path.trim_end_matches('/').split('/'));
    let mut written = 0;
    loop {
        match (templates.next(), segments.next()) {
            (None, None) => return Some((written, is_same_end)),
            (Some(template), Some(segment)) => written += segment_score(template, segment)?,
            _ => return None,
        }
    }
}

/// The characters of a segment that its template spells out; `None` if it does not fit.
fn segment_score(template: &str, segment: &str) -> Option<usize> {
    let Some((head, rest)) = template.split_once('{').filter(|(_, rest)| rest.contains('}')) else {
        let template = percent_decode_str(template).decode_utf8_lossy();
        // What is spelt out wins over any parameter.
        return (template == segment).then_some(segment.len() + 1);
    };
    let mut left = segment.strip_prefix(head)?;
    let mut written = head.len();
    let mut rest = rest;
    loop {
        let (_, after) = rest.split_once('}')?;
        let (literal, next) = match after.split_once('{').filter(|(_, next)| next.contains('}')) {
            Some((literal, next)) => (literal, Some(next)),
            None => (after, None),
        };
        written += literal.len();
        let Some(next) = next else {
            // A parameter is at least one character.
            return left.strip_suffix(literal).filter(|value| !value.is_empty()).map(|_| written);
        };
        let first = left.chars().next()?.len_utf8();
        let at = left.get(first..)?.find(literal)?;
        left = left.get(first + at + literal.len()..)?;
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(servers: &[&str], paths: &[&str], base: &str, url: &str) -> Result<String, String> {
        let servers: Vec<Value> = servers.iter().map(|url| json!({"url": url})).collect();
        let paths: serde_json::Map<String, Value> = paths.iter().map(|path| ((*path).to_owned(), json!({}))).collect();
        let spec = Spec::new(json!({"openapi": "3.0.0", "servers": servers, "paths": paths})).unwrap();
        let (base, url) = (Url::parse(base).unwrap(), Url::parse(url).unwrap());
        let ask = Ask {
            url: &url,
            base: &base,
            origin: None,
            method: "GET",
            data_path: None,
            is_paged: false,
            is_streamed: false,
            flatten_depth: 2,
        };
        find(&spec, &ask).map(|(template, _)| template.to_owned())
    }

    #[test]
    fn a_template_matches_a_concrete_path() {
        let paths = [
            "/repos/{owner}/{repo}/issues",
            "/repos/{owner}/{repo}/issues/{number}",
            "/repos/{owner}/{repo}/{what}",
            "/users/me",
            "/users/{id}",
            "/accounts/{sid}.json",
            "/compare/{base}...{head}",
            "/slash/",
            "/slash",
            "/only/",
            "/a b/ü",
            "/",
        ];
        for (path, template) in [
            ("/repos/apache/arrow/issues", "/repos/{owner}/{repo}/issues"),
            ("/repos/apache/arrow/issues/7", "/repos/{owner}/{repo}/issues/{number}"),
            ("/repos/apache/arrow/pulls", "/repos/{owner}/{repo}/{what}"),
            ("/users/me", "/users/me"),
            ("/users/m", "/users/{id}"),
            ("/accounts/AC1.json", "/accounts/{sid}.json"),
            ("/compare/v1...v2", "/compare/{base}...{head}"),
            ("/slash/", "/slash/"),
            ("/slash", "/slash"),
            ("/only", "/only/"),
            ("/a%20b/%C3%BC", "/a b/ü"),
            ("/repos/%7Bowner%7D/x/issues", "/repos/{owner}/{repo}/issues"),
            ("/", "/"),
        ] {
            let url = format!("https://h{path}");
            assert_eq!(found(&["https://h"], &paths, "https://h", &url).as_deref(), Ok(template), "{path}");
        }
        for path in ["/repos/apache//issues", "/repos/apache/arrow", "/accounts/.json", "/compare/v1..v2", "/nope"] {
            let said = found(&["https://h"], &paths, "https://h", &format!("https://h{path}")).unwrap_err();
            assert!(said.contains(&format!("no path {path}; it has ")), "{said}");
        }
    }

    #[test]
    fn the_paths_of_servers_and_of_the_base_are_left_out() {
        let paths = ["/things", "/v1/others"];
        for (servers, base, url, want) in [
            (&["https://h/v1"][..], "https://h/v1", "https://h/v1/things", "/things"),
            (&["/v1"], "https://h/v1", "https://h/v1/things", "/things"),
            (&["https://h"], "https://h/v1", "https://h/v1/others", "/v1/others"),
            // A base URL inside the server's, and a stand-in with a path of its own.
            (&["https://h/api"], "https://h/api/v1", "https://h/api/v1/others", "/v1/others"),
            (&["https://h/api"], "http://127.0.0.1:1/mock", "http://127.0.0.1:1/mock/things", "/things"),
            (&["https://h/v1"], "http://127.0.0.1:1", "http://127.0.0.1:1/v1/things", "/things"),
            (&["https://h/v1"], "http://127.0.0.1:1", "http://127.0.0.1:1/things", "/things"),
            (&[], "https://h", "https://h/things", "/things"),
        ] {
            assert_eq!(found(servers, &paths, base, url).as_deref(), Ok(want), "{servers:?} {base} {url}");
        }
    }

    #[test]
    fn the_nearest_paths_are_named_and_no_more_than_a_few() {
        let paths: Vec<String> = (0..100).map(|n| format!("/other{n}")).chain(["/things".into()]).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let said = found(&[], &paths, "https://h", "https://h/thing").unwrap_err();
        assert!(said.starts_with("the document has no path /thing; it has /things, "), "{said}");
        assert!(said.ends_with(" and 96 more"), "{said}");
    }
}
