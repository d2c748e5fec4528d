//! The page is embedded in the binary. If it has not been built, fails with instructions rather than building a server without a page.

use std::path::Path;

fn main() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    println!("cargo:rerun-if-changed={}", page.display());
    assert!(
        page.join("index.html").is_file(),
        "the page is not built yet: run `make page` (or `cargo run --profile tool -p nearlight-xtask -- page`), then build again"
    );
}
