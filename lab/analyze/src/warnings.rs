//! Warnings about anomalies in a capture.

use crate::traffic::CaptureSummary;

/// A longer step back is not reordering between interfaces or processors: the clock was set. Guess.
const MAX_REORDERING_MS: f64 = 1_000.0;
/// Copies among the packets that make it likely that all were captured twice, which gives half. Guess: some streams may
/// be seen once.
const MIN_DOUBLED_RATIO: f64 = 0.3;

impl CaptureSummary {
    /// Caveats about the capture's results; empty for most.
    pub fn warnings(&self) -> Vec<String> {
        let found = [
            self.damaged(),
            (self.unplaced > 0).then(|| {
                format!(
                    "{} packets were left out: their time cannot be, or their interface is not described",
                    self.unplaced
                )
            }),
            (self.untimed > 0).then(|| {
                format!("{} packets were left out: they are stored without a time (simple packet blocks)", self.untimed)
            }),
            self.disordered(),
            self.twice(),
            self.fragmented(),
            (self.oversized > 0).then(|| {
                format!(
                    "{} packets are longer than Ethernet carries: offload joined datagrams, so packets and gaps are \
                     not those on the wire (ethtool -K INTERFACE gso off gro off)",
                    self.oversized
                )
            }),
            self.unknown_layer(),
            self.wrapped(),
            (self.dropped > 0)
                .then(|| format!("the capturing machine dropped {} packets: they count as lost", self.dropped)),
            (self.beyond_limit > 0).then(|| {
                format!(
                    "{} packets are counted in streams only; --packets {} looks at all",
                    self.beyond_limit, self.datagrams
                )
            }),
        ];
        found.into_iter().flatten().collect()
    }

    /// Why there is no conversation to study, and what would help.
    pub(crate) fn no_datagrams(&self) -> String {
        if self.packets == 0 {
            return self.no_packets();
        }
        let held = match self.tcp {
            0 => format!("none of its {} packets is a UDP datagram that can be read", self.packets),
            packets => format!("it holds {packets} TCP packets, which are not studied, and no UDP"),
        };
        let short = (self.cut_short > 0)
            .then(|| format!("{} packets end within their headers: capture at least 80 bytes of each", self.cut_short));
        let others: Vec<String> = [self.wrapped(), self.unknown_layer(), short].into_iter().flatten().collect();
        let advice = "capture the stream's own port, on its own interface";
        format!("{held}; {}", if others.is_empty() { advice.to_owned() } else { others.join("; ") })
    }

    fn no_packets(&self) -> String {
        match self {
            Self { untimed: 1.., .. } => format!(
                "its {} packets are stored without times (pcapng's simple packet blocks), so nothing can be concluded \
                 from; capture with a tool that stores times, as tcpdump and dumpcap do",
                self.untimed
            ),
            Self { unplaced: 1.., .. } => format!(
                "none of its {} packets has a valid time and a described interface; capture again",
                self.unplaced
            ),
            Self { damage: Some(damage), .. } => {
                format!("it is damaged at byte {}, before its first packet: {}", damage.offset, damage.reason)
            }
            _ => "it contains no packets; capture on the interface that carries the stream, while it runs".into(),
        }
    }

    fn damaged(&self) -> Option<String> {
        let damage = self.damage.as_ref()?;
        let before = self.packets;
        Some(format!("damaged at byte {}: {}; the {before} packets before are analysed", damage.offset, damage.reason))
    }

    fn disordered(&self) -> Option<String> {
        let (count, step) = (self.out_of_order, self.step_back_ms);
        let means = if step > MAX_REORDERING_MS {
            "the clock was set during the capture, so rates and intervals across that time are meaningless"
        } else {
            "they are analysed in the order of their times"
        };
        (count > 0).then(|| format!("packets out of order: {count}, by up to {step:.3} ms; {means}"))
    }

    fn twice(&self) -> Option<String> {
        let kept = (self.datagrams - self.untracked - self.beyond_limit) as f64;
        (self.doubled as f64 > MIN_DOUBLED_RATIO * kept).then(|| {
            format!(
                "{} packets are copies of others a few milliseconds before: the capture seems to hold every packet \
                 twice, taken on two interfaces, so that loads count twice; capture on one",
                self.doubled
            )
        })
    }

    fn fragmented(&self) -> Option<String> {
        let share = self.fragment_bytes as f64 / (self.bytes + self.fragment_bytes).max(1) as f64;
        (self.fragments > 0).then(|| {
            format!(
                "{} packets are later IP fragments, {:.1} % of the bytes: they have no ports, so loads and sizes \
                 are without them",
                self.fragments,
                share * 100.0
            )
        })
    }

    fn wrapped(&self) -> Option<String> {
        let inside = |count: u64, what: &str| {
            (count > 0)
                .then(|| format!("{count} frames are inside {what}, which is not read: capture where they are not"))
        };
        let found: Vec<String> =
            [inside(self.pppoe, "PPPoE"), inside(self.mpls, "MPLS")].into_iter().flatten().collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    fn unknown_layer(&self) -> Option<String> {
        let names: Vec<String> = self.unknown_links.iter().map(|number| link_name(*number)).collect();
        let advice = if self.unknown_links.iter().any(|number| is_air(*number)) {
            "capture on the station's own network interface, not in monitor mode, or convert the file to Ethernet"
        } else {
            "capture Ethernet, Linux cooked, loopback or raw IP"
        };
        (self.unknown_link > 0).then(|| {
            format!(
                "{} packets are of a link layer that is not read, {}; {advice}",
                self.unknown_link,
                names.join(" and ")
            )
        })
    }
}

/// 802.11 as it is on the air: alone, or behind what a receiver says of it (Prism, radiotap, AVS, PPI).
fn is_air(link: u16) -> bool {
    matches!(link, 105 | 119 | 127 | 163 | 192)
}

fn link_name(link: u16) -> String {
    let name = match link {
        105 => " (802.11)",
        127 => " (802.11 with radiotap)",
        link if is_air(link) => " (802.11 with a receiver's header)",
        _ => "",
    };
    format!("link type {link}{name}")
}
