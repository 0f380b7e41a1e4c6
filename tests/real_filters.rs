//! Filters that a real server answers: the rows are those of its own SQL, and what was sent is known (R13).

use crate::support::Place;
use crate::support::proxy::Proxy;
use crate::support::servers::Cache;

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { idle-timeout = 60s, timeout = 60s }
tables {
  flights {
    endpoint = "/flights/flights.json"
    params { _shape = objects, _nocount = 1, _nofacet = 1, _nosuggest = 1 }
    data-path = "/rows"
    columns {
      id { type = int64 }, distance { type = int64 }, dep_delay { type = int64 }
      carrier { type = string }, tailnum { type = string }, time_hour { type = timestamp }
    }
    pagination { style = cursor, cursor-path = "/next", cursor-param = _next, page-size-param = _size, max-page-size = 100 }
    filters = [
      { param = carrier, column = carrier, operators = [eq] }
      { param = distance__gt, column = distance, operators = [gt] }
      { param = tailnum__not, column = tailnum, operators = [neq] }
      { param = time_hour__gte, column = time_hour, operators = [gte] }
      { param = time_hour__lt, column = time_hour, operators = [lt] }
    ]
  }
  exact = ${tables.flights} { filters = [{ param = carrier, column = carrier, operators = [eq], exact = true }] }
  parts = ${tables.flights} { partition { type = enum, param = carrier, values = [AS, B6, F9, HA, UA] } }
}
"#;

/// What every request carries besides.
const OWN: [&str; 6] = ["_shape", "_nocount", "_nofacet", "_nosuggest", "_size", "_next"];

/// A query as the pairs it holds.
fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    query.split('&').filter_map(pair).collect()
}

fn ids(place: &Place, table: &str, query: &str) -> Vec<i64> {
    let mut ids = place.read(table).args(["--where", query]).output().expect(0).ids();
    ids.sort_unstable();
    ids
}

#[test]
fn r13_a_filtered_read_is_the_databases_own_answer() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let proxy = Proxy::before(&server);
    let place = Place::new(&proxy.base(), CONFIG);
    for (query, sent) in [
        ("carrier = 'HA'", "carrier=HA"),
        ("carrier = 'UA' AND distance > 4900", "carrier=UA&distance__gt=4900"),
        (
            "time_hour >= '2013-01-01T11:00:00Z' AND time_hour < '2013-01-01T13:00:00Z'",
            "time_hour__gte=2013-01-01T11:00:00Z&time_hour__lt=2013-01-01T13:00:00Z",
        ),
        // The second on the same parameter, another operator and an alternative stay here.
        ("carrier = 'HA' AND carrier = 'UA'", "carrier=HA"),
        ("distance > 4000 AND distance >= 4980 AND (dep_delay > 60 OR dep_delay IS NULL)", "distance__gt=4000"),
        // Missing values are neither equal nor unequal, there and here.
        (
            "time_hour < '2013-01-03T00:00:00Z' AND tailnum <> 'N14228'",
            "time_hour__lt=2013-01-03T00:00:00Z&tailnum__not=N14228",
        ),
    ] {
        assert_eq!(ids(&place, "flights", query), server.flights_where(query), "{query}");
        let asked = proxy.take_queries(&OWN);
        assert!(!asked.is_empty() && asked.iter().all(|asked| *asked == pairs(sent)), "{query}: {asked:?}");
    }
}

#[test]
fn r13_a_query_reads_only_the_partitions_it_names() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let proxy = Proxy::before(&server);
    let place = Place::new(&proxy.base(), CONFIG);
    let query = "carrier IN ('HA', 'AS') AND distance > 2402";
    assert_eq!(ids(&place, "parts", query), server.flights_where(query));
    let mut asked = proxy.take_queries(&OWN);
    asked.sort();
    asked.dedup();
    assert_eq!(asked, [pairs("carrier=AS&distance__gt=2402"), pairs("carrier=HA&distance__gt=2402")]);
}

#[test]
fn r13_an_exact_filter_lets_a_limit_through() {
    let Some(cache) = Cache::with(&["python", "data"]) else { return };
    let server = cache.datasette();
    let proxy = Proxy::before(&server);
    let place = Place::new(&proxy.base(), CONFIG);
    let expected = server.flights_where("carrier = 'HA'");
    for (table, page) in [("exact", "7"), ("flights", "100")] {
        let read = place.read(table).args(["--where", "carrier = 'HA'", "--limit", "7"]);
        assert_eq!(read.output().expect(0).ids(), expected[..7], "{table}");
        let asked = proxy.take_queries(&OWN[..4]);
        assert_eq!(asked[0], pairs(&format!("carrier=HA&_size={page}")), "{table}");
        // Where rows may still be dropped, the next page is asked for ahead.
        assert!(asked.len() == 1 || table == "flights", "{asked:?}");
    }
}
