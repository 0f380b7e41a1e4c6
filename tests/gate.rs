//! The four gate tests: a checkpoint moves when the reading task succeeded, and in no other case.
//!
//! Each is made through the library, where the task is the caller's, and through the binary, where it is the
//! output; on a first run, where nothing must appear, and on a second, where the file must stay as it is.

use restmark::{Event, Plan, Receipt, Source};
use serde_json::{Value, json};

use crate::support::{Api, Mark, Place, Reply, Route, Stdout, Trap, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  events {
    endpoint = "/events"
    data-path = "/items"
    pagination { style = cursor, cursor-path = "/next" }
    columns { id { type = int64 }, text { type = string } }
    checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = cursor }
  }
}
"#;

/// Rows of the last page: more than a pipe holds.
const LAST: i64 = 3000;

/// An API and a directory before the run that the test is about.
struct Gate {
    api: Api,
    place: Place,
    before: Mark,
    /// The ids that the run delivers when it succeeds.
    ids: Vec<i64>,
}

/// Page `n`: two rows, or as the last page many.
fn page(n: i64, next: Option<&str>) -> Value {
    let count = if next.is_none() { LAST } else { 2 };
    let items: Vec<_> = (0..count).map(|i| json!({ "id": n * 10_000 + i, "text": "a".repeat(100) })).collect();
    json!({ "items": items, "next": next })
}

fn ids(pages: std::ops::RangeInclusive<i64>) -> Vec<i64> {
    let last = *pages.end();
    pages.flat_map(|n| (0..if n == last { LAST } else { 2 }).map(move |i| n * 10_000 + i)).collect()
}

impl Gate {
    fn first_run() -> Self {
        let api = Api::new(vec![
            get("/events", &page(1, Some("A"))),
            get("/events?cursor=A", &page(2, Some("B"))),
            get("/events?cursor=B", &page(3, None)),
        ]);
        let place = Place::new(&api.base(), CONFIG);
        Self { api, place, before: Mark::NONE, ids: ids(1..=3) }
    }

    /// The API has grown since a first run saved the cursor `B`.
    fn second_run() -> Self {
        let Self { api, place, .. } = Self::first_run();
        place.read("events").output().expect(0);
        let before = place.mark("events");
        assert_eq!(before.position(), cursor("B"));
        api.script(vec![
            get("/events?cursor=B", &page(3, Some("C"))),
            get("/events?cursor=C", &page(4, Some("D"))),
            get("/events?cursor=D", &page(5, None)),
        ]);
        Self { api, place, before, ids: ids(3..=5) }
    }

    fn both() -> [Self; 2] {
        [Self::first_run(), Self::second_run()]
    }

    #[track_caller]
    fn assert_unmoved(&self) {
        assert_eq!(self.place.mark("events"), self.before);
    }

    /// After whatever happened, a clean run delivers every row of the failed one.
    #[track_caller]
    fn assert_unmoved_and_nothing_lost(&self) {
        self.assert_unmoved();
        assert_eq!(self.place.read("events").output().expect(0).ids(), self.ids);
        self.assert_moved();
    }

    #[track_caller]
    fn assert_moved(&self) {
        let last = if self.before == Mark::NONE { "B" } else { "D" };
        assert_eq!(self.place.mark("events").position(), cursor(last));
    }
}

fn cursor(value: &str) -> Value {
    json!({ "type": "cursor", "value": value })
}

mod by_the_library {
    use super::*;

    /// An executor's task: it reads the whole plan and hands the receipts on.
    async fn read(source: &Source, plan: &Plan) -> restmark::Result<(usize, Vec<Receipt>)> {
        let (mut rows, mut receipts) = (0, vec![]);
        for partition in plan.partitions() {
            let mut read = source.read(partition)?;
            while let Some(event) = read.try_next().await? {
                match event {
                    Event::Batch(batch) => rows += batch.num_rows(),
                    Event::Done(receipt) => receipts.push(receipt),
                }
            }
        }
        Ok((rows, receipts))
    }

