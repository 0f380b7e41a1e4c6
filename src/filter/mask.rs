//! An [`Expr`] over a batch: Kleene logic over comparisons that are exact for every type but floats.

use std::cmp::Ordering;

use arrow_arith::boolean::{and_kleene, is_null, not, or_kleene};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Datum, PrimitiveArray, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::Expr;
use super::literal::{Literal, Mark};
use crate::config::Operator;
use crate::error::{Error, ErrorKind, Result};

pub(super) fn mask(expr: &Expr, batch: &RecordBatch) -> Result<BooleanArray> {
    match expr {
        Expr::And(parts) => fold(parts, batch, and_kleene),
        Expr::Or(parts) => fold(parts, batch, or_kleene),
        Expr::Not(inner) => not(&mask(inner, batch)?).map_err(|e| failed(&e)),
        Expr::IsNull(name) => is_null(column(name, batch)?).map_err(|e| failed(&e)),
        Expr::Literal { column: name, operator, literal } => {
            with_literal(name, column(name, batch)?, *operator, literal)
        }
        Expr::Columns { left, operator, right } => {
            let (a, b) = (column(left, batch)?, column(right, batch)?);
            with_column(a, *operator, b)
                .ok_or_else(|| {
                    clash(&format!("{left} is {}, {right} is {}", named(a.data_type()), named(b.data_type())))
                })?
                .map_err(|e| failed(&e))
        }
        Expr::Like { column: name, pattern, ignore_case } => {
            let texts = column(name, batch)?;
            if *texts.data_type() != DataType::Utf8 {
                return Err(clash(&format!("{name} is {}, LIKE needs a text", named(texts.data_type()))));
            }
            let kernel = if *ignore_case { arrow_string::like::ilike } else { arrow_string::like::like };
            kernel(texts, &StringArray::new_scalar(pattern.as_str())).map_err(|e| failed(&e))
        }
    }
}

type Kernel = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>;

fn fold(parts: &[Expr], batch: &RecordBatch, join: Kernel) -> Result<BooleanArray> {
    let mut masks = parts.iter().map(|part| mask(part, batch));
    let first = masks.next().unwrap_or_else(|| Ok(BooleanArray::new_null(batch.num_rows())))?;
    masks.try_fold(first, |so_far, next| join(&so_far, &next?).map_err(|e| failed(&e)))
}

fn column<'a>(name: &str, batch: &'a RecordBatch) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| {
        let schema = batch.schema();
        let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::new(ErrorKind::Scan, format!("no column {name}; the columns are {}", known.join(", ")))
    })
}

fn failed(error: &ArrowError) -> Error {
    Error::new(ErrorKind::Bug, format!("a predicate could not be computed: {error}"))
}

fn clash(what: &str) -> Error {
    Error::new(ErrorKind::Scan, format!("cannot be compared: {what}"))
}

/// The type's name in the configuration.
fn named(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        other => other.to_string().to_lowercase(),
    }
}

fn holds(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Eq => order.is_eq(),
        Operator::Neq => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::Lte => order.is_le(),
        Operator::Gt => order.is_gt(),
        Operator::Gte => order.is_ge(),
    }
}

fn with_literal(name: &str, values: &ArrayRef, operator: Operator, literal: &Literal) -> Result<BooleanArray> {
    let known = match (values.data_type(), literal) {
        (_, Literal::Null) => Some(BooleanArray::new_null(values.len())),
        (DataType::Int32, Literal::Number(n)) => Some(marked::<Int32Type>(values, operator, n.mark(0))),
        (DataType::Int64, Literal::Number(n)) => Some(marked::<Int64Type>(values, operator, n.mark(0))),
        (DataType::Decimal128(_, scale), Literal::Number(n)) => {
            Some(marked::<Decimal128Type>(values, operator, n.mark(*scale)))
        }
        (DataType::Float64, Literal::Number(n)) => {
            let bound = n.to_f64();
            Some(BooleanArray::from_unary(values.as_primitive::<Float64Type>(), |v| {
                v.partial_cmp(&bound).is_some_and(|order| holds(operator, order))
            }))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, _), _) => {
            literal.instant().map(|at| marked::<TimestampMicrosecondType>(values, operator, Mark::micros(at)))
        }
        (DataType::Date32, _) => literal.instant().map(|at| marked::<Date32Type>(values, operator, Mark::days(at))),
        (DataType::Boolean, Literal::Boolean(b)) => {
            Some(BooleanArray::from_unary(values.as_boolean(), |v| holds(operator, v.cmp(b))))
        }
        (DataType::Utf8, Literal::Text(text)) => {
            let scalar = StringArray::new_scalar(text.as_str());
            Some(compared(values, operator, &scalar).map_err(|e| failed(&e))?)
        }
        _ => None,
    };
    known.ok_or_else(|| clash(&format!("{name} is {}, not a match for {literal}", named(values.data_type()))))
}

