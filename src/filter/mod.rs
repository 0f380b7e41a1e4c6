//! `--where`: a SQL predicate over the rows of a batch, with SQL's three-valued logic.

mod literal;
mod mask;
mod parse;
#[cfg(test)]
mod tests;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::Schema;

use crate::config::Operator;
use crate::error::Result;
use literal::Literal;

/// A predicate: comparisons, `AND`, `OR`, `NOT`, `IN`, `BETWEEN`, `LIKE` and `IS NULL` over columns and literals.
///
/// Names are matched as written, quoted or not. Whole numbers, decimals, dates and timestamps are compared exactly,
/// whatever the type of the column; only a `float64` column compares as a float does.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    text: String,
    expr: Expr,
}

/// What a predicate is made of; `IN` and `BETWEEN` are comparisons here.
#[derive(Debug, Clone, PartialEq)]
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
