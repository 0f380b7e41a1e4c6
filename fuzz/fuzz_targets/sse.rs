//! Event streams: see `restmark::fuzz::sse`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::sse(data) {
        panic!("{said}");
    }
});
