//! Laws by name, with their parameters.

use std::fmt;
use std::str::FromStr;

use nearlight_units::{Bytes, Span};
use thiserror::Error;

use super::{
    BbrV1, BbrV3, CongestionLaw, Copa, CopaMode, Cubic, CubicOptions, Hera, HeraAdaptive, HeraOptions, LedbatPlusPlus,
    LossResponse, Pcc, Reading, Reno, Step, Vegas,
};

/// The names of all laws. Hera takes parameters after its name: `hera/buckets:8/limit:none`.
pub const LAWS: [&str; 13] = [
    "reno",
    "cubic",
    "bbr",
    "bbr3",
    "hera",
    "hera-as-printed",
    "hera-adaptive",
    "copa",
    "copa-default",
    "vegas",
    "ledbat++",
    "pcc-allegro",
    "pcc-vivace",
];

/// A law's name and parameters, as in plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LawSpec {
    Reno,
    #[default]
    Cubic,
    Bbr,
    Bbr3,
    Hera(HeraOptions),
    HeraAdaptive,
    Copa(CopaMode),
    Vegas,
    LedbatPlusPlus,
    PccAllegro,
    PccVivace,
}

/// The error for an unknown law, or for a parameter that its law does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownLaw {
    #[error("there is no law of congestion control `{0}`, so this flow cannot be made: use {names}", names = LAWS.join(", "))]
    Name(String),
    #[error(
        "`{0}` is not a parameter of Hera: write buckets:8 (an even number), bucket:15 (ms), backlog:10, delta:10 (packets), limit:1000 or \
         limit:none, step:round-trip or step:sample, \
         loss:ignore or loss:halve, least:4, most:20000 (packets), each after a `/`"
    )]
    Parameter(String),
}

impl LawSpec {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Hera(HeraOptions { reading: Reading::Symmetric, .. }) => "hera",
            Self::Hera(HeraOptions { reading: Reading::AsPrinted, .. }) => "hera-as-printed",
            Self::HeraAdaptive => "hera-adaptive",
            Self::Copa(CopaMode::Switching) => "copa",
            Self::Copa(CopaMode::Default) => "copa-default",
            Self::Vegas => "vegas",
            Self::LedbatPlusPlus => "ledbat++",
            Self::PccAllegro => "pcc-allegro",
            Self::PccVivace => "pcc-vivace",
        }
    }

    /// Returns a new law for packets of this size including IP headers. The seed decides where probing begins, for laws that probe.
    #[must_use]
    pub fn new_law(&self, packet: Bytes, seed: u64) -> Box<dyn CongestionLaw> {
        match *self {
            Self::Reno => Box::new(Reno::new(packet)),
            Self::Cubic => Box::new(Cubic::new(packet, CubicOptions::default())),
            Self::Bbr => Box::new(BbrV1::new(packet, seed)),
            Self::Bbr3 => Box::new(BbrV3::new(packet, seed)),
            Self::Hera(options) => Box::new(Hera::new(packet, options)),
            Self::HeraAdaptive => Box::new(HeraAdaptive::new(packet)),
            Self::Copa(mode) => Box::new(Copa::new(packet, mode)),
            Self::Vegas => Box::new(Vegas::new(packet)),
            Self::LedbatPlusPlus => Box::new(LedbatPlusPlus::new(packet)),
            Self::PccAllegro => Box::new(Pcc::allegro(packet, seed)),
            Self::PccVivace => Box::new(Pcc::vivace(packet, seed)),
        }
    }
}

impl FromStr for LawSpec {
    type Err = UnknownLaw;

    fn from_str(text: &str) -> Result<Self, UnknownLaw> {
        let mut parts = text.split('/');
        let hera = |reading| Self::Hera(HeraOptions { reading, ..HeraOptions::default() });
        let mut law = match parts.next().unwrap_or_default() {
            "reno" => Self::Reno,
            "cubic" => Self::Cubic,
            "bbr" => Self::Bbr,
            "bbr3" => Self::Bbr3,
            "hera" => hera(Reading::Symmetric),
            "hera-as-printed" => hera(Reading::AsPrinted),
            "hera-adaptive" => Self::HeraAdaptive,
            "copa" => Self::Copa(CopaMode::Switching),
            "copa-default" => Self::Copa(CopaMode::Default),
            "vegas" => Self::Vegas,
            "ledbat++" => Self::LedbatPlusPlus,
            "pcc-allegro" => Self::PccAllegro,
            "pcc-vivace" => Self::PccVivace,
            _ => return Err(UnknownLaw::Name(text.to_owned())),
        };
        for parameter in parts {
            let Self::Hera(options) = &mut law else { return Err(UnknownLaw::Name(text.to_owned())) };
            set(options, parameter).ok_or_else(|| UnknownLaw::Parameter(parameter.to_owned()))?;
        }
        Ok(law)
    }
}

