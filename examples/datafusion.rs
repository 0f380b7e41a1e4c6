//! SQL by DataFusion in an executor of your own: it commits after a query that succeeded, and only then (R2).
//!
//! `cargo run --features sql --example datafusion` starts a two-page API on loopback, so it needs nothing else.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use restmark::sql::{PlanTable, RestSchema, session};
use restmark::{Position, Source};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let dir = std::env::temp_dir().join(format!("restmark-datafusion-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let config = dir.join("api.conf");
    std::fs::write(&config, config_for(&serve()?, &dir))?;
    let source = Arc::new(Source::open(&config)?);

    // First act: ad-hoc SQL over the whole table. It moves nothing.
    let context = session(Arc::new(RestSchema::new(Arc::clone(&source))), None)?;
    let counted = context.sql("SELECT type, count(*) AS events FROM events GROUP BY type ORDER BY type").await?;
    say(&pretty_format_batches(&counted.collect().await?)?.to_string())?;
    say(&format!("after ad-hoc SQL the checkpoint stands at {:?}", position(&source).await?))?;

    // Second act: the query fails after everything was read, at a text that is no number. Nothing moves.
    let failure = task(&source, "SELECT CAST(type AS INT) FROM events ORDER BY id").await;
    let after_failure = position(&source).await?;
    say(&format!("the query failed ({}); the checkpoint stands at {after_failure:?}", failure.is_err()))?;

    // Third act: the query succeeds, so the plan that it read is sealed and committed.
    let rows = task(&source, "SELECT count(*) FROM events WHERE type = 'push'").await?;
    let after_success = position(&source).await?;
    say(&format!("the query gave {rows} row; the checkpoint stands at {after_success:?}"))?;

    std::fs::remove_dir_all(&dir)?;
    let as_promised = failure.is_err() && after_failure.is_none() && after_success.is_some();
    if as_promised { Ok(()) } else { Err("the checkpoint moved without a commit, or not with one".into()) }
}

/// Runs a query over what is new in the table, and commits when all of it went well.
async fn task(source: &Arc<Source>, query: &str) -> Outcome<usize> {
    let plan = source.plan(source.table("events")?.scan()).await?;
    let table = Arc::new(PlanTable::new(Arc::clone(source), plan).await?);
    let context = SessionContext::new();
    context.register_table("events", Arc::clone(&table) as _)?;
    let rows = context.sql(query).await?.collect().await?;
    // Here the rows would be stored.
    source.checkpoints().commit(&table.plan().seal(table.receipts())?).await?;
    Ok(rows.iter().map(restmark::RecordBatch::num_rows).sum())
}

async fn position(source: &Source) -> Outcome<Option<Position>> {
    Ok(source.checkpoints().load("events").await?.map(|checkpoint| checkpoint.position))
}

fn say(text: &str) -> Outcome {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

fn config_for(base: &str, dir: &std::path::Path) -> String {
    format!(
        r#"
        base-url = "{base}"
        tables {{
          events {{
            endpoint   = "/events"
            data-path  = "/items"
            columns    {{ id {{ type = int64 }}, type {{ type = string }} }}
            pagination {{ style = cursor, cursor-path = "/next" }}
            checkpoint {{ enabled = true, path = "{}", mode = cursor }}
          }}
        }}
        "#,
        dir.display()
    )
}

/// Two pages, one of them behind a cursor.
fn serve() -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let base = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let body = if String::from_utf8_lossy(&head[..read]).contains("cursor=p2") {
                r#"{"items":[{"id":3,"type":"push"}],"next":null}"#
            } else {
                r#"{"items":[{"id":1,"type":"push"},{"id":2,"type":"fork"}],"next":"p2"}"#
            };
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        }
    });
    Ok(base)
}
