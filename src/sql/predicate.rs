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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{Field, TimeUnit};
    use datafusion::prelude::{cast, col, in_list, lit};

    use super::*;

    fn said(expr: &Expr) -> Option<String> {
        let at = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let fields = [("a", DataType::Int64), ("t", DataType::Utf8), ("seen", at), ("born", DataType::Date32)];
        let schema = Schema::new(fields.map(|(name, of)| Field::new(name, of, true)).to_vec());
        predicate(expr, &schema).map(|predicate| predicate.to_string())
    }

    fn literal_of(value: &ScalarValue) -> Option<String> {
        literal(value).map(|literal| literal.to_string())
    }

    #[test]
    fn comparisons_ranges_and_lists_are_said_and_nothing_else() {
        for (expr, want) in [
            (col("a").eq(lit(1_i64)), "a = 1"),
            (lit(1_i64).lt(col("a")), "a > 1"),
            (col("a").not_eq(lit(1_i64)), "a <> 1"),
            (col("a").between(lit(1_i64), lit(2_i64)), "a >= 1 AND a <= 2"),
            (col("a").gt(lit(1_i64)).and(col("t").lt_eq(lit("x'y"))), "a > 1 AND t <= 'x''y'"),
            (in_list(col("a"), vec![lit(1_i64), lit(2_i64)], false), "a = 1 OR a = 2"),
            (col("a").eq(lit(1_i64)).or(col("a").eq(lit(2_i64))), "a = 1 OR a = 2"),
            (col("b"), "b = true"),
            (!col("b"), "b = false"),
        ] {
            assert_eq!(said(&expr).as_deref(), Some(want), "{expr}");
        }
        for expr in [
            in_list(col("a"), vec![lit(1_i64)], true),
            col("a").not_between(lit(1_i64), lit(2_i64)),
            col("a").eq(lit(1_i64)).or(col("t").eq(lit("x"))),
            col("a").eq(lit(1_i64)).and(col("a").eq(col("b"))),
            col("a").eq(col("b")),
            col("a").eq(lit(ScalarValue::Int64(None))),
            (col("a") + lit(1_i64)).eq(lit(2_i64)),
            cast(col("t"), DataType::Int64).eq(lit(1_i64)),
            col("a").is_null(),
        ] {
            assert_eq!(said(&expr), None, "{expr}");
        }
    }

    #[test]
    fn an_instant_stays_one_through_a_cast_that_keeps_it_whole() {
        let noon = ScalarValue::TimestampNanosecond(Some(43_200_000_000_001), None);
        let at = |unit| cast(col("seen"), DataType::Timestamp(unit, None)).gt(lit(noon.clone()));
        assert_eq!(said(&at(TimeUnit::Nanosecond)).unwrap(), "seen > TIMESTAMP '1970-01-01T12:00:00.000000001Z'");
        assert_eq!(said(&at(TimeUnit::Second)), None, "this would cut the column");
        let day = cast(col("born"), DataType::Timestamp(TimeUnit::Nanosecond, None)).gt(lit(noon.clone()));
        assert!(said(&day).unwrap().starts_with("born > TIMESTAMP"));
        assert_eq!(said(&cast(col("t"), DataType::Timestamp(TimeUnit::Nanosecond, None)).gt(lit(noon))), None);
    }

    #[test]
    fn r24_every_value_keeps_its_digits() {
        let zone: Option<Arc<str>> = Some("+02:00".into());
        for (value, want) in [
            (ScalarValue::Int64(Some(i64::MIN)), "-9223372036854775808"),
            (ScalarValue::UInt64(Some(u64::MAX)), "18446744073709551615"),
            (ScalarValue::Float64(Some(0.1)), "0.1"),
            (ScalarValue::Decimal128(Some(-120), 10, 2), "-1.20"),
            (ScalarValue::Boolean(Some(true)), "true"),
            (ScalarValue::Utf8View(Some("x".into())), "'x'"),
            (ScalarValue::Dictionary(Box::new(DataType::Int8), Box::new(ScalarValue::from("x"))), "'x'"),
            (ScalarValue::Date32(Some(-1)), "TIMESTAMP '1969-12-31T00:00:00Z'"),
            (ScalarValue::TimestampSecond(Some(1), zone.clone()), "TIMESTAMP '1970-01-01T00:00:01Z'"),
            (ScalarValue::TimestampMillisecond(Some(-1), None), "TIMESTAMP '1969-12-31T23:59:59.999Z'"),
            (ScalarValue::TimestampMicrosecond(Some(1), zone), "TIMESTAMP '1970-01-01T00:00:00.000001Z'"),
        ] {
            assert_eq!(literal_of(&value).as_deref(), Some(want));
        }
        for none in [
            ScalarValue::Null,
            ScalarValue::Utf8(None),
            ScalarValue::Float64(Some(f64::NAN)),
            ScalarValue::Float64(Some(f64::INFINITY)),
            ScalarValue::Binary(Some(vec![1])),
            ScalarValue::IntervalYearMonth(Some(1)),
        ] {
            assert_eq!(literal_of(&none), None);
        }
    }
}
