//! Unity Render Streaming's web clients: their routes beside the page, the desk where they sign in, and their sessions.

mod desk;
mod pages;
mod routes;
mod visit;

use std::sync::Arc;

use axum::Router;
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
    let (desk, work) = Desk::open(options.mode, house.clock, media);
    let checking = Arc::clone(house);
    let refuse = Box::new(move |from, token: &str| {
        let Refused(status, words) = checking.check_token(from, token).err().map(Refused::from)?;
        Some((status, words))
    });
    let access = Access { desk, refuse, token_needed: options.token_needed };
    let router = routes::router(Arc::new(access));
    let router = match &options.pages {
        Some(folder) => router.merge(pages::router(folder)),
        None => router,
    };
    (router, work)
}
