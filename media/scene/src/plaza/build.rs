//! The plaza at dusk: a colonnade around a kinetic sculpture, trees, hills and the evening sky.

use std::f32::consts::{FRAC_PI_2, PI, TAU};

use glam::{Mat4, Quat, Vec2, Vec3};

use super::floor::{MIDDLE, REACH, bake};
use super::light::{FOG, LIGHT_RANGE, Lamp, Lighting, Occluder, display, smooth};
use super::mesh::{Layer, Mesh, Vertex};
use super::texture::{self, Image, lattice};
use super::{Environment, Surface};
use crate::solid::Solid;

/// The foot of the sculpture, in the middle of the colonnade.
pub const SCULPTURE: Vec3 = Vec3::new(0.0, 0.0, -9.0);
/// The middle of the sculpture's rings.
pub const RINGS: Vec3 = Vec3::new(0.0, 3.15, -9.0);
/// Position of the beam with the pendulums, and half of its length in metres.
pub const BEAM: Vec3 = Vec3::new(-4.6, 2.9, -5.4);
pub const BEAM_HALF: f32 = 1.55;
/// Rotation of the beam about the vertical, in radians.
pub const BEAM_TURN: f32 = 0.55;

const COLUMNS: u32 = 13;
const COLONNADE_RADIUS: f32 = 9.0;
const COLUMN_HEIGHT: f32 = 4.7;
const MARBLE: Vec3 = Vec3::new(1.0, 0.95, 0.88);
const BRONZE: Vec3 = Vec3::new(0.42, 0.27, 0.16);

/// Returns the positions of the lanterns between the columns.
pub fn lantern_places() -> Vec<Vec3> {
    (0..COLUMNS - 1).map(|index| ring_point(index as f32 + 0.5, COLONNADE_RADIUS) + Vec3::Y * 3.25).collect()
}

/// Returns a point of the colonnade's arc. Columns stand at integer positions.
fn ring_point(position: f32, radius: f32) -> Vec3 {
    let angle = arc_angle(position);
    SCULPTURE + Vec3::new(angle.cos() * radius, 0.0, -angle.sin() * radius)
}

/// Returns the angle of a position on the arc, which runs from the right around the back to the left.
fn arc_angle(position: f32) -> f32 {
    -0.42 + (PI + 0.84) * position / (COLUMNS - 1) as f32
}

/// Builds the complete plaza.
pub fn plaza() -> Environment {
    let mut place = Environment { lighting: lighting(), ..Environment::default() };
    place.floor_light = Some(bake(&place.lighting, &contacts()));
    place.solids = solids();
    floor(&mut place);
    // Parts are added from the middle outwards, so that near parts hide distant ones.
    furniture(&mut place);
    fountain(&mut place);
    colonnade(&mut place);
    greenery(&mut place);
    backdrop(&mut place);
    place
}

/// Returns sky, hills and the bare floor, for a scene from a file.
pub fn surroundings() -> Environment {
    let mut place = Environment::default();
    place.floor_light = Some(bake(&place.lighting, &[]));
    place.solids.push(Solid::GROUND);
    floor(&mut place);
    backdrop(&mut place);
    place
}

