//! Frames between decoder and display, whether they were reassembled here or by the application's own media stack.

use nearlight_events::{Event, Stage};
use nearlight_units::{FrameId, RemoteTime, Time};
use nearlight_wire::{FrameHeader, marker::Marker};

use super::context::Context;
use super::sound::SoundReception;
use crate::receiver::assembly::Transfer;
use crate::receiver::presentation::{DisplayedFrame, Presentation};

/// Closes timelines, and compares the sound with the pictures that are displayed.
#[derive(Debug)]
pub(super) struct Display<'a> {
    pub(super) presentation: &'a mut Presentation,
    pub(super) sound: &'a mut SoundReception,
    pub(super) context: &'a mut Context,
}

impl Display<'_> {
    /// Records that a frame is handed out.
    pub(super) fn on_ready(
        &mut self,
        now: Time,
        frame: FrameId,
        header: FrameHeader<RemoteTime>,
        transfer: Transfer,
        damaged: bool,
    ) {
        self.presentation.on_ready(frame, header, transfer, damaged);
        self.context.telemetry.emit(now, || Event::FrameReady { frame });
        if damaged {
            self.context.telemetry.emit(now, || Event::FrameDamaged { frame });
        }
    }

    /// Records that a decoded frame has been on the display since `now`. Returns none for an unknown frame and before the first clock
    /// exchange.
    pub(super) fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Option<Marker>) -> Option<DisplayedFrame> {
        let Context { clock, uplink, telemetry } = &mut *self.context;
        let displayed = self.presentation.on_displayed(now, frame, marker, clock.estimate(now), &uplink.input)?;
        self.sound.on_displayed(now, displayed.timeline.boundaries[Stage::Render as usize]);
        if telemetry.has_events() {
            for timeline in displayed.passed_over.clone() {
                telemetry.emit(now, || Event::FramePassedOver { timeline });
            }
            let timeline = displayed.timeline.clone();
            telemetry.emit(now, || Event::FrameDisplayed { timeline });
            for (input, span) in displayed.inputs.iter().copied() {
                telemetry.emit(now, || Event::InputToPhoton { input, frame, span });
            }
            if let Some((input, span)) = displayed.inputs.last().copied() {
                telemetry.emit(now, || Event::MotionToPhoton { input, frame, span });
            }
        }
        Some(displayed)
    }
}
