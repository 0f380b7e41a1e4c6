//! The checkpoint reader: what it takes is what it would write.

use super::hold;
use crate::position::Checkpoint;

/// Any file: read, written and read again, it is the same.
pub fn checkpoint(data: &[u8]) -> Result<(), String> {
    let Ok(read) = Checkpoint::parse(data) else { return Ok(()) };
    let again = Checkpoint::parse(&read.render());
    hold(again.as_ref() == Ok(&read), || format!("{read:?} was written and read as {again:?}"))
}
