//! Systems: a rate controller with its redundancy and its recovery.

use nearlight_fec::policy::new_policy;
use nearlight_flows::law_of;
use nearlight_rate::Preset;
use nearlight_session::CaptureAlignment;

use super::file::SystemPart;
use super::{Recovery, Setting, System};

/// Longest group of pictures in frames: the longest that a repair for a whole group can cover.
const MAX_GROUP_FRAMES: u32 = 10;

impl System {
    /// Returns the system of a controller by itself, with the case's redundancy and recovery.
    pub(crate) fn plain(setting: &Setting) -> Self {
        Self {
            fec: setting.fec.clone(),
            recovery: setting.client.recovery,
            group: 0,
            captures: CaptureAlignment::Even,
            reliable: None,
        }
    }
}

/// Returns the system and its labels.
///
/// # Errors
///
/// A message for the plan's author.
pub(super) fn system(part: &SystemPart) -> Result<(System, Vec<(String, String)>), String> {
    let group = part.key_every.unwrap_or(0);
    let reliable = law_of(&part.controller);
    if reliable.is_none() {
        Preset::named(&part.controller)
            .map_err(|error| format!("{error}, or tcp- before a law of TCP, such as tcp-cubic, for frames over TCP"))?;
    }
    let fec = part.fec.clone().unwrap_or_else(|| "none".to_owned());
    new_policy(&fec).map_err(|error| error.to_string())?;
    let recovery = part.recovery.unwrap_or(Recovery::RETRANSMISSION);
    match (recovery, reliable) {
        (Recovery::None, None) if group == 0 => {
            return Err(
                "without recovery the picture never recovers from a loss: add key_every, such as key_every = 10"
                    .to_owned(),
            );
        }
        (Recovery::Group, _) if !(1..=MAX_GROUP_FRAMES).contains(&group) => {
            return Err(format!("recovery by group needs key_every from 1 to {MAX_GROUP_FRAMES}"));
        }
        (_, Some(_)) if fec != "none" || part.recovery.is_some() => {
            return Err("TCP retransmits losses itself: leave out `fec` and `recovery`".to_owned());
        }
        (_, Some(_)) if part.captures == Some(CaptureAlignment::Fitted) => {
            return Err("frames over TCP carry no feedback from the display: leave out `captures`".to_owned());
        }
        _ => {}
    }
    let name = if reliable.is_some() { "reliable".to_owned() } else { recovery.to_string() };
    let labels = [("controller", part.controller.as_str()), ("fec", fec.as_str()), ("recovery", name.as_str())];
    let mut labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned())).to_vec();
    let captures = part.captures.unwrap_or_default();
    if captures == CaptureAlignment::Fitted {
        labels.push(("captures".to_owned(), captures.name().to_owned()));
    }
    Ok((System { fec, recovery, group, captures, reliable }, labels))
}
