//! What of a predicate the API answers, and what is left to the engine (R10, R13). Pure.

use serde::{Deserialize, Serialize};

use super::partition::sent_by_windows;
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
        let windows = sent_by_windows(table, predicate);
        for part in predicate.map(Predicate::conjuncts).unwrap_or_default() {
            match split.claim(&part, table, &windows) {
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

    fn claim(&self, part: &Predicate, table: &TableConfig, windows: &[&str]) -> Result<Sent, String> {
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
                if why.is_empty() {
                    why = format!("no filter on {column} answers {}", operator.sign());
                }
            } else if filter.is_taken {
                why = format!("the parameter {} is sent by something else", filter.param);
            } else if windows.contains(&filter.param.as_str()) {
                why = format!("the windows send the parameter {}", filter.param);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::load;

    const CONFIG: &str = r#"
        base-url = "http://api.test"
        tables { items {
          endpoint = items
          columns {
            n { type = int64 }, f { type = float64 }, state { type = string }, on { type = boolean }
            ts { type = timestamp, format = "%Y-%m-%dT%H:%M:%SZ" }, day { type = date }
          }
          params { fixed = 1 }
          filters = [
            { param = min, column = n, operators = [gte, eq] }, { param = max, column = n, operators = [lt, lte], exact = true }
            { param = st, column = state, operators = [eq, neq] }, { param = on, column = on, operators = [eq] }
            { param = since, column = ts, operators = [gte] }, { param = day, column = day, operators = [eq] }
            { param = fixed, column = f, operators = [eq] }
          ]
        LINES } }
    "#;

    fn pushed(lines: &str, predicate: &str) -> Pushdown {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.conf"), CONFIG.replace("LINES", lines)).unwrap();
        let config = load(&dir.path().join("a.conf")).unwrap();
        Pushdown::of(Some(&Predicate::parse(predicate).unwrap()), &config.tables[0])
    }

    fn query(pushed: &Pushdown) -> String {
        pushed.params().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    fn residual(pushed: &Pushdown) -> String {
        pushed.residual.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn r13_what_is_claimed_is_sent_as_the_api_writes_it() {
        for (predicate, sent) in [
            ("n >= 3", "min=3"),
            ("3 <= n", "min=3"),
            ("n >= 3.0", "min=3"),
            ("n >= -1e2", "min=-100"),
            ("state = 'a&b'", "st=a&b"),
            ("state <> 'x'", "st=x"),
            ("on", "on=true"),
            ("ts >= '2026-01-02'", "since=2026-01-02T00:00:00Z"),
            ("ts >= '2026-01-02T03:00:00+02:00'", "since=2026-01-02T01:00:00Z"),
            ("day = DATE '2026-01-02'", "day=2026-01-02"),
            ("n >= 3 AND (state = 'a' AND ts >= '2026-01-02')", "min=3&st=a&since=2026-01-02T00:00:00Z"),
        ] {
            let pushed = pushed("", predicate);
            assert_eq!(query(&pushed), sent, "{predicate}");
            assert_eq!(pushed.left, [], "{predicate}");
        }
    }

    #[test]
    fn r13_what_nobody_claims_stays_with_its_reason() {
        for (predicate, why) in [
            ("n > 3", "no filter on n answers >"),
            ("n >= 3.5", "cannot be written exactly"),
            ("ts >= '2026-01-02T00:00:00.5Z'", "cannot be written exactly"),
            ("state = NULL", "cannot be written exactly"),
            ("f = 1", "sent by something else"),
            ("state LIKE 'a%'", "one value"),
            ("n >= 3 OR state = 'a'", "one value"),
            ("NOT (n >= 3)", "one value"),
            ("state IN ('a', 'b')", "one value"),
            ("n = f", "one value"),
        ] {
            let pushed = pushed("", predicate);
            assert_eq!((query(&pushed).as_str(), pushed.left.len()), ("", 1), "{predicate}");
            assert!(pushed.left[0].1.contains(why), "{predicate}: {:?}", pushed.left);
            assert_eq!(pushed.residual, Some(Predicate::parse(predicate).unwrap().conjuncts().remove(0)));
        }
    }

    #[test]
    fn r13_the_first_claimant_of_a_parameter_wins_and_only_exact_answers_are_not_checked_again() {
        let both = pushed("", "n >= 3 AND n >= 5 AND n < 9 AND n <= 7");
        assert_eq!(query(&both), "min=3&max=9");
        assert_eq!(residual(&both), "n >= 3 AND n >= 5 AND n <= 7");
        assert!(both.left.iter().all(|(_, why)| why.contains("is sent for n")), "{:?}", both.left);
        assert_eq!(pushed("", "n < 9").residual, None);
    }

    #[test]
    fn r10_a_checkpointed_table_is_asked_for_everything() {
        let checkpoint = "pagination { style = cursor, cursor-path = \"/c\" }, checkpoint { enabled = true, path = c }";
        let pushed = pushed(checkpoint, "n >= 3 AND n < 9");
        assert_eq!((query(&pushed).as_str(), residual(&pushed).as_str()), ("", "n >= 3 AND n < 9"));
        assert!(pushed.left.iter().all(|(_, why)| why.contains("checkpoint")));
    }

    #[test]
    fn r12_a_filter_on_the_parameter_of_an_enum_partition_picks_the_partitions() {
        let partition = "partition { type = enum, param = st, values = [a, b, c] }";
        for (predicate, values) in [
            ("state = 'b'", Some(vec!["b"])),
            ("state IN ('a', 'c') AND n > 1", Some(vec!["a", "c"])),
            ("state = 'b' AND state = 'c'", Some(vec!["b"])),
            ("state <> 'b'", None),
            ("state LIKE 'b'", None),
        ] {
            let pushed = pushed(partition, predicate);
            let values = values.map(|values| values.into_iter().map(str::to_owned).collect());
            assert_eq!((query(&pushed).as_str(), pushed.values), ("", values), "{predicate}");
        }
    }

    #[test]
    fn r30_a_filter_on_a_parameter_of_the_windows_is_not_sent_besides_them() {
        let partition = r#"partition { type = date-range, column = ts, range = 1 day, start-param = since, end-param = until
                           format = "%Y-%m-%dT%H:%M:%SZ" }"#;
        let cut = pushed(partition, "ts >= '2026-01-02' AND ts < '2026-01-04' AND n >= 3");
        assert_eq!((query(&cut).as_str(), cut.left[0].1.as_str()), ("min=3", "the windows send the parameter since"));
        assert_eq!(residual(&cut), "ts >= '2026-01-02' AND ts < '2026-01-04' AND n >= 3");
        // Without windows nobody else sends it.
        assert_eq!(query(&pushed(partition, "ts >= '2026-01-02'")), "since=2026-01-02T00:00:00Z");
    }
}
