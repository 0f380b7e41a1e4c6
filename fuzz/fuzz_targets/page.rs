//! Pages against `serde_json`: see `restmark::fuzz::page`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(said) = restmark::fuzz::page(data) {
        panic!("{said}");
    }
});
