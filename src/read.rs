//! The only loop: fetch, decode, paginate. A read yields batches and, last and once, a receipt (R1).

mod bodies;
mod carried;
mod children;
mod clock;
mod lineage;
mod request;
mod trim;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::column::Column;
use crate::config::{Auth, CheckpointConfig, Future, ModeConfig, SourceConfig, Style, TableConfig};
use crate::counts::{Counts, Meter, Tally};
use crate::decode::{Envelope, Page, Scalar};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch::{Arrived, Attempts, Client, Large, Response};
use crate::paginate::{Answer, Step, Walk};
use crate::plan::{Partition, Request, Slice};
use crate::position::{Boundary, BoundaryPolicy, Position, Seen};
use bodies::Bodies;
use children::Children;
use clock::Clock;
use lineage::Lineage;
pub(crate) use request::first_request;
use request::{template, token, walk};
use trim::Trim;

/// What a [`Read`] yields: any number of batches and then, exactly once and last, a receipt.
#[derive(Debug)]
pub enum Event {
    /// Rows. They prove nothing.
    Batch(RecordBatch),
    /// The partition was read to its end.
    Done(Receipt),
}

/// Dropping a receipt does nothing. It proves that one partition of one plan was read to its end (R1).
///
/// Only a [`Read`] that ended by itself makes one; it cannot be cloned.
#[derive(Debug)]
#[must_use = "a receipt moves nothing until its plan is sealed with it and committed"]
pub struct Receipt(Box<Proof>);

#[derive(Debug)]
struct Proof {
    plan: String,
    partition: String,
    end: End,
    counts: Counts,
}

/// What a partition reached.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) position: Option<Position>,
    pub(crate) seen: Seen,
    /// The content of the first page, where windows of offsets must differ in it.
    pub(crate) content: Option<u128>,
}

impl Receipt {
    fn of(partition: &Partition, end: End, counts: Counts) -> Self {
        let (plan, partition) = (partition.plan.clone(), partition.id.clone());
        Self(Box::new(Proof { plan, partition, end, counts }))
    }

    /// The loss report of the partition (R25).
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    pub(crate) fn plan(&self) -> &str {
        &self.0.plan
    }

    pub(crate) fn partition(&self) -> &str {
        &self.0.partition
    }

    pub(crate) fn content(&self) -> Option<u128> {
        self.0.end.content
    }

    /// The position it reached.
    pub(crate) fn reached(&self) -> Option<&Position> {
        self.0.end.position.as_ref()
    }

    pub(crate) fn into_end(self) -> End {
        self.0.end
    }

    /// A receipt without a read, for unit tests of what follows it.
    #[cfg(test)]
    pub(crate) fn forged(plan: &str, partition: &str, position: Option<Position>) -> Self {
        let end = End { position, seen: Seen::default(), content: None };
        let (plan, partition) = (plan.to_owned(), partition.to_owned());
        Self(Box::new(Proof { plan, partition, end, counts: Counts::default() }))
    }
}

/// The stream of one partition. Dropping it cancels its requests and proves nothing.
#[derive(Debug)]
pub struct Read {
    events: mpsc::Receiver<Result<Event>>,
    meter: Arc<Meter>,
    head: Arc<Head>,
    _task: Running<()>,
}

/// Where events go.
type Sender = mpsc::Sender<Result<Event>>;

