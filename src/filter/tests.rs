//! The predicate against a slow evaluator that looks at one row at a time.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::*;
use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

/// A cell of the test rows; numbers in millionths.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Null,
    Number(i128),
    Text(String),
    Bool(bool),
    Micros(i64),
}

#[derive(Debug, Clone)]
struct Row {
    i: Option<i32>,
    n: Option<i64>,
    d: Option<i128>,
    f: Option<i32>,
    s: Option<String>,
    b: Option<bool>,
    day: Option<i32>,
    at: Option<i64>,
}

const MILLION: i128 = 1_000_000;
const DAY: i64 = 86_400_000_000;
const NUMBERS: [&str; 4] = ["i", "n", "d", "f"];

impl Row {
    fn cell(&self, name: &str) -> Cell {
        match name {
            "i" => self.i.map(|v| Cell::Number(i128::from(v) * MILLION)),
            "n" => self.n.map(|v| Cell::Number(i128::from(v) * MILLION)),
            "d" => self.d.map(|v| Cell::Number(v * MILLION / 100)),
            "f" => self.f.map(|v| Cell::Number(i128::from(v) * MILLION / 4)),
            "s" => self.s.clone().map(Cell::Text),
            "b" => self.b.map(Cell::Bool),
            "day" => self.day.map(|v| Cell::Micros(i64::from(v) * DAY)),
            _ => self.at.map(Cell::Micros),
        }
        .unwrap_or(Cell::Null)
    }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let column = |name: &str, array: ArrayRef| (name.to_owned(), array, true);
    let d: Decimal128Array = rows.iter().map(|r| r.d).collect();
    let at: TimestampMicrosecondArray = rows.iter().map(|r| r.at).collect();
    RecordBatch::try_from_iter_with_nullable([
        column("i", Arc::new(rows.iter().map(|r| r.i).collect::<Int32Array>())),
        column("n", Arc::new(rows.iter().map(|r| r.n).collect::<Int64Array>())),
        column("d", Arc::new(d.with_precision_and_scale(20, 2).unwrap())),
        column("f", Arc::new(rows.iter().map(|r| r.f.map(|v| f64::from(v) / 4.0)).collect::<Float64Array>())),
        column("s", Arc::new(rows.iter().map(|r| r.s.clone()).collect::<StringArray>())),
        column("b", Arc::new(rows.iter().map(|r| r.b).collect::<BooleanArray>())),
        column("day", Arc::new(rows.iter().map(|r| r.day).collect::<Date32Array>())),
        column("at", Arc::new(at.with_timezone("UTC"))),
    ])
    .unwrap()
}

/// A predicate as a tree, written as SQL and evaluated one row at a time.
#[derive(Debug, Clone)]
enum Tree {
    Compare(Term, &'static str, Term),
    In(String, Vec<Term>, bool),
    Between(String, Term, Term, bool),
    Null(String, bool),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
}

#[derive(Debug, Clone)]
enum Term {
    Column(String),
    Literal(String, Cell),
}

impl Term {
    fn sql(&self) -> String {
        match self {
            Self::Column(name) => format!("\"{name}\""),
            Self::Literal(text, _) => text.clone(),
        }
    }

