//! Where a server is, and how it is watched.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use nearlight_codec::{AVAILABLE, CodecKind, Decoders};
use nearlight_link::Probability;
use nearlight_net::{EthernetInterface, EthernetLink, Link};
use nearlight_session::DisplayOrder;
use nearlight_units::Span;
use nearlight_wire::DisplayKind;

use crate::{Messages, ViewerError};

/// No picture within this time of the start is an error. Guess: long enough for a server that measures its encoder first.
const FIRST_PICTURE: Span = Span::from_secs(10);

/// Longer than any program runs.
const UNLIMITED: Span = Span::from_secs(100 * 365 * 24 * 3_600);

/// Where a server is, and how it is reached.
#[derive(Clone, Debug)]
pub enum Target {
    /// By a page's link: WebTransport.
    Page(Link),
    /// By Ethernet frames on an interface that has been opened.
    Ethernet { link: EthernetLink, interface: Arc<EthernetInterface> },
}

impl Target {
    /// Reads a link as `nearlight serve` printed it, `http[s]://HOST:PORT/#token=...` or `ether:[INTERFACE/]ADDRESS#token=...`; for the
    /// latter it opens the interface, which needs the right to raw frames.
    pub fn open(link: &str) -> Result<Self, ViewerError> {
        if !EthernetLink::is_meant_by(link) {
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

    /// The session's transport, as summaries name it.
    pub(crate) const fn transport(&self) -> &'static str {
        match self {
            Self::Page(_) => "webtransport",
            Self::Ethernet { .. } => "ethernet",
        }
    }

    /// The server's name for messages.
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

/// Common to a window and a headless run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ViewOptions {
    pub target: Target,
    /// The viewer's name for itself, for the server's log.
    pub name: String,
    /// Accepts any certificate where the link names none, and relies on the token's proof for the server's identity. Otherwise the
    /// certificate must be signed by an authority that this machine trusts.
    pub trust_first_use: bool,
    /// Ends this long after the first picture; None watches until it is stopped.
    pub length: Option<Span>,
    /// Gives up if no picture has arrived this long after the start.
    pub first_picture: Span,
    /// `Headset` requests two eyes side by side.
    pub display: DisplayKind,
    /// Which of several decoded pictures a display shows next. A library's program and a run without a display take them as they come.
    pub display_order: DisplayOrder,
    /// Codecs that the server may use, best first.
    pub codecs: Vec<CodecKind>,
    pub record: RecordOptions,
    pub path: PathOptions,
    /// Never requests what was lost, but a key frame at once.
    pub intra_only: bool,
    /// Requests the world's sound, decodes it and keeps it in sync, as if it were played. A window has no sound output.
    pub sound: bool,
    /// Shares clipboard texts, where the server's owner permits it as well. Only a window has a clipboard.
    pub clipboard: bool,
    /// Messages between this program and the application.
    pub messages: Messages,
    /// Where decoders come from.
    pub decoders: Decoders,
}

impl ViewOptions {
    /// Watches the server on a screen until stopped.
    #[must_use]
    pub fn new(target: impl Into<Target>) -> Self {
        Self {
            target: target.into(),
            name: concat!("nearlight view ", env!("CARGO_PKG_VERSION")).to_owned(),
            trust_first_use: false,
            length: None,
            first_picture: FIRST_PICTURE,
            display: DisplayKind::Screen,
            display_order: DisplayOrder::default(),
            codecs: AVAILABLE.to_vec(),
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

/// What a program wants of a [`Viewer`](crate::Viewer).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Options {
    /// The viewer's name for itself, for the server's log.
    pub name: String,
    /// Accepts any certificate where the link names none, and relies on the token's proof for the server's identity.
    pub trust_first_use: bool,
    /// `Headset` requests two eyes side by side.
    pub display: DisplayKind,
    /// Refresh rate of the display in hertz; 0 where a picture is displayed the moment it is decoded.
    pub display_hz: u16,
    /// Codecs that the server may use, best first.
    pub codecs: Vec<CodecKind>,
    /// Requests the sound of the application.
    pub sound: bool,
    /// Shares clipboard texts, where the server's owner permits it as well.
    pub clipboard: bool,
    /// How long [`Viewer::connect`](crate::Viewer::connect) tries to reach a server.
    pub connect_limit: Span,
    /// Pictures that wait for the program: of more, the oldest is passed over. 1 is the shortest delay.
    pub pictures_kept: usize,
    /// The program says by [`Viewer::displayed`](crate::Viewer::displayed) when each picture is seen. Otherwise a picture counts as seen when
    /// the program takes it.
    pub tells_display: bool,
    /// Files to write; a screenshot is the program's own affair.
    pub record: RecordOptions,
    /// Faults to inject.
    pub path: PathOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: concat!("libnearlight ", env!("CARGO_PKG_VERSION")).to_owned(),
            trust_first_use: false,
            display: DisplayKind::Screen,
            display_hz: 0,
            codecs: AVAILABLE.to_vec(),
            sound: false,
            clipboard: false,
            connect_limit: FIRST_PICTURE,
            pictures_kept: 1,
            tells_display: false,
            record: RecordOptions::default(),
            path: PathOptions::default(),
        }
    }
}

impl Options {
    /// As the player has them: it waits for pictures as long as the program does.
    pub(crate) fn view_options(&self, target: Target) -> ViewOptions {
        ViewOptions {
            name: self.name.clone(),
            trust_first_use: self.trust_first_use,
            first_picture: UNLIMITED,
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

/// Files that a run writes.
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
    /// The sound as played, as WAV: 48 kHz, two channels, from the first connection to the end.
    pub sound: Option<PathBuf>,
}

impl RecordOptions {
    pub(crate) fn wants_events(&self) -> bool {
        self.events.is_some() || self.trace.is_some() || self.csv.is_some()
    }
}

/// Faults injected at this end of the path. Times count from the first picture.
#[derive(Clone, Debug, Default)]
pub struct PathOptions {
    /// Share of datagrams that are lost, each way.
    pub drop: Probability,
    /// The same seed loses the same datagrams.
    pub seed: u64,
    pub outages: Vec<Outage>,
    /// Moments of moving to a new local port, as a change of network does.
    pub rebinds: Vec<Span>,
}

/// A period in which nothing gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub at: Span,
    pub length: Span,
}

/// The text is not a valid outage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an outage: write its start and its length in seconds, such as `3:2`")]
pub struct NotAnOutage(String);

impl FromStr for Outage {
    type Err = NotAnOutage;

    /// Reads `AT:SECONDS`.
    fn from_str(text: &str) -> Result<Self, NotAnOutage> {
        let refused = || NotAnOutage(text.to_owned());
        let (at, length) = text.split_once(':').ok_or_else(refused)?;
        let seconds = |text: &str| {
            let value = text.trim().parse::<f64>().ok().filter(|value| (0.0..=1e6).contains(value));
            value.map(Span::from_secs_f64).ok_or_else(refused)
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
