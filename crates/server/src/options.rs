//! What the owner of a server may choose.

use std::net::IpAddr;
use std::path::PathBuf;

use nearlight_codec::{CodecKind, Encoders};
use nearlight_link::LoadedPath;
use nearlight_net::Token;
use nearlight_pace::Mode;
use nearlight_scene::{Backend, SourceKind};
use nearlight_units::Bitrate;

/// Size of the picture for a screen. A headset gets as many pixels, shared between both eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureSize {
    /// What the machine sustains, measured at start.
    Auto,
    Fixed {
        width: u16,
        height: u16,
    },
}

/// What to serve, where, and how.
#[derive(Debug)]
pub struct ServeOptions {
    /// None listens on every address.
    pub address: Option<IpAddr>,
    /// 0 picks a free one.
    pub port: u16,
    /// UDP port of WebRTC; none takes the one after `port`, or a free one where that is taken.
    pub rtc_port: Option<u16>,
    /// None generates one.
    pub token: Option<Token>,
    /// Certificate chain and key as PEM files; none makes a self-signed certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub source: SourceKind,
    pub backend: Backend,
    pub size: PictureSize,
    /// None: what the machine sustains, up to 60.
    pub fps: Option<u16>,
    pub codec: CodecKind,
    /// A preset of `nearlight_rate`.
    pub controller: String,
    /// A redundancy policy of `nearlight_fec`.
    pub fec: String,
    /// Rate to begin with; none leaves it to the controller's usual start.
    pub start_rate: Option<Bitrate>,
    /// Lowest rate; none: what the controllers' bounds begin at.
    pub min_rate: Option<Bitrate>,
    /// Highest rate; none: what the picture's size and frame rate can use.
    pub max_rate: Option<Bitrate>,
    pub pacing: Mode,
    /// The largest datagram, where the transport takes it; none: what the transport takes.
    pub datagram: Option<u16>,
    /// Where encoders come from.
    pub encoders: Encoders,
    pub max_clients: usize,
    /// Events as JSON lines.
    pub events: Option<PathBuf>,
    /// A bad path on purpose, for trying how repairs work.
    pub impairment: Option<Impairment>,
}

/// Hops that the datagrams of every session cross, each way.
#[derive(Clone, Debug)]
pub struct Impairment {
    /// Its cells are shared by all sessions.
    pub path: LoadedPath,
    /// Of everything random on the path; each session adds its number.
    pub seed: u64,
}
