//! A display's connector, mode and two buffers, through the kernel's mode setting.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use drm::buffer::DrmFourcc;
use drm::control::dumbbuffer::DumbBuffer;
use drm::control::{Device as _, Event, Mode, ModeTypeFlags, PageFlipFlags, connector, crtc, framebuffer};
use drm::{Device as _, DriverCapability};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ClientError;

const CARD_FOLDER: &str = "/dev/dri";
/// Longest wait for a page flip, after which the display counts as gone. Guess: a hundred frames of the slowest displays.
const FLIP_TIMEOUT: Timespec = Timespec { tv_sec: 4, tv_nsec: 0 };

/// A graphics card's device file.
pub struct Card {
    file: File,
    path: PathBuf,
}

impl AsFd for Card {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl drm::Device for Card {}
impl drm::control::Device for Card {}

impl Card {
    fn open(path: &Path) -> Result<Self, ClientError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
            ClientError::Display(match error.kind() {
                ErrorKind::PermissionDenied => format!(
                    "no permission to open {}: add the user to the group `video` (`sudo usermod -aG video $USER`, then log in again)",
                    path.display()
                ),
                ErrorKind::NotFound => format!("there is no {}; `ls {CARD_FOLDER}` lists this machine's cards", path.display()),
                _ => format!("cannot open {}: {error}", path.display()),
            })
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Returns the connector with this name, or the first one with a display. The error lists the connectors that there are.
    fn connector(&self, wanted: Option<&str>) -> Result<connector::Info, String> {
        let resources = self.resource_handles().map_err(|_| "has no display outputs".to_owned())?;
        let mut others = Vec::new();
        for handle in resources.connectors() {
            let Ok(connector) = self.get_connector(*handle, true) else { continue };
            let name = connector.to_string();
            let connected = connector.state() == connector::State::Connected && !connector.modes().is_empty();
            if connected && wanted.is_none_or(|wanted| wanted == name) {
                return Ok(connector);
            }
            others.push(format!("{name} {}", if connected { "has a display" } else { "has no display" }));
        }
        Err(if others.is_empty() { "has no display outputs".into() } else { others.join(", ") })
    }

    /// Returns the CRTC that drives the connector, or else an idle one that can.
    fn crtc(&self, connector: &connector::Info) -> io::Result<Option<crtc::Handle>> {
        let driving = |handle: &connector::Handle| {
            let encoder = self.get_connector(*handle, false).ok()?.current_encoder()?;
            self.get_encoder(encoder).ok()?.crtc()
        };
        if let Some(crtc) = driving(&connector.handle()) {
            return Ok(Some(crtc));
        }
        let resources = self.resource_handles()?;
        let busy: Vec<_> = resources.connectors().iter().filter_map(driving).collect();
        let encoders = connector.encoders().iter().filter_map(|handle| self.get_encoder(*handle).ok());
        let mut crtcs = encoders.flat_map(|encoder| resources.filter_crtcs(encoder.possible_crtcs()));
        Ok(crtcs.find(|crtc| !busy.contains(crtc)))
    }
}

/// Returns the files of this machine's graphics cards, ordered by number.
fn cards() -> Vec<PathBuf> {
    let files = std::fs::read_dir(CARD_FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_card = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("card"));
    let mut cards: Vec<_> = files.filter(is_card).collect();
    cards.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    cards
}

/// Finds the first card with a connected display, or uses the one at `path`.
fn find_display(path: Option<&Path>, name: Option<&str>) -> Result<(Card, connector::Info), ClientError> {
    let candidates = path.map_or_else(cards, |path| vec![path.to_owned()]);
    if candidates.is_empty() {
        let advice = "load the graphics driver, or run without a display with `--headless`";
        return Err(ClientError::Display(format!("{CARD_FOLDER} has no card; {advice}")));
    }
    let (mut failure, mut others) = (None, Vec::new());
    for path in candidates {
        match Card::open(&path) {
            Ok(card) => match card.connector(name) {
                Ok(connector) => return Ok((card, connector)),
                Err(reason) => others.push(format!("{}: {reason}", path.display())),
            },
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| {
        let wanted = name.map_or_else(|| "no display is connected".to_owned(), |name| format!("{name} has no display"));
        ClientError::Display(format!("{wanted} ({})", others.join("; ")))
    }))
}

/// A display under the viewer's control. When this is dropped, the display shows what it showed before.
pub struct Output {
    card: Card,
    connector: connector::Handle,
    name: String,
    mode: Mode,
    /// The CRTC's earlier state, to be restored.
    before: crtc::Info,
    buffers: [(DumbBuffer, framebuffer::Handle); 2],
}

impl Output {
    /// Takes over the display. Its two buffers are black.
    pub fn open(path: Option<&Path>, name: Option<&str>) -> Result<Self, ClientError> {
        let (card, connector) = find_display(path, name)?;
        let at = card.path.display().to_string();
        card.acquire_master_lock().map_err(|_| {
            ClientError::Display(format!(
                "another program controls the display of {at}, such as X or a Wayland compositor: end it, or start this on a text \
                 console (Ctrl+Alt+F3)"
            ))
        })?;
        let failed = |what: &'static str| {
            let at = at.clone();
            move |error: io::Error| ClientError::Display(format!("{at}: {what}: {error}"))
        };
        if card.get_driver_capability(DriverCapability::DumbBuffer).is_ok_and(|supported| supported == 0) {
            return Err(ClientError::Display(format!("{at} does not let programs without its driver's library draw")));
        }
        let crtc = card.crtc(&connector).map_err(failed("its outputs cannot be listed"))?;
        let crtc =
            crtc.ok_or_else(|| ClientError::Display(format!("{at} drives other displays and no further one")))?;
        let before = card.get_crtc(crtc).map_err(failed("its state cannot be read"))?;
        let preferred = connector.modes().iter().find(|mode| mode.mode_type().contains(ModeTypeFlags::PREFERRED));
        let mode = *preferred.or(connector.modes().first()).expect("a connected display has modes");
        let (width, height) = mode.size();
        let buffer = || -> io::Result<_> {
            let buffer = card.create_dumb_buffer((width.into(), height.into()), DrmFourcc::Xrgb8888, 32)?;
            let shown = card.add_framebuffer(&buffer, 24, 32)?;
            Ok((buffer, shown))
        };
        let buffers = [
            buffer().map_err(failed("it has no memory for a picture"))?,
            buffer().map_err(failed("it has no memory for a second picture"))?,
        ];
        let (handle, name) = (connector.handle(), connector.to_string());
        let output = Self { card, connector: handle, name, mode, before, buffers };
        let first = output.buffers[0].1;
        output
            .card
            .set_crtc(crtc, Some(first), (0, 0), &[handle], Some(mode))
            .map_err(failed("the display's mode cannot be set"))?;
        Ok(output)
    }

