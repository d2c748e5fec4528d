//! The controllers by name.

use nearlight_units::Bitrate;
use nearlight_window::{CopaMode, HeraOptions, LawSpec, Reading};
use thiserror::Error;

use crate::alvr::{Alvr, AlvrOptions};
use crate::buffer_occupancy::BufferOccupancy;
use crate::fixed::Fixed;
use crate::frame_clocked::{FrameClocked, Mechanism};
use crate::gcc::{AlvrFork as GccAlvrFork, Draft, DraftOptions, LibWebrtc, Options};
use crate::ladder::Ladder;
use crate::nada::{AlvrFork as NadaAlvrFork, Rfc8698};
use crate::nebula::{Nebula, NebulaOptions};
use crate::scream::{Marking, ScreamV2};
use crate::windowed::Windowed;
use crate::{Bounds, RateController};

/// A controller with its settings.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name on the command line, in plans and in logs.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The paper, RFC or program that it implements, with its version.
    pub source: &'static str,
    /// The source's own rates, for runs that reproduce it. The user's bounds take precedence everywhere else.
    pub bounds: Bounds,
    make: fn(Bounds) -> Box<dyn RateController>,
}

/// Bounds for sources that have no rates of their own, or those of video calls.
const DEFAULT_BOUNDS: Bounds =
    Bounds { minimum: Bounds::MINIMUM, start: Bounds::START, maximum: Bitrate::from_mbps(100) };

/// The fork's `GCC_MIN_`, `GCC_INIT_` and `GCC_MAX_CONFIGURED_BITRATE`.
const FORK_GCC_BOUNDS: Bounds =
    Bounds { minimum: Bitrate::from_mbps(5), start: Bitrate::from_mbps(15), maximum: Bitrate::from_mbps(150) };

/// The fork's `RMCAT_CC_DEFAULT_RMIN`, `INITIAL_RATE` and `RMCAT_CC_DEFAULT_RMAX`.
const FORK_NADA_BOUNDS: Bounds = Bounds { minimum: Bitrate::from_mbps(2), ..FORK_GCC_BOUNDS };

/// The first means. ALVR has no bounds by default, so these are those that it proposes (5 and 100 Mb/s).
const ALVR_MM25_BOUNDS: Bounds =
    Bounds { minimum: Bitrate::from_mbps(5), start: AlvrOptions::MM25.first_rate(), maximum: Bitrate::from_mbps(100) };
const ALVR_2026_BOUNDS: Bounds = Bounds { start: AlvrOptions::TODAY.first_rate(), ..ALVR_MM25_BOUNDS };

/// The ladder's lowest and highest rates. Guess for the start: the ladder's middle, which the paper leaves open.
const NEBULA_BOUNDS: Bounds =
    Bounds { minimum: Ladder::RATES.0, start: Bitrate::from_kbps(1_800), maximum: Ladder::RATES.1 };

