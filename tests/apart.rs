//! Tasks of another engine: what travels to them, what they bring back, and what it takes to move a position (R1, R2).

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use restmark::filter::Predicate;
use restmark::receipts::{Left, Receipts};
use restmark::rows::{Rows, Settings};
use restmark::source::Origin;
use restmark::{ErrorKind, Plan, Result, Source};
use serde_json::json;

use crate::support::{Api, Mark, Place, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0 }
tables {
  events {
    endpoint = "/events"
    data-path = "/items"
    pagination { style = cursor, cursor-path = "/next" }
    columns { id { type = int64 }, kind { type = string } }
    checkpoint { enabled = true, path = ckpt, mode = cursor }
  }
  regions {
    endpoint = "/regions"
    data-path = "/items"
    columns { id { type = int64 }, kind { type = string } }
    partition { type = enum, param = region, values = [eu, us] }
    filters = [{ param = kind, column = kind, operators = [eq] }]
  }
}
"#;

fn items(ids: std::ops::Range<i64>, next: Option<&str>) -> serde_json::Value {
    let items: Vec<_> = ids.map(|id| json!({ "id": id, "kind": if id % 2 == 0 { "even" } else { "odd" } })).collect();
    json!({ "items": items, "next": next })
}

fn shop() -> (Api, Place) {
    let api = Api::new(vec![
        get("/events", &items(0..30, Some("A"))),
        get("/events?cursor=A", &items(30..45, None)),
        get("/regions?region=eu", &items(0..10, None)),
        get("/regions?region=us", &items(100..110, None)),
    ]);
    let place = Place::new(&api.base(), CONFIG);
    (api, place)
}

fn settings(batch_rows: usize) -> Settings {
    let of = |n| NonZeroUsize::new(n).unwrap();
    Settings { batch_rows: of(batch_rows), parallel: of(2), limit: None }
}

fn rows(source: &Arc<Source>, plan: &Plan, settings: Settings) -> Rows {
    Rows::new(Arc::clone(source), plan.clone(), settings).unwrap()
}

async fn all(rows: &mut Rows) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        batches.push(batch);
    }
    Ok(batches)
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch["id"].as_primitive::<Int64Type>().values().to_vec();
    let mut ids: Vec<i64> = batches.iter().flat_map(column).collect();
    ids.sort_unstable();
    ids
}

/// The texts of the receipts of a read that has ended.
fn carried(rows: &mut Rows) -> Vec<String> {
    rows.receipts().unwrap().into_iter().map(|(receipt, rows)| receipt.carry(rows)).collect()
}

#[tokio::test]
async fn r01_a_task_elsewhere_proves_its_partition_and_only_the_whole_plan_moves_the_position() {
    let (_api, place) = shop();
    let origin = Origin::read(place.path("source.conf").to_str().unwrap()).await.unwrap();
    let driver = Arc::new(origin.open().unwrap());
    let plan = driver.plan(driver.table("events").unwrap().scan().distributed()).await.unwrap();
    assert!(plan.is_checkpointed());

    // The task knows a text of the configuration and one of its part of the plan.
    let executor = Arc::new(Origin::arrived("source.conf", &origin.travelling().unwrap()).unwrap());
    let part: Plan = serde_json::from_str(&serde_json::to_string(&plan.split()[0]).unwrap()).unwrap();
    let mut reading = rows(&executor, &part, settings(1000));
    assert_eq!(reading.receipts().unwrap_err().kind(), ErrorKind::Scan, "nothing was read");
    assert_eq!(ids(&all(&mut reading).await.unwrap()), (0..45).collect::<Vec<_>>());
    let texts = carried(&mut reading);
    let left = Left { attempt: "stage 1, attempt 0".into(), receipts: texts };
    let receipts = Receipts::of(&executor, &part).unwrap();
    receipts.leave(&left).await.unwrap();
    receipts.leave(&left).await.unwrap();
    let other = Left { receipts: vec!["{}".into()], ..left.clone() };
    assert_eq!(receipts.leave(&other).await.unwrap_err().kind(), ErrorKind::Store, "one attempt, one proof");

    // Its part of the plan cannot be sealed, even by what proves it.
    let part_proof = part.receive(&left.receipts[0]).unwrap();
    assert_eq!(part.seal(vec![part_proof]).unwrap_err().kind(), ErrorKind::Scan);
    assert_eq!(place.mark("events"), Mark::NONE);

    let found = Receipts::of(&driver, &plan).unwrap();
    assert_eq!(found.all().await.unwrap(), std::slice::from_ref(&left));
    let commit = plan.seal(vec![plan.receive(&left.receipts[0]).unwrap()]).unwrap();
    driver.checkpoints().commit(&commit).await.unwrap();
    assert_eq!(place.mark("events").position(), json!({ "type": "cursor", "value": "A" }));
    found.forget(chrono::Utc::now()).await.unwrap();
    assert!(found.all().await.unwrap().is_empty());
}

