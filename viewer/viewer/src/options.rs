//! A viewer's target and options.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use nearlight_codec::{AVAILABLE_CODECS, CodecKind, Decoders};
use nearlight_net::{EmulatedPaths, EthernetInterface, EthernetLink, Link};
use nearlight_session::DisplayOrder;
use nearlight_units::Span;
use nearlight_wire::DisplayKind;

use crate::{Messages, ViewerError};

/// Longest time from the start to the first picture. Guess: long enough for a server that measures its encoder first.
const FIRST_PICTURE_TIMEOUT: Span = Span::from_secs(10);

/// A timeout that never expires: longer than any program runs.
const NO_TIMEOUT: Span = Span::from_secs(100 * 365 * 24 * 3_600);

/// A server, and the transport by which it is reached.
#[derive(Clone, Debug)]
pub enum Target {
    /// A page's link, reached by WebTransport.
    Page(Link),
    /// A server reached by Ethernet frames on an interface that has been opened.
    Ethernet { link: EthernetLink, interface: Arc<EthernetInterface> },
}

impl Target {
    /// Parses a link as `nearlight serve` prints it: `http[s]://HOST:PORT/#token=...` or `ether:[INTERFACE/]ADDRESS#token=...`. For the
    /// latter it opens the interface, which requires permission to send raw frames.
    pub fn open(link: &str) -> Result<Self, ViewerError> {
        if !EthernetLink::is_ethernet_link(link) {
            return Ok(Self::Page(Link::parse(link)?));
        }
        let link = EthernetLink::parse(link)?;
        let interface = Arc::new(EthernetInterface::of_link(&link)?);
        Ok(Self::Ethernet { link, interface })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Self::Page(link) => link.token.as_deref(),
            Self::Ethernet { link, .. } => link.token.as_deref(),
        }
    }

    /// Returns the transport's name in summaries.
    pub(crate) const fn transport(&self) -> &'static str {
        match self {
            Self::Page(_) => "webtransport",
            Self::Ethernet { .. } => "ethernet",
        }
    }

    /// Returns the server's name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Page(link) => link.authority(),
            Self::Ethernet { link, .. } => link.server.to_string(),
        }
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Self {
        Self::Page(link)
    }
}

/// Options that a window, a display and a headless run have in common.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    pub target: Target,
    /// The viewer's name in the server's log.
    pub name: String,
    /// Length of the run, counted from the first picture. `None` watches until it is stopped.
    pub length: Option<Span>,
    /// Longest time from the start to the first picture, after which the viewer gives up.
    pub first_picture: Span,
    /// Kind of display. `Headset` requests the pictures of two eyes side by side.
    pub display: DisplayKind,
    /// Which of several decoded pictures a display shows next. It has no effect without a display.
    pub display_order: DisplayOrder,
    /// Codecs that the server may use, best first.
    pub codecs: Vec<CodecKind>,
    pub record: RecordOptions,
    pub path: PathOptions,
    /// Requests a key frame after each loss instead of retransmissions.
    pub intra_only: bool,
    /// Requests the world's sound, decodes it and synchronises it as if it were played. A window has no sound output.
    pub sound: bool,
    /// Shares clipboard texts, if the server's owner permits it too. Only a window has a clipboard.
    pub clipboard: bool,
    /// Messages between this program and the application.
    pub messages: Messages,
    /// Creates the decoders.
    pub decoders: Decoders,
}

impl ViewOptions {
    /// Returns options that watch the server on a screen until stopped.
    #[must_use]
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            name: concat!("nearlight view ", env!("CARGO_PKG_VERSION")).to_owned(),
            length: None,
            first_picture: FIRST_PICTURE_TIMEOUT,
            display: DisplayKind::Screen,
            display_order: DisplayOrder::default(),
            codecs: AVAILABLE_CODECS.to_vec(),
            record: RecordOptions::default(),
            path: PathOptions::default(),
            intra_only: false,
            sound: false,
            clipboard: false,
            messages: Messages::default(),
            decoders: Decoders::default(),
        }
    }
}

