//! One bulk transfer with a time to begin and to end.

use nearlight_units::Time;

use crate::bulk::{Config, Connection};
use crate::law::{CongestionLaw, LawSpec};
use crate::{Arrival, FlowWake, Schedule, Statistics, Traffic, Transmit};

/// A long transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkConfig {
    pub law: LawSpec,
    pub transfer: Config,
    pub schedule: Schedule,
    pub seed: u64,
}

/// A long transfer as a competing flow.
pub struct Bulk {
    connection: Connection,
    schedule: Schedule,
    begun: bool,
    ended: bool,
}

impl Bulk {
    #[must_use]
    pub fn new(config: BulkConfig) -> Self {
        let law = config.law.new_law(config.transfer.in_order().packet, config.seed);
        Self::with_law(config.transfer, config.schedule, law)
    }

    /// Returns a transfer with a congestion control law of the caller.
    #[must_use]
    pub fn with_law(transfer: Config, schedule: Schedule, law: Box<dyn CongestionLaw>) -> Self {
        Self { connection: Connection::new(transfer, law), schedule, begun: false, ended: false }
    }

    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn runs(&mut self, now: Time) -> bool {
        self.begun |= now >= self.schedule.begins;
        self.ended |= now >= self.schedule.ends;
        self.begun && !self.ended
    }
}

impl Traffic for Bulk {
    fn name(&self) -> &'static str {
        self.connection.sender().law().name()
    }

    fn on_delivered(&mut self, now: Time, arrival: Arrival) {
        if self.runs(now) {
            self.connection.on_delivered(now, arrival);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if self.runs(now) { self.connection.poll_transmit(now) } else { None }
    }

    fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        if !self.begun {
            return Some((self.schedule.begins, FlowWake::Begin));
        }
        if self.ended { None } else { self.connection.poll_timeout() }
    }

    fn on_timeout(&mut self, now: Time) {
        if self.runs(now) {
            self.connection.on_timeout(now);
        }
    }

    fn statistics(&self) -> Statistics {
        self.connection.statistics()
    }
}
