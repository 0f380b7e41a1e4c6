//! The typed, checked settings of one source. Immutable once loaded; `load.rs` and `validate.rs` make it.

mod aggregation;
mod auth;
mod checkpoint;
mod child;
mod explode;
mod http;
mod keys;
pub mod load;
mod openapi;
mod pagination;
mod partition;
mod section;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod travel;
mod urls;
mod validate;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jsonptr::PointerBuf;
use serde::{Deserialize, Serialize};
use url::Url;

pub use section::duration;

pub use explode::{ArrayOf, Explode, Named, exploded_name, named};

pub use crate::column::{Column as ColumnConfig, ColumnType};
use crate::error::Problem;
use crate::position::{Mode, TimestampFormat};
use crate::secret::Secret;
use crate::storage::{Location, Settings};

/// One API: base URL, credentials, HTTP policy and its tables.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The file it was loaded from.
    pub file: PathBuf,
    /// Absolute, http or https, without user info, query or fragment.
    pub base_url: Url,
    /// The document that describes the API.
    pub openapi: Option<SpecPlace>,
    /// How requests are authenticated.
    pub auth: Auth,
    /// Time-outs, retries, limits.
    pub http: HttpConfig,
    /// What opens stores: the `hadoop` block, the files of Hadoop and the environment.
    pub storage: Settings,
    /// In the order of the file.
    pub tables: Vec<TableConfig>,
    /// What is allowed but worth saying (R13); the same form as problems.
    pub warnings: Vec<Problem>,
}

/// `openapi`: where the document is.
#[derive(Clone, PartialEq, Eq)]
pub enum SpecPlace {
    /// A file, read when the configuration is loaded.
    File(PathBuf),
    /// A URL, asked when the columns of a table are first needed.
    Url(Url),
}

impl fmt::Debug for SpecPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            // A credential may stand in its query (R23).
            Self::Url(url) => write!(f, "Url({}://{}...)", url.scheme(), url.host_str().unwrap_or_default()),
        }
    }
}

/// `auth`.
#[derive(Debug, Clone)]
pub enum Auth {
    /// No credentials.
    None,
    /// `Authorization: Bearer <token>`; also a pre-fetched `OAuth2` token.
    Bearer(Secret),
    /// A bearer token in a file, read at start and again on a 401.
    BearerFile(PathBuf),
    /// RFC 7617.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: Secret,
    },
    /// A header with a fixed value.
    Header {
        /// Header name.
        name: String,
        /// Header value.
        value: Secret,
    },
    /// A query parameter with a fixed value, added to every request and missing link (R17).
    Query {
        /// Parameter name.
        param: String,
        /// Parameter value.
        value: Secret,
    },
    /// RFC 6749 section 4.4.
    OAuth2(OAuth2),
}

impl Auth {
    /// Whether requests carry a credential of this block.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// `OAuth2` client credentials (R22).
#[derive(Debug, Clone)]
pub struct OAuth2 {
    /// `client_id`.
    pub client_id: String,
    /// `client_secret`.
    pub client_secret: Secret,
    /// Where tokens are fetched.
    pub token_url: Url,
    /// `scope`, when given.
    pub scope: Option<String>,
    /// `audience`, when given.
    pub audience: Option<String>,
    /// Where the client's credentials travel.
    pub client_auth: ClientAuth,
}

/// Where an `OAuth2` client's credentials travel (RFC 6749 section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// In the form body.
    Body,
    /// In an `Authorization: Basic` header.
    Basic,
}

/// A fixed header; those named like a secret count as credentials (R17, R23).
#[derive(Debug, Clone)]
pub struct FixedHeader {
    /// Valid header name.
    pub name: String,
    /// The value, secret or not.
    pub value: Secret,
    /// Whether the name says that the value is a credential.
    pub is_secret: bool,
}

