//! One row of what endpoints answer, as a table.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::array::types::{Decimal128Type, DecimalType as _};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result as Answered;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use futures::future::try_join_all;
use futures::stream;

use super::failure::external;
use super::table::RestTable;
use crate::config::{Aggregation, Function, TableConfig};
use crate::counts::Meter;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Number;
use crate::source::Source;

/// The endpoints of a query and the columns that their answers become.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    source: Arc<Source>,
    table: Arc<TableConfig>,
    meter: Arc<Meter>,
    endpoints: Vec<Aggregation>,
    schema: SchemaRef,
}

impl Answer {
    /// One endpoint for each column of the schema.
    pub(super) fn new(table: &RestTable, endpoints: Vec<Aggregation>, schema: SchemaRef) -> Self {
        let meter = Arc::<Meter>::default();
        if let Ok(mut meters) = table.meters().lock() {
            meters.push(Arc::clone(&meter));
        }
        let (source, table) = (Arc::clone(table.source()), Arc::new(table.config().clone()));
        Self { source, table, meter, endpoints, schema }
    }

    async fn row(self) -> Result<RecordBatch> {
        let asked = self.endpoints.iter().zip(self.schema.fields()).map(async |(endpoint, field)| {
            let text = self.source.ask(&self.table, endpoint, &self.meter).await?;
            let value = number(&text, endpoint, field.data_type())
                .map_err(|error| error.with("table", &self.table.name).with("aggregation", &endpoint.name))?;
            value.to_array().map_err(|e| Error::new(ErrorKind::Bug, format!("an answer became no array: {e}")))
        });
        let columns = try_join_all(asked).await?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("answers became no row: {e}")))
    }
}

/// A number as a value of the type that the query computes with.
fn number(text: &str, endpoint: &Aggregation, data_type: &DataType) -> Result<ScalarValue> {
    let path = &endpoint.response;
    let refuse =
        || Error::new(ErrorKind::Decode, format!("response-path {path} holds {text}, which is no {data_type}"));
    let number = Number::parse(text).ok_or_else(refuse)?;
    let value = match data_type {
        DataType::Int64 => number.whole().and_then(|text| text.parse().ok()).map(|n| ScalarValue::Int64(Some(n))),
        DataType::UInt64 => number.whole().and_then(|text| text.parse().ok()).map(|n| ScalarValue::UInt64(Some(n))),
        DataType::Float64 => text.parse().ok().filter(|n: &f64| n.is_finite()).map(|n| ScalarValue::Float64(Some(n))),
        DataType::Decimal128(precision, scale) => {
            let (units, exact) = number.units(*scale);
            // An average has as many digits as somebody wants.
            let fits = (exact || endpoint.function == Function::Avg)
                && Decimal128Type::validate_decimal_precision(units, *precision, *scale).is_ok();
            fits.then_some(ScalarValue::Decimal128(Some(units), *precision, *scale))
        }
        _ => None,
    };
    value.ok_or_else(refuse)
}

#[async_trait]
impl TableProvider for Answer {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Answered<Arc<dyn ExecutionPlan>> {
        let mut answer = self.clone();
        if let Some(places) = projection {
            answer.schema = Arc::new(self.schema.project(places)?);
            answer.endpoints = places.iter().filter_map(|at| self.endpoints.get(*at)).cloned().collect();
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&answer.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(RestAggregateExec { answer, properties: Arc::new(properties) }))
    }
}

/// Asks the endpoints.
#[derive(Debug)]
struct RestAggregateExec {
    answer: Answer,
    properties: Arc<PlanProperties>,
}

impl ExecutionPlan for RestAggregateExec {
    fn name(&self) -> &'static str {
        "RestAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Answered<TreeNodeRecursion>,
    ) -> Answered<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Answered<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("RestAggregateExec has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Answered<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Answered<SendableRecordBatchStream> {
        let answer = self.answer.clone();
        let row = stream::once(async move { answer.row().await.map_err(external) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), row)))
    }
}

impl DisplayAs for RestAggregateExec {
    fn fmt_as(&self, _form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RestAggregateExec: table={}", self.answer.table.name)?;
        for endpoint in &self.answer.endpoints {
            let column = endpoint.column.as_deref().unwrap_or("*");
            let (function, request) = (endpoint.function.name(), self.answer.source.asked(endpoint));
            write!(f, ", endpoint=[{function}({column}) at {} of {request}]", endpoint.response)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, function: Function, data_type: &DataType) -> Option<ScalarValue> {
        let endpoint = Aggregation {
            name: "a".into(),
            function,
            column: None,
            url: url::Url::parse("http://h/").unwrap(),
            response: jsonptr::PointerBuf::parse("/n").unwrap(),
            params: Vec::new(),
        };
        number(text, &endpoint, data_type).ok()
    }

    #[test]
    fn r24_an_answer_is_of_the_type_the_query_computes_with_or_an_error() {
        let (int, decimal) = (DataType::Int64, DataType::Decimal128(10, 2));
        assert_eq!(read("3.0", Function::Count, &int), Some(ScalarValue::Int64(Some(3))));
        assert_eq!(
            read("9007199254740993", Function::Sum, &int),
            Some(ScalarValue::Int64(Some(9_007_199_254_740_993)))
        );
        assert_eq!(read("3.5", Function::Sum, &int), None);
        assert_eq!(read("9223372036854775808", Function::Sum, &int), None);
        assert_eq!(read("0.1", Function::Avg, &DataType::Float64), Some(ScalarValue::Float64(Some(0.1))));
        assert_eq!(read("1e999", Function::Sum, &DataType::Float64), None);
        assert_eq!(read("-1.5e1", Function::Sum, &decimal), Some(ScalarValue::Decimal128(Some(-1_500), 10, 2)));
        assert_eq!(read("1.005", Function::Sum, &decimal), None);
        assert_eq!(read("1.005", Function::Avg, &decimal), Some(ScalarValue::Decimal128(Some(100), 10, 2)));
        assert_eq!(read("123456789.00", Function::Sum, &decimal), None);
    }
}
