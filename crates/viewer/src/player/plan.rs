//! Injected faults, and when they happen.

use std::collections::VecDeque;

use nearlight_link::{Loss, LossModel, Path, Probability, Random};
use nearlight_net::{Connection, Direction};
use nearlight_units::{Span, Time};

use crate::PathOptions;

/// A change of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Outage(bool),
    Rebind,
}

/// The changes of a run, over all of its connections.
#[derive(Debug)]
pub struct PathPlan {
    options: PathOptions,
    /// Earliest first, counted from the first picture.
    changes: VecDeque<(Span, Change)>,
    outage: bool,
}

impl PathPlan {
    pub fn new(options: &PathOptions) -> Self {
        let outages = options
            .outages
            .iter()
            .flat_map(|outage| [(outage.at, Change::Outage(true)), (outage.at + outage.length, Change::Outage(false))]);
        let rebinds = options.rebinds.iter().map(|at| (*at, Change::Rebind));
        let mut changes: Vec<_> = outages.chain(rebinds).collect();
        changes.sort_by_key(|(at, _)| *at);
        Self { options: options.clone(), changes: changes.into(), outage: false }
    }

    /// A connection opened: it gets the path's current state.
    pub fn apply_to(&self, connection: &Connection) {
        for (direction, seed) in [(Direction::Receive, self.options.seed), (Direction::Send, !self.options.seed)] {
            let drop = self.options.drop;
            if drop > Probability::NEVER {
                let loss = Loss::new(LossModel::Independent(drop), Random::new(seed));
                connection.set_impairment(direction, Some(Path::new([loss.into()])));
            }
        }
        if self.outage {
            connection.set_outage(true);
        }
    }

    /// The moment of the next change, where the first picture came at `first`.
    pub fn poll_timeout(&self, first: Option<Time>) -> Option<Time> {
        Some(first? + self.changes.front()?.0)
    }

    /// Makes the changes that are due.
    pub fn run(&mut self, now: Time, first: Option<Time>, connection: &Connection) {
        while self.poll_timeout(first).is_some_and(|at| at <= now) {
            match self.changes.pop_front() {
                Some((_, Change::Outage(outage))) => {
                    self.outage = outage;
                    connection.set_outage(outage);
                    tracing::info!(outage, "emulated outage");
                }
                Some((_, Change::Rebind)) => match connection.rebind() {
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
            (2, Change::Outage(true)),
            (4, Change::Rebind),
            (5, Change::Outage(false)),
            (9, Change::Outage(true)),
            (10, Change::Outage(false)),
        ];
        assert_eq!(moments, expected);
    }
}
