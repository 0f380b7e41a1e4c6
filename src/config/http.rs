//! Reads the `http` and `schema` blocks and fixed headers.

use super::section::Section;
use super::{
    ColumnConfig, FixedHeader, HttpConfig, OnMismatch, Rate, Redirects, ResponseFormat, SchemaConfig, SchemaMode,
    explode,
};
use crate::secret::{Secret, names_a_secret};

/// `http.response-format` as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Ndjson,
    Sse,
    Csv,
}

impl Format {
    /// The name in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Sse => "sse",
            Self::Csv => "csv",
        }
    }

    /// Whether records come one by one, without a document around them.
    pub(super) fn is_streamed(self) -> bool {
        self != Self::Json
    }
}

const FORMATS: [(&str, Format); 5] = [
    ("json", Format::Json),
    ("ndjson", Format::Ndjson),
    ("jsonl", Format::Ndjson),
    ("sse", Format::Sse),
    ("csv", Format::Csv),
];

const REDIRECTS: [(&str, Redirects); 3] =
    [("same-origin", Redirects::SameOrigin), ("never", Redirects::Never), ("any", Redirects::Any)];

/// Reads `http.response-format`.
pub(super) fn read_format(section: &Section<'_>) -> Option<Format> {
    section.choice("response-format", &FORMATS)
}

/// Reads the `http` block.
pub(super) fn read(section: &Section<'_>) -> Option<HttpConfig> {
    let timeout = section.time_out("timeout");
    let idle_timeout = section.time_out("idle-timeout");
    let page_timeout = section.time_out("page-timeout");
    let max_retries = section.whole("max-retries", 0).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let max_backoff = section.duration("max-backoff");
    let max_retry_after = section.duration("max-retry-after");
    let rate_limit = read_rate(section);
    let read_ahead = section.size("read-ahead", 1);
    let compression = section.flag("compression");
    let format = read_format(section);
    let max_body_bytes = section.bytes("max-body-bytes");
    let follow_redirects = section.choice("follow-redirects", &REDIRECTS);
    let headers = read_headers(section);
    let response_format = match format? {
        Format::Json => ResponseFormat::Json,
        Format::Ndjson => ResponseFormat::Ndjson,
        Format::Sse => ResponseFormat::Sse,
        Format::Csv => ResponseFormat::Csv,
    };
    Some(HttpConfig {
        timeout: timeout?,
        idle_timeout: idle_timeout?,
        page_timeout: page_timeout?,
        max_retries: max_retries?,
        max_backoff: max_backoff?,
        max_retry_after: max_retry_after?,
        rate_limit,
        read_ahead: read_ahead?,
        compression: compression?,
        response_format,
        max_body_bytes: max_body_bytes?,
        follow_redirects: follow_redirects?,
        headers,
    })
}

fn read_rate(section: &Section<'_>) -> Option<Rate> {
    let text = section.text("rate-limit")?;
    let rate = parse_rate(&text);
    if rate.is_none() {
        let form = "a number of requests per second above zero, or a text such as \"100 / minute\"";
        section.problem("rate-limit", format!("expected {form} (second, minute, hour or day)"));
    }
    rate
}

fn parse_rate(text: &str) -> Option<Rate> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "second"));
    let seconds = match unit.trim() {
        "second" => 1.0,
        "minute" => 60.0,
        "hour" => 3_600.0,
        "day" => 86_400.0,
        _ => return None,
    };
    let per_second = number.trim().parse::<f64>().ok()? / seconds;
    (per_second.is_finite() && per_second > 0.0).then_some(Rate { per_second })
}

/// Reads a `headers` block. Values are never shown: any of them could be a credential.
pub(super) fn read_headers(section: &Section<'_>) -> Vec<FixedHeader> {
    let mut headers: Vec<FixedHeader> = Vec::new();
    for (name, value) in section.pairs("headers") {
        let key = super::text::join(&section.key("headers"), &name);
        let report = section.report();
        if http::HeaderName::try_from(&name).is_err() {
            report.problem(&key, "is not a valid header name");
        } else if http::HeaderValue::try_from(&value).is_err() {
            report.problem(&key, "does not hold a valid header value");
        } else if headers.iter().any(|h| h.name.eq_ignore_ascii_case(&name)) {
            report.problem(&key, "is set twice; a header has one value here");
        }
        headers.push(FixedHeader { is_secret: names_a_secret(&name), name, value: Secret::new(value) });
    }
    headers
}

/// Reads `schema.mode` as it applies to a table. Columns are declared in the table, or for all in a document.
pub(super) fn read_mode(section: &Section<'_>, table: &Section<'_>, has_spec: bool) -> Option<SchemaMode> {
    let modes = [("strict", SchemaMode::Strict), ("infer", SchemaMode::Infer), ("variant", SchemaMode::Variant)];
    match section.sets("mode") {
        true => section.choice("mode", &modes),
        false if has_spec || table.sets("columns") => Some(SchemaMode::Strict),
        false => Some(SchemaMode::Infer),
    }
}

/// Reads the `schema` block as it applies to a table with these columns.
pub(super) fn read_schema(
    section: &Section<'_>,
    mode: Option<SchemaMode>,
    columns: &[ColumnConfig],
    is_from_spec: bool,
    table: &Section<'_>,
    (name, names): (&str, &[String]),
) -> Option<SchemaConfig> {
    match mode {
        Some(SchemaMode::Strict) if columns.is_empty() && !is_from_spec => {
            table.problem("columns", "schema.mode = strict needs at least one column");
        }
        Some(SchemaMode::Infer) => table.unused(&["columns"], "schema.mode = infer"),
        Some(SchemaMode::Variant) => {
            table.unused(&["columns"], "schema.mode = variant");
            section.unused(&["flatten-depth", "rest-column"], "schema.mode = variant");
        }
        _ => {}
    }
    // HOCON reads a bare `null` as "not set"; here it is the name of the setting.
    let on_mismatch = match (section.is_null("on-mismatch"), mode) {
        (true, _) => Some(OnMismatch::Null),
        _ if section.sets("on-mismatch") => {
            section.choice("on-mismatch", &[("null", OnMismatch::Null), ("fail", OnMismatch::Fail)])
        }
        (_, Some(SchemaMode::Infer)) => Some(OnMismatch::Fail),
        _ => Some(OnMismatch::Null),
    };
    let rest_column = section.name("rest-column");
    if let Some(rest) = &rest_column {
        let taken = columns.iter().any(|c| c.name == *rest) || (mode == Some(SchemaMode::Variant) && rest == "value");
        if taken {
            section.problem("rest-column", format!("{rest:?} is also a column of {}", table.path()));
        }
    }
    let explode = mode.and_then(|mode| explode::read(section, mode, name, names));
    let (flatten_depth, batch_rows) = (section.size("flatten-depth", 0), section.size("batch-rows", 1));
    Some(SchemaConfig {
        mode: mode?,
        flatten_depth: flatten_depth?,
        on_mismatch: on_mismatch?,
        rest_column,
        batch_rows: batch_rows?,
        explode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_per_second_or_per_named_time() {
        for (text, per_second) in
            [("4", 4.0), ("0.5", 0.5), ("120 / minute", 2.0), ("7200/hour", 2.0), ("86400 / day", 1.0)]
        {
            assert_eq!(parse_rate(text), Some(Rate { per_second }), "{text}");
        }
        for text in ["0", "-1", "inf", "nan", "x", "10 / week", "10 per minute", "", "/minute"] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
    }
}
