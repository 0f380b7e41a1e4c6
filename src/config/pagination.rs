//! Reads a `pagination` block: the table's over the source's.

use jsonptr::PointerBuf;

use super::section::Section;
use super::validate::Sent;
use super::{CursorFrom, CursorTo, DeclaredEnd, Method, Pagination, Style};

/// `pagination.style`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StyleName {
    None,
    Offset,
    Page,
    Cursor,
    LinkHeader,
    NextUrl,
}

const STYLES: [(&str, StyleName); 6] = [
    ("none", StyleName::None),
    ("offset", StyleName::Offset),
    ("page", StyleName::Page),
    ("cursor", StyleName::Cursor),
    ("link_header", StyleName::LinkHeader),
    ("next_url", StyleName::NextUrl),
];

impl StyleName {
    /// The name in the configuration.
    pub(super) fn name(self) -> &'static str {
        STYLES.iter().find(|(_, style)| *style == self).map_or("none", |(name, _)| name)
    }
}

/// The keys that belong to some styles only, and to which.
const OWN_KEYS: [(&str, &[StyleName]); 11] = {
    use StyleName::{Cursor, NextUrl, Offset, Page};
    [
        ("offset-param", &[Offset]),
        ("page-param", &[Page]),
        ("first-page", &[Page]),
        ("total-path", &[Offset, Page]),
        ("has-more-path", &[Offset, Page]),
        ("cursor-path", &[Cursor]),
        ("cursor-header", &[Cursor]),
        ("cursor-param", &[Cursor]),
        ("cursor-body-path", &[Cursor]),
        ("initial-cursor", &[Cursor]),
        ("next-url-path", &[NextUrl]),
    ]
};

impl StyleName {
    /// The keys of other styles.
    fn leaves_out(self) -> Vec<&'static str> {
        OWN_KEYS.iter().filter(|(_, styles)| !styles.contains(&self)).map(|(key, _)| *key).collect()
    }
}

/// A table's pagination as far as it could be read.
pub(super) struct Paging<'a> {
    /// The table's block over the source's.
    pub(super) section: Section<'a>,
    pub(super) style: Option<StyleName>,
    /// The query parameters it sends, defaults included.
    pub(super) sends: Vec<Sent>,
    pub(super) config: Option<Pagination>,
}

/// Every key of a block by its type.
struct Values {
    style: Option<StyleName>,
    offset_param: Option<String>,
    page_param: Option<String>,
    first_page: Option<u64>,
    page_size_param: Option<String>,
    max_page_size: Option<u64>,
    results_path: Option<PointerBuf>,
    cursor_path: Option<PointerBuf>,
    cursor_header: Option<String>,
    cursor_param: Option<String>,
    cursor_body_path: Option<PointerBuf>,
    initial_cursor: Option<String>,
    next_url_path: Option<PointerBuf>,
    end: DeclaredEnd,
    max_pages: Option<u64>,
}

fn values(section: &Section<'_>) -> Values {
    Values {
        style: section.choice("style", &STYLES),
        offset_param: section.name("offset-param"),
        page_param: section.name("page-param"),
        first_page: section.whole("first-page", 0),
        page_size_param: section.name("page-size-param"),
        max_page_size: section.whole("max-page-size", 1),
        results_path: section.pointer("results-path"),
        cursor_path: section.pointer("cursor-path"),
        cursor_header: header_name(section),
        cursor_param: section.name("cursor-param"),
        cursor_body_path: section.pointer("cursor-body-path"),
        initial_cursor: section.name("initial-cursor"),
        next_url_path: section.pointer("next-url-path"),
        end: DeclaredEnd { total_path: section.pointer("total-path"), has_more_path: section.pointer("has-more-path") },
        max_pages: section.whole("max-pages", 1),
    }
}

fn header_name(section: &Section<'_>) -> Option<String> {
    let name = section.name("cursor-header")?;
    if http::HeaderName::try_from(&name).is_err() {
        section.problem("cursor-header", "is not a valid header name");
    }
    Some(name)
}

/// Checks the types of a block that tables may complete or replace.
pub(super) fn check_types(section: &Section<'_>) {
    values(section);
}

