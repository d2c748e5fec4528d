//! One connection's offers and answers: "perfect negotiation" from the impolite side.
//!
//! The web client opens its data channel first, so its first offer contains nothing else. That offer is answered, and then the world offers
//! its picture. The browser chooses the codec in its answer.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

/// An unanswered offer of the world is repeated after this time, as in Unity.
const RESEND_INTERVAL: Span = Span::from_secs(5);
/// After this many repetitions the client is considered gone. Guess.
const MAX_RESENDS: u32 = 6;

/// The step that follows from an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Request an answer to this offer from the peer.
    MakeAnswer(String),
    /// Request an offer with all media of the world from the peer.
    MakeOffer,
    /// The client has answered the peer's offer.
    Accept(String),
    SendAnswer(String),
    SendOffer(String),
    /// The client does not answer.
    GiveUp,
}

#[derive(Debug)]
enum State {
    Stable,
    /// The peer makes the answer to this offer.
    Answering(String),
    /// The peer makes an offer.
    Making,
    /// The peer's offer waits for its answer.
    Offered {
        sdp: String,
        sent: u32,
        sent_at: Time,
    },
}

#[derive(Debug)]
pub(super) struct Negotiation {
    state: State,
    /// The newest offer that was answered, and its answer.
    answered: Option<(String, String)>,
    /// An offer that arrived while the peer was processing another.
    waiting: Option<String>,
    /// Whether both sides have agreed on a picture, or are about to.
    picture: bool,
    steps: VecDeque<Step>,
}

impl Negotiation {
    pub(super) const fn new() -> Self {
        Self { state: State::Stable, answered: None, waiting: None, picture: false, steps: VecDeque::new() }
    }

    /// Whether an offer would cost the peer work. A repeated one does not.
    pub(super) fn is_new(&self, offer: &str) -> bool {
        let answered = self.answered.as_ref().is_some_and(|(answered, _)| answered == offer);
        let answering = matches!(&self.state, State::Answering(answering) if answering == offer);
        !answered && !answering
    }

    /// Handles the client's offer. Clients repeat an offer until they have its answer.
    pub(super) fn on_offer(&mut self, offer: String) {
        if let Some((answered, answer)) = &self.answered
            && *answered == offer
        {
            self.steps.push_back(Step::SendAnswer(answer.clone()));
            if let State::Offered { sdp, .. } = &self.state {
                self.steps.push_back(Step::SendOffer(sdp.clone()));
            }
            return;
        }
        match &self.state {
            State::Stable => {
                self.steps.push_back(Step::MakeAnswer(offer.clone()));
                self.state = State::Answering(offer);
            }
            State::Answering(answering) => {
                if *answering != offer {
                    self.waiting = Some(offer);
                }
            }
            // Both offer at once: the client rolls its offer back, and repeats it after its answer.
            State::Making | State::Offered { .. } => {}
        }
    }

    /// Handles the client's answer. An answer without an offer is ignored.
    pub(super) fn on_answer(&mut self, answer: String) {
        if matches!(self.state, State::Offered { .. }) {
            self.picture = true;
            self.state = State::Stable;
            self.steps.push_back(Step::Accept(answer));
        }
    }

    /// Handles the requested answer of the peer.
    pub(super) fn on_answer_made(&mut self, answer: String) {
        let State::Answering(offer) = std::mem::replace(&mut self.state, State::Stable) else { return };
        self.picture |= asks_for_picture(&offer);
        self.steps.push_back(Step::SendAnswer(answer.clone()));
        self.answered = Some((offer, answer));
        if let Some(offer) = self.waiting.take() {
            self.on_offer(offer);
        } else if !self.picture {
            self.state = State::Making;
            self.steps.push_back(Step::MakeOffer);
        }
    }

    /// Handles the requested offer of the peer.
    pub(super) fn on_offer_made(&mut self, now: Time, offer: String) {
        if matches!(self.state, State::Making) {
            self.steps.push_back(Step::SendOffer(offer.clone()));
            self.state = State::Offered { sdp: offer, sent: 1, sent_at: now };
        }
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        let State::Offered { sdp, sent, sent_at } = &mut self.state else { return };
        if now < *sent_at + RESEND_INTERVAL {
            return;
        }
        if *sent > MAX_RESENDS {
            self.state = State::Stable;
            self.steps.push_back(Step::GiveUp);
            return;
        }
        (*sent, *sent_at) = (*sent + 1, now);
        self.steps.push_back(Step::SendOffer(sdp.clone()));
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Offered { sent_at, .. } => Some(sent_at + RESEND_INTERVAL),
            _ => None,
        }
    }

    pub(super) fn poll_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }
}

