//! A SQL predicate over the rows of a batch, with SQL's three-valued logic: `--where`, and what a plan leaves to do.

mod literal;
mod mask;
mod parse;
mod show;
#[cfg(test)]
mod tests;

use std::fmt;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::Schema;
use serde::{Deserialize, Serialize};

use crate::config::Operator;
use crate::error::{Error, Result};
pub use literal::{Literal, Number};

/// A predicate: comparisons, `AND`, `OR`, `NOT`, `IN`, `BETWEEN`, `LIKE` and `IS NULL` over columns and literals.
///
/// Names are matched as written, quoted or not. Whole numbers, decimals, dates and timestamps are compared exactly,
/// whatever the type of the column; only a `float64` column compares as a float does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Predicate {
    text: String,
    expr: Expr,
}

/// What a predicate is made of; `IN` and `BETWEEN` are comparisons here.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expr {
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(String),
    Literal { column: String, operator: Operator, literal: Literal },
    Columns { left: String, operator: Operator, right: String },
    Like { column: String, pattern: String, ignore_case: bool },
}

impl Predicate {
    /// Reads a SQL predicate. What it cannot be is named with its place in the text.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_owned(), expr: parse::expression(text)? })
    }

    /// `column operator literal`.
    pub fn compare(column: impl Into<String>, operator: Operator, literal: Literal) -> Self {
        Self::of(Expr::Literal { column: column.into(), operator, literal })
    }

    /// What is not parsed is written out, so that it can travel.
    fn of(expr: Expr) -> Self {
        Self { text: expr.to_string(), expr }
    }

    /// The predicates that must all be true, in the order they are written.
    pub fn conjuncts(&self) -> Vec<Self> {
        fn split(expr: &Expr, into: &mut Vec<Predicate>) {
            match expr {
                Expr::And(parts) => parts.iter().for_each(|part| split(part, into)),
                single => into.push(Predicate::of(single.clone())),
            }
        }
        let mut parts = Vec::new();
        split(&self.expr, &mut parts);
        parts
    }

    /// One predicate that is true where all of them are; `None` of none.
    pub fn all(parts: Vec<Self>) -> Option<Self> {
        let mut parts: Vec<Expr> = parts.into_iter().map(|part| part.expr).collect();
        let last = parts.pop()?;
        if parts.is_empty() {
            return Some(Self::of(last));
        }
        parts.push(last);
        Some(Self::of(Expr::And(parts)))
    }

    /// One predicate that is true where any of them is; `None` of none.
    pub fn any(parts: Vec<Self>) -> Option<Self> {
        let mut parts: Vec<Expr> = parts.into_iter().map(|part| part.expr).collect();
        let last = parts.pop()?;
        if parts.is_empty() {
            return Some(Self::of(last));
        }
        parts.push(last);
        Some(Self::of(Expr::Or(parts)))
    }

    /// The column, operator and literal of a single comparison.
    pub fn comparison(&self) -> Option<(&str, Operator, &Literal)> {
        match &self.expr {
            Expr::Literal { column, operator, literal } => Some((column, *operator, literal)),
            _ => None,
        }
    }

    /// The one column that must equal one of some literals: `=` and `IN`.
    pub fn one_of(&self) -> Option<(&str, Vec<&Literal>)> {
        let single = |expr| match expr {
            &Expr::Literal { ref column, operator: Operator::Eq, ref literal } => Some((column.as_str(), literal)),
            _ => None,
        };
        let Expr::Or(parts) = &self.expr else {
            return single(&self.expr).map(|(column, literal)| (column, vec![literal]));
        };
        let parts = parts.iter().map(single).collect::<Option<Vec<_>>>()?;
        let (column, _) = *parts.first()?;
        let of_one = parts.iter().all(|(other, _)| *other == column);
        of_one.then(|| (column, parts.into_iter().map(|(_, literal)| literal).collect()))
    }

    /// The columns it looks at, each once, in the order they are first named.
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.expr.visit(&mut |name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
        names
    }

    /// Whether it can be asked of rows of this schema: the columns exist and the literals fit their types.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        self.mask(&RecordBatch::new_empty(schema.clone().into())).map(|_| ())
    }

    /// For each row: true, false, or NULL where SQL does not know. Only the true rows pass.
    pub fn mask(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        mask::mask(&self.expr, batch).map_err(|error| error.with("where", &self.text))
    }
}

impl Expr {
    fn visit<'a>(&'a self, each: &mut impl FnMut(&'a str)) {
        match self {
            Self::And(parts) | Self::Or(parts) => {
                for part in parts {
                    part.visit(each);
                }
            }
            Self::Not(inner) => inner.visit(each),
            Self::IsNull(column) | Self::Literal { column, .. } | Self::Like { column, .. } => each(column),
            Self::Columns { left, right, .. } => {
                each(left);
                each(right);
            }
        }
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Predicate> for String {
    fn from(predicate: Predicate) -> Self {
        predicate.text
    }
}

impl TryFrom<String> for Predicate {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}
