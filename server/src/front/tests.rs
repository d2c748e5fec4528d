use axum::body::{Body, to_bytes};
use axum::http::Request;
use nearlight_fleet::{Announcement, Places, ServerId};
use serde_json::Value;
use tower_service::Service as _;

use super::*;

const TOKEN: &str = "a-token-for-the-tests";
const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9));

fn shared(everybody: Option<Role>) -> Arc<Shared> {
    front(everybody, false)
}

fn front(everybody: Option<Role>, nearest: bool) -> Arc<Shared> {
    let token: Token = TOKEN.parse().expect("a token");
    let front = Mutex::new(Front::new(check_of(&token)));
    let pairing = Pairing::new(&token, Arc::default(), None);
    Arc::new(Shared { clock: Clock::start(), front, pairing, token, everybody, nearest })
}

fn announce(shared: &Shared, name: &str, rooms: &[(&str, u32)], load: f64) {
    let link = format!("https://{name}.example:8090/");
    let places = Places { taken: 0, capacity: 2 };
    let announcement = Announcement {
        clients: places,
        members: places,
        load,
        rooms: rooms.iter().map(|(room, count)| ((*room).to_owned(), *count)).collect(),
        ..Announcement::new(link, check_of(&shared.token))
    };
    let server = ServerId::new(name).expect("a name");
    shared.on_directory(DirectoryEvent::Announced { server, announcement });
}

struct Answer {
    status: u16,
    location: String,
    retry_after: Option<String>,
    /// The origins whose pages may read the answer.
    anybody: Option<String>,
    body: String,
}

