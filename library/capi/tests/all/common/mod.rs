//! Builds C programs against the library and runs them.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nearlight_net::Link;

/// A folder for the test's files, which is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearlight-capi-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the root folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder into which cargo has put the shared library, which is that of this test.
pub fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.parent().expect("a folder").to_owned()
}

/// Builds a C program against the shared library.
pub fn build(source: &Path, program: &Path) {
    build_with(source, program, &[]);
}

/// Builds a C program like [`build`], with further arguments for the linker in `more`.
pub fn build_with(source: &Path, program: &Path, more: &[&str]) {
    let libraries = libraries();
    let output = Command::new("cc")
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-g"])
        // Finds uses after free, double frees and leaks, also in the library.
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(root().join("library/include"))
        .arg(source)
        .arg(libraries.join("libnearlight.so"))
        .args(more)
        .args(["-lm", "-o"])
        .arg(program)
        .output()
        .expect("a C compiler, which the build needs too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The name that the linker has recorded, as in an installation.
    let real = libraries.join("libnearlight.so");
    let name = program.with_file_name(soname(&real));
    let _ = std::fs::remove_file(&name);
    std::os::unix::fs::symlink(&real, &name).expect("a link");
}

fn soname(library: &Path) -> String {
    let output = Command::new("readelf").arg("-d").arg(library).output().expect("readelf, of the C compiler's tools");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("SONAME")).expect("a name for the dynamic linker");
    line.split(['[', ']']).nth(1).expect("a name in brackets").to_owned()
}

/// A running program, which is ended when this value is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program with further environment variables, and waits until it has printed its link.
pub fn start(program: &Path, environment: &[(&str, &str)]) -> (Running, BufReader<ChildStdout>, Link) {
    let mut command = Command::new(program);
    command
        .envs(environment.iter().copied())
        .env("LD_LIBRARY_PATH", program.parent().expect("a folder"))
        .stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("the program starts"));
    let mut output = BufReader::new(running.0.stdout.take().expect("piped"));
    let mut faults = String::new();
    loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).is_ok_and(|count| count > 0), "the program ended early: {faults}");
        if let Some(link) = line.strip_prefix("LINK ") {
            assert!(faults.is_empty(), "{faults}");
            return (running, output, Link::parse(link.trim()).expect("a link"));
        }
        faults.push_str(&line);
    }
}

/// A virtual screen for programs with a window.
pub struct Xvfb {
    _server: Running,
    pub display: String,
}

impl Xvfb {
    pub fn start(size: &str) -> Self {
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", size, "-nolisten", "tcp", "-noreset"]);
        let server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut server = Running(server.expect("Xvfb, which `make test` installs"));
        let mut number = String::new();
        BufReader::new(server.0.stdout.as_mut().expect("piped")).read_line(&mut number).expect("a display's number");
        Self { _server: server, display: format!(":{}", number.trim()) }
    }
}
