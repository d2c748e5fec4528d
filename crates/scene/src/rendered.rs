//! The source that draws the shared world.

use nearlight_units::Time;
use nearlight_wire::{InputEvent, Pose};

use crate::plaza::Environment;
use crate::render::{Backend, Drawn, Renderer};
use crate::world::{Setting, World};
use crate::{Pixels, Presence, RenderRequest, SceneError, Source, Viewer};

/// Where a viewer starts: at eye height, in front of everything.
pub const START: Pose = Pose { position: [0.0, 1.6, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };

/// The world and what draws it.
pub struct WorldSource {
    world: World,
    renderer: Renderer,
    drawn: Drawn,
}

impl WorldSource {
    /// The plaza, or `environment` in its place.
    pub(crate) fn open(
        environment: Option<Environment>,
        backend: Backend,
        clock: &dyn Fn() -> Time,
    ) -> Result<Self, SceneError> {
        let decor = environment.is_none();
        let place = || environment.unwrap_or_else(crate::plaza::build::plaza);
        let (renderer, environment) = Renderer::open(backend, place, clock)?;
        let setting = Setting { solids: environment.solids, lighting: environment.lighting, decor };
        Ok(Self { world: World::new(setting), renderer, drawn: Drawn::default() })
    }

    /// The plaza on an adapter of `backend`.
    pub fn plaza(backend: Backend, clock: &dyn Fn() -> Time) -> Result<Self, SceneError> {
        Self::open(None, backend, clock)
    }

    /// What the newest picture took.
    pub fn drawn(&self) -> Drawn {
        self.drawn
    }
}

impl Source for WorldSource {
    fn describe(&self) -> String {
        self.renderer.summary().to_string()
    }

    fn on_input(&mut self, now: Time, viewer: Viewer, presence: &Presence, events: &[InputEvent]) {
        self.world.on_input(now, viewer, presence, events);
    }

    fn on_viewer_left(&mut self, viewer: Viewer) {
        self.world.on_viewer_left(viewer);
    }

    fn advance(&mut self, now: Time) {
        self.world.advance(now);
    }

    fn render(&mut self, request: &RenderRequest<'_>, take: &mut dyn FnMut(Pixels<'_>)) -> Result<(), SceneError> {
        let show = self.world.show(request.viewer);
        self.drawn = self.renderer.draw(request, &show, take)?;
        Ok(())
    }
}
