//! The parts of a server or a viewer that an experiment replaces, from the options of `serve` and `view`.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use nearlight_cli::experiment::{Experiment, ServerExperiment, ViewerExperiment};
use nearlight_cli::serve::ServeArguments;
use nearlight_cli::view::ViewArguments;
use nearlight_codec::{Decoders, Encoders};
use nearlight_emulate::{PathEnd, SessionPaths};
use nearlight_net::EmulatedPaths;
use nearlight_units::Span;

use crate::stand_in::{self, StandIn};

pub(crate) fn of_server(arguments: &ServeArguments) -> anyhow::Result<Experiment> {
    let ServerExperiment { impair, drop, seed, stand_in, clock_origin } = &arguments.experiment;
    let clock = stand_in::clock(*clock_origin);
    let path = match (impair, drop) {
        (Some(path), _) => Some((path.clone(), "--impair")),
        (None, Some(share)) => Some((format!("loss={share}"), "--drop")),
        (None, None) => None,
    };
    let paths = path.map(|(path, option)| paths(&path, option, *seed, PathEnd::Server, arguments.max_clients));
    let stand_in = stand_in.as_ref().map(|text| text.parse::<StandIn>()).transpose().context("--stand-in")?;
    Ok(Experiment {
        clock,
        paths: paths.transpose()?,
        encoders: stand_in.map_or_else(Encoders::default, |stand_in| stand_in.encoders(clock)),
        decoders: Decoders::default(),
    })
}

pub(crate) fn of_viewer(arguments: &ViewArguments) -> anyhow::Result<Experiment> {
    let ViewerExperiment { drop, seed, stand_in_decode, clock_origin } = &arguments.experiment;
    let paths = drop.as_ref().map(|share| paths(&format!("loss={share}"), "--drop", *seed, PathEnd::Viewer, 1));
    let decoders =
        stand_in_decode.map_or_else(Decoders::default, |nanos| stand_in::model_decoders(Span::from_nanos(nanos)));
    Ok(Experiment {
        clock: stand_in::clock(*clock_origin),
        paths: paths.transpose()?,
        encoders: Encoders::default(),
        decoders,
    })
}

fn paths(path: &str, option: &str, seed: u64, end: PathEnd, clients: usize) -> anyhow::Result<Arc<dyn EmulatedPaths>> {
    let paths = SessionPaths::parse(path, seed, end, clients).map_err(|error| anyhow!("{option}: {error}"))?;
    for trace in paths.describe_traces() {
        eprintln!("nearlight: {trace}");
    }
    Ok(Arc::new(paths))
}
