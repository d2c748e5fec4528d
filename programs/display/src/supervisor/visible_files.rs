//! The files outside the system's folders that a program in a sandbox can read: its own, those named on its command line, and those that the
//! owner has added.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::supervisor::sandbox::{is_system, is_the_sandboxes_own};

/// What an interpreter in the folder `bin` of its installation needs besides its own file: Python's and Java's, for example.
const INSTALLATION_ENTRIES: [&str; 5] = ["lib", "lib64", "libexec", "conf", "pyvenv.cfg"];
/// The folder in which version managers such as pyenv and rbenv keep the commands that choose a version, and the folder of the versions beside
/// it. The command needs all of the version manager.
const SHIM_FOLDERS: [&str; 2] = ["shims", "versions"];

/// A file or folder, and the paths by which the program finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VisibleFile {
    pub(crate) source: PathBuf,
    /// The path as it was given, made absolute, and the path without symbolic links.
    pub(crate) paths: Vec<PathBuf>,
}

/// What the sandbox shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VisibleFiles {
    pub(crate) files: Vec<VisibleFile>,
    /// Folders that were named and are not shown, because they hold folders of the sandbox's own.
    pub(crate) refused: Vec<PathBuf>,
    /// Whether a file is named relative to the working directory.
    pub(crate) relative: bool,
}

impl VisibleFiles {
    /// Finds what the program with this file and these arguments needs. `added` are the owner's further files. `home` is the home of the program's
    /// user, whose folders are not taken for those of an installation.
    pub(crate) fn of_command(
        program: &Path,
        arguments: &[OsString],
        added: &[PathBuf],
        directory: &Path,
        home: &Path,
    ) -> Self {
        let mut found = Self::default();
        found.add(program);
        for entry in installation(program, home) {
            found.add(&entry);
        }
        for path in added {
            found.add(&directory.join(path));
        }
        for word in arguments.iter().flat_map(|argument| candidates(argument)) {
            let path = directory.join(word);
            // Sockets and devices are no files that a program is given to read.
            if path.metadata().is_ok_and(|data| data.is_file() || data.is_dir()) {
                found.relative |= Path::new(word).is_relative();
                found.add(&path);
            }
        }
        found
    }

    fn add(&mut self, path: &Path) {
        let Ok(source) = path.canonicalize() else { return };
        let mut paths = vec![source.clone()];
        // The path before its last symbolic link, and the path as it was given.
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let beside = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        for other in beside.into_iter().chain(plain.then(|| path.components().collect())) {
            if !paths.contains(&other) {
                paths.push(other);
            }
        }
        paths.retain(|path| !is_system(path));
        if let Some(own) = paths.iter().find(|path| is_the_sandboxes_own(path)) {
            self.refused.push(own.clone());
        } else if !paths.is_empty() && !self.files.iter().any(|file| file.source == source && file.paths == paths) {
            self.files.push(VisibleFile { source, paths });
        }
    }
}

/// Returns the parts of an argument that may be paths: all of it, what follows `=`, and the members of a list with colons.
fn candidates(argument: &OsStr) -> impl Iterator<Item = &OsStr> {
    let bytes = argument.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map(|place| &bytes[place + 1..]);
    let whole = std::iter::once(bytes).chain(value);
    let parts = std::iter::once(bytes).chain(value).filter(|all| all.contains(&b':'));
    let parts = parts.flat_map(|all| all.split(|byte| *byte == b':'));
    whole.chain(parts).filter(|part| !part.is_empty() && !part.starts_with(b"-")).map(OsStr::from_bytes)
}

