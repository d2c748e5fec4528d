//! Tests how a fleet logs in to NATS, and which messages from NATS it believes. Timing is asserted only to within seconds.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use nkeys::KeyPair;
use serde_json::{Value, json};

use super::{count, crowd};
use crate::nats::{Nats, free_port};
use crate::process::Process;
use crate::support::{TOKEN, nearlight};

const PASSWORD: &str = "s3cret";
/// Longer than anything here takes, by far.
const PATIENCE: Duration = Duration::from_secs(30);

fn front(url: &str, further: &[&str]) -> Child {
    nearlight()
        .args(["front", "--json", "--port", "0", "--token", TOKEN, "--nats", url])
        .args(further)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

/// Waits until the front takes clients, and returns its port.
fn port_of(front: &mut Child) -> u16 {
    let mut line = String::new();
    BufReader::new(front.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let first: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
        let mut words = String::new();
        front.stderr.as_mut().expect("piped").read_to_string(&mut words).expect("text");
        panic!("the front does not start: {words}")
    });
    first["port"].as_u64().expect("a port") as u16
}

fn is_let_in(url: &str, further: &[&str]) {
    let mut front = Process(front(url, further));
    assert_ne!(port_of(&mut front.0), 0);
}

/// Returns what a front prints if NATS refuses it.
fn words_of_refused(url: &str, further: &[&str]) -> String {
    let Output { status, stderr, .. } = front(url, further).wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success() && !words.contains(PASSWORD), "{words}");
    words
}

fn file(name: &str, contents: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, contents).expect("it can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of characters")
}

#[test]
fn a_fleet_logs_in_as_the_accounts_of_nats_demand() {
    let password = format!("authorization {{ user: alice, password: \"{PASSWORD}/x\" }}");
    let nats = Nats::with_config("nats-password", &password);
    let at = |login: &str| format!("nats://{login}127.0.0.1:{}", nats.port);
    is_let_in(&at(&format!("alice:{PASSWORD}%2Fx@")), &[]);
    let (_server, _) = Nats::server_at(&at(&format!("alice:{PASSWORD}%2Fx@")), &[]);
    for login in [String::new(), format!("alice:{PASSWORD}@"), format!("bob:{PASSWORD}%2Fx@")] {
        let words = words_of_refused(&at(&login), &[]);
        assert!(words.contains("refuses the credentials") && words.contains(&at("")), "{words}");
    }

    let nats = Nats::with_config("nats-token", &format!("authorization {{ token: {PASSWORD} }}"));
    is_let_in(&format!("nats://{PASSWORD}@127.0.0.1:{}", nats.port), &[]);

    let user = KeyPair::new_user();
    let seed = file("user.nk", &user.seed().expect("a seed"));
    let nats =
        Nats::with_config("nats-nkey", &format!("authorization {{ users: [{{ nkey: {} }}] }}", user.public_key()));
    let url = format!("nats://127.0.0.1:{}", nats.port);
    is_let_in(&url, &["--nats-credentials", text(&seed)]);
    let other = file("other.nk", &KeyPair::new_user().seed().expect("a seed"));
    assert!(words_of_refused(&url, &["--nats-credentials", text(&other)]).contains("refuses the credentials"));
}

/// A JWT as NATS has them, with these claims of NATS.
fn jwt(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    use base64::Engine as _;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let head = encode(json!({"typ": "JWT", "alg": "ed25519-nkey"}).to_string().as_bytes());
    let body = json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer.public_key(), "name": "test",
        "sub": subject.public_key(), "nats": claims,
    });
    let signed = format!("{head}.{}", encode(body.to_string().as_bytes()));
    let signature = encode(&issuer.sign(signed.as_bytes()).expect("it has a seed"));
    format!("{signed}.{signature}")
}

