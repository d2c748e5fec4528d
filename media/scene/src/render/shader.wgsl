// All colours are display values (gamma-coded): a texture times a light's display value is the display value of their product,
// so the light is computed per vertex and a pixel costs one texture read, one multiplication and one addition.

struct Eye {
    clip: mat4x4<f32>,
    position: vec4<f32>,
    right: vec4<f32>,
    up: vec4<f32>,
    sun: vec4<f32>,
    sun_light: vec4<f32>,
    sky_light: vec4<f32>,
    ground_light: vec4<f32>,
    // Colour, and density per metre.
    fog: vec4<f32>,
}

const LIGHT_RANGE: f32 = 1.6;

@group(0) @binding(0) var<uniform> eye: Eye;
@group(1) @binding(0) var smooth_sampler: sampler;
@group(1) @binding(1) var picture: texture_2d<f32>;
@group(1) @binding(2) var layers: texture_2d_array<f32>;

struct Vertex {
    @location(0) position: vec3<f32>,
    @location(1) normal: vec4<f32>,
    @location(2) uv: vec2<f32>,
    @location(3) colour: vec4<f32>,
}

struct Instance {
    @location(4) first: vec4<f32>,
    @location(5) second: vec4<f32>,
    @location(6) third: vec4<f32>,
    @location(7) colour: vec4<f32>,
    // Layer, metal, sunlight, ripple.
    @location(8) look: vec4<f32>,
}

// Fragment stages declare only what they read: each interpolated number costs time.
struct Still {
    @builtin(position) clip: vec4<f32>,
    @location(0) uv: vec2<f32>,
    @location(1) air: f32,
    @location(2) times: vec3<f32>,
    @location(3) @interpolate(flat) layer: i32,
}

struct Moving {
    @builtin(position) clip: vec4<f32>,
    @location(0) uv: vec2<f32>,
    @location(1) times: vec3<f32>,
    @location(2) plus: vec3<f32>,
    @location(3) @interpolate(flat) layer: i32,
}

fn air(place: vec3<f32>, share: f32) -> f32 {
    return share * (1.0 - exp(-eye.fog.w * distance(place, eye.position.xyz)));
}

@vertex
fn still(vertex: Vertex) -> Still {
    var out: Still;
    out.clip = eye.clip * vec4(vertex.position, 1.0);
    out.uv = vertex.uv;
    out.times = vertex.colour.rgb * LIGHT_RANGE;
    out.air = air(vertex.position, vertex.colour.a);
    out.layer = i32(vertex.normal.w * 127.0 + 0.5);
    return out;
}

fn display(light: vec3<f32>) -> vec3<f32> {
    let compressed = light * (1.0 + light * 0.12) / (1.0 + light * 0.55);
    return pow(max(compressed, vec3(0.0)), vec3(1.0 / 2.2));
}

// What a mirror shows: the evening sky in a few lines.
fn reflected(ray: vec3<f32>, sunlight: f32) -> vec3<f32> {
    let towards = dot(normalize(ray.xz + vec2(1e-4, 0.0)), normalize(eye.sun.xz)) * 0.5 + 0.5;
    let horizon = mix(vec3(0.62, 0.48, 0.56), vec3(1.06, 0.74, 0.46), towards * towards);
    let above = mix(horizon, vec3(0.22, 0.28, 0.50), smoothstep(0.0, 0.75, ray.y));
    let below = mix(horizon * 0.62, vec3(0.24, 0.19, 0.18), smoothstep(0.0, 0.5, -ray.y));
    let glint = pow(max(dot(ray, eye.sun.xyz), 0.0), 26.0) * (0.25 + 0.75 * sunlight);
    return select(below, above, ray.y > 0.0) + vec3(1.0, 0.82, 0.55) * glint;
}

@vertex
fn moving(vertex: Vertex, instance: Instance) -> Moving {
    let x = instance.first.xyz;
    let y = vec3(instance.first.w, instance.second.xy);
    let z = vec3(instance.second.zw, instance.third.x);
    let place = x * vertex.position.x + y * vertex.position.y + z * vertex.position.z + instance.third.yzw;
    let own = vertex.normal.xyz;
    var normal = normalize(x * (own.x / dot(x, x)) + y * (own.y / dot(y, y)) + z * (own.z / dot(z, z)));
    let view = normalize(eye.position.xyz - place);
    let metal = instance.look.y;
    let sunlight = instance.look.z;
    let ripple = instance.look.w;
    var mirror = metal;
    if ripple > 0.0 {
        let wave = sin(place.xz * 5.3 + vec2(ripple * 2.0, ripple * 3.0)) + sin(place.zx * 8.1 - vec2(ripple * 4.0, ripple));
        normal = normalize(normal + vec3(wave.x, 0.0, wave.y) * 0.055);
        mirror = metal * mix(0.45, 1.0, pow(1.0 - max(dot(normal, view), 0.0), 3.0));
    }
    let facing = max(dot(normal, eye.sun.xyz), 0.0) * sunlight;
    let dome = mix(eye.ground_light.rgb, eye.sky_light.rgb, normal.y * 0.5 + 0.5);
    let halo = eye.sun_light.rgb * (0.10 * (dot(normal, eye.sun.xyz) * 0.5 + 0.5));
    let light = display(eye.sun_light.rgb * facing + dome + halo);
    let edge = pow(1.0 - abs(dot(normal, view)), 3.0);
    let colour = instance.colour.rgb;
    let glow = instance.colour.a;
    let air = air(place, 1.0);
    let shine = mix(colour, vec3(1.0), select(0.0, 0.8, metal < 0.2)) * reflected(reflect(-view, normal), sunlight) * mirror;
    var out: Moving;
    out.clip = eye.clip * vec4(place, 1.0);
    out.uv = vertex.uv;
    out.times = colour * (mix(light * (1.0 - mirror), vec3(1.25), clamp(glow, 0.0, 1.0)) * (1.0 - air));
    out.plus = (shine * (1.0 - glow * 0.7) + colour * (glow * (0.12 + 0.5 * edge)) + vec3(0.10, 0.11, 0.15) * edge) * (1.0 - air)
        + eye.fog.rgb * air;
    out.layer = i32(instance.look.x + 0.5);
    return out;
}

