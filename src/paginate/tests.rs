//! Every style against small model servers: any page size, any cut, and the ways a walk can go wrong.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use url::Url;

use super::*;
use crate::config::{CursorFrom, CursorTo};
use crate::plan::request::RequestTemplate;

fn pointer(text: &str) -> jsonptr::PointerBuf {
    jsonptr::PointerBuf::parse(text).unwrap()
}

fn paging(style: Style, size: u64) -> Pagination {
    let page_size_param = matches!(style, Style::Offset { .. }).then(|| "limit".to_owned());
    Pagination { style, results_path: None, page_size_param, max_page_size: size, max_pages: None }
}

fn offset_style(total: bool, flag: bool) -> Style {
    Style::Offset { param: "offset".into(), end: end(total, flag) }
}

fn end(total: bool, flag: bool) -> DeclaredEnd {
    DeclaredEnd { total_path: total.then(|| pointer("/total")), has_more_path: flag.then(|| pointer("/more")) }
}

fn cursor_style() -> Style {
    Style::Cursor { from: CursorFrom::Path(pointer("/next")), to: CursorTo::Query("cursor".into()), initial: None }
}

fn walk(paging: &Pagination, start: Option<&Position>) -> Walk {
    let template = RequestTemplate::bare(Url::parse("http://api.test/v1/items").unwrap());
    Walk::new(template, paging, start).unwrap()
}

struct Said {
    received: u64,
    content: Option<u128>,
    envelope: Envelope,
    headers: HeaderMap,
}

impl Said {
    fn rows(received: u64) -> Self {
        Self { received, content: None, envelope: Envelope::default(), headers: HeaderMap::new() }
    }

    fn next(received: u64, next: Scalar) -> Self {
        let mut said = Self::rows(received);
        said.envelope.next = next;
        said
    }
}

fn step(walk: &mut Walk, said: &Said) -> Result<Step> {
    let url = walk.current().url.clone();
    walk.advance(Answer {
        url: &url,
        headers: &said.headers,
        received: said.received,
        content: said.content,
        envelope: &said.envelope,
    })
}

