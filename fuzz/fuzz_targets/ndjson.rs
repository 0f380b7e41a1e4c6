//! NDJSON bodies: see `restmark::fuzz::ndjson`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::ndjson(data) {
        panic!("{said}");
    }
});