/// Sets a parameter from `name:value`. Returns None if there is no such parameter or its value is out of range.
fn set(options: &mut HeraOptions, parameter: &str) -> Option<()> {
    let (name, value) = parameter.split_once(':')?;
    match name {
        "buckets" => options.buckets = value.parse().ok()?,
        "bucket" => options.bucket_size = Span::from_millis(i64::from(value.parse::<u16>().ok()?)),
        "backlog" => options.backlog = value.parse().ok()?,
        "delta" => options.max_delta = value.parse().ok()?,
        "limit" => options.limit = if value == "none" { None } else { Some(value.parse().ok()?) },
        "step" => {
            options.step = match value {
                "round-trip" => Step::RoundTrip,
                "sample" => Step::Sample,
                _ => return None,
            }
        }
        "loss" => {
            options.on_loss = match value {
                "ignore" => LossResponse::Ignore,
                "halve" => LossResponse::Halve,
                _ => return None,
            }
        }
        "least" => options.least = value.parse().ok()?,
        "most" => options.most = value.parse().ok()?,
        _ => return None,
    }
    (options.in_order() == *options).then_some(())
}

impl fmt::Display for LawSpec {
    /// Writes the name, and the parameters that differ from their defaults.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())?;
        let Self::Hera(options) = self else { return Ok(()) };
        let default = HeraOptions::default();
        let numbers = [
            ("buckets", i64::from(options.buckets), i64::from(default.buckets)),
            ("bucket", options.bucket_size.as_micros() / 1_000, default.bucket_size.as_micros() / 1_000),
            ("backlog", i64::from(options.backlog), i64::from(default.backlog)),
            ("delta", i64::from(options.max_delta), i64::from(default.max_delta)),
            ("least", i64::from(options.least), i64::from(default.least)),
            ("most", i64::from(options.most), i64::from(default.most)),
        ];
        for (name, value, _) in numbers.into_iter().filter(|(_, value, default)| value != default) {
            write!(formatter, "/{name}:{value}")?;
        }
        match options.limit {
            limit if limit == default.limit => {}
            Some(limit) => write!(formatter, "/limit:{limit}")?,
            None => formatter.write_str("/limit:none")?,
        }
        if options.step == Step::Sample {
            formatter.write_str("/step:sample")?;
        }
        if options.on_loss == LossResponse::Halve { formatter.write_str("/loss:halve") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_law_of_that_name() {
        for name in LAWS {
            let spec: LawSpec = name.parse().expect(name);
            let law = spec.new_law(Bytes::new(1_500), 1);
            assert_eq!((spec.name(), law.name(), spec.to_string().as_str()), (name, name, name));
            // Ten packets, or two round trips of ten where pacing spreads them.
            assert!([15_000, 30_000].contains(&law.window().get()), "{name}");
        }
        assert_eq!("vogas".parse::<LawSpec>(), Err(UnknownLaw::Name("vogas".to_owned())));
    }

    #[test]
    fn parameters_of_hera_are_read_as_they_are_written() {
        for text in [
            "hera/buckets:8",
            "hera/buckets:12/bucket:20/limit:none",
            "hera-as-printed/delta:1/step:sample",
            "hera/loss:halve",
        ] {
            let spec: LawSpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), text);
        }
        let same: LawSpec = "hera/buckets:6/limit:1000/step:round-trip".parse().expect("all as usual");
        assert_eq!(same, LawSpec::Hera(HeraOptions::default()));
        for wrong in [
            "hera/buckets:7",
            "hera/buckets",
            "hera/bucket:x",
            "hera/limit:0",
            "hera/",
            "hera/step:often",
            "hera/loss:x",
        ] {
            assert!(matches!(wrong.parse::<LawSpec>(), Err(UnknownLaw::Parameter(_))), "{wrong}");
        }
        assert!("cubic/buckets:8".parse::<LawSpec>().is_err());
    }
}
