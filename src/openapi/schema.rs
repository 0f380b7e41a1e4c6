//! What a schema says, with its references and parts put together. Nothing here recurses: no document is too deep.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::Spec;

/// The most schemas that are looked at for one table: parts of parts of parts multiply.
const WORK_MAX: usize = 200_000;

/// Schemas that all hold for one value.
pub(super) type All<'a> = Vec<&'a Value>;

/// Alternatives, any of which may hold for a value.
pub(super) type Any<'a> = Vec<All<'a>>;

/// The types of a value, a bit each. A number that may have a fraction is both `INTEGER` and `FRACTION`.
pub(super) type Types = u8;
pub(super) const NULL: Types = 1;
pub(super) const BOOLEAN: Types = 1 << 1;
pub(super) const INTEGER: Types = 1 << 2;
pub(super) const FRACTION: Types = 1 << 3;
pub(super) const STRING: Types = 1 << 4;
pub(super) const OBJECT: Types = 1 << 5;
pub(super) const ARRAY: Types = 1 << 6;

/// One alternative of a value.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    /// 0 where nothing is said.
    pub(super) types: Types,
    pub(super) format: Option<&'a str>,
    /// In the order of the document.
    pub(super) members: Vec<(&'a str, All<'a>)>,
    index: HashMap<&'a str, usize>,
    /// The elements of an array.
    pub(super) items: All<'a>,
    alternatives: Vec<&'a Value>,
}

impl<'a> Facts<'a> {
    /// The schema of a member.
    pub(super) fn member(&self, name: &str) -> Option<&All<'a>> {
        self.index.get(name).and_then(|at| self.members.get(*at)).map(|(_, all)| all)
    }

    fn add_members(&mut self, members: &'a Map<String, Value>) {
        for (name, schema) in members {
            let next = self.members.len();
            let at = *self.index.entry(name.as_str()).or_insert(next);
            if at == next {
                self.members.push((name, Vec::new()));
            }
            if let Some((_, all)) = self.members.get_mut(at) {
                all.push(schema);
            }
        }
    }

    /// Types that parts agree on; where they do not, the first one counts.
    fn narrow(types: &mut Types, more: Types) {
        *types = match *types & more {
            _ if *types == 0 => more,
            0 => *types,
            both => both,
        };
    }
}

/// Reads the schemas of one document for one table.
pub(super) struct Reader<'a> {
    spec: &'a Spec,
    work: Cell<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(spec: &'a Spec) -> Self {
        Self { spec, work: Cell::new(0) }
    }

    /// All alternatives of a value but null, those of alternatives too, in the order of the document.
    pub(super) fn read(&self, any: &[All<'a>]) -> Result<Vec<Facts<'a>>, String> {
        let mut read = Vec::new();
        let mut seen = HashSet::new();
        // What is to be read, and whether what it is an alternative of has said a type.
        let mut rest: VecDeque<(All<'a>, bool)> = any.iter().map(|all| (all.clone(), false)).collect();
        while let Some((all, is_typed)) = rest.pop_front() {
            let mut facts = self.gather(&all)?;
            let has_said = facts.types != 0;
            let alternatives = std::mem::take(&mut facts.alternatives);
            let is_leaf = alternatives.is_empty();
            for schema in alternatives.into_iter().rev() {
                if seen.insert(std::ptr::from_ref(schema)) {
                    rest.push_front((vec![schema], is_typed || has_said));
                }
            }
            // `required` and the like are no alternative of their own.
            if has_said && facts.types != NULL || is_leaf && !has_said && !is_typed {
                read.push(facts);
            }
        }
        Ok(read)
    }

    /// Puts schemas together with all they refer to and are made of.
    fn gather(&self, all: &[&'a Value]) -> Result<Facts<'a>, String> {
        let mut facts = Facts::default();
        let mut implied = 0;
        let mut seen = HashSet::new();
        let mut stack: Vec<Part<'a>> = all.iter().rev().map(|schema| Part::Schema(schema)).collect();
        while let Some(part) = stack.pop() {
            let schema = match part {
                Part::Members(members) => {
                    self.spend(members.len())?;
                    facts.add_members(members);
                    continue;
                }
                Part::Schema(schema) => schema,
            };
            self.spend(1)?;
            let Some(keys) = schema.as_object().filter(|_| seen.insert(std::ptr::from_ref(schema))) else { continue };
            let mut parts = Vec::new();
            for (key, value) in keys {
                match (key.as_str(), value) {
                    ("$ref", Value::String(reference)) => parts.push(Part::Schema(self.spec.target(reference)?)),
                    ("allOf", Value::Array(schemas)) => parts.extend(schemas.iter().map(Part::Schema)),
                    ("oneOf" | "anyOf", Value::Array(schemas)) => {
                        self.spend(schemas.len())?;
                        facts.alternatives.extend(schemas);
                    }
                    ("properties", Value::Object(members)) => {
                        implied |= OBJECT;
                        parts.push(Part::Members(members));
                    }
                    ("additionalProperties", Value::Object(_)) => implied |= OBJECT,
                    ("items", schema) => {
                        implied |= ARRAY;
                        facts.items.push(schema);
                    }
                    ("type", value) => Facts::narrow(&mut facts.types, types(value)),
                    ("format", Value::String(format)) => facts.format = facts.format.or(Some(format)),
                    ("enum", Value::Array(values)) => {
                        implied |= values.iter().fold(0, |types, value| types | type_of(value));
                    }
                    ("const", value) => implied |= type_of(value),
                    _ => {}
                }
            }
            stack.extend(parts.into_iter().rev());
        }
        if facts.types == 0 {
            facts.types = implied;
        }
        Ok(facts)
    }

    fn spend(&self, work: usize) -> Result<(), String> {
        self.work.set(self.work.get().saturating_add(work));
        if self.work.get() > WORK_MAX {
            return Err(format!(
                "its schema has more than {WORK_MAX} parts: declare columns, or flatten less (schema.flatten-depth)"
            ));
        }
        Ok(())
    }
}

enum Part<'a> {
    Schema(&'a Value),
    Members(&'a Map<String, Value>),
}

/// The value of `type`: a name or, in 3.1, a list of names.
fn types(value: &Value) -> Types {
    match value {
        Value::Array(names) => names.iter().fold(0, |all, name| all | types(name)),
        Value::String(name) => match name.as_str() {
            "null" => NULL,
            "boolean" => BOOLEAN,
            "integer" => INTEGER,
            "number" => INTEGER | FRACTION,
            "string" => STRING,
            "object" => OBJECT,
            "array" => ARRAY,
            _ => 0,
        },
        _ => 0,
    }
}

fn type_of(value: &Value) -> Types {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::Number(n) if n.is_f64() => INTEGER | FRACTION,
        Value::Number(_) => INTEGER,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}
