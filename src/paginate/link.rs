//! RFC 8288: the walk follows `rel=next` and ends where there is none (R14, R17).

use super::Answer;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Request;

/// The link to the next page, if the answer has one.
pub(crate) fn next(answer: Answer<'_>) -> Result<Option<Request>> {
    for line in answer.headers.get_all(http::header::LINK) {
        // Targets are ASCII; a title in another charset must not hide the link beside it.
        let line = String::from_utf8_lossy(line.as_bytes());
        // RFC 9110 section 5.6.1: empty list elements are nothing.
        let line = line.trim_start_matches([',', ' ', '\t']).trim_end_matches([',', ';', ' ', '\t']);
        if line.is_empty() {
            continue;
        }
        let links = http_link::parse_link_header(line, answer.url)
            .map_err(|e| Error::new(ErrorKind::Decode, format!("the Link header cannot be read: {e}: {line}")))?;
        if let Some(link) = links.iter().find(|link| is_next(&link.rel) && link.context == *answer.url) {
            return Request::link(answer.url, link.target.as_str())
                .map(Some)
                .map_err(|what| Error::new(ErrorKind::Decode, what));
        }
    }
    Ok(None)
}

fn is_next(rel: &str) -> bool {
    // Single quotes are no quotes in RFC 8288, but nobody means a relation of that name.
    rel.split_ascii_whitespace().any(|one| one.trim_matches('\'').eq_ignore_ascii_case("next"))
}
