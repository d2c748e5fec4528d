//! `nearlight links` and `nearlight devices`: who else may connect to this user's servers.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use nearlight_rooms::Role;
use nearlight_server::{CodeState, GivenLink, LinkFile, LinkKind, MAX_CODE_FAILURES, NewLink, qr_code, unix_time_s};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::parse::{self, DAY_S, HOUR_S, MINUTE_S};
use crate::serve::identity::usual_folder;
use crate::signals::termination;

/// Interval at which `devices pair` looks whether the device has been paired.
const PAIRING_CHECK: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub struct LinksArguments {
    #[command(subcommand)]
    action: Option<LinksAction>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Subcommand)]
enum LinksAction {
    /// Make a link of its own for somebody, which can be revoked
    Add {
        /// Name of the person or the purpose that the link is for, such as "Anna"
        name: String,
        #[command(flatten)]
        grant: GrantArguments,
    },
    /// Revoke a link or a device: whoever is connected with it is disconnected within a second
    Revoke {
        /// Its number or its name
        link: String,
    },
    /// Print who connected, wrong tokens and codes, and links that were made, revoked or have expired
    History,
}

#[derive(Debug, Args)]
pub struct DevicesArguments {
    #[command(subcommand)]
    action: Option<DevicesAction>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Subcommand)]
enum DevicesAction {
    /// Show a code of six digits that pairs one device, and wait for it
    Pair {
        /// The device's name [default: the one that its browser gives]
        #[arg(long)]
        name: Option<String>,
        /// How long the code can be used, such as 5m
        #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse::lifetime_s)]
        valid: u64,
        #[command(flatten)]
        grant: GrantArguments,
    },
    /// Revoke a device or a link: whoever is connected with it is disconnected within a second
    Revoke {
        /// Its number or its name
        device: String,
    },
}

/// What a link or device may do, and for how long.
#[derive(Debug, Args)]
struct GrantArguments {
    /// host, guest or spectator
    #[arg(long, default_value = "guest")]
    role: Role,
    /// How long it works, such as 8h or 30d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = parse::lifetime_s)]
    expires: Option<u64>,
}

impl GrantArguments {
    fn expires_s(&self) -> Option<u64> {
        self.expires.map(|seconds| unix_time_s().saturating_add(seconds))
    }
}

