//! The standard output of `nearlight serve`: only where it can be reached.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::Args;
use nearlight_net::{EthernetLink, Link};
use nearlight_server::qr_code;

use crate::log::format::LogFormat;

/// What a server or front prints.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArguments {
    /// Print one JSON object with links and ports once clients can connect
    #[arg(long)]
    json: bool,
    /// Print links without their tokens, for logs that others read
    #[arg(long)]
    hide_tokens: bool,
    /// Print only the links, one per line, and log only warnings and errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Format of standard error: text, json (an object on each line) or journal (each line begins with its level, for systemd) [default:
    /// journal if standard error is systemd's journal, else text]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) log_format: Option<LogFormat>,
}

impl OutputArguments {
    pub(crate) fn style(self) -> Style {
        Style::new(self.json, self.quiet)
    }

    /// Writes where the server can be reached to standard output.
    pub(crate) fn print(self, announcement: &Announcement) -> anyhow::Result<()> {
        if self.hide_tokens {
            announcement.clone().without_tokens().print(self.style())
        } else {
            announcement.print(self.style())
        }
    }
}

/// The format of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// For people: text, and a QR code for a phone's camera.
    Terminal,
    /// For scripts: a link on each line, this machine's first.
    Links,
    /// For scripts: an object, as docs/json.md describes it.
    Json,
}

impl Style {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Json,
            (false, false) if io::stdout().is_terminal() => Self::Terminal,
            (false, _) => Self::Links,
        }
    }
}

/// Where a server can be reached.
#[derive(Debug, Clone)]
pub(crate) struct Announcement {
    /// Link for a browser on this machine.
    pub(crate) local: Link,
    /// Links for other machines, the likeliest first.
    pub(crate) others: Vec<Link>,
    /// Links for guests and spectators, this machine's first. Empty if roles are unknown.
    pub(crate) guests: Vec<Link>,
    pub(crate) spectators: Vec<Link>,
    /// Links for clients without IP.
    pub(crate) ethernet: Vec<EthernetLink>,
    pub(crate) port: u16,
    /// UDP port of WebRTC. None when unknown.
    pub(crate) rtc_port: Option<u16>,
}

impl Announcement {
    /// Removes the tokens from all links.
    fn without_tokens(self) -> Self {
        let hide = |link: Link| Link { token: None, ..link };
        let hide_all = |links: Vec<Link>| links.into_iter().map(hide).collect();
        let ethernet = self.ethernet.into_iter().map(|link| EthernetLink { token: None, ..link }).collect();
        Self {
            local: hide(self.local),
            others: hide_all(self.others),
            guests: hide_all(self.guests),
            spectators: hide_all(self.spectators),
            ethernet,
            ..self
        }
    }

    /// Writes it to standard output. A reader that closes the pipe early does not end the server.
    pub(crate) fn print(&self, style: Style) -> anyhow::Result<()> {
        let text = match style {
            Style::Terminal => self.words()?,
            Style::Links => self.links().chain(self.ethernet_links()).collect::<Vec<_>>().join("\n"),
            Style::Json => self.json().to_string(),
        };
        let mut output = io::stdout().lock();
        match writeln!(output, "{text}").and_then(|()| output.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write the link to standard output")
            }
            _ => Ok(()),
        }
    }

    fn links(&self) -> impl Iterator<Item = String> {
        let others = self.others.iter().filter(|link| **link != self.local);
        std::iter::once(&self.local).chain(others).map(ToString::to_string)
    }

    fn ethernet_links(&self) -> impl Iterator<Item = String> {
        self.ethernet.iter().map(ToString::to_string)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "url": self.local.to_string(),
            "links": self.links().collect::<Vec<_>>(),
            "guests": self.guests.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "spectators": self.spectators.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "ethernet": self.ethernet_links().collect::<Vec<_>>(),
            "port": self.port,
            "rtc_port": self.rtc_port,
        })
    }

    fn words(&self) -> anyhow::Result<String> {
        // A phone or a headset reads the code, so it names an address that they can reach.
        let code = qr_code(&self.others.first().unwrap_or(&self.local).to_string())
            .context("the link is too long for a QR code")?;
        let named = self.links().enumerate().map(|(place, link)| match place {
            0 => format!("  Open   {link}"),
            _ => format!("  or, from another machine,   {link}"),
        });
        let ethernet = self.ethernet_links().map(|link| format!("  or, over Ethernet,   nearlight view \"{link}\""));
        // As for the code: the first of other machines', if there is one.
        let likeliest = |links: &[Link]| links.get(1).or(links.first()).cloned();
        let roles = [("for a guest", &self.guests), ("for a spectator, who only watches", &self.spectators)];
        let roles =
            roles.into_iter().filter_map(|(whom, links)| Some(format!("  or, {whom},   {}", likeliest(links)?)));
        let links = named.chain(roles).chain(ethernet).collect::<Vec<_>>().join("\n");
        Ok(format!("\n{links}\n\n{code}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(secure: bool, host: &str) -> Link {
        Link { secure, host: host.into(), port: 8090, path: "/".into(), token: None, certificate: None }
    }

    fn announcement() -> Announcement {
        let others = vec![link(true, "192.0.2.1"), link(true, "192.0.2.2")];
        let with = |token: &str| others.iter().map(|link| Link { token: Some(token.into()), ..link.clone() }).collect();
        let (guests, spectators, ethernet) = (with("guest"), with("spectator"), Vec::new());
        let local = link(false, "localhost");
        Announcement { local, others, guests, spectators, ethernet, port: 8090, rtc_port: Some(8091) }
    }

    #[test]
    fn the_object_has_every_link_and_both_ports() {
        let object = announcement().json();
        assert_eq!(object["url"], object["links"][0]);
        assert_eq!(object["links"].as_array().map(Vec::len), Some(3), "{object}");
        assert_eq!(object["ethernet"], serde_json::json!([]));
        assert_eq!(object["spectators"][1], "https://192.0.2.2:8090/#token=spectator");
        assert_eq!((&object["port"], &object["rtc_port"]), (&8090.into(), &8091.into()));
    }

    #[test]
    fn people_get_words_and_the_code_of_a_link_that_their_phones_reach() {
        let words = announcement().words().expect("a code");
        let code = qr_code(&link(true, "192.0.2.1").to_string()).expect("a code");
        assert!(words.contains("Open   http://localhost") && words.ends_with(&code), "{words}");
        assert_eq!(words.matches("192.0.2.").count(), 4, "{words}");
        assert!(words.contains("for a guest,   https://192.0.2.2:8090/#token=guest\n"), "{words}");
        assert!(words.contains("192.0.2.2:8090/#token=spectator\n"), "{words}");
    }

    #[test]
    fn links_for_a_log_have_no_token() {
        let secret = Link { token: Some("secret".into()), ..link(true, "192.0.2.3") };
        let announcement = Announcement { local: secret.clone(), others: vec![secret], ..announcement() };
        assert!(announcement.json().to_string().contains("secret"));
        let json = announcement.without_tokens().json().to_string();
        assert!(!json.contains("token") && json.contains("https://192.0.2.3:8090/"), "{json}");
    }

    #[test]
    fn a_link_is_named_once() {
        let only = link(true, "example.org");
        let announcement = Announcement { local: only.clone(), others: vec![only], ..announcement() };
        assert_eq!(announcement.links().count(), 1);
    }
}
