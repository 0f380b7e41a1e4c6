//! The base URL, and what an endpoint makes of it.

use url::Url;

/// Reads `base-url`. Messages never show it: it could hold a credential.
pub(super) fn base(text: &str) -> Result<Url, String> {
    let url = http_url(text)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password; use auth { type = basic, ... }".into());
    }
    if url.query().is_some() {
        return Err("must not have a query; use the params of the tables".into());
    }
    if url.fragment().is_some() {
        return Err("must not have a fragment (#)".into());
    }
    Ok(url)
}

/// Reads `openapi` where it is a URL. Its query may hold a credential, too.
pub(super) fn document(text: &str) -> Result<Url, String> {
    let url = http_url(text)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password".into());
    }
    if url.fragment().is_some() {
        return Err("must not have a fragment (#)".into());
    }
    Ok(url)
}

/// An absolute `http` or `https` URL.
pub(super) fn http_url(text: &str) -> Result<Url, String> {
    let refused = || "must be an absolute http or https URL, such as https://api.example.com/v1".to_owned();
    let url = Url::parse(text).map_err(|_| refused())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || text.contains(char::is_whitespace) {
        return Err(refused());
    }
    Ok(url)
}

/// What can be said of an endpoint without knowing the base URL.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    if endpoint.contains('?') {
        return Err("must not have a query; use params".into());
    }
    if endpoint.contains('#') {
        return Err("must not have a fragment (#)".into());
    }
    if endpoint.contains('\\') || endpoint.contains(char::is_control) {
        return Err("must not have backslashes or control characters".into());
    }
    Ok(())
}

/// The URL of an endpoint: a path relative to the base, or an absolute path or URL below it.
pub(super) fn endpoint(base: &Url, endpoint: &str) -> Result<Url, String> {
    let root = base.path().trim_end_matches('/');
    if endpoint.starts_with("http://") || endpoint.starts_with("https://") {
        let url = http_url(endpoint)?;
        let plain = url.username().is_empty() && url.password().is_none();
        if url.origin() != base.origin() || !plain || !is_below(url.path(), root) {
            return Err(format!("is not below base-url ({base})"));
        }
        return Ok(url);
    }
    let below = match endpoint.strip_prefix(root) {
        Some(rest) if endpoint.starts_with('/') && (rest.is_empty() || rest.starts_with('/')) => rest,
        _ => endpoint,
    };
    if leaves(below) {
        return Err(format!("leaves base-url ({base}) by its .. segments"));
    }
    let mut url = base.clone();
    if !below.is_empty() {
        url.set_path(&format!("{root}/{}", below.strip_prefix('/').unwrap_or(below)));
    }
    Ok(url)
}

/// The names in braces of an endpoint, or a complaint about the braces.
pub(super) fn placeholders(endpoint: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    let mut rest = endpoint;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, end)) = after.split_once('}') else { return Err("a { is not closed".into()) };
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err("a placeholder is a name in braces: {key}".into());
        }
        names.push(name);
        rest = end;
    }
    if rest.contains('}') { Err("a } was never opened".into()) } else { Ok(names) }
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the dot segments of a path climb above its beginning at any point.
fn leaves(path: &str) -> bool {
    let mut depth = 0_i64;
    path.split('/').any(|segment| {
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        depth < 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(base_url: &str, text: &str) -> Result<String, String> {
        endpoint(&base(base_url).unwrap(), text).map(String::from)
    }

    #[test]
    fn an_endpoint_keeps_the_path_of_the_base() {
        for (base, text, url) in [
            ("http://h/api/v1", "/items", "http://h/api/v1/items"),
            ("http://h/api/v1/", "items", "http://h/api/v1/items"),
            ("http://h/api/v1", "/api/v1/items", "http://h/api/v1/items"),
            ("http://h/api/v1", "/api/v1", "http://h/api/v1"),
            ("http://h/api/v1", "/api/v10/items", "http://h/api/v1/api/v10/items"),
            ("http://h/api/v1", "http://h/api/v1/items", "http://h/api/v1/items"),
            ("http://h/api/v1", "a/../b", "http://h/api/v1/b"),
            ("http://h", "/items", "http://h/items"),
            ("http://h", "", "http://h/"),
            ("http://h:8080", "http://h:8080/x", "http://h:8080/x"),
            ("https://h/v1", "a b/ü", "https://h/v1/a%20b/%C3%BC"),
        ] {
            assert_eq!(joined(base, text).as_deref(), Ok(url), "{base} + {text}");
        }
    }

    #[test]
    fn an_endpoint_cannot_leave_the_base() {
        for text in [
            "../items",
            "/a/../../items",
            "%2e%2E/items",
            "http://h/api/v2/items",
            "https://h/api/v1/items",
            "http://evil/api/v1/items",
            "http://h/api/v1/../v2",
            "http://u:p@h/api/v1/items",
            "http://h/api/v10",
        ] {
            assert!(joined("http://h/api/v1", text).is_err(), "{text}");
        }
        assert!(joined("http://h", "/../x").is_err());
    }

    #[test]
    fn r23_a_refused_base_url_is_not_shown() {
        for text in ["https://u:SECRET@h/", "https://h/?k=SECRET", "SECRET", "ftp://SECRET/", "https://h/#SECRET"] {
            assert!(!base(text).unwrap_err().contains("SECRET"), "{text}");
        }
    }
}
