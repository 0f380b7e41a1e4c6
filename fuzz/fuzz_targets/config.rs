//! Configuration files: see `restmark::fuzz::config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::config(data) {
        panic!("{said}");
    }
});
