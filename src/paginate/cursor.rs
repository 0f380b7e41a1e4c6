//! By a continuation in the page: absent, null or `""` ends the walk; numbers, 0 and booleans are cursors (R14).

use super::Answer;
use crate::config::{CursorFrom, CursorTo};
use crate::decode::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Request;
use crate::plan::request::RequestTemplate;

/// Where a cursor walk stands.
#[derive(Debug, Clone)]
pub struct Cursor {
    sent: Option<String>,
    fetched: Option<String>,
}

impl Cursor {
    /// At a stored cursor, the initial one, or none.
    pub fn starting(cursor: Option<String>) -> Self {
        Self { sent: cursor.clone(), fetched: cursor }
    }

    /// The cursor that fetched the last page.
    pub fn fetched(&self) -> Option<&str> {
        self.fetched.as_deref()
    }

    /// Takes a page; `false` is the end.
    pub(super) fn pass(&mut self, answer: Answer<'_>, from: &CursorFrom) -> Result<bool> {
        self.fetched.clone_from(&self.sent);
        let next = match from {
            CursorFrom::Path(path) => match &answer.envelope.next {
                Scalar::Absent => None,
                Scalar::Text(text) | Scalar::Number(text) => Some(text.clone()),
                Scalar::Bool(flag) => Some(flag.to_string()),
                Scalar::Structure(text) => {
                    let what = format!("cursor-path {path} holds an object or array, which is no cursor: {text}");
                    return Err(Error::new(ErrorKind::Decode, what));
                }
            },
            CursorFrom::Header(name) => match answer.headers.get(name) {
                None => None,
                Some(value) => Some(value.to_str().map(str::to_owned).map_err(|_| {
                    Error::new(ErrorKind::Decode, format!("the cursor header {name} is not readable text"))
                })?),
            },
        };
        match next.filter(|text| !text.is_empty()) {
            Some(next) => {
                self.sent = Some(next);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The next request of this walk.
    pub(super) fn request<'a>(
        &'a self,
        template: &RequestTemplate,
        to: &'a CursorTo,
        mut params: Vec<(&'a str, &'a str)>,
    ) -> Result<Request> {
        match (to, &self.sent) {
            (_, None) => {}
            (CursorTo::Query(name), Some(cursor)) => params.push((name, cursor)),
            (CursorTo::Body(path), Some(cursor)) => {
                return template
                    .with_body_value(path, cursor, &params)
                    .map_err(|what| Error::new(ErrorKind::Config, what));
            }
        }
        Ok(template.with_params(&params))
    }
}
