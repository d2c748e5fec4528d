//! Real processes behind real links. Counts, medians of counts and invariants; never the tails of a clock.
//!
//! Where neither root nor user namespaces are available, a test prints the reason and passes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nearlight_emulate::{Layer, Link, LinkMethod, LinkOptions, MethodChoice, OpenError, Report};
use nearlight_link::{DropReason, PathSpec};

fn options(up: &str, down: &str) -> LinkOptions {
    let loaded = |spec: &str| spec.parse::<PathSpec>().expect("a path").load().expect("no files");
    LinkOptions {
        up: loaded(up),
        down: loaded(down),
        seeds: [1, 2],
        layer: Layer::Ip,
        wanted: MethodChoice::Any,
        service: None,
    }
}

/// A link by these means; None, with a printed reason, where the system does not allow them.
fn open(options: &LinkOptions) -> Option<Link> {
    match Link::open(options) {
        Ok(link) => Some(link),
        Err(OpenError::Refused(refusals)) => {
            eprintln!("skipped: {}", OpenError::Refused(refusals));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Other tests pass where no link can be created; this one fails where another program can create what a link needs.
#[test]
fn what_the_system_allows_is_made() {
    let allows = |program: &str, arguments: &[&str]| {
        let made = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        made.is_ok_and(|status| status.success())
    };
    let interface = ["--net", "ip", "tuntap", "add", "mode", "tun", "name", "probe"];
    let mapped = [&["--user", "--map-root-user"][..], &interface].concat();
    for (means, arguments) in [(LinkMethod::Root, &interface[..]), (LinkMethod::User, &mapped)] {
        if allows("unshare", arguments) {
            let link = Link::open(&LinkOptions { wanted: MethodChoice::Only(means), ..options("", "") });
            assert!(link.is_ok(), "unshare can, and a link by {means}: {}", link.err().expect("no link"));
        }
    }
}

/// All kinds of interfaces that the system allows.
fn namespaced(up: &str, down: &str) -> Vec<Link> {
    let wanted = [LinkMethod::Root, LinkMethod::User].map(MethodChoice::Only);
    wanted.into_iter().filter_map(|wanted| open(&LinkOptions { wanted, ..options(up, down) })).collect()
}

/// Runs a shell command line behind the link.
fn behind(link: &Link, line: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", line]);
    link.enter(&mut command);
    command
}

fn finish(mut child: Child) {
    assert!(child.wait().expect("a child").success());
}

/// A socket of this machine that commands behind any link can reach.
fn service() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let port = socket.local_addr().expect("bound").port();
    (socket, port)
}

/// Answers every datagram with `copies` of it, until the socket has been silent for ten seconds.
fn echo(socket: UdpSocket, copies: usize) {
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            (0..copies).for_each(|_| drop(socket.send_to(&buffer[..length], from)));
        }
    });
}

/// Offers `count` datagrams of `size` bytes to the host, from inside, and waits long enough for the last of them.
fn send(link: &Link, port: u16, count: u32, size: u32) -> Report {
    let line = format!(
        "exec 3>/dev/udp/{}/{port}; payload=$(printf '%{size}s' x); \
         for ((i = 0; i < {count}; i++)); do printf %s \"$payload\" >&3; done; sleep 0.5",
        link.host()
    );
    finish(behind(link, &line).spawn().expect("bash"));
    link.report()
}

#[test]
fn a_command_reaches_the_hosts_services_through_the_link() {
    for link in namespaced("delay=20ms", "delay=30ms") {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a listener");
        let port = listener.local_addr().expect("bound").port();
        let answering = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut question = [0; 5];
            stream.read_exact(&mut question).expect("a question");
            stream.write_all(b"pong\n").expect("answered");
            // Not before the client ends: TCP keeps retransmitting unacknowledged data, which would reach the next link's client.
            assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
            question
        });
        let line = format!(
            "exec 3<>/dev/tcp/$NEARLIGHT_LINK_HOST/{port}; start=${{EPOCHREALTIME/./}}; printf 'ping\\n' >&3; read answer <&3; \
             echo $answer $(( ${{EPOCHREALTIME/./}} - start )); exec 3>&-; sleep 0.5"
        );
        let output = behind(&link, &line).stderr(Stdio::inherit()).output().expect("bash");
        assert_eq!(&answering.join().expect("served"), b"ping\n");
        let text = String::from_utf8(output.stdout).expect("text");
        let (answer, micros) = text.trim().split_once(' ').expect("two words");
        assert_eq!(answer, "pong", "by {}", link.means());
        // No answer comes before the delays of both directions are over.
        assert!(micros.parse::<u64>().expect("a number") >= 50_000, "{micros} us by {}", link.means());
        let report = link.report();
        assert!(report.up.delivered.packets >= 3 && report.down.delivered.packets >= 2, "{report:?}");
        assert_eq!((report.up.lost(), report.up.missed, report.up.refused), (0, 0, 0), "{report:?}");
    }
}