fn lighting() -> Lighting {
    let mut occluders: Vec<Occluder> = (0..COLUMNS)
        .map(|index| {
            let foot = ring_point(index as f32, COLONNADE_RADIUS);
            Occluder { from: foot, to: foot + Vec3::Y * (COLUMN_HEIGHT + 0.2), radius: 0.36 }
        })
        .collect();
    let arc: Vec<Vec3> = (0..=(COLUMNS - 1) * 2)
        .map(|step| ring_point(step as f32 / 2.0, COLONNADE_RADIUS) + Vec3::Y * (COLUMN_HEIGHT + 0.45))
        .collect();
    occluders.extend(arc.windows(2).map(|ends| Occluder { from: ends[0], to: ends[1], radius: 0.4 }));
    occluders.push(Occluder { from: SCULPTURE, to: SCULPTURE + Vec3::Y * 1.2, radius: 0.75 });
    let turn = Quat::from_rotation_y(BEAM_TURN);
    let (left, right) = (BEAM - turn * Vec3::X * BEAM_HALF, BEAM + turn * Vec3::X * BEAM_HALF);
    for (from, to) in [(left, right), (left.with_y(0.0), left), (right.with_y(0.0), right)] {
        occluders.push(Occluder { from, to, radius: 0.09 });
    }
    for (foot, height) in trees() {
        occluders.push(Occluder {
            from: foot + Vec3::Y * (height * 0.3),
            to: foot + Vec3::Y * (height * 0.85),
            radius: height * 0.13,
        });
    }
    let lamps = lantern_places()
        .into_iter()
        .map(|position| Lamp { position, light: Vec3::new(3.4, 1.55, 0.45) })
        .chain([Lamp { position: RINGS, light: Vec3::new(3.2, 2.0, 0.95) }])
        .collect();
    Lighting { occluders, lamps }
}

fn contacts() -> Vec<(Vec2, f32)> {
    let flat = |point: Vec3| Vec2::new(point.x, point.z);
    let mut contacts: Vec<(Vec2, f32)> =
        (0..COLUMNS).map(|index| (flat(ring_point(index as f32, COLONNADE_RADIUS)), 0.5)).collect();
    contacts.push((flat(SCULPTURE), 2.5));
    contacts.extend(plinths().iter().map(|(centre, half)| (flat(*centre), half.x.max(half.z))));
    contacts
}

/// Returns the solids that bodies bounce off.
pub fn solids() -> Vec<Solid> {
    let mut solids = vec![Solid::GROUND];
    for index in 0..COLUMNS {
        solids.push(Solid::column(ring_point(index as f32, COLONNADE_RADIUS), 0.42, COLUMN_HEIGHT));
    }
    solids.push(Solid::column(SCULPTURE, 2.45, 0.55));
    solids.push(Solid::column(SCULPTURE, 0.75, 1.25));
    solids.extend(plinths().map(|(centre, half)| Solid::block(centre, half)));
    // Hedges close the plaza.
    for (x, z, half) in [(-REACH, MIDDLE, Vec3::new(0.6, 3.0, REACH)), (REACH, MIDDLE, Vec3::new(0.6, 3.0, REACH))] {
        solids.push(Solid::block(Vec3::new(x, 0.0, z), half));
    }
    for z in [MIDDLE - REACH, MIDDLE + REACH] {
        solids.push(Solid::block(Vec3::new(0.0, 0.0, z), Vec3::new(REACH, 3.0, 0.6)));
    }
    solids
}

/// Returns the centres and half sizes of the stone blocks that carry objects.
pub fn plinths() -> [(Vec3, Vec3); 4] {
    let half = Vec3::new(0.26, 0.46, 0.26);
    [
        (Vec3::new(-1.75, 0.46, -3.3), half),
        (Vec3::new(1.55, 0.46, -2.9), half),
        (Vec3::new(5.6, 0.24, -6.6), Vec3::new(1.1, 0.24, 0.3)),
        (Vec3::new(-6.6, 0.24, -2.2), Vec3::new(0.3, 0.24, 1.1)),
    ]
}

fn floor(place: &mut Environment) {
    // With nine cells, no line between cells passes below the place where users start. SwiftShader draws triangles wrongly that have a
    // vertex exactly in the camera's plane.
    const CELLS: u32 = 9;
    let mut mesh = Mesh::default();
    for row in 0..=CELLS {
        for column in 0..=CELLS {
            let share = Vec2::new(column as f32, row as f32) / CELLS as f32;
            let flat = (share * 2.0 - Vec2::ONE) * REACH;
            mesh.vertices.push(Vertex {
                position: Vec3::new(flat.x, 0.0, flat.y + MIDDLE),
                normal: Vec3::Y,
                uv: share,
                colour: Vec3::splat(1.0 / LIGHT_RANGE),
                fog: 1.0,
                layer: Layer::White,
            });
        }
    }
    for row in 0..CELLS {
        for column in 0..CELLS {
            let corner = row * (CELLS + 1) + column;
            let below = corner + CELLS + 1;
            mesh.indices.extend([corner, below, corner + 1, corner + 1, below, below + 1]);
        }
    }
    place.add(Surface::Floor, &mesh);
}

