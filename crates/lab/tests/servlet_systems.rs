//! The systems with a servlet container, which are not built in: their definitions are read as they stand in `systems/`.

// A test fails by panicking.
#![allow(clippy::unwrap_used)]

use touchstone_lab::system::Definition;

#[test]
fn their_definitions_are_read() {
    for (name, files) in [("tomcat", 2), ("apache-ajp", 4)] {
        let path = format!("{}/../../systems/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let definition = Definition::find(&path).unwrap();
        assert_eq!((definition.name.as_str(), definition.files.len()), (name, files));
    }
}
