//! The newest samples of one subject, which are the bases of differences: those of the room, and those that a replica has received.

use crate::message::{HISTORY_SAMPLES, SAMPLE_NUMBER_MODULUS};
use crate::pose::Sample;

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Samples by their number modulo [`HISTORY_SAMPLES`].
    samples: [Option<(u16, Sample)>; HISTORY_SAMPLES as usize],
    newest: Option<u16>,
}

/// Returns how many samples `newer` is after `older`, or none if it is before `older`.
pub(crate) const fn distance(newer: u16, older: u16) -> Option<u16> {
    let distance = (newer + SAMPLE_NUMBER_MODULUS - older) % SAMPLE_NUMBER_MODULUS;
    if distance < SAMPLE_NUMBER_MODULUS / 2 { Some(distance) } else { None }
}

impl History {
    pub(crate) fn get(&self, number: u16) -> Option<&Sample> {
        let (found, sample) = self.samples[usize::from(number % HISTORY_SAMPLES)].as_ref()?;
        (*found == number).then_some(sample)
    }

    pub(crate) fn newest(&self) -> Option<(u16, &Sample)> {
        let number = self.newest?;
        self.get(number).map(|sample| (number, sample))
    }

    /// Adds the next sample.
    pub(crate) fn push(&mut self, sample: Sample) {
        let number = self.newest.map_or(0, |newest| (newest + 1) % SAMPLE_NUMBER_MODULUS);
        self.samples[usize::from(number % HISTORY_SAMPLES)] = Some((number, sample));
        self.newest = Some(number);
    }

    /// Replaces the newest sample, which nobody has seen.
    pub(crate) fn replace(&mut self, sample: Sample) {
        match self.newest {
            Some(number) => self.samples[usize::from(number % HISTORY_SAMPLES)] = Some((number, sample)),
            None => self.push(sample),
        }
    }

    /// Keeps a received sample, or adds its parts to the known ones. Returns false if the sample is too old to be kept.
    pub(crate) fn insert(&mut self, number: u16, sample: Sample) -> bool {
        match self.newest.map(|newest| distance(newest, number)) {
            Some(Some(behind)) if behind >= HISTORY_SAMPLES => return false,
            Some(Some(_)) => {}
            _ => self.newest = Some(number),
        }
        match &mut self.samples[usize::from(number % HISTORY_SAMPLES)] {
            Some((found, known)) if *found == number => known.merge(sample),
            place => *place = Some((number, sample)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pose::QuantisedPose;

    #[test]
    fn samples_stay_until_sixteen_newer_ones_are_there_also_across_the_wrap() {
        let mut history = History::default();
        let sample = || Sample::of_object(QuantisedPose::default());
        for _ in 0..SAMPLE_NUMBER_MODULUS + 4 {
            history.push(sample());
        }
        assert_eq!(history.newest().map(|(number, _)| number), Some(3));
        assert!(history.get(SAMPLE_NUMBER_MODULUS - 12).is_some() && history.get(SAMPLE_NUMBER_MODULUS - 13).is_none());
        let mut received = History::default();
        assert!(received.insert(4_090, sample()) && received.insert(2, sample()));
        assert!(received.insert(4_095, sample()), "late, and still a base");
        assert!(!received.insert(4_070, sample()), "too late");
        assert_eq!(received.newest().map(|(number, _)| number), Some(2));
    }
}