#[tokio::test]
async fn r01_a_receipt_of_another_plan_or_partition_and_a_text_that_is_none_are_refused() {
    let (_api, place) = shop();
    let source = Arc::new(Source::open(place.path("source.conf")).unwrap());
    let plan = async || source.plan(source.table("regions").unwrap().scan()).await.unwrap();
    let (one, other) = (plan().await, plan().await);
    let mut reading = rows(&source, &one, settings(1000));
    assert_eq!(all(&mut reading).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 20);
    let mut texts = carried(&mut reading);
    texts.sort_by_key(|text| !text.contains("region=eu"));
    assert_eq!(texts.len(), 2);
    let said = |text: &str, plan: &Plan| plan.receive(text).unwrap_err().to_string();
    assert!(said(&texts[0], &other).contains("another plan"));
    assert!(said("{}", &one).contains("no receipt"));
    assert!(said(&texts[0].replace("\"receipt\":1", "\"receipt\":9"), &one).contains("version 9"));
    assert!(said(&texts[0], &one.split().pop().unwrap()).contains("no partition"), "the first is not the second");
    let twice = vec![one.receive(&texts[0]).unwrap(), one.receive(&texts[0]).unwrap()];
    assert!(one.seal(twice).is_err());
    let both = texts.iter().map(|text| one.receive(text).unwrap()).collect();
    let _ = one.seal(both).unwrap();
}

#[tokio::test]
async fn r13_a_local_checkpoint_of_a_distributed_plan_is_warned_about() {
    let (_api, place) = shop();
    let source = Source::open(place.path("source.conf")).unwrap();
    let scan = || source.table("events").unwrap().scan();
    let plan = source.plan(scan().distributed()).await.unwrap();
    assert!(plan.warnings().iter().any(|said| said.contains("ckpt is local")), "{:?}", plan.warnings());
    assert!(source.plan(scan()).await.unwrap().warnings().is_empty());
    let regions = source.table("regions").unwrap().scan().distributed();
    assert!(source.plan(regions).await.unwrap().warnings().is_empty(), "it has no checkpoint");
}

#[tokio::test]
async fn rows_are_joined_cut_and_filtered_and_a_limit_proves_nothing() {
    let (_api, place) = shop();
    let source = Arc::new(Source::open(place.path("source.conf")).unwrap());
    let scan = || source.table("events").unwrap().scan();
    let plan = source.plan(scan()).await.unwrap();
    let sizes = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
    assert_eq!(sizes(&all(&mut rows(&source, &plan, settings(40))).await.unwrap()), [40, 5]);
    assert_eq!(sizes(&all(&mut rows(&source, &plan, settings(1000))).await.unwrap()), [45]);

    // The column that the predicate looks at is read, and not handed on.
    let odd = scan().select(["id"]).filter(Predicate::parse("kind = 'odd'").unwrap());
    let plan = source.plan(odd).await.unwrap();
    let mut reading = rows(&source, &plan, settings(1000));
    assert_eq!(reading.schema().await.unwrap().fields().len(), 1);
    let batches = all(&mut reading).await.unwrap();
    assert_eq!((batches[0].num_columns(), ids(&batches)), (1, (0..45).filter(|id| id % 2 == 1).collect()));
    assert_eq!((reading.emitted(), reading.counts().rows_read), (22, 45));
    assert!(carried(&mut reading)[0].contains("\"rows\":22"));

    let plan = source.plan(scan()).await.unwrap();
    let mut reading = rows(&source, &plan, Settings { limit: Some(31), ..settings(1000) });
    assert_eq!(all(&mut reading).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 31);
    assert_eq!(reading.receipts().unwrap_err().kind(), ErrorKind::Scan);
}

#[tokio::test]
async fn a_read_that_fails_ends_and_proves_nothing() {
    let (api, place) = shop();
    api.script(vec![get("/events", &items(0..30, Some("A"))), get("/events?cursor=A", &json!({ "error": "no" }))]);
    let source = Arc::new(Source::open(place.path("source.conf")).unwrap());
    let plan = source.plan(source.table("events").unwrap().scan()).await.unwrap();
    let mut reading = rows(&source, &plan, settings(10));
    assert_eq!(all(&mut reading).await.unwrap_err().kind(), ErrorKind::Decode);
    while reading.try_next().await.unwrap().is_some() {}
    assert_eq!(reading.receipts().unwrap_err().kind(), ErrorKind::Scan);
}

#[tokio::test]
async fn r09_what_a_configuration_of_a_store_names_is_named_in_full() {
    let missing = Origin::read("/nowhere/api.conf").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Config);
    assert!(missing.to_string().contains("/nowhere/api.conf"), "{missing}");
    let unknown = Origin::read("ftp://host/api.conf").await.unwrap_err();
    assert!(unknown.to_string().contains("unknown scheme"), "{unknown}");
}
