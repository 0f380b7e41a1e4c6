//! The keys of a parent's rows: which become walks, and which do not (R18, R31).

use std::collections::{HashSet, VecDeque};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::super::lineage::{key_column, literal};
use crate::config::{Child, Join, ResponseFormat, SchemaConfig, SchemaMode, TableConfig};
use crate::counts::Counts;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::request::in_path;

/// The parent as it is read here: its keys, and nothing of its positions.
pub(super) fn only(parent: &TableConfig, child: &Child, format: ResponseFormat) -> TableConfig {
    TableConfig {
        columns: vec![key_column(child.key.clone(), child.path.clone(), format)],
        is_from_spec: false,
        filters: Vec::new(),
        aggregations: Vec::new(),
        checkpoint: None,
        schema: SchemaConfig { mode: SchemaMode::Strict, rest_column: None, explode: None, ..parent.schema.clone() },
        ..parent.clone()
    }
}

/// What one walk asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) keys: Vec<String>,
    /// The URL with its key; `None` where keys go into a parameter.
    pub(super) url: Option<Url>,
}

/// Keys that wait for their walk.
#[derive(Debug)]
pub(super) struct Keys {
    join: Join,
    url: Url,
    format: ResponseFormat,
    waiting: VecDeque<String>,
    /// Hashes of all keys so far.
    seen: HashSet<[u8; 16]>,
    counts: Counts,
}

impl Keys {
    pub(super) fn new(child: &Child, table: &TableConfig, format: ResponseFormat) -> Self {
        let (waiting, seen, counts) = (VecDeque::new(), HashSet::new(), Counts::default());
        Self { join: child.join.clone(), url: table.url.clone(), format, waiting, seen, counts }
    }

    /// Takes the keys of parents.
    ///
    /// # Errors
    /// Kind `Decode` for a key that cannot be told from two.
    pub(super) fn take(&mut self, parents: &RecordBatch) -> Result<()> {
        let cells = parents.columns().first().and_then(|column| column.as_string_opt::<i32>());
        let cells = cells.ok_or_else(|| Error::new(ErrorKind::Bug, "the parent's keys are no texts"))?;
        for cell in cells {
            let Some(key) = cell.and_then(|cell| literal(cell, self.format)) else {
                self.counts.parents_without_key.add(|| cell.unwrap_or("none").to_owned());
                continue;
            };
            if !self.seen.insert(short_hash(&key)) {
                self.counts.keys_repeated.add(|| key.into_owned());
                continue;
            }
            if let Join::Batch { separator, .. } = &self.join
                && key.contains(separator)
            {
                let said = format!(
                    "the parent's key {key:?} holds the batch-separator {separator:?}: the API would take it for \
                     several; set another batch-separator"
                );
                return Err(Error::new(ErrorKind::Decode, said));
            }
            self.waiting.push_back(key.into_owned());
        }
        Ok(())
    }

    /// The next walk, if there are keys enough; all that are left once no more will come.
    pub(super) fn next(&mut self, is_last: bool) -> Option<Asked> {
        match &self.join {
            Join::Batch { size, .. } => {
                let size = if is_last { self.waiting.len().min(*size) } else { *size };
                let is_enough = size > 0 && self.waiting.len() >= size;
                is_enough.then(|| Asked { keys: self.waiting.drain(..size).collect(), url: None })
            }
            Join::NestedLoop { placeholder } => loop {
                let key = self.waiting.pop_front()?;
                match in_path(&self.url, placeholder, &key) {
                    Some(url) => return Some(Asked { keys: vec![key], url: Some(url) }),
                    None => self.counts.keys_refused.add(|| key),
                }
            },
        }
    }

    /// Whether the next walk needs no more parents (R26: they wait where they are).
    pub(super) fn is_enough(&self) -> bool {
        match &self.join {
            Join::Batch { size, .. } => self.waiting.len() >= *size,
            Join::NestedLoop { .. } => !self.waiting.is_empty(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What became of keys so far.
    pub(super) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

fn short_hash(key: &str) -> [u8; 16] {
    let mut short = [0; 16];
    short.iter_mut().zip(Sha256::digest(key)).for_each(|(to, from)| *to = from);
    short
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};

    use super::*;

    fn keys(join: Join) -> Keys {
        Keys {
            join,
            url: "http://h/x/{k}/y".parse().unwrap(),
            format: ResponseFormat::Json,
            waiting: VecDeque::new(),
            seen: HashSet::new(),
            counts: Counts::default(),
        }
    }

    fn batch(cells: &[Option<&str>]) -> RecordBatch {
        let cells: ArrayRef = Arc::new(cells.iter().copied().collect::<StringArray>());
        RecordBatch::try_from_iter_with_nullable([("k", cells, true)]).unwrap()
    }

    #[test]
    fn r18_keys_that_no_path_carries_and_parents_without_one_are_counted_apart() {
        let mut keys = keys(Join::NestedLoop { placeholder: "k".into() });
        let cells = [Some("\"..\""), Some("7"), Some("\"7\""), Some("\"\""), None, Some("[1]"), Some("\"a/b\"")];
        keys.take(&batch(&cells)).unwrap();
        let urls: Vec<_> =
            std::iter::from_fn(|| keys.next(false)).map(|asked| asked.url.unwrap().to_string()).collect();
        assert_eq!(urls, ["http://h/x/7/y", "http://h/x/a%2Fb/y"]);
        let counts = keys.take_counts();
        let tallies = [&counts.keys_refused, &counts.parents_without_key, &counts.keys_repeated];
        let said: Vec<_> = tallies.iter().map(|tally| (tally.count, tally.first.as_deref().unwrap())).collect();
        assert_eq!(said, [(1, ".."), (3, "\"\""), (1, "7")]);
    }

    #[test]
    fn r31_a_batch_waits_for_its_size_until_the_last_parent() {
        let mut keys = keys(Join::Batch {
            param: "ids".into(),
            size: 2,
            separator: ",".into(),
            field: jsonptr::PointerBuf::new(),
        });
        let mut next = |cells: &[Option<&str>], is_last| {
            keys.take(&batch(cells)).unwrap();
            keys.next(is_last).map(|asked| asked.keys.concat())
        };
        assert_eq!(next(&[Some("1")], false), None);
        assert_eq!(next(&[Some("2"), Some("3")], false).as_deref(), Some("12"));
        assert_eq!(next(&[], false), None);
        assert_eq!(next(&[], true).as_deref(), Some("3"));
        assert_eq!(next(&[], true), None);
        let refused = keys.take(&batch(&[Some("\"a,b\"")])).unwrap_err();
        assert!(refused.to_string().contains("\"a,b\""), "{refused}");
    }
}