/// Reads a table's pagination: its own keys, and the source's when the style is the same.
pub(super) fn read<'a>(own: Section<'a>, source: &Section<'a>, method: Method) -> Paging<'a> {
    let own = own.with_defaults_of(source);
    let same = !own.sets("style") || own.text("style") == source.text("style");
    let section = match own.is_written() {
        false => source.clone(),
        true if same => own.over(source),
        true => own,
    };
    let mut values = values(&section);
    if let Some(style) = values.style {
        section.unused(&style.leaves_out(), &format!("style = {}", style.name()));
    }
    if !section.sets("page-size-param") && values.style != Some(StyleName::Offset) {
        values.page_size_param = None;
        section.unused(&["max-page-size"], "no page-size-param");
    }
    let (style, page_size_param) = (values.style, values.page_size_param.clone());
    let shared = (values.results_path.take(), values.max_page_size, values.max_pages);
    let typed = style.and_then(|style| read_style(style, values, &section, method));
    let sends = typed.iter().filter_map(param).map(|(key, param)| Sent::by(&section, key, param));
    let size = page_size_param.iter().map(|param| Sent::by(&section, "page-size-param", param));
    let sends = sends.chain(size).collect();
    let config = typed.zip(shared.1).map(|(style, max_page_size)| Pagination {
        style,
        results_path: shared.0,
        page_size_param,
        max_page_size,
        max_pages: shared.2,
    });
    Paging { section, style, sends, config }
}

/// The query parameter of a style and the key that names it.
fn param(style: &Style) -> Option<(&'static str, &str)> {
    match style {
        Style::Offset { param, .. } => Some(("offset-param", param)),
        Style::Page { param, .. } => Some(("page-param", param)),
        Style::Cursor { to: CursorTo::Query(param), .. } => Some(("cursor-param", param)),
        _ => None,
    }
}

fn read_style(style: StyleName, values: Values, section: &Section<'_>, method: Method) -> Option<Style> {
    Some(match style {
        StyleName::None => Style::None,
        StyleName::LinkHeader => Style::LinkHeader,
        StyleName::Offset => Style::Offset { param: values.offset_param?, end: values.end },
        StyleName::Page => Style::Page { param: values.page_param?, first: values.first_page?, end: values.end },
        StyleName::NextUrl => {
            section.require("next-url-path", " with style = next_url");
            Style::NextUrl { path: values.next_url_path? }
        }
        StyleName::Cursor => {
            let from = cursor_from(section, values.cursor_path, values.cursor_header);
            let to = cursor_to(section, values.cursor_param, values.cursor_body_path, method);
            Style::Cursor { from: from?, to: to?, initial: values.initial_cursor }
        }
    })
}

fn cursor_from(section: &Section<'_>, path: Option<PointerBuf>, header: Option<String>) -> Option<CursorFrom> {
    match upper(section, "cursor-path", "cursor-header") {
        Upper::Neither => {
            section.problem("cursor-path", "cursor-path or cursor-header is required with style = cursor");
            None
        }
        Upper::Both => {
            section.problem("cursor-header", "cannot stand beside cursor-path; one of them is the next cursor");
            None
        }
        Upper::First => path.map(CursorFrom::Path),
        Upper::Second => header.map(CursorFrom::Header),
    }
}

fn cursor_to(
    section: &Section<'_>,
    param: Option<String>,
    body_path: Option<PointerBuf>,
    method: Method,
) -> Option<CursorTo> {
    match upper(section, "cursor-param", "cursor-body-path") {
        Upper::Both => {
            section.problem("cursor-body-path", "cannot stand beside cursor-param; a cursor is sent once");
            None
        }
        Upper::Second => {
            if method == Method::Get {
                section.problem("cursor-body-path", "needs method = POST; a GET has no body");
            }
            body_path.map(CursorTo::Body)
        }
        Upper::First | Upper::Neither => param.map(CursorTo::Query),
    }
}

/// Which of two keys that exclude each other is set; the table's choice replaces the source's.
enum Upper {
    Neither,
    First,
    Second,
    Both,
}

fn upper(section: &Section<'_>, first: &str, second: &str) -> Upper {
    match (section.layer(first), section.layer(second)) {
        (None, None) => Upper::Neither,
        (Some(a), Some(b)) if a == b => Upper::Both,
        (Some(a), Some(b)) => {
            if a < b {
                Upper::First
            } else {
                Upper::Second
            }
        }
        (Some(_), None) => Upper::First,
        (None, Some(_)) => Upper::Second,
    }
}
