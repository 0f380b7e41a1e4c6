//! Where the API of a document is: its servers, or the scheme, host and base path of Swagger 2.0.

use serde_json::Value;
use url::Url;

use super::{Dialect, Spec, shown};

/// The URL of the first server.
pub(super) fn first(spec: &Spec, origin: Option<&Url>) -> Result<Url, String> {
    match spec.dialect {
        Dialect::Swagger2 => swagger(spec, origin),
        Dialect::OpenApi3 => {
            let first = spec.root.get("servers").and_then(|servers| servers.get(0));
            first.map_or_else(|| absolute("/", origin), |server| of(server, origin))
        }
    }
}

/// The paths below which the document's endpoints stand, with the URL of each as far as it is known.
pub(super) fn all(spec: &Spec, origin: Option<&Url>) -> Vec<(Option<Url>, String)> {
    let lists = match spec.dialect {
        Dialect::Swagger2 => {
            let path = spec.root.get("basePath").and_then(Value::as_str).unwrap_or("/");
            return vec![(swagger(spec, origin).ok(), path.to_owned())];
        }
        Dialect::OpenApi3 => std::iter::once(&spec.root)
            .chain(spec.object("paths").into_iter().flat_map(|paths| paths.values()))
            .filter_map(|holder| holder.get("servers")?.as_array()),
    };
    let known = lists.flatten().filter_map(|server| {
        let written = written(server).ok()?;
        let url = absolute(&written, origin).ok();
        let path = url.as_ref().map_or(written, |url| url.path().to_owned());
        path.starts_with('/').then_some((url, path))
    });
    let mut all: Vec<(Option<Url>, String)> = Vec::new();
    for server in known {
        if !all.contains(&server) {
            all.push(server);
        }
    }
    all
}

fn of(server: &Value, origin: Option<&Url>) -> Result<Url, String> {
    absolute(&written(server)?, origin)
}

/// The URL of a server with the defaults of its variables.
fn written(server: &Value) -> Result<String, String> {
    let template = server.get("url").and_then(Value::as_str).unwrap_or("/");
    let (mut url, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, end) = after.split_once('}').ok_or("its first server has a { that is not closed")?;
        let default = server.get("variables").and_then(|all| all.get(name)?.get("default"));
        let default = default.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        url.push_str(before);
        url.push_str(&default.ok_or_else(|| format!("its server has no default for {{{}}}", shown(name, 50)))?);
        rest = end;
    }
    Ok(url + rest)
}

fn absolute(text: &str, origin: Option<&Url>) -> Result<Url, String> {
    match (Url::parse(text), origin) {
        (Ok(url), _) => Ok(url),
        (Err(url::ParseError::RelativeUrlWithoutBase), Some(origin)) => {
            origin.join(text).map_err(|_| "its first server is no URL".to_owned())
        }
        (Err(url::ParseError::RelativeUrlWithoutBase), None) => {
            Err(format!("its first server is {}, which names no host", shown(text, 100)))
        }
        (Err(_), _) => Err("its first server is no URL".to_owned()),
    }
}

fn swagger(spec: &Spec, origin: Option<&Url>) -> Result<Url, String> {
    let text = |key: &str| spec.root.get(key).and_then(Value::as_str);
    let schemes: Vec<&str> =
        spec.root.get("schemes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let offered = ["https", "http"].into_iter().find(|scheme| schemes.contains(scheme));
    let scheme = offered.or(origin.map(Url::scheme)).ok_or("it names no scheme, http or https")?;
    let host = match (text("host"), origin) {
        (Some(host), _) => host.to_owned(),
        (None, Some(origin)) => origin.authority().rsplit('@').next().unwrap_or_default().to_owned(),
        (None, None) => return Err("it names no host".to_owned()),
    };
    let path = text("basePath").unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    Url::parse(&format!("{scheme}://{host}{slash}{path}")).map_err(|_| "its host and basePath make no URL".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(mut root: Value, origin: Option<&str>) -> Result<String, String> {
        if root.get("swagger").is_none() {
            root["openapi"] = "3.0.0".into();
        }
        root["paths"] = json!({});
        let origin = origin.map(|url| Url::parse(url).unwrap());
        first(&Spec::new(root).unwrap(), origin.as_ref()).map(String::from)
    }

    #[test]
    fn the_first_server_is_the_base() {
        let at = Some("https://docs.example.com/api/spec.json");
        for (root, origin, want) in [
            (json!({"servers": [{"url": "http://h/v1"}, {"url": "http://i"}]}), None, "http://h/v1"),
            (json!({"servers": [{"url": "/v1"}]}), at, "https://docs.example.com/v1"),
            (json!({"servers": [{"url": "../v1"}]}), at, "https://docs.example.com/v1"),
            (json!({"servers": [{"url": "//h/v1"}]}), at, "https://h/v1"),
            (json!({}), at, "https://docs.example.com/"),
            (json!({"servers": []}), at, "https://docs.example.com/"),
            (
                json!({"servers": [{"url": "https://{host}:{port}/{v}",
                    "variables": {"host": {"default": "h"}, "port": {"default": 8443}, "v": {"default": "v2"}}}]}),
                None,
                "https://h:8443/v2",
            ),
            (json!({"swagger": "2.0", "host": "h:81", "basePath": "/v1", "schemes": ["http"]}), None, "http://h:81/v1"),
            (json!({"swagger": "2.0", "host": "h", "schemes": ["http", "wss", "https"]}), None, "https://h/"),
            (json!({"swagger": "2.0", "basePath": "v1"}), at, "https://docs.example.com/v1"),
        ] {
            assert_eq!(server(root.clone(), origin).as_deref(), Ok(want), "{root}");
        }
    }

    #[test]
    fn a_server_that_is_nowhere_is_said() {
        for (root, said) in [
            (json!({}), "names no host"),
            (json!({"servers": [{"url": "/v1"}]}), "/v1, which names no host"),
            (json!({"servers": [{"url": "https://{host}/"}]}), "no default for {host}"),
            (json!({"servers": [{"url": "https://{host"}]}), "not closed"),
            (json!({"servers": [{"url": "https://"}]}), "no URL"),
            (json!({"swagger": "2.0", "host": "h"}), "no scheme"),
            (json!({"swagger": "2.0", "schemes": ["https"]}), "no host"),
        ] {
            let error = server(root.clone(), None).unwrap_err();
            assert!(error.contains(said), "{root}: {error}");
        }
    }
}
