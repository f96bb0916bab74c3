//! libFuzzer is C++.
fn main() {
    println!("cargo:rustc-link-arg=-lstdc++");
}
