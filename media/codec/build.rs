//! Refuses to build a slow H.264 encoder, and compiles the C side of the VP8 wrapper against the installed libvpx.

use std::path::PathBuf;
use std::process::Command;

/// Oldest version of NASM that assembles OpenH264 (its README, "NASM needed to be installed for assembly code: workable version 2.10.06").
const MIN_NASM_VERSION: (u32, u32) = (2, 10);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=OPENH264_NO_ASM");
    println!("cargo:rerun-if-changed=src/vp8/vpx.c");
    let vpx = || if std::env::var_os("CARGO_FEATURE_VP8").is_some() { compile_vpx() } else { Ok(()) };
    if let Err(reason) = check_assembler().and_then(|()| vpx()) {
        eprintln!("\nnearlight-codec cannot be built: {reason}\n");
        std::process::exit(1);
    }
}

/// Checks that nasm is installed. Without it OpenH264 builds silently and is three times slower: 13.1 instead of 4.6 ms per 720p frame.
fn check_assembler() -> Result<(), String> {
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if architecture != "x86_64" && architecture != "x86" {
        return Ok(());
    }
    if std::env::var_os("OPENH264_NO_ASM").is_some() {
        return Err("OPENH264_NO_ASM is set, which makes the H.264 encoder three times slower. Unset it, then run \
                    `cargo clean -p openh264-sys2` and build again."
            .to_owned());
    }
    let remedy = "Install it (`apt install nasm`, `brew install nasm`, or https://nasm.us), then run \
                  `cargo clean -p openh264-sys2` and build again.";
    // A failed build runs again anyway. A successful one depends on this assembler only, not on others in the PATH.
    if let Some(nasm) = find("nasm") {
        println!("cargo:rerun-if-changed={}", nasm.display());
    }
    let output = Command::new("nasm").arg("-v").output().map_err(|error| {
        format!("`nasm` does not run ({error}). Without it the H.264 encoder would be three times slower. {remedy}")
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match nasm_version(&text) {
        Some(version) if version >= MIN_NASM_VERSION => Ok(()),
        _ => Err(format!(
            "`nasm -v` says {:?}, but {}.{} or newer is needed. {remedy}",
            text.trim(),
            MIN_NASM_VERSION.0,
            MIN_NASM_VERSION.1
        )),
    }
}

/// Returns the path of a command in the PATH.
fn find(command: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|file| file.is_file())
}

/// Parses `NASM version 2.16.01 compiled on ...`.
fn nasm_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("NASM version ")?.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn compile_vpx() -> Result<(), String> {
    let library = pkg_config::Config::new().atleast_version("1.8").probe("vpx").map_err(|error| {
        format!("libvpx 1.8 or newer was not found. Install it (`apt install libvpx-dev pkg-config`).\n{error}")
    })?;
    cc::Build::new()
        .file("src/vp8/vpx.c")
        .includes(&library.include_paths)
        .warnings(true)
        .extra_warnings(true)
        .std("c99")
        .compile("nearlight_vpx");
    Ok(())
}
