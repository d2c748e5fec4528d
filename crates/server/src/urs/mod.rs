//! Unity Render Streaming's web clients: their routes beside the page, the desk where they sign in, and their sessions.

mod desk;
mod pages;
mod routes;
mod visit;

use std::sync::Arc;

use axum::Router;
use nearlight_urs::signalling::{Brought, Gate, Refused as Unread};
use nearlight_webrtc::{Offer, is_candidate};
use tokio::sync::mpsc;

use crate::house::House;
use crate::options::UnityOptions;
use crate::rtc::Exchange;
use crate::rtc::whep::Refused;
use desk::Desk;
use routes::Access;
use visit::Media;

pub(crate) use routes::is_own;
pub(crate) use visit::UnityVisit;

/// The routes, and the desk's work: run it as long as the server runs. Sessions go to `visits`, to be run with the others.
pub(crate) fn open(
    options: &UnityOptions,
    house: &Arc<House>,
    exchange: &Arc<Exchange>,
    visits: mpsc::Sender<UnityVisit>,
) -> (Router, impl Future<Output = ()> + Send + use<>) {
    let media = Media { house: Arc::clone(house), exchange: Arc::clone(exchange), visits };
    let (desk, work) = Desk::open(options.mode, house.clock, gate(Arc::clone(house)), media);
    let checking = Arc::clone(house);
    let refuse = Box::new(move |from, token: &str| checking.check_token(from, token).err().map(Refused::from));
    let access = Access { desk, refuse, token_needed: options.token_needed };
    let router = routes::router(Arc::new(access));
    let router = match &options.pages {
        Some(folder) => router.merge(pages::router(folder)),
        None => router,
    };
    (router, work)
}

/// Offers are counted as WHEP's are, and whatever is brought must be what it says it is.
fn gate(house: Arc<House>) -> Gate {
    let bad = |words: String| Unread::Bad(words);
    Box::new(move |now, guest, brought| match brought {
        Brought::Offer(text) => {
            house.count_offer(now, guest).map_err(|rejection| {
                let wait = rejection.wait.unwrap_or_default();
                Unread::TooMany(rejection.message, wait)
            })?;
            Offer::parse(text).map(drop).map_err(|error| bad(error.to_string()))
        }
        Brought::Answer(text) => Offer::parse_answer(text).map(drop).map_err(|error| bad(error.to_string())),
        Brought::Candidate(text) if is_candidate(text) => Ok(()),
        Brought::Candidate(_) => Err(bad("the candidate is not as RFC 8839 describes it".into())),
    })
}
