//! What of a predicate the API answers, and what is left to the engine (R10, R13). Pure.

use serde::{Deserialize, Serialize};

use crate::config::{ColumnType, Filter, Operator, Partitioning, TableConfig};
use crate::filter::{Literal, Predicate};
use crate::position::TimestampFormat;

/// What of a query is sent to the API.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pushdown {
    /// What is sent, in the order of the query.
    pub sent: Vec<Sent>,
    /// What is not sent, each with the reason.
    pub left: Vec<(Predicate, String)>,
    /// The values of an enum partition that the query asks for; `None` is all of them.
    pub values: Option<Vec<String>>,
    /// What the engine has to apply to every row: all but what the API answers exactly.
    pub residual: Option<Predicate>,
}

/// A comparison that a query parameter answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// What was asked.
    pub predicate: Predicate,
    /// The query parameter.
    pub param: String,
    /// Its value, as the API writes it; several where an enum partition is asked for some of its values.
    pub values: Vec<String>,
    /// Whether the partitions send it: it picks them.
    pub by_partition: bool,
    /// Whether the API's answer needs no re-check.
    pub exact: bool,
}

impl Pushdown {
    /// Splits a predicate over a table.
    ///
    /// Comparisons of a column with a literal are offered to the filters in the order of the query; the first one that
    /// claims a parameter sends it. A table with an enabled checkpoint sends none (R10).
    pub fn of(predicate: Option<&Predicate>, table: &TableConfig) -> Self {
        let mut split = Self::default();
        let mut residual = Vec::new();
        for part in predicate.map(Predicate::conjuncts).unwrap_or_default() {
            match split.claim(&part, table) {
                Ok(sent) => {
                    if sent.by_partition {
                        split.values = Some(sent.values.clone());
                    }
                    if !sent.exact {
                        residual.push(part);
                    }
                    split.sent.push(sent);
                }
                Err(why) => {
                    residual.push(part.clone());
                    split.left.push((part, why));
                }
            }
        }
        split.residual = Predicate::all(residual);
        split
    }

    /// The query parameters that filters send.
    pub fn params(&self) -> Vec<(String, String)> {
        let own = self.sent.iter().filter(|sent| !sent.by_partition);
        own.flat_map(|sent| sent.values.iter().map(|value| (sent.param.clone(), value.clone()))).collect()
    }

    fn claim(&self, part: &Predicate, table: &TableConfig) -> Result<Sent, String> {
        if table.checkpoint.is_some() {
            return Err("the table has a checkpoint, whose position would move past rows that the API hides".into());
        }
        let picks = |filter: &&Filter| match &table.partition {
            Some(Partitioning::Enum { param, .. }) => filter.param == *param,
            _ => false,
        };
        let of_column =
            |column: &str| table.filters.iter().filter(move |filter| filter.column == column).collect::<Vec<_>>();
        let (column, operator, literals) = match (part.comparison(), part.one_of()) {
            (Some((column, operator, literal)), _) => (column, operator, vec![literal]),
            // Several values of one parameter are sent only by the partitions they name.
            (None, Some((column, literals))) if of_column(column).iter().any(picks) => (column, Operator::Eq, literals),
            _ => return Err("only comparisons of a column with one value are sent".into()),
        };
        let candidates = of_column(column);
        if candidates.is_empty() {
            return Err(format!("no filter of the table is on {column}"));
        }
        let mut why = String::new();
        for filter in candidates {
            let by_partition = picks(&filter);
            if !filter.operators.contains(&operator) {
                why = format!("no filter on {column} answers {}", operator.sign());
            } else if filter.is_taken {
                why = format!("the parameter {} is sent by something else", filter.param);
            } else if let Some(first) = self.sent.iter().find(|sent| sent.param == filter.param) {
                why = format!("the parameter {} is sent for {}", filter.param, first.predicate);
            } else if by_partition && operator != Operator::Eq {
                why = format!("the partitions send the parameter {}", filter.param);
            } else if let Some(values) = literals.iter().map(|literal| rendered(literal, column, table)).collect() {
                let (predicate, param) = (part.clone(), filter.param.clone());
                return Ok(Sent { predicate, param, values, by_partition, exact: filter.exact });
            } else {
                why = format!("the value cannot be written exactly as the API writes {column}");
            }
        }
        Err(why)
    }
}

/// A literal as the API writes values of the column; `None` where that would not be the same value.
fn rendered(literal: &Literal, column: &str, table: &TableConfig) -> Option<String> {
    let Some(column) = table.columns.iter().find(|known| known.name == column) else {
        // The type of an inferred column is not known before it is read.
        return match literal {
            Literal::Text(text) => Some(text.clone()),
            Literal::Number(number) => Some(number.to_string()),
            Literal::Boolean(value) => Some(value.to_string()),
            Literal::Null | Literal::Instant(_) => None,
        };
    };
    let instant = |format: &TimestampFormat| {
        let at = literal.instant()?;
        let text = format.render(at);
        (format.parse(&text) == Some(at)).then_some(text)
    };
    match (column.data_type, literal) {
        (ColumnType::Int32 | ColumnType::Int64, Literal::Number(number)) => number.whole(),
        (ColumnType::Float64 | ColumnType::Decimal(..), Literal::Number(number)) => Some(number.to_string()),
        (ColumnType::Boolean, Literal::Boolean(value)) => Some(value.to_string()),
        (ColumnType::String, Literal::Text(text)) => Some(text.clone()),
        (ColumnType::Timestamp, _) => instant(column.format.as_ref().unwrap_or(&TimestampFormat::Rfc3339)),
        (ColumnType::Date, _) => instant(column.format.as_ref().unwrap_or(&TimestampFormat::Date)),
        _ => None,
    }
}