    async fn plan(gate: &Gate) -> (Source, Plan) {
        let source = Source::open(gate.place.path("source.conf")).expect("a source");
        let plan = source.plan(source.table("events").expect("a table").scan()).await.expect("a plan");
        (source, plan)
    }

    #[tokio::test]
    async fn r01_a_task_that_succeeds_saves() {
        for gate in Gate::both() {
            let (source, plan) = plan(&gate).await;
            let (rows, receipts) = read(&source, &plan).await.expect("a whole read");
            assert_eq!(rows, gate.ids.len());
            let commit = plan.seal(receipts).expect("a commit");
            gate.assert_unmoved();
            source.checkpoints().commit(&commit).await.expect("a moved checkpoint");
            gate.assert_moved();
        }
    }

    #[tokio::test]
    async fn r08_the_same_commit_again_is_success_and_changes_nothing() {
        for gate in Gate::both() {
            let (source, plan) = plan(&gate).await;
            let (_, receipts) = read(&source, &plan).await.expect("a whole read");
            let commit = plan.seal(receipts).expect("a commit");
            source.checkpoints().commit(&commit).await.expect("a moved checkpoint");
            let moved = gate.place.mark("events");
            source.checkpoints().commit(&commit).await.expect("a lost acknowledgement is no conflict");
            assert_eq!(gate.place.mark("events"), moved);
        }
    }

