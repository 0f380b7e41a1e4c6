//! A reader inside somebody else's task: the task's success is the proof, its failure moves nothing (R2).
//!
//! `cargo run --example embed` starts a two-page API on loopback, so it needs nothing else.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use restmark::{Event, Position, RecordBatch, Source};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let dir = std::env::temp_dir().join(format!("restmark-embed-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let config = dir.join("api.conf");
    std::fs::write(&config, config_for(&serve()?, &dir))?;
    let source = Source::open(&config)?;

    // First act: the task stores what it was given, so the plan is sealed and committed.
    let mut stored = Vec::new();
    task(&source, |batch| {
        stored.push(batch);
        Ok(())
    })
    .await?;
    let after_success = position(&source).await?;
    writeln!(
        std::io::stdout(),
        "the task stored {} batches; the checkpoint stands at {after_success:?}",
        stored.len()
    )?;

    // Second act: the task reads everything and then fails in its own work. Nothing moves.
    let failure = task(&source, |_| Err("the warehouse is full".into())).await;
    let after_failure = position(&source).await?;
    writeln!(std::io::stdout(), "the task failed ({failure:?}); the checkpoint stands at {after_failure:?}")?;

    std::fs::remove_dir_all(&dir)?;
    let unmoved = failure.is_err() && after_success == after_failure && after_success.is_some();
    if unmoved { Ok(()) } else { Err("the checkpoint moved without a commit".into()) }
}

/// Reads the table, does its own work with each batch, and commits only when all of it went well.
async fn task(source: &Source, mut deliver: impl FnMut(RecordBatch) -> Outcome) -> Outcome {
    let plan = source.plan(source.table("events")?.scan().select(["id", "type"])).await?;
    let mut receipts = Vec::new();
    for partition in plan.partitions() {
        let mut read = source.read(partition)?;
        while let Some(event) = read.try_next().await? {
            match event {
                Event::Batch(batch) => deliver(batch)?,
                Event::Done(receipt) => receipts.push(receipt),
            }
        }
    }
    source.checkpoints().commit(&plan.seal(receipts)?).await?;
    Ok(())
}

async fn position(source: &Source) -> Outcome<Option<Position>> {
    Ok(source.checkpoints().load("events").await?.map(|checkpoint| checkpoint.position))
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
