//! The words of the command line.

#[cfg(not(feature = "sql"))]
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[cfg(feature = "sql")]
use clap::builder::TypedValueParser as _;
use clap::{Parser, Subcommand, ValueEnum};

use crate::sink::Format;

const EXAMPLES: &str = "\
Examples:
  restmark demo                                     see it work, without an API of your own
  restmark check github.conf                        every problem of a configuration, and what each table promises
  restmark preview github.conf events               the first rows
  restmark explain github.conf events --where \"...\"  what would be asked, and what is left to do, without asking
  restmark read github.conf events                  NDJSON on standard output, then the checkpoint moves
  restmark read github.conf events --to out/        a new Parquet file in out/, then the checkpoint moves
  restmark checkpoint show github.conf events       where the next read starts

The position of a table moves only when everything that was read is written. After a failure the same rows come again.

Exit codes: 0 done, 2 configuration or usage, 3 the API failed, 4 the data failed, 5 storage, destination or conflict, \
70 a bug of ours, 130 interrupted. Whenever it is not 0, no \
position moved, unless the message says that it is not certain.";

/// REST APIs as tables, with a mark of how far they were read that you can trust.
#[derive(Debug, Parser)]
#[command(name = "restmark", version, after_help = EXAMPLES, max_term_width = 110)]
pub(super) struct Args {
    /// How messages are written to standard error
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub(super) log: Log,
    /// Say more: -v requests, -vv redirects and tokens too
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// Say only what was lost, warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Log {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Load a configuration; print each table, its guarantee and every problem
    Check(CheckArgs),
    /// Read a table from its checkpoint and, when everything is written, move it
    Read(ReadArgs),
    /// List the tables of a configuration
    Tables(ConfigArg),
    /// Print a table's columns as a block that can be pasted into the configuration
    Schema(TableArg),
    /// Print the first rows of a table; moves nothing
    Preview(PreviewArgs),
    /// Look at the position of a table, set it or clear it
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Walk through a read, a failure and a resume against a small API on this machine
    Demo,
    /// Print a completion script for a shell
    Completions {
        /// For this shell
        shell: clap_complete::Shell,
    },
    /// Print what a read would ask the API, and what of a query is left to do; asks nothing
    Explain(ExplainArgs),
    /// Read what is new of a table, batch by batch, into files
    Stream(StreamArgs),
    /// Answer a SQL query over the tables; moves nothing
    #[cfg(feature = "sql")]
    Sql(SqlArgs),
    #[cfg(not(feature = "sql"))]
    #[command(hide = true)]
    Sql(Later),
    /// Compare the files of a directory with what was written there
    Verify(VerifyArgs),
}

/// A command that was not built takes any arguments, so that it can say so.
#[cfg(not(feature = "sql"))]
#[derive(Debug, clap::Args)]
pub(super) struct Later {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ConfigArg {
    /// The configuration file
    pub(super) config: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) file: ConfigArg,
    /// Also reads each table's checkpoint once, wherever it stands
    #[arg(long)]
    pub(super) connect: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct TableArg {
    /// The configuration file
    pub(super) config: PathBuf,
    /// A table of it
    pub(super) table: String,
}

const READ_EXAMPLES: &str = "\
Examples:
  restmark read api.conf events | jq .id
  restmark read api.conf events --to out/ --format csv
  restmark read api.conf events --select id,type --where \"type = 'push' AND id > 100\" --limit 20
  restmark read api.conf users --to out/ --mode overwrite

The predicate knows = <> < <= > >=, AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL over columns and literals
(5, 1.5, 'text', TRUE, NULL, DATE '2026-01-31', TIMESTAMP '2026-01-31T10:00:00Z').";

#[derive(Debug, clap::Args)]
#[command(after_help = READ_EXAMPLES)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    pub(super) of: TableArg,
    /// A directory for files, - for standard output, null: to count only
    #[arg(long, value_name = "DEST", default_value = "-")]
    pub(super) to: String,
    /// How files are written [default: parquet]
    #[arg(long, value_enum)]
    pub(super) format: Option<FormatArg>,
    /// What files mean that are already there, for a table without a checkpoint [default: error]
    #[arg(long, value_enum)]
    pub(super) mode: Option<ModeArg>,
    #[command(flatten)]
    pub(super) query: QueryArgs,
    /// Partitions that are read at a time [default: the cores there are]
    #[arg(long, value_name = "N")]
    pub(super) parallel: Option<NonZeroUsize>,
}

/// What of a table is read.
#[derive(Debug, clap::Args)]
pub(super) struct QueryArgs {
    /// Only these columns, in this order
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(super) select: Option<Vec<String>>,
    /// Only rows for which this SQL predicate is true
    #[arg(long = "where", value_name = "PREDICATE", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,
    /// At most this many rows; the position stays where it is
    #[arg(long, value_name = "ROWS")]
    pub(super) limit: Option<u64>,
    /// Read from the beginning, whatever the stored position; the commit follows (an offset or timestamp never goes back)
    #[arg(long)]
    pub(super) full: bool,
}

