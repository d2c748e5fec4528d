//! Hera in this machine's kernel. Needs root and a kernel that takes it: skipped with the reason where it does not.

#![cfg(all(target_os = "linux", feature = "bpf"))]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use nearlight_kernel::{Group, InstanceStatus, KernelError, LoadOptions, LoadedLaw, load, status, unload};
use nearlight_net::tcp::{available_congestion_control, congestion_control, set_congestion_control};
use nearlight_window::HeraOptions;

/// More than a window of any law at its beginning.
const DATA: usize = 8 << 20;

/// Loads Hera under a name of the test's own; prints why not where this machine does not let it.
fn loaded(options: &LoadOptions) -> Option<LoadedLaw> {
    match load(options) {
        Ok(loaded) => Some(loaded),
        Err(
            reason @ (KernelError::NotRoot
            | KernelError::Contained
            | KernelError::NoTypes { .. }
            | KernelError::TooOld { .. }
            | KernelError::NoStructOps { .. }),
        ) => {
            eprintln!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn named(test: &str) -> LoadOptions {
    // Tests run at the same time, and so may other copies of them.
    LoadOptions { name: format!("{test}_{}", std::process::id()), ..LoadOptions::default() }
}

/// Unloads what is pinned, whatever fails.
struct Unload<'a>(&'a str);

impl Drop for Unload<'_> {
    fn drop(&mut self) {
        let _ = unload(self.0);
    }
}

fn is_available(name: &str) -> bool {
    available_congestion_control().expect("Linux lists them").iter().any(|known| known == name)
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
    (one, listener.accept().expect("a connection").0)
}

/// Sends data from one end to the other.
fn transfer(from: &mut TcpStream, to: &mut TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&vec![7; DATA]).expect("it is received"));
        to.read_exact(&mut vec![0; DATA]).expect("it is sent");
    });
}

fn status_of(name: &str) -> Option<InstanceStatus> {
    status().expect("it loads, so it shows").into_iter().find(|law| law.name == name)
}

#[test]
fn a_flow_of_hera_is_seen_with_its_histogram() {
    let options = LoadOptions { hera: HeraOptions { buckets: 8, ..HeraOptions::default() }, ..named("seen") };
    let Some(law) = loaded(&options) else { return };
    assert!(is_available(&options.name) && law.is_registered());
    let (mut from, mut to) = connection();
    set_congestion_control(&from, &options.name).expect("everybody may select it");
    transfer(&mut from, &mut to);
    let status = status_of(&options.name).expect("it is loaded");
    assert!(status.registered && status.held_by == [std::process::id()] && status.pinned.is_none(), "{status:?}");
    assert_eq!((status.parameters.buckets, status.parameters.limit), (8, Some(1_000)));
    let [flow] = &status.flows[..] else { panic!("one flow: {status:?}") };
    assert_eq!((flow.local, flow.remote), (from.local_addr().expect("bound"), to.local_addr().expect("bound")));
    assert_eq!((flow.state, flow.histogram.len()), ("established", 8));
    // Loopback takes less than a bucket of 15 ms, so the window has grown, and every sample is in the lowest buckets.
    assert!(flow.samples > 0 && flow.steps > 0 && flow.window >= 10, "{flow:?}");
    assert_eq!(flow.histogram.iter().sum::<u64>(), flow.samples.min(1_000), "{flow:?}");
    assert!(flow.histogram[0] > 0 && flow.acknowledged_bytes >= DATA as u64 / 2, "{flow:?}");
    // A flow that chooses another law is not Hera's any more.
    set_congestion_control(&from, "reno").expect("every kernel has it");
    assert!(status_of(&options.name).expect("still loaded").flows.is_empty());
}

#[test]
fn two_of_one_name_are_refused_and_another_process_s_is_removed() {
    let options = named("twice");
    let Some(law) = loaded(&options) else { return };
    assert!(matches!(load(&options), Err(KernelError::AlreadyLoaded(name)) if name == options.name));
    let (mut from, mut to) = connection();
    set_congestion_control(&from, &options.name).expect("loaded");
    assert_eq!(unload(&options.name).expect("loaded").flows, 1);
    assert!(!law.is_registered() && !is_available(&options.name));
    // What uses it goes on.
    transfer(&mut from, &mut to);
    assert_eq!(congestion_control(&from).expect("a socket"), options.name);
    assert!(status_of(&options.name).is_some_and(|status| !status.registered && status.flows.len() == 1));
    assert!(matches!(unload(&options.name), Err(KernelError::NotLoaded { .. })));
}

#[test]
fn it_stays_as_long_as_it_is_held_or_pinned() {
    let options = named("held");
    let Some(law) = loaded(&options) else { return };
    drop(law);
    assert!(!is_available(&options.name));
    let options = LoadOptions { pin: true, ..options };
    let _unload = Unload(&options.name);
    drop(load(&options).expect("as before"));
    let status = status_of(&options.name).expect("pinned");
    assert!(status.registered && status.held_by.is_empty(), "{status:?}");
    let pinned = status.pinned.expect("a file");
    unload(&options.name).expect("pinned");
    assert!(!is_available(&options.name) && !pinned.exists());
}

#[test]
fn a_command_s_sockets_have_it_and_no_others() {
    let options = named("group");
    let Some(_law) = loaded(&options) else { return };
    let group = match Group::create(&options.name) {
        Ok(group) => group,
        Err(KernelError::NoControlGroups) => {
            eprintln!("skipped: {}", KernelError::NoControlGroups);
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    // The shell's own socket, without any option set.
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r go <&3");
    let mut command = Command::new("bash");
    command.args(["-c", &line]).stdin(Stdio::null());
    let mut child = group.enter(|| command.spawn()).expect("a group").expect("bash");
    let (mut accepted, remote) = listener.accept().expect("the shell connects");
    let flows = status_of(&options.name).expect("loaded").flows;
    assert!(flows.len() == 1 && flows[0].local == remote, "the shell's alone: {flows:?}");
    assert_ne!(congestion_control(&accepted).expect("a socket"), options.name);
    accepted.write_all(b"go\n").expect("connected");
    assert!(child.wait().expect("a child").success());
    assert_eq!(group.counts(), (1, 0));
    let (later, _other) = connection();
    assert_ne!(congestion_control(&later).expect("a socket"), options.name);
}