fn column() -> Mesh {
    let shaft = [(0.34, 0.34), (0.325, 2.2), (0.285, 4.15)];
    let base = [(0.46, 0.0), (0.46, 0.14), (0.43, 0.22), (0.34, 0.34)];
    let capital = [(0.285, 4.15), (0.33, 4.2), (0.31, 4.27), (0.47, 4.48)];
    let profile = |points: &[(f32, f32)]| points.iter().map(|(x, y)| Vec2::new(*x, *y)).collect::<Vec<_>>();
    let mut mesh = Mesh::lathe(&profile(&shaft), 10, Vec2::new(1.0, 0.4)).coloured(MARBLE, Layer::Marble);
    mesh.append(&Mesh::lathe(&profile(&base), 10, Vec2::new(3.0, 1.0)).coloured(MARBLE, Layer::Stone));
    mesh.append(&Mesh::lathe(&profile(&capital), 10, Vec2::new(3.0, 1.0)).coloured(MARBLE, Layer::Stone));
    mesh.append(&Mesh::cuboid(Vec3::new(0.5, 0.11, 0.5), Some(0.5)).at(0.0, 4.59, 0.0).coloured(MARBLE, Layer::Stone));
    mesh
}

fn colonnade(place: &mut Environment) {
    let column = column();
    for index in 0..COLUMNS {
        let foot = ring_point(index as f32, COLONNADE_RADIUS);
        let turn = Mat4::from_rotation_translation(Quat::from_rotation_y(arc_angle(index as f32)), foot);
        place.add_lit(Surface::Array, column.clone().moved(turn));
    }
    // The beam on top is a closed profile that is swept along the arc, in one chunk per bay.
    let profile = [
        (-0.42, 0.0),
        (0.42, 0.0),
        (0.42, 0.26),
        (0.47, 0.30),
        (0.47, 0.50),
        (0.62, 0.60),
        (0.62, 0.70),
        (-0.62, 0.70),
        (-0.62, 0.60),
        (-0.47, 0.50),
        (-0.47, 0.30),
        (-0.42, 0.26),
        (-0.42, 0.0),
    ];
    for bay in 0..COLUMNS - 1 {
        place.add_lit(Surface::Array, beam(&profile, bay));
        place.add_lit(Surface::Array, arch(bay));
    }
}

fn beam(profile: &[(f32, f32)], bay: u32) -> Mesh {
    const STEPS: u32 = 4;
    let mut mesh = Mesh::default();
    for line in profile.windows(2) {
        let (from, to) = (Vec2::from(line[0]), Vec2::from(line[1]));
        let step = to - from;
        let first = mesh.vertices.len() as u32;
        for slice in 0..=STEPS {
            let angle = arc_angle(bay as f32 + slice as f32 / STEPS as f32);
            let outward = Vec3::new(angle.cos(), 0.0, -angle.sin());
            for (point, along) in [(from, 0.0), (to, step.length())] {
                mesh.vertices.push(Vertex {
                    position: SCULPTURE + outward * (COLONNADE_RADIUS + point.x) + Vec3::Y * (COLUMN_HEIGHT + point.y),
                    normal: (outward * step.y - Vec3::Y * step.x).normalize_or(Vec3::Y),
                    uv: Vec2::new(slice as f32 / STEPS as f32 * 2.0, along),
                    colour: MARBLE,
                    fog: 1.0,
                    layer: Layer::Masonry,
                });
            }
        }
        for slice in 0..STEPS {
            let corner = first + slice * 2;
            mesh.indices.extend([corner, corner + 2, corner + 1, corner + 2, corner + 3, corner + 1]);
        }
    }
    mesh
}

