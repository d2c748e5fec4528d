vec3 nearlight_pixel(ivec2 place);

float nearlight_plane(ivec2 place, ivec2 size) {
    const vec3 luma = vec3(0.2126, 0.7152, 0.0722);
    float value;
    if (place.y < size.y) {
        value = 16.0 + 219.0 * dot(nearlight_pixel(place), luma);
    } else {
        int columns = size.x / 2;
        bool red = place.x >= columns;
        ivec2 first = 2 * ivec2(red ? place.x - columns : place.x, place.y - size.y);
        vec3 colour = nearlight_pixel(first) + nearlight_pixel(first + ivec2(1, 0))
            + nearlight_pixel(first + ivec2(0, 1)) + nearlight_pixel(first + ivec2(1, 1));
        colour *= 0.25;
        float grey = dot(colour, luma);
        value = 128.0 + 224.0 * (red ? (colour.r - grey) / 1.5748 : (colour.b - grey) / 1.8556);
    }
    return value / 255.0;
}
