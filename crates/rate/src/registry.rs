//! The controllers by name.

use thiserror::Error;

use crate::fixed::Fixed;
use crate::gcc::{LibWebrtc, Options};
use crate::{Bounds, RateController};

/// A controller with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// As on the command line, in plans and in logs.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
}

/// All presets, the default first.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "gcc-libwebrtc",
        summary: "Google Congestion Control as in WebRTC today, its constants scaled to the rates of remote rendering",
    },
    Preset {
        name: "gcc-libwebrtc-stock",
        summary: "the same with WebRTC's own constants, made for video calls of about 2 Mb/s",
    },
    Preset { name: "fixed", summary: "the start rate, whatever happens" },
];

/// A name that is no preset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no rate controller `{0}`: use {names}", names = names())]
pub struct UnknownController(pub String);

fn names() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    names.join(", ")
}

/// The controller of a preset, before its first packet.
pub fn new_controller(name: &str, bounds: Bounds) -> Result<Box<dyn RateController>, UnknownController> {
    match name {
        "gcc-libwebrtc" => Ok(Box::new(LibWebrtc::new(bounds, Options::SCALED))),
        "gcc-libwebrtc-stock" => Ok(Box::new(LibWebrtc::new(bounds, Options::STOCK))),
        "fixed" => Ok(Box::new(Fixed::new(bounds))),
        unknown => Err(UnknownController(unknown.to_owned())),
    }
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
            assert_eq!(controller.decision().target, Bounds::START);
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let Err(error) = new_controller("gcc", Bounds::up_to(Bitrate::from_mbps(50))) else { panic!("no such preset") };
        let said = error.to_string();
        assert!(PRESETS.iter().all(|preset| said.contains(preset.name)), "{said}");
    }
}