impl Read {
    /// Starts reading; must be called inside a Tokio runtime.
    pub(crate) fn start(
        client: &Client,
        config: &SourceConfig,
        table: &TableConfig,
        partition: &Partition,
    ) -> Result<Self> {
        let meter = Arc::new(Meter::default());
        let reading = Reading::new(client, config, table, partition, &meter)?;
        let head = Arc::clone(reading.head());
        let (events, receiver) = mpsc::channel(reading.ahead());
        let task = tokio::spawn(async move {
            let outcome = reading.run(&events).await;
            let event = match outcome {
                Ok(Some(receipt)) => Ok(Event::Done(receipt)),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            // A consumer that is gone needs no event.
            let _ = events.send(event).await;
        });
        Ok(Self { events: receiver, meter, head, _task: Running(task) })
    }

    /// The next event; `None` after the receipt, and where a limit was reached.
    ///
    /// # Errors
    /// What went wrong, with `table`, `page` and `url`; nothing comes after an error.
    pub async fn try_next(&mut self) -> Result<Option<Event>> {
        self.events.recv().await.transpose()
    }

    /// The columns of the batches, once the first of them has come.
    pub(crate) fn columns(&self) -> Option<&[Column]> {
        self.head.columns.get().map(Vec::as_slice)
    }

    /// The records there are, as the first page declared them.
    pub(crate) fn total(&self) -> Option<u64> {
        self.head.total.get().copied()
    }

    /// Live figures for a progress display.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }
}

/// What the first rows and pages of a read showed.
#[derive(Debug, Default)]
struct Head {
    columns: OnceLock<Vec<Column>>,
    total: OnceLock<u64>,
}

/// A task that ends when nobody waits for it any more.
#[derive(Debug)]
struct Running<T>(JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What reads a partition: one walk, or those of the children of a parent's rows.
enum Reading {
    Walk(Box<Reader>),
    Children(Box<Children>),
}

impl Reading {
    /// `client` is the source's.
    fn new(
        client: &Client,
        config: &SourceConfig,
        table: &TableConfig,
        partition: &Partition,
        meter: &Arc<Meter>,
    ) -> Result<Self> {
        if let Some(child) = &table.child {
            let children = Children::new(client, config, table, child, partition, meter)?;
            return Ok(Self::Children(Box::new(children)));
        }
        let client = client.for_read(&table.headers, Arc::clone(meter)).with_share(partition.share);
        Ok(Self::Walk(Box::new(Reader::new(client, config, table, partition, Arc::clone(meter))?)))
    }

    fn head(&self) -> &Arc<Head> {
        match self {
            Self::Walk(reader) => &reader.head,
            Self::Children(children) => children.head(),
        }
    }

    /// Events that may wait for the consumer.
    fn ahead(&self) -> usize {
        match self {
            Self::Walk(reader) => reader.ahead,
            Self::Children(children) => children.ahead(),
        }
    }

    /// Reads to the end; `None` where a limit or the consumer stopped it. Boxed: parents may have parents.
    fn run(self, events: &Sender) -> BoxFuture<'_, Result<Option<Receipt>>> {
        match self {
            Self::Walk(reader) => reader.run(events).boxed(),
            Self::Children(children) => children.run(events).boxed(),
        }
    }
}

/// The state of the loop.
struct Reader {
    client: Client,
    table: TableConfig,
    auth_param: Option<String>,
    ahead: usize,
    partition: Partition,
    bodies: Bodies,
    walk: Walk,
    boundary: Boundary,
    token: Scalar,
    /// Worth saying: an end that no document declared.
    empty_end: Option<String>,
    /// What streamed bodies had to say.
    said: Vec<String>,
    /// Of a batch of a stream, until it had something to say.
    clock: Option<Clock>,
    counts: Counts,
    meter: Arc<Meter>,
    trim: Trim,
    /// The content of the first page of a window of offsets.
    content: Option<u128>,
    /// In a walk of a child table: whose children its rows are.
    lineage: Option<Lineage>,
    /// A 404 instead of the first page is no failure.
    may_be_missing: bool,
    /// Whether no other walk is under way beside this one; `None` where there never is.
    alone: Option<Arc<AtomicBool>>,
    head: Arc<Head>,
}

/// A page and the answer it stood in.
struct Passed {
    response: Response,
    page: Page,
    /// The answer had no body at all, though its status promises one.
    is_blank: bool,
}

/// A page beyond this size is not held: its records are read as it comes in (R26).
const HELD: u64 = 8 << 20;

/// Requests on their way, the current one first.
type Sent = VecDeque<(Request, Running<Result<Arrived>>)>;

impl Reader {
    fn new(
        client: Client,
        config: &SourceConfig,
        table: &TableConfig,
        partition: &Partition,
        meter: Arc<Meter>,
    ) -> Result<Self> {
        let start = partition.start.as_ref();
        let template = template(table, partition).map_err(|e| e.with("table", &table.name))?;
        let trim = Trim::of(&partition.slice, partition.select.as_deref());
        let walk = walk(template, table, partition)?;
        let checkpoint = table.checkpoint.as_ref();
        let format = checkpoint.and_then(CheckpointConfig::timestamp_format);
        let policy = BoundaryPolicy {
            format: format.cloned(),
            stored: match (start, format) {
                (Some(Position::Timestamp(text)), Some(format)) => format.parse(text),
                _ => None,
            },
            lag: checkpoint.map(|c| c.lag).unwrap_or_default(),
            not_after: checkpoint
                .filter(|c| c.future == Future::Clamp && partition.batch.is_none())
                .map(|_| partition.began),
            dedup: checkpoint.is_some_and(|c| c.dedup_key.is_some()) && partition.batch.is_none(),
            window: partition.batch.map(|batch| batch.window),
            watermark: partition.batch.and_then(|batch| batch.watermark),
        };
        Ok(Self {
            client,
            auth_param: match &config.auth {
                Auth::Query { param, .. } => Some(param.clone()),
                _ => None,
            },
            // With a limit nothing is read ahead: the walk stops where the rows do.
            ahead: if partition.limit.is_some() { 1 } else { config.http.read_ahead },
            bodies: Bodies::new(config, table, partition, trim.select(partition.select.as_deref()))?,
            walk,
            boundary: Boundary::new(policy, partition.seen.clone()),
            token: Scalar::Absent,
            empty_end: None,
            said: Vec::new(),
            clock: Clock::of(partition, checkpoint.map(|c| c.lag).unwrap_or_default()),
            counts: Counts::default(),
            table: table.clone(),
            partition: partition.clone(),
            meter,
            trim,
            lineage: None,
            may_be_missing: false,
            alone: None,
            content: None,
            head: Arc::default(),
        })
    }

