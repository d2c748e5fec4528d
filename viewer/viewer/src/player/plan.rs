//! The schedule of injected faults.

use std::collections::VecDeque;

use nearlight_net::{Connection, Direction};
use nearlight_units::{Span, Time};

use crate::PathOptions;

/// A change of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathChange {
    /// An outage begins or ends.
    Outage(bool),
    /// The connection moves to another local port.
    Rebind,
}

/// The changes of a run, across all of its connections.
#[derive(Debug)]
pub struct PathPlan {
    options: PathOptions,
    /// The remaining changes in order, with times counted from the first picture.
    changes: VecDeque<(Span, PathChange)>,
    outage: bool,
}

impl PathPlan {
    pub fn new(options: &PathOptions) -> Self {
        let outages = options.outages.iter().flat_map(|outage| {
            [(outage.at, PathChange::Outage(true)), (outage.at + outage.length, PathChange::Outage(false))]
        });
        let rebinds = options.rebinds.iter().map(|at| (*at, PathChange::Rebind));
        let mut changes: Vec<_> = outages.chain(rebinds).collect();
        changes.sort_by_key(|(at, _)| *at);
        Self { options: options.clone(), changes: changes.into(), outage: false }
    }

    /// Applies the path's current state to a new connection.
    pub fn apply_to(&self, now: Time, connection: &Connection) {
        match self.options.emulated.as_ref().map(|paths| paths.for_session(0, now)) {
            Some(Ok([send, receive])) => {
                connection.set_impairment(Direction::Send, Some(send));
                connection.set_impairment(Direction::Receive, Some(receive));
            }
            Some(Err(error)) => tracing::warn!("no path is emulated: {error}"),
            None => {}
        }
        if self.outage {
            connection.set_outage(true);
        }
    }

    /// Returns the time of the next change. `first` is the time of the first picture.
    pub fn poll_timeout(&self, first: Option<Time>) -> Option<Time> {
        Some(first? + self.changes.front()?.0)
    }

    /// Applies the changes that are due.
    pub fn run(&mut self, now: Time, first: Option<Time>, connection: &Connection) {
        while self.poll_timeout(first).is_some_and(|at| at <= now) {
            match self.changes.pop_front() {
                Some((_, PathChange::Outage(outage))) => {
                    self.outage = outage;
                    connection.set_outage(outage);
                    tracing::info!(outage, "emulated outage");
                }
                Some((_, PathChange::Rebind)) => match connection.rebind() {
                    Ok(address) => tracing::info!(%address, "rebound to another local port (--rebind)"),
                    Err(error) => tracing::warn!(%error, "moving to another local port failed"),
                },
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_wait_for_the_first_picture_and_come_in_order() {
        let outage = |at, length| crate::Outage { at: Span::from_secs(at), length: Span::from_secs(length) };
        let options = PathOptions {
            outages: vec![outage(9, 1), outage(2, 3)],
            rebinds: vec![Span::from_secs(4)],
            ..PathOptions::default()
        };
        let plan = PathPlan::new(&options);
        assert_eq!(plan.poll_timeout(None), None);
        assert_eq!(plan.poll_timeout(Some(Time::from_secs(10))), Some(Time::from_secs(12)));
        let moments: Vec<_> =
            plan.changes.iter().map(|(at, change)| (at.as_nanos() / 1_000_000_000, *change)).collect();
        let expected = [
            (2, PathChange::Outage(true)),
            (4, PathChange::Rebind),
            (5, PathChange::Outage(false)),
            (9, PathChange::Outage(true)),
            (10, PathChange::Outage(false)),
        ];
        assert_eq!(moments, expected);
    }
}
