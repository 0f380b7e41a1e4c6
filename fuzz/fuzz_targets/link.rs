//! Link headers: see `restmark::fuzz::link`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::link(data) {
        panic!("{said}");
    }
});
