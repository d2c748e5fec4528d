//! A viewer's options.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use nearlight_codec::{CodecKind, Decoders};
use nearlight_link::Probability;
use nearlight_net::{EthernetInterface, EthernetLink, Link};
use nearlight_units::Span;
use nearlight_wire::DisplayKind;

use crate::Messages;

/// No picture within this time of the start is an error. Guess: long enough for a server that measures its encoder first.
const FIRST_PICTURE: Span = Span::from_secs(10);

/// Where a server is, and how it is reached.
#[derive(Clone, Debug)]
pub enum Target {
    /// By a page's link: WebTransport.
    Page(Link),
    /// By Ethernet frames on an interface that has been opened.
    Ethernet { link: EthernetLink, interface: Arc<EthernetInterface> },
}

impl Target {
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
    /// Accepts any certificate where the link names none, and relies on the token's proof for the server's identity. Otherwise the
    /// certificate must be signed by an authority that this machine trusts.
    pub trust_first_use: bool,
    /// Ends this long after the first picture; None watches until it is stopped.
    pub length: Option<Span>,
    /// Gives up if no picture has arrived this long after the start.
    pub first_picture: Span,
    /// `Headset` requests two eyes side by side.
    pub display: DisplayKind,
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
            trust_first_use: false,
            length: None,
            first_picture: FIRST_PICTURE,
            display: DisplayKind::Screen,
            codecs: CodecKind::ALL.to_vec(),
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
#[error("`{0}` is no outage: write when it begins and how long it lasts in seconds, such as `3:2`")]
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

/// A run without a display.
#[derive(Clone, Debug)]
pub struct HeadlessOptions {
    pub view: ViewOptions,
    /// Refresh rate of a virtual display: a picture is displayed at its next slot. None displays at the decoder's output.
    pub display_hz: Option<u16>,
    /// Movements of the synthetic user per second, at least 1.
    pub samples_per_second: u16,
}

impl HeadlessOptions {
    /// Displays at the decoder's output, with a user who moves 60 times a second.
    #[must_use]
    pub const fn new(view: ViewOptions) -> Self {
        Self { view, display_hz: None, samples_per_second: 60 }
    }
}

/// A viewer in a window.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    pub view: ViewOptions,
    /// Width and height of the window in pixels; the picture keeps its shape within.
    pub size: (u32, u32),
}

impl WindowOptions {
    #[must_use]
    pub const fn new(view: ViewOptions) -> Self {
        Self { view, size: (1280, 720) }
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
