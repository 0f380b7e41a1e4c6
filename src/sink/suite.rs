//! What every place and its sinks have to keep, as one suite: hand it a [`Subject`] and it says what is broken.
//!
//! Behind feature `testing`, so that a sink of your own can be held to the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::future::{BoxFuture, try_join_all};

use super::{Epoch, Finished, Part, Place, Sink, Writer};
use crate::error::Error;
use crate::integrity::Crc;

/// A row as the suite writes it: columns `id` (int64) and `name` (string, with nulls).
pub type Row = (i64, Option<String>);

/// A place under test. It is empty at first and used by nobody else.
pub trait Subject: Sync {
    /// Another handle on the same place, as another process has it.
    fn open(&self) -> Arc<dyn Place>;

    /// What somebody sees who reads there, in any order.
    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, String>>;

    /// How many files, tables or the like stand there that nobody is to see, whatever they are.
    fn hidden(&self) -> BoxFuture<'_, Result<usize, String>>;
}

const TABLE: &str = "rows";

/// Every check, one after the other; each continues where the one before has left the place.
///
/// # Errors
/// What the sinks do not keep, and where.
pub async fn run(subject: &dyn Subject) -> Result<(), String> {
    let mut suite = Suite { subject, seen: BTreeSet::new(), next: 0 };
    suite.shows_what_is_published().await.map_err(|e| format!("publish: {e}"))?;
    suite.takes_parts_at_once().await.map_err(|e| format!("parts at once: {e}"))?;
    suite.publishes_for_the_dead().await.map_err(|e| format!("another process: {e}"))?;
    suite.publishes_twice().await.map_err(|e| format!("twice: {e}"))?;
    suite.shows_one_attempt().await.map_err(|e| format!("two attempts: {e}"))?;
    suite.forgets_what_is_withdrawn().await.map_err(|e| format!("withdraw: {e}"))?;
    suite.forgets_what_is_not_finished().await.map_err(|e| format!("not finished: {e}"))?;
    suite.leaves_others_alone().await.map_err(|e| format!("others: {e}"))?;
    suite.takes_nothing().await.map_err(|e| format!("no rows: {e}"))
}

struct Suite<'a> {
    subject: &'a dyn Subject,
    /// What has to be in sight.
    seen: BTreeSet<Row>,
    /// The next epoch.
    next: u64,
}