    /// Walks to the end. `None` where the limit or the consumer stopped it: no receipt (R1).
    async fn run(mut self, events: &Sender) -> Result<Option<Receipt>> {
        let outcome = match self.walk_on(events).await {
            Ok(true) => self.receipt().map(Some),
            Ok(false) => Ok(None),
            Err(error) if self.is_missing(&error) => {
                let keys = self.lineage.iter().flat_map(Lineage::keys);
                keys.for_each(|key| self.counts.children_missing.add(|| self.client.redactor().scrub(key)));
                self.receipt().map(Some)
            }
            Err(error) => Err(error),
        };
        if !matches!(outcome, Ok(Some(_))) {
            self.leave_counts();
        }
        outcome.map_err(|error| self.in_context(error))
    }

    /// Whether the error is that a child is not there, which is no failure.
    fn is_missing(&self, error: &Error) -> bool {
        self.may_be_missing && self.walk.pages() == 0 && error.status() == Some(404)
    }

    async fn walk_on(&mut self, events: &Sender) -> Result<bool> {
        let mut sent = VecDeque::new();
        loop {
            let passed = match self.bodies {
                Bodies::Whole(_) => self.page(&mut sent, events).await?,
                Bodies::Streamed(_) => self.streamed(events).await?,
            };
            let Some(Passed { response, mut page, is_blank }) = passed else { return Ok(false) };
            let batches = page.take_batches();
            let step = self.pass(&response, page, is_blank)?;
            if step != Step::End && self.partition.limit.is_none() && matches!(self.bodies, Bodies::Whole(_)) {
                self.send_ahead(&mut sent);
            }
            if !self.hand_on(batches, events).await? {
                return Ok(false);
            }
            if step == Step::End {
                return Ok(true);
            }
        }
    }

