//! The help of `nearlight serve`: the options that most users need in `-h`, all options by topic in `--help`.

use clap::Arg;

pub(super) const EXAMPLES: &str = "\
Examples:
  nearlight serve                                   the built-in world
  nearlight serve xterm                             a program's window
  nearlight serve --scene model.glb                 a glTF scene
  nearlight serve --video film.mp4 --port 9000      a video, on another port";

/// The options of `-h`, which stand before all topics in `--help`.
const COMMON: [&str; 10] =
    ["port", "announced", "token", "scene", "video", "size", "fps", "clipboard", "program_sandbox", "quiet"];

/// The topics of the other options. A program's options and those for experiments have topics of their own.
const TOPICS: [(&str, &[&str]); 9] = [
    ("Source", &["test_card", "backend", "conversion"]),
    ("Picture and sound", &["stereo", "codec", "captures", "shared_encodes", "sound"]),
    (
        "Network",
        &[
            "rtc_port",
            "ice_servers",
            "address",
            "ethernet",
            "ethernet_allow",
            "hosts",
            "public_url",
            "public_udp",
            "trusted_proxies",
            "datagram",
            "tcp_control",
        ],
    ),
    ("Access", &["state", "ephemeral", "new_token", "cert", "key", "max_clients", "max_members", "sandbox", "user"]),
    ("Rate control and recovery", &["controller", "fec", "recovery", "rate", "max_rate", "min_rate", "pacing"]),
    ("Several servers", &["nats", "nats_ca", "nats_credentials", "fleet_key", "fleet"]),
    ("Unity Render Streaming", &["unity_render_streaming", "unity_token", "unity_pages"]),
    ("Output", &["events", "json", "hide_tokens", "log_format"]),
    ("Configuration", &["config"]),
];

/// Assigns an option to its topic.
pub(super) fn arrange(option: Arg) -> Arg {
    let id = option.get_id().as_str().to_owned();
    if option.is_positional() {
        // The usage line and the examples of `-h` show where the program stands.
        return option.help_heading(None::<&str>).hide_short_help(true);
    }
    if COMMON.contains(&id.as_str()) {
        return option.help_heading(None::<&str>);
    }
    let option = option.hide_short_help(true);
    match TOPICS.iter().find(|(_, ids)| ids.contains(&id.as_str())) {
        Some((topic, _)) => option.help_heading(*topic),
        None => option,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;
    use crate::serve::ServeArguments;

    fn serve() -> Command {
        let mut serve = ServeArguments::augment_args(Command::new("serve"));
        serve.build();
        serve
    }

    #[test]
    fn short_help_shows_ten_options_and_four_examples() {
        let help = serve().render_help().to_string();
        let options = help.lines().filter(|line| line.trim_start().starts_with('-') && !line.contains("--help"));
        assert_eq!(options.count(), COMMON.len(), "{help}");
        assert_eq!(help.lines().filter(|line| line.starts_with("  nearlight serve")).count(), 4, "{help}");
        assert!(help.lines().count() <= 24 && help.lines().all(|line| line.len() <= 120), "{help}");
    }

    #[test]
    fn every_option_has_a_topic() {
        let serve = serve();
        let named = COMMON.iter().chain(TOPICS.iter().flat_map(|(_, ids)| *ids));
        for id in named {
            assert!(serve.get_arguments().any(|option| option.get_id() == id), "{id} is an option");
        }
        let listed = |option: &&Arg| !option.is_positional() && !option.is_hide_set() && option.get_id() != "help";
        for option in serve.get_arguments().filter(listed) {
            let id = option.get_id().as_str();
            assert!(COMMON.contains(&id) || option.get_help_heading().is_some(), "{id} has a topic");
        }
    }
}