fn marked<T: ArrowPrimitiveType>(values: &ArrayRef, operator: Operator, mark: Mark) -> BooleanArray
where
    T::Native: Into<i128>,
{
    let values: &PrimitiveArray<T> = values.as_primitive();
    BooleanArray::from_unary(values, |v| holds(operator, mark.order(v.into())))
}

fn compared(left: &dyn Datum, operator: Operator, right: &dyn Datum) -> Result<BooleanArray, ArrowError> {
    match operator {
        Operator::Eq => cmp::eq(left, right),
        Operator::Neq => cmp::neq(left, right),
        Operator::Lt => cmp::lt(left, right),
        Operator::Lte => cmp::lt_eq(left, right),
        Operator::Gt => cmp::gt(left, right),
        Operator::Gte => cmp::gt_eq(left, right),
    }
}

/// Two columns; `None` if their types have no common order.
fn with_column(left: &ArrayRef, operator: Operator, right: &ArrayRef) -> Option<Result<BooleanArray, ArrowError>> {
    use DataType::{Boolean, Date32, Decimal128, Float64, Int32, Int64, Timestamp, Utf8};
    let both = |common: DataType| {
        cast(left, &common).and_then(|left| cast(right, &common).and_then(|right| compared(&left, operator, &right)))
    };
    let scale = |data_type: &DataType| if let Decimal128(_, scale) = data_type { *scale } else { 0 };
    let order = |order: Option<Ordering>| order.is_some_and(|order| holds(operator, order));
    Some(match (left.data_type(), right.data_type()) {
        (Int32 | Int64, Int32 | Int64) => both(Int64),
        // Wide enough for every digit of both sides.
        (a @ (Int32 | Int64 | Decimal128(..)), b @ (Int32 | Int64 | Decimal128(..))) => {
            both(DataType::Decimal256(76, scale(a).max(scale(b))))
        }
        (Float64 | Decimal128(..), Float64 | Decimal128(..)) => floats(left, right, |a, b| order(a.partial_cmp(&b))),
        (Int32 | Int64, Float64) => whole_and_float(left, right, order),
        (Float64, Int32 | Int64) => whole_and_float(right, left, |o| order(o.map(Ordering::reverse))),
        (Utf8, Utf8) | (Boolean, Boolean) | (Date32, Date32) | (Timestamp(..), Timestamp(..)) => {
            compared(left, operator, right)
        }
        (Date32, Timestamp(TimeUnit::Microsecond, _)) => Ok(days_and_micros(left, right, |o| order(Some(o)))),
        (Timestamp(TimeUnit::Microsecond, _), Date32) => Ok(days_and_micros(right, left, |o| order(Some(o.reverse())))),
        _ => return None,
    })
}

fn floats(left: &ArrayRef, right: &ArrayRef, test: impl Fn(f64, f64) -> bool) -> Result<BooleanArray, ArrowError> {
    let (left, right) = (cast(left, &DataType::Float64)?, cast(right, &DataType::Float64)?);
    Ok(BooleanArray::from_binary(left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>(), test))
}

fn whole_and_float(
    whole: &ArrayRef,
    float: &ArrayRef,
    test: impl Fn(Option<Ordering>) -> bool,
) -> Result<BooleanArray, ArrowError> {
    let whole = cast(whole, &DataType::Int64)?;
    Ok(BooleanArray::from_binary(whole.as_primitive::<Int64Type>(), float.as_primitive::<Float64Type>(), |a, b| {
        test(order_of(a, b))
    }))
}

/// A whole number and a float, exactly: a cast to float would lose digits beyond 2^53.
#[allow(clippy::cast_possible_truncation, reason = "a cast that saturates lies beyond every i64")]
fn order_of(whole: i64, float: f64) -> Option<Ordering> {
    let cut = float.trunc();
    let rest = (float - cut).partial_cmp(&0.0)?;
    Some(i128::from(whole).cmp(&(cut as i128)).then(rest.reverse()))
}

fn days_and_micros(days: &ArrayRef, micros: &ArrayRef, test: impl Fn(Ordering) -> bool) -> BooleanArray {
    let (days, micros) = (days.as_primitive::<Date32Type>(), micros.as_primitive::<TimestampMicrosecondType>());
    BooleanArray::from_binary(days, micros, |day, at| test((i64::from(day) * 86_400_000_000).cmp(&at)))
}