/// Returns a slim bronze arch under the beam of one bay.
fn arch(bay: u32) -> Mesh {
    const STEPS: u32 = 7;
    let mut mesh = Mesh::default();
    let ring = |share: f32, height: f32| {
        let position = bay as f32 + 0.12 + 0.76 * share;
        let rise = (share * PI).sin().powf(0.7);
        ring_point(position, COLONNADE_RADIUS) + Vec3::Y * (COLUMN_HEIGHT - 0.95 + 0.9 * rise + height)
    };
    for step in 0..STEPS {
        let (here, next) = (step as f32 / STEPS as f32, (step + 1) as f32 / STEPS as f32);
        let (a, b) = ((ring(here, 0.0) + ring(here, 0.07)) / 2.0, (ring(next, 0.0) + ring(next, 0.07)) / 2.0);
        let out = (a - SCULPTURE).with_y(0.0).normalize() * 0.08;
        let along = (b - a) / 2.0;
        let middle = (a + b) / 2.0;
        let up = along.cross(out).normalize() * 0.035;
        mesh.quad(middle - up, along, -out, Vec2::ONE);
        mesh.quad(middle - out, along, up, Vec2::ONE);
        mesh.quad(middle + out, -along, up, Vec2::ONE);
    }
    mesh.coloured(BRONZE, Layer::White)
}

fn fountain(place: &mut Environment) {
    let rim = [(2.45, 0.0), (2.45, 0.42), (2.50, 0.45), (2.50, 0.55), (2.12, 0.55), (2.12, 0.30)].map(Vec2::from);
    let step = [(2.95, 0.0), (2.95, 0.14), (2.3, 0.14)].map(Vec2::from);
    let foot =
        [(0.85, 0.2), (0.80, 0.55), (0.55, 0.66), (0.42, 0.9), (0.46, 1.05), (0.72, 1.12), (0.72, 1.24), (0.0, 1.28)]
            .map(Vec2::from);
    for (profile, layer) in [(&rim[..], Layer::Stone), (&step[..], Layer::Stone), (&foot[..], Layer::Marble)] {
        let mesh = Mesh::lathe(profile, 30, Vec2::new(10.0, 0.8)).coloured(MARBLE, layer);
        place.add_lit(Surface::Array, mesh.moved(Mat4::from_translation(SCULPTURE)));
    }
}

fn furniture(place: &mut Environment) {
    for (centre, half) in plinths() {
        let colour = Vec3::new(0.92, 0.88, 0.84);
        let tall = half.y > half.x;
        let mut mesh = Mesh::cuboid(half - Vec3::new(0.03, 0.0, 0.03), Some(0.6));
        mesh.append(&Mesh::cuboid(Vec3::new(half.x, 0.04, half.z), Some(0.6)).at(0.0, half.y - 0.04, 0.0));
        if tall {
            mesh.append(&Mesh::cuboid(Vec3::new(half.x, 0.06, half.z), Some(0.6)).at(0.0, 0.06 - half.y, 0.0));
        }
        place.add_lit(Surface::Array, mesh.coloured(colour, Layer::Stone).moved(Mat4::from_translation(centre)));
    }
    let turn = Quat::from_rotation_y(BEAM_TURN);
    let mut frame = Mesh::cuboid(Vec3::new(BEAM_HALF + 0.12, 0.07, 0.09), None);
    for side in [-1.0, 1.0] {
        let post = Mesh::cuboid(Vec3::new(0.07, BEAM.y / 2.0, 0.09), None);
        frame.append(&post.at(side * BEAM_HALF, -BEAM.y / 2.0, 0.0));
        let foot = Mesh::cuboid(Vec3::new(0.14, 0.05, 0.55), None);
        frame.append(&foot.at(side * BEAM_HALF, 0.05 - BEAM.y, 0.0));
    }
    let frame = frame.coloured(BRONZE, Layer::White).moved(Mat4::from_rotation_translation(turn, BEAM));
    place.add_lit(Surface::Array, frame);
}