    #[tokio::test]
    async fn r01_a_failure_on_the_second_page_saves_nothing() {
        for gate in Gate::both() {
            gate.api.at(2, Trap::Reply(Reply::status(500)));
            let (source, plan) = plan(&gate).await;
            read(&source, &plan).await.expect_err("the second page failed");
            plan.seal(vec![]).expect_err("a plan without its receipts proves nothing");
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[tokio::test]
    async fn r02_a_consumer_that_fails_after_the_last_row_saves_nothing() {
        for gate in Gate::both() {
            let (source, plan) = plan(&gate).await;
            let (rows, receipts) = read(&source, &plan).await.expect("a whole read");
            assert_eq!((rows, receipts.len()), (gate.ids.len(), plan.partitions().len()));
            // Its own write fails here: it has every receipt, and drops them.
            drop(receipts);
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[tokio::test]
    async fn r02_a_commit_that_is_dropped_saves_nothing() {
        for gate in Gate::both() {
            let (source, plan) = plan(&gate).await;
            let (_, receipts) = read(&source, &plan).await.expect("a whole read");
            drop(plan.seal(receipts).expect("a commit"));
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[tokio::test]
    async fn r02_a_task_cancelled_after_its_read_had_ended_saves_nothing() {
        for gate in Gate::both() {
            let (source, plan) = plan(&gate).await;
            let (ended, has_ended) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(async move {
                let whole = read(&source, &plan).await.expect("a whole read");
                ended.send(whole.0).expect("the test waits");
                std::future::pending::<()>().await;
                drop(whole);
            });
            assert_eq!(has_ended.await, Ok(gate.ids.len()));
            task.abort();
            assert!(task.await.expect_err("it never ends by itself").is_cancelled());
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[tokio::test]
    async fn r01_a_read_that_is_dropped_half_way_saves_nothing() {
        for gate in Gate::both() {
            let (source, plan) = plan(&gate).await;
            let mut read = source.read(&plan.partitions()[0]).expect("a read");
            assert!(matches!(read.try_next().await, Ok(Some(Event::Batch(_)))));
            drop(read);
            plan.seal(vec![]).expect_err("a plan without its receipts proves nothing");
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[tokio::test]
    async fn r01_a_plan_with_a_limit_cannot_be_sealed() {
        for gate in Gate::both() {
            let source = Source::open(gate.place.path("source.conf")).expect("a source");
            let scan = source.table("events").expect("a table").scan().limit(3);
            let plan = source.plan(scan).await.expect("a plan");
            let (rows, receipts) = read(&source, &plan).await.expect("a read");
            assert_eq!(rows, 3);
            plan.seal(receipts).expect_err("a limit proves nothing");
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[tokio::test]
    async fn r01_the_receipt_comes_last_and_once() {
        let gate = Gate::first_run();
        let (source, plan) = plan(&gate).await;
        let mut read = source.read(&plan.partitions()[0]).expect("a read");
        let mut kinds = vec![];
        while let Some(event) = read.try_next().await.expect("an event") {
            kinds.push(matches!(event, Event::Done(_)));
        }
        assert_eq!(kinds.iter().position(|done| *done), Some(kinds.len() - 1));
        assert!(matches!(read.try_next().await, Ok(None)));
    }
}

mod by_the_binary {
    use super::*;

    #[test]
    fn r01_a_run_that_succeeds_saves() {
        for gate in Gate::both() {
            assert_eq!(gate.place.read("events").output().expect(0).ids(), gate.ids);
            gate.assert_moved();
        }
    }

    #[test]
    fn r01_a_failure_on_the_second_page_saves_nothing() {
        for gate in Gate::both() {
            gate.api.at(2, Trap::Reply(Reply::status(500)));
            gate.place.read("events").output().expect(3).says("500");
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[test]
    fn r02_an_output_that_is_full_saves_nothing() {
        for gate in Gate::both() {
            gate.place.read("events").stdout(Stdout::Full).output().expect(5);
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[test]
    fn r02_an_output_that_is_full_at_the_last_flush_saves_nothing() {
        let api = Api::new(vec![get("/events?cursor=Z", &json!({ "items": [{ "id": 1 }], "next": null }))]);
        let place = Place::new(&api.base(), CONFIG);
        place.seed("events", r#"{"type":"cursor","value":"Z"}"#);
        let before = place.mark("events");
        place.read("events").stdout(Stdout::Full).output().expect(5);
        assert_eq!(place.mark("events"), before);
    }

    #[test]
    fn r02_a_pipe_that_closes_before_the_last_row_saves_nothing() {
        for gate in Gate::both() {
            gate.place.read("events").stdout(Stdout::ClosedAfter("\n")).output().expect_failure();
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[test]
    fn r02_a_run_killed_after_its_read_had_ended_saves_nothing() {
        for gate in Gate::both() {
            for (signal, code) in [("KILL", None), ("INT", Some(130))] {
                // The first row of the last page came by, the others are more than the pipe holds: the whole table
                // was read, and its output waits.
                let first_of_last = if gate.before == Mark::NONE { "\"id\":30000" } else { "\"id\":50000" };
                let run = gate.place.read("events").stdout(Stdout::StalledAfter(first_of_last)).spawn();
                run.signal(signal);
                assert_eq!(run.output().code, code, "after SIG{signal}");
                gate.assert_unmoved();
            }
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[test]
    fn r01_a_limit_moves_nothing() {
        for gate in Gate::both() {
            let output = gate.place.read("events").args(["--limit", "3"]).output().expect(0);
            assert_eq!(output.ids(), gate.ids[..3]);
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[test]
    fn r16_an_error_body_with_status_200_saves_nothing() {
        for gate in Gate::both() {
            gate.api.at(2, Trap::Reply(Reply::json(&json!({ "error": "later" }))));
            gate.place.read("events").output().expect(4).says("/items");
            gate.assert_unmoved_and_nothing_lost();
        }
    }

    #[test]
    fn r08_a_run_that_another_one_overtakes_moves_nothing() {
        for gate in Gate::both() {
            let command: Vec<_> = ["read", "CONFIG", "events"].to_vec();
            let other = gate.place.run(&command);
            let (sender, other_ended) = std::sync::mpsc::channel();
            gate.api.at(
                2,
                Trap::First(Box::new(move || {
                    let _ = sender.send(other.output().code);
                })),
            );
            let slow = gate.place.read("events").output();
            assert_eq!(other_ended.recv(), Ok(Some(0)), "the run that overtook");
            slow.expect(5).says("another run");
            gate.assert_moved();
        }
    }

    #[test]
    fn r24_a_compressed_answer_is_read_like_any_other() {
        let page = json!({ "items": [{ "id": 7 }], "next": null });
        let api = Api::new(vec![Route::new("GET", "/events", Reply::json(&page).gzip())]);
        let place = Place::new(&api.base(), CONFIG);
        assert_eq!(place.read("events").output().expect(0).ids(), [7]);
    }
}
