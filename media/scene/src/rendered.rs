//! The source that renders the shared world.

use std::path::{Path, PathBuf};

use nearlight_rooms::{ObjectId, Room, SeatKey};
use nearlight_sound::Cues;
use nearlight_units::{Span, Time};
use nearlight_wire::Pose;

use crate::plaza::Environment;
use crate::render::{Backend, Conversion, DrawStatistics, Renderer};
use crate::scene_file::SceneFile;
use crate::world::{Setting, World};
use crate::{
    Application, ApplicationMessage, MakeModel, Output, RenderRequest, RenderedPicture, SceneError, Source, Viewer,
    ViewerInput, export, places, scene_file,
};

/// Initial pose of the head of a viewer who is alone: at eye height, in front of everything.
pub const START: Pose = Pose { position: [0.0, 1.6, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };

/// Shortest time between reopening an adapter and its next failure. An adapter that fails sooner is given up. Guess: a driver's reset takes
/// a second or two.
const MIN_REOPEN_INTERVAL: Span = Span::from_secs(10);

/// The world and its renderer.
pub struct WorldSource {
    world: World,
    renderer: Renderer,
    conversion: Conversion,
    drawn: DrawStatistics,
    /// The world's surroundings: the plaza, or a glTF file.
    scene: Option<PathBuf>,
    now: Time,
    /// When the adapter was last reopened after a failure.
    reopened_at: Option<Time>,
}

impl WorldSource {
    /// Opens the plaza, or the scene that the file `scene` describes.
    pub(crate) fn open(
        scene: Option<PathBuf>,
        (backend, conversion): (Backend, Conversion),
        clock: &dyn Fn() -> Time,
    ) -> Result<Self, SceneError> {
        let place = || {
            let Some(file) = scene.as_deref() else { return environment(None) };
            let SceneFile { environment, undrawn } = scene_file::load(file)?;
            if !undrawn.is_empty() {
                tracing::warn!("{} is drawn without: {}", file.display(), undrawn.join(", "));
            }
            Ok(environment)
        };
        let (renderer, environment) = Renderer::open((backend, conversion), place, clock)?;
        let world = World::new(setting(&environment, scene.is_none()));
        Ok(Self {
            world,
            renderer,
            conversion,
            drawn: DrawStatistics::default(),
            scene,
            now: Time::ZERO,
            reopened_at: None,
        })
    }

    /// Opens the plaza on an adapter of `backend`.
    pub fn plaza(backend: Backend, conversion: Conversion, clock: &dyn Fn() -> Time) -> Result<Self, SceneError> {
        Self::open(None, (backend, conversion), clock)
    }

    /// Reopens an adapter: the failed one if it is usable again, and otherwise any other. The world continues where it was.
    fn reopen(&mut self) -> Result<(), SceneError> {
        let clock = || self.now;
        let place = || environment(self.scene.as_deref());
        let open = |backend| Renderer::open((backend, self.conversion), place, &clock);
        let (renderer, _) = open(self.renderer.summary().interface()).or_else(|_| open(Backend::Auto))?;
        tracing::warn!(adapter = renderer.describe(), "the graphics adapter was opened again");
        self.renderer = renderer;
        self.reopened_at = Some(self.now);
        Ok(())
    }

    /// Returns the work that the newest picture required.
    pub fn drawn(&self) -> DrawStatistics {
        self.drawn
    }
}

impl Application for WorldSource {
    fn describe(&self) -> String {
        self.renderer.describe()
    }

    fn is_demonstration(&self) -> bool {
        true
    }

    fn objects(&self) -> Option<Vec<(ObjectId, Pose)>> {
        Some(self.world.objects())
    }

    fn starting_places(&self) -> Vec<Pose> {
        starting_places(self.scene.as_deref())
    }

    fn model(&self) -> Option<MakeModel> {
        let scene = self.scene.clone();
        Some(Box::new(move || {
            let environment = environment(scene.as_deref())?;
            let places = starting_places(scene.as_deref());
            export::write(&environment, &World::new(setting(&environment, scene.is_none())), &places)
        }))
    }

    fn exchange(&mut self, now: Time, room: &mut Room) {
        self.world.exchange(now, room);
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        self.world.on_input(now, viewer, input);
    }

    fn on_name(&mut self, _now: Time, viewer: Viewer, name: String) {
        self.world.on_name(viewer, name);
    }

    fn on_seat_key(&mut self, _now: Time, viewer: Viewer, key: SeatKey) {
        self.world.on_seat_key(viewer, key);
    }

    fn on_spectator(&mut self, _now: Time, viewer: Viewer) {
        self.world.on_spectator(viewer);
    }

    fn on_message(&mut self, _now: Time, viewer: Viewer, message: ApplicationMessage) {
        self.world.on_message(viewer, &message);
    }

    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.world.poll_output()
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.world.on_viewer_left(viewer);
    }

    fn poll_cues(&mut self) -> Option<Cues> {
        Some(self.world.cues())
    }
}