@fragment
fn moving_layers(in: Moving) -> @location(0) vec4<f32> {
    return vec4(textureSample(layers, smooth_sampler, in.uv, in.layer).rgb * in.times + in.plus, 1.0);
}

@fragment
fn still_layers(
    @location(0) uv: vec2<f32>,
    @location(1) air: f32,
    @location(2) times: vec3<f32>,
    @location(3) @interpolate(flat) layer: i32,
) -> @location(0) vec4<f32> {
    return vec4(mix(textureSample(layers, smooth_sampler, uv, layer).rgb * times, eye.fog.rgb, air), 1.0);
}

@fragment
fn still_picture(
    @location(0) uv: vec2<f32>,
    @location(1) air: f32,
    @location(2) times: vec3<f32>,
) -> @location(0) vec4<f32> {
    return vec4(mix(textureSample(picture, smooth_sampler, uv).rgb * times, eye.fog.rgb, air), 1.0);
}

@fragment
fn sky(@location(0) uv: vec2<f32>) -> @location(0) vec4<f32> {
    return textureSample(picture, smooth_sampler, uv);
}

// The flagstones repeat every four metres, their light does not: 44 metres lie under it.
@fragment
fn floor(@location(0) uv: vec2<f32>, @location(1) air: f32) -> @location(0) vec4<f32> {
    let light = textureSample(picture, smooth_sampler, uv).rgb * LIGHT_RANGE;
    let stone = textureSample(layers, smooth_sampler, uv * 11.0, 0).rgb;
    return vec4(mix(stone * light, eye.fog.rgb, air), 1.0);
}

struct Spot {
    @builtin(position) clip: vec4<f32>,
    @location(0) corner: vec2<f32>,
    @location(1) colour: vec4<f32>,
}

@vertex
fn sprite(
    @builtin(vertex_index) index: u32,
    @location(0) centre: vec4<f32>,
    @location(1) colour: vec4<f32>,
    @location(2) flat_share: f32,
) -> Spot {
    let corner = vec2(select(-1.0, 1.0, (index & 1u) == 1u), select(-1.0, 1.0, index > 1u));
    let right = mix(eye.right.xyz, vec3(1.0, 0.0, 0.0), flat_share);
    let up = mix(eye.up.xyz, vec3(0.0, 0.0, -1.0), flat_share);
    let place = centre.xyz + (right * corner.x + up * corner.y) * centre.w;
    var out: Spot;
    out.clip = eye.clip * vec4(place, 1.0);
    out.corner = corner;
    out.colour = colour * exp(-0.5 * eye.fog.w * distance(place, eye.position.xyz));
    return out;
}

@fragment
fn soft(in: Spot) -> @location(0) vec4<f32> {
    let inside = max(1.0 - dot(in.corner, in.corner), 0.0);
    return in.colour * (inside * inside);
}

struct Tag {
    @builtin(position) clip: vec4<f32>,
    @location(0) uv: vec2<f32>,
    @location(1) colour: vec3<f32>,
    @location(2) @interpolate(flat) layer: i32,
}

// A name: it stands on its place, faces the viewer upright, and is never smaller than a share of its distance.
@vertex
fn tag(
    @builtin(vertex_index) index: u32,
    // The place, and half of the height in metres.
    @location(0) place: vec4<f32>,
    // The colour, and the share of the layer's width.
    @location(1) colour: vec4<f32>,
    // Layer, width by height, smallest half of the height by the distance.
    @location(2) look: vec3<f32>,
) -> Tag {
    let corner = vec2(select(-1.0, 1.0, (index & 1u) == 1u), select(-1.0, 1.0, index > 1u));
    let away = place.xyz - eye.position.xyz;
    let across = vec3(-away.z, 0.0, away.x);
    // Nothing is upright for a viewer who looks straight up or down at it.
    let right = normalize(select(eye.right.xyz, across, length(across) > 0.05 * length(away)));
    let up = normalize(cross(right, away));
    let half = max(place.w, look.z * length(away));
    var out: Tag;
    out.clip = eye.clip * vec4(place.xyz + right * (corner.x * look.y * half) + up * ((corner.y + 1.0) * half), 1.0);
    out.uv = vec2((corner.x * 0.5 + 0.5) * colour.w, 0.5 - corner.y * 0.5);
    out.colour = colour.rgb;
    out.layer = i32(look.x + 0.5);
    return out;
}

// The colours of pages that draw names themselves.
@fragment
fn name(in: Tag) -> @location(0) vec4<f32> {
    let covered = textureSample(layers, smooth_sampler, in.uv, in.layer).rg;
    let pill = covered.r * 0.78 * (1.0 - covered.g);
    return vec4(vec3(0.035, 0.051, 0.086) * pill + in.colour * covered.g, pill + covered.g);
}