fn param(request: &Request, name: &str) -> Option<String> {
    request.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn number(request: &Request, name: &str) -> u64 {
    param(request, name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

proptest! {
    /// Every record comes once, whatever size the server gives each time, with and without a declared end.
    #[test]
    fn r14_an_offset_walk_visits_every_row_once(
        count in 0_u64..60, asked in 1_u64..20, sizes in prop::collection::vec(1_u64..25, 60), total: bool, flag: bool,
    ) {
        let mut walk = walk(&paging(offset_style(total, flag), asked), None);
        let (mut seen, mut turn) = (0, 0);
        loop {
            let at = number(walk.current(), "offset");
            prop_assert_eq!(at, seen, "no row is skipped or asked for twice");
            let received = sizes[turn % sizes.len()].min(count.saturating_sub(at));
            seen += received;
            turn += 1;
            let mut said = Said::rows(received);
            said.content = Some(u128::from(at));
            if total { said.envelope.total = Scalar::Number(count.to_string()); }
            if flag { said.envelope.has_more = Scalar::Bool(at + received < count); }
            if step(&mut walk, &said).unwrap() == Step::End { break; }
            prop_assert!(turn < 200);
        }
        prop_assert_eq!(seen, count);
        prop_assert_eq!(walk.offset(), Some(count));
    }

    /// Requests known ahead are exactly those that the walk makes, as long as pages keep to their size.
    #[test]
    fn r14_what_is_sent_ahead_is_what_comes(count in 1_u64..80, size in 1_u64..9, by_page: bool) {
        let style = if by_page {
            Style::Page { param: "page".into(), first: 1, end: end(true, false) }
        } else {
            offset_style(true, false)
        };
        let mut paging = paging(style, size);
        paging.page_size_param = Some("limit".into());
        let mut walk = walk(&paging, None);
        let (mut predicted, mut seen) = (Vec::new(), 0);
        for turn in 0_u64.. {
            let received = size.min(count - seen);
            seen += received;
            let mut said = Said::rows(received);
            said.content = Some(u128::from(turn));
            said.envelope.total = Scalar::Text(count.to_string());
            if step(&mut walk, &said).unwrap() == Step::End { break; }
            if turn == 0 {
                predicted = (1..100).map_while(|steps| walk.ahead(steps)).collect();
            } else {
                prop_assert_eq!(&predicted[usize::try_from(turn).unwrap() - 1], walk.current());
            }
            prop_assert!(turn < 200);
        }
        prop_assert_eq!(seen, count);
        prop_assert_eq!(predicted.len() as u64, count.div_ceil(size).saturating_sub(2));
    }

    /// Cursors of any kind lead through all pages, empty ones included, and the last fetching cursor is kept.
    #[test]
    fn r14_a_cursor_walk_visits_every_page(sizes in prop::collection::vec(0_u64..3, 1..30)) {
        let mut walk = walk(&paging(cursor_style(), 100), None);
        for (turn, received) in sizes.iter().enumerate() {
            let last = turn + 1 == sizes.len();
            let next = match turn % 3 {
                _ if last => if turn % 2 == 0 { Scalar::Absent } else { Scalar::Text(String::new()) },
                0 => Scalar::Number(turn.to_string()),
                1 => Scalar::Text(format!("c+/={turn}")),
                _ => Scalar::Text(format!("{turn} x")),
            };
            let fetched = param(walk.current(), "cursor");
            let ended = step(&mut walk, &Said::next(*received, next)).unwrap() == Step::End;
            prop_assert_eq!(ended, last);
            prop_assert_eq!(walk.cursor().map(str::to_owned), fetched);
        }
    }
}

#[test]
fn r14_zero_and_booleans_are_cursors_and_structures_are_errors() {
    for (next, text) in
        [(Scalar::Number("0".into()), "0"), (Scalar::Bool(false), "false"), (Scalar::Bool(true), "true")]
    {
        let mut walk = walk(&paging(cursor_style(), 1), None);
        let Step::Next(request) = step(&mut walk, &Said::next(1, next)).unwrap() else { panic!("ended") };
        assert_eq!(param(&request, "cursor").as_deref(), Some(text));
    }
    let mut walk = walk(&paging(cursor_style(), 1), None);
    let error = step(&mut walk, &Said::next(1, Scalar::Structure("{}".into()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
}

#[test]
fn r15_repeats_and_cycles_are_errors_and_an_empty_page_naming_itself_is_an_end() {
    let name = |text: &str| Scalar::Text(text.into());
    let mut round = walk(&paging(cursor_style(), 1), None);
    for next in ["a", "b"] {
        step(&mut round, &Said::next(1, name(next))).unwrap();
    }
    assert_eq!(step(&mut round, &Said::next(1, name("a"))).unwrap_err().kind(), ErrorKind::Incomplete);

    let mut itself = walk(&paging(cursor_style(), 1), None);
    step(&mut itself, &Said::next(1, name("a"))).unwrap();
    assert_eq!(step(&mut itself, &Said::next(1, name("a"))).unwrap_err().kind(), ErrorKind::Incomplete);

    let mut ended = walk(&paging(cursor_style(), 1), None);
    step(&mut ended, &Said::next(1, name("a"))).unwrap();
    assert_eq!(step(&mut ended, &Said::next(0, name("a"))).unwrap(), Step::End);
    assert_eq!(ended.cursor(), Some("a"));
}

#[test]
fn r15_the_same_page_twice_is_an_error_for_offset_and_page() {
    for style in [offset_style(false, false), Style::Page { param: "p".into(), first: 0, end: end(false, false) }] {
        let mut walk = walk(&paging(style, 2), None);
        let said = Said { content: Some(7), ..Said::rows(2) };
        step(&mut walk, &said).unwrap();
        assert_eq!(step(&mut walk, &said).unwrap_err().kind(), ErrorKind::Incomplete);
    }
}

#[test]
fn r15_a_page_beyond_the_cap_is_an_error_and_the_last_allowed_one_is_not() {
    let mut capped = paging(cursor_style(), 1);
    capped.max_pages = Some(2);
    let mut over = walk(&capped, None);
    step(&mut over, &Said::next(1, Scalar::Text("a".into()))).unwrap();
    let error = step(&mut over, &Said::next(1, Scalar::Text("b".into()))).unwrap_err();
    assert!(error.to_string().contains("max-pages"), "{error}");
    let mut within = walk(&capped, None);
    step(&mut within, &Said::next(1, Scalar::Text("a".into()))).unwrap();
    assert_eq!(step(&mut within, &Said::next(1, Scalar::Absent)).unwrap(), Step::End);
}

#[test]
fn r14_the_declared_end_in_all_its_forms() {
    let go = |received: u64, total: Scalar, more: Scalar| {
        let mut walk = walk(&paging(offset_style(true, true), 2), None);
        let mut said = Said::rows(received);
        said.envelope.total = total;
        said.envelope.has_more = more;
        step(&mut walk, &said).map(|step| step != Step::End).map_err(|e| e.kind())
    };
    let text = |t: &str| Scalar::Text(t.into());
    assert_eq!(go(2, text("2"), Scalar::Absent), Ok(false));
    assert_eq!(go(2, Scalar::Number("3".into()), Scalar::Absent), Ok(true));
    assert_eq!(go(2, Scalar::Number("2.0".into()), Scalar::Number("0".into())), Ok(false));
    assert_eq!(go(2, Scalar::Absent, Scalar::Bool(false)), Ok(false));
    assert_eq!(go(2, Scalar::Absent, text("true")), Ok(true));
    assert_eq!(go(2, Scalar::Absent, Scalar::Absent), Ok(true));
    assert_eq!(go(2, text("2"), Scalar::Bool(true)), Ok(true), "where they disagree the walk goes on");
    assert_eq!(go(2, text("9"), Scalar::Bool(false)), Ok(true));
    assert_eq!(go(2, text("1"), Scalar::Absent), Ok(true), "a total below what came is no end");
    assert_eq!(go(2, text("-1"), Scalar::Absent), Ok(true));
    assert_eq!(go(0, Scalar::Absent, Scalar::Absent), Ok(false));
    assert_eq!(go(0, text("9"), Scalar::Absent), Err(ErrorKind::Incomplete));
    assert_eq!(go(0, Scalar::Absent, Scalar::Bool(true)), Err(ErrorKind::Incomplete));
    assert_eq!(go(0, text("many"), Scalar::Absent), Err(ErrorKind::Decode));
    assert_eq!(go(0, Scalar::Bool(true), Scalar::Absent), Err(ErrorKind::Decode));
    assert_eq!(go(0, Scalar::Absent, text("perhaps")), Err(ErrorKind::Decode));
    assert_eq!(go(0, Scalar::Absent, Scalar::Structure("[]".into())), Err(ErrorKind::Decode));
}

#[test]
fn r14_what_was_declared_still_stands_after_an_empty_page_that_says_nothing() {
    for (total, more) in [(Scalar::Number("6".into()), Scalar::Absent), (Scalar::Absent, Scalar::Bool(true))] {
        for style in [offset_style(true, true), Style::Page { param: "p".into(), first: 1, end: end(true, true) }] {
            let mut walk = walk(&paging(style, 2), None);
            let mut said = Said::rows(2);
            (said.envelope.total, said.envelope.has_more) = (total.clone(), more.clone());
            step(&mut walk, &said).unwrap();
            assert_eq!(step(&mut walk, &Said::rows(0)).unwrap_err().kind(), ErrorKind::Incomplete);
        }
    }
}

#[test]
fn r14_a_flag_promises_the_next_page_and_no_more() {
    let mut walk = walk(&paging(offset_style(false, true), 2), None);
    let mut said = Said::rows(2);
    said.envelope.has_more = Scalar::Bool(true);
    step(&mut walk, &said).unwrap();
    step(&mut walk, &Said::rows(1)).unwrap();
    assert_eq!(step(&mut walk, &Said::rows(0)).unwrap(), Step::End, "a missing flag declares nothing");
}

#[test]
fn r14_a_stored_offset_beyond_the_total_warns_and_ends() {
    let mut walk = walk(&paging(offset_style(true, false), 2), Some(&Position::Offset(10)));
    let mut said = Said::rows(0);
    said.envelope.total = Scalar::Number("7".into());
    assert_eq!(step(&mut walk, &said).unwrap(), Step::End);
    assert!(walk.warnings()[0].contains("10") && walk.warnings()[0].contains('7'));
    assert_eq!(walk.offset(), Some(10));
}

#[test]
fn r17_link_headers_of_every_shape_lead_to_the_same_page() {
    let shapes: &[&[&str]] = &[
        &["</v1/items?page=2>; rel=\"next\""],
        &["<http://api.test/v1/items?page=2>; REL=NEXT"],
        &["<?page=0>; rel=prev", "<?page=2>; rel=next"],
        &["<?page=9>; title=\"x, y; rel=next\"; rel=\"prev\", <items?page=2>; rel=\"last next\""],
        &["<?page=9>;rel=x;title, <//api.test/v1/items?page=2>;rel=\"next\""],
        &[", <?page=2>; rel=next , "],
        &["<?page=2>; rel='next';"],
    ];
    for lines in shapes {
        let mut walk = walk(&paging(Style::LinkHeader, 1), None);
        let mut said = Said::rows(1);
        for line in *lines {
            said.headers.append(http::header::LINK, HeaderValue::from_str(line).unwrap());
        }
        let Step::Next(request) = step(&mut walk, &said).unwrap() else { panic!("{lines:?} ended") };
        assert_eq!(request.url.as_str(), "http://api.test/v1/items?page=2", "{lines:?}");
        assert!(request.is_link);
    }
    let mut unread = walk(&paging(Style::LinkHeader, 1), None);
    let mut said = Said::rows(1);
    said.headers.append(http::header::LINK, HeaderValue::from_static("page=2; rel=next"));
    assert_eq!(step(&mut unread, &said).unwrap_err().kind(), ErrorKind::Decode, "an unreadable header is no end");
}

#[test]
fn r17_next_urls_resolve_against_the_url_that_returned_them_and_nothing_else_is_an_end() {
    let style = Style::NextUrl { path: pointer("/next") };
    for (target, expected) in [
        ("?page=2", "http://api.test/v1/items?page=2"),
        ("/x?page_info=a%2Bb%3D", "http://api.test/x?page_info=a%2Bb%3D"),
        ("more", "http://api.test/v1/more"),
        ("//other.test/a", "http://other.test/a"),
        ("https://other.test/a#frag", "https://other.test/a"),
    ] {
        let mut walk = walk(&paging(style.clone(), 1), None);
        let Step::Next(request) = step(&mut walk, &Said::next(1, Scalar::Text(target.into()))).unwrap() else {
            panic!("{target} ended")
        };
        assert_eq!(request.url.as_str(), expected);
    }
    for next in [Scalar::Number("2".into()), Scalar::Bool(false), Scalar::Text("ftp://x/y".into())] {
        let mut walk = walk(&paging(style.clone(), 1), None);
        assert_eq!(step(&mut walk, &Said::next(1, next)).unwrap_err().kind(), ErrorKind::Decode);
    }
    let mut walk = walk(&paging(style, 1), None);
    assert_eq!(step(&mut walk, &Said::next(1, Scalar::Text(String::new()))).unwrap(), Step::End);
}

#[test]
fn r18_a_cursor_is_one_encoded_value_in_a_query_and_one_string_in_a_body() {
    let mut query = walk(&paging(cursor_style(), 1), None);
    step(&mut query, &Said::next(1, Scalar::Text("ab+/==&#x y".into()))).unwrap();
    assert_eq!(query.current().url.query(), Some("cursor=ab%2B%2F%3D%3D%26%23x%20y"));

    let style = Style::Cursor {
        from: CursorFrom::Path(pointer("/next")),
        to: CursorTo::Body(pointer("/page/after")),
        initial: None,
    };
    let mut body = walk(&paging(style, 1), None);
    step(&mut body, &Said::next(1, Scalar::Text("a\"b\\".into()))).unwrap();
    assert_eq!(body.current().body.as_deref(), Some(r#"{"page":{"after":"a\"b\\"}}"#));
}

proptest! {
    /// Whatever the server's own page size, total and number of records: the windows read each record once, in order.
    #[test]
    fn r30_windows_of_offsets_read_every_record_once(
        records in 0_u64..60, size in 1_u64..12, count in 1_u64..8, page in 1_u64..9, most in 1_u64..11, with_total in any::<bool>(),
    ) {
        let mut read = Vec::new();
        let mut missing = 0;
        for n in 0..count {
            let (start, end) = (n * size, (n + 1) * size);
            let mut walk = walk(&paging(offset_style(with_total, false), page), None).within(start, end, n + 1 == count).unwrap();
            let mut at = start;
            loop {
                let query: std::collections::HashMap<_, _> = walk.current().url.query_pairs().into_owned().collect();
                let (offset, limit): (u64, u64) = (query["offset"].parse().unwrap(), query["limit"].parse().unwrap());
                prop_assert_eq!(offset, at);
                prop_assert!(limit <= page && limit <= end - at, "no more is asked for than is left");
                // A server with pages of its own may send more than was asked for, or less.
                let sent = most.min(records.saturating_sub(offset));
                read.extend(offset..(offset + sent).min(end));
                at = offset + sent;
                let mut said = Said { content: Some(u128::from(offset) + 1), ..Said::rows(sent) };
                if with_total {
                    said.envelope.total = Scalar::Number(records.to_string());
                }
                if step(&mut walk, &said).unwrap() == Step::End {
                    break;
                }
            }
            missing += u64::from(walk.ended().is_err());
            let may_hold_more = walk.warnings().iter().any(|said| said.contains("may hold more"));
            prop_assert_eq!(may_hold_more, n + 1 == count && !with_total && records >= end);
        }
        prop_assert_eq!(read, (0..records.min(size * count)).collect::<Vec<_>>());
        prop_assert_eq!(missing > 0, with_total && records > size * count);
    }
}

#[test]
fn r30_a_window_asks_ahead_no_further_than_its_end() {
    let mut walk = walk(&paging(offset_style(true, false), 4), None).within(10, 21, false).unwrap();
    let mut said = Said { content: Some(1), ..Said::rows(4) };
    said.envelope.total = Scalar::Number("1000".into());
    step(&mut walk, &said).unwrap();
    let ahead: Vec<String> = (1..5).filter_map(|n| walk.ahead(n)).map(|r| r.url.query().unwrap().to_owned()).collect();
    assert_eq!(walk.current().url.query(), Some("limit=4&offset=14"));
    assert_eq!(ahead, ["limit=3&offset=18"]);
}