    fn cell(&self, row: &Row) -> Cell {
        match self {
            Self::Column(name) => row.cell(name),
            Self::Literal(_, cell) => cell.clone(),
        }
    }
}

fn order(a: &Cell, b: &Cell) -> Option<Ordering> {
    match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => Some(a.cmp(b)),
        (Cell::Text(a), Cell::Text(b)) => Some(a.cmp(b)),
        (Cell::Bool(a), Cell::Bool(b)) => Some(a.cmp(b)),
        (Cell::Micros(a), Cell::Micros(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn compare(a: &Cell, op: &str, b: &Cell) -> Option<bool> {
    let order = order(a, b)?;
    Some(match op {
        "=" => order.is_eq(),
        "<>" | "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    and(a.map(|a| !a), b.map(|b| !b)).map(|v| !v)
}

impl Tree {
    fn sql(&self) -> String {
        let no = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Self::Compare(a, op, b) => format!("{} {op} {}", a.sql(), b.sql()),
            Self::In(name, list, negated) => {
                let list: Vec<_> = list.iter().map(Term::sql).collect();
                format!("{name} {}IN ({})", no(negated), list.join(", "))
            }
            Self::Between(name, a, b, negated) => format!("{name} {}BETWEEN {} AND {}", no(negated), a.sql(), b.sql()),
            Self::Null(name, negated) => format!("{name} IS {}NULL", no(negated)),
            Self::And(a, b) => format!("({}) AND ({})", a.sql(), b.sql()),
            Self::Or(a, b) => format!("({}) or ({})", a.sql(), b.sql()),
            Self::Not(a) => format!("NOT ({})", a.sql()),
        }
    }

    fn eval(&self, row: &Row) -> Option<bool> {
        let flip = |value: Option<bool>, negated: bool| value.map(|v| v != negated);
        match self {
            Self::Compare(a, op, b) => compare(&a.cell(row), op, &b.cell(row)),
            Self::In(name, list, negated) => {
                let cell = row.cell(name);
                let mut any = Some(false);
                for item in list {
                    any = or(any, compare(&cell, "=", &item.cell(row)));
                }
                flip(any, *negated)
            }
            Self::Between(name, low, high, negated) => {
                let cell = row.cell(name);
                let inside = and(compare(&cell, ">=", &low.cell(row)), compare(&cell, "<=", &high.cell(row)));
                flip(inside, *negated)
            }
            Self::Null(name, negated) => Some((row.cell(name) == Cell::Null) != *negated),
            Self::And(a, b) => and(a.eval(row), b.eval(row)),
            Self::Or(a, b) => or(a.eval(row), b.eval(row)),
            Self::Not(a) => a.eval(row).map(|v| !v),
        }
    }
}

fn some<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    prop_oneof![1 => Just(None), 4 => strategy.prop_map(Some)]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let whole = prop_oneof![-3i64..4, Just(i64::MAX), Just(i64::MIN), Just((1 << 53) + 1)];
    let row = (
        some(prop_oneof![-3i32..4, Just(i32::MAX), Just(i32::MIN)]),
        some(whole),
        some(prop_oneof![-300i128..300, Just(99_999_999_999_999_999_999)]),
        some(-12i32..12),
        some("[ab]{0,2}"),
        some(any::<bool>()),
        some(-2i32..3),
        some(prop_oneof![-3i64..3, -DAY..DAY]),
    )
        .prop_map(|(i, n, d, f, s, b, day, at)| Row { i, n, d, f, s, b, day, at });
    prop::collection::vec(row, 0..12)
}

/// Columns and literals that may be compared with each other.
fn terms(kind: usize) -> BoxedStrategy<Term> {
    let columns = |names: &'static [&'static str]| {
        prop::sample::select(names).prop_map(|name| Term::Column(name.to_owned())).boxed()
    };
    let null = Just(Term::Literal("NULL".to_owned(), Cell::Null)).boxed();
    let (columns, literals) = match kind {
        0 => (
            columns(&NUMBERS),
            prop_oneof![
                (-3_000_000i128..3_000_000).prop_map(|v| {
                    let sign = if v < 0 { "-" } else { "" };
                    let text = format!("{sign}{}.{:06}", v.abs() / MILLION, v.abs() % MILLION);
                    Term::Literal(text, Cell::Number(v))
                }),
                (-3i64..4).prop_map(|v| Term::Literal(v.to_string(), Cell::Number(i128::from(v) * MILLION))),
                prop::sample::select(vec![i64::MAX, i64::MIN, (1 << 53) + 1, 1 << 53])
                    .prop_map(|v| Term::Literal(v.to_string(), Cell::Number(i128::from(v) * MILLION))),
            ]
            .boxed(),
        ),
        1 => {
            (columns(&["s"]), "[ab]{0,2}".prop_map(|text| Term::Literal(format!("'{text}'"), Cell::Text(text))).boxed())
        }
        2 => (columns(&["b"]), any::<bool>().prop_map(|v| Term::Literal(v.to_string(), Cell::Bool(v))).boxed()),
        _ => (
            columns(&["day", "at"]),
            prop_oneof![-3i64..3, -DAY..DAY, (-2i64..3).prop_map(|d| d * DAY)]
                .prop_map(|micros| {
                    let at = chrono::DateTime::from_timestamp_micros(micros).unwrap();
                    Term::Literal(format!("TIMESTAMP '{}'", at.to_rfc3339()), Cell::Micros(micros))
                })
                .boxed(),
        ),
    };
    prop_oneof![4 => columns, 4 => literals, 1 => null].boxed()
}

fn leaf() -> impl Strategy<Value = Tree> {
    let ops = || prop::sample::select(vec!["=", "<>", "!=", "<", "<=", ">", ">="]);
    (0usize..4).prop_flat_map(move |kind| {
        let names: &[&str] = match kind {
            0 => &NUMBERS,
            1 => &["s"],
            2 => &["b"],
            _ => &["day", "at"],
        };
        let name = || prop::sample::select(names).prop_map(str::to_owned);
        let column = || name().prop_map(Term::Column);
        prop_oneof![
            (column(), ops(), terms(kind)).prop_map(|(a, op, b)| Tree::Compare(a, op, b)),
            (terms(kind), ops(), column()).prop_map(|(a, op, b)| Tree::Compare(a, op, b)),
            (name(), prop::collection::vec(terms(kind), 1..4), any::<bool>())
                .prop_map(|(name, list, negated)| Tree::In(name, list, negated)),
            (name(), terms(kind), terms(kind), any::<bool>())
                .prop_map(|(name, a, b, negated)| Tree::Between(name, a, b, negated)),
            (name(), any::<bool>()).prop_map(|(name, negated)| Tree::Null(name, negated)),
        ]
    })
}

fn trees() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
            inner.prop_map(|a| Tree::Not(Box::new(a))),
        ]
    })
}

