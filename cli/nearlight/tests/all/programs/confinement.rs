//! What a served program must not reach or use up: each test is an attack from within. They need bubblewrap, Xvfb, Perl and util-linux.

use std::fs;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, is_root};
use crate::process::Process;
use crate::support::nearlight;

/// Serves a program with these options until it ends. Returns the server's log, in which its output is.
fn serve_until_it_ends(options: &[&str], program: &[&str]) -> (String, ExitStatus) {
    run(nearlight(), options, program)
}

fn run(mut command: Command, options: &[&str], program: &[&str]) -> (String, ExitStatus) {
    // The program's output is logged as information.
    command.env("NEARLIGHT_LOG", "info");
    command.args(["serve", "--json", "--port", "0", "--size", "64x64", "--sound", "off"]);
    command.args(["--program-gamepads", "auto"]).args(options).arg("--").args(program);
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status)
}

/// Whether the kernel lets bubblewrap make a sandbox. It does not within a chroot and in many containers.
fn sandboxes_are_possible() -> bool {
    let made = Command::new("bwrap").args(["--unshare-all", "--ro-bind", "/", "/", "true"]).output();
    let possible = made.is_ok_and(|output| output.status.success());
    if !possible {
        eprintln!("skipped: bubblewrap can make no sandbox on this machine");
    }
    possible
}

/// A command that runs `nearlight` by way of others.
fn nearlight_by(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_nearlight"));
    command
}

/// A folder that everyone can read, which is removed at the end.
struct OpenFolder(PathBuf);

impl OpenFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearlight-confined-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its owner");
        Self(path)
    }

    fn write(&self, name: &str, mode: u32, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its owner");
        path
    }
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_that_prints_without_end_fills_no_log_and_can_be_ended() {
    if !sandboxes_are_possible() {
        return;
    }
    let folder = OpenFolder::new("prints");
    let log = folder.0.join("log");
    let mut command = nearlight();
    command.env("NEARLIGHT_LOG", "info");
    command.args(["serve", "--json", "--port", "0", "--size", "64x64", "--", "yes"]);
    command.stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a file"));
    let mut server = Process(command.spawn().expect("the command starts"));
    let begun = Instant::now();
    let read = || fs::read_to_string(&log).unwrap_or_default();
    // Two notices: what lies between them was left out.
    while read().matches("are left out").count() < 2 {
        assert!(begun.elapsed() < PATIENCE * 2, "the log does not say what it leaves out: {} bytes", read().len());
        thread::sleep(Duration::from_millis(100));
    }
    assert!(read().len() < 8 << 20, "the log has {} bytes", read().len());
    let ended = Command::new("kill").args(["-TERM", &server.0.id().to_string()]).status().expect("kill");
    assert!(ended.success());
    let begun = Instant::now();
    while server.0.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < PATIENCE, "the server does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_has_no_more_memory_and_processes_than_its_limits() {
    if !sandboxes_are_possible() {
        return;
    }
    let eats = r#"$| = 1; my @held; for (1 .. 32) { push @held, "x" x (16 << 20); print "held $_\n" }"#;
    let (log, status) = serve_until_it_ends(&["--program-memory", "160M"], &["perl", "-e", eats]);
    assert!(log.contains("held 2") && !log.contains("held 20") && !status.success(), "{log}");
    let forks = r#"my @all; while (@all < 300) { my $p = fork; last unless defined $p; if (!$p) { sleep 60; exit } push @all, $p }
        print "forked ", scalar(@all), "\n"; kill 'KILL', @all;"#;
    let options = ["--program-processes", "60"];
    let (log, _) = serve_until_it_ends(&options, &["perl", "-e", forks]);
    if log.contains("any number of processes") {
        eprintln!("skipped: root's processes cannot be limited without control groups");
        return;
    }
    let forked = log.lines().find_map(|line| line.split_once("forked ")?.1.trim().parse::<u32>().ok());
    assert!(forked.is_some_and(|forked| (1..=60).contains(&forked)), "{log}");
}

