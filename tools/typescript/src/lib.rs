//! Keeps `web/src/generated` in step with the Rust types that the page's declarations are made from.
//!
//! Only tests use it: each crate with types that the page uses has a test that declares them and compares the result with the file.

#![forbid(unsafe_code)]

use std::path::Path;

use serde::Serialize;
use ts_rs::{Config, TS};

/// Environment variable with which the tests write the files instead of comparing them.
const RENEW: &str = "NEARLIGHT_RENEW_TYPES";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/generated");

/// One TypeScript module that is being written.
#[derive(Debug)]
pub struct Module {
    declarations: Vec<String>,
}

impl Default for Module {
    fn default() -> Self {
        Self { declarations: vec!["// Generated from Rust: `make types` writes it anew.\n".to_owned()] }
    }
}

impl Module {
    /// Names of another generated module that the declarations use.
    pub fn import(&mut self, name: &str, file: &str) {
        self.declarations.push(format!("import type {{ {name} }} from \"./{file}\";\n"));
    }

    /// The type with its documentation, as `serde` writes it. Numbers of 64 bits are JavaScript's own: none here exceeds 53.
    pub fn declare<T: TS>(&mut self) {
        let config = Config::new().with_large_int("number");
        let docs = T::docs().unwrap_or_default();
        self.declarations.push(format!("{docs}export {}\n", T::decl(&config)));
    }

    /// A constant with the literal type of what `serde` makes of it.
    pub fn constant(&mut self, docs: &str, name: &str, value: &impl Serialize) {
        let json = serde_json::to_string(value).expect("constants are plain data");
        self.declarations.push(format!("/** {docs} */\nexport const {name} = {json} as const;\n"));
    }

    /// Compares with the file of this name, or writes it where the environment asks for that. Fails where they differ.
    pub fn check(self, file: &str) {
        let text = self.declarations.join("\n");
        let path = Path::new(FOLDER).join(file);
        if std::env::var_os(RENEW).is_some() {
            std::fs::create_dir_all(FOLDER).expect("the folder of generated declarations");
            std::fs::write(&path, text).expect("the file of generated declarations");
            return;
        }
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(present == text, "web/src/generated/{file} is not what the types say: `make types` writes it anew");
    }
}
