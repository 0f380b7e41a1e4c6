//! CRC-32C (RFC 3720) of rows and of bytes: what is stored is what was read.

use std::io::{self, Write};

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use crc_fast::{CrcAlgorithm, Digest};

use crate::error::{Error, ErrorKind, Result};

/// A checksum in the making.
#[derive(Clone)]
pub struct Crc(Digest);

impl Crc {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn add_count(&mut self, count: usize) {
        self.add(&(count as u64).to_le_bytes());
    }

    /// The checksum of everything so far.
    pub fn value(&self) -> u32 {
        // The upper half of a 32-bit checksum is empty.
        u32::try_from(self.0.finalize() & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// Adds the content of a batch: rows, columns, validity, lengths and values. Batches of equal content add the same,
    /// whatever they were sliced from; what stands under a NULL counts for nothing, and so does a batch without rows.
    ///
    /// # Errors
    /// Kind `Bug` for a type that no column of ours has.
    pub fn add_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.add_count(batch.num_rows());
        self.add_count(batch.num_columns());
        batch.columns().iter().try_for_each(|column| self.add_array(column))
    }

    fn add_array(&mut self, array: &ArrayRef) -> Result<()> {
        let rows = array.len();
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.add(&[0]),
            Some(nulls) => {
                self.add(&[1]);
                self.add_bits(rows, |row| nulls.is_valid(row));
            }
        }
        let has_nulls = array.null_count() > 0;
        match array.data_type() {
            DataType::Null => {}
            DataType::Boolean => {
                let values = array.as_boolean();
                self.add_bits(rows, |row| values.is_valid(row) && values.value(row));
            }
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                let lengths = (0..rows).map(|row| if texts.is_valid(row) { texts.value_length(row) } else { 0 });
                let lengths: Vec<u8> = lengths.flat_map(i32::to_le_bytes).collect();
                self.add(&lengths);
                if has_nulls {
                    texts.iter().flatten().for_each(|text| self.add(text.as_bytes()));
                } else if let (Some(first), Some(last)) = (texts.value_offsets().first(), texts.value_offsets().last())
                {
                    let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
                    self.add(texts.value_data().get(place(*first)..place(*last)).unwrap_or_default());
                }
            }
            other => {
                let width = other
                    .primitive_width()
                    .ok_or_else(|| Error::new(ErrorKind::Bug, format!("a column of type {other} has no checksum")))?;
                let data = array.to_data();
                let bytes: &[u8] = data.buffers().first().map_or(&[], |buffer| buffer);
                let bytes = bytes.get(data.offset() * width..(data.offset() + rows) * width).unwrap_or_default();
                if has_nulls {
                    let mut values = bytes.to_vec();
                    for (row, value) in values.chunks_exact_mut(width).enumerate() {
                        if array.is_null(row) {
                            value.fill(0);
                        }
                    }
                    self.add(&values);
                } else {
                    self.add(bytes);
                }
            }
        }
        Ok(())
    }

    fn add_bits(&mut self, rows: usize, is_set: impl Fn(usize) -> bool) {
        let mut bytes = vec![0_u8; rows.div_ceil(8)];
        for row in (0..rows).filter(|row| is_set(*row)) {
            bytes[row / 8] |= 1 << (row % 8);
        }
        self.add(&bytes);
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Crc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crc({:08x})", self.value())
    }
}

/// The checksum of one batch. See [`Crc::add_batch`].
pub fn of_batch(batch: &RecordBatch) -> Result<u32> {
    let mut crc = Crc::new();
    crc.add_batch(batch)?;
    Ok(crc.value())
}

/// Counts and checks the bytes that pass to a writer.
#[derive(Debug)]
pub struct Summed<W> {
    inner: W,
    crc: Crc,
    bytes: u64,
}

impl<W> Summed<W> {
    /// Over a writer that nothing was written to.
    pub fn new(inner: W) -> Self {
        Self { inner, crc: Crc::new(), bytes: 0 }
    }

    /// The writer, the bytes that passed and their checksum.
    pub fn into_parts(self) -> (W, u64, u32) {
        (self.inner, self.bytes, self.crc.value())
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.inner.write(bytes)?;
        self.crc.add(&bytes[..taken]);
        self.bytes += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;

    fn batch(values: &[Option<i64>]) -> RecordBatch {
        let texts: StringArray = values.iter().map(|v| v.map(|v| format!("t{v}"))).collect();
        let flags: BooleanArray = values.iter().map(|v| v.map(|v| v % 3 == 0)).collect();
        let floats: Float64Array =
            values.iter().map(|v| v.map(|v| f64::from(i32::try_from(v % 1_000).unwrap()) / 7.0)).collect();
        let decimals: Decimal128Array = values.iter().map(|v| v.map(i128::from)).collect();
        RecordBatch::try_from_iter([
            ("i", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef),
            ("t", Arc::new(texts)),
            ("b", Arc::new(flags)),
            ("f", Arc::new(floats)),
            ("d", Arc::new(decimals)),
        ])
        .unwrap()
    }

    #[test]
    fn it_is_the_crc_of_rfc_3720() {
        let mut crc = Crc::new();
        crc.add(b"1234");
        crc.add(b"56789");
        assert_eq!(crc.value(), 0xE306_9283);
    }

    #[test]
    fn what_stands_under_a_null_counts_for_nothing() {
        let array = Int64Array::new(vec![1, 99, 3].into(), Some(vec![true, false, true].into()));
        let other = Int64Array::new(vec![1, 0, 3].into(), Some(vec![true, false, true].into()));
        let of =
            |array: Int64Array| of_batch(&RecordBatch::try_from_iter([("a", Arc::new(array) as ArrayRef)]).unwrap());
        assert_eq!(of(array).unwrap(), of(other).unwrap());
    }

    proptest! {
        #[test]
        fn equal_content_has_one_checksum_however_it_was_sliced(
            before in proptest::collection::vec(any::<Option<i64>>(), 0..20),
            values in proptest::collection::vec(any::<Option<i64>>(), 0..40),
            after in proptest::collection::vec(any::<Option<i64>>(), 0..20),
        ) {
            let all: Vec<_> = before.iter().chain(&values).chain(&after).copied().collect();
            let sliced = batch(&all).slice(before.len(), values.len());
            prop_assert_eq!(of_batch(&sliced).unwrap(), of_batch(&batch(&values)).unwrap());
        }

        #[test]
        fn another_value_has_another_checksum(
            mut values in proptest::collection::vec(any::<Option<i64>>(), 1..40), at in any::<proptest::sample::Index>(),
        ) {
            let before = of_batch(&batch(&values)).unwrap();
            let at = at.index(values.len());
            values[at] = values[at].map_or(Some(0), |_| None);
            prop_assert_ne!(of_batch(&batch(&values)).unwrap(), before);
        }
    }
}
