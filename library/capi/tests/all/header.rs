//! The committed header is the one that the sources generate, and it compiles as C99 and C++17 without a warning.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn generated() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "types",
        "common",
        "calls",
        "pictures",
        "graphics",
        "vulkan",
        "sounds",
        "events",
        "viewers",
        "receiving/types",
        "receiving/mod",
        "receiving/events",
        "receiving/inputs",
    ] {
        builder = builder.with_src(folder.join(format!("src/{file}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate().expect("bindings").write(&mut bytes);
    // The header's introduction states the callers' obligations once, instead of Rust's safety sections.
    let text = String::from_utf8(bytes).expect("UTF-8");
    let mut kept = Vec::<&str>::new();
    let mut skipping = false;
    for line in text.lines() {
        skipping = line == "// # Safety" || skipping && line.starts_with("//");
        if skipping {
            while kept.last() == Some(&"//") {
                kept.pop();
            }
            continue;
        }
        kept.push(line);
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let (file, generated) = (root().join("library/include/nearlight.h"), generated());
    if std::env::var_os("NEARLIGHT_RENEW_TYPES").is_some() {
        std::fs::write(&file, &generated).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == generated, "{} is not what the sources say: run make types", file.display());
}

#[test]
fn the_header_compiles_as_c99_and_cpp17() {
    let folder = std::env::temp_dir().join(format!("nearlight-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];
    for (compiler, standard, name) in [("cc", "-std=c99", "header.c"), ("c++", "-std=c++17", "header.cpp")] {
        let file = folder.join(name);
        let program = "#include \"nearlight.h\"\nint main(void) {\n    nl_picture picture = {0};\n    picture.size = sizeof picture;\n    \
                       return picture.size == 0 || NL_STATUS_OK != 0;\n}\n";
        // C++ writes an empty initialiser differently.
        let program = if name.ends_with("cpp") { program.replace("{0}", "{}") } else { program.to_owned() };
        std::fs::write(&file, program).expect("a file");
        let output = Command::new(compiler)
            .args(strict)
            .arg(standard)
            .arg("-I")
            .arg(root().join("library/include"))
            .arg(&file)
            .output()
            .expect("a C compiler, which the build needs too");
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let _ = std::fs::remove_dir_all(folder);
}
