//! By a URL in the page: absent, null or `""` ends the walk (R14, R17).

use super::Answer;
use crate::decode::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Request;

/// The link to the next page, if the page has one.
pub(super) fn next(answer: Answer<'_>) -> Result<Option<Request>> {
    match &answer.envelope.next {
        Scalar::Absent => Ok(None),
        Scalar::Text(text) if text.is_empty() => Ok(None),
        Scalar::Text(text) => {
            Request::link(answer.url, text).map(Some).map_err(|what| Error::new(ErrorKind::Decode, what))
        }
        Scalar::Number(text) | Scalar::Structure(text) => Err(no_url(text)),
        Scalar::Bool(flag) => Err(no_url(&flag.to_string())),
    }
}

fn no_url(text: &str) -> Error {
    Error::new(ErrorKind::Decode, format!("next-url-path holds no URL: {text}"))
}
