//! `count`, `sum` and `avg` of a whole table are asked of its endpoints (`aggregations`) instead of being computed.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result as Answered;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, TableScan};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::answer::Answer;
use super::table::RestTable;
use crate::config::{Aggregation, Function};

/// An optimizer rule: aggregates of a whole [`RestTable`] become one scan of what its endpoints answer.
///
/// All aggregates of a query have to have an endpoint, and nothing may choose rows or groups; otherwise the table is
/// scanned.
#[derive(Debug, Default)]
pub struct AskEndpoints;

impl OptimizerRule for AskEndpoints {
    fn name(&self) -> &'static str {
        "ask_endpoints"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Answered<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        Ok(match asked(aggregate) {
            Some((scan, answer)) => Transformed::yes(answered(aggregate, scan, answer)?),
            None => Transformed::no(plan),
        })
    }
}

/// The same columns, from the endpoints.
fn answered(aggregate: &Aggregate, scan: &TableScan, answer: Answer) -> Answered<LogicalPlan> {
    let named = aggregate.schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::new(Some(scan.table_name.clone()), field.name()));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    let source = provider_as_source(Arc::new(answer));
    LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.project(named)?.build()
}

/// The table and the endpoints of an aggregate, if they answer all of it.
fn asked(aggregate: &Aggregate) -> Option<(&TableScan, Answer)> {
    if !aggregate.group_expr.is_empty() {
        return None;
    }
    let scan = whole_table(&aggregate.input)?;
    let provider = source_as_provider(&scan.source).ok()?;
    let table = (*provider).downcast_ref::<RestTable>()?;
    let schema = table.schema();
    let endpoints = aggregate.aggr_expr.iter().map(|expr| endpoint(expr, table, &schema).cloned());
    let endpoints: Vec<_> = endpoints.collect::<Option<_>>()?;
    let fields = aggregate.schema.fields();
    if !fields.iter().all(|field| is_number(field.data_type())) {
        return None;
    }
    Some((scan, Answer::new(table, endpoints, Arc::new(Schema::new(fields.clone())))))
}

/// The scan of all rows that an input is, under whatever name.
fn whole_table(mut input: &LogicalPlan) -> Option<&TableScan> {
    loop {
        match input {
            LogicalPlan::SubqueryAlias(alias) => input = &alias.input,
            LogicalPlan::TableScan(scan) => return (scan.filters.is_empty() && scan.fetch.is_none()).then_some(scan),
            _ => return None,
        }
    }
}

/// The endpoint that answers an aggregate.
fn endpoint<'a>(expr: &Expr, table: &'a RestTable, schema: &Schema) -> Option<&'a Aggregation> {
    let expr = match expr {
        Expr::Alias(alias) => &*alias.expr,
        expr => expr,
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else { return None };
    let AggregateFunctionParams { args, distinct: false, filter: None, order_by, null_treatment: None } = params else {
        return None;
    };
    let functions = [(count_udaf(), Function::Count), (sum_udaf(), Function::Sum), (avg_udaf(), Function::Avg)];
    let (_, function) = functions.into_iter().find(|(known, _)| known == func)?;
    let [argument] = args.as_slice() else { return None };
    let column = match argument {
        // `count(*)` counts a literal.
        Expr::Literal(value, _) if function == Function::Count && *value != ScalarValue::Null && !value.is_null() => {
            None
        }
        argument => Some(column(argument, schema)?),
    };
    let answers = |known: &&Aggregation| known.function == function && known.column.as_deref() == column;
    table.config().aggregations.iter().find(answers).filter(|_| order_by.is_empty())
}

/// A column, also where it is only widened to be added up.
fn column<'a>(expr: &'a Expr, schema: &Schema) -> Option<&'a str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) => {
            let Expr::Column(column) = &*cast.expr else { return None };
            let from = schema.field_with_name(&column.name).ok()?.data_type();
            let widened = matches!(
                (from, cast.field.data_type()),
                (DataType::Int32, DataType::Int64 | DataType::Float64) | (DataType::Int64, DataType::Float64)
            );
            widened.then_some(&column.name)
        }
        _ => None,
    }
}

fn is_number(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(..))
}