#[test]
fn packets_leave_at_the_paths_rate() {
    for link in namespaced("rate=2mbit,queue=unlimited", "") {
        let (socket, port) = service();
        // 1,000 IP packets of 1,200 bytes are 4.8 seconds of 2 Mb/s; all of them wait in the queue at once.
        let line = format!(
            "exec 3>/dev/udp/{}/{port}; payload=$(printf '%1172s' x); for ((i = 0; i < 1000; i++)); do printf %s \"$payload\" >&3; \
             done; sleep 4",
            link.host()
        );
        let mut child = behind(&link, &line).spawn().expect("bash");
        let mut buffer = [0; 2_048];
        let mut skip = |count| {
            for _ in 0..count {
                socket.recv_from(&mut buffer).expect("a datagram within ten seconds");
            }
        };
        skip(100);
        let before = link.report();
        skip(600);
        let after = link.report();
        child.kill().expect("it sleeps");
        child.wait().expect("a child");
        let packets = after.up.delivered.packets - before.up.delivered.packets;
        let bytes = after.up.delivered.bytes - before.up.delivered.bytes;
        assert_eq!(bytes, packets * 1_200, "by {}", link.means());
        let rate = bytes as f64 * 8.0 / (after.seconds - before.seconds);
        assert!((rate / 2e6 - 1.0).abs() < 0.03, "{rate} bit/s by {}", link.means());
    }
}

#[test]
fn losses_have_their_share() {
    for link in namespaced("loss=10%", "") {
        let (_socket, port) = service();
        let report = send(&link, port, 4_000, 100);
        let (offered, lost) = (report.up.offered.packets, report.up.dropped_for(DropReason::Loss));
        // A host that stalls for longer than the interface's queue lasts misses some, which is reported.
        assert_eq!(offered + report.up.missed, 4_000, "{report:?}");
        assert_eq!(report.up.delivered.packets + lost, offered);
        // The binomial's mean and five of its deviations.
        let (mean, deviation) = (0.1 * offered as f64, (0.09 * offered as f64).sqrt());
        assert!((lost as f64 - mean).abs() < 5.0 * deviation, "{lost} of {offered} by {}", link.means());
    }
}

#[test]
fn queues_drop_and_copies_arrive() {
    for link in namespaced("rate=1mbit,queue=20p,duplicate=20%", "delay=1ms") {
        let (socket, port) = service();
        echo(socket, 1);
        let report = send(&link, port, 500, 972);
        let up = &report.up;
        assert_eq!(up.offered.packets, 500);
        let dropped = up.dropped_for(DropReason::QueueFull);
        assert!(dropped > 300, "the burst overflows the queue: {up:?}");
        assert_eq!(up.delivered.packets + dropped + up.on_the_way, 500, "{up:?}");
        // At most every delivered packet was duplicated, and at least one of at least twenty.
        assert!((1..=up.delivered.packets).contains(&up.duplicates), "{up:?}");
        assert!(report.down.offered.packets >= up.delivered.packets, "each is echoed: {report:?}");
        assert_eq!(report.down.lost(), 0);
    }
}

#[test]
fn ethernet_frames_pass_too() {
    let ethernet = LinkOptions { layer: Layer::Ethernet, ..options("delay=5ms", "delay=5ms") };
    for wanted in [LinkMethod::Root, LinkMethod::User].map(MethodChoice::Only) {
        let Some(link) = open(&LinkOptions { wanted, ..ethernet.clone() }) else { continue };
        let (socket, port) = service();
        echo(socket, 3);
        let report = send(&link, port, 50, 500);
        assert!(report.up.offered.packets > 50, "address resolution comes on top: {report:?}");
        assert!(report.down.offered.packets >= 150, "by {}: {report:?}", link.means());
    }
}

