//! The policies by name.

use thiserror::Error;

use super::{Budget, EscotGop, Fixed, Nebula, NoRedundancy, Planner, RedundancyPolicy, WebRtc};

/// Maximum percentage of `fixed`.
const MAX_PERCENT: u16 = 200;

/// A policy's name and description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyPreset {
    /// The name on the command line, in plans and in logs. `P` stands for a number.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
}

/// All policies, the default first.
pub const POLICIES: &[PolicyPreset] = &[
    PolicyPreset {
        name: "planner",
        summary: "what pays off by the loss process, the deadline and the price of a packet",
    },
    PolicyPreset {
        name: "nebula",
        summary: "more for frames that more others depend on, at least one packet (WWW '22)",
    },
    PolicyPreset { name: "escot-gop", summary: "one block for each group of pictures, as Nebula's authors ran ESCOT" },
    PolicyPreset { name: "planner:P", summary: "the planner, spending at most P percent on average (1 to 200)" },
    PolicyPreset {
        name: "planner-as-nebula",
        summary: "the planner with as many repairs as nebula would send, to compare where they go",
    },
    PolicyPreset { name: "webrtc", summary: "the more, the longer a retransmission takes, as WebRTC's hybrid of both" },
    PolicyPreset { name: "fixed:P", summary: "P percent of every frame, rounded up (0 to 200)" },
    PolicyPreset { name: "none", summary: "no redundancy" },
];

/// The error for a name that is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no redundancy policy `{0}`: use {names}", names = names())]
pub struct UnknownPolicy(pub String);

fn names() -> String {
    let names: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
    names.join(", ")
}

/// Returns a new policy of this name.
pub fn new_policy(name: &str) -> Result<Box<dyn RedundancyPolicy>, UnknownPolicy> {
    match name {
        "planner" => Ok(Box::new(Planner::default())),
        "nebula" => Ok(Box::new(Nebula)),
        "escot-gop" => Ok(Box::new(EscotGop::default())),
        "planner-as-nebula" => Ok(Box::new(Budget::as_nebula())),
        "webrtc" => Ok(Box::new(WebRtc::default())),
        "none" => Ok(Box::new(NoRedundancy)),
        other => {
            let percent = |prefix: &str| {
                let number = other.strip_prefix(prefix)?;
                number.strip_suffix('%').unwrap_or(number).parse().ok()
            };
            match (percent("fixed:"), percent("planner:")) {
                (Some(percent), _) if percent <= MAX_PERCENT => Ok(Box::new(Fixed { percent })),
                (_, Some(percent)) if (1..=MAX_PERCENT).contains(&percent) => Ok(Box::new(Budget::percent(percent))),
                _ => Err(UnknownPolicy(other.to_owned())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_its_name() {
        for policy in POLICIES {
            let name = policy.name.replace('P', "15");
            assert_eq!(new_policy(&name).ok().map(|policy| policy.name()), Some(name));
        }
        assert_eq!(new_policy("fixed:15%").ok().map(|policy| policy.name()), Some("fixed:15".to_owned()));
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        for wrong in
            ["fec", "fixed", "fixed:", "fixed:201", "fixed:-1", "fixed:1e9", "planner:0", "planner:", "", "Planner"]
        {
            let Err(error) = new_policy(wrong) else { panic!("`{wrong}` is not a policy") };
            let said = error.to_string();
            assert!(POLICIES.iter().all(|policy| said.contains(policy.name)), "{said}");
        }
    }
}
