//! The seeds of the fuzz targets, and what fuzzing once found: read on every test run, without a fuzzer.

use std::path::Path;

use restmark::fuzz::TARGETS;

#[test]
fn every_seed_is_read_as_a_slow_reader_reads_it() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let mut wrong = vec![];
    for (name, target) in TARGETS {
        let files = std::fs::read_dir(seeds.join(name)).unwrap_or_else(|e| panic!("fuzz/seeds/{name}: {e}"));
        let mut count = 0;
        for path in files.map(|file| file.unwrap().path()) {
            count += 1;
            if let Err(said) = target(&std::fs::read(&path).unwrap()) {
                wrong.push(format!("{}: {said}", path.display()));
            }
        }
        assert!(count > 0, "fuzz/seeds/{name} is empty");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_target_has_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut there: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    there.sort();
    let mut known: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.sort();
    assert_eq!(there, known);
}
