//! The time that a complete frame of 43 packets takes between two network namespaces: `frame_burst NEAR FAR [ROUNDS]`, with the namespaces'
//! files, `near` with 10.77.0.1 in the one, `far` with 10.77.0.2 in the other. For `AF_XDP`, whose program in the kernel takes every frame
//! of an interface, there are two more cables: from `near-driver` to `far-driver` and from `near-generic` to `far-generic`.
//! `scripts/bench-ethernet.sh` makes them all.
//!
//! Each round sends one frame by each method in turn, so that other load on the machine affects all of them equally. The time is measured
//! from before the first system call until the receiver has read the last packet. Nothing is encrypted.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod express;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("frame_burst: Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::fs::File;
    use std::io::{IoSlice, IoSliceMut};
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::{Duration, Instant};

    use nearlight_net::packet::{Frames, HEADER_BYTES, PacketSocket};
    use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    use crate::express::{Mode, Socket};

    const PACKETS: usize = 43;
    const BYTES: usize = 1_400;
    const METHODS: [&str; 4] = ["raw frames, sendmmsg", "UDP, sendmmsg", "UDP, a send for each", "UDP, GSO and GRO"];
    const EXPRESS: [(&str, &str, Mode); 2] = [
        ("raw frames, AF_XDP in the driver", "driver", Mode::Driver),
        ("raw frames, AF_XDP generic", "generic", Mode::Generic),
    ];
    /// Header of the frames that `AF_XDP` sends: broadcast, from an address of our own, with our EtherType.
    const HEADER: [u8; HEADER_BYTES] = [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    const NEAR: &str = "10.77.0.1:7000";
    const FAR: &str = "10.77.0.2:7000";

    pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

    /// Channels between sender and receiver: the number of packets to wait for, and the time at which the last one arrived. None if one was
    /// lost.
    struct Lines {
        begin: Sender<usize>,
        done: Receiver<Option<Instant>>,
    }

    pub fn main() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().collect();
        let [_, near, far, rest @ ..] = &arguments[..] else { return Err("frame_burst NEAR FAR [ROUNDS]".into()) };
        let rounds: usize = rest.first().map_or(Ok(300), |text| text.parse())?;
        let (near, far) = (near.clone(), far.clone());
        #[expect(clippy::disallowed_methods, reason = "at most one message waits")]
        let ((begin, begun), (ended, done)) = (channel(), channel());
        let (mut methods, mut senders, mut receivers) = (METHODS.to_vec(), Vec::new(), Vec::new());
        for (name, cable, mode) in EXPRESS {
            let far_end = open_in(&far, format!("far-{cable}"), Some(mode));
            match far_end.and_then(|far_end| Ok((open_in(&near, format!("near-{cable}"), None)?, far_end))) {
                Ok((near_end, far_end)) => {
                    methods.push(name);
                    senders.push(near_end);
                    receivers.push(far_end);
                }
                Err(error) => println!("{name}: not measured: {error}"),
            }
        }
        let receiving = thread::spawn(move || receive(&far, receivers, &begun, &ended));
        let times = thread::spawn(move || send(&near, rounds, senders, &Lines { begin, done }));
        let times = times.join().expect("no panic").map_err(|error| error.to_string())?;
        receiving.join().expect("no panic").map_err(|error| error.to_string())?;
        println!("{PACKETS} packets of {BYTES} bytes, {rounds} rounds; microseconds      least  median    p99    lost");
        for (method, mut times) in methods.iter().zip(times) {
            times.sort_unstable();
            let at =
                |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default().as_micros();
            println!("{method:<55} {:>7} {:>7} {:>7} {:>6}", at(0.0), at(0.5), at(0.99), rounds - times.len());
        }
        Ok(())
    }

    fn enter(namespace: &str) -> Outcome<()> {
        Ok(move_into_link_name_space(File::open(namespace)?.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// A socket stays in the namespace in which it was opened, so only this thread enters it.
    fn open_in(namespace: &str, interface: String, receives: Option<Mode>) -> Outcome<Socket> {
        let namespace = namespace.to_owned();
        let opening = thread::spawn(move || {
            enter(&namespace)?;
            Socket::open(&interface, receives)
        });
        opening.join().expect("no panic")
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    fn now() -> Instant {
        Instant::now()
    }

    fn is_readable(socket: BorrowedFd<'_>, limit: Duration) -> Outcome<bool> {
        let limit = rustix::time::Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
        Ok(poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&limit))? > 0)
    }

    fn receive(
        namespace: &str,
        mut express: Vec<Socket>,
        begun: &Receiver<usize>,
        ended: &Sender<Option<Instant>>,
    ) -> Outcome<()> {
        enter(namespace)?;
        let packets = PacketSocket::open("far")?;
        let socket = UdpSocket::bind(FAR)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let mut frames = Frames::new(1_500);
        let mut buffers = vec![vec![0; 1 << 16]; BATCH_SIZE];
        while let Ok(method) = begun.recv() {
            let mut bytes = 0;
            // The sender begins when it learns that this end is waiting.
            ended.send(None)?;
            let limit = Duration::from_millis(100);
            while bytes < PACKETS * BYTES {
                if let Some(express) = method.checked_sub(METHODS.len()).map(|place| &mut express[place]) {
                    if !express.wait(limit)? {
                        break;
                    }
                    bytes += express.receive()?;
                    continue;
                }
                let waits = if method == 0 { packets.as_fd() } else { socket.as_fd() };
                if !is_readable(waits, limit)? {
                    break;
                }
                if method == 0 {
                    packets.recv(&mut frames)?;
                    bytes += frames.iter().map(|(_, _, payload)| payload.len()).sum::<usize>();
                    continue;
                }
                let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
                let mut metas = [RecvMeta::default(); BATCH_SIZE];
                let count = state.recv(UdpSockRef::from(&socket), &mut slices, &mut metas)?;
                bytes += metas[..count].iter().map(|meta| meta.len).sum::<usize>();
            }
            ended.send((bytes >= PACKETS * BYTES).then(now))?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "frames are apart in time, as those of a stream")]
    fn pause() {
        thread::sleep(Duration::from_millis(2));
    }

    /// Sends the frames. Returns the times of each method.
    fn send(namespace: &str, rounds: usize, mut express: Vec<Socket>, lines: &Lines) -> Outcome<Vec<Vec<Duration>>> {
        enter(namespace)?;
        let packets = PacketSocket::open("near")?;
        let socket = UdpSocket::bind(NEAR)?;
        let far: SocketAddr = FAR.parse()?;
        socket.connect(far)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let address = "02:00:00:00:00:02".parse()?;
        let payloads = vec![vec![7; BYTES]; PACKETS];
        let whole = vec![7; BYTES * PACKETS];
        let mut times = vec![Vec::new(); METHODS.len() + express.len()];
        // One round to warm up: addresses are resolved.
        for round in 0..=rounds {
            for (method, times) in times.iter_mut().enumerate() {
                pause();
                lines.begin.send(method)?;
                lines.done.recv()?;
                pause();
                let began = now();
                match method {
                    0 => drop(packets.send(address, &payloads)?),
                    1 => send_many(&socket, &payloads)?,
                    2 => payloads.iter().try_for_each(|payload| socket.send(payload).map(drop))?,
                    3 => {
                        let segments = state.max_gso_segments().max(1);
                        for contents in whole.chunks(BYTES * segments) {
                            let segment_size = (segments > 1).then_some(BYTES);
                            let transmit =
                                Transmit { destination: far, ecn: None, contents, segment_size, src_ip: None };
                            state.send(UdpSockRef::from(&socket), &transmit)?;
                        }
                    }
                    _ => express[method - METHODS.len()].send(&HEADER, &payloads)?,
                }
                let ended = lines.done.recv()?;
                times.extend(ended.filter(|_| round > 0).map(|ended| ended - began));
            }
        }
        Ok(times)
    }

    fn send_many(socket: &UdpSocket, payloads: &[Vec<u8>]) -> Outcome<()> {
        let slices: Vec<_> = payloads.iter().map(|payload| [IoSlice::new(payload)]).collect();
        let mut ancillary: Vec<_> = payloads.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let messages = slices.iter().zip(&mut ancillary);
        let mut messages: Vec<_> = messages.map(|(slices, ancillary)| MMsgHdr::new(slices, ancillary)).collect();
        sendmmsg(socket, &mut messages, SendFlags::empty())?;
        Ok(())
    }
}