async fn ask(shared: &Arc<Shared>, path: &str, token: Option<&str>) -> Answer {
    let mut request =
        Request::get(path).header(header::HOST, "front.example").extension(Client(FAR)).extension(Scheme::HTTPS);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = router(Arc::clone(shared)).call(request).await.expect("axum answers");
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (location, retry_after) = (text(header::LOCATION).unwrap_or_default(), text(header::RETRY_AFTER));
    let anybody = text(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    Answer { status, location, retry_after, anybody, body: String::from_utf8(body.to_vec()).expect("text") }
}

#[tokio::test]
async fn browsers_are_sent_on_with_the_token_that_they_keep_to_themselves() {
    let shared = shared(None);
    let none = ask(&shared, "/", None).await;
    assert_eq!((none.status, none.retry_after.as_deref()), (503, Some("5")));
    assert!(none.body.contains("No server is running"), "{}", none.body);
    announce(&shared, "one", &[("lab", 1)], 0.9);
    announce(&shared, "two", &[], 0.1);
    for (path, location) in [
        // A fragment in the answer would replace the browser's own.
        ("/", "https://two.example:8090/?front=https://front.example"),
        ("/?transport=websocket", "https://two.example:8090/?transport=websocket&front=https://front.example"),
        ("/r/lab", "https://one.example:8090/?room=lab&front=https://front.example"),
        // Another front, or a second room, is not the one that was asked.
        (
            "/r/lab?front=https://evil.example&rendering=local&room=other",
            "https://one.example:8090/?room=lab&rendering=local&front=https://front.example",
        ),
    ] {
        let answer = ask(&shared, path, None).await;
        assert_eq!((answer.status, answer.location.as_str()), (307, location), "{path}");
    }
    assert_eq!(ask(&shared, "/r/No%20Room", None).await.status, 400);
    assert_eq!(ask(&shared, "/elsewhere", None).await.status, 404);
    // Two were sent to the second one and one, to be rendered for, to the first one, with two places each.
    assert_eq!(ask(&shared, "/", None).await.location, "https://one.example:8090/?front=https://front.example");
    let full = ask(&shared, "/", None).await;
    assert!(full.status == 503 && full.body.contains("full"), "{} {}", full.status, full.body);
}

#[tokio::test]
async fn a_page_whose_server_has_gone_is_told_of_another_without_a_token() {
    let shared = shared(Some(Role::Guest));
    let none = ask(&shared, "/page.json", None).await;
    assert!(none.status == 503 && none.body.contains("No server is running"), "{} {}", none.status, none.body);
    announce(&shared, "one", &[("lab", 1)], 0.9);
    announce(&shared, "two", &[], 0.1);
    for (path, page) in [
        ("/page.json", "https://two.example:8090/?front=https://front.example"),
        (
            "/page.json?transport=webrtc&room=lab&front=https://evil.example",
            "https://one.example:8090/?room=lab&transport=webrtc&front=https://front.example",
        ),
    ] {
        let answer = ask(&shared, path, None).await;
        let expected = serde_json::json!({ "page": page });
        assert_eq!(serde_json::from_str::<Value>(&answer.body).expect("JSON"), expected, "{path}");
        assert_eq!((answer.status, answer.anybody.as_deref()), (200, Some("*")), "pages of other origins may ask");
    }
    assert_eq!(ask(&shared, "/page.json?room=No+Room", None).await.status, 400);
}

#[tokio::test]
async fn programs_get_links_with_their_own_token_alone() {
    let shared = shared(None);
    announce(&shared, "one", &[("lab", 1)], 0.5);
    announce(&shared, "two", &[], 0.1);
    assert_eq!(ask(&shared, "/servers.json", None).await.status, 401);
    assert_eq!(ask(&shared, "/servers.json", Some("not-the-right-token")).await.status, 401);
    for role in Role::ALL {
        let token = token_for(&shared.token, role).to_string();
        let answer = ask(&shared, "/servers.json?place=member", Some(&token)).await;
        let list: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!((&list["role"], &list["room"]), (&role.name().into(), &Value::Null), "{list}");
        let servers = list["servers"].as_array().expect("a list");
        let names: Vec<_> = servers.iter().map(|server| server["server"].as_str().unwrap_or_default()).collect();
        assert_eq!(names, ["two", "one"], "the least load first");
        for server in servers {
            let link = Link::parse(server["link"].as_str().expect("a link")).expect("a link");
            assert_eq!(link.token.as_deref(), Some(token.as_str()));
        }
    }
    let lab = ask(&shared, "/servers.json?room=lab&place=member", Some(TOKEN)).await;
    let list: Value = serde_json::from_str(&lab.body).expect("JSON");
    assert_eq!((list["servers"].as_array().map(Vec::len), &list["servers"][0]["room_members"]), (Some(1), &1.into()));
    assert_eq!(ask(&shared, "/servers.json?place=throne", Some(TOKEN)).await.status, 400);
    assert_eq!(ask(&shared, "/servers.json?room=No+Room", Some(TOKEN)).await.status, 400);
}

#[tokio::test]
async fn everybody_is_a_guest_where_the_owner_says_so_and_never_host() {
    let shared = shared(Some(Role::Guest));
    announce(&shared, "one", &[], 0.5);
    let guest = token_for(&shared.token, Role::Guest).to_string();
    let answer = ask(&shared, "/", None).await;
    assert_eq!(answer.location, format!("https://one.example:8090/?front=https://front.example#token={guest}"));
    let list = ask(&shared, "/servers.json", None).await;
    assert!(list.body.contains(&guest) && !list.body.contains(TOKEN), "{}", list.body);
    assert_eq!(ask(&shared, "/servers.json", Some("not-the-right-token")).await.status, 401, "rather than less");
}

#[tokio::test]
async fn browsers_measure_which_server_is_nearest_and_come_back_with_it() {
    let shared = front(Some(Role::Guest), true);
    announce(&shared, "one", &[("lab", 1)], 0.5);
    let alone = ask(&shared, "/", None).await;
    assert_eq!((alone.status, alone.location.contains("https://one.example:8090/?front=")), (307, true), "no choice");
    announce(&shared, "two", &[], 0.1);
    for path in ["/", "/?transport=webrtc", "/r/atelier"] {
        let page = ask(&shared, path, None).await;
        assert_eq!((page.status, page.body.contains("/nearest.js")), (200, true), "{path}");
    }
    let script = ask(&shared, "/nearest.js", None).await;
    assert!(script.body.contains("/origins.json") && script.body.contains("server="));
    let listed = |answer: Answer| -> Vec<(String, String)> {
        let list: Value = serde_json::from_str(&answer.body).expect("JSON");
        let servers = list["servers"].as_array().expect("a list").iter();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        servers.map(|server| (text(&server["server"]), text(&server["origin"]))).collect()
    };
    let of = |name: &str| (name.to_owned(), format!("https://{name}.example:8090"));
    assert_eq!(listed(ask(&shared, "/origins.json?transport=webrtc", None).await), [of("two"), of("one")]);
    assert_eq!(listed(ask(&shared, "/origins.json?room=lab", None).await), [of("one")], "where the room is");
    assert_eq!(ask(&shared, "/origins.json?room=No+Room", None).await.status, 400);
    for (path, server, rest) in [
        ("/?transport=webrtc&server=one", "one", "transport=webrtc&"),
        ("/?server=", "two", ""),
        ("/?server=gone", "two", ""),
        ("/r/atelier?server=one", "one", "room=atelier&"),
        ("/r/lab", "one", "room=lab&"),
    ] {
        // Whoever was sent on takes a place.
        let shared = front(Some(Role::Guest), true);
        announce(&shared, "one", &[("lab", 1)], 0.5);
        announce(&shared, "two", &[], 0.1);
        let answer = ask(&shared, path, None).await;
        let page = format!("https://{server}.example:8090/?{rest}front=https://front.example#token=");
        assert!(answer.status == 307 && answer.location.starts_with(&page), "{path}: {}", answer.location);
    }
}

#[tokio::test]
async fn a_hundred_guesses_are_told_to_wait() {
    let shared = shared(None);
    announce(&shared, "one", &[], 0.5);
    let mut waits = 0;
    for _ in 0..100 {
        let answer = ask(&shared, "/servers.json", Some("not-the-right-token")).await;
        waits += u32::from(answer.status == 429 && answer.retry_after.is_some());
    }
    assert!(waits >= 90, "{waits}");
    assert_eq!(ask(&shared, "/servers.json", Some(TOKEN)).await.status, 200, "the right token is never refused");
}
