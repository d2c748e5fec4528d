//! `nearlight docs`: the documentation as a site on this machine.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;

/// Places of the site, relative to the folder that contains the folder of this program: where packages and `make install` put it, and where
/// `make docs` does.
const PLACES: [&str; 2] = ["share/doc/nearlight/html", "docs/site"];

#[derive(Debug, Args)]
pub struct DocsArguments {
    /// The page to open, such as server or results/wifi [default: the first one]
    page: Option<String>,
    /// Print the name of the page's file, and open nothing
    #[arg(long)]
    print: bool,
}

/// Opens the documentation in the user's browser, or prints the name of its file if there is no desktop.
///
/// # Errors
/// If the documentation is not installed, or has no such page.
pub fn run(arguments: &DocsArguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("the system does not say where this program is")?;
    let folder = program.parent().and_then(Path::parent).context("this program is in no folder")?;
    let Some(site) = PLACES.map(|place| folder.join(place)).into_iter().find(|site| site.is_dir()) else {
        bail!(
            "the documentation is not installed: packages contain it, and `make docs install` in a checkout does both"
        )
    };
    let page = page_of(&site, arguments.page.as_deref())?;
    let is_opened = !arguments.print && std::io::stdout().is_terminal() && has_desktop() && open(&page);
    println!("{}{}", if is_opened { "Opened " } else { "" }, page.display());
    Ok(ExitCode::SUCCESS)
}

/// Returns the file of a page. Its name is the path of a document in `docs`, without the extension.
fn page_of(site: &Path, name: Option<&str>) -> anyhow::Result<PathBuf> {
    let Some(name) = name else { return Ok(site.join("index.html")) };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '/');
    let page = site.join("docs").join(format!("{name}.html"));
    if !name.chars().all(is_name) || !page.is_file() {
        bail!("the documentation has no page {name}: `nearlight docs` opens the first one, which lists all")
    }
    Ok(page)
}

fn has_desktop() -> bool {
    cfg!(any(target_os = "macos", windows))
        || ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Returns whether the desktop has taken the file.
fn open(page: &Path) -> bool {
    let mut command = if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" })
    };
    let status = command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_the_names_of_their_documents() {
        let site = std::env::temp_dir().join(format!("nearlight-docs-{}", std::process::id()));
        std::fs::create_dir_all(site.join("docs/results")).expect("a folder");
        for page in ["docs/server.html", "docs/results/wifi.html", "secret.html"] {
            std::fs::write(site.join(page), "").expect("written");
        }
        assert_eq!(page_of(&site, None).expect("the first page"), site.join("index.html"));
        for name in ["server", "results/wifi"] {
            assert!(page_of(&site, Some(name)).is_ok(), "{name}");
        }
        for name in ["", "none", "../secret", "server.html"] {
            assert!(page_of(&site, Some(name)).is_err(), "{name}");
        }
        std::fs::remove_dir_all(site).expect("removed");
    }
}