#[derive(Debug, Args)]
struct CommonArguments {
    /// The folder that the server was given as --state
    #[arg(long, value_name = "FOLDER", global = true)]
    state: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

impl CommonArguments {
    fn open(&self) -> anyhow::Result<LinkFile> {
        let folder = self.state.clone().or_else(|| usual_folder(|name| std::env::var_os(name)));
        let folder =
            folder.context("there is no home folder in which a server keeps its links: give --state FOLDER")?;
        LinkFile::open(&folder)
            .with_context(|| format!("cannot open {}: is it the folder of your server?", folder.display()))
    }
}

/// Lists, adds or revokes links.
///
/// # Errors
/// For people.
pub fn run_links(arguments: &LinksArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.common.open()?;
    match &arguments.action {
        None => list(&file, |_| true, arguments.common.json),
        Some(LinksAction::Revoke { link }) => revoke(&file, link, arguments.common.json)?,
        Some(LinksAction::History) => history(&file, arguments.common.json)?,
        Some(LinksAction::Add { name, grant }) => {
            let new =
                NewLink { name: name.clone(), kind: LinkKind::Link, role: grant.role, expires_s: grant.expires_s() };
            let page = page_of(&file)?;
            let added = file.add(&new)?;
            let token = added.token().context("a new link has no token: is the file being changed by hand?")?;
            let link = format!("{page}#token={token}");
            if arguments.common.json {
                let mut object = added.json();
                object["link"] = link.into();
                println!("{object}");
                return Ok(ExitCode::SUCCESS);
            }
            if !io::stdout().is_terminal() {
                println!("{link}");
                return Ok(ExitCode::SUCCESS);
            }
            let code = qr_code(&link).context("the link is too long for a QR code")?;
            println!("\n  Link {} for {}, as {}:   {link}\n\n{code}", added.number, added.name, grant.role.name());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Pairs a device, lists or revokes devices.
///
/// # Errors
/// For people.
pub fn run_devices(arguments: &DevicesArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.common.open()?;
    match &arguments.action {
        None => list(&file, |link| link.kind == LinkKind::Device, arguments.common.json),
        Some(DevicesAction::Revoke { device }) => revoke(&file, device, arguments.common.json)?,
        Some(DevicesAction::Pair { name, valid, grant }) => {
            let page = page_of(&file)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            // From here on, so that a code that is open is withdrawn whenever the signal comes.
            let termination = runtime.block_on(async { termination() })?;
            let code =
                file.open_code(grant.role, name.clone(), unix_time_s().saturating_add(*valid), grant.expires_s())?;
            if arguments.common.json {
                println!("{}", serde_json::json!({ "code": code.to_string(), "page": page, "valid_s": valid }));
            } else {
                println!(
                    "\n  Open   {page}   on the device, and type the code\n\n      {code}\n\n  \
                     It pairs one device as {}, and is valid for {}. Ctrl+C withdraws it.",
                    grant.role.name(),
                    duration(*valid)
                );
            }
            let state = runtime.block_on(async {
                let mut termination = std::pin::pin!(termination);
                let mut check = tokio::time::interval(PAIRING_CHECK);
                loop {
                    tokio::select! {
                        _ = check.tick() => match file.code_state(&code) {
                            CodeState::Open => {}
                            ended => return ended,
                        },
                        () = &mut termination => {
                            file.close_code(&code);
                            return CodeState::Void;
                        }
                    }
                }
            });
            match state {
                CodeState::Paired(device) if arguments.common.json => println!("{}", device.json()),
                CodeState::Paired(device) => println!(
                    "  Paired: {} is device {}. `nearlight devices revoke {}` ends it.",
                    device.name, device.number, device.number
                ),
                CodeState::TooManyFailures => anyhow::bail!(
                    "{MAX_CODE_FAILURES} wrong codes were typed, so the code is void. If that was not you, somebody tries to get in. For another code, run this again"
                ),
                CodeState::Void | CodeState::Open => {
                    anyhow::bail!("the code is no longer valid, and no device was paired")
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page_of(file: &LinkFile) -> anyhow::Result<String> {
    file.page().context("no server has used this folder yet: start `nearlight serve` first, or give --state FOLDER")
}

fn list(file: &LinkFile, is_listed: impl Fn(&GivenLink) -> bool, as_json: bool) {
    let links: Vec<GivenLink> = file.links().into_iter().filter(is_listed).collect();
    if as_json {
        let objects: Vec<_> = links.iter().map(GivenLink::json).collect();
        println!("{}", serde_json::Value::from(objects));
        return;
    }
    if links.is_empty() {
        println!(
            "There are none. `nearlight links add NAME` makes a link for somebody, `nearlight devices pair` pairs a device."
        );
        return;
    }
    let now_s = unix_time_s();
    let header = ["number", "name", "kind", "role", "made", "uses", "last used", "expires"].map(String::from);
    let ago = |time_s: u64| format!("{} ago", duration(now_s.saturating_sub(time_s)));
    let rows = links.iter().map(|link| {
        [
            link.number.to_string(),
            link.name.clone(),
            link.kind.name().into(),
            link.role.name().into(),
            ago(link.created_s),
            link.uses.to_string(),
            link.used_s.map_or_else(|| "never".into(), ago),
            match link.expires_s {
                None => "never".into(),
                Some(_) if link.has_expired(now_s) => "has expired".into(),
                Some(expires) => format!("in {}", duration(expires - now_s)),
            },
        ]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let widths: [usize; 8] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    for row in &rows {
        println!("{}", line(row));
    }
}

fn history(file: &LinkFile, as_json: bool) -> anyhow::Result<()> {
    let records = file.history().context("cannot read the history")?;
    if records.is_empty() && !as_json {
        println!("There is nothing yet. Servers of this user record who connects.");
    }
    for record in &records {
        if as_json {
            println!("{}", serde_json::to_string(record)?);
        } else {
            println!("{}  {}", utc(record.time_s), record.event);
        }
    }
    Ok(())
}

/// Writes a time in seconds since 1970 as RFC 3339 does.
fn utc(time_s: u64) -> String {
    let time = i64::try_from(time_s).ok().and_then(|time_s| OffsetDateTime::from_unix_timestamp(time_s).ok());
    let text = time.and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{time_s} s after 1970"))
}

fn revoke(file: &LinkFile, number_or_name: &str, as_json: bool) -> anyhow::Result<()> {
    let revoked = file.revoke(number_or_name)?;
    if as_json {
        println!("{}", revoked.json());
        return Ok(());
    }
    let GivenLink { kind, number, name, .. } = revoked;
    println!("Revoked {} {number}, {name}. Whoever is connected with it is disconnected within a second.", kind.name());
    Ok(())
}

/// Writes a time for people, rounded down to its largest unit.
fn duration(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..MINUTE_S => (seconds, "second"),
        MINUTE_S..HOUR_S => (seconds / MINUTE_S, "minute"),
        HOUR_S..DAY_S => (seconds / HOUR_S, "hour"),
        DAY_S.. => (seconds / DAY_S, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_their_largest_unit() {
        for (seconds, expected) in
            [(0, "0 seconds"), (1, "1 second"), (119, "1 minute"), (7_200, "2 hours"), (200_000, "2 days")]
        {
            assert_eq!(duration(seconds), expected);
        }
    }
}
