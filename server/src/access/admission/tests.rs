use super::table::max_holders;
use super::*;
use crate::access::link_register::Credential;

const NOW: Time = Time::from_secs(100);

/// Someone with the owner's token, or a client without a token.
fn guest(last: u8, trusted: bool) -> Applicant {
    let role = if trusted { Role::Host } else { Role::Guest };
    Applicant { address: IpAddr::from([192, 0, 2, last]), trusted, credential: Credential::of_role(role) }
}

fn with_role(last: u8, role: Role) -> Applicant {
    Applicant::new(IpAddr::from([192, 0, 2, last]), Credential::of_role(role))
}

fn is_lost(permit: &Permit) -> bool {
    permit.displacement().is_some()
}

fn wait(seconds: i64) -> AdmissionError {
    AdmissionError::AddressLimit(Span::from_secs(seconds))
}

#[test]
fn places_are_counted_and_given_back() {
    let admission = Admission::new(2);
    let held = [1, 2].map(|last| admission.take(NOW, guest(last, true)).expect("a place"));
    let later = NOW + Span::from_secs(3_600);
    assert!(held.iter().all(|permit| permit.on_heard(later)));
    assert_eq!(admission.take(later, guest(1, true)).err(), Some(AdmissionError::Full), "who is heard stays");
    let outage = later + Span::from_secs(2);
    assert!(admission.take(outage, guest(1, true)).is_err(), "an outage costs nobody the place");
    drop(held);
    assert!(admission.take(outage, guest(1, true)).is_ok());
    assert_eq!(Admission::new(0).take(NOW, guest(1, true)).err(), Some(AdmissionError::Full));
}

#[test]
fn strangers_that_never_connect_keep_nobody_with_the_token_out() {
    let admission = Admission::new(5);
    let take = |last, trusted| admission.take(NOW, guest(last, trusted));
    let strangers = [1, 1, 2, 2].map(|last| take(last, false).expect("a place"));
    assert!(strangers[3].on_heard(NOW));
    let owner = [9, 9, 9, 9].map(|last| take(last, true).expect("a place"));
    assert_eq!(strangers.each_ref().map(is_lost), [true, true, true, false]);
    assert!(!strangers[0].on_heard(NOW), "it is too late");
    assert_eq!(take(8, true).err(), Some(AdmissionError::Full));
    assert_eq!(take(9, true).err(), Some(wait(5)), "its own address is why");
    drop(strangers);
    assert!(owner.iter().all(|permit| permit.on_heard(NOW)), "what is lost is not given back twice");
    assert!(take(8, true).is_ok());
}

#[test]
fn who_falls_silent_makes_room_for_whoever_wants_it() {
    let admission = Admission::new(2);
    let [killed, watching] = [1, 2].map(|last| admission.take(NOW, guest(last, true)).expect("a place"));
    let later = |seconds| NOW + Span::from_secs(seconds);
    assert!(killed.on_heard(NOW) && watching.on_heard(later(2)));
    assert_eq!(admission.take(later(2), guest(3, true)).err(), Some(AdmissionError::SilentClient(Span::from_secs(1))));
    assert_eq!(admission.take(later(2), guest(3, false)).err(), Some(AdmissionError::Full), "strangers need not know");
    let next = admission.take(later(3), guest(3, true)).expect("the killed one's");
    assert_eq!([&killed, &watching, &next].map(is_lost), [true, false, false]);
    assert!(!killed.on_heard(later(4)), "who comes back after that connects anew");
    assert!(watching.on_heard(later(4)));
}

#[test]
fn one_address_without_a_token_waits_in_half_of_the_places() {
    let admission = Admission::new(5);
    let take = |after: i64, last| admission.take(NOW + Span::from_secs(after), guest(last, false));
    let held = [0, 1].map(|after| take(after, 1).expect("a place"));
    assert_eq!(take(2, 1).err(), Some(wait(3)));
    let others = [2, 3].map(|last| take(2, last).expect("a place"));
    assert_eq!(take(2, 4).err(), Some(AdmissionError::Reserved), "the last place is the owner's");
    let next = take(5, 1).expect("the first one's time is over");
    assert_eq!([is_lost(&held[0]), is_lost(&held[1])], [true, false]);
    let later = NOW + Span::from_secs(5);
    assert!([&held[1], &next].into_iter().chain(&others).all(|permit| permit.on_heard(later)));
    drop(others);
    let household = [6, 6].map(|after| take(after, 1).expect("those who connected do not count"));
    assert!(household.iter().all(|permit| permit.on_heard(later)));
}

/// Connects clients until one is refused. Returns those who are in.
fn crowd(admission: &Arc<Admission>, last: u8, role: Role) -> Vec<Permit> {
    let admit = |_| admission.take(NOW, with_role(last, role)).ok().inspect(|permit| assert!(permit.on_heard(NOW)));
    (0..1_000).map_while(admit).collect()
}

