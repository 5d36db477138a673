//! Options of the linker for the program: the names that NSAPI plug-ins look for in it are exported, and no
//! others; and the program is made smaller where the linker is the one that comes with Rust.

use std::env::{var, var_os};
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(list) = var_os("DEP_TOUCHSTONE_NSAPI_EXPORTS") {
        println!("cargo:rustc-link-arg-bins=-Wl,--dynamic-list={}", list.to_string_lossy());
    }
    // The C library of the running system must know packed relocations: glibc since 2.36.
    if var("PROFILE").is_ok_and(|profile| profile == "release") && links_with_own_lld() {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether the linker is the lld of the Rust toolchain, its default for this target since 1.90, and no flag
/// chooses another.
fn links_with_own_lld() -> bool {
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let target = var("TARGET").unwrap_or_default();
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let chosen = ["fuse-ld", "linker-features", "linker-flavor", "link-self-contained"];
    if target != "x86_64-unknown-linux-gnu" || chosen.iter().any(|flag| flags.contains(flag)) {
        return false;
    }
    let rustc = var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(printed) = Command::new(rustc).args(["--print", "sysroot"]).output() else { return false };
    let sysroot = String::from_utf8_lossy(&printed.stdout).trim().to_string();
    Path::new(&sysroot).join("lib/rustlib").join(target).join("bin/gcc-ld/ld.lld").exists()
}
