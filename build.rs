//! Makes, from the table of builtins, what bash looks up and what cannot be written as a Rust generic: one C entry and one
//! exported structure per builtin.

#![allow(clippy::disallowed_macros)]

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

#[allow(dead_code)]
#[path = "src/command/help.rs"]
mod help;
#[allow(dead_code)]
#[path = "src/command/table.rs"]
mod table;

fn main() {
    for input in ["build.rs", "src/command/table.rs", "src/command/help.rs", "src/bash/entry.c"] {
        println!("cargo:rerun-if-changed={input}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));

    let (mut entries, mut structures) = (String::new(), String::new());
    for (index, builtin) in table::TABLE.iter().enumerate() {
        let name = builtin.name;
        writeln!(entries, "ENTRY ({name}, {index})").unwrap();
        writeln!(
            structures,
            "builtin!({name}_struct, interlock_{name}, c{name:?}, c{:?}, c{:?});",
            builtin.usage(),
            builtin.long_doc(),
        )
        .unwrap();
    }
    fs::write(out.join("entries.inc"), entries).expect("OUT_DIR is writable");
    fs::write(out.join("structures.rs"), structures).expect("OUT_DIR is writable");

    cc::Build::new().file("src/bash/entry.c").include(&out).flag("-fvisibility=hidden").warnings(true).compile("entry");

    // A trap may run `enable -d` while the builtin waits: the code must stay.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