#[test]
fn spectators_of_one_address_lock_out_neither_guests_nor_the_host() {
    for (places, spectators, guests) in [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 1), (8, 5, 2), (256, 191, 64)] {
        let admission = Admission::new(places);
        let watching = crowd(&admission, 1, Role::Spectator);
        let acting = crowd(&admission, 1, Role::Guest);
        assert_eq!((watching.len(), acting.len()), (spectators, guests), "{places} places");
        let host = admission.take(NOW, with_role(1, Role::Host)).expect("an owner is let in");
        assert!(!is_lost(&host) && !acting.iter().any(is_lost), "{places} places");
    }
}

#[test]
fn the_idlest_spectator_leaves_for_an_owner() {
    let admission = Admission::new(4);
    let later = NOW + Span::from_secs(1);
    let [idle, active] = [1, 2].map(|last| admission.take(NOW, with_role(last, Role::Spectator)).expect("a place"));
    let guest = admission.take(NOW, with_role(3, Role::Guest)).expect("a place");
    let owner = |admission: &Arc<Admission>| admission.take(later, with_role(9, Role::Host));
    let first = owner(&admission).expect("the reserved place");
    for permit in [&idle, &active, &guest, &first] {
        assert!(permit.on_heard(later));
    }
    idle.on_active(NOW);
    active.on_active(later);
    let second = owner(&admission).expect("the place of the idlest spectator");
    assert_eq!([&idle, &active, &guest].map(Permit::displacement), [Some(Displacement::Owner), None, None]);
    assert!(second.on_heard(later));
    let third = owner(&admission).expect("the place of the other spectator");
    assert!(is_lost(&active) && third.on_heard(later));
    assert_eq!(owner(&admission).err(), Some(AdmissionError::Full), "guests stay, for an owner is there");
}

#[test]
fn an_owner_enters_a_server_that_guests_have_filled() {
    let admission = Admission::new(2);
    let guests = crowd(&admission, 1, Role::Guest);
    assert_eq!(guests.len(), 2);
    let owner = admission.take(NOW, with_role(1, Role::Host)).expect("no other owner is there");
    assert!(is_lost(&guests[0]) && owner.on_heard(NOW));
    assert_eq!(admission.take(NOW, with_role(1, Role::Host)).err(), Some(AdmissionError::Full));
}

#[test]
fn an_address_with_more_than_its_share_gives_way_to_another_one() {
    for role in [Role::Guest, Role::Spectator] {
        let admission = Admission::new(8);
        let many = crowd(&admission, 1, role);
        assert_eq!(admission.take(NOW, with_role(1, role)).err(), Some(AdmissionError::Reserved));
        let others = crowd(&admission, 2, role);
        let left = many.iter().filter(|permit| !is_lost(permit)).count();
        assert_eq!(left, max_holders(8, role) / 2, "{role:?}: half of the places");
        assert_eq!(others.len() + left, max_holders(8, role));
        assert!(many.iter().filter_map(Permit::displacement).all(|why| why == Displacement::Share));
    }
}

#[tokio::test]
async fn who_loses_the_permit_is_told_why_at_once() {
    let admission = Admission::new(1);
    let watching = admission.take(NOW, with_role(1, Role::Spectator)).expect("a place");
    assert!(watching.on_heard(NOW));
    let owner = admission.take(NOW, with_role(2, Role::Host)).expect("the spectator's place");
    assert_eq!(watching.displaced().await, Displacement::Owner);
    drop(watching);
    assert!(owner.on_heard(NOW) && admission.held() == 1);
}

#[test]
fn clients_of_a_link_that_has_ended_lose_their_places_and_others_keep_them() {
    let admission = Admission::new(8);
    let with_link = |last: u8, link| {
        let credential = Credential { role: Role::Guest, link };
        admission.take(NOW, Applicant::new(IpAddr::from([192, 0, 2, last]), credential)).expect("a place")
    };
    let [first, second, other, owner] =
        [(1, Some(1)), (2, Some(1)), (3, Some(2)), (4, None)].map(|(last, link)| with_link(last, link));
    admission.end_links(&[1, 7]);
    for permit in [first, second] {
        assert_eq!(permit.displacement(), Some(Displacement::LinkEnded));
        assert!(!permit.on_heard(NOW));
    }
    assert!(!is_lost(&other) && !is_lost(&owner));
    assert_eq!(admission.held(), 2);
}

#[test]
fn there_is_a_place_where_the_next_guest_would_get_one() {
    let admission = Admission::new(2);
    let has_place = |now| admission.has_place(now, Role::Guest);
    let _first = admission.take(NOW, with_role(1, Role::Guest)).expect("a place");
    assert!(has_place(NOW));
    let _second = admission.take(NOW, with_role(2, Role::Guest)).expect("a place");
    assert!(!has_place(NOW));
    assert!(has_place(NOW + CONNECT_GRACE), "a client that has not connected gives way");
    assert_eq!(admission.held(), 2, "the question takes nobody's place");
}
