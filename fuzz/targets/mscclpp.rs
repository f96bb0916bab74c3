//! Fuzz target for `mscclpp`; what must hold stands in `tests/common/hostile.rs`.
#![no_main]

#[path = "../../tests/common/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::mscclpp(bytes));
