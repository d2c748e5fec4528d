//! `nearlight lab distortion`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nearlight_codec::CodecKind;
use nearlight_lab::distortion::{Measurement, Model, RATES, Setting, document, measure, measurements, to_csv};

#[derive(Debug, Args)]
pub(super) struct DistortionArguments {
    /// Measure on this machine, which takes minutes, instead of printing the built-in measurements
    #[arg(long)]
    measure: bool,
    /// Print the measurements as CSV
    #[arg(long)]
    csv: bool,
    /// Write measurements and model to an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: &DistortionArguments) -> anyhow::Result<ExitCode> {
    let setting = Setting::NEBULA;
    let measured = if arguments.measure { measure_here(&setting)? } else { measurements() };
    if arguments.csv {
        print!("{}", to_csv(&measured));
    } else {
        let model =
            Model::fit(&setting, &measured).context("the measurements are too few or too similar to fit the model")?;
        print_table(&setting, &model, &measured);
    }
    if let Some(file) = &arguments.html {
        std::fs::write(file, document(&measured).to_html())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure_here(setting: &Setting) -> anyhow::Result<Vec<Measurement>> {
    let point = |(done, rate)| {
        eprintln!("measuring at {rate}, {done} of {} rates done", RATES.len());
        measure(setting, CodecKind::Vp8, rate, 1)
    };
    Ok(RATES.into_iter().enumerate().map(point).collect::<Result<_, _>>()?)
}

fn print_table(setting: &Setting, model: &Model, measured: &[Measurement]) {
    println!("mean squared error of luma: measured, and modelled from the rate");
    println!(
        "{:>8}{:>18}{:>16}{:>16}{:>16}{:>16}{:>22}",
        "Mb/s", "frames lost, %", "encoder", "transmission", "decoder", "end to end", "without propagation"
    );
    for point in measured {
        let modelled = model.at(setting, point.rate);
        print!("{:>8.2}{:>9.2}{:>9.2}", point.rate / 1e6, point.frame_loss * 100.0, modelled.frame_loss * 100.0);
        for (here, there, width) in [
            (point.encoder, modelled.encoder, 8),
            (point.transmission, modelled.transmission, 8),
            (point.decoder, modelled.decoder, 8),
            (point.whole(), modelled.whole(), 8),
            (point.without_propagation(), modelled.without_propagation(), 11),
        ] {
            print!("{here:>width$.1}{there:>width$.1}");
        }
        println!();
    }
    println!(
        "encoder: {:.1} / (R - {:.2}) with R in Mb/s; transmission: {:.0} p_f; decoder: {:.0} p_f / f_I",
        model.alpha / 1e6,
        model.rate_0 / 1e6,
        model.beta,
        model.gamma
    );
    println!("the model explains {:.1} % of the variance end to end", model.explained * 100.0);
}