/// All presets, the default first.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "frame-clocked",
        summary: "each frame probes the capacity and takes most of its interval on the wire; beside flows that fill queues, CUBIC's law",
        source: "our own, after Pudica (NSDI 2024), Nebula (WWW 2022) and RFC 9438",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(FrameClocked::new(bounds)),
    },
    Preset {
        name: "gcc-libwebrtc",
        summary: "Google Congestion Control as in WebRTC today, its constants scaled to the rates of remote rendering",
        source: "libwebrtc of January 2026, read through str0m",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(LibWebrtc::new(bounds, Options::SCALED)),
    },
    Preset {
        name: "gcc-libwebrtc-stock",
        summary: "the same with WebRTC's own constants, made for video calls of about 2 Mb/s",
        source: "libwebrtc of January 2026, read through str0m",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(LibWebrtc::new(bounds, Options::STOCK)),
    },
    Preset {
        name: "gcc-draft02",
        summary: "Google Congestion Control as its draft has it: Kalman filter, two thresholds of loss, no probes",
        source: "draft-ietf-rmcat-gcc-02",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Draft::new(bounds, DraftOptions::DRAFT)),
    },
    Preset {
        name: "gcc-pion",
        summary: "Google Congestion Control as in pion, the WebRTC stack in Go",
        source: "pion/interceptor a01a583, pkg/gcc",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Draft::new(bounds, DraftOptions::PION)),
    },
    Preset {
        name: "gcc-alvr-fork",
        summary: "Google Congestion Control as MM '25 ran it in ALVR: whole frames as samples, pinned to what once arrived",
        source: "ahmad-hl/GCC_NADA_ALVR 9f92a0b, branch GCC",
        bounds: FORK_GCC_BOUNDS,
        make: |bounds| Box::new(GccAlvrFork::new(bounds)),
    },
    Preset {
        name: "nada-rfc8698",
        summary: "NADA: one signal of delay, loss and marks, and a queue in proportion to the maximum over the rate",
        source: "RFC 8698",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Rfc8698::new(bounds)),
    },
    Preset {
        name: "nada-alvr-fork",
        summary: "NADA as MM '25 ran it in ALVR: mean delay of whole frames, no loss, and a queue of 86 ms at 35 Mb/s",
        source: "ahmad-hl/GCC_NADA_ALVR 9f92a0b, branch NADA",
        bounds: FORK_NADA_BOUNDS,
        make: |bounds| Box::new(NadaAlvrFork::new(bounds)),
    },
    Preset {
        name: "alvr-abr-mm25",
        summary: "ALVR's adaptive bitrate as in MM '25: 95 % of the mean rate at which frames get through",
        source: "Congestion Control for VR Cloud Gaming (MM '25), with ahmad-hl/GCC_NADA_ALVR 9f92a0b, branch ALVR",
        bounds: ALVR_MM25_BOUNDS,
        make: |bounds| Box::new(Alvr::new(bounds, AlvrOptions::MM25)),
    },
    Preset {
        name: "alvr-abr-2026",
        summary: "ALVR's adaptive bitrate today: 95 % of the mean frame's size over its mean latency",
        source: "alvr-org/ALVR of August 2026, server_core/src/bitrate.rs",
        bounds: ALVR_2026_BOUNDS,
        make: |bounds| Box::new(Alvr::new(bounds, AlvrOptions::TODAY)),
    },
    Preset {
        name: "scream-v2",
        summary: "SCReAM version 2: a window that loss, L4S marks and delay above 30 ms reduce, and the rate that it allows",
        source: "draft-johansson-ccwg-rfc8298bis-screamv2 of August 2026",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(ScreamV2::new(bounds, Marking::L4s)),
    },
    Preset {
        name: "cubic",
        summary: "CUBIC's window as a rate: TCP's usual law, which fills every queue until something is lost",
        source: "RFC 9438, with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::cubic(bounds)),
    },
    Preset {
        name: "bbr",
        summary: "BBR version 1 as a rate: the delivery rate that was seen, and two of its round trips under way at most",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00, with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::bbr(bounds)),
    },
    Preset {
        name: "bbr3",
        summary: "BBR version 3 as a rate: the same with bounds from losses, and shorter probes of the round trip",
        source: "draft-ietf-ccwg-bbr-02, with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::Bbr3)),
    },
    Preset {
        name: "hera",
        summary: "Hera's window as a rate: keeps the mean round trip at 45 ms, weighed by how often it was that low",
        source: "Asim et al., Towards Next Generation Immersive Applications in 5G Environments, with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::Hera(HeraOptions::default()))),
    },
    Preset {
        name: "hera-as-printed",
        summary: "the same with the signs that its paper prints: the bucket above the target still grows",
        source: "the same",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| {
            let options = HeraOptions { reading: Reading::AsPrinted, ..HeraOptions::default() };
            Box::new(Windowed::of(bounds, LawSpec::Hera(options)))
        },
    },
    Preset {
        name: "hera-adaptive",
        summary: "our variant of Hera: the target is the path's own round trip and what its jitter needs",
        source: "our own, after Hera",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::HeraAdaptive)),
    },
    Preset {
        name: "copa",
        summary: "Copa as a rate: two packets queued, or as many as TCP would have where somebody else fills the queue",
        source: "Arun and Balakrishnan, Copa (NSDI 2018), with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::Copa(CopaMode::Switching))),
    },
    Preset {
        name: "vegas",
        summary: "Vegas as a rate: two to four packets queued",
        source: "Brakmo and Peterson, TCP Vegas (1995), with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::Vegas)),
    },
    Preset {
        name: "ledbat++",
        summary: "LEDBAT++ as a rate: gives way to everybody else, with 60 ms of queue at most",
        source: "draft-irtf-iccrg-ledbat-plus-plus-01, with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::LedbatPlusPlus)),
    },
    Preset {
        name: "pcc-allegro",
        summary: "PCC Allegro: tries rates in pairs and keeps to what got through with little loss, whatever the delay",
        source: "Dong et al., PCC (NSDI 2015), with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::PccAllegro)),
    },
    Preset {
        name: "pcc-vivace",
        summary: "PCC Vivace: climbs the gradient of a utility of rate, loss and growing delay",
        source: "Dong et al., PCC Vivace (NSDI 2018), with media mode of our own",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Windowed::of(bounds, LawSpec::PccVivace)),
    },
    Preset {
        name: "nebula",
        summary: "Nebula: once a second the rung of a ladder that throughput and redundancy leave, lower where pictures are late",
        source: "Alhilal et al., Nebula (WWW 2022), sections 3.3 to 5.3",
        bounds: NEBULA_BOUNDS,
        make: |bounds| Box::new(Nebula::new(bounds, NebulaOptions::NEBULA)),
    },
    Preset {
        name: "escot",
        summary: "ESCOT as Nebula's authors built it: the same with each group of pictures and one block of redundancy for it",
        source: "Alhilal et al., Nebula (WWW 2022), section 6.1",
        bounds: NEBULA_BOUNDS,
        make: |bounds| Box::new(Nebula::new(bounds, NebulaOptions::ESCOT)),
    },
    Preset {
        name: "buffer-occupancy",
        summary: "buffer occupancy: clients play from a buffer of 11 frames, and how full it is chooses the rung: more latency",
        source: "BBA-0 of Huang et al. (SIGCOMM 2014), as in Nebula (WWW 2022), section 6.1",
        bounds: NEBULA_BOUNDS,
        make: |bounds| Box::new(BufferOccupancy::new(bounds)),
    },
    Preset {
        name: "webrtc-like",
        summary: "WebRTC as a baseline of Nebula's: its stock congestion control, with a part of the rate set aside for redundancy",
        source: "libwebrtc of January 2026, read through str0m, and its VCMNackFecMethod",
        bounds: NEBULA_BOUNDS,
        make: |bounds| Box::new(LibWebrtc::new(bounds, Options::CALL)),
    },
    Preset {
        name: "fixed",
        summary: "the start rate, whatever happens",
        source: "none",
        bounds: DEFAULT_BOUNDS,
        make: |bounds| Box::new(Fixed::new(bounds)),
    },
];