#[test]
fn a_fleet_logs_in_with_a_file_of_credentials_over_tls() {
    let [operator, account, user] = [KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user()];
    // JetStream needs an account of the system's own besides.
    let system = KeyPair::new_account();
    let operator_jwt = jwt(&operator, &operator, &json!({"type": "operator", "version": 2}));
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let account_claims = |limits: &Value| json!({"type": "account", "version": 2, "limits": limits, "default_permissions": {"pub": {}, "sub": {}}});
    let account_jwt = jwt(&operator, &account, &account_claims(&limits));
    let mut without_storage = limits;
    for limit in ["mem_storage", "disk_storage", "streams", "consumer"] {
        without_storage[limit] = json!(0);
    }
    let system_jwt = jwt(&operator, &system, &account_claims(&without_storage));
    let user_claims =
        json!({"type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1});
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(&account, &user, &user_claims),
        user.seed().expect("a seed"),
    );
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = file("nats.crt", &signed.cert.pem());
    let key = file("nats.key", &signed.signing_key.serialize_pem());
    let config = format!(
        "operator: {operator_jwt}\nsystem_account: {1}\nresolver: MEMORY\nresolver_preload: {{ {0}: {account_jwt}, {1}: {system_jwt} }}\ntls {{ cert_file: \"{2}\", key_file: \"{3}\" }}\n",
        account.public_key(),
        system.public_key(),
        text(&certificate),
        text(&key),
    );
    let nats = Nats::with_config("nats-tls", &config);
    let url = format!("tls://127.0.0.1:{}", nats.port);
    let credentials = file("user.creds", &credentials);
    let trusted = ["--nats-credentials", text(&credentials), "--nats-ca", text(&certificate)];
    is_let_in(&url, &trusted);
    assert!(words_of_refused(&url, &trusted[2..]).contains("refuses the credentials"));

    // A certificate that nobody has signed is waited for, and gets no credentials.
    let mut waiting = Process(front(&url, &trusted[..2]));
    assert!(first_warning(&mut waiting.0).contains("waits for NATS"));
}

/// The first line of the log with a warning.
fn first_warning(child: &mut Child) -> String {
    let lines = BufReader::new(child.stderr.as_mut().expect("piped")).lines();
    lines.map_while(Result::ok).find(|line| line.contains("WARN")).expect("a warning")
}

#[test]
fn a_fleet_waits_for_nats_and_says_so() {
    let port = free_port();
    let url = format!("nats://alice:{PASSWORD}@127.0.0.1:{port}");
    let mut waiting = Process(front(&url, &[]));
    let words = first_warning(&mut waiting.0);
    assert!(words.contains("waits for NATS") && words.contains(&format!("127.0.0.1:{port}")), "{words}");
    assert!(!words.contains(PASSWORD), "{words}");
    let config = format!("authorization {{ user: alice, password: {PASSWORD} }}");
    let _nats = Nats::at_port(port, "nats-late", &config);
    assert_ne!(port_of(&mut waiting.0), 0);
}

#[test]
fn a_nats_without_tls_gets_no_password_over_tls() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let mut child = Process(front(&format!("tls://alice:{PASSWORD}@127.0.0.1:{port}"), &[]));
    let (mut stream, _) = listener.accept().expect("the front connects");
    stream
        .write_all(
            b"INFO {\"server_id\":\"liar\",\"version\":\"2.15.2\",\"max_payload\":1048576,\"tls_required\":false}\r\n",
        )
        .expect("it reads");
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    // A handshake of TLS, whose first record has the type 22.
    assert_eq!(heard.first(), Some(&22));
    assert!(!String::from_utf8_lossy(&heard).contains("CONNECT"));
    drop(stream);
    drop(listener);
    assert!(first_warning(&mut child.0).contains("waits for NATS"));
}

/// Bytes that a stranger keeps: more than NATS carries here in a second.
const REMEMBERED: usize = 512 << 10;

/// A client of NATS that does not have the fleet's key. It receives all messages and publishes arbitrary ones.
struct Stranger {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Stranger {
    fn at(port: u16) -> Self {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("NATS is open to all");
        stream.write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB > 1\r\nPING\r\n").expect("it reads");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        Self { stream, heard: Vec::new() }
    }

    fn say(&mut self, subject: &str, payload: &[u8]) {
        write!(self.stream, "PUB {subject} {}\r\n", payload.len()).expect("it reads");
        self.stream.write_all(payload).and_then(|()| self.stream.write_all(b"\r\n")).expect("it reads");
    }

    fn delete(&mut self, subject: &str) {
        let head = "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n";
        write!(self.stream, "HPUB {subject} {0} {0}\r\n{head}\r\n", head.len()).expect("it reads");
    }