/// Whether an offer has a video section that is not already rejected.
fn asks_for_picture(sdp: &str) -> bool {
    sdp.lines().any(|line| line.strip_prefix("m=video ").is_some_and(|rest| !rest.starts_with("0 ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: &str = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n";
    const BOTH: &str = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n";

    fn steps(negotiation: &mut Negotiation) -> Vec<Step> {
        std::iter::from_fn(|| negotiation.poll_step()).collect()
    }

    /// A negotiation up to the world's own offer.
    fn offered() -> Negotiation {
        let mut negotiation = Negotiation::new();
        negotiation.on_offer(CHANNEL.into());
        assert_eq!(steps(&mut negotiation), [Step::MakeAnswer(CHANNEL.into())]);
        negotiation.on_answer_made("answer".into());
        assert_eq!(steps(&mut negotiation), [Step::SendAnswer("answer".into()), Step::MakeOffer]);
        negotiation.on_offer_made(Time::ZERO, "own".into());
        assert_eq!(steps(&mut negotiation), [Step::SendOffer("own".into())]);
        negotiation
    }

    #[test]
    fn a_channel_alone_is_answered_and_then_the_picture_is_offered() {
        let mut negotiation = offered();
        negotiation.on_answer("theirs".into());
        assert_eq!(steps(&mut negotiation), [Step::Accept("theirs".into())]);
        assert_eq!(negotiation.poll_timeout(), None);
        // A later offer of the client, such as one with a microphone, is only answered.
        negotiation.on_offer(BOTH.into());
        negotiation.on_answer_made("second".into());
        assert_eq!(steps(&mut negotiation), [Step::MakeAnswer(BOTH.into()), Step::SendAnswer("second".into())]);
    }

    #[test]
    fn a_client_that_asks_for_a_picture_at_once_gets_no_further_offer() {
        let mut negotiation = Negotiation::new();
        negotiation.on_offer(BOTH.into());
        negotiation.on_answer_made("answer".into());
        assert_eq!(steps(&mut negotiation), [Step::MakeAnswer(BOTH.into()), Step::SendAnswer("answer".into())]);
        assert!(!asks_for_picture(&BOTH.replace("m=video 9", "m=video 0")));
    }

    #[test]
    fn an_offer_that_is_sent_again_costs_the_peer_nothing() {
        let mut negotiation = Negotiation::new();
        assert!(negotiation.is_new(CHANNEL));
        for _ in 0..3 {
            negotiation.on_offer(CHANNEL.into());
        }
        assert_eq!(steps(&mut negotiation), [Step::MakeAnswer(CHANNEL.into())]);
        assert!(!negotiation.is_new(CHANNEL));
        let mut negotiation = offered();
        negotiation.on_offer(CHANNEL.into());
        assert_eq!(steps(&mut negotiation), [Step::SendAnswer("answer".into()), Step::SendOffer("own".into())]);
        negotiation.on_answer("theirs".into());
        negotiation.on_offer(CHANNEL.into());
        assert_eq!(steps(&mut negotiation), [Step::Accept("theirs".into()), Step::SendAnswer("answer".into())]);
    }

    #[test]
    fn when_both_offer_at_once_the_world_does_not_give_way() {
        let mut negotiation = offered();
        negotiation.on_offer(BOTH.into());
        assert_eq!(steps(&mut negotiation), []);
        negotiation.on_answer("theirs".into());
        negotiation.on_offer(BOTH.into());
        assert_eq!(steps(&mut negotiation), [Step::Accept("theirs".into()), Step::MakeAnswer(BOTH.into())]);
    }

    #[test]
    fn the_newest_of_the_offers_that_wait_is_answered_next() {
        let mut negotiation = Negotiation::new();
        for offer in ["v=0 1", "v=0 2", BOTH] {
            negotiation.on_offer(offer.into());
        }
        negotiation.on_answer_made("first".into());
        assert_eq!(
            steps(&mut negotiation),
            [Step::MakeAnswer("v=0 1".into()), Step::SendAnswer("first".into()), Step::MakeAnswer(BOTH.into())]
        );
    }

    #[test]
    fn answers_to_nothing_are_left_alone() {
        let mut negotiation = Negotiation::new();
        negotiation.on_answer("theirs".into());
        negotiation.on_answer_made("nobody asked".into());
        negotiation.on_offer_made(Time::ZERO, "nobody asked".into());
        assert_eq!(steps(&mut negotiation), []);
    }

    #[test]
    fn an_offer_is_repeated_for_a_while_and_then_given_up() {
        let mut negotiation = offered();
        for _ in 0..MAX_RESENDS {
            let due = negotiation.poll_timeout().expect("due");
            negotiation.on_timeout(due - Span::from_nanos(1));
            assert_eq!(steps(&mut negotiation), []);
            negotiation.on_timeout(due);
            assert_eq!(steps(&mut negotiation), [Step::SendOffer("own".into())]);
        }
        assert_eq!(negotiation.poll_timeout(), Some(Time::from_secs(35)));
        negotiation.on_timeout(Time::from_secs(35));
        assert_eq!((steps(&mut negotiation), negotiation.poll_timeout()), (vec![Step::GiveUp], None));
    }
}
