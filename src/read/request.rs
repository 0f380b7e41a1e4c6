//! What a partition asks: its walk and the fixed part of its requests; and the token that it leaves for the next read.

use super::trim::Trim;
use crate::config::{ModeConfig, TableConfig};
use crate::decode::Scalar;
use crate::error::{Error, ErrorKind, Result};
use crate::paginate::Walk;
use crate::plan::request::{RequestTemplate, without_param, without_user};
use crate::plan::{Partition, Request, Slice};
use crate::position::Position;
use crate::position::instant::minus;

/// The walk of a partition: in its window, and asking for no more rows than a limit leaves.
pub(super) fn walk(template: RequestTemplate, table: &TableConfig, partition: &Partition) -> Result<Walk> {
    let mut paging = table.pagination.clone();
    let limit = partition.limit.filter(|_| !Trim::of(&partition.slice, None).drops_rows());
    paging.max_page_size = limit.map_or(paging.max_page_size, |limit| paging.max_page_size.min(limit.max(1)));
    let walk = Walk::new(template, &paging, partition.start.as_ref())?;
    match partition.slice {
        Slice::Offset { start, end, is_last } => walk.within(start, end, is_last),
        _ => Ok(walk),
    }
}

/// The first request of a partition: what would be asked, without asking.
pub(crate) fn first_request(table: &TableConfig, partition: &Partition) -> Result<Request> {
    Ok(walk(template(table, partition)?, table, partition)?.current().clone())
}

/// The fixed part of the requests of a read: with what its slice and filters send, and the stored timestamp or token, or
/// the stored link itself (R4).
pub(super) fn template(table: &TableConfig, partition: &Partition) -> Result<RequestTemplate> {
    let start = partition.start.as_ref();
    let Some(checkpoint) = &table.checkpoint else {
        let mut params = partition.slice.params(table);
        params.extend(partition.params.iter().cloned());
        return Ok(RequestTemplate::new(table, params));
    };
    let extra = match (start, &checkpoint.mode) {
        (Some(Position::Timestamp(text)), ModeConfig::Timestamp { param, format, .. }) => {
            // The windows of a stream lag as a whole.
            let sent = if checkpoint.lag.is_zero() || partition.batch.is_some() {
                text.clone()
            } else {
                let stored = format.parse(text).ok_or_else(|| {
                    Error::new(ErrorKind::Store, format!("the stored timestamp {text:?} does not read as {format}"))
                })?;
                format.render(minus(stored, checkpoint.lag))
            };
            vec![(param.clone(), sent)]
        }
        (Some(Position::Token(text)), ModeConfig::Token { param, .. }) => match url::Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => return Ok(RequestTemplate::from_link(url)),
            _ => vec![(param.clone(), text.clone())],
        },
        _ => Vec::new(),
    };
    Ok(RequestTemplate::new(table, extra))
}

/// The token as it is stored: verbatim, a URL without its credential (R4, R23).
pub(super) fn token(scalar: &Scalar, auth_param: Option<&str>) -> Result<Option<String>, String> {
    let text = match scalar {
        Scalar::Absent => return Ok(None),
        Scalar::Text(text) if text.is_empty() => return Ok(None),
        Scalar::Text(text) | Scalar::Number(text) => text.clone(),
        Scalar::Bool(flag) => flag.to_string(),
        Scalar::Structure(text) => return Err(text.clone()),
    };
    if !url::Url::parse(&text).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
        return Ok(Some(text));
    }
    let text = without_user(&text);
    Ok(Some(auth_param.map_or_else(|| text.clone(), |param| without_param(&text, param))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r23_a_url_token_is_stored_without_its_credentials_and_otherwise_verbatim() {
        let stored = |text: &str| token(&Scalar::Text(text.into()), Some("api_key")).unwrap().unwrap_or_default();
        assert_eq!(stored("https://a.test/d?dt=7&api_key=K3Y"), "https://a.test/d?dt=7");
        assert_eq!(stored("HTTP://u:p@a.test/d?api%5Fkey=K3Y&x=%2b#f"), "HTTP://a.test/d?x=%2b#f");
        assert_eq!(stored("zz+/=9?api_key=1"), "zz+/=9?api_key=1", "no URL");
        assert_eq!(token(&Scalar::Absent, None), Ok(None));
        assert_eq!(token(&Scalar::Number("017".into()), None), Ok(Some("017".into())));
        assert!(token(&Scalar::Structure("{}".into()), None).is_err());
    }
}