impl Source for WorldSource {
    fn advance(&mut self, now: Time) {
        self.now = now;
        self.world.advance(now);
    }

    fn render(
        &mut self,
        request: &RenderRequest<'_>,
        take: &mut dyn FnMut(RenderedPicture<'_>),
    ) -> Result<(), SceneError> {
        let show = self.world.show(request.viewer);
        self.drawn = match self.renderer.draw(request, &show, take) {
            Err(SceneError::Adapter(reason))
                if self.reopened_at.is_none_or(|at| self.now - at > MIN_REOPEN_INTERVAL) =>
            {
                tracing::warn!(reason, "the graphics adapter failed");
                self.reopen()?;
                self.renderer.draw(request, &show, take)?
            }
            drawn => drawn?,
        };
        Ok(())
    }
}

fn setting(environment: &Environment, decor: bool) -> Setting {
    Setting { solids: environment.solids.clone(), lighting: environment.lighting.clone(), decor }
}

fn starting_places(scene: Option<&Path>) -> Vec<Pose> {
    if scene.is_none() { places::around_fountain() } else { places::ahead_of_start() }
}

fn environment(scene: Option<&Path>) -> Result<Environment, SceneError> {
    scene.map_or_else(|| Ok(crate::plaza::build::plaza()), |file| Ok(scene_file::load(file)?.environment))
}

#[cfg(test)]
mod tests {
    use nearlight_wire::{Fov, View};

    use super::*;

    fn draw(source: &mut WorldSource) -> Result<Vec<u8>, SceneError> {
        let views = [View { pose: START, fov: Fov::symmetric(1.0, 16.0 / 9.0) }];
        let request = RenderRequest { viewer: Viewer(1), views: &views, width: 320, height: 180 };
        let mut bytes = Vec::new();
        source.render(&request, &mut |rendered| {
            let RenderedPicture::Pixels(pixels) = rendered else { panic!("pixels were wanted") };
            bytes = pixels.bytes.to_vec();
        })?;
        Ok(bytes)
    }

    #[test]
    fn a_lost_device_is_opened_again_but_not_for_ever() {
        let backend = Backend::default().or_environment().expect("a backend");
        let mut source = WorldSource::plaza(backend, Conversion::Processor, &|| Time::ZERO).expect("an adapter");
        source.advance(Time::from_secs(1));
        let before = draw(&mut source).expect("a picture");
        source.renderer.lose_device();
        assert!(draw(&mut source).expect("from the new device") == before, "the world is as it was");
        source.renderer.lose_device();
        source.advance(Time::from_secs(2));
        let error = draw(&mut source).expect_err("it failed again at once");
        assert!(matches!(error, SceneError::Adapter(_)), "{error}");
        source.advance(Time::from_secs(12));
        draw(&mut source).expect("after a while it is tried again");
    }
}
