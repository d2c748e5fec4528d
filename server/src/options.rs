//! The options of `nearlight serve` and of programs that embed the server.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use nearlight_codec::{CodecKind, Encoders};
use nearlight_fleet::nats::Carrier;
use nearlight_net::{EmulatedPaths, Link, Token};
use nearlight_scene::{Backend, Conversion, SourceKind};
use nearlight_session::pace::Mode as Pacing;
use nearlight_units::Bitrate;
use nearlight_urs::signalling::Mode;
use nearlight_wire::RecoveryPolicy;

use crate::access::identity_file::IdentityFile;
use crate::access::link_file::LinkFile;
use crate::http::forwarding::AddressPrefix;

/// Size of the picture for a screen. A headset's picture has the same number of pixels, shared between both eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureSize {
    /// The size that the machine sustains, measured at start.
    Auto,
    Fixed {
        width: u16,
        height: u16,
    },
}

/// The settings of a server.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct ServeOptions {
    /// Address to listen on; none listens on every address.
    pub address: Option<IpAddr>,
    /// Port to listen on; 0 picks a free one.
    pub port: u16,
    /// UDP port of WebRTC; none takes the one after `port`, or a free one where that is taken.
    pub rtc_port: Option<u16>,
    /// Addresses in front of this machine whose ports lead to it, such as a router's.
    pub announced: Vec<IpAddr>,
    /// Further names and addresses that clients may use for the server. A self-signed certificate names them too.
    pub hosts: Vec<String>,
    /// The page's address for clients of a reverse proxy, without a token. None if clients reach the server's own port.
    pub public_url: Option<Link>,
    /// UDP port of WebTransport for clients of the proxy; none takes the server's own.
    pub public_udp_port: Option<u16>,
    /// Proxies whose headers name the clients whose requests they pass on.
    pub trusted_proxies: Vec<AddressPrefix>,
    /// STUN and TURN servers that are announced to WebRTC clients.
    pub ice_servers: Vec<IceServer>,
    /// The owner's token; none takes the one in `identity_file`, or generates one.
    pub token: Option<Token>,
    /// Keeps the token and the self-signed certificate between runs. None makes new ones for this run.
    pub identity_file: Option<IdentityFile>,
    /// The links that the owner has given to others. None admits nobody but clients with the owner's token and those derived from it.
    pub link_file: Option<LinkFile>,
    /// Certificate chain and key as PEM files; none makes a self-signed certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub source: SourceKind,
    pub backend: Backend,
    /// Which processor converts the pictures of a world that the server renders.
    pub conversion: Conversion,
    pub size: PictureSize,
    /// Frames per second; none takes what the machine sustains, up to 60.
    pub fps: Option<u16>,
    pub codec: CodecKind,
    /// A preset of `nearlight_rate`.
    pub controller: String,
    /// A redundancy policy of `nearlight_fec`.
    pub fec: String,
    /// Loss recovery of clients of our own protocol, if their transport can lose anything. With `Reference` and an encoder that keeps no
    /// references, symbols are requested, then a key frame.
    pub recovery: RecoveryPolicy,
    /// Rate to begin with; none leaves it to the controller's usual start.
    pub start_rate: Option<Bitrate>,
    /// Lowest rate; none takes the lower bound of the controllers.
    pub min_rate: Option<Bitrate>,
    /// Highest rate; none takes what the picture's size and frame rate can use.
    pub max_rate: Option<Bitrate>,
    pub pacing: Pacing,
    /// Whether a single client's pictures are captured at times that minimise the waits for its inputs and its display. Otherwise they are
    /// captured at equal intervals.
    pub fitted_captures: bool,
    /// Whether the pictures of a video or the test card are encoded once for all viewers. Otherwise they are encoded once for each.
    pub shared_encodes: bool,
    /// The congestion control of TCP connections that carry media; none takes the system's.
    pub tcp_control: Option<String>,
    /// The largest datagram in bytes, if the transport allows it; none takes what the transport allows.
    pub datagram: Option<u16>,
    /// Opens the encoders.
    pub encoders: Encoders,
    /// Whether a source that paces itself encodes in its own thread. Submitting a picture then returns once the picture's packets have
    /// left, as far as the pacer lets them.
    pub synchronous: bool,
    /// Whether clients that request sound receive it.
    pub sound: bool,
    /// Whether clipboard text is exchanged between the application and users who allow it.
    pub clipboard: bool,
    pub max_clients: usize,
    /// Members of all rooms together; 0 disables rooms.
    pub max_members: usize,
    /// The carrier to other servers with which all rooms are shared.
    pub fleet: Option<Carrier>,
    /// Whether a screen's picture has two halves side by side, one for each eye.
    pub stereo: bool,
    /// How Unity Render Streaming's web clients are admitted; none refuses them.
    pub unity: Option<UnityOptions>,
    /// File to which events are written as JSON lines.
    pub events: Option<PathBuf>,
    /// Emulated paths that datagrams of sessions cross, for experiments and tests.
    pub emulated_paths: Option<Arc<dyn EmulatedPaths>>,
}