    /// Returns the card, its connector and the mode, for log messages.
    pub fn description(&self) -> String {
        let (width, height) = self.mode.size();
        format!("{} {}, {width}x{height} at {} Hz", self.card.path.display(), self.name, self.refresh_rate())
    }

    /// Returns the display's columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.mode.size()
    }

    /// Returns the refresh rate in hertz.
    pub fn refresh_rate(&self) -> u16 {
        u16::try_from(self.mode.vrefresh()).unwrap_or(u16::MAX)
    }

    pub const fn card(&self) -> &Card {
        &self.card
    }

    pub fn crtc(&self) -> crtc::Handle {
        self.before.handle()
    }

    /// Returns both buffers. Buffer 0 is shown at first.
    pub fn buffers(&self) -> [DumbBuffer; 2] {
        self.buffers.map(|(buffer, _)| buffer)
    }

    /// Shows a buffer from the display's next refresh on, and waits for that refresh.
    pub fn show(&self, index: usize) -> Result<(), ClientError> {
        let lost = |error: &dyn std::fmt::Display| {
            let path = self.card.path.display();
            ClientError::Display(format!("{path} {} shows no further picture: {error}", self.name))
        };
        self.card
            .page_flip(self.crtc(), self.buffers[index].1, PageFlipFlags::EVENT, None)
            .map_err(|error| lost(&error))?;
        loop {
            match poll(&mut [PollFd::new(&self.card, PollFlags::IN)], Some(&FLIP_TIMEOUT)) {
                Ok(0) => return Err(lost(&"it does not answer")),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(lost(&error)),
            }
            let mut events = self.card.receive_events().map_err(|error| lost(&error))?;
            if events.any(|event| matches!(event, Event::PageFlip(_))) {
                return Ok(());
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // If this fails, the kernel shows its console again once the card is closed.
        let (shown, mode) = (self.before.framebuffer(), self.before.mode());
        let connectors: &[_] = if shown.is_some() && mode.is_some() { &[self.connector] } else { &[] };
        let (shown, mode) = if connectors.is_empty() { (None, None) } else { (shown, mode) };
        let restored = self.card.set_crtc(self.crtc(), shown, self.before.position(), connectors, mode);
        if let Err(error) = restored {
            tracing::debug!(%error, "the display's earlier picture was not restored");
        }
        for (buffer, shown) in self.buffers {
            let _ = self.card.destroy_framebuffer(shown);
            let _ = self.card.destroy_dumb_buffer(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_card_is_said_in_words() {
        let error = Output::open(Some(Path::new("/dev/dri/card99")), None).err().expect("no such card");
        assert!(error.to_string().contains("there is no /dev/dri/card99"), "{error}");
        let error = Output::open(Some(Path::new("/dev/null")), None).err().expect("no card");
        assert!(error.to_string().contains("/dev/null: has no display outputs"), "{error}");
    }
}