/// Returns the feet and heights of the cypresses behind the colonnade.
fn trees() -> Vec<(Vec3, f32)> {
    (0..9)
        .map(|index| {
            let position = index as f32 * 1.5 + (lattice(index, 0, 3) - 0.5) * 0.9;
            let radius = 12.6 + 2.0 * lattice(index, 1, 3);
            (ring_point(position, radius), 6.4 + 3.2 * lattice(index, 2, 3))
        })
        .collect()
}

fn greenery(place: &mut Environment) {
    for (index, (foot, height)) in trees().into_iter().enumerate() {
        let mut crown = Mesh::lathe(
            &[(0.05, 0.12), (0.10, 0.2), (0.13, 0.38), (0.125, 0.55), (0.09, 0.76), (0.045, 0.92), (0.0, 1.0)]
                .map(|(radius, y)| Vec2::new(radius, y) * height),
            11,
            Vec2::new(3.0, 0.45),
        );
        for vertex in &mut crown.vertices {
            let cell = (vertex.position * 2.5).floor().as_ivec3();
            let bump = lattice(cell.x, cell.y, cell.z + index as i32 * 31) - 0.5;
            vertex.position += vertex.normal * bump * 0.22;
        }
        let green = Vec3::new(0.42, 0.56, 0.34).lerp(Vec3::new(0.56, 0.60, 0.30), lattice(index as i32, 5, 3));
        let mut mesh = crown.coloured(green, Layer::Leaves);
        let trunk = [(0.16, 0.0), (0.11, height * 0.2)].map(Vec2::from);
        mesh.append(&Mesh::lathe(&trunk, 8, Vec2::ONE).coloured(Vec3::new(0.35, 0.25, 0.19), Layer::White));
        place.add_lit(Surface::Array, mesh.moved(Mat4::from_translation(foot)));
    }
    let hedge = |half: Vec3| Mesh::cuboid(half, Some(0.5)).coloured(Vec3::new(0.44, 0.56, 0.34), Layer::Leaves);
    for (x, z, half) in [
        (-REACH, MIDDLE, Vec3::new(0.6, 0.8, REACH)),
        (REACH, MIDDLE, Vec3::new(0.6, 0.8, REACH)),
        (0.0, MIDDLE - REACH, Vec3::new(REACH, 0.8, 0.6)),
        (0.0, MIDDLE + REACH, Vec3::new(REACH, 0.8, 0.6)),
    ] {
        place.add_lit(Surface::Array, hedge(half).at(x, half.y, z));
    }
}

/// Adds lawn, hills and sky.
fn backdrop(place: &mut Environment) {
    // The lawn begins within the floor's square, which hides its inner edge, and ends outside the dome, so that there is no gap.
    let profile = [(21.0, -0.12), (60.0, -0.3), (150.0, -1.0), (410.0, -26.0)].map(Vec2::from);
    let mut lawn = Mesh::lathe(&profile, 30, Vec2::new(60.0, 0.25));
    for vertex in &mut lawn.vertices {
        vertex.normal = Vec3::Y;
    }
    // The outside of the lathe faces down here.
    for triangle in lawn.indices.chunks_exact_mut(3) {
        triangle.swap(1, 2);
    }
    place.add_lit(Surface::Backdrop, lawn.coloured(Vec3::new(0.50, 0.56, 0.34), Layer::Leaves));
    for (distance, height, seed, near) in [(120.0, 7.0, 2, 1.0), (150.0, 13.0, 1, 0.0)] {
        place.add(Surface::Backdrop, &hills(distance, height, seed, near));
    }
    place.add(Surface::Sky, &dome());
}

