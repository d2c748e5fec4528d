#![no_main]

mod webrtc;

use nearlight_units::{Span, Time};
use nearlight_webrtc::player::Player;
use nearlight_webrtc::{Event, Offer, Peer, PeerConfig, Remote};
use webrtc::{ORIGIN, client, config, sender, server};

struct Session {
    now: Time,
    peer: Peer,
    player: Player,
    /// The client's newest datagram.
    last: Vec<u8>,
}

impl Session {
    fn new() -> Option<Self> {
        let now = Time::from_secs(1);
        let (mut player, offer) = Player::new(now, *ORIGIN, client(), false).ok()?;
        let offer = Offer::parse(&offer).ok()?;
        let config = PeerConfig { tcp_candidates: vec![], ..config() };
        let mut peer = Peer::answering(now, config, &offer, offer.video().first(), sender(now)).ok()?;
        let answer = peer.on_offer(now, &offer).ok()?;
        player.on_answer(now, &answer).ok()?;
        Some(Self { now, peer, player, last: Vec::new() })
    }

    /// Lets both ends go on for a while.
    fn step(&mut self) {
        self.now += Span::from_millis(100);
        self.peer.on_timeout(self.now);
        self.player.on_timeout(self.now);
        for _ in 0..64 {
            let down = self.peer.poll_transmit(self.now).filter(|transmit| transmit.to == Remote::udp(client()));
            if let Some(transmit) = &down {
                self.player.on_datagram(self.now, server(), &transmit.datagram);
            }
            let up = self.player.poll_transmit();
            if let Some(transmit) = &up {
                self.send(&transmit.datagram);
                self.last.clone_from(&transmit.datagram);
            }
            if down.is_none() && up.is_none() {
                break;
            }
        }
        while let Some(event) = self.peer.poll_event() {
            assert_ne!(event, Event::Failed, "the library panicked");
        }
    }

    fn send(&mut self, datagram: &[u8]) {
        self.peer.on_datagram(self.now, Remote::udp(client()), server(), datagram);
    }
}

// A hostile client from its first check on. The input is operations: what, how many bytes follow, the bytes. Records come as they are,
// with a right header, under the connection's keys, or as changes to an honest datagram.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(mut session) = Session::new() else { return };
    let mut input = bytes;
    let mut number = 0_u64;
    while let Some((&[what, length], rest)) = input.split_first_chunk() {
        let (value, rest) = rest.split_at(usize::from(length).min(rest.len()));
        input = rest;
        let kind = 20 + (what >> 3) % 5;
        match what & 7 {
            0 | 1 => (0..=length % 8).for_each(|_| session.step()),
            2 => session.send(&[&[kind], value].concat()),
            3 => {
                number += 1;
                let epoch = u64::from(what >> 6) << 48;
                let length = (value.len() as u16).to_be_bytes();
                let record = [&[kind, 254, 253][..], &(epoch | number).to_be_bytes(), &length, value].concat();
                session.send(&record);
            }
            4 => {
                let mut changed = session.last.clone();
                for pair in value.chunks_exact(2) {
                    let place = usize::from(pair[0]) % changed.len().max(1);
                    if let Some(byte) = changed.get_mut(place) {
                        *byte ^= pair[1];
                    }
                }
                session.send(&changed);
            }
            5 => {
                if let Some(record) = session.player.seal(kind, value) {
                    session.send(&record);
                }
            }
            _ => {
                if let Some(record) = session.player.seal_chunks(value) {
                    session.send(&record);
                }
            }
        }
    }
    session.step();
});
