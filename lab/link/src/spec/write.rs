//! Formats a path as one line, as a person would write it.

use std::fmt;

use nearlight_units::Span;

use super::values::{Notation, list};
use super::{BottleneckSpec, HopSpec, LossSpec, Model, PathSpec, Source};
use crate::bottleneck::Service;
use crate::capacity::FineStructure;
use crate::jitter::JitterModel;
use crate::outage::OutageKind;
use crate::queue::{CoDel, Limit, Pie, Policy, Ramp, Step};

impl fmt::Display for PathSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, hop) in self.hops.iter().enumerate() {
            if place > 0 {
                formatter.write_str(",")?;
            }
            hop.fmt(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Display for HopSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bottleneck(bottleneck) => bottleneck.fmt(formatter),
            Self::Police { rate, burst } => write!(formatter, "police={}/{}", Notation(*rate), Notation(*burst)),
            Self::Delay(length) => write!(formatter, "delay={}", Notation(*length)),
            Self::Jitter { model: JitterModel::Normal { longest }, line } => {
                write!(formatter, "jitter={}", Notation(*longest))?;
                line.map_or(Ok(()), |line| write!(formatter, "/{}", Notation(line)))
            }
            Self::Jitter { model: JitterModel::Measured(points), .. } => {
                let point = |(share, delay): &(f64, Span)| format!("{}%:{}", share * 100.0, Notation(*delay));
                write!(formatter, "jitter={}", list(points.iter().map(point)))
            }
            Self::Jitter { model: JitterModel::LogNormal { mean, deviation, memory }, .. } => {
                write!(
                    formatter,
                    "jitter=log-normal/{}/{}/{}",
                    Notation(*mean),
                    Notation(*deviation),
                    Notation(*memory)
                )
            }
            Self::Loss(loss) => loss.fmt(formatter),
            Self::Reorder { chance, by } => write!(formatter, "reorder={chance}/{}", Notation(*by)),
            Self::Duplicate(chance) => write!(formatter, "duplicate={chance}"),
            Self::Outage { kind, windows } => {
                let key = if *kind == OutageKind::Drop { "outage" } else { "freeze" };
                write!(formatter, "{key}={}", list(windows.iter().map(|window| Notation(*window))))
            }
            Self::Cell(settings) => write!(formatter, "wifi={settings}"),
        }
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Independent(share) => write!(formatter, "loss={share}"),
            Self::Correlated { share, correlation } => write!(formatter, "loss={share}/{correlation}"),
            Self::Gilbert(chain) => {
                let chances = [chain.to_bad, chain.to_good, chain.loss_in_bad, chain.loss_in_good];
                write!(formatter, "gilbert={}", list(chances))
            }
        }
    }
}

impl fmt::Display for BottleneckSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)?;
        match self.service {
            Service::Serial => {}
            Service::TokenBucket { burst } => write!(formatter, ",burst={}", Notation(burst))?,
            Service::Borrowing { burst } => write!(formatter, ",burst={},bucket=htb", Notation(burst))?,
        }
        if self.queue.limit != Limit::DEFAULT {
            write!(formatter, ",queue={}", Notation(self.queue.limit))?;
        }
        write_policy(formatter, &self.queue.policy)?;
        match self.fine {
            FineStructure::Smooth => {}
            FineStructure::TddDown => formatter.write_str(",fine=tdd")?,
            FineStructure::TddUp => formatter.write_str(",fine=tdd-up")?,
            FineStructure::Aggregates => formatter.write_str(",fine=aggregates")?,
        }
        // A factor of one is the default and is not written.
        if (self.scale - 1.0).abs() > f64::EPSILON {
            write!(formatter, ",scale={}", self.scale)?;
        }
        self.offset.map_or(Ok(()), |offset| write!(formatter, ",offset={}", Notation(offset)))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rates(rates) => {
                let step = |(start, rate)| match start {
                    Span::ZERO => Notation(rate).to_string(),
                    start => format!("{}@{}", Notation(rate), Notation(start)),
                };
                write!(formatter, "rate={}", list(rates.iter().map(step)))
            }
            Self::File(file) => write!(formatter, "trace={}", file.display()),
            Self::Model { model, mean } => {
                let name = match model {
                    Model::FiveG => "5g",
                    Model::WiFi => "wifi",
                    Model::Scene(scene) => scene.name(),
                };
                write!(formatter, "model={name}")?;
                mean.map_or(Ok(()), |mean| write!(formatter, "/{}", Notation(mean)))
            }
            Self::Drawn { lowest, highest, every } => {
                write!(formatter, "model=drawn/{}/{}/{}", Notation(*lowest), Notation(*highest), Notation(*every))
            }
            Self::LogNormal { mean, deviation, memory } => {
                write!(formatter, "model=log-normal/{}/{}/{}", Notation(*mean), Notation(*deviation), Notation(*memory))
            }
        }
    }
}

fn write_policy(formatter: &mut fmt::Formatter<'_>, policy: &Policy) -> fmt::Result {
    let (name, usual, times) = match *policy {
        Policy::DropTail => return Ok(()),
        Policy::CoDel(codel) => ("codel", codel == CoDel::default(), vec![codel.target, codel.interval]),
        Policy::Pie(pie) => ("pie", pie == Pie::default(), vec![pie.target]),
        Policy::L4sStep(step) => ("l4s-step", step == Step::default(), vec![step.threshold]),
        Policy::L4sRamp(ramp) => ("l4s-ramp", ramp == Ramp::default(), vec![ramp.from, ramp.to]),
    };
    write!(formatter, ",aqm={name}")?;
    if usual { Ok(()) } else { write!(formatter, "/{}", list(times.into_iter().map(Notation))) }
}