/// Variants of `frame-clocked` without one of its mechanisms, to measure what each contributes. Only plans can use them: no list contains
/// them.
const ABLATIONS: &[Preset] = &[
    ablation("frame-clocked/no-overdue", |bounds| Box::new(FrameClocked::without(bounds, Mechanism::Overdue))),
    ablation("frame-clocked/no-overload", |bounds| Box::new(FrameClocked::without(bounds, Mechanism::Overload))),
    ablation("frame-clocked/no-policing", |bounds| Box::new(FrameClocked::without(bounds, Mechanism::Policing))),
    ablation("frame-clocked/no-sharing", |bounds| Box::new(FrameClocked::without(bounds, Mechanism::Sharing))),
    ablation("frame-clocked/no-interleaving", |bounds| {
        Box::new(FrameClocked::without(bounds, Mechanism::Interleaving))
    }),
    ablation("frame-clocked/no-competition", |bounds| Box::new(FrameClocked::without(bounds, Mechanism::Competition))),
    ablation("frame-clocked/no-marks", |bounds| Box::new(FrameClocked::without(bounds, Mechanism::Marking))),
];

const fn ablation(name: &'static str, make: fn(Bounds) -> Box<dyn RateController>) -> Preset {
    Preset {
        name,
        summary: "frame-clocked without one of its mechanisms",
        source: "our own",
        bounds: DEFAULT_BOUNDS,
        make,
    }
}

/// The error for a name that is not a preset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no rate controller `{0}`: use {names}", names = names())]
pub struct UnknownController(pub String);

fn names() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    names.join(", ")
}

impl Preset {
    /// Returns the preset or ablation of this name.
    pub fn named(name: &str) -> Result<&'static Self, UnknownController> {
        let mut all = PRESETS.iter().chain(ABLATIONS);
        all.find(|preset| preset.name == name).ok_or_else(|| UnknownController(name.to_owned()))
    }
}

/// Returns a new controller of this preset.
pub fn new_controller(name: &str, bounds: Bounds) -> Result<Box<dyn RateController>, UnknownController> {
    Preset::named(name).map(|preset| (preset.make)(bounds))
}

#[cfg(test)]
mod tests {
    use nearlight_units::Bitrate;

    use super::*;

    #[test]
    fn every_preset_makes_a_controller_of_its_name() {
        for preset in PRESETS {
            let controller = new_controller(preset.name, Bounds::up_to(Bitrate::from_mbps(50))).expect(preset.name);
            assert_eq!(controller.name(), preset.name);
            assert_eq!(controller.decision().target, Bounds::START, "{}: the user's bounds win", preset.name);
            assert_eq!(preset.bounds, preset.bounds.in_order(), "{}", preset.name);
            let own = new_controller(preset.name, preset.bounds).expect(preset.name);
            assert_eq!(own.decision().target, preset.bounds.start, "{}", preset.name);
        }
    }

    #[test]
    fn an_ablation_has_a_name_that_no_list_names() {
        for ablation in ABLATIONS {
            let controller = new_controller(ablation.name, Bounds::up_to(Bitrate::from_mbps(50))).expect(ablation.name);
            assert_eq!(controller.name(), "frame-clocked", "{}", ablation.name);
            assert!(!names().contains(ablation.name), "{}", ablation.name);
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let Err(error) = new_controller("gcc", Bounds::up_to(Bitrate::from_mbps(50))) else { panic!("no such preset") };
        let said = error.to_string();
        assert!(PRESETS.iter().all(|preset| said.contains(preset.name)), "{said}");
    }
}