fn hills(distance: f32, height: f32, seed: i32, near: f32) -> Mesh {
    const STEPS: u32 = 72;
    let mut mesh = Mesh::default();
    let dusk = Vec3::new(0.56, 0.44, 0.55).lerp(Vec3::new(0.36, 0.33, 0.42), near);
    for step in 0..=STEPS {
        let angle = step as f32 / STEPS as f32 * TAU;
        let wave = |frequency: f32, shift: f32| (angle * frequency + shift * seed as f32).sin();
        let rise =
            0.5 + 0.26 * wave(3.0, 1.7) + 0.16 * wave(7.0, 2.9) + 0.10 * wave(17.0, 0.6) + 0.05 * wave(41.0, 3.3);
        let outward = Vec3::new(angle.cos(), 0.0, angle.sin());
        let sunward = smooth(outward.dot(super::light::sun().with_y(0.0).normalize()));
        let colour = dusk.lerp(FOG, 0.25 + 0.3 * sunward);
        for (y, tone) in [(-4.0, FOG.lerp(colour, 0.25)), (height * rise.max(0.05), colour)] {
            mesh.vertices.push(Vertex {
                position: outward * distance + Vec3::Y * y,
                normal: -outward,
                uv: Vec2::ZERO,
                colour: tone / LIGHT_RANGE,
                fog: 0.0,
                layer: Layer::White,
            });
        }
    }
    for step in 0..STEPS {
        let corner = step * 2;
        mesh.indices.extend([corner, corner + 2, corner + 1, corner + 2, corner + 3, corner + 1]);
    }
    mesh
}

fn dome() -> Mesh {
    const AROUND: u32 = 28;
    const UP: u32 = 6;
    let mut mesh = Mesh::default();
    for ring in 0..=UP {
        // Elevations run from a little below the horizon to straight up, and are closer together near the horizon.
        let share = ring as f32 / UP as f32;
        let elevation = -0.06 + (FRAC_PI_2 + 0.06) * share * share.sqrt();
        let (height, level) = elevation.sin_cos();
        for around in 0..=AROUND {
            let turn = around as f32 / AROUND as f32;
            let (sin, cos) = (turn * TAU).sin_cos();
            mesh.vertices.push(Vertex {
                position: Vec3::new(cos * level, height, sin * level) * 400.0,
                normal: Vec3::Y,
                uv: Vec2::new(turn, (0.9 * (1.0 - height.signum() * height.abs().sqrt())).min(0.998)),
                colour: Vec3::splat(1.0 / LIGHT_RANGE),
                fog: 0.0,
                layer: Layer::White,
            });
        }
    }
    for ring in 0..UP {
        for around in 0..AROUND {
            let corner = ring * (AROUND + 1) + around;
            let above = corner + AROUND + 1;
            mesh.indices.extend([corner, corner + 1, above, above, corner + 1, above + 1]);
        }
    }
    mesh
}

/// Returns the display value of a surface in the light of sky and sun without shadows, for scenes from files.
pub fn open_light(normal: Vec3) -> Vec3 {
    display(Lighting::default().at(Vec3::Y, normal, 1.0))
}

/// Returns the layers of the shared texture array.
pub fn layers(size: u32) -> Vec<Image> {
    [Layer::White, Layer::Stone, Layer::Marble, Layer::Crate, Layer::Leaves, Layer::Ball, Layer::Masonry, Layer::Paper]
        .map(|layer| texture::layer(layer, size))
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::START;

    #[test]
    fn no_vertex_of_the_floor_is_in_the_plane_of_a_camera_at_the_start() {
        let mut place = Environment::default();
        floor(&mut place);
        let [x, _, z] = START.position;
        assert!(!place.mesh.vertices.is_empty());
        for vertex in &place.mesh.vertices {
            let (right, ahead) = ((vertex.position.x - x).abs(), (vertex.position.z - z).abs());
            assert!(right > 0.5 && ahead > 0.5, "{:?}", vertex.position);
        }
    }
}
