//! Opens a session: trust, connection, greeting.

use std::time::Duration;

use nearlight_net::{
    Clock, ConnectOptions, Connection, ControlReceiver, ControlSender, NetError, connect, discover_trust,
};
use nearlight_wire::{ClientMessage, Hello, PROTOCOL_VERSION, RefusalReason, ServerMessage, Welcome};

use crate::{ClientError, ViewOptions};

/// How long a server may take to answer the greeting. Guess: it opens an encoder first.
const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// A session that the server has welcomed.
pub struct Opened {
    pub connection: Connection,
    pub to_server: ControlSender<ClientMessage>,
    pub from_server: ControlReceiver<ServerMessage>,
    pub welcome: Welcome,
}

/// Why no session opened.
pub enum Trouble {
    /// May be over at the next attempt.
    Passing(String),
    /// The next attempt would fail as well.
    Lasting(ClientError),
    /// `passing`: the server had no place, but may have one later.
    Refused { passing: bool, reason: RefusalReason, message: String },
}

/// Connects and greets. Asks for the server's certificate anew each time, for a restarted server has another.
pub async fn open(options: &ViewOptions, display_hz: u16, clock: Clock) -> Result<Opened, Trouble> {
    let link = &options.link;
    let trust = discover_trust(link).await?;
    let connection = connect(&ConnectOptions::new(link, trust), clock).await?;
    let (mut to_server, mut from_server) = connection.open_control().await?;
    let hello = Hello {
        protocol: PROTOCOL_VERSION,
        token: link.token.clone().unwrap_or_default(),
        client: concat!("nearlight view ", env!("CARGO_PKG_VERSION")).to_owned(),
        display: options.display,
        codecs: options.codecs.iter().map(|codec| codec.name().to_owned()).collect(),
        display_hz,
        sound: options.sound,
    };
    to_server.send(&ClientMessage::Hello(hello)).await?;
    let answer = tokio::time::timeout(GREETING_LIMIT, from_server.recv()).await;
    match answer.map_err(|_| Trouble::Passing("the server did not answer the greeting".into()))?? {
        ServerMessage::Welcome(welcome) => Ok(Opened { connection, to_server, from_server, welcome }),
        ServerMessage::Refused { reason, message } => {
            connection.finish(0, "refused").await;
            let passing = matches!(reason, RefusalReason::Full | RefusalReason::Internal);
            Err(Trouble::Refused { passing, reason, message })
        }
        ServerMessage::Goodbye { message } => Err(Trouble::Passing(message)),
        ServerMessage::Stream(_) | ServerMessage::Rate(_) => {
            Err(Trouble::Passing("the server answered the greeting with something else".into()))
        }
    }
}

impl From<NetError> for Trouble {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Link(_)
            | NetError::Name { .. }
            | NetError::NoRoots(_)
            | NetError::WrongPath { .. }
            | NetError::CertificateMismatch { .. }
            | NetError::CertificateNotTrusted { .. } => Self::Lasting(error.into()),
            passing => Self::Passing(passing.to_string()),
        }
    }
}