/// `http`.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Connect to response headers.
    pub timeout: Duration,
    /// Silence in the body.
    pub idle_timeout: Duration,
    /// One whole page of a body that is not streamed.
    pub page_timeout: Duration,
    /// Attempts after the first.
    pub max_retries: u32,
    /// Ceiling of the exponential back-off.
    pub max_backoff: Duration,
    /// The longest `Retry-After` that is waited for.
    pub max_retry_after: Duration,
    /// The ceiling of the source.
    pub rate_limit: Option<Rate>,
    /// Pages in flight and decoded pages held ahead; at least 1.
    pub read_ahead: usize,
    /// Whether compressed answers are asked for.
    pub compression: bool,
    /// How bodies are written.
    pub response_format: ResponseFormat,
    /// The largest decoded JSON page in bytes.
    pub max_body_bytes: u64,
    /// What happens on a 3xx.
    pub follow_redirects: Redirects,
    /// Sent with every API request.
    pub headers: Vec<FixedHeader>,
}

/// A number of requests in a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second, greater than zero.
    pub per_second: f64,
}

/// `http.response-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// One JSON document a page.
    Json,
    /// One JSON record a line, streamed.
    Ndjson,
    /// One JSON record an event of an event stream.
    Sse,
    /// A header row and records of cells, streamed.
    Csv,
}

/// `http.follow-redirects`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Followed to the same origin only; without credentials anywhere.
    SameOrigin,
    /// A redirect is an error.
    Never,
    /// Followed anywhere; other origins never get a credential.
    Any,
}

/// One table: what to ask, how it pages, what its rows look like.
#[derive(Debug, Clone)]
pub struct TableConfig {
    /// Its name in the file; safe as a file name (R9).
    pub name: String,
    /// The URL of the endpoint, without parameters.
    pub url: Url,
    /// `GET` or `POST`.
    pub method: Method,
    /// The JSON body template of a `POST`.
    pub body: Option<serde_json::Value>,
    /// Fixed query parameters in order; repeated names are repeated parameters.
    pub params: Vec<(String, String)>,
    /// Fixed headers of this table; they replace the source's of the same name.
    pub headers: Vec<FixedHeader>,
    /// The record array; `None` is the document itself.
    pub data_path: Option<PointerBuf>,
    /// Must be absent or null in a good response.
    pub error_path: Option<PointerBuf>,
    /// Declared columns in order, here or in the `openapi` document; empty when there are none.
    pub columns: Vec<ColumnConfig>,
    /// Whether the `openapi` document declares them: one at a URL is still to be asked.
    pub is_from_spec: bool,
    /// How the endpoint pages.
    pub pagination: Pagination,
    /// Parameters that could answer a predicate.
    pub filters: Vec<Filter>,
    /// How it is cut into slices; `None` is one walk.
    pub partition: Option<Partitioning>,
    /// Whose rows its requests are made of.
    pub child: Option<Child>,
    /// Endpoints that answer an aggregate.
    pub aggregations: Vec<Aggregation>,
    /// The enabled checkpoint, if the table's paging can serve it (R13).
    pub checkpoint: Option<CheckpointConfig>,
    /// How rows become columns.
    pub schema: SchemaConfig,
}

impl TableConfig {
    /// Whether the columns stand in a document that is still to be asked.
    pub fn awaits_columns(&self) -> bool {
        self.is_from_spec && self.columns.is_empty()
    }

    /// Whether it is read in slices, each a walk of its own.
    pub fn is_sliced(&self) -> bool {
        self.partition.is_some() || self.child.is_some()
    }

    /// Whether columns were found in its first rows, for all its partitions.
    pub fn is_sampled(&self) -> bool {
        self.schema.mode == SchemaMode::Infer && !self.columns.is_empty()
    }
}

/// Request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    /// No body.
    #[serde(rename = "GET")]
    Get,
    /// With a JSON body.
    #[serde(rename = "POST")]
    Post,
}