#[test]
fn folders_in_memory_are_limited_too() {
    if !sandboxes_are_possible() {
        return;
    }
    let fills = "for place in /tmp /home/program /dev/shm /var/tmp /run /dev /; do \
                 head -c 60000000 /dev/zero > $place/filling 2>/dev/null; stat -c 'filled %s' $place/filling; done; true";
    let (log, _) = serve_until_it_ends(&["--program-memory", "120M"], &["sh", "-c", fills]);
    let filled = log.lines().filter_map(|line| line.split_once("filled ")?.1.trim().parse::<u64>().ok());
    let all: Vec<u64> = filled.collect();
    assert!(!all.is_empty() && all.iter().sum::<u64>() <= 120 << 20, "{all:?}: {log}");
}

#[test]
fn a_program_reads_its_file_and_those_of_its_command_line_and_nothing_beside_them() {
    if !sandboxes_are_possible() {
        return;
    }
    let folder = OpenFolder::new("files");
    let script = "#!/bin/sh\ncat \"$1\"; ls -a \"$(dirname \"$0\")\"; cat \"$(dirname \"$0\")/secret\"; \
                  echo changed > \"$1\" && echo written; true\n";
    let app = folder.write("app", 0o755, script);
    folder.write("secret", 0o644, "the key");
    folder.write("level", 0o666, "the level\n");
    let mut command = nearlight();
    command.current_dir(&folder.0);
    let (log, status) = run(command, &[], &[app.to_str().expect("text"), "level"]);
    assert!(status.success() && log.contains("the level"), "{log}");
    assert!(!log.contains("the key") && !log.contains(" written"), "{log}");
    // A file that the program names itself is not there; the log says which option shows it.
    let reads = format!("cat {}", folder.0.join("secret").display());
    let (log, status) = serve_until_it_ends(&[], &["sh", "-c", &reads]);
    assert!(!status.success() && log.contains("--program-files"), "{log}");
    let shown = folder.0.join("secret").display().to_string();
    let (log, _) = serve_until_it_ends(&["--program-files", &shown], &["sh", "-c", &reads]);
    assert!(log.contains("the key"), "{log}");
}

#[test]
fn secrets_of_the_servers_environment_reach_neither_program_nor_display() {
    if !sandboxes_are_possible() {
        return;
    }
    let prints = r"env; for file in /proc/[0-9]*; do
        case $(cat $file/comm 2>/dev/null) in Xvfb) tr '\0' '\n' < $file/environ;; esac; done 2>/dev/null; true";
    for sandbox in ["strict", "off"] {
        let mut command = nearlight();
        command.env("NEARLIGHT_TOKEN", "a-token-of-the-owner").env("AWS_SECRET_ACCESS_KEY", "a-key-of-the-owner");
        command.env("OTHER", "an-other").env("WANTED", "a-wanted");
        let options = ["--program-sandbox", sandbox, "--program-env", "WANTED", "--program-env", "GIVEN=a-given"];
        let (log, _) = run(command, &options, &["sh", "-c", prints]);
        assert!(log.contains("WANTED=a-wanted") && log.contains("GIVEN=a-given"), "{sandbox}: {log}");
        assert!(!log.contains("of-the-owner") && !log.contains("an-other"), "{sandbox}: {log}");
    }
}

/// Needs Linux 6.12 or pasta; elsewhere the server refuses.
#[test]
fn a_program_with_network_does_not_reach_abstract_sockets() {
    if !sandboxes_are_possible() {
        return;
    }
    let name = format!("nearlight-confined-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a socket");
    let connects = r#"use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0);
        print connect(S, pack_sockaddr_un("\0$ARGV[0]")) ? "reached\n" : "refused: $!\n";"#;
    let (log, _) = serve_until_it_ends(&["--program-network", "on"], &["perl", "-e", connects, &name]);
    assert!(log.contains("refused: ") || log.contains("apt install passt"), "{log}");
    assert!(!log.contains("reached"), "{log}");
}

