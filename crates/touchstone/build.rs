//! Has the linker export the names that NSAPI plug-ins look for in the program, and no others.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(list) = std::env::var_os("DEP_TOUCHSTONE_NSAPI_EXPORTS") {
        println!("cargo:rustc-link-arg-bins=-Wl,--dynamic-list={}", list.to_string_lossy());
    }
}