impl Method {
    /// `GET` or `POST`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// `pagination`: one style and what all styles share.
#[derive(Debug, Clone, PartialEq)]
pub struct Pagination {
    /// How the next request is found.
    pub style: Style,
    /// Where received records are counted; `None` is the table's `data-path`.
    pub results_path: Option<PointerBuf>,
    /// The page-size parameter, when one is sent.
    pub page_size_param: Option<String>,
    /// The page size asked for; at least 1.
    pub max_page_size: u64,
    /// Needing a page beyond this is an error.
    pub max_pages: Option<u64>,
}

/// How the next request is found (R14).
#[derive(Debug, Clone, PartialEq)]
pub enum Style {
    /// One page.
    None,
    /// By records received.
    Offset {
        /// The parameter.
        param: String,
        /// The declared end.
        end: DeclaredEnd,
    },
    /// By page number.
    Page {
        /// The parameter.
        param: String,
        /// The number of the first page.
        first: u64,
        /// The declared end.
        end: DeclaredEnd,
    },
    /// By a continuation in the page.
    Cursor {
        /// Where it is found.
        from: CursorFrom,
        /// Where it is sent.
        to: CursorTo,
        /// Sent on the first request of a fresh walk.
        initial: Option<String>,
    },
    /// RFC 8288 `rel=next`.
    LinkHeader,
    /// A URL in the page.
    NextUrl {
        /// Where it is found.
        path: PointerBuf,
    },
}

impl Style {
    /// The name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Offset { .. } => "offset",
            Self::Page { .. } => "page",
            Self::Cursor { .. } => "cursor",
            Self::LinkHeader => "link_header",
            Self::NextUrl { .. } => "next_url",
        }
    }
}

/// Where an offset or page style finds its declared end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredEnd {
    /// Pointer to the total number of records.
    pub total_path: Option<PointerBuf>,
    /// Pointer to a flag that more is to come.
    pub has_more_path: Option<PointerBuf>,
}

/// Where the next cursor is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CursorFrom {
    /// In the document.
    Path(PointerBuf),
    /// In a response header.
    Header(String),
}

/// Where a cursor is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CursorTo {
    /// In a query parameter.
    Query(String),
    /// In the JSON body; missing parents are created.
    Body(PointerBuf),
}

/// One entry of `filters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The query parameter.
    pub param: String,
    /// The column of a predicate.
    pub column: String,
    /// Operators the parameter answers.
    pub operators: Vec<Operator>,
    /// Whether the API's answer needs no re-check.
    pub exact: bool,
    /// Whether something else sends the parameter: then the filter is left to the engine (R13).
    pub is_taken: bool,
}

/// A comparison that an API can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the operators")]
pub enum Operator {
    Eq,
    Neq,
    Gt,
    Gte,
    Lt,
    Lte,
}

impl Operator {
    /// The sign in SQL.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Neq => "<>",
            Self::Gt => ">",
            Self::Gte => ">=",
            Self::Lt => "<",
            Self::Lte => "<=",
        }
    }
}

/// `partition`: slices that cover the table once (R30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning {
    /// Windows of offsets.
    Offset {
        /// Records of a window; at least 1.
        size: u64,
        /// Windows; at least 1. `size x count` fits 64 bits.
        count: u64,
    },
    /// One walk for each value of a parameter.
    Enum {
        /// The parameter.
        param: String,
        /// At least one, each once.
        values: Vec<String>,
    },
    /// Half-open windows of time between the bounds that a query sets.
    Dates {
        /// The column that the windows cut, and that the query bounds.
        column: String,
        /// The length of a window.
        range: Duration,
        /// Sends the start of a window.
        start_param: String,
        /// Sends its end.
        end_param: String,
        /// How both are written.
        format: TimestampFormat,
    },
}

impl Partitioning {
    /// The most partitions of one table: each is a value in memory.
    pub const MOST: u64 = 100_000;
}

/// A table whose requests are made of another table's rows (R31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The other table.
    pub parent: String,
    /// Its column or field whose values are the keys.
    pub key: String,
    /// Where that stands in a record of the parent.
    pub path: PointerBuf,
    /// The type of the column that holds the key here: the parent's where that is an integer, else a string.
    pub data_type: ColumnType,
    /// How keys are sent.
    pub join: Join,
    /// What a 404 on the first page of a key means.
    pub on_missing: OnMissing,
}

