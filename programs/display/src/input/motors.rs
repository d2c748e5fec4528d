//! Effects that a program plays on a gamepad's motors.

use std::time::{Duration, SystemTime};

use crate::input::gamepad::Rumble;

/// Shortest interval between two reported effects, because each report is a message to the viewer. Guess: motors are slower.
const MIN_RUMBLE_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of effects that a device stores: as many as in the kernel's own driver.
pub(crate) const MAX_EFFECTS: usize = 16;

/// The requested effect of one gamepad's motors.
#[derive(Debug)]
pub(crate) struct Motors {
    /// The requested effect that was not polled yet.
    requested: Option<Rumble>,
    /// When an effect was last polled.
    polled_at: SystemTime,
    /// Whether the poller was woken.
    woken: bool,
}

impl Default for Motors {
    fn default() -> Self {
        Self { requested: None, polled_at: SystemTime::UNIX_EPOCH, woken: false }
    }
}

impl Motors {
    /// Requests an effect. Returns whether the poller must be woken.
    pub(crate) fn request(&mut self, rumble: Rumble) -> bool {
        self.requested = Some(rumble);
        !std::mem::replace(&mut self.woken, true)
    }

    /// Returns the requested effect if it has changed, at most every 20 ms.
    pub(crate) fn poll(&mut self, at: SystemTime) -> Option<Rumble> {
        self.woken = false;
        // If the clock was set back, the effect is due.
        let due = at.duration_since(self.polled_at).map_or(true, |since| since >= MIN_RUMBLE_INTERVAL);
        let rumble = self.requested.take_if(|_| due)?;
        self.polled_at = at;
        Some(rumble)
    }
}

/// The effects that a device's clients have uploaded. The motors play the last one that was started.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Uploaded effects by the kernel's numbers.
    uploaded: [Option<Rumble>; MAX_EFFECTS],
    playing: Option<usize>,
}

impl Effects {
    /// Stores an uploaded effect. Returns false if its number is out of range.
    pub(crate) fn on_upload(&mut self, number: i16, effect: Rumble) -> bool {
        let place = usize::try_from(number).ok().and_then(|number| self.uploaded.get_mut(number));
        let Some(place) = place else { return false };
        *place = Some(effect);
        true
    }

    /// Removes an effect. The kernel has stopped it before.
    pub(crate) fn on_erase(&mut self, number: u32) {
        if let Some(place) = self.uploaded.get_mut(number as usize) {
            *place = None;
        }
    }

    /// Plays or stops an effect. Returns the motors' new effect, if it has changed.
    pub(crate) fn on_play(&mut self, number: u16, plays: bool) -> Option<Rumble> {
        let number = usize::from(number);
        if plays {
            let effect = *self.uploaded.get(number)?.as_ref()?;
            self.playing = Some(number);
            return Some(effect);
        }
        // Stopping an effect that another one has replaced changes nothing.
        self.playing.take_if(|playing| *playing == number).map(|_| Rumble::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRONG: Rumble = Rumble { strong: 9, weak: 0, milliseconds: 100 };
    const WEAK: Rumble = Rumble { strong: 0, weak: 9, milliseconds: 100 };

    #[test]
    fn the_motors_do_what_was_asked_last() {
        let mut effects = Effects::default();
        assert_eq!(effects.on_play(0, true), None, "nothing was uploaded");
        assert!(effects.on_upload(0, STRONG) && effects.on_upload(15, WEAK));
        assert!(!effects.on_upload(16, WEAK) && !effects.on_upload(-1, WEAK), "no room");
        assert_eq!(effects.on_play(0, true), Some(STRONG));
        assert_eq!(effects.on_play(15, true), Some(WEAK));
        assert_eq!(effects.on_play(0, false), None, "it had been replaced");
        assert_eq!(effects.on_play(15, false), Some(Rumble::default()));
        assert_eq!(effects.on_play(15, false), None, "already");
        effects.on_erase(15);
        effects.on_erase(99);
        assert_eq!(effects.on_play(15, true), None);
        assert_eq!(effects.on_play(0x60, true), None, "gain");
    }

    #[test]
    fn changes_are_not_reported_more_often_than_every_20_ms() {
        let at = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_secs(9) + Duration::from_millis(milliseconds);
        let mut motors = Motors::default();
        assert_eq!(motors.poll(at(0)), None);
        assert!(motors.request(STRONG) && !motors.request(WEAK), "who was woken is not woken again");
        assert_eq!(motors.poll(at(1)), Some(WEAK));
        assert!(motors.request(STRONG));
        assert_eq!([motors.poll(at(20)), motors.poll(at(21)), motors.poll(at(50))], [None, Some(STRONG), None]);
        assert!(motors.request(WEAK));
        assert_eq!(motors.poll(at(1)), Some(WEAK), "the clock was set back");
    }
}
