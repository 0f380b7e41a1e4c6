//! Tables of a source for DataFusion: read partition by partition, filtered by the API where it can; never committed.
//!
//! [`RestTable`] is a table as queries see it. [`PlanTable`] is one frozen [`Plan`](crate::Plan) that gathers receipts,
//! for executors that commit after their query. [`session`] puts a source's tables together with [`AskEndpoints`], which
//! answers `count`, `sum` and `avg` by the endpoints of `aggregations`.

mod aggregate;
mod answer;
mod failure;
mod planned;
mod predicate;
mod scan;
mod session;
mod table;

pub use aggregate::AskEndpoints;
pub use failure::into_error;
pub use planned::PlanTable;
pub use session::{RestSchema, add, session};
pub use table::RestTable;
