//! Options of a server that a program opens.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use nearlight_codec::{CodecKind, Encoders};
use nearlight_net::link_layer::HardwareAddress;
use nearlight_scene::SourceKind;
use nearlight_server::{PictureSize, ServeOptions};
use nearlight_units::Bitrate;
use serde::{Deserialize, Serialize};

use crate::HostError;

/// Options of a server, which correspond to `nearlight serve`'s options of the same names. In TOML, each field is a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Options {
    /// Name of the program, for the viewers' panels and the log.
    pub name: String,
    /// Address to listen on. Default: every address.
    pub address: Option<IpAddr>,
    /// Port for the page (TCP) and the media (UDP); 0 picks a free one.
    pub port: u16,
    /// Port for WebRTC (UDP). Default: the one after `port`, or a free one when that is taken.
    pub rtc_port: Option<u16>,
    /// Addresses of other machines, such as a router, that forward the ports to this one.
    pub announce: Vec<IpAddr>,
    /// Further host names under which viewers reach this server.
    pub hosts: Vec<String>,
    /// Pairing token of at least 16 characters. Default: a new random one.
    pub token: Option<String>,
    /// Certificate chain in PEM format, together with `key`. Default: a self-signed certificate whose hash is part of the links.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Usual size of the pictures in pixels, both numbers even: encoders are prepared and the highest rate is chosen for it. A picture may
    /// have another size.
    pub width: u16,
    pub height: u16,
    /// Usual number of pictures a second, 1 to 240.
    pub fps: u16,
    /// Preferred codec.
    pub codec: CodecKind,
    /// Name of the rate controller.
    pub controller: String,
    /// Name of the forward error correction scheme.
    pub fec: String,
    /// Name of the viewers' loss recovery. With one that never requests retransmissions, `fec` should be `none`.
    pub recovery: String,
    /// Network interfaces on which viewers are also served over Ethernet frames, without IP (Linux). Opening them requires `CAP_NET_RAW`.
    pub ethernet: Vec<String>,
    /// Hardware addresses of the viewers that are served over Ethernet frames. Default: all that know the token.
    pub ethernet_allow: Option<Vec<String>>,
    /// Initial rate and its bounds, in megabits a second.
    pub rate_mbps: Option<f64>,
    pub min_rate_mbps: Option<f64>,
    pub max_rate_mbps: Option<f64>,
    /// Whether screens show both halves of a stereo picture. Otherwise they show the left one.
    pub stereo: bool,
    /// Whether the server offers the program's sound ([`crate::Host::submit_sound`]) to viewers.
    pub sound: bool,
    /// Whether [`crate::Host::submit`] encodes in the calling thread, and returns once the packets that the pacer releases have left.
    /// Otherwise other threads encode.
    pub synchronous: bool,
    /// Whether clipboard texts pass between the program and viewers that allow it as well.
    pub clipboard: bool,
    /// Maximum number of viewers at the same time.
    pub max_clients: usize,
    /// File for the event log, one JSON object a line.
    pub events: Option<PathBuf>,
    /// Source of encoders. Default: OpenH264 and libvpx.
    #[serde(skip)]
    pub encoders: Encoders,
}

impl Default for Options {
    fn default() -> Self {
        let defaults = ServeOptions::new(SourceKind::Own);
        Self {
            name: "a program of its own".into(),
            address: None,
            port: 0,
            rtc_port: None,
            announce: Vec::new(),
            hosts: Vec::new(),
            token: None,
            certificate: None,
            key: None,
            width: 1_280,
            height: 720,
            fps: 60,
            codec: defaults.codec,
            controller: defaults.controller,
            fec: defaults.fec,
            recovery: defaults.recovery.to_string(),
            ethernet: Vec::new(),
            ethernet_allow: None,
            rate_mbps: None,
            min_rate_mbps: None,
            max_rate_mbps: None,
            stereo: false,
            sound: false,
            synchronous: false,
            clipboard: false,
            max_clients: defaults.max_clients,
            events: None,
            encoders: Encoders::default(),
        }
    }
}

impl Options {
    /// Reads a TOML document. Missing keys have their defaults, and unknown keys are errors.
    pub fn from_toml(text: &str) -> Result<Self, HostError> {
        toml::from_str(text).map_err(|error| HostError::Options(error.to_string()))
    }

    /// Writes a TOML document for [`Options::from_toml`].
    pub fn to_toml(&self) -> Result<String, HostError> {
        toml::to_string(self).map_err(|error| HostError::Options(error.to_string()))
    }