impl Suite<'_> {
    /// Nothing is seen before it is published, all of it afterwards, and the counts and the checksum are of what was written.
    async fn shows_what_is_published(&mut self) -> Result<(), String> {
        let epoch = self.epoch("first");
        let sink = self.sink(&epoch, 1).await?;
        let finished = write(&*sink, Part::All, &[(0, 3), (3, 3), (3, 5)]).await?;
        let sum = |batches: &[RecordBatch]| {
            let mut crc = Crc::new();
            batches.iter().try_for_each(|batch| crc.add_batch(batch)).map_err(|e| e.to_string()).map(|()| crc.value())
        };
        same("the rows of a part", &finished.rows, &5)?;
        same("its checksum", &finished.content, &sum(&[batch(0..3), batch(3..5)])?)?;
        self.sees("staged rows").await?;
        self.publish(&*sink, &[finished], 0..5).await
    }

    /// Parts are written side by side, each in a thread of its own, and only those that are named are shown.
    async fn takes_parts_at_once(&mut self) -> Result<(), String> {
        let epoch = self.epoch("parts");
        let sink = self.sink(&epoch, 8).await?;
        let parts = (0..8_u32).map(|number| {
            let from = 100 + i64::from(number) * 10;
            let part = Part::Number(number as usize);
            let ranges: Vec<_> = (from..from + 10).map(|id| (id, id + 1)).collect();
            let sink = &*sink;
            async move { write(sink, part, &ranges).await }
        });
        let mut parts = try_join_all(parts).await?;
        self.sees("the rows of parts that are staged").await?;
        // One of them is nobody's: it belongs to a task that was not counted.
        let left = parts.remove(3);
        parts.reverse();
        let ids = (100..180).filter(|id| !(130..140).contains(id));
        self.publish(&*sink, &parts, ids).await?;
        sink.withdraw(&[left]).await;
        self.sees("after a part was left out").await
    }

    /// What a process has staged is published by another, from what the ledger has kept of it.
    async fn publishes_for_the_dead(&mut self) -> Result<(), String> {
        let epoch = self.epoch("dead");
        let kept = {
            let sink = self.sink(&epoch, 2).await?;
            let parts = [
                write(&*sink, Part::Number(0), &[(200, 203)]).await?,
                write(&*sink, Part::Number(1), &[(203, 205)]).await?,
            ];
            serde_json::to_string(&parts).map_err(|e| e.to_string())?
        };
        self.sees("what a process has staged that is gone").await?;
        let parts: Vec<Finished> = serde_json::from_str(&kept).map_err(|e| e.to_string())?;
        let sink = self.sink(&epoch, 1).await?;
        self.publish(&*sink, &parts, 200..205).await
    }

    /// An epoch that is published again, also by others and at the same time, is there once.
    async fn publishes_twice(&mut self) -> Result<(), String> {
        let epoch = self.epoch("twice");
        let sink = self.sink(&epoch, 1).await?;
        let parts = [write(&*sink, Part::All, &[(300, 304)]).await?];
        let (one, other) = (self.sink(&epoch, 1).await?, self.sink(&epoch, 1).await?);
        let both = try_join_all([one.publish(&parts), other.publish(&parts)]).await;
        both.map_err(|e| format!("at the same time: {e}"))?;
        self.publish(&*sink, &parts, 300..304).await?;
        self.publish(&*self.sink(&epoch, 1).await?, &parts, []).await
    }

    /// Of two attempts at an epoch the one that was decided is seen, and what the other had staged is swept.
    async fn shows_one_attempt(&mut self) -> Result<(), String> {
        let dead = self.epoch("one");
        let winner = Epoch { run: "other".to_owned(), ..dead.clone() };
        let before = self.hidden().await?;
        let _ = write(&*self.sink(&dead, 1).await?, Part::All, &[(400, 402)]).await?;
        let sink = self.sink(&winner, 1).await?;
        let parts = [write(&*sink, Part::All, &[(400, 403)]).await?];
        self.publish(&*sink, &parts, 400..403).await?;
        sink.sweep().await.map_err(said)?;
        self.sees("after the sweep").await?;
        let left = self.hidden().await?;
        if left > before {
            return Err(format!("{left} hidden things are left, {before} were there before"));
        }
        Ok(())
    }

    /// What is withdrawn is gone for good.
    async fn forgets_what_is_withdrawn(&mut self) -> Result<(), String> {
        let lost = self.epoch("lost");
        let sink = self.sink(&lost, 1).await?;
        let parts = [write(&*sink, Part::All, &[(500, 502)]).await?];
        sink.withdraw(&parts).await;
        sink.withdraw(&parts).await;
        self.sees("after a run was withdrawn").await?;
        // The epoch is still to be had.
        let again = Epoch { run: "again".to_owned(), ..lost };
        let sink = self.sink(&again, 1).await?;
        let parts = [write(&*sink, Part::All, &[(510, 512)]).await?];
        self.publish(&*sink, &parts, 510..512).await
    }

    /// A part that was begun and dropped is nobody's.
    async fn forgets_what_is_not_finished(&mut self) -> Result<(), String> {
        let epoch = self.epoch("cut");
        let sink = self.sink(&epoch, 1).await?;
        let mut writer = sink.part(Part::Number(0)).map_err(said)?;
        writer = on_thread(move || writer.write(&batch(600..605)).map(|()| writer)).await?;
        drop(writer);
        let parts = [write(&*sink, Part::Number(1), &[(610, 612)]).await?];
        self.publish(&*sink, &parts, 610..612).await
    }

    /// A sweep takes nothing of another ledger, and nothing of a later epoch.
    async fn leaves_others_alone(&mut self) -> Result<(), String> {
        let theirs = Epoch { ledger: "theirs".to_owned(), number: 0, run: "them".to_owned() };
        let (other, own) = (self.sink(&theirs, 1).await?, self.epoch("own"));
        let waiting = [write(&*other, Part::All, &[(700, 702)]).await?];
        let sink = self.sink(&own, 1).await?;
        let parts = [write(&*sink, Part::All, &[(710, 712)]).await?];
        let later = self.epoch("later");
        let next = [write(&*self.sink(&later, 1).await?, Part::All, &[(720, 722)]).await?];
        self.publish(&*sink, &parts, 710..712).await?;
        sink.sweep().await.map_err(said)?;
        self.publish(&*other, &waiting, 700..702).await?;
        other.sweep().await.map_err(said)?;
        self.publish(&*self.sink(&later, 1).await?, &next, 720..722).await
    }

    /// An epoch may have no rows, and a part none.
    async fn takes_nothing(&mut self) -> Result<(), String> {
        let epoch = self.epoch("none");
        let sink = self.sink(&epoch, 1).await?;
        self.publish(&*sink, &[], []).await?;
        let parts = [write(&*sink, Part::All, &[]).await?];
        same("the rows of an empty part", &parts[0].rows, &0)?;
        self.publish(&*sink, &parts, []).await?;
        sink.sweep().await.map_err(said)
    }

    fn epoch(&mut self, run: &str) -> Epoch {
        self.next += 1;
        Epoch { ledger: "suite".to_owned(), number: self.next - 1, run: run.to_owned() }
    }

    async fn sink(&self, epoch: &Epoch, parts: usize) -> Result<Box<dyn Sink>, String> {
        let place = self.subject.open();
        let sink = place.open(TABLE, epoch, parts).await;
        sink.map_err(|e| format!("epoch {} cannot be opened: {e}", epoch.number))
    }

    async fn publish(
        &mut self,
        sink: &dyn Sink,
        parts: &[Finished],
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<(), String> {
        sink.publish(parts).await.map_err(said)?;
        self.seen.extend(ids.into_iter().map(row));
        self.sees("what was published").await
    }

    /// Whether exactly what was published is in sight.
    async fn sees(&self, when: &str) -> Result<(), String> {
        let mut rows = self.subject.rows().await?;
        rows.sort_unstable();
        let wanted: Vec<Row> = self.seen.iter().cloned().collect();
        same(when, &rows, &wanted)
    }

    async fn hidden(&self) -> Result<usize, String> {
        self.subject.hidden().await
    }
}

fn row(id: i64) -> Row {
    (id, (id % 3 != 0).then(|| format!("é {id}")))
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)]);
    let names: StringArray = ids.clone().map(|id| row(id).1).collect();
    let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(names)];
    RecordBatch::try_new(Arc::new(schema), columns)
        .unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(Schema::empty())))
}

/// Writes a part where blocking is allowed, as a run does.
async fn write(sink: &dyn Sink, part: Part, batches: &[(i64, i64)]) -> Result<Finished, String> {
    let (mut writer, batches): (Box<dyn Writer>, Vec<_>) =
        (sink.part(part).map_err(said)?, batches.iter().map(|(from, to)| batch(*from..*to)).collect());
    on_thread(move || {
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()
    })
    .await
}

async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|e| e.to_string())?.map_err(said)
}

#[allow(clippy::needless_pass_by_value)] // As `map_err` has it.
fn said(error: Error) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, wanted: &T) -> Result<(), String> {
    if is == wanted { Ok(()) } else { Err(format!("{what}: {is:?}, and {wanted:?} was to be")) }
}
