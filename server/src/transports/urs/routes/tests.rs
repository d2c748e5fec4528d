//! Tests requests to the routes, with the signalling task and a peer that echoes its commands.

use axum::body::Body;
use nearlight_net::Clock;
use nearlight_units::Span;
use nearlight_urs::signalling::{Mode, PeerId, Rejection as Unread, Submission};
use serde_json::Value;
use tower_service::Service as _;

use super::super::signalling::{PeerCommand, Peers};
use super::*;

const CHANNEL: &str = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n";

/// Answers with the text of its commands, and ends when its offer is accepted.
struct Echo;

impl Peers for Echo {
    fn open(
        &self,
        peer: PeerId,
        _: Guest,
        mut commands: mpsc::Receiver<PeerCommand>,
        events: mpsc::Sender<SignallingEvent>,
    ) {
        tokio::spawn(async move {
            while let Some(command) = commands.recv().await {
                let event = match command {
                    PeerCommand::Answer(offer) => {
                        SignallingEvent::Answer(peer, Ok(format!("v=0 answer to {}", offer.len())))
                    }
                    PeerCommand::Offer => SignallingEvent::Offer(peer, Ok("v=0 own".into())),
                    PeerCommand::Accept(_) => SignallingEvent::Gone(peer),
                };
                let _ = events.send(event).await;
            }
        });
    }
}

struct Site {
    router: Router,
}

