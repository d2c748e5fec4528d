//! What a program wants of a gamepad's motors.

use std::time::{Duration, SystemTime};

use crate::gamepad::Rumble;

/// A program is not trusted to change its mind more seldom: each change is a message to the viewer.
const BETWEEN_RUMBLES: Duration = Duration::from_millis(20);
/// Effects that a device keeps: as many as the kernel's own driver.
pub(crate) const MOST_EFFECTS: usize = 16;

/// What is wanted of the motors of one gamepad.
#[derive(Debug)]
pub(crate) struct Motors {
    /// Not polled yet.
    wanted: Option<Rumble>,
    rumbled: SystemTime,
    /// Somebody was woken to poll it.
    woken: bool,
}

impl Default for Motors {
    fn default() -> Self {
        Self { wanted: None, rumbled: SystemTime::UNIX_EPOCH, woken: false }
    }
}

impl Motors {
    /// True where somebody is to be woken.
    pub(crate) fn want(&mut self, rumble: Rumble) -> bool {
        self.wanted = Some(rumble);
        !std::mem::replace(&mut self.woken, true)
    }

    /// What is wanted, if that has changed; not more often than every 20 ms.
    pub(crate) fn poll(&mut self, at: SystemTime) -> Option<Rumble> {
        self.woken = false;
        // A clock that was set back counts as one that has gone on.
        let due = at.duration_since(self.rumbled).map_or(true, |since| since >= BETWEEN_RUMBLES);
        let wanted = self.wanted.take_if(|_| due)?;
        self.rumbled = at;
        Some(wanted)
    }
}

/// The effects that a device's clients have uploaded. The motors do what was asked last.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// By the kernel's numbers.
    uploaded: [Option<Rumble>; MOST_EFFECTS],
    playing: Option<usize>,
}

impl Effects {
    /// False where there is no room for it.
    pub(crate) fn on_upload(&mut self, number: i16, effect: Rumble) -> bool {
        let place = usize::try_from(number).ok().and_then(|number| self.uploaded.get_mut(number));
        let Some(place) = place else { return false };
        *place = Some(effect);
        true
    }

    /// The kernel has stopped it before.
    pub(crate) fn on_erase(&mut self, number: u32) {
        if let Some(place) = self.uploaded.get_mut(number as usize) {
            *place = None;
        }
    }

    /// An effect is to be played, or stopped. Returns what the motors are to do then, if that is something else.
    pub(crate) fn on_play(&mut self, number: u16, plays: bool) -> Option<Rumble> {
        let number = usize::from(number);
        if plays {
            let effect = *self.uploaded.get(number)?.as_ref()?;
            self.playing = Some(number);
            return Some(effect);
        }
        // One that another one has replaced no longer plays.
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
        assert!(motors.want(STRONG) && !motors.want(WEAK), "who was woken is not woken again");
        assert_eq!(motors.poll(at(1)), Some(WEAK));
        assert!(motors.want(STRONG));
        assert_eq!([motors.poll(at(20)), motors.poll(at(21)), motors.poll(at(50))], [None, Some(STRONG), None]);
        assert!(motors.want(WEAK));
        assert_eq!(motors.poll(at(1)), Some(WEAK), "the clock was set back");
    }
}
