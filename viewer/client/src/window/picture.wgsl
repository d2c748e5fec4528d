// A decoded picture on the screen: 4:2:0 planes in BT.709 limited range to RGB. The viewport keeps the picture's shape.

@group(0) @binding(0) var smooth_pixels: sampler;
@group(0) @binding(1) var luma: texture_2d<f32>;
@group(0) @binding(2) var blue: texture_2d<f32>;
@group(0) @binding(3) var red: texture_2d<f32>;

struct Corner {
    @builtin(position) place: vec4f,
    @location(0) at: vec2f,
}

// One triangle that covers the viewport.
@vertex
fn cover(@builtin(vertex_index) index: u32) -> Corner {
    let at = vec2f(f32((index << 1u) & 2u), f32(index & 2u));
    var corner: Corner;
    corner.place = vec4f(at * vec2f(2.0, -2.0) + vec2f(-1.0, 1.0), 0.0, 1.0);
    corner.at = at;
    return corner;
}

// ITU-R BT.709-6, items 3 and 4: digital levels of 8 bits, and the inverse of the luma equation.
@fragment
fn colour(corner: Corner) -> @location(0) vec4f {
    let y = (textureSample(luma, smooth_pixels, corner.at).r * 255.0 - 16.0) / 219.0;
    let cb = (textureSample(blue, smooth_pixels, corner.at).r * 255.0 - 128.0) / 224.0;
    let cr = (textureSample(red, smooth_pixels, corner.at).r * 255.0 - 128.0) / 224.0;
    return vec4f(y + 1.5748 * cr, y - 0.1873 * cb - 0.4681 * cr, y + 1.8556 * cb, 1.0);
}