impl Site {
    fn new(token_needed: bool) -> Self {
        let gate = Box::new(|_, guest: Guest, brought: Submission<'_>| match brought {
            Submission::Offer("v=0 flood") => Err(Unread::TooMany("wait".into(), Span::from_millis(2_500))),
            Submission::Offer("v=0 trust") if guest.trusted => Err(Unread::Bad("trusted".into())),
            Submission::Candidate("zzz") => Err(Unread::Bad("no candidate".into())),
            _ => Ok(()),
        });
        let (signalling, work) = SignallingTask::open(Mode::Public, Clock::start(), gate, Echo);
        tokio::spawn(work);
        let refuse =
            Box::new(|_, token: &str| (token != "right").then(|| HttpRefusal::new(StatusCode::UNAUTHORIZED, "wrong")));
        let router = router(Arc::new(Access { signalling, refuse, token_needed }));
        Self { router: router.layer(Extension(Client([192, 0, 2, 1].into()))) }
    }

    async fn ask(&mut self, method: &str, uri: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (StatusCode, Value) {
        let (status, _, value) = self.ask_all(method, uri, headers, body).await;
        (status, value)
    }

    /// Sends a request. Returns status, headers and body.
    async fn ask_all(
        &mut self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (StatusCode, HeaderMap, Value) {
        let mut request = axum::http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let response = self.router.call(request).await.expect("axum answers");
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, headers, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

#[tokio::test]
async fn the_configuration_is_what_the_web_client_asks_for() {
    let (status, config) = Site::new(false).ask("GET", "/config", &[], vec![]).await;
    assert_eq!(
        (status, config),
        (StatusCode::OK, json!({ "useWebSocket": true, "startupMode": "public", "logging": "none" }))
    );
}

#[tokio::test]
async fn a_polling_client_comes_to_its_answer_and_its_offer() {
    let mut site = Site::new(false);
    let (_, session) = site.ask("PUT", "/signaling", &[], vec![]).await;
    let session = session["sessionId"].as_str().expect("a name").to_owned();
    assert_eq!(session.len(), 22, "128 bits");
    let headers = [("session-id", session.as_str()), ("content-type", "application/json")];
    let named = json!({ "connectionId": "a" }).to_string().into_bytes();
    let (status, connected) = site.ask("PUT", "/signaling/connection", &headers, named.clone()).await;
    assert_eq!((status, &connected["polite"]), (StatusCode::OK, &json!(true)));
    let offer = json!({ "connectionId": "a", "sdp": CHANNEL }).to_string().into_bytes();
    assert_eq!(site.ask("POST", "/signaling/offer", &headers, offer).await.0, StatusCode::OK);
    let mut read = 0;
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        let (_, list) = site.ask("GET", &format!("/signaling?fromtime={read}"), &headers, vec![]).await;
        read = list["datetime"].as_u64().expect("a time");
        let messages = list["messages"].as_array().expect("a list").iter();
        kinds.extend(
            messages
                .filter_map(|message| message["type"].as_str())
                .filter(|kind| *kind != "connect")
                .map(str::to_owned),
        );
        tokio::task::yield_now().await;
    }
    assert_eq!(kinds, ["answer", "offer"]);
    let answer = json!({ "connectionId": "a", "sdp": "v=0 theirs" }).to_string().into_bytes();
    assert_eq!(site.ask("POST", "/signaling/answer", &headers, answer).await.0, StatusCode::OK);
    loop {
        let (_, list) = site.ask("GET", &format!("/signaling?fromtime={read}.5"), &headers, vec![]).await;
        if list["messages"][0]["type"] == "disconnect" {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(site.ask("DELETE", "/signaling", &headers, vec![]).await.0, StatusCode::OK);
    assert_eq!(site.ask("GET", "/signaling", &headers, vec![]).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_may_sign_in_depends_on_token_and_origin() {
    let own = [("host", "server.test:8090"), ("origin", "http://server.test:3000")];
    let foreign = [("host", "server.test:8090"), ("origin", "https://elsewhere.test")];
    let none = [("host", "server.test:8090"), ("origin", "null")];
    let bearer = [("authorization", "bearer right")];
    for (token_needed, uri, headers, expected) in [
        (false, "/signaling", [].as_slice(), StatusCode::OK),
        (false, "/signaling", &own, StatusCode::OK),
        (false, "/signaling", &foreign, StatusCode::FORBIDDEN),
        (false, "/signaling", &none, StatusCode::FORBIDDEN),
        (false, "http://server.test:8090/signaling", &own[1..], StatusCode::OK),
        (false, "http://server.test:8090/signaling", &foreign[1..], StatusCode::FORBIDDEN),
        (false, "/signaling?token=right", &foreign, StatusCode::OK),
        (false, "/signaling?token=wrong", &own, StatusCode::UNAUTHORIZED),
        (true, "/signaling", &own, StatusCode::UNAUTHORIZED),
        (true, "/signaling?token=right", &own, StatusCode::OK),
        (true, "/signaling", &bearer, StatusCode::OK),
    ] {
        let (status, _) = Site::new(token_needed).ask("PUT", uri, headers, vec![]).await;
        assert_eq!(status, expected, "{token_needed} {uri} {headers:?}");
    }
}

#[tokio::test]
async fn bodies_that_are_none_cost_little_and_say_why() {
    let mut site = Site::new(false);
    let (_, session) = site.ask("PUT", "/signaling/", &[], vec![]).await;
    let session = session["sessionId"].as_str().expect("a name").to_owned();
    let headers = [("session-id", session.as_str())];
    for (method, uri, body, expected) in [
        ("POST", "/signaling/offer", b"{".to_vec(), StatusCode::BAD_REQUEST),
        ("POST", "/signaling/offer", vec![0xff; 100], StatusCode::BAD_REQUEST),
        ("POST", "/signaling/offer", vec![b' '; MAX_TEXT_BYTES + 1], StatusCode::PAYLOAD_TOO_LARGE),
        (
            "POST",
            "/signaling/candidate",
            br#"{"connectionId":"a","candidate":"zzz"}"#.to_vec(),
            StatusCode::BAD_REQUEST,
        ),
        ("GET", "/signaling?fromtime=yesterday", vec![], StatusCode::BAD_REQUEST),
        ("PATCH", "/signaling/offer", vec![], StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/signaling/elsewhere", vec![], StatusCode::NOT_FOUND),
    ] {
        let (status, value) = site.ask(method, uri, &headers, body).await;
        assert_eq!(status, expected, "{method} {uri}");
        assert!(value["error"].as_str().is_some_and(|words| words.len() > 10), "{method} {uri}: {value}");
    }
    let flood = json!({ "connectionId": "a", "sdp": "v=0 flood" }).to_string().into_bytes();
    let (status, answered, value) = site.ask_all("POST", "/signaling/offer", &headers, flood).await;
    assert_eq!((status, &value["error"]), (StatusCode::TOO_MANY_REQUESTS, &json!("wait")));
    assert_eq!(answered.get(header::RETRY_AFTER), Some(&HeaderValue::from_static("3")));
    assert_eq!(site.ask("GET", "/signaling", &[("session-id", "guessed")], vec![]).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn who_showed_the_token_is_known_by_it_later() {
    let mut site = Site::new(false);
    for (uri, status) in [("/signaling", StatusCode::OK), ("/signaling?token=right", StatusCode::BAD_REQUEST)] {
        let (_, session) = site.ask("PUT", uri, &[], vec![]).await;
        let headers = [("session-id", session["sessionId"].as_str().expect("a name"))];
        let offer = json!({ "connectionId": "a", "sdp": "v=0 trust" }).to_string().into_bytes();
        assert_eq!(site.ask("POST", "/signaling/offer", &headers, offer).await.0, status, "{uri}");
    }
}
