//! Compiles the C shim, and writes the list of names that an executable with this crate must export to
//! plug-ins.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let include = directory.join("../../include");
    println!("cargo:rerun-if-changed={}", include.display());
    println!("cargo:rerun-if-changed=shim");
    let mut files = vec!["shim/variadic.c", "shim/exports.c", "shim/layout.c"];
    println!("cargo:rustc-check-cfg=cfg(ends_of_plugins)");
    if !is_static() {
        files.push("shim/exit.c");
        println!("cargo:rustc-cfg=ends_of_plugins");
    }
    cc::Build::new()
        .files(files)
        .include(&include)
        .warnings(true)
        .extra_warnings(true)
        .flag_if_supported("-Wno-unused-parameter")
        .compile("touchstone_nsapi_shim");

    let list = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("exports.list");
    fs::write(&list, dynamic_list(&directory.join("shim"))).expect("OUT_DIR can be written");
    // Reaches the build script of the program as DEP_TOUCHSTONE_NSAPI_EXPORTS.
    println!("cargo:exports={}", list.display());
}

/// Whether the program has no shared libraries, as Rust's programs with musl: then no plug-in can be loaded,
/// and the functions of the C library after those of the shim cannot be found.
fn is_static() -> bool {
    env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|library| library == "musl")
}

/// The tables, and every function that the shim defines with EXPORT or FORWARD.
fn dynamic_list(shim: &Path) -> String {
    let mut names: Vec<String> =
        ["__nsapi30_table", "__nsapi302_table", "__nsapi303_table"].map(String::from).to_vec();
    for file in ["variadic.c", "exports.c", "exit.c"] {
        let text = fs::read_to_string(shim.join(file)).expect("the shim is there");
        for macro_name in ["\nEXPORT(", "\nFORWARD("] {
            for rest in text.split(macro_name).skip(1) {
                let name = rest.split([',', ')']).nth(1).expect("EXPORT(type, name, ...)").trim();
                names.push(name.to_string());
            }
        }
    }
    format!("{{\n{}}};\n", names.iter().map(|name| format!("    {name};\n")).collect::<String>())
}
