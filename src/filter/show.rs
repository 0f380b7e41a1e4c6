//! A predicate as SQL that reads back as the same predicate.

use std::fmt;

use super::{Expr, Predicate};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::And(parts) => joined(f, parts, " AND "),
            Self::Or(parts) => joined(f, parts, " OR "),
            Self::Not(inner) => write!(f, "NOT ({inner})"),
            Self::IsNull(column) => write!(f, "{} IS NULL", Name(column)),
            Self::Literal { column, operator, literal } => write!(f, "{} {} {literal}", Name(column), operator.sign()),
            Self::Columns { left, operator, right } => {
                write!(f, "{} {} {}", Name(left), operator.sign(), Name(right))
            }
            Self::Like { column, pattern, ignore_case } => {
                let word = if *ignore_case { "ILIKE" } else { "LIKE" };
                write!(f, "{} {word} {}", Name(column), Quoted(pattern, '\''))
            }
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Expr], by: &str) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(by)?;
        }
        match part {
            Expr::And(_) | Expr::Or(_) => write!(f, "({part})")?,
            single => write!(f, "{single}")?,
        }
    }
    Ok(())
}

/// A text between quotes, its own doubled.
pub(super) struct Quoted<'a>(pub(super) &'a str, pub(super) char);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text, quote) = self;
        write!(f, "{quote}{}{quote}", text.replace(*quote, &format!("{quote}{quote}")))
    }
}

/// A column name, quoted where SQL would read it as something else.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_word = self.0.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && Predicate::parse(&format!("{} = 1", self.0))
                .is_ok_and(|read| read.comparison().is_some_and(|(name, ..)| name == self.0));
        if is_word { f.write_str(self.0) } else { Quoted(self.0, '"').fmt(f) }
    }
}
