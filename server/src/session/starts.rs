//! The starting places of clients for whom the server renders.

use std::sync::{Arc, Mutex, Weak};

use nearlight_rooms::starting_place;
use nearlight_scene::START;
use nearlight_units::{Span, Time, lock};
use nearlight_wire::Pose;

use crate::session::exchange::SessionExchange;

/// Time for which a client's place is taken wherever its head is: a page that has not read its welcome sends other poses. Guess.
const ARRIVAL: Span = Span::from_secs(3);

/// Assigns places at which nobody stands.
pub(crate) struct StartingPlaces {
    places: Vec<Pose>,
    /// The clients that have a place, of whom there are at most as many as sessions.
    clients: Mutex<Vec<PlacedClient>>,
}

struct PlacedClient {
    exchange: Weak<SessionExchange>,
    start: Pose,
    arrived_at: Time,
}

impl StartingPlaces {
    /// Creates the places of a world, in the order in which they are taken.
    pub(crate) const fn new(places: Vec<Pose>) -> Self {
        Self { places, clients: Mutex::new(Vec::new()) }
    }

    /// Assigns a place to a client. `members` are the heads of the world's members.
    pub(crate) fn assign(&self, now: Time, exchange: &Arc<SessionExchange>, members: Vec<Pose>) -> Pose {
        let mut clients = lock(&self.clients);
        let mut people = members;
        clients.retain(|client| {
            let Some(exchange) = client.exchange.upgrade().filter(|exchange| !exchange.has_left()) else {
                return false;
            };
            people.push(exchange.input.head());
            if now - client.arrived_at < ARRIVAL {
                people.push(client.start);
            }
            true
        });
        let start = starting_place(&self.places, &people).map_or(START, |number| self.places[number]);
        exchange.input.set_start(start);
        clients.push(PlacedClient { exchange: Arc::downgrade(exchange), start, arrived_at: now });
        start
    }
}

#[cfg(test)]
mod tests {
    use nearlight_codec::CodecKind;
    use nearlight_scene::Viewer;
    use nearlight_session::ReceivedInput;
    use nearlight_units::{Bitrate, InputSeq, RemoteTime};
    use nearlight_wire::InputSample;
    use tokio::sync::mpsc;

    use super::*;
    use crate::session::exchange::StreamTarget;

    fn at(x: f32) -> Pose {
        Pose { position: [x, 1.6, 0.0], ..START }
    }

    fn client(number: u32) -> Arc<SessionExchange> {
        let target = StreamTarget::of_screen(Bitrate::ZERO);
        Arc::new(SessionExchange::new(Viewer(number), CodecKind::Vp8, target, mpsc::channel(1).0, mpsc::channel(1).0))
    }

    fn walk(client: &SessionExchange, head: Pose) {
        let sample = InputSample::of_views(InputSeq(1), RemoteTime::from_micros(0), head, Vec::new());
        let (hands, messages) = (Default::default(), Vec::new());
        let input = ReceivedInput { sample, received_at: Time::ZERO, events: Vec::new(), hands, messages };
        client.input.on_input(input);
    }

    #[test]
    fn clients_start_where_nobody_stands() {
        let starts = StartingPlaces::new(vec![at(0.0), at(5.0), at(10.0), at(15.0)]);
        let clients: Vec<_> = (1..=4).map(client).collect();
        let now = Time::from_secs(1);
        let assign =
            |number: usize, now: Time, members: &[Pose]| starts.assign(now, &clients[number], members.to_vec());
        assert_eq!(assign(0, now, &[]), at(0.0));
        assert_eq!(clients[0].input.head(), at(0.0), "its view until its first input");
        assert_eq!(assign(1, now, &[at(5.2)]), at(10.0), "a member that renders for itself stands at the second place");
        // A page's first poses may be of before its welcome.
        walk(&clients[0], at(40.0));
        assert_eq!(assign(2, now, &[]), at(5.0));
        clients[2].leave();
        assert_eq!(assign(3, now + ARRIVAL, &[]), at(0.0), "whoever has walked away leaves a free place");
    }
}