#[test]
fn shared_memory_of_other_programs_cannot_be_written() {
    if !sandboxes_are_possible() {
        return;
    }
    let made = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output().expect("util-linux");
    let number = String::from_utf8_lossy(&made.stdout).trim().rsplit(' ').next().unwrap_or_default().to_owned();
    let writes = r#"print shmwrite($ARGV[0], "taken", 0, 5) ? "written\n" : "refused: $!\n";"#;
    let (log, _) = serve_until_it_ends(&[], &["perl", "-e", writes, &number]);
    let _ = Command::new("ipcrm").args(["-m", &number]).status();
    if log.contains("SysV shared memory of its user's other programs within reach") {
        eprintln!("skipped: this system gives the display no namespace of its own");
        return;
    }
    assert!(log.contains("refused: ") && !log.contains("written"), "{log}");
}

#[test]
fn a_program_creates_user_namespaces_only_if_it_may() {
    if !sandboxes_are_possible() {
        return;
    }
    let (log, status) = serve_until_it_ends(&[], &["unshare", "--user", "true"]);
    if log.contains("bubblewrap cannot disable them here") {
        eprintln!("skipped: this bubblewrap is older than 0.8");
        return;
    }
    assert!(!status.success(), "{log}");
    let (log, status) = serve_until_it_ends(&["--program-namespaces", "on"], &["unshare", "--user", "true"]);
    assert!(status.success(), "{log}");
}

/// Returns a field of all threads of a process.
fn of_all_threads(process: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("the process runs").flatten();
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let found = statuses.filter_map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    found.collect()
}

/// Needs root.
#[test]
fn a_server_that_root_starts_keeps_nothing_of_root() {
    if !is_root() {
        eprintln!("skipped: only root's server changes its user");
        return;
    }
    let mut command = nearlight();
    command.args(["serve", "--json", "--port", "0", "--test-card", "--size", "64x64", "--fps", "10"]);
    let mut server = Process(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts"));
    // It prints its links once clients can connect.
    let mut first = [0];
    server.0.stdout.as_mut().expect("piped").read_exact(&mut first).expect("an output");
    let process = server.0.id();
    let users = of_all_threads(process, "Uid:");
    assert!(!users.is_empty() && users.iter().all(|user| user.split(' ').all(|user| user != "0")), "{users:?}");
    for field in ["CapEff:", "CapPrm:"] {
        let capabilities = of_all_threads(process, field);
        assert!(capabilities.iter().all(|all| all.bytes().all(|digit| digit == b'0')), "{field} {capabilities:?}");
    }
}

/// Needs root, or a system that gives users namespaces.
#[test]
fn a_program_runs_in_a_container_with_one_user_and_without_the_right_to_change_it() {
    if !sandboxes_are_possible() {
        return;
    }
    let mut containers = vec![vec!["unshare", "--user", "--map-root-user"]];
    if is_root() {
        containers.push(vec!["setpriv", "--bounding-set=-setuid,-setgid", "--inh-caps=-all"]);
    }
    for words in containers {
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").status();
        if !tried.is_ok_and(|status| status.success()) {
            eprintln!("skipped: {words:?} is not possible here");
            continue;
        }
        let (log, status) = run(nearlight_by(&words), &[], &["sh", "-c", "echo it runs"]);
        assert!(status.success() && log.contains("it runs") && log.contains("as root ("), "{words:?}: {log}");
        let (log, status) = run(nearlight_by(&words), &["--program-user", "nobody"], &["true"]);
        assert!(!status.success() && log.contains("--program-user nobody is not possible"), "{words:?}: {log}");
    }
}

/// Needs root, or a system that gives users namespaces.
#[test]
fn a_read_only_folder_for_temporary_files_is_named() {
    let script = "mount -t tmpfs -o ro tmpfs /tmp && exec \"$@\"";
    let words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"];
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").status();
    let is_hidden = Path::new(env!("CARGO_BIN_EXE_nearlight")).starts_with("/tmp");
    if is_hidden || !tried.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let (log, status) = run(nearlight_by(&words), &[], &["true"]);
    assert!(!status.success() && log.contains("/tmp is read-only") && log.contains("--tmpfs /tmp"), "{log}");
}