const STREAM_EXAMPLES: &str = "\
Examples:
  restmark stream api.conf events --checkpoint-location state/ --to out/ --trigger available-now
  restmark stream api.conf events --checkpoint-location s3a://b/state --to s3a://b/events --trigger 30s --starting earliest

A batch holds the records with start < timestamp <= end; the next one begins where it ends. The location remembers each
batch and belongs to this stream alone. SIGTERM ends after the batch, exit 0.";

#[derive(Debug, clap::Args)]
#[command(after_help = STREAM_EXAMPLES)]
pub(super) struct StreamArgs {
    #[command(flatten)]
    pub(super) of: TableArg,
    /// A directory for the stream's own ledger
    #[arg(long, value_name = "DIR")]
    pub(super) checkpoint_location: String,
    /// A directory for files, or - for standard output
    #[arg(long, value_name = "DEST")]
    pub(super) to: String,
    /// How files are written [default: parquet]
    #[arg(long, value_enum)]
    pub(super) format: Option<FormatArg>,
    /// available-now: what there is, then end; or the time from one batch to the next
    #[arg(long, value_name = "TRIGGER", default_value = "available-now")]
    pub(super) trigger: String,
    /// Where a new stream starts: now, earliest or an instant
    #[arg(long, value_name = "WHERE", default_value = "now")]
    pub(super) starting: String,
    /// The longest window of a batch; a longer absence becomes several
    #[arg(long, value_name = "DURATION")]
    pub(super) max_window: Option<String>,
    /// How long after the greatest timestamp a record may come without being counted as late
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub(super) allowed_lateness: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 all as written, 4 a file is missing or changed, 5 the directory cannot be read.")]
pub(super) struct VerifyArgs {
    /// A directory that files were written to; a store is opened by the environment and the files of Hadoop
    #[arg(value_name = "DEST")]
    pub(super) to: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) of: TableArg,
    #[command(flatten)]
    pub(super) query: QueryArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum FormatArg {
    Parquet,
    Ndjson,
    Csv,
    Arrow,
    /// A Delta table, if restmark was built with the feature delta
    Delta,
}

impl FormatArg {
    pub(super) fn format(self) -> Format {
        match self {
            Self::Parquet => Format::Parquet,
            Self::Ndjson => Format::Ndjson,
            Self::Csv => Format::Csv,
            Self::Arrow => Format::Arrow,
            Self::Delta => Format::Delta,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ModeArg {
    /// Refuse to run if there are any
    Error,
    /// Keep them
    Append,
    /// Remove them once the new file is there
    Overwrite,
}

#[derive(Debug, clap::Args)]
pub(super) struct PreviewArgs {
    #[command(flatten)]
    pub(super) of: TableArg,
    /// How many rows
    #[arg(long, value_name = "ROWS", default_value_t = 10)]
    pub(super) limit: u64,
}

#[cfg(feature = "sql")]
const SQL_EXAMPLES: &str = "\
Examples:
  restmark sql api.conf \"SELECT type, count(*) FROM events GROUP BY type ORDER BY 2 DESC\"
  restmark sql api.conf \"SELECT * FROM events e JOIN users u ON u.id = e.user_id\" --format ndjson
  restmark sql api.conf \"SELECT * FROM events JOIN other.users USING (id)\" --with other.conf
  restmark sql api.conf \"SELECT * FROM events WHERE day >= '2026-01-01'\" --to events.parquet
  restmark sql api.conf \"EXPLAIN SELECT count(*) FROM events WHERE type = 'push'\"

A query reads whole tables, wherever their checkpoints stand. Names are read as they are written.";

#[cfg(feature = "sql")]
#[derive(Debug, clap::Args)]
#[command(after_help = SQL_EXAMPLES)]
pub(super) struct SqlArgs {
    /// The configuration file
    pub(super) config: PathBuf,
    /// The query; its tables are those of the configuration
    pub(super) query: String,
    /// How rows are written [default: table, with --to parquet]
    #[arg(long, value_enum)]
    pub(super) format: Option<SqlFormat>,
    /// A file that is written, or replaced, when the query succeeded
    #[arg(long, value_name = "FILE")]
    pub(super) to: Option<PathBuf>,
    /// Another configuration: its tables are named FILE.TABLE, with the name of the file without its ending
    #[arg(long, value_name = "CONFIG")]
    pub(super) with: Vec<PathBuf>,
    /// How many partitions of a table are read at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..).map(usize::from))]
    pub(super) parallel: Option<usize>,
}

#[cfg(feature = "sql")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SqlFormat {
    /// For people
    Table,
    Ndjson,
    Csv,
    Parquet,
}

#[derive(Debug, Subcommand)]
pub(super) enum CheckpointCommand {
    /// Print the stored position and where it came from
    Show(TableArg),
    /// Store a position by hand; who did it is kept in the file
    Set {
        #[command(flatten)]
        of: TableArg,
        /// The position: a cursor, a number of records, a timestamp or a token, as the table's mode says
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove the stored position, readable or not: the next read is a first run
    Clear(TableArg),
}

impl CheckpointCommand {
    /// Whether it changes what is stored.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Self::Show(_))
    }
}
