//! Gives the shared library its name for the dynamic linker, which changes with every incompatible version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // Before 1.0, each minor version may be incompatible (SemVer 2.0.0 item 4).
    let [major, minor] =
        ["MAJOR", "MINOR"].map(|part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default());
    let interface = if major == "0" { format!("0.{minor}") } else { major };
    if target == "linux" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnearlight.so.{interface}");
        // Within the library, another library's symbols must not replace its own ones.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
