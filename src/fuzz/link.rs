//! The Link parser: what it follows can be written as a link again, and is the same place.

use http::header::LINK;
use http::{HeaderMap, HeaderValue};
use url::Url;

use super::hold;
use crate::decode::Envelope;
use crate::paginate::{Answer, link as links};
use crate::plan::Request;

/// Header lines, one a line.
pub fn link(data: &[u8]) -> Result<(), String> {
    let base = Url::parse("https://api.test/v1/items?page=1").map_err(|e| e.to_string())?;
    let lines = data.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok());
    let Ok(Some(request)) = next(&base, lines) else { return Ok(()) };
    hold(matches!(request.url.scheme(), "http" | "https"), || format!("it leads to {}", request.url))?;
    let written = HeaderValue::try_from(format!("<{}>; rel=next", request.url)).map_err(|e| e.to_string())?;
    let again = next(&base, [written]);
    hold(again.as_ref() == Ok(&Some(request.clone())), || format!("{request:?} was written and read as {again:?}"))
}

fn next(base: &Url, lines: impl IntoIterator<Item = HeaderValue>) -> Result<Option<Request>, String> {
    let headers: HeaderMap = lines.into_iter().fold(HeaderMap::new(), |mut headers, line| {
        headers.append(LINK, line);
        headers
    });
    let envelope = Envelope::default();
    let answer = Answer { url: base, headers: &headers, received: 1, content: None, envelope: &envelope };
    links::next(answer).map_err(|error| error.to_string())
}
