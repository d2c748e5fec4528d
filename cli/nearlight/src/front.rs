//! `nearlight front`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nearlight_net::{Clock, Token};
use nearlight_rooms::Role;
use nearlight_server::{BoundFront, FrontOptions};

use crate::announcement::{Announcement, OutputArguments};
use crate::fleet::FleetSecurity;
use crate::log::format::LogFormat;
use crate::sandbox::{SandboxNeeds, ServerSandbox, certificate_paths};
use crate::signals::termination;
use crate::{fleet, log, parse};

/// The role of users without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PublicRole {
    Guest,
    Spectator,
}

/// How a front chooses among servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerChoice {
    LeastLoaded,
    Nearest,
}

#[derive(Debug, Args)]
pub(crate) struct FrontArguments {
    /// NATS server that the fleet's servers are connected to: nats://HOST:PORT or tls://HOST:PORT, with NAME:PASSWORD@ or TOKEN@ before the
    /// host if it asks for them
    #[arg(long, value_name = "URL", env = "NEARLIGHT_NATS", hide_env_values = true)]
    nats: String,
    #[command(flatten)]
    security: FleetSecurity,
    /// Pairing token of the fleet: start all its servers with the same one
    #[arg(long, env = "NEARLIGHT_TOKEN", hide_env_values = true)]
    token: Token,
    /// Give a link with this role to anyone who asks, even without a token
    #[arg(long, value_name = "ROLE")]
    everybody: Option<PublicRole>,
    /// Where to send browsers whose room does not exist yet: to the server with the least load, or to the nearest one by measured
    /// round-trip time
    #[arg(long, value_name = "WHICH", default_value = "least-loaded")]
    choose: ServerChoice,
    /// Port (TCP); 0 picks a free one
    #[arg(long, default_value_t = 8443)]
    port: u16,
    /// Address to listen on [default: all addresses]
    #[arg(long)]
    address: Option<IpAddr>,
    /// Additional host name of this front, such as one in your DNS. Requests for any name other than these, this
    /// machine's and the certificate's are refused; repeatable
    #[arg(long = "host", value_name = "NAME", value_parser = parse::host)]
    hosts: Vec<String>,
    /// PEM file with a certificate chain that browsers trust [default: a self-signed certificate]
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Drop capabilities, access to most of the file system and unneeded system calls (Linux): on or off
    #[arg(long, default_value = "on", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    sandbox: bool,
    #[command(flatten)]
    output: OutputArguments,
}

impl FrontArguments {
    /// Nothing but the link is wanted; see [`OutputArguments`].
    pub(crate) const fn is_quiet(&self) -> bool {
        self.output.quiet
    }

    pub(crate) const fn log_format(&self) -> Option<LogFormat> {
        self.output.log_format
    }
}

pub(crate) fn run(arguments: FrontArguments) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        fleet::IS_BUILT,
        "this build cannot run a front, because it has no NATS support. {}.",
        fleet::HOW_TO_BUILD
    );
    let FrontArguments { nats, security, token, everybody, choose, port, address, hosts, cert, key, sandbox, output } =
        arguments;
    let nearest = choose == ServerChoice::Nearest;
    let certificate = cert.zip(key);
    let reads = certificate_paths(certificate.as_ref()).into_iter().chain(security.files()).collect();
    let sandbox = ServerSandbox::new(sandbox, None)?;
    let restricted = sandbox.enter(&SandboxNeeds { reads, writes: Vec::new(), lowest_port: port })?;
    let everybody = everybody.map(|role| match role {
        PublicRole::Guest => Role::Guest,
        PublicRole::Spectator => Role::Spectator,
    });
    let options = FrontOptions { address, port, hosts, token, certificate, everybody, nearest };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    runtime.block_on(async {
        tracing::info!("sandbox: {restricted}");
        let clock = Clock::start();
        let directory = fleet::watch(&nats, &security, &options.token, clock).await?;
        let front = BoundFront::open(options, clock)?;
        sandbox.change_user()?;
        let [mut hosts, guests, spectators] = Role::ALL.map(|role| front.links(role));
        let announcement = Announcement {
            local: hosts.remove(0),
            others: hosts,
            guests,
            spectators,
            ethernet: Vec::new(),
            port: front.port(),
            rtc_port: None,
        };
        let stop = termination()?;
        output.print(&announcement)?;
        if !output.quiet {
            log::hint("Press Ctrl-C to stop.");
        }
        front.run(directory, stop).await;
        Ok(ExitCode::SUCCESS)
    })
}
