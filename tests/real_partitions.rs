//! Partitions of real servers: together they are the table, and each record comes once (R30).

use crate::support::Place;
use crate::support::servers::Cache;

/// Some days of the flights, whole and in parts.
const FLIGHTS: &str = r#"
base-url = "{{BASE}}"
http { idle-timeout = 60s, timeout = 60s }
tables {
  whole {
    endpoint = "/flights/flights.json"
    params { _shape = objects, _size = 500, _nocount = 1, _nofacet = 1, _nosuggest = 1, FIXED }
    data-path = "/rows"
    columns { id { type = int64 }, carrier { type = string }, time_hour { type = timestamp } }
    pagination { style = cursor, cursor-path = "/next", cursor-param = _next }
  }
  parts = ${tables.whole} { partition { PARTITION } }
}
"#;

fn flights(fixed: &str, partition: &str) -> String {
    FLIGHTS.replace("FIXED", fixed).replace("PARTITION", partition)
}

/// The ids of a read, in order: they are ids of parts that were read side by side.
fn ids(place: &Place, table: &str, args: &[&str]) -> Vec<i64> {
    let mut ids = place.read(table).args(args.iter().copied()).output().expect(0).ids();
    ids.sort_unstable();
    ids
}

#[test]
fn r30_the_flights_of_every_carrier_are_all_flights() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let carriers = "9E, AA, AS, B6, DL, EV, F9, FL, HA, MQ, OO, UA, US, VX, WN, YV";
    let partition = format!(r#"type = enum, param = carrier, values = [{carriers}, "a&b"]"#);
    let place = Place::new(server.base(), &flights(r#"time_hour__lt = "2013-01-04""#, &partition));
    let expected = server.flights_where("time_hour < '2013-01-04'");
    assert!(expected.len() > 2_000, "{}", expected.len());
    assert_eq!(ids(&place, "whole", &[]), expected);
    assert_eq!(ids(&place, "parts", &[]), expected);
    assert_eq!(ids(&place, "parts", &["--parallel", "16"]), expected);
}

#[test]
fn r30_windows_of_time_are_the_range_whether_the_bounds_of_the_api_are_open_or_closed() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    // Flights carry the hour: every bound of a window has some.
    let queries = [
        "time_hour >= '2013-01-01T10:00:00Z' AND time_hour < '2013-01-02T12:00:00Z'",
        "time_hour > '2013-01-01T10:00:00Z' AND time_hour <= '2013-01-02T12:00:00Z'",
        "time_hour BETWEEN '2013-01-01T11:00:00Z' AND '2013-01-02T11:00:00Z' AND carrier <> 'UA'",
    ];
    let expected = queries.map(|query| server.flights_where(query));
    assert_ne!(expected[0], expected[1]);
    for (from, to, format, range) in [
        ("gte", "lt", "%Y-%m-%dT%H:%M:%SZ", "6 hours"),
        ("gte", "lte", "%Y-%m-%dT%H:%M:%SZ", "6 hours"),
        ("gt", "lt", "%Y-%m-%dT%H:%M:%SZ", "1 hour"),
        ("gt", "lte", "%Y-%m-%dT%H:%M:%SZ", "90 minutes"),
        // To the day: the API answers much more than a window.
        ("gte", "lt", "%Y-%m-%d", "1 day"),
    ] {
        let partition = format!(
            r#"type = date-range, column = time_hour, range = "{range}", format = "{format}"
               start-param = time_hour__{from}, end-param = time_hour__{to}"#
        );
        let place = Place::new(server.base(), &flights("", &partition));
        for (query, expected) in queries.iter().zip(&expected) {
            assert_eq!(&ids(&place, "parts", &["--where", query]), expected, "{from} {to} {format} {range}: {query}");
        }
    }
}

/// A table of another server, whole and in parts.
fn table(endpoint: &str, lines: &str, partition: &str) -> String {
    format!(
        r#"
base-url = "{{{{BASE}}}}"
tables {{
  whole {{ endpoint = "{endpoint}", columns {{ id {{ type = int64 }} }}, {lines} }}
  parts = ${{tables.whole}} {{ partition {{ {partition} }} }}
}}
"#
    )
}

fn planes(page: u64, size: u64, count: u64) -> String {
    let lines = format!(
        r#"data-path = "/results", pagination {{ style = offset, max-page-size = {page}, total-path = "/count" }}"#
    );
    table("/offset/planes", &lines, &format!("type = offset, size = {size}, count = {count}"))
}

#[test]
fn r30_windows_of_offsets_are_the_planes_whatever_fits_into_them() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.django();
    let all: Vec<i64> = (1..=3322).collect();
    for (page, size, count) in [
        // Pages that do not fit a window, a last window that is not full.
        (300, 1000, 4),
        // The server answers at most 1,000.
        (5000, 1800, 2),
        // Windows beyond the end, and one that ends exactly there.
        (700, 700, 9),
        (1000, 1661, 2),
    ] {
        let place = Place::new(server.base(), &planes(page, size, count));
        assert_eq!(ids(&place, "parts", &[]), all, "{size} x {count} by {page}");
    }
    assert_eq!(ids(&Place::new(server.base(), &planes(900, 1, 1)), "whole", &[]), all);
}

#[test]
fn r30_a_total_beyond_the_windows_is_incomplete_and_nothing_is_published() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.django();
    // One plane is missing.
    let place = Place::new(server.base(), &planes(1000, 1107, 3));
    let run = place.run(&["read", "CONFIG", "parts", "--to", "{{DIR}}/out"]);
    run.output().expect(4).says("a total of 3322").says("cover 3321 records");
    assert_eq!(std::fs::read_dir(place.path("out")).expect("the directory").count(), 0);
}

const SLICES: &str =
    "pagination { style = offset, offset-param = _start, page-size-param = _limit, max-page-size = 77 }";

#[test]
fn r30_windows_of_slices_are_the_airports_without_a_total() {
    let Some(cache) = Cache::with(&["node", "data"]) else { return };
    let server = cache.json_server();
    let all: Vec<i64> = (1..=1458).collect();
    for (size, count, is_full) in [(500, 3, false), (400, 5, false), (486, 3, true)] {
        let config = table("/airports", SLICES, &format!("type = offset, size = {size}, count = {count}"));
        let output = Place::new(server.base(), &config).read("parts").output().expect(0);
        assert_eq!(output.stderr.contains("may hold more than the 1458 records"), is_full, "{}", output.stderr);
        let mut ids = output.ids();
        ids.sort_unstable();
        assert_eq!(ids, all, "{size} x {count}");
    }
}

#[test]
fn r30_the_airports_by_their_daylight_saving_are_all_airports() {
    let Some(cache) = Cache::with(&["node", "data"]) else { return };
    let config = table("/airports", SLICES, "type = enum, param = dst, values = [A, N, U]");
    let server = cache.json_server();
    let place = Place::new(server.base(), &config);
    assert_eq!(ids(&place, "parts", &[]), ids(&place, "whole", &[]));
}