/// Returns the folders of the program's installation that it needs.
fn installation(program: &Path, home: &Path) -> Vec<PathBuf> {
    let mut entries = Vec::new();
    let resolved = program.canonicalize().ok();
    for file in std::iter::once(program).chain(resolved.as_deref()).filter(|file| !is_system(file)) {
        let Some((folder, prefix)) = file.parent().and_then(|folder| Some((folder, folder.parent()?))) else {
            continue;
        };
        if prefix == home || prefix.parent().is_none() {
            continue;
        }
        if folder.ends_with("bin") {
            entries.extend(INSTALLATION_ENTRIES.iter().map(|entry| prefix.join(entry)).filter(|entry| entry.exists()));
        }
        let [shims, versions] = SHIM_FOLDERS;
        if folder.ends_with(shims) && prefix.join(versions).is_dir() {
            entries.push(prefix.to_owned());
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A home with secrets, a program and a work folder, which is removed at the end.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nearlight-visible-{name}-{}", std::process::id()));
            for folder in [".ssh", "bin", "lib", "work/data", "python/bin", "python/lib"] {
                fs::create_dir_all(path.join(folder)).expect("a folder");
            }
            for file in
                [".ssh/id", "app", "bin/tool", "work/game.py", "work/data/level", "work/a.jar", "python/bin/python"]
            {
                fs::write(path.join(file), "").expect("a file");
            }
            Self(path.canonicalize().expect("it is there"))
        }

        fn shown(&self, program: &str, arguments: &[&str], added: &[&str]) -> VisibleFiles {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            let added: Vec<PathBuf> = added.iter().map(PathBuf::from).collect();
            VisibleFiles::of_command(&self.0.join(program), &arguments, &added, &self.0.join("work"), &self.0)
        }

        /// The paths below the home that the sandbox has.
        fn paths(&self, shown: &VisibleFiles) -> Vec<String> {
            let below = |path: &PathBuf| path.strip_prefix(&self.0).ok().map(|path| path.display().to_string());
            shown.files.iter().flat_map(|file| &file.paths).filter_map(below).collect()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_program_in_the_home_shows_itself_and_nothing_beside_it() {
        let home = Home::new("alone");
        assert_eq!(home.paths(&home.shown("app", &["--verbose"], &[])), ["app"]);
        assert_eq!(home.paths(&home.shown("bin/tool", &[], &[])), ["bin/tool"], "the home is no installation");
    }

    #[test]
    fn files_named_on_the_command_line_are_shown() {
        let home = Home::new("named");
        let absolute = home.0.join("work/data").display().to_string();
        for (arguments, paths, relative) in [
            (vec!["game.py"], vec!["work/game.py"], true),
            (vec!["-jar", "./a.jar"], vec!["work/a.jar"], true),
            (vec!["--data=data/level"], vec!["work/data/level"], true),
            (vec!["-cp", "a.jar:data", "Main"], vec!["work/a.jar", "work/data"], true),
            (vec![absolute.as_str()], vec!["work/data"], false),
            (vec!["../app"], vec!["app"], true),
            (vec!["none.py", "-x", "", "="], vec![], false),
        ] {
            let shown = home.shown("/usr/bin/env", &arguments, &[]);
            assert_eq!(
                (home.paths(&shown), shown.relative),
                (paths.into_iter().map(String::from).collect(), relative),
                "{arguments:?}"
            );
        }
        assert_eq!(home.paths(&home.shown("/usr/bin/env", &[], &["data"])), ["work/data"]);
    }

    #[test]
    fn an_interpreter_has_its_libraries_and_a_link_its_file() {
        let home = Home::new("links");
        symlink(home.0.join("python/bin/python"), home.0.join("work/python")).expect("a link");
        let shown = home.shown("work/python", &["game.py"], &[]);
        assert_eq!(home.paths(&shown), ["python/bin/python", "work/python", "python/lib", "work/game.py"]);
    }

    #[test]
    fn a_folder_with_the_sandboxes_own_folders_in_it_is_refused() {
        let home = Home::new("root");
        for folder in ["/", "/tmp", "/home"] {
            let shown = home.shown("/usr/bin/env", &[folder], &[]);
            assert_eq!((shown.files.len(), shown.refused), (0, vec![PathBuf::from(folder)]));
        }
    }
}