    /// The page of the current request, whether it was sent ahead or not. `None` where the consumer has enough.
    async fn page(&mut self, sent: &mut Sent, events: &Sender) -> Result<Option<Passed>> {
        self.send_ahead(sent);
        let Some((_, mut running)) = sent.pop_front() else {
            return Err(Error::new(ErrorKind::Bug, "no request is on its way"));
        };
        let arrived = (&mut running.0)
            .await
            .unwrap_or_else(|e| Err(Error::new(ErrorKind::Bug, "a request task ended early").caused_by(e)))?;
        match arrived {
            Arrived::Whole(response) => {
                self.send_next(&response, sent);
                // What was just started waits on this thread: it leaves before the thread is busy with rows.
                tokio::task::yield_now().await;
                self.whole(*response).map(Some)
            }
            Arrived::Large(large) => self.large(large, events).await,
        }
    }

    /// Sends the requests that a page seems to lead to, before its rows are built: the page has arrived, so one more
    /// may be on its way.
    fn send_next(&self, response: &Response, sent: &mut Sent) {
        let Bodies::Whole(decoder) = &self.bodies else { return };
        if self.partition.limit.is_some() {
            return;
        }
        while sent.len() < self.in_flight()
            && let Some(request) = self.walk.ahead(sent.len() as u64 + 1)
        {
            sent.push_back(self.send(request));
        }
        if !sent.is_empty() {
            return;
        }
        let envelope = match self.table.pagination.style {
            Style::Cursor { .. } | Style::NextUrl { .. } => decoder.glance(&response.body),
            _ => Envelope::default(),
        };
        if let Some(next) = self.walk.guess(&response.url, &response.headers, &envelope) {
            sent.push_back(self.send(next));
        }
    }

    fn send(&self, request: Request) -> (Request, Running<Result<Arrived>>) {
        let (client, asked, attempts) = (self.client.clone(), request.clone(), self.client.attempts());
        (request, Running(tokio::spawn(async move { client.arrive(&asked, attempts, HELD).await })))
    }

    fn whole(&mut self, response: Response) -> Result<Passed> {
        let Bodies::Whole(decoder) = &mut self.bodies else {
            return Err(Error::new(ErrorKind::Bug, "a streamed body came as a page"));
        };
        Meter::add(&self.meter.bytes, response.body.len() as u64);
        let page = decoder.page(response.status, &response.body, &mut self.boundary)?;
        Meter::add(&self.meter.rows, page.received);
        let is_blank = response.status == 200 && response.body.is_empty();
        Ok(Passed { response, page, is_blank })
    }

    /// A page that is too large to be held: its rows are handed on as they come; asked again only before the first of
    /// them left (R19, R26).
    async fn large(&mut self, mut large: Box<Large>, events: &Sender) -> Result<Option<Passed>> {
        let fresh = self.boundary.clone();
        loop {
            let mut handed_on = false;
            match self.pieces(&mut large, &mut handed_on, events).await {
                Err(error) if !handed_on => large.attempts.again(error).await?,
                ended => return ended,
            }
            self.boundary = fresh.clone();
            match self.client.arrive(self.walk.current(), large.attempts, HELD).await? {
                Arrived::Whole(response) => return self.whole(*response).map(Some),
                Arrived::Large(again) => large = again,
            }
        }
    }

    /// One try at such a page.
    async fn pieces(&mut self, large: &mut Large, handed_on: &mut bool, events: &Sender) -> Result<Option<Passed>> {
        let response = large.response();
        self.bodies.begin_page(&mut self.boundary)?;
        // What a try counted that is given up counts for nothing.
        let mut counts = Counts::default();
        loop {
            let chunk = large.chunk().await?;
            Meter::add(&self.meter.bytes, chunk.as_ref().map_or(0, |bytes| bytes.len() as u64));
            let (mut pages, last) = self.bodies.piece(chunk.as_deref(), response.status, &mut self.boundary)?;
            for page in &mut pages {
                Meter::add(&self.meter.rows, page.received);
                counts.merge(std::mem::take(&mut page.counts));
                *handed_on |= page.rows() > 0;
                if *handed_on {
                    self.counts.merge(std::mem::take(&mut counts));
                }
                if !self.hand_on(page.take_batches(), events).await? {
                    return Ok(None);
                }
            }
            if let Some(page) = last {
                self.counts.merge(counts);
                return Ok(Some(Passed { response, page, is_blank: false }));
            }
        }
    }

