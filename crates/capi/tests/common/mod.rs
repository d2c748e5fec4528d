//! Building and running C programs against the library.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nearlight_net::Link;

/// A folder of its own for the test's files; removed at the end.
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

/// Of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo has put the shared library: beside this test.
pub fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.parent().expect("a folder").to_owned()
}

pub fn build(source: &Path, program: &Path) {
    build_with(source, program, &[]);
}

/// `more` are further arguments for the linker.
pub fn build_with(source: &Path, program: &Path, more: &[&str]) {
    let libraries = libraries();
    let output = Command::new("cc")
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-g"])
        // Finds what the program reads after it was given back, what is freed twice, and what is never freed, in the library too.
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(root().join("include"))
        .arg(source)
        .arg(libraries.join("libnearlight.so"))
        .args(more)
        .args(["-lm", "-o"])
        .arg(program)
        .output()
        .expect("a C compiler, which the build needs too");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Under the name that the linker has noted, as an installation has it.
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

/// A running program; ended at the latest when this is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program once it has printed its link, with more variables in its environment.
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
