/* A program that draws by OpenGL without a window, and submits each picture by another call. It shows the next one when a viewer requests it, and
 * prints errors to standard output. */

#define _GNU_SOURCE
#define GL_GLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <nearlight.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 320, HEIGHT = 192, WAYS = 7, AR24 = 0x34325241 };

static int failures;

static void expect(const char *what, nl_status status, nl_status wanted) {
    if (status != wanted) {
        printf("FAULT %s: status %d, not %d (%s)\n", what, (int)status, (int)wanted, nl_error_message());
        failures++;
    }
}

static void expect_that(const char *what, int is_so) {
    if (!is_so) {
        printf("FAULT %s\n", what);
        failures++;
    }
}

static int make_context(void) {
    static const EGLint attributes[] = {EGL_CONTEXT_MAJOR_VERSION, 3, EGL_CONTEXT_MINOR_VERSION, 3, EGL_NONE};
    static const EGLint wanted[] = {EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_SURFACE_TYPE, 0, EGL_NONE};
    EGLDisplay display = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, NULL);
    EGLConfig config;
    EGLint count = 0;
    EGLContext context;
    if (!eglInitialize(display, NULL, NULL) || !eglBindAPI(EGL_OPENGL_API) ||
        !eglChooseConfig(display, wanted, &config, 1, &count) || count < 1) {
        return 0;
    }
    context = eglCreateContext(display, config, EGL_NO_CONTEXT, attributes);
    return eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context);
}

/* The last pass of a program whose picture has one colour, drawn as planes. */
static GLuint make_last_pass(void) {
    static const char vertices[] = "#version 330\n"
                                   "void main() {\n"
                                   "    gl_Position = vec4(gl_VertexID == 1 ? 3 : -1, gl_VertexID == 2 ? 3 : -1, 0, 1);\n"
                                   "}\n";
    static const char picture[] = "uniform ivec2 size;\n"
                                  "out vec4 plane;\n"
                                  "vec3 nearlight_pixel(ivec2 place) { return vec3(1, 0, 1); }\n"
                                  "void main() { plane = vec4(nearlight_plane(ivec2(gl_FragCoord.xy), size), 0, 0, 1); }\n";
    const char *fragments[] = {"#version 330\n", nl_planes_shader(), picture};
    const char *vertex = vertices;
    GLuint program = glCreateProgram(), shaders[] = {glCreateShader(GL_VERTEX_SHADER), glCreateShader(GL_FRAGMENT_SHADER)};
    GLint linked = 0;
    unsigned shader;
    glShaderSource(shaders[0], 1, &vertex, NULL);
    glShaderSource(shaders[1], 3, fragments, NULL);
    for (shader = 0; shader < 2; shader++) {
        glCompileShader(shaders[shader]);
        glAttachShader(program, shaders[shader]);
    }
    glLinkProgram(program);
    glGetProgramiv(program, GL_LINK_STATUS, &linked);
    expect_that("a last pass", linked);
    glUseProgram(program);
    glUniform2i(glGetUniformLocation(program, "size"), WIDTH, HEIGHT);
    glUseProgram(0);
    return program;
}

/* Draws the planes and reads them into lent ones. */
static void draw_planes(GLuint program, GLuint framebuffer, nl_lent *lent) {
    const GLint columns = WIDTH / 2, rows = HEIGHT / 2;
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glViewport(0, 0, WIDTH, HEIGHT + rows);
    glUseProgram(program);
    glDrawArrays(GL_TRIANGLES, 0, 3);
    glUseProgram(0);
    glPixelStorei(GL_PACK_ALIGNMENT, 1);
    glReadPixels(0, 0, WIDTH, HEIGHT, GL_RED, GL_UNSIGNED_BYTE, lent->planes[0]);
    glReadPixels(0, HEIGHT, columns, rows, GL_RED, GL_UNSIGNED_BYTE, lent->planes[1]);
    glReadPixels(columns, HEIGHT, columns, rows, GL_RED, GL_UNSIGNED_BYTE, lent->planes[2]);
}

/* Clears the frame buffer and thereby its texture. */
static void draw(float red, float green, float blue) {
    glClearColor(red, green, blue, 1);
    glClear(GL_COLOR_BUFFER_BIT);
}

