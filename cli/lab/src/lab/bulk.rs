//! A bulk transfer of the kernel's TCP, for `nearlight lab run --live`: the counterpart of `nearlight_flows::Bulk` in virtual time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use nearlight_emulate::machine_time;
use nearlight_net::tcp::set_congestion_control;
use nearlight_system::{ask_to_end, end_with_this_thread};
use nearlight_units::{Span, Time};
use nearlight_window::{HeraOptions, LawSpec, LossResponse, Reading, Step};

use nearlight_cli::companion::Companion;
use nearlight_cli::parse;

/// Bytes of a write, as in Hera's paper (section 5.2).
const WRITE_BYTES: usize = 128 << 10;
/// Longest time that a read or write blocks before the end of the run is checked.
const IO_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct BulkReceiveArguments {
    /// HOST:PORT
    address: String,
    #[arg(long, value_parser = parse::seconds)]
    seconds: Span,
    /// From one count to the next
    #[arg(long, value_parser = parse::seconds)]
    sample: Span,
}

/// A law in the kernel: Hera is loaded with its own parameters for as long as this lives, whatever else is loaded.
pub(super) struct KernelLaw {
    name: String,
    loader: Option<Child>,
}

impl KernelLaw {
    pub(super) fn of(law: &LawSpec) -> anyhow::Result<Self> {
        let LawSpec::Hera(hera) = law else { return Ok(Self { name: law.name().to_owned(), loader: None }) };
        if hera.on_loss != LossResponse::Ignore {
            bail!(
                "the kernel's Hera ignores losses, so `{law}` cannot be run live: leave out `loss:halve`, or run it in virtual time"
            );
        }
        let name = format!("hera_{}", std::process::id());
        let mut command = Companion::Kernel.command()?;
        command.args(["load", "hera", "--json", "--name", &name]).args(parameters(hera));
        // The kernel unloads it when its loader ends, and that ends with this thread.
        end_with_this_thread(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the loader of Hera")?;
        let mut line = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output.take(4_096)).read_line(&mut line)?;
        }
        if line.is_empty() {
            let output = child.wait_with_output().context("the loader of Hera")?;
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("nearlight: "));
        }
        Ok(Self { name, loader: Some(child) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for KernelLaw {
    fn drop(&mut self) {
        if let Some(loader) = &mut self.loader {
            ask_to_end(loader);
            let _ = loader.wait();
        }
    }
}

/// Returns the parameters as arguments of `nearlight kernel load`.
fn parameters(hera: &HeraOptions) -> Vec<String> {
    let reading = match hera.reading {
        Reading::Symmetric => "symmetric",
        Reading::AsPrinted => "as-printed",
    };
    let step = match hera.step {
        Step::RoundTrip => "round-trip",
        Step::Sample => "sample",
    };
    let limit = hera.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    vec![
        format!("--reading={reading}"),
        format!("--step={step}"),
        format!("--buckets={}", hera.buckets),
        format!("--bucket-ms={}", hera.bucket_size.as_micros() / 1_000),
        format!("--backlog={}", hera.backlog),
        format!("--max-delta={}", hera.max_delta),
        format!("--limit={limit}"),
        format!("--least={}", hera.least),
        format!("--most={}", hera.most),
    ]
}

/// The sending end: a thread of this process.
pub(super) struct Sender {
    pub(super) port: u16,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Sender {
    /// Waits for one receiver, and sends as fast as its congestion control allows until the receiver leaves.
    pub(super) fn start(law: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("cannot open a port")?;
        let port = listener.local_addr()?.port();
        // Accepted sockets have it from their first packet.
        set_congestion_control(&listener, law).with_context(|| format!("this kernel has no TCP with {law}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().context("no receiver connected")?;
            stream.set_write_timeout(Some(IO_TIMEOUT))?;
            let block = vec![0; WRITE_BYTES];
            while !stopped.load(Ordering::Relaxed) {
                match stream.write(&block) {
                    Err(error) if !is_wait(&error) => break,
                    _ => {}
                }
            }
            Ok(())
        });
        Ok(Self { port, stop, thread })
    }

    /// Stops sending.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("the sender panicked"))
    }

    /// Stops the sender, even if the receiver has not connected.
    pub(super) fn give_up(self) {
        // Ends the wait for a receiver.
        drop(TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))));
        // The run has failed, whatever the sender's result.
        let _ = self.finish();
    }
}

/// The time was over, or the process was stopped and went on; nothing else.
fn is_wait(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Receives for the given time, and prints how much has come by when: nanoseconds of the machine's clock and bytes.
pub(super) fn receive(arguments: &BulkReceiveArguments) -> anyhow::Result<ExitCode> {
    let mut stream = TcpStream::connect(&arguments.address)
        .with_context(|| format!("the sender at {} does not answer", arguments.address))?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    let mut output = std::io::stdout().lock();
    let mut buffer = vec![0; WRITE_BYTES];
    let begun = machine_time();
    let (mut sum, mut due) = (0_u64, begun);
    let mut tell = |now: Time, sum: u64| writeln!(output, "{} {sum}", now.as_nanos());
    loop {
        let now = machine_time();
        if now >= due {
            tell(now, sum)?;
            due = now + arguments.sample;
        }
        if now - begun >= arguments.seconds {
            tell(now, sum)?;
            return Ok(ExitCode::SUCCESS);
        }
        match stream.read(&mut buffer) {
            Ok(0) => bail!("the sender closed the connection early"),
            Ok(length) => sum += length as u64,
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error).context("receiving"),
        }
    }
}

/// Parses a receiver's output, on a clock that begins at `origin`.
pub(super) fn counts(words: &str, origin: Time) -> anyhow::Result<Vec<(Time, u64)>> {
    let pair = |line: &str| {
        let (at, sum) = line.split_once(' ')?;
        let at = Time::from_nanos(at.parse().ok()?);
        Some((Time::ZERO + at.saturating_since(origin), sum.parse().ok()?))
    };
    words.lines().map(|line| pair(line).with_context(|| format!("`{line}` is not a count of the receiver"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_the_receiver_writes_them() {
        let read = counts("1000 0\n2500 7\n", Time::from_nanos(1_500)).expect("two lines");
        assert_eq!(read, [(Time::ZERO, 0), (Time::from_nanos(1_000), 7)]);
        assert!(counts("1000", Time::ZERO).is_err());
    }
}
