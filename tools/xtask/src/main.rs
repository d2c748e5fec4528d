//! `cargo run -p nearlight-xtask -- page` builds `web/dist`: the WASM core, its glue, the type-checked and bundled page.
//!
//! The binding generator is linked in as a library, so its version cannot differ from the crate's and no tool is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo run -p nearlight-xtask -- page [--no-check]

  page         builds web/dist, which the server binary embeds
  --no-check   leaves out the type check of the page";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["page"] => page(true),
        ["page", "--no-check"] => page(false),
        _ => bail!("{USAGE}"),
    }
}

fn page(check: bool) -> Result<()> {
    let root = workspace_root()?;
    let web = root.join("web");
    bind(&compile_core(&root)?, &web.join("src/core"))?;
    install_packages(&web)?;
    if check {
        run(npm(&web).args(["run", "--silent", "check"]), "the page's types do not check; the errors are above")?;
    }
    run(npm(&web).args(["run", "--silent", "build"]), "the page does not bundle; the errors are above")
}

/// Returns the root of the workspace. Cargo's value at run time has precedence: with a target folder shared by several checkouts, the program may
/// have been compiled in another one.
fn workspace_root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest)
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .context("the xtask crate lies outside of the workspace")
}

/// Compiles the receiver to WASM and says where the module lies.
fn compile_core(root: &Path) -> Result<PathBuf> {
    // A folder of its own: the outer cargo may still hold the lock of its target folder.
    let target = target_folder(root).join("page");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .args(["build", "--package", "nearlight-web-core", "--target", "wasm32-unknown-unknown", "--release"])
        .arg("--target-dir")
        .arg(&target)
        // Debug lines would be most of the file that every client downloads.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        // Erasure codes are twenty times as fast with vectors, and every browser that has WebTransport has them.
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", "-Ctarget-feature=+simd128");
    run(&mut cargo, "the WASM core does not compile (is the target there? rustup target add wasm32-unknown-unknown)")?;
    Ok(target.join("wasm32-unknown-unknown/release/nearlight_web_core.wasm"))
}

fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Writes `core.js`, `core.d.ts` and `core_bg.wasm` beside the page's sources.
fn bind(module: &Path, folder: &Path) -> Result<()> {
    wasm_bindgen_cli_support::Bindgen::new()
        .input_path(module)
        .out_name("core")
        .web(true)
        .and_then(|generator| generator.typescript(true).generate(folder))
        .with_context(|| format!("no bindings for {}", module.display()))
}

/// Installs what `package-lock.json` names, unless that is what lies there already.
fn install_packages(web: &Path) -> Result<()> {
    let changed = |path: &str| std::fs::metadata(web.join(path)).and_then(|metadata| metadata.modified()).ok();
    let installed = changed("node_modules/.package-lock.json");
    if installed.is_some() && installed >= changed("package-lock.json") {
        return Ok(());
    }
    run(
        npm(web).args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]),
        "npm could not install the page's packages (the first build needs the network)",
    )
}

fn npm(web: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(web);
    npm
}

fn run(command: &mut Command, meaning: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| {
        format!("cannot start {program}: install it (Debian: apt install nodejs npm) and run this again")
    })?;
    if !status.success() {
        bail!("{meaning}");
    }
    Ok(())
}