    /// Requests that may be on their way: walks that go on beside others have one each.
    fn in_flight(&self) -> usize {
        let is_alone = self.alone.as_ref().is_none_or(|alone| alone.load(Ordering::Relaxed));
        if is_alone { self.ahead.max(1) } else { 1 }
    }

    /// Sends the current request and those that can be known before their turn; a walk that took another way
    /// discards what is in flight (R14).
    fn send_ahead(&self, sent: &mut Sent) {
        if sent.front().is_some_and(|(request, _)| request != self.walk.current()) {
            sent.clear();
        }
        while sent.len() < self.in_flight() {
            let request = match sent.len() {
                0 => Some(self.walk.current().clone()),
                steps => self.walk.ahead(steps as u64),
            };
            let Some(request) = request else { return };
            sent.push_back(self.send(request));
        }
    }

    /// A streamed body: rows are handed on as they come; asked again only before the first of them left (R19).
    async fn streamed(&mut self, events: &Sender) -> Result<Option<Passed>> {
        let mut attempts = self.client.attempts();
        let fresh = self.boundary.clone();
        loop {
            let mut handed_on = false;
            match self.body(&mut attempts, &mut handed_on, events).await {
                Err(error) if !handed_on => attempts.again(error).await?,
                ended => return ended,
            }
            self.boundary = fresh.clone();
        }
    }

    /// One try at a streamed body. `None` where the consumer has enough.
    async fn body(&mut self, attempts: &mut Attempts, handed_on: &mut bool, events: &Sender) -> Result<Option<Passed>> {
        let mut streamed = self.client.open(self.walk.current(), attempts).await?;
        self.bodies.begin()?;
        let (mut whole, mut content) = (Page::default(), DefaultHasher::new());
        loop {
            let chunk = streamed.chunk().await?;
            if let Some(bytes) = &chunk {
                Meter::add(&self.meter.bytes, bytes.len() as u64);
                content.write(bytes);
            }
            for mut page in self.bodies.feed(chunk.as_deref(), &mut self.boundary)? {
                self.said.append(&mut page.counts.warnings);
                *handed_on |= page.rows() > 0;
                Meter::add(&self.meter.rows, page.received);
                whole.received += page.received;
                let batches = page.take_batches();
                self.counts.merge(page.counts);
                if !self.hand_on(batches, events).await? {
                    return Ok(None);
                }
            }
            if chunk.is_none() {
                break;
            }
        }
        // Two bodies with the same bytes are the same page (R15).
        whole.content = u128::from(content.finish()) | 1 << 64;
        Ok(Some(Passed { response: streamed.response(), page: whole, is_blank: false }))
    }

    /// Takes the page into the counts and asks the walk what comes next.
    fn pass(&mut self, response: &Response, page: Page, is_blank: bool) -> Result<Step> {
        Meter::add(&self.meter.pages, 1);
        self.counts.merge(page.counts);
        if let Some(said) = self.clock.as_ref().and_then(|clock| clock.hear(&response.headers, response.asked)) {
            self.said.push(said);
            self.clock = None;
        }
        self.token = page.envelope.token.clone();
        if let Scalar::Number(total) | Scalar::Text(total) = &page.envelope.total
            && let Ok(total) = total.parse()
        {
            let _ = self.head.total.set(total);
        }
        let answer = Answer {
            url: &response.url,
            headers: &response.headers,
            received: page.received,
            content: (page.content != 0).then_some(page.content),
            envelope: &page.envelope,
        };
        if self.walk.pages() == 0 && matches!(self.partition.slice, Slice::Offset { .. }) {
            self.content = answer.content.filter(|_| answer.received > 0);
        }
        let step = self.walk.advance(answer).map_err(|e| e.with("page", self.walk.pages()))?;
        self.meter.stand_at(&self.stands_at());
        let is_led = matches!(self.table.pagination.style, Style::Cursor { .. } | Style::NextUrl { .. });
        if step == Step::End && is_led && is_blank && self.walk.pages() > 1 {
            self.empty_end = Some(format!("the walk ended at page {}, whose body was empty", self.walk.pages()));
        }
        Ok(step)
    }