impl ServeOptions {
    /// Returns the defaults of `nearlight serve`, but with a free port.
    #[must_use]
    pub fn new(source: SourceKind) -> Self {
        Self {
            address: None,
            port: 0,
            rtc_port: None,
            tcp_control: None,
            announced: Vec::new(),
            hosts: Vec::new(),
            public_url: None,
            public_udp_port: None,
            trusted_proxies: Vec::new(),
            ice_servers: Vec::new(),
            token: None,
            identity_file: None,
            link_file: None,
            certificate: None,
            source,
            backend: Backend::default(),
            conversion: Conversion::default(),
            size: PictureSize::Auto,
            fps: None,
            codec: CodecKind::H264,
            controller: nearlight_rate::PRESETS[0].name.into(),
            fec: "planner".into(),
            recovery: RecoveryPolicy::Reference,
            start_rate: None,
            min_rate: None,
            max_rate: None,
            pacing: Pacing::Compressed,
            fitted_captures: true,
            shared_encodes: true,
            datagram: None,
            encoders: Encoders::default(),
            synchronous: false,
            sound: true,
            clipboard: false,
            max_clients: 8,
            max_members: 256,
            fleet: None,
            stereo: false,
            unity: None,
            events: None,
            emulated_paths: None,
        }
    }

    /// Returns the host of the page's address for clients of a proxy, in lower case.
    pub(crate) fn public_host(&self) -> Option<String> {
        self.public_url.as_ref().map(|link| link.host.to_ascii_lowercase())
    }
}

/// How Unity Render Streaming's web clients are admitted. They have no notion of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnityOptions {
    pub mode: Mode,
    /// Whether clients must carry the pairing token in the URL. Otherwise anyone who can reach the port is admitted.
    pub token_needed: bool,
    /// The folder of Unity's own pages, served under `/unity/`.
    pub pages: Option<PathBuf>,
}

/// A STUN or TURN server for WebRTC clients whose network lets no UDP through, such as `turn:name:password@host:443?transport=tcp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceServer {
    url: String,
    login: Option<(String, String)>,
}

/// The error for a text that is not an [`IceServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write stun:HOST:PORT or turn:NAME:PASSWORD@HOST:PORT?transport=tcp, with plain characters only")]
pub struct NotAnIceServer;

impl IceServer {
    /// Returns the value of WHEP's `Link` header (RFC 8288).
    pub(crate) fn link(&self) -> String {
        let login = self.login.as_ref().map_or(String::new(), |(name, password)| {
            format!("; username=\"{name}\"; credential=\"{password}\"; credential-type=\"password\"")
        });
        format!("<{}>; rel=\"ice-server\"{login}", self.url)
    }
}

impl FromStr for IceServer {
    type Err = NotAnIceServer;

    fn from_str(text: &str) -> Result<Self, NotAnIceServer> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\,;".contains(&byte);
        let (scheme, rest) = text.split_once(':').filter(|_| text.bytes().all(plain)).ok_or(NotAnIceServer)?;
        let (login, host) = match rest.rsplit_once('@') {
            Some((login, host)) => (Some(login.split_once(':').ok_or(NotAnIceServer)?), host),
            None => (None, rest),
        };
        // Only TURN has credentials, and it requires them.
        let fits = match scheme {
            "stun" | "stuns" => login.is_none(),
            "turn" | "turns" => login.is_some(),
            _ => false,
        };
        if !fits || host.is_empty() {
            return Err(NotAnIceServer);
        }
        let login = login.map(|(name, password)| (name.to_owned(), password.to_owned()));
        Ok(Self { url: format!("{scheme}:{host}"), login })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ice_servers_are_reported_in_whep_s_own_words() {
        for (text, link) in [
            ("stun:stun.example:3478", "<stun:stun.example:3478>; rel=\"ice-server\""),
            (
                "turn:me:secret@turn.example:443?transport=tcp",
                "<turn:turn.example:443?transport=tcp>; rel=\"ice-server\"; username=\"me\"; credential=\"secret\"; credential-type=\"password\"",
            ),
        ] {
            assert_eq!(text.parse::<IceServer>().map(|server| server.link()), Ok(link.into()));
        }
        for text in
            ["", "stun", "stun:", "http:host", "turn:host", "turn:me@host", "stun:me:it@host", "stun:a\"b", "stun:a b"]
        {
            assert_eq!(text.parse::<IceServer>(), Err(NotAnIceServer), "{text}");
        }
    }
}