/// Options of a [`Viewer`](crate::Viewer).
#[derive(Clone, Debug)]
pub struct Options {
    /// The viewer's name in the server's log.
    pub name: String,
    /// Kind of display. `Headset` requests the pictures of two eyes side by side.
    pub display: DisplayKind,
    /// Refresh rate of the display in hertz; 0 if pictures are displayed as soon as they are decoded.
    pub display_hz: u16,
    /// Codecs that the server may use, best first.
    pub codecs: Vec<CodecKind>,
    /// Requests the sound of the application.
    pub sound: bool,
    /// Shares clipboard texts, if the server's owner permits it too.
    pub clipboard: bool,
    /// Maximum time that [`Viewer::connect`](crate::Viewer::connect) tries to reach a server.
    pub connect_limit: Span,
    /// Maximum number of pictures queued for the program; beyond it, the oldest is dropped. 1 has the shortest delay.
    pub pictures_kept: usize,
    /// Whether the program reports by [`Viewer::displayed`](crate::Viewer::displayed) when each picture is displayed. Otherwise a picture
    /// counts as displayed when the program takes it.
    pub tells_display: bool,
    /// Files to write. The screenshot is ignored.
    pub record: RecordOptions,
    /// Faults to inject.
    pub path: PathOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: concat!("libnearlight ", env!("CARGO_PKG_VERSION")).to_owned(),
            display: DisplayKind::Screen,
            display_hz: 0,
            codecs: AVAILABLE_CODECS.to_vec(),
            sound: false,
            clipboard: false,
            connect_limit: FIRST_PICTURE_TIMEOUT,
            pictures_kept: 1,
            tells_display: false,
            record: RecordOptions::default(),
            path: PathOptions::default(),
        }
    }
}

impl Options {
    /// Returns the player's options. They have no timeout for the first picture, because the program decides how long it waits.
    pub(crate) fn view_options(&self, target: Target) -> ViewOptions {
        ViewOptions {
            name: self.name.clone(),
            first_picture: NO_TIMEOUT,
            display: self.display,
            codecs: self.codecs.clone(),
            record: RecordOptions { screenshot: None, ..self.record.clone() },
            path: self.path.clone(),
            sound: self.sound,
            clipboard: self.clipboard,
            ..ViewOptions::new(target)
        }
    }
}

/// The files that a run writes.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// Every event as a line of JSON.
    pub events: Option<PathBuf>,
    /// Every frame's stages for Perfetto and Chrome's tracing page.
    pub trace: Option<PathBuf>,
    /// Every displayed frame as a line of comma-separated values.
    pub csv: Option<PathBuf>,
    /// The last displayed picture as PNG.
    pub screenshot: Option<PathBuf>,
    /// The sound as it was played, as WAV: 48 kHz, two channels, from the first connection to the end.
    pub sound: Option<PathBuf>,
}

impl RecordOptions {
    pub(crate) fn wants_events(&self) -> bool {
        self.events.is_some() || self.trace.is_some() || self.csv.is_some()
    }
}

/// Faults that are injected at this end of the path. Times count from the first picture.
#[derive(Clone, Debug, Default)]
pub struct PathOptions {
    /// Emulated paths for datagrams, a new one for each connection.
    pub emulated: Option<Arc<dyn EmulatedPaths>>,
    pub outages: Vec<Outage>,
    /// Times at which the connection moves to another local port, as after a change of network.
    pub rebinds: Vec<Span>,
}

/// A period in which all packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub at: Span,
    pub length: Span,
}

/// The error of a text that is not a valid outage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an outage: write its start and its length in seconds, such as `3:2`")]
pub struct ParseOutageError(String);

impl FromStr for Outage {
    type Err = ParseOutageError;

    /// Parses `START:LENGTH`, both in seconds.
    fn from_str(text: &str) -> Result<Self, ParseOutageError> {
        let error = || ParseOutageError(text.to_owned());
        let (at, length) = text.split_once(':').ok_or_else(error)?;
        let seconds = |text: &str| {
            let value = text.trim().parse::<f64>().ok().filter(|value| (0.0..=1e6).contains(value));
            value.map(Span::from_secs_f64).ok_or_else(error)
        };
        Ok(Self { at: seconds(at)?, length: seconds(length)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_read_as_people_write_them() {
        let outage = |at, length| Ok(Outage { at: Span::from_millis(at), length: Span::from_millis(length) });
        assert_eq!("3:2".parse(), outage(3_000, 2_000));
        assert_eq!("0.5: 1.25".parse(), outage(500, 1_250));
        for wrong in ["", "3", "3:", ":2", "-1:2", "a:b", "1:inf"] {
            assert!(wrong.parse::<Outage>().is_err(), "{wrong}");
        }
    }
}