#[test]
fn two_links_do_not_meet() {
    let links = [namespaced("delay=5ms", "delay=5ms"), namespaced("delay=5ms,loss=100%", "delay=5ms")];
    let (socket, port) = service();
    echo(socket, 1);
    for (open, closed) in links[0].iter().zip(&links[1]) {
        if open.means() == LinkMethod::Root {
            assert_ne!(open.host(), closed.host(), "both have an interface on this machine");
        }
        let children = [open, closed].map(|link| {
            let line = format!("exec 3<>/dev/udp/{}/{port}; printf hello >&3; timeout 1 head -c 5 <&3", link.host());
            behind(link, &line).stdout(Stdio::piped()).spawn().expect("bash")
        });
        let heard = children.map(|child| child.wait_with_output().expect("a child").stdout);
        assert_eq!(heard, [b"hello".to_vec(), Vec::new()], "by {}", open.means());
    }
}

#[test]
fn a_killed_command_leaves_the_link_usable() {
    for link in namespaced("delay=10ms", "delay=10ms") {
        let mut child = behind(&link, "exec sleep 1000").spawn().expect("bash");
        child.kill().expect("killed");
        assert_eq!(child.wait().expect("a child").signal(), Some(9));
        assert!(behind(&link, "true").status().expect("bash").success());
        assert_eq!(behind(&link, "exit 7").status().expect("bash").code(), Some(7));
    }
}

#[test]
fn nothing_remains_of_a_link() {
    let Some(link) = open(&LinkOptions { wanted: MethodChoice::Only(LinkMethod::Root), ..options("", "") }) else {
        return;
    };
    let host: SocketAddr = (link.host(), 0).into();
    assert!(UdpSocket::bind(host).is_ok(), "the address is this machine's");
    let mut child = behind(&link, "exec sleep 1000").spawn().expect("bash");
    drop(link);
    assert!(UdpSocket::bind(host).is_err(), "and is gone with the link");
    child.kill().expect("killed");
    child.wait().expect("a child");
}

#[test]
fn a_command_keeps_its_identity_in_a_user_namespace() {
    let user = LinkOptions { wanted: MethodChoice::Only(LinkMethod::User), ..options("", "") };
    let Some(link) = open(&user) else { return };
    let ours = Command::new("id").output().expect("id").stdout;
    let theirs = behind(&link, "id -u; id -g").output().expect("bash").stdout;
    let numbers = String::from_utf8(theirs).expect("text");
    let [user, group] = numbers.lines().collect::<Vec<_>>()[..] else { panic!("{numbers}") };
    let ours = String::from_utf8(ours).expect("text");
    assert!(ours.contains(&format!("uid={user}")) && ours.contains(&format!("gid={group}")), "{ours}, {numbers}");
}

#[test]
fn a_relay_carries_datagrams_and_passes_streams_on() {
    let (socket, port) = service();
    echo(socket, 1);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let relayed = LinkOptions {
        wanted: MethodChoice::Only(LinkMethod::Relay),
        service: Some((Ipv4Addr::LOCALHOST, port).into()),
        ..options("delay=5ms,loss=10%", "delay=5ms")
    };
    let link = Link::open(&relayed).expect("a relay needs nothing");
    let relay: SocketAddr = (link.host(), link.port().expect("a relay has a port")).into();
    for _ in 0..2 {
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        client.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        let mut heard = 0;
        for _ in 0..10 {
            for _ in 0..50 {
                client.send_to(b"hello", relay).expect("sent");
            }
            while client.recv(&mut [0; 64]).is_ok() {
                heard += 1;
            }
        }
        // The binomial's mean of 450 and five of its deviations (6.7).
        assert!((416..=484).contains(&heard), "{heard} of 500");
    }
    let report = link.report();
    assert_eq!((report.up.offered.packets, report.up.offered.bytes), (1_000, 33_000));
    assert_eq!(report.down.offered.packets, report.up.delivered.packets, "{report:?}");
    if let Ok(listener) = listener {
        let mut client = std::net::TcpStream::connect(relay).expect("connected");
        let (mut served, _) = listener.accept().expect("passed on");
        client.write_all(b"page?").expect("asked");
        let mut question = [0; 5];
        served.read_exact(&mut question).expect("heard");
        assert_eq!(&question, b"page?");
    }
}

#[test]
fn what_cannot_be_made_is_explained() {
    let relay = LinkOptions { wanted: MethodChoice::Only(LinkMethod::Relay), ..options("", "") };
    let error = Link::open(&relay).err().expect("no service is known").to_string();
    assert!(error.contains("--service") && error.contains("a relay for UDP"), "{error}");
}
