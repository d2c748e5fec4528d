//! Where plans are found: in the folder `plans` of the working directory, else in that of the installation.

use std::path::{Path, PathBuf};

/// Folder of the plans in the source code.
const SOURCE_FOLDER: &str = "plans";
/// Folder of the plans in an installation, from the folder of the commands.
const INSTALLED_FOLDER: &str = "../share/nearlight/plans";

/// Returns the folders that may hold plans, the preferred one first.
fn folders() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let installed = own.as_deref().and_then(Path::parent).map(|commands| commands.join(INSTALLED_FOLDER));
    std::iter::once(PathBuf::from(SOURCE_FOLDER)).chain(installed).collect()
}

/// Returns the folder whose plans are listed: the one given, else the first that exists.
pub(super) fn folder(given: Option<&Path>) -> PathBuf {
    given
        .map(Path::to_owned)
        .or_else(|| folders().into_iter().find(|folder| folder.is_dir()))
        .unwrap_or_else(|| SOURCE_FOLDER.into())
}

/// Returns the file of a plan that is given by its path, or by its name as `lab list` prints it.
pub(super) fn file(given: &Path) -> anyhow::Result<PathBuf> {
    let is_name = given.components().count() == 1 && given.extension().is_none();
    if given.is_file() || !is_name {
        return Ok(given.to_owned());
    }
    let places: Vec<PathBuf> = folders().iter().map(|folder| folder.join(given).with_extension("toml")).collect();
    if let Some(place) = places.iter().find(|place| place.is_file()) {
        return Ok(place.clone());
    }
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    anyhow::bail!(
        "there is no plan `{}`: none of {} exists. `nearlight lab list` lists the plans; run it where Nearlight's folder \
         `{SOURCE_FOLDER}` is, or give the path of a TOML file",
        given.display(),
        places.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_by_its_name_and_by_its_path() {
        // Tests run in the crate's folder, where there are no plans.
        let unknown = file(Path::new("vrcc-stable")).expect_err("not here").to_string();
        assert!(unknown.contains("plans/vrcc-stable.toml") && unknown.contains("lab list"), "{unknown}");
        let path = Path::new("../../plans/vrcc-stable.toml");
        assert_eq!(file(path).expect("a path"), path);
    }
}
