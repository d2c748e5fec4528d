// The picture in the encoders' format: 4:2:0, BT.709 matrix, limited range (ITU-R BT.709-6 section 3). A texel has four values of a row.

@group(0) @binding(0) var linear: sampler;
@group(0) @binding(1) var picture: texture_2d<f32>;

// One triangle that covers the target.
@vertex
fn whole(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    return vec4(select(-1.0, 3.0, index == 1u), select(-1.0, 3.0, index == 2u), 0.0, 1.0);
}

const LUMA: vec3<f32> = vec3(0.2126, 0.7152, 0.0722);

// Four colours by their parts.
struct Four {
    red: vec4<f32>,
    green: vec4<f32>,
    blue: vec4<f32>,
}

fn four(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) -> Four {
    return Four(vec4(a.r, b.r, c.r, d.r), vec4(a.g, b.g, c.g, d.g), vec4(a.b, b.b, c.b, d.b));
}

fn grey(colours: Four) -> vec4<f32> {
    return LUMA.r * colours.red + LUMA.g * colours.green + LUMA.b * colours.blue;
}

@fragment
fn luma(@builtin(position) at: vec4<f32>) -> @location(0) vec4<f32> {
    let first = vec2(i32(at.x) * 4, i32(at.y));
    let colours = four(
        textureLoad(picture, first, 0),
        textureLoad(picture, first + vec2(1, 0), 0),
        textureLoad(picture, first + vec2(2, 0), 0),
        textureLoad(picture, first + vec2(3, 0), 0),
    );
    return (16.0 + 219.0 * grey(colours)) / 255.0;
}

struct Differences {
    @location(0) blue: vec4<f32>,
    @location(1) red: vec4<f32>,
}

@fragment
fn chroma(@builtin(position) at: vec4<f32>) -> Differences {
    // Between four pixels the sampler answers their mean.
    let pixel = 1.0 / vec2<f32>(textureDimensions(picture));
    let first = vec2(at.x * 8.0 - 3.0, at.y * 2.0) * pixel;
    let next = vec2(2.0 * pixel.x, 0.0);
    let colours = four(
        textureSampleLevel(picture, linear, first, 0.0),
        textureSampleLevel(picture, linear, first + next, 0.0),
        textureSampleLevel(picture, linear, first + 2.0 * next, 0.0),
        textureSampleLevel(picture, linear, first + 3.0 * next, 0.0),
    );
    let grey = grey(colours);
    let blue = 128.0 + 224.0 / 1.8556 * (colours.blue - grey);
    let red = 128.0 + 224.0 / 1.5748 * (colours.red - grey);
    return Differences(blue / 255.0, red / 255.0);
}
