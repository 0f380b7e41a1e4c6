//! Expressions of a query as predicates of ours: comparisons of a column with one value, ranges and lists.

use chrono::{DateTime, TimeDelta};
use datafusion::arrow::array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType as _};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator as Sql};

use crate::config::Operator;
use crate::filter::{Literal, Number, Predicate};
use crate::position::Instant;

/// What an expression says of the rows of a table; `None` where we have no word for it.
pub(super) fn predicate(expr: &Expr, schema: &Schema) -> Option<Predicate> {
    let parts = split(expr, Sql::And).into_iter().map(|part| single(part, schema));
    Predicate::all(parts.collect::<Option<_>>()?)
}

/// The operands of a chain of one operator, in order. A chain of ORs may be long, so nothing recurses.
fn split(expr: &Expr, by: Sql) -> Vec<&Expr> {
    let (mut parts, mut left) = (Vec::new(), vec![expr]);
    while let Some(expr) = left.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left: first, op, right }) if *op == by => left.extend([&**right, &**first]),
            part => parts.push(part),
        }
    }
    parts
}

fn single(expr: &Expr, schema: &Schema) -> Option<Predicate> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Sql::Or, .. }) => {
            let parts = split(expr, Sql::Or).into_iter().map(|part| comparison(part, schema));
            Predicate::any(parts.collect::<Option<_>>()?).filter(|any| any.one_of().is_some())
        }
        Expr::InList(list) if !list.negated => {
            let equals = list.list.iter().map(|value| compare(&list.expr, Operator::Eq, value, schema));
            Predicate::any(equals.collect::<Option<_>>()?)
        }
        Expr::Between(between) if !between.negated => Predicate::all(vec![
            compare(&between.expr, Operator::Gte, &between.low, schema)?,
            compare(&between.expr, Operator::Lte, &between.high, schema)?,
        ]),
        // Of a boolean `c = TRUE` only `c` is left.
        Expr::Column(column) => Some(truth(&column.name, true)),
        Expr::Not(inner) => match &**inner {
            Expr::Column(column) => Some(truth(&column.name, false)),
            _ => None,
        },
        _ => comparison(expr, schema),
    }
}

fn truth(column: &str, value: bool) -> Predicate {
    Predicate::compare(column, Operator::Eq, Literal::Boolean(value))
}

fn comparison(expr: &Expr, schema: &Schema) -> Option<Predicate> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (forward, backward) = match op {
        Sql::Eq => (Operator::Eq, Operator::Eq),
        Sql::NotEq => (Operator::Neq, Operator::Neq),
        Sql::Lt => (Operator::Lt, Operator::Gt),
        Sql::LtEq => (Operator::Lte, Operator::Gte),
        Sql::Gt => (Operator::Gt, Operator::Lt),
        Sql::GtEq => (Operator::Gte, Operator::Lte),
        _ => return None,
    };
    compare(left, forward, right, schema).or_else(|| compare(right, backward, left, schema))
}

fn compare(column: &Expr, operator: Operator, value: &Expr, schema: &Schema) -> Option<Predicate> {
    let Expr::Literal(value, _) = value else { return None };
    Some(Predicate::compare(name(column, schema)?, operator, literal(value)?))
}

/// A column, also one that is only seen as another type of instant.
fn name<'a>(expr: &'a Expr, schema: &Schema) -> Option<&'a str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) => {
            let Expr::Column(column) = &*cast.expr else { return None };
            let from = schema.field_with_name(&column.name).ok()?.data_type();
            let is_instant = matches!(from, DataType::Timestamp(..) | DataType::Date32);
            // Only to units that keep it whole.
            let keeps = match (from, cast.field.data_type()) {
                (DataType::Timestamp(own, _), DataType::Timestamp(unit, _)) => unit >= own,
                (DataType::Date32, to) => matches!(to, DataType::Timestamp(..) | DataType::Date64),
                _ => false,
            };
            (is_instant && keeps).then_some(&column.name)
        }
        _ => None,
    }
}

/// A value, if it is one that a query parameter could name.
fn literal(value: &ScalarValue) -> Option<Literal> {
    let number = |text: String| Number::parse(&text).map(Literal::Number);
    match value {
        ScalarValue::Boolean(Some(value)) => Some(Literal::Boolean(*value)),
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Some(Literal::Text(text.clone()))
        }
        ScalarValue::Int8(Some(n)) => number(n.to_string()),
        ScalarValue::Int16(Some(n)) => number(n.to_string()),
        ScalarValue::Int32(Some(n)) => number(n.to_string()),
        ScalarValue::Int64(Some(n)) => number(n.to_string()),
        ScalarValue::UInt8(Some(n)) => number(n.to_string()),
        ScalarValue::UInt16(Some(n)) => number(n.to_string()),
        ScalarValue::UInt32(Some(n)) => number(n.to_string()),
        ScalarValue::UInt64(Some(n)) => number(n.to_string()),
        ScalarValue::Float16(Some(n)) => number(n.to_f64().to_string()),
        ScalarValue::Float32(Some(n)) => number(f64::from(*n).to_string()),
        ScalarValue::Float64(Some(n)) => number(n.to_string()),
        ScalarValue::Decimal32(Some(n), p, s) => number(Decimal32Type::format_decimal(*n, *p, *s)),
        ScalarValue::Decimal64(Some(n), p, s) => number(Decimal64Type::format_decimal(*n, *p, *s)),
        ScalarValue::Decimal128(Some(n), p, s) => number(Decimal128Type::format_decimal(*n, *p, *s)),
        ScalarValue::Decimal256(Some(n), p, s) => number(Decimal256Type::format_decimal(*n, *p, *s)),
        ScalarValue::Dictionary(_, inner) | ScalarValue::RunEndEncoded(_, _, inner) => literal(inner),
        other => instant(other).map(Literal::Instant),
    }
}

/// An instant; without a zone it is UTC, a day is its midnight.
fn instant(value: &ScalarValue) -> Option<Instant> {
    match value {
        ScalarValue::Date32(Some(days)) => {
            DateTime::UNIX_EPOCH.checked_add_signed(TimeDelta::try_days(i64::from(*days))?)
        }
        ScalarValue::Date64(Some(n)) | ScalarValue::TimestampMillisecond(Some(n), _) => {
            DateTime::from_timestamp_millis(*n)
        }
        ScalarValue::TimestampSecond(Some(n), _) => DateTime::from_timestamp(*n, 0),
        ScalarValue::TimestampMicrosecond(Some(n), _) => DateTime::from_timestamp_micros(*n),
        ScalarValue::TimestampNanosecond(Some(n), _) => Some(DateTime::from_timestamp_nanos(*n)),
        _ => None,
    }
}
