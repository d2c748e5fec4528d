//! The library is installed under a prefix, found by pkg-config and linked into a C and a C++ program, as users do.

use crate::common;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, Running, libraries, root};
use nearlight_client::headless::watch_until;
use nearlight_client::{HeadlessOptions, ViewOptions};
use nearlight_net::{Clock, Link};
use tokio::sync::watch;

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("the tools that the build needs too");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn pkg_config(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(arguments).arg("nearlight");
    succeed(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// Returns how many pictures of a program a viewer displays in two seconds. Then terminates the program, which must end successfully.
async fn displayed(program: &Path, prefix: &Path) -> u64 {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", prefix.join("lib")).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("the program starts"));
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    let link = Link::parse(line.trim()).expect("a link");
    let (stop, stopped) = watch::channel(false);
    let watching = tokio::spawn(watch_until(HeadlessOptions::new(ViewOptions::new(link)), Clock::start(), stopped));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let _ = stop.send(true);
    let summary = watching.await.expect("no panic").expect("a run");
    succeed(Command::new("kill").arg(running.0.id().to_string()));
    assert!(running.0.wait().expect("an end").success());
    summary.frames.displayed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_find_the_installed_library_and_stream() {
    let folder = Folder::new("installed");
    let prefix = folder.0.join("prefix");
    let mut install = Command::new(root().join("scripts/install-library.sh"));
    succeed(install.arg(&prefix).env("NEARLIGHT_LIBRARY", libraries().join("libnearlight.a")).env_remove("DESTDIR"));
    for (compiler, standard, source) in [("cc", "-std=c99", "five_calls.c"), ("c++", "-std=c++17", "five_calls.cpp")] {
        let program = folder.0.join(source.replace('.', "_"));
        let mut build = Command::new(compiler);
        build.args([standard, "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"]);
        build.arg(root().join("library/examples").join(source)).arg("-o").arg(&program);
        succeed(build.args(pkg_config(&prefix, &["--cflags", "--libs"])));
        assert!(displayed(&program, &prefix).await > 0, "{source}: no picture was displayed");
    }
    // A statically linked program also needs the library's own dependencies.
    let program = folder.0.join("static");
    let mut build = Command::new("cc");
    build
        .args(["-std=c99", "-D_DEFAULT_SOURCE", "-O1"])
        .arg(root().join("library/examples/five_calls.c"))
        .arg("-o")
        .arg(&program);
    let flags = pkg_config(&prefix, &["--static", "--cflags", "--libs"]);
    // By default the linker prefers the shared library.
    succeed(build.args(flags.iter().map(|flag| if flag == "-lnearlight" { "-l:libnearlight.a" } else { flag })));
    let needed = succeed(Command::new("readelf").arg("-d").arg(&program));
    assert!(!needed.contains("libnearlight"), "{needed}");
}
