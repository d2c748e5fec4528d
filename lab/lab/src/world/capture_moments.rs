//! The decisions of a session at each moment of its capture schedule, for a comparison with the server's studio.

use nearlight_session::{CaptureDecision, CaptureFacts};
use nearlight_units::Time;

use super::media::MediaActor;
use super::{Actor, RunError, World};
use crate::plan::Cell;

/// A moment of the capture schedule at which the session was active.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaptureMoment {
    pub at: Time,
    pub facts: CaptureFacts,
    pub decision: CaptureDecision,
}

/// Runs a cell once and returns every capture moment of its first session over datagrams, in order. Empty without such a session.
pub fn capture_moments(cell: &Cell, seed: u64) -> Result<Vec<CaptureMoment>, RunError> {
    let mut world = World::new(cell, seed)?;
    if let Some(session) = first_session(&mut world) {
        session.moments = Some(Vec::new());
    }
    world.run();
    let session = first_session(&mut world);
    Ok(session.and_then(|session| session.moments.take()).unwrap_or_default())
}

fn first_session<'a>(world: &'a mut World<'_>) -> Option<&'a mut MediaActor> {
    world.actors.iter_mut().find_map(|actor| if let Actor::Media(media) = actor { Some(media.as_mut()) } else { None })
}