    /// Checks that the options are valid and consistent, as [`crate::Host::open`] does.
    pub fn check(&self) -> Result<(), HostError> {
        self.serve_options()?;
        self.allowed_addresses().map(drop)
    }

    pub(crate) fn allowed_addresses(&self) -> Result<Option<BTreeSet<HardwareAddress>>, HostError> {
        let parsed =
            |text: &String| text.parse().map_err(|error| HostError::Options(format!("ethernet_allow: {error}")));
        self.ethernet_allow.as_ref().map(|addresses| addresses.iter().map(parsed).collect()).transpose()
    }

    pub(crate) fn serve_options(&self) -> Result<ServeOptions, HostError> {
        let refused = |reason: String| Err(HostError::Options(reason));
        if !(1..=240).contains(&self.fps) {
            return refused(format!("fps is {}: write a number from 1 to 240", self.fps));
        }
        if self.max_clients == 0 {
            return refused("max_clients is 0: write a number from 1, or nobody could watch".into());
        }
        if self.certificate.is_some() != self.key.is_some() {
            return refused("certificate and key belong together: specify both files, or neither".into());
        }
        let token = match self.token.as_ref().map(|token| token.parse()) {
            None => None,
            Some(Ok(token)) => Some(token),
            Some(Err(error)) => return refused(format!("token: {error}")),
        };
        let defaults = ServeOptions::new(SourceKind::Own);
        Ok(ServeOptions {
            address: self.address,
            port: self.port,
            rtc_port: self.rtc_port,
            announced: self.announce.clone(),
            hosts: self.hosts.clone(),
            token,
            certificate: self.certificate.clone().zip(self.key.clone()),
            size: PictureSize::Fixed { width: self.width, height: self.height },
            fps: Some(self.fps),
            codec: self.codec,
            controller: self.controller.clone(),
            fec: self.fec.clone(),
            recovery: self.recovery.parse().map_err(|error| HostError::Options(format!("recovery: {error}")))?,
            start_rate: rate("rate_mbps", self.rate_mbps)?,
            min_rate: rate("min_rate_mbps", self.min_rate_mbps)?,
            max_rate: rate("max_rate_mbps", self.max_rate_mbps)?,
            synchronous: self.synchronous,
            encoders: self.encoders.clone(),
            clipboard: self.clipboard,
            max_clients: self.max_clients,
            stereo: self.stereo,
            events: self.events.clone(),
            ..defaults
        })
    }
}

fn rate(name: &str, mbps: Option<f64>) -> Result<Option<Bitrate>, HostError> {
    match mbps {
        None => Ok(None),
        Some(mbps) if mbps > 0.0 && mbps <= 1e5 => Ok(Some(Bitrate::from_bps((mbps * 1e6) as u64))),
        Some(mbps) => Err(HostError::Options(format!("{name} is {mbps}: write megabits a second, such as 12.5"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_has_the_options_by_their_names() {
        let options =
            Options::from_toml("port = 9000\nwidth = 640\nheight = 480\ncodec = \"vp8\"\nmax_rate_mbps = 2.5")
                .expect("options");
        let serve = options.serve_options().expect("they fit together");
        assert_eq!((serve.port, serve.size), (9_000, PictureSize::Fixed { width: 640, height: 480 }));
        assert_eq!((serve.codec, serve.max_rate), (CodecKind::Vp8, Some(Bitrate::from_kbps(2_500))));
        assert_eq!((serve.fps, serve.max_clients), (Some(60), 8));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let options =
            Options { port: 9_000, token: Some("sixteen-letters!".into()), rate_mbps: Some(2.5), ..Options::default() };
        let text = options.to_toml().expect("a document");
        assert_eq!(Options::from_toml(&text).and_then(|read| read.to_toml()).expect("options"), text);
    }

    #[test]
    fn slips_are_named() {
        for (text, word) in [
            ("prot = 9000", "prot"),
            ("fps = 0", "fps"),
            ("max_clients = 0", "max_clients"),
            ("token = \"short\"", "token"),
            ("max_rate_mbps = nan", "max_rate_mbps"),
            ("rate_mbps = -1", "rate_mbps"),
            ("key = \"key.pem\"", "certificate"),
            ("codec = \"av7\"", "codec"),
            ("recovery = \"prayer\"", "recovery"),
            ("ethernet_allow = [\"02:00\"]", "ethernet_allow"),
        ] {
            let refused = Options::from_toml(text).and_then(|options| options.check());
            let error = refused.expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