/// Beyond 2^53 a float column compares with the nearest double of a literal: left out of the exact comparison.
fn mixes_floats_with_great_numbers(sql: &str) -> bool {
    sql.contains('f') && (sql.contains("922337") || sql.contains("900719"))
}

proptest! {
    #[test]
    fn a_mask_says_what_a_look_at_each_row_says(rows in rows(), tree in trees()) {
        let sql = tree.sql();
        prop_assume!(!mixes_floats_with_great_numbers(&sql));
        let predicate = Predicate::parse(&sql).unwrap();
        let batch = batch(&rows);
        predicate.check(&batch.schema()).unwrap();
        let mask = predicate.mask(&batch).unwrap();
        for (index, row) in rows.iter().enumerate() {
            let got = mask.is_valid(index).then(|| mask.value(index));
            prop_assert_eq!(got, tree.eval(row), "{} at {:?}", sql, row);
        }
    }
}

fn passing(sql: &str, batch: &RecordBatch) -> Vec<bool> {
    let mask = Predicate::parse(sql).unwrap().mask(batch).unwrap();
    mask.iter().map(|v| v == Some(true)).collect()
}

#[test]
fn texts_are_matched_by_like() {
    let batch = RecordBatch::try_from_iter([(
        "Name.x",
        Arc::new(StringArray::from(vec![Some("Ann"), Some("ben"), None])) as ArrayRef,
    )])
    .unwrap();
    assert_eq!(passing("\"Name.x\" LIKE 'A%'", &batch), [true, false, false]);
    assert_eq!(passing("\"Name.x\" NOT LIKE 'A%'", &batch), [false, true, false]);
    assert_eq!(passing("`Name.x` ILIKE 'B_N'", &batch), [false, true, false]);
}

#[test]
fn whole_numbers_and_floats_are_compared_exactly() {
    let n = Arc::new(Int64Array::from(vec![(1 << 53) + 1, i64::MAX, 3, -3])) as ArrayRef;
    let f = Arc::new(Float64Array::from(vec![9_007_199_254_740_992.0, 9.3e18, 2.5, -0.0])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("n", n), ("f", f)]).unwrap();
    assert_eq!(passing("n > f", &batch), [true, false, true, false]);
    assert_eq!(passing("f < n", &batch), [true, false, true, false]);
    assert_eq!(passing("f = 0", &batch), [false, false, false, true]);
    assert_eq!(passing("n IN (9007199254740993)", &batch), [true, false, false, false]);
}

