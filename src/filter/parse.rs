//! SQL text becomes an [`Expr`]; everything that is not a predicate of columns and literals is refused.

use sqlparser::ast::{self as sql, BinaryOperator, DataType, Spanned as _, UnaryOperator, Value};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::Expr;
use super::literal::{Literal, Number, parse_instant};
use crate::config::Operator;
use crate::error::{Error, ErrorKind, Result};

/// One side of a comparison.
enum Operand {
    Column(String),
    Literal(Literal),
}

pub(super) fn expression(text: &str) -> Result<Expr> {
    let refuse = |why: String| Error::new(ErrorKind::Scan, format!("not a predicate: {why}")).with("where", text);
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(text).map_err(|e| refuse(e.to_string()))?;
    let parsed = parser.parse_expr().map_err(|e| refuse(e.to_string()))?;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        let at = next.span.start;
        return Err(refuse(format!("unexpected {} at line {}, column {}", next.token, at.line, at.column)));
    }
    predicate(&parsed).map_err(refuse)
}

/// Why a piece is refused, with its place.
fn refused(piece: &sql::Expr, why: &str) -> String {
    let at = piece.span().start;
    let place = if at.line == 0 { String::new() } else { format!(" at line {}, column {}", at.line, at.column) };
    format!("{why}: {piece}{place}")
}

fn predicate(expr: &sql::Expr) -> Result<Expr, String> {
    match expr {
        sql::Expr::Nested(inner) => predicate(inner),
        sql::Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
            let parts = chain(expr, op).into_iter().map(predicate).collect::<Result<_, _>>()?;
            Ok(if *op == BinaryOperator::And { Expr::And(parts) } else { Expr::Or(parts) })
        }
        sql::Expr::BinaryOp { left, op, right } => {
            let operator = operator(op).ok_or_else(|| refused(expr, "this operator is not supported"))?;
            comparison(expr, operand(left)?, operator, operand(right)?)
        }
        sql::Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(not(predicate(expr)?)),
        sql::Expr::IsNull(inner) => Ok(Expr::IsNull(column(inner)?)),
        sql::Expr::IsNotNull(inner) => Ok(not(Expr::IsNull(column(inner)?))),
        sql::Expr::In { expr: tested, target: sql::InTarget::List(list), negated, global: false } => {
            let any = list
                .iter()
                .map(|item| comparison(expr, operand(tested)?, Operator::Eq, operand(item)?))
                .collect::<Result<_, _>>()?;
            Ok(negate_if(*negated, Expr::Or(any)))
        }
        sql::Expr::Between { expr: tested, negated, low, high } => {
            let from = comparison(expr, operand(tested)?, Operator::Gte, operand(low)?)?;
            let to = comparison(expr, operand(tested)?, Operator::Lte, operand(high)?)?;
            Ok(negate_if(*negated, Expr::And(vec![from, to])))
        }
        sql::Expr::Like { negated, any: false, expr: tested, pattern, escape_char: None } => {
            Ok(negate_if(*negated, like(tested, pattern, false)?))
        }
        sql::Expr::ILike { negated, any: false, expr: tested, pattern, escape_char: None } => {
            Ok(negate_if(*negated, like(tested, pattern, true)?))
        }
        // A boolean column is a predicate by itself.
        sql::Expr::Identifier(name) => {
            let literal = Literal::Boolean(true);
            Ok(Expr::Literal { column: name.value.clone(), operator: Operator::Eq, literal })
        }
        other => Err(refused(other, "this is not supported")),
    }
}

/// The parts of `a AND b AND c`, however long: the tree leans to the left.
fn chain<'a>(expr: &'a sql::Expr, joined_by: &BinaryOperator) -> Vec<&'a sql::Expr> {
    let mut parts = Vec::new();
    let mut rest = expr;
    while let sql::Expr::BinaryOp { left, op, right } = rest
        && op == joined_by
    {
        parts.push(&**right);
        rest = left;
    }
    parts.push(rest);
    parts.reverse();
    parts
}

fn not(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}

fn negate_if(negated: bool, expr: Expr) -> Expr {
    if negated { not(expr) } else { expr }
}

fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::Neq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::Lte,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::Gte,
        _ => return None,
    })
}

/// The operator that says the same with the sides exchanged.
fn flipped(operator: Operator) -> Operator {
    match operator {
        Operator::Lt => Operator::Gt,
        Operator::Lte => Operator::Gte,
        Operator::Gt => Operator::Lt,
        Operator::Gte => Operator::Lte,
        same => same,
    }
}

fn comparison(whole: &sql::Expr, left: Operand, operator: Operator, right: Operand) -> Result<Expr, String> {
    match (left, right) {
        (Operand::Column(column), Operand::Literal(literal)) => Ok(Expr::Literal { column, operator, literal }),
        (Operand::Literal(literal), Operand::Column(column)) => {
            Ok(Expr::Literal { column, operator: flipped(operator), literal })
        }
        (Operand::Column(left), Operand::Column(right)) => Ok(Expr::Columns { left, operator, right }),
        (Operand::Literal(_), Operand::Literal(_)) => Err(refused(whole, "no column is compared here")),
    }
}

fn like(tested: &sql::Expr, pattern: &sql::Expr, ignore_case: bool) -> Result<Expr, String> {
    match operand(pattern)? {
        Operand::Literal(Literal::Text(text)) => Ok(Expr::Like { column: column(tested)?, pattern: text, ignore_case }),
        _ => Err(refused(pattern, "the pattern of LIKE must be a text")),
    }
}

fn column(expr: &sql::Expr) -> Result<String, String> {
    match operand(expr)? {
        Operand::Column(name) => Ok(name),
        Operand::Literal(_) => Err(refused(expr, "a column is needed here")),
    }
}

fn operand(expr: &sql::Expr) -> Result<Operand, String> {
    match expr {
        sql::Expr::Nested(inner) => operand(inner),
        sql::Expr::Identifier(name) => Ok(Operand::Column(name.value.clone())),
        sql::Expr::CompoundIdentifier(_) => {
            Err(refused(expr, "a column name with a point must be quoted, as in \"a.b\""))
        }
        sql::Expr::Value(value) => literal(&value.value).ok_or_else(|| refused(expr, "not a literal that is known")),
        sql::Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: inner } => {
            let sign = if *op == UnaryOperator::Minus { "-" } else { "" };
            number(&format!("{sign}{inner}")).ok_or_else(|| refused(expr, "only a number can have a sign"))
        }
        sql::Expr::TypedString(typed) => {
            let known = matches!(typed.data_type, DataType::Date | DataType::Timestamp(None, _));
            let text = match &typed.value.value {
                Value::SingleQuotedString(text) if known => text,
                _ => return Err(refused(expr, "only DATE '...' and TIMESTAMP '...' are known")),
            };
            let at = parse_instant(text).ok_or_else(|| refused(expr, "not an instant or a day"))?;
            Ok(Operand::Literal(Literal::Instant(at)))
        }
        other => Err(refused(other, "only a column or a literal can be compared")),
    }
}

fn number(text: &str) -> Option<Operand> {
    Number::parse(text).map(|n| Operand::Literal(Literal::Number(n)))
}

fn literal(value: &Value) -> Option<Operand> {
    match value {
        Value::Number(text, false) => number(text),
        Value::SingleQuotedString(text) => Some(Operand::Literal(Literal::Text(text.clone()))),
        Value::Boolean(value) => Some(Operand::Literal(Literal::Boolean(*value))),
        Value::Null => Some(Operand::Literal(Literal::Null)),
        _ => None,
    }
}
