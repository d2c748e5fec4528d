//! The native module as Python loads it. Cargo builds it for this test, into the test's folder.

use std::path::PathBuf;
use std::process::Command;

fn module() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    test.with_file_name("libnearlight_python.so")
}

fn readelf(option: &str) -> String {
    let output = Command::new("readelf").args(["--wide", option]).arg(module()).output();
    let output = output.expect("readelf, of the C compiler's tools");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One build works with every Python from 3.11 on: it links no particular Python library, and exports one entry point.
#[test]
fn the_module_fits_every_interpreter() {
    let needed = readelf("--dynamic");
    let libraries: Vec<&str> = needed.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!libraries.is_empty() && !libraries.iter().any(|line| line.contains("python")), "{libraries:?}");
    let symbols = readelf("--dyn-syms");
    let of_python = |line: &&str| line.contains("UND") && line.contains(" Py");
    assert!(symbols.lines().filter(of_python).count() > 50, "the interpreter has the rest");
    let own = symbols.lines().filter(|line| !line.contains("UND")).filter_map(|line| line.split_whitespace().nth(7));
    let entrances: Vec<&str> = own.filter(|name| name.starts_with("PyInit_")).collect();
    assert_eq!(entrances, ["PyInit__native"]);
}
