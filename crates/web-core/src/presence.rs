//! Where the user is, as one list of numbers: cheaper across the border to JavaScript than objects.

use nearlight_session::Presence;
use nearlight_wire::{Action, Fov, Hand, HandPose, Pose, View};

/// Takes numbers off the front of a list.
struct Numbers<'a>(&'a [f32]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Option<[f32; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// A count that is a whole number of at most `most`.
    fn count(&mut self, most: u8) -> Option<u8> {
        let [value] = self.take()?;
        (0..=most).find(|count| f32::from(*count).to_bits() == value.to_bits())
    }

    fn pose(&mut self) -> Option<Pose> {
        Some(Pose { position: self.take()?, orientation: self.take()? })
    }

    fn view(&mut self) -> Option<View> {
        let pose = self.pose()?;
        let [left, right, down, up] = self.take()?;
        Some(View { pose, fov: Fov { left, right, down, up } })
    }

    fn hand(&mut self) -> Option<HandPose> {
        let [code] = self.take()?;
        let hand = hand(code as u8)?;
        Some(HandPose { hand, pose: self.pose()? })
    }
}

/// Reads head, count of views (1 or 2) and views, count of hands (0 to 2) and hands.
///
/// A pose is a position and a quaternion x, y, z, w; a view is a pose and the tangents left, right, down, up; a hand is its
/// number and a pose. None where the list has another length or a count is out of range.
pub fn presence(values: &[f32]) -> Option<Presence> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut numbers = Numbers(values);
    let head = numbers.pose()?;
    let views = (0..numbers.count(2)?).map(|_| numbers.view()).collect::<Option<Vec<_>>>()?;
    let hands = (0..numbers.count(2)?).map(|_| numbers.hand()).collect::<Option<Vec<_>>>()?;
    (numbers.0.is_empty() && !views.is_empty()).then_some(Presence { head, views, hands })
}

/// The views of a frame, as [`presence`] takes them.
pub fn view_numbers(views: &[View]) -> Vec<f32> {
    views
        .iter()
        .flat_map(|View { pose, fov }| {
            pose.position.into_iter().chain(pose.orientation).chain([fov.left, fov.right, fov.down, fov.up])
        })
        .collect()
}

/// The hand of a number in the page's order.
pub fn hand(code: u8) -> Option<Hand> {
    [Hand::Gaze, Hand::Left, Hand::Right].get(usize::from(code)).copied()
}

/// The action of a number in the page's order.
pub fn action(code: u8) -> Option<Action> {
    const ACTIONS: [Action; 7] =
        [Action::Grab, Action::Release, Action::Push, Action::Throw, Action::Reset, Action::Nearer, Action::Farther];
    ACTIONS.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: [f32; 11] = [1.0, 1.6, 6.0, 0.0, 0.0, 0.0, 1.0, -1.0, 1.5, -0.75, 0.5];

    #[test]
    fn a_presence_is_read_whole_or_not_at_all() {
        let mut values = VIEW[..7].to_vec();
        values.push(2.0);
        values.extend(VIEW);
        values.extend(VIEW);
        values.push(1.0);
        values.push(2.0);
        values.extend(&VIEW[..7]);
        let whole = presence(&values).expect("all parts are there");
        assert_eq!((whole.views.len(), whole.hands.len()), (2, 1));
        assert_eq!(whole.hands[0].hand, Hand::Right);
        assert_eq!(view_numbers(&whole.views), [VIEW, VIEW].concat());
        for length in 0..values.len() {
            assert!(presence(&values[..length]).is_none(), "{length} numbers are no presence");
        }
        values.push(0.0);
        assert!(presence(&values).is_none(), "something is left over");
    }

    #[test]
    fn odd_numbers_are_refused() {
        let with_count = |count: f32| [&VIEW[..7], &[count], &VIEW, &[0.0]].concat();
        assert!(presence(&with_count(1.0)).is_some());
        for count in [0.0, 0.5, 3.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(presence(&with_count(count)).is_none(), "{count} views");
        }
    }
}