impl Child {
    /// The name of the column that holds the parent's key.
    pub fn column(&self) -> String {
        format!("{}{}", child::PARENT, self.key)
    }
}

/// `join-strategy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Join {
    /// One walk per key.
    NestedLoop {
        /// The name in braces that the key replaces in the path, as one encoded segment (R18).
        placeholder: String,
    },
    /// One walk for many keys.
    Batch {
        /// The parameter that sends them.
        param: String,
        /// The most keys of a walk; at least 1.
        size: usize,
        /// What stands between two keys.
        separator: String,
        /// Pointer in a record to the key it belongs to.
        field: PointerBuf,
    },
}

/// `on-404`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissing {
    /// The read fails.
    Fail,
    /// The key has no records; it is counted.
    Skip,
}

/// An endpoint that answers an aggregate of the whole table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregation {
    /// Its name in the configuration.
    pub name: String,
    /// What is computed.
    pub function: Function,
    /// Of which column; a count without one counts rows.
    pub column: Option<String>,
    /// Where it is asked.
    pub url: Url,
    /// Pointer in the answer.
    pub response: PointerBuf,
    /// Fixed query parameters.
    pub params: Vec<(String, String)>,
}

/// `function` of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are SQL's")]
pub enum Function {
    Count,
    Sum,
    Avg,
}

impl Function {
    /// The name in the configuration and in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Avg => "avg",
        }
    }
}

/// An enabled checkpoint.
#[derive(Debug, Clone)]
pub struct CheckpointConfig {
    /// The directory of `<table>.checkpoint.json`.
    pub location: Location,
    /// What is kept.
    pub mode: ModeConfig,
    /// Subtracted from the timestamp that is sent.
    pub lag: Duration,
    /// Pointer to a record's identity.
    pub dedup_key: Option<PointerBuf>,
    /// What records from the future do (R5).
    pub future: Future,
}

impl CheckpointConfig {
    /// How record timestamps are written, in timestamp mode.
    pub fn timestamp_format(&self) -> Option<&TimestampFormat> {
        match &self.mode {
            ModeConfig::Timestamp { format, .. } => Some(format),
            _ => None,
        }
    }
}

/// What a checkpoint keeps and where it finds it (R4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModeConfig {
    /// The cursor that fetched the last page.
    Cursor,
    /// Records received.
    Offset,
    /// The greatest timestamp.
    Timestamp {
        /// Pointer in a record.
        path: PointerBuf,
        /// Query parameter.
        param: String,
        /// How it is written.
        format: TimestampFormat,
    },
    /// A continuation for the next read.
    Token {
        /// Pointer in the last page.
        path: PointerBuf,
        /// Query parameter.
        param: String,
    },
}

impl ModeConfig {
    /// The kind of position.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Cursor => Mode::Cursor,
            Self::Offset => Mode::Offset,
            Self::Timestamp { .. } => Mode::Timestamp,
            Self::Token { .. } => Mode::Token,
        }
    }
}

/// Whether a record dated after the read began may become the position (R5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Future {
    /// It may not.
    Clamp,
    /// It may.
    Follow,
}

/// `schema`, resolved for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaConfig {
    /// How columns are found.
    pub mode: SchemaMode,
    /// Levels of nested objects that become columns.
    pub flatten_depth: usize,
    /// What a value that does not fit does (R24).
    pub on_mismatch: OnMismatch,
    /// A JSON column that keeps undeclared fields.
    pub rest_column: Option<String>,
    /// Rows of a batch; at least 1.
    pub batch_rows: usize,
    /// How arrays become tables of their own; `None` is `keep_array`.
    pub explode: Option<Explode>,
}

/// `schema.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaMode {
    /// Declared columns only.
    Strict,
    /// Columns from the first page.
    Infer,
    /// One JSON column `value`.
    Variant,
}

/// `schema.on-mismatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMismatch {
    /// NULL, counted.
    Null,
    /// The read fails.
    Fail,
}
