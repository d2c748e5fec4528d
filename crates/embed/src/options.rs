//! What a program may choose when it opens a server.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use nearlight_codec::{CodecKind, Encoders};
use nearlight_ethernet::HardwareAddress;
use nearlight_scene::SourceKind;
use nearlight_server::{PictureSize, ServeOptions};
use nearlight_units::Bitrate;
use serde::{Deserialize, Serialize};

use crate::HostError;

/// As `nearlight serve`'s options of the same names. As TOML, each field is a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Options {
    /// What makes the pictures, for the viewers' panels and the log.
    pub name: String,
    /// Address to listen on; none: every address.
    pub address: Option<IpAddr>,
    /// Port for the page (TCP) and the media (UDP); 0 picks a free one.
    pub port: u16,
    /// Port for WebRTC (UDP); none: the one after `port`, or a free one.
    pub rtc_port: Option<u16>,
    /// Addresses in front of this machine whose ports lead here.
    pub announce: Vec<IpAddr>,
    /// Further names under which viewers ask for this server.
    pub hosts: Vec<String>,
    /// Pairing token, 16 characters or more; none: a new one.
    pub token: Option<String>,
    /// Certificate chain in PEM, with `key`; none: a self-signed one that the links name.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The usual size of the pictures, both even: encoders are prepared and the highest rate is chosen for it. A picture may have another.
    pub width: u16,
    pub height: u16,
    /// The usual number of pictures a second, 1 to 240.
    pub fps: u16,
    /// Codec to prefer.
    pub codec: CodecKind,
    /// Rate controller.
    pub controller: String,
    /// Redundancy against losses.
    pub fec: String,
    /// Viewers' recovery from losses. With one that never requests packets again, `fec` is best `none`.
    pub recovery: String,
    /// Network interfaces on which viewers are also served over Ethernet frames, without IP (Linux). Opening them takes `CAP_NET_RAW`.
    pub ethernet: Vec<String>,
    /// Hardware addresses of those viewers; none: of all that know the token.
    pub ethernet_allow: Option<Vec<String>>,
    /// Rates in megabits a second: to start with, and the bounds.
    pub rate_mbps: Option<f64>,
    pub min_rate_mbps: Option<f64>,
    pub max_rate_mbps: Option<f64>,
    /// Screens get both halves of pictures that have one for each eye; otherwise the left one.
    pub stereo: bool,
    /// Viewers who want sound are announced the program's ([`crate::Host::submit_sound`]); without it they get none.
    pub sound: bool,
    /// [`crate::Host::submit`] encodes in the thread that calls it, and returns once the picture's packets have left as far as the pacer lets
    /// them. Without it, pictures are encoded beside the program's own work.
    pub synchronous: bool,
    /// Texts of the clipboard pass between the program and users who allow it as well.
    pub clipboard: bool,
    /// Most viewers at the same time.
    pub max_clients: usize,
    /// Writes what happens to this file, one JSON object a line.
    pub events: Option<PathBuf>,
    /// Where encoders come from: OpenH264 and libvpx, unless the program has its own.
    #[serde(skip)]
    pub encoders: Encoders,
}

impl Default for Options {
    fn default() -> Self {
        let usual = ServeOptions::new(SourceKind::Own);
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
            codec: usual.codec,
            controller: usual.controller,
            fec: usual.fec,
            recovery: usual.recovery.to_string(),
            ethernet: Vec::new(),
            ethernet_allow: None,
            rate_mbps: None,
            min_rate_mbps: None,
            max_rate_mbps: None,
            stereo: false,
            sound: false,
            synchronous: false,
            clipboard: false,
            max_clients: usual.max_clients,
            events: None,
            encoders: Encoders::default(),
        }
    }
}

impl Options {
    /// Reads a TOML document; keys that are not there have their defaults, and unknown ones are errors.
    pub fn from_toml(text: &str) -> Result<Self, HostError> {
        toml::from_str(text).map_err(|error| HostError::Options(error.to_string()))
    }

    /// Writes the document that [`Options::from_toml`] reads.
    pub fn to_toml(&self) -> Result<String, HostError> {
        toml::to_string(self).map_err(|error| HostError::Options(error.to_string()))
    }

    /// Whether they fit together, which [`crate::Host::open`] also checks.
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
        let usual = ServeOptions::new(SourceKind::Own);
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
            ..usual
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
