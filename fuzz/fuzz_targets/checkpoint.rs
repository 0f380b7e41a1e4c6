//! Checkpoint files: see `restmark::fuzz::checkpoint`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::checkpoint(data) {
        panic!("{said}");
    }
});