    /// Listens for a moment, and remembers the newest [`REMEMBERED`] bytes.
    fn listen(&mut self) {
        let mut part = vec![0; 64 << 10];
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100)
            && let Ok(count @ 1..) = self.stream.read(&mut part)
        {
            self.heard.extend_from_slice(&part[..count]);
        }
        self.heard.drain(..self.heard.len().saturating_sub(REMEMBERED));
        let _ = self.stream.write_all(b"PONG\r\n");
    }

    /// Returns the newest message on a subject that begins so: the rest of its subject, and its payload.
    fn newest(&self, prefix: &str) -> Option<(String, Vec<u8>)> {
        let begin = format!("MSG {prefix}");
        let places = self.heard.windows(begin.len()).enumerate().filter(|(_, bytes)| *bytes == begin.as_bytes());
        let mut messages = places.filter_map(|(at, _)| {
            let line = self.heard[at..].split(|byte| *byte == b'\r').next()?;
            let line = std::str::from_utf8(line).ok()?;
            let words: Vec<&str> = line.split(' ').collect();
            let (subject, length): (_, usize) = (words.get(1)?, words.last()?.parse().ok()?);
            // A message with headers, which is an HMSG, has their length before that of all.
            let has_headers = at > 0 && self.heard[at - 1] == b'H';
            let head = if has_headers { words.get(words.len() - 2)?.parse().ok()? } else { 0 };
            let start = at + line.len() + 2;
            let payload = self.heard.get(start + head..start + length)?;
            Some((subject.strip_prefix(prefix)?.to_owned(), payload.to_vec()))
        });
        messages.next_back()
    }
}

fn servers(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let request = format!(
        "GET /servers.json?place=member&room=elsewhere HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_stranger_on_nats_leads_nobody_away_and_reads_and_ends_no_room() {
    let nats = Nats::start("nats-stranger");
    let (first, second) = (nats.server(), nats.server());
    let url = format!("nats://127.0.0.1:{}", nats.port);
    let mut front = Process(front(&url, &[]));
    let port = port_of(&mut front.0);
    let began = Instant::now();
    while servers(port).matches("\"server\"").count() != 2 {
        assert!(began.elapsed() < PATIENCE, "{}", servers(port));
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut stranger = Stranger::at(nats.port);
    let mut lists = Vec::new();
    let figures = crowd(&[&first.1, &second.1], "10", || {
        for round in 0..60 {
            stranger.listen();
            let announced = stranger.newest("$KV.nearlight-servers.");
            let (server, sealed) = announced.unwrap_or_else(|| ("0".into(), b"nothing".to_vec()));
            let evil = json!({
                "version": 1, "link": "https://evil.example", "check": "5503335c2055bc9fab8e781166486337", "load": 0.0,
                "clients": {"taken": 0, "capacity": 8}, "members": {"taken": 0, "capacity": 256}, "rooms": {"main": 99},
            });
            stranger.say("$KV.nearlight-servers.evil", evil.to_string().as_bytes());
            stranger.say("$KV.nearlight-servers.copy", &sealed);
            stranger.say(&format!("$KV.nearlight-servers.{server}"), &sealed);
            stranger.delete(&format!("$KV.nearlight-servers.{server}"));
            if let Some((place, batch)) = stranger.newest("nearlight.rooms.") {
                stranger.say(&format!("nearlight.rooms.{place}"), &batch);
                stranger.say(&format!("nearlight.rooms.{place}"), b"\x01\x00");
            }
            match round % 20 {
                5 => stranger.delete("$KV.nearlight-rooms.main"),
                15 => stranger.say("$KV.nearlight-rooms.main", b"\x01\x00\x00\x00\x00\x09\x04evil"),
                _ => {}
            }
            lists.push(servers(port));
        }
    });
    assert!(
        lists.iter().all(|list| list.matches("\"server\"").count() == 2 && !list.contains("evil")),
        "{:?}",
        lists.last()
    );
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    assert_eq!(figures["ended"].as_object().map(serde_json::Map::len), Some(0), "{figures}");
    let own = stranger.newest("$KV.nearlight-rooms.").expect("rooms are written");
    assert_eq!(own.0, "main");
    let heard = String::from_utf8_lossy(&stranger.heard).replace("https://evil.example", "");
    assert!(!heard.contains("https://"), "links are sealed");
}
