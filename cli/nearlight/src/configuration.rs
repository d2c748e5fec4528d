//! Configuration files: the options of `nearlight serve` as TOML, a key for each option without its dashes.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Parser, Subcommand};

/// The command whose options a file may contain.
const COMMAND: &str = "serve";
/// The option that names a file.
const OPTION: &str = "config";
/// The key of the program that is served and its arguments, and their id in the command line.
const PROGRAM: &str = "program";
const PROGRAM_ID: &str = "command";

#[derive(Debug, Args)]
pub(crate) struct ConfigurationArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a configuration file with every option of `nearlight serve`, its help and its default
    Show,
    /// Check a configuration file
    Check {
        /// TOML file for `nearlight serve --config`
        file: PathBuf,
    },
}

/// Prints a template, or checks a file.
///
/// # Errors
/// If the file contains an error, in words.
pub(crate) fn run<Line: Parser>(arguments: ConfigurationArguments) -> anyhow::Result<ExitCode> {
    let command = Line::command();
    match arguments.action {
        Action::Show => print!("{}", template(command.find_subcommand(COMMAND).expect("a command of this program"))),
        Action::Check { file } => {
            let option = OsString::from(format!("--{OPTION}"));
            let line = vec![command.get_name().into(), COMMAND.into(), option, file.clone().into()];
            complete(&command, line).and_then(Line::try_parse_from).map_err(|error| {
                anyhow::anyhow!("{}", error.render().to_string().trim_start_matches("error: ").trim_end())
            })?;
            println!("{}: correct", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the command line with the options of the file that it names, if it names one. What is on the command line or in the environment
/// takes precedence.
///
/// # Errors
/// If the file cannot be read or parsed.
pub(crate) fn complete(command: &Command, line: Vec<OsString>) -> Result<Vec<OsString>, clap::Error> {
    // The command's name stands first, because `nearlight` itself has no options with values.
    if line.get(1).is_none_or(|word| word != COMMAND) {
        return Ok(line);
    }
    // Only what is given is looked at here. The completed line is checked afterwards, because an option may need another one of the file.
    let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(&line) else { return Ok(line) };
    let Some((COMMAND, given)) = matches.subcommand() else { return Ok(line) };
    let Some(path) = given.try_get_one::<PathBuf>(OPTION).ok().flatten() else { return Ok(line) };
    let serve = command.find_subcommand(COMMAND).expect("it was parsed");
    let (options, program) = read(serve, path, |id| is_given(given, id)).map_err(|words| refusal(command, words))?;
    let (before, after) = line.split_at(2);
    Ok([before, &options, after, &program].concat())
}

/// Whether an option is on the command line or in the environment.
fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

fn refusal(command: &Command, words: String) -> clap::Error {
    command.clone().error(ErrorKind::InvalidValue, words)
}

/// Reads a file. Returns its options and its program as words of a command line, without those that are given elsewhere.
fn read(
    serve: &Command,
    path: &Path,
    is_given: impl Fn(&str) -> bool,
) -> Result<(Vec<OsString>, Vec<OsString>), String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| failed(&error.to_string().trim_end()))?;
    let (mut options, mut program) = (Vec::new(), Vec::new());
    for (key, value) in &table {
        if key == PROGRAM {
            if !is_given(PROGRAM_ID) {
                program = std::iter::once("--".to_owned())
                    .chain(words(key, value).map_err(|words| failed(&words))?)
                    .collect();
            }
            continue;
        }
        let option = settable(serve).find(|option| option.get_long() == Some(key));
        let option = option.ok_or_else(|| failed(&unknown(serve, key)))?;
        if !is_given(option.get_id().as_str()) {
            options.extend(option_words(option, key, value).map_err(|words| failed(&words))?);
        }
    }
    let line = |words: Vec<String>| words.into_iter().map(OsString::from).collect();
    Ok((line(options), line(program)))
}

/// Returns the options that a file may contain.
fn settable(serve: &Command) -> impl Iterator<Item = &Arg> {
    let special = [OPTION, "help", "version"];
    serve.get_arguments().filter(move |option| !option.is_positional() && !special.contains(&option.get_id().as_str()))
}

fn unknown(serve: &Command, key: &str) -> String {
    let near = settable(serve).filter_map(Arg::get_long).find(|long| {
        let plain = |text: &str| text.replace(['-', '_'], "");
        plain(long) == plain(key) || long.starts_with(key) || key.starts_with(*long)
    });
    let hint = near.map_or_else(
        || "`nearlight config show` lists all options".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    format!("there is no option `{key}`: {hint}")
}

/// Returns an option of a file as words of a command line.
fn option_words(option: &Arg, key: &str, value: &toml::Value) -> Result<Vec<String>, String> {
    if matches!(option.get_action(), ArgAction::SetTrue) {
        let is_on = value.as_bool().ok_or_else(|| format!("`{key}` is true or false"))?;
        return Ok(if is_on { vec![format!("--{key}")] } else { Vec::new() });
    }
    Ok(words(key, value)?.into_iter().map(|word| format!("--{key}={word}")).collect())
}

/// Returns a value, or each value of a list, as a command line has it.
fn words(key: &str, value: &toml::Value) -> Result<Vec<String>, String> {
    match value {
        toml::Value::Array(values) => {
            Ok(values.iter().map(|value| words(key, value)).collect::<Result<Vec<_>, _>>()?.concat())
        }
        toml::Value::String(text) => Ok(vec![text.clone()]),
        toml::Value::Integer(number) => Ok(vec![number.to_string()]),
        toml::Value::Float(number) => Ok(vec![number.to_string()]),
        // Switches have these values.
        toml::Value::Boolean(is_on) => Ok(vec![if *is_on { "on" } else { "off" }.to_owned()]),
        toml::Value::Datetime(_) | toml::Value::Table(_) => {
            Err(format!("`{key}` is a text, a number, true, false or a list of them"))
        }
    }
}

/// Returns a file with every option of `nearlight serve` as a comment, with its help and its default.
pub(crate) fn template(serve: &Command) -> String {
    let mut text = String::from(
        "# Options of `nearlight serve --config FILE`. What is on the command line or in the environment takes precedence.\n\n\
         # The program that is served and its arguments.\n# program = [\"xterm\", \"-e\", \"top\"]\n",
    );
    for option in settable(serve).filter(|option| !option.is_hide_set()) {
        let Some(key) = option.get_long() else { continue };
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let default =
            option.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
        let value = match option.get_action() {
            ArgAction::SetTrue => "false".to_owned(),
            _ if default.parse::<i64>().is_ok() => default,
            ArgAction::Append => format!("[{}]", toml::Value::String(default)),
            _ => toml::Value::String(default).to_string(),
        };
        let _ = write!(text, "\n# {}\n# {key} = {value}\n", help.replace('\n', "\n# "));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Arguments;

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nearlight-configuration-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Returns the completed command line after `nearlight serve`, without the option that names the file.
    fn completed(name: &str, text: &str, further: &[&str]) -> Result<String, String> {
        let path = file(name, text);
        let option = format!("--{OPTION}={}", path.display());
        let line =
            ["nearlight", COMMAND, &option].into_iter().chain(further.iter().copied()).map(OsString::from).collect();
        let command = Arguments::command();
        let completed = complete(&command, line)
            .and_then(|line| command.clone().try_get_matches_from(&line).map(|_| line))
            .map_err(|error| error.to_string());
        std::fs::remove_file(path).expect("removed");
        let words = completed?.into_iter().skip(2).map(|word| word.into_string().expect("text"));
        Ok(words.filter(|word| *word != option).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_of_a_file_are_those_of_the_command_line_which_takes_precedence() {
        let text = "port = 9000\nsize = \"640x360\"\nquiet = true\njson = false\nclipboard = true\nhost = [\"a.test\", \"b.test\"]\nfps = 30\n";
        let cases: [(&[&str], &str); 2] = [
            (&[], "--clipboard=on --fps=30 --host=a.test --host=b.test --port=9000 --quiet --size=640x360"),
            (
                &["--port", "1", "-q", "--host", "c.test"],
                "--clipboard=on --fps=30 --size=640x360 --port 1 -q --host c.test",
            ),
        ];
        for (further, expected) in cases {
            assert_eq!(completed("precedence", text, further).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_file_names_a_program_unless_the_command_line_does() {
        let text = "program = [\"xterm\", \"-e\", \"top\"]\nrestart = \"always\"\n";
        assert_eq!(completed("program", text, &[]).as_deref(), Ok("--restart=always -- xterm -e top"));
        assert_eq!(completed("other-program", text, &["xclock"]).as_deref(), Ok("--restart=always xclock"));
        let needed = completed("needed", "program = [\"xterm\"]", &["--restart", "always"]);
        assert_eq!(needed.as_deref(), Ok("--restart always -- xterm"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (name, text, expected) in [
            ("unknown", "max_clients = 3", "there is no option `max_clients`: did you mean `max-clients`?"),
            ("stranger", "colour = 3", "`nearlight config show`"),
            ("syntax", "port = ", "expected"),
            ("value", "port = \"many\"", "--port <PORT>"),
            ("flag", "quiet = 1", "`quiet` is true or false"),
            ("table", "port = { a = 1 }", "`port` is a text, a number"),
            ("itself", "config = \"x\"", "there is no option `config`"),
        ] {
            let words = completed(name, text, &[]).expect_err(text);
            assert!(words.contains(expected), "{name}: {words}");
        }
        let line = ["nearlight", COMMAND, "--config", "/nonexistent.toml"].map(OsString::from);
        assert!(
            complete(&Arguments::command(), line.into())
                .expect_err("missing")
                .to_string()
                .contains("/nonexistent.toml")
        );
    }

    #[test]
    fn the_template_is_a_file_that_changes_nothing_and_its_lines_are_options() {
        let command = Arguments::command();
        let template = template(command.find_subcommand(COMMAND).expect("a command"));
        assert_eq!(completed("template", &template, &[]).as_deref(), Ok(""));
        let keys = template.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(" = ")).map(|(key, _)| key);
        let keys: Vec<&str> = keys.filter(|key| !key.contains(' ')).collect();
        assert!(keys.len() > 50 && keys.contains(&"port") && keys.contains(&"program-memory"), "{keys:?}");
    }
}