static void misuse(nl_host *host, nl_gl *gl, const nl_picture *picture) {
    nl_gl *other = gl;
    nl_vulkan *vulkan = (nl_vulkan *)gl;
    nl_dmabuf nothing = {0};
    nl_session_statistics session = {0};
    expect("a reader that is none", nl_gl_submit_texture((nl_gl *)(uintptr_t)12345, 1, picture), NL_STATUS_CLOSED);
    expect("no reader", nl_gl_finish(NULL), NL_STATUS_ARGUMENT);
    expect("no texture", nl_gl_submit_texture(gl, 0, picture), NL_STATUS_ARGUMENT);
    expect("no pixel buffer", nl_gl_submit_buffer(gl, 0, picture), NL_STATUS_ARGUMENT);
    expect("no picture", nl_gl_submit_framebuffer(gl, 0, NULL), NL_STATUS_ARGUMENT);
    expect("no host", nl_gl_open(NULL, NULL, NULL, NULL, &other), NL_STATUS_ARGUMENT);
    expect_that("a reader of no host", other == NULL);
    expect("no Vulkan", nl_vulkan_open(host, NULL, &vulkan), NL_STATUS_ARGUMENT);
    expect_that("a reader of no Vulkan", vulkan == NULL);
    expect("an image of no Vulkan", nl_vulkan_submit(NULL, NULL, picture), NL_STATUS_ARGUMENT);
    expect("nothing to finish", nl_vulkan_finish(NULL), NL_STATUS_ARGUMENT);
    expect("nothing to close", nl_vulkan_close(NULL), NL_STATUS_ARGUMENT);
    expect("no buffer", nl_submit_dmabuf(host, NULL, picture), NL_STATUS_ARGUMENT);
    nothing.size = sizeof nothing;
    nothing.descriptor = -1;
    nothing.fourcc = AR24;
    expect_that("a buffer that is none", nl_submit_dmabuf(host, &nothing, picture) > NL_STATUS_NOTHING);
    session.size = sizeof session;
    expect("statistics of nobody", nl_viewer_statistics(host, 4711, &session), NL_STATUS_NO_VIEWER);
    expect("the usual cursor", nl_set_pointer(host, 0, NULL, 0), NL_STATUS_OK);
    expect("a cursor", nl_set_pointer(host, 0, "grab", 1), NL_STATUS_OK);
    expect_that("a version", strncmp(nl_version(), "0.", 2) == 0);
}

