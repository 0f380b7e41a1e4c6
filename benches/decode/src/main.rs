//! Decodes the pages of a folder with each contestant in turn, and prints CPU seconds per GB.
//!
//! `decode FOLDER LABEL ROUNDS` as `benches/decode.py` calls it. The folder holds `t.conf` (restmark's), `N.json` (pages with
//! an envelope), `N.ndjson` (the same records as lines) and `expected.json` (rows, sums, the three columns).

mod columns;
mod contestants;
mod rows;
mod tree;

use std::error::Error;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use contestants::Input;
use rustix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Rows and the three sums (the last in cents) of some batches.
fn totals(batches: &[RecordBatch], names: &[String]) -> Result<Vec<i128>> {
    let mut found = vec![0; 4];
    for batch in batches {
        found[0] += batch.num_rows() as i128;
        for (place, name) in names.iter().enumerate() {
            let column = batch.column_by_name(name).ok_or("a column is missing")?;
            found[place + 1] += match column.data_type() {
                DataType::Int32 => column.as_primitive::<Int32Type>().iter().flatten().map(i128::from).sum::<i128>(),
                DataType::Int64 => column.as_primitive::<Int64Type>().iter().flatten().map(i128::from).sum(),
                _ => column.as_primitive::<Float64Type>().iter().flatten().map(|v| (v * 100.0).round() as i128).sum(),
            };
        }
    }
    Ok(found)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, label, rounds] = arguments.as_slice() else { return Err("FOLDER LABEL ROUNDS".into()) };
    let folder = Path::new(folder);
    let expected: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join("expected.json"))?)?;
    let names: Vec<String> = serde_json::from_value(expected["columns"].clone())?;
    let wanted: Vec<i128> = serde_json::from_value(expected["totals"].clone())?;
    let mut inputs = Vec::new();
    while let Ok(page) = std::fs::read(folder.join(format!("{}.json", inputs.len()))) {
        let lines = std::fs::read(folder.join(format!("{}.ndjson", inputs.len())))?;
        inputs.push(Input { page, lines });
    }
    let source = restmark::Source::open(folder.join("t.conf"))?;
    let gb = inputs.iter().map(|input| input.page.len()).sum::<usize>() as f64 / 1e9;
    let mut table: Vec<(&str, Vec<f64>)> = Vec::new();
    for select in [None, Some(&names)] {
        // Messy pages are beyond readers that convert nothing.
        let mut all = contestants::all(&source, select, label.ends_with("messy"))?;
        let mut best = vec![f64::MAX; all.len()];
        for round in 0..rounds.parse()? {
            for (contestant, best) in all.iter_mut().zip(&mut best) {
                let mut batches = Vec::new();
                let begun = cpu();
                for input in &inputs {
                    batches.extend(contestant.decode(input)?);
                }
                *best = best.min((cpu() - begun) / gb);
                if round == 0 && totals(&batches, &names)? != wanted {
                    let found = totals(&batches, &names)?;
                    return Err(format!("{} found {found:?}, not {wanted:?}", contestant.name()).into());
                }
            }
        }
        for (at, (contestant, best)) in all.iter().zip(best).enumerate() {
            match table.get_mut(at) {
                Some((_, figures)) => figures.push(best),
                None => table.push((contestant.name(), vec![best])),
            }
        }
    }
    let ours = table[0].1.clone();
    for (name, figures) in &table {
        let cells: Vec<String> =
            figures.iter().zip(&ours).map(|(its, ours)| format!("{its:.2} | {:.2}", its / ours)).collect();
        println!("| {label} | {name} | {} |", cells.join(" | "));
    }
    Ok(())
}