#[test]
fn days_and_texts_name_instants() {
    let at = TimestampMicrosecondArray::from(vec![0, 86_400_000_000]).with_timezone("UTC");
    let batch = RecordBatch::try_from_iter([("at", Arc::new(at) as ArrayRef)]).unwrap();
    assert_eq!(passing("at >= DATE '1970-01-02'", &batch), [false, true]);
    assert_eq!(passing("at = '1970-01-02T02:00:00+02:00'", &batch), [false, true]);
    assert_eq!(passing("at > TIMESTAMP '1970-01-01 00:00:00'", &batch), [false, true]);
}

#[test]
fn the_columns_are_named_once_each() {
    let predicate = Predicate::parse("b AND (a = 1 OR b) AND c IS NULL AND a < d").unwrap();
    assert_eq!(predicate.columns(), ["b", "a", "c", "d"]);
}

#[test]
fn a_long_chain_needs_no_deep_stack() {
    let text = vec!["a = 1"; 3_000].join(" AND ");
    assert_eq!(Predicate::parse(&text).unwrap().columns(), ["a"]);
}

#[test]
fn what_is_no_predicate_is_refused_with_its_place() {
    for (sql, piece) in [
        ("", "where"),
        ("a >", "a >"),
        ("a = 1 b", "column 7"),
        ("a + 1 = 2", "a + 1"),
        ("lower(a) = 'x'", "lower(a)"),
        ("1 = 1", "1 = 1"),
        ("a = x.y", "x.y"),
        ("a IN (SELECT 1)", "SELECT 1"),
        ("a = DATE 'soon'", "soon"),
        ("a = INTERVAL '1' DAY", "INTERVAL"),
        ("a = CAST('1' AS INT)", "CAST"),
        ("a LIKE b", "b"),
        ("a = 1; DROP TABLE x", ";"),
        ("a IS TRUE", "IS TRUE"),
    ] {
        let error = Predicate::parse(sql).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Scan, "{sql}");
        assert!(error.to_string().contains(piece), "{sql}: {error}");
    }
}

#[test]
fn a_predicate_is_checked_against_the_columns() {
    let schema = batch(&[]).schema();
    for (sql, said) in [
        ("x = 1", "i, n, d, f, s, b, day, at"),
        ("i = 'abc'", "i is int32"),
        ("d = 'abc'", "decimal(20,2)"),
        ("s = 5", "s is string"),
        ("i", "i is int32"),
        ("at > 5", "at is timestamp"),
        ("at > 'yesterday'", "yesterday"),
        ("i = s", "i is int32, s is string"),
        ("i LIKE 'x'", "LIKE needs a text"),
    ] {
        let error = Predicate::parse(sql).unwrap().check(&schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Scan, "{sql}");
        assert!(error.to_string().contains(said), "{sql}: {error}");
    }
}

#[test]
fn r13_a_predicate_is_written_so_that_it_reads_back_as_itself() {
    for text in [
        "a = 1",
        "id > 7 AND (b < -1.5e3 OR c <> 'it''s')",
        "NOT (a = 1) AND date = DATE '2026-01-02' AND \"case\" = TRUE AND \"a.b\" IS NULL AND \"q\"\"q\" = NULL",
        "t BETWEEN '2026-01-01' AND '2026-01-02T00:00:00.000000001Z' AND x IN (1, 2, 3) AND y NOT IN ('a', 'b')",
        "ts >= TIMESTAMP '2026-01-02T03:04:05.678901Z' AND n LIKE 'a%''' AND m NOT ILIKE '_' AND a < b AND on",
        "(a = 1 OR b = 2) AND (c = 3 OR (d = 4 AND e = 5))",
    ] {
        let read = Predicate::parse(text).unwrap();
        let again = Predicate::parse(&read.expr.to_string()).unwrap_or_else(|e| panic!("{} of {text}: {e}", read.expr));
        assert_eq!(again.expr, read.expr, "{text}");
        let together = Predicate::all(read.conjuncts()).unwrap();
        assert_eq!(together.conjuncts(), read.conjuncts(), "{text}");
        let travelled: Predicate = serde_json::from_str(&serde_json::to_string(&together).unwrap()).unwrap();
        assert_eq!(travelled, together);
    }
    assert_eq!(Predicate::parse("id > 7 AND key = 1").unwrap().conjuncts()[0].to_string(), "id > 7");
}