int main(void) {
    nl_host *host = NULL;
    nl_gl *gl = NULL, *late = NULL;
    nl_options options = {0};
    nl_gl_options at_once = {0};
    nl_picture picture = {0};
    nl_dmabuf shared = {0};
    nl_session_statistics session = {0};
    nl_lent lent = {0};
    GLuint texture, framebuffer, buffer, planes, planes_target, vertices, last_pass;
    size_t bytes = (size_t)WIDTH * HEIGHT * 4;
    uint32_t *memory;
    uint64_t before;
    unsigned way = 0, moment;

    options.size = sizeof options;
    options.address = "127.0.0.1";
    options.width = WIDTH;
    options.height = HEIGHT;
    options.fps = 30;
    if (!make_context()) {
        printf("FAULT no context\n");
        return 1;
    }
    expect("open", nl_open(&options, &host), NL_STATUS_OK);
    at_once.size = sizeof at_once;
    at_once.at_once = 1;
    expect("a reader", nl_gl_open(host, NULL, NULL, &at_once, &gl), NL_STATUS_OK);
    expect("another reader", nl_gl_open(host, NULL, NULL, NULL, &late), NL_STATUS_OK);

    glGenTextures(1, &texture);
    glBindTexture(GL_TEXTURE_2D, texture);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, WIDTH, HEIGHT, 0, GL_RGBA, GL_UNSIGNED_BYTE, NULL);
    glGenFramebuffers(1, &framebuffer);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture, 0);
    last_pass = make_last_pass();
    glGenVertexArrays(1, &vertices);
    glBindVertexArray(vertices);
    glGenTextures(1, &planes);
    glBindTexture(GL_TEXTURE_2D, planes);
    glTexImage2D(GL_TEXTURE_2D, 0, GL_R8, WIDTH, HEIGHT * 3 / 2, 0, GL_RED, GL_UNSIGNED_BYTE, NULL);
    glGenFramebuffers(1, &planes_target);
    glBindFramebuffer(GL_FRAMEBUFFER, planes_target);
    glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, planes, 0);
    glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
    glGenBuffers(1, &buffer);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, buffer);
    glBufferData(GL_PIXEL_PACK_BUFFER, (GLsizeiptr)bytes, NULL, GL_STREAM_READ);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
    shared.size = sizeof shared;
    shared.descriptor = memfd_create("picture", 0);
    shared.fourcc = AR24;
    shared.strides[0] = WIDTH * 4;
    expect_that("shared memory", ftruncate(shared.descriptor, (off_t)bytes) == 0);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.descriptor, 0);

    picture.size = sizeof picture;
    picture.width = WIDTH;
    picture.height = HEIGHT;
    picture.flags = NL_PICTURE_FLAGS_BOTTOM_UP;
    misuse(host, gl, &picture);
    before = nl_now(host);
    expect_that("nobody watches yet", !nl_is_watched(host));
    printf("LINK %s\n", nl_link(host, 0));
    fflush(stdout);

    /* A minute is enough on a busy machine. */
    for (moment = 0; moment < 1800 && way < WAYS; moment++) {
        struct timespec pause = {0, 33000000};
        nl_event event = {0};
        event.size = sizeof event;
        while (nl_poll_event(host, &event, 0) == NL_STATUS_OK) {
            way += event.kind == NL_EVENT_KIND_MESSAGE;
            if (event.kind == NL_EVENT_KIND_MESSAGE) {
                session.size = sizeof session;
                expect("statistics", nl_viewer_statistics(host, event.viewer, &session), NL_STATUS_OK);
                expect_that("somebody watches", nl_is_watched(host));
            }
        }
        picture.format = NL_PIXEL_FORMAT_RGBA;
        switch (way) {
        case 0: /* Red. */
            draw(1, 0, 0);
            expect("a texture", nl_gl_submit_texture(gl, texture, &picture), NL_STATUS_OK);
            break;
        case 1: /* Green. */
            draw(0, 1, 0);
            expect("a frame buffer", nl_gl_submit_framebuffer(gl, framebuffer, &picture), NL_STATUS_OK);
            break;
        case 2: /* Blue. */
            draw(0, 0, 1);
            glBindBuffer(GL_PIXEL_PACK_BUFFER, buffer);
            glReadPixels(0, 0, WIDTH, HEIGHT, GL_BGRA, GL_UNSIGNED_BYTE, NULL);
            glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
            picture.format = NL_PIXEL_FORMAT_BGRA;
            expect("a pixel buffer", nl_gl_submit_buffer(gl, buffer, &picture), NL_STATUS_OK);
            break;
        case 3: /* Yellow, in shared memory. */
            for (size_t place = 0; place < bytes / 4; place++) {
                memory[place] = 0xffffff00;
            }
            expect("shared memory", nl_submit_dmabuf(host, &shared, &picture), NL_STATUS_OK);
            break;
        case 4: /* White, delivered with the next picture. */
            draw(1, 1, 1);
            expect("a late texture", nl_gl_submit_texture(late, texture, &picture), NL_STATUS_OK);
            break;
        case 5: /* Black, delivered before the next picture. */
            draw(0, 0, 0);
            expect("a late frame buffer", nl_gl_submit_framebuffer(late, framebuffer, &picture), NL_STATUS_OK);
            expect("the rest", nl_gl_finish(late), NL_STATUS_OK);
            break;
        case 6: /* Magenta, drawn as planes. */
            lent.size = sizeof lent;
            expect("planes", nl_lend(host, WIDTH, HEIGHT, &lent), NL_STATUS_OK);
            draw_planes(last_pass, planes_target, &lent);
            expect("drawn planes", nl_submit_lent(host, &lent, NULL), NL_STATUS_OK);
            break;
        default: break;
        }
        expect_that("no error of OpenGL", glGetError() == GL_NO_ERROR);
        nanosleep(&pause, NULL);
    }
    expect_that("all pictures were seen", way == WAYS);
    expect_that("time passes", nl_now(host) > before);
    expect("close a reader", nl_gl_close(gl), NL_STATUS_OK);
    expect("close it twice", nl_gl_close(gl), NL_STATUS_CLOSED);
    expect("close", nl_close(host), NL_STATUS_OK);
    expect("a picture after the end", nl_gl_submit_texture(late, texture, &picture), NL_STATUS_CLOSED);
    expect("close a reader after the end", nl_gl_close(late), NL_STATUS_OK);
    expect_that("no time without a server", nl_now(host) == 0);
    return failures != 0;
}
