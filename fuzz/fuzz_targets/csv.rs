//! CSV bodies: see `restmark::fuzz::csv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::csv(data) {
        panic!("{said}");
    }
});
