//! The kill test: whatever happens at request k, the checkpoint stays as it was, to the byte, and the next
//! clean run delivers every row.
//!
//! Each folder of `fixtures/` is one API: `source.conf`, `exchange.json` (what it answers), `rows.ndjson` and
//! `checkpoint.json` (what a run delivers and leaves), and the same for a run that starts from `seed.json`.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Api, Mark, Place, Reply, Route, Trap, run::rows};

macro_rules! every_fixture {
    ($($test:ident: $folder:literal,)*) => {
        $(#[test]
        fn $test() {
            dies_at_every_request($folder);
        })*

        #[test]
        fn every_folder_of_fixtures_is_killed() {
            let mut known = vec![$($folder.to_owned()),*];
            known.sort();
            let mut there: Vec<_> = std::fs::read_dir(folder("")).unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.path().join("exchange.json").exists())
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect();
            there.sort();
            assert_eq!(known, there);
        }
    };
}

every_fixture! {
    r01_an_offset_read_that_dies_at_request_k_moves_nothing: "offset",
    r01_pages_asked_for_ahead_move_nothing_when_one_of_them_dies: "offset-ahead",
    r01_a_page_read_with_a_total_that_dies_at_request_k_moves_nothing: "page-total",
    r01_a_cursor_read_that_dies_at_request_k_moves_nothing: "cursor",
    r01_a_cursor_in_a_body_that_dies_at_request_k_moves_nothing: "cursor-body",
    r01_a_link_read_that_dies_at_request_k_moves_no_timestamp: "link-timestamp",
    r01_a_next_url_read_that_dies_at_request_k_moves_no_token: "next-token",
    r01_a_streamed_body_that_dies_at_request_k_moves_no_timestamp: "ndjson-timestamp",
    r01_an_event_stream_that_dies_at_request_k_moves_no_timestamp: "sse-timestamp",
    r01_a_csv_body_that_dies_at_request_k_moves_no_timestamp: "csv-timestamp",
}

/// What happens at request k.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The API answers 500.
    Status,
    /// The connection is reset before the reply.
    Reset,
    /// The connection is reset in the middle of the reply.
    Cut,
    /// The process gets SIGKILL.
    Kill,
    /// The process gets SIGINT.
    Interrupt,
}

const DEATHS: [Death; 5] = [Death::Status, Death::Reset, Death::Cut, Death::Kill, Death::Interrupt];

fn dies_at_every_request(name: &str) {
    for seeded in [false, true] {
        let fixture = Fixture::open(name, seeded);
        fixture.clean_run(&fixture.place());
        let requests = fixture.api.requests().len();
        assert!(requests > 1, "{name}: a fixture has more than one request");
        for k in 1..=requests {
            for death in DEATHS {
                // Another API each time: a request that a dead process left behind must not count as the next one's.
                let fixture = Fixture::open(name, seeded);
                let place = fixture.place();
                let before = place.mark("items");
                fixture.run_that_dies(&place, k, death);
                assert_eq!(place.mark("items"), before, "{name}: {death:?} at request {k}, seeded: {seeded}");
                fixture.clean_run(&place);
            }
        }
    }
}

struct Fixture {
    api: Api,
    config: String,
    seed: Option<String>,
    rows: Vec<Value>,
    position: Value,
}

impl Fixture {
    fn open(name: &str, seeded: bool) -> Self {
        let text = |file: &str| std::fs::read_to_string(folder(name).join(file)).expect(file);
        Self {
            api: Api::with_base(|base| routes(&text("exchange.json").replace("{{BASE}}", base))),
            config: text("source.conf"),
            seed: seeded.then(|| text("seed.json")),
            rows: rows(&text(if seeded { "seeded-rows.ndjson" } else { "rows.ndjson" })),
            position: serde_json::from_str(&text("checkpoint.json")).expect("JSON"),
        }
    }

    /// A fresh directory as it is before a run.
    fn place(&self) -> Place {
        let place = Place::new(&self.api.base(), &self.config);
        match &self.seed {
            Some(seed) => place.seed("items", seed),
            None => assert_eq!(place.mark("items"), Mark::NONE),
        }
        place
    }

    fn clean_run(&self, place: &Place) {
        let output = place.read("items").output().expect(0);
        assert_eq!(output.rows(), self.rows, "rows after {:?}", self.api.asked());
        assert_eq!(place.mark("items").position(), self.position);
    }

    fn run_that_dies(&self, place: &Place, k: usize, death: Death) {
        match death {
            Death::Status => self.run_that_fails(place, k, Trap::Reply(Reply::status(500))),
            Death::Reset => self.run_that_fails(place, k, Trap::Reset),
            Death::Cut => self.run_that_fails(place, k, Trap::Cut),
            Death::Kill => assert_eq!(self.run_that_is_told(place, k, "KILL"), None),
            Death::Interrupt => assert_eq!(self.run_that_is_told(place, k, "INT"), Some(130)),
        }
    }

    fn run_that_fails(&self, place: &Place, k: usize, trap: Trap) {
        self.api.at(k, trap);
        place.read("items").output().expect(3);
    }

    fn run_that_is_told(&self, place: &Place, k: usize, signal: &str) -> Option<i32> {
        let until_there = self.api.hold_at(k);
        let run = place.read("items").spawn();
        until_there();
        run.signal(signal);
        run.output().code
    }
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn routes(exchange: &str) -> Vec<Route> {
    let exchange: Value = serde_json::from_str(exchange).expect("exchange.json");
    exchange["routes"].as_array().expect("routes").iter().map(route).collect()
}

fn route(value: &Value) -> Route {
    let reply = &value["reply"];
    let mut answer = match reply["text"].as_str() {
        Some(text) => Reply::text(text),
        None => Reply::json(&reply["json"]),
    };
    for header in reply["headers"].as_array().into_iter().flatten() {
        answer = answer.header(header[0].as_str().expect("a name"), header[1].as_str().expect("a value"));
    }
    match (value["get"].as_str(), value["post"].as_str()) {
        (Some(target), None) => Route::new("GET", target, answer),
        (None, Some(target)) => Route::new("POST", target, answer).body(value["body"].clone()),
        _ => panic!("a route is a get or a post: {value}"),
    }
}