    /// Hands rows to the consumer; `false` when it is gone or has enough.
    async fn hand_on(&mut self, batches: impl Iterator<Item = Result<RecordBatch>>, events: &Sender) -> Result<bool> {
        for batch in batches {
            if self.head.columns.get().is_none() {
                let mut columns = self.bodies.columns();
                columns.retain(|column| self.lineage.as_ref().is_none_or(|lineage| lineage.name() != column.name));
                let _ = self.head.columns.set(columns);
            }
            let mut batch = self.trim.apply(batch?)?;
            if let Some(lineage) = &self.lineage {
                batch = lineage.apply(batch, &mut self.counts)?;
            }
            if let Some(limit) = self.partition.limit {
                let left = limit.saturating_sub(self.counts.rows_emitted);
                let rows = usize::try_from(left).unwrap_or(usize::MAX).min(batch.num_rows());
                batch = batch.slice(0, rows);
            }
            self.counts.rows_emitted += batch.num_rows() as u64;
            if batch.num_rows() > 0 && events.send(Ok(Event::Batch(batch))).await.is_err() {
                return Ok(false);
            }
            if self.has_enough() {
                return Ok(false);
            }
        }
        Ok(!self.has_enough())
    }

    fn has_enough(&self) -> bool {
        self.partition.limit.is_some_and(|limit| self.counts.rows_emitted >= limit)
    }

    /// The receipt of a walk that has ended by itself.
    fn receipt(&mut self) -> Result<Receipt> {
        self.walk.ended()?;
        let end = self.boundary.clone().finish();
        self.counts.not_remembered = end.not_remembered;
        let position = match self.table.checkpoint.as_ref().map(|c| &c.mode) {
            None => None,
            Some(ModeConfig::Cursor) => self.walk.cursor().map(|cursor| Position::Cursor(cursor.to_owned())),
            Some(ModeConfig::Offset) => self.walk.offset().map(Position::Offset),
            Some(ModeConfig::Timestamp { .. }) => end.timestamp.map(Position::Timestamp),
            Some(ModeConfig::Token { path, .. }) => token(&self.token, self.auth_param.as_deref())
                .map_err(|what| Error::new(ErrorKind::Decode, format!("token-path {path} holds no token: {what}")))?
                .map(Position::Token),
        };
        if position.as_ref().is_some_and(|p| self.client.redactor().finds(&p.text())) {
            return Err(Error::new(
                ErrorKind::Decode,
                "the API's position contains a credential: it cannot be stored (R23); ask the API for another style",
            ));
        }
        self.leave_counts();
        let end = End { position, seen: end.seen, content: self.content };
        Ok(Receipt::of(&self.partition, end, self.meter.counts()))
    }

    /// The loss report goes to the meter, once, whether a receipt follows or not (R25).
    fn leave_counts(&mut self) {
        let (count, first) = self.boundary.without_position();
        let first = first.map(|text| self.client.redactor().scrub(text));
        self.counts.without_position = Tally { count, first };
        self.counts.in_future = self.boundary.in_future();
        self.counts.duplicates_dropped = self.boundary.duplicates_dropped();
        (self.counts.outside_window, self.counts.late) = self.boundary.outside_and_late();
        self.counts.warnings = self.walk.warnings().iter().chain(&self.empty_end).chain(&self.said).cloned().collect();
        self.meter.keep(self.counts.clone());
    }

    fn stands_at(&self) -> String {
        match (self.walk.offset(), self.walk.cursor(), self.boundary.best()) {
            (Some(offset), ..) => format!("offset {offset}"),
            (_, _, Some(timestamp)) => timestamp.to_owned(),
            (_, Some(cursor), _) => self.client.redactor().scrub(&format!("cursor {cursor}")),
            _ => String::new(),
        }
    }

    /// Where it happened, without secrets.
    fn in_context(&self, error: Error) -> Error {
        let redactor = self.client.redactor();
        error
            .with("table", &self.table.name)
            .with("page", self.walk.pages() + 1)
            .with("url", self.client.shown(&self.walk.current().url))
            .scrubbed(|text| redactor.scrub(text))
    }
}
