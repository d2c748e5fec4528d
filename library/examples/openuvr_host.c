/* The host of OpenUVR's figure 9(a), extended to a program that draws by SDL2 and OpenGL, in a window and for every viewer.
 *
 *   cc openuvr_host.c $(pkg-config --cflags --libs nearlight sdl2 gl) -o openuvr_host && ./openuvr_host [SECONDS]
 *
 * A square follows the mouse of the window or of a viewer, W A S D of either move the horizon, and its colour changes with the button. What
 * the paper's listing has is marked; it sets 1920x1080, here the window's size is set by two more features. */

#define GL_GLEXT_PROTOTYPES
#include <SDL2/SDL.h>
#include <SDL2/SDL_opengl.h>
#include <fcntl.h>
#include <linux/input.h>
#include <nearlight.h>
#include <openuvr.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WIDTH = 1280, HEIGHT = 720 };

struct world {
    float x, y, horizon;
    int pressed, left, right, up, down;
};

static float within(float value, float most) {
    return value < 0 ? 0 : value > most ? most : value;
}

static void on_key(struct world *world, int code, int pressed) {
    switch (code) {
    case KEY_A: world->left = pressed; break;
    case KEY_D: world->right = pressed; break;
    case KEY_W: world->up = pressed; break;
    case KEY_S: world->down = pressed; break;
    default: break;
    }
}

/* The viewers' input arrives like that of an input device of this machine. */
static void read_devices(struct world *world, int descriptor) {
    struct input_event event;
    while (read(descriptor, &event, sizeof event) == (ssize_t)sizeof event) {
        if (event.type == EV_REL && event.code == REL_X) {
            world->x = within(world->x + (float)event.value, WIDTH);
        } else if (event.type == EV_REL && event.code == REL_Y) {
            world->y = within(world->y + (float)event.value, HEIGHT);
        } else if (event.type == EV_KEY && event.code == BTN_LEFT) {
            world->pressed = event.value;
        } else if (event.type == EV_KEY && event.value != 2) {
            on_key(world, event.code, event.value);
        }
    }
}

static void fill(int left, int bottom, int width, int height, float red, float green, float blue) {
    glScissor(left, bottom, width, height);
    glClearColor(red, green, blue, 1);
    glClear(GL_COLOR_BUFFER_BIT);
}

static void draw(const struct world *world, unsigned moment) {
    int horizon = (int)(HEIGHT * world->horizon), stripe;
    glViewport(0, 0, WIDTH, HEIGHT);
    glEnable(GL_SCISSOR_TEST);
    fill(0, 0, WIDTH, HEIGHT, 0.35f, 0.6f, 0.9f);
    fill(0, 0, WIDTH, horizon, 0.25f, 0.45f, 0.2f);
    for (stripe = 0; stripe < 8; stripe++) {
        int left = (int)((moment * 3 + (unsigned)stripe * WIDTH / 8) % WIDTH);
        fill(left, horizon - 60, 24, 120, 0.9f, 0.8f, (float)stripe / 8);
    }
    fill((int)world->x - 40, HEIGHT - (int)world->y - 40, 80, 80, 1, world->pressed ? 0.1f : 0.9f, 0.1f);
    glDisable(GL_SCISSOR_TEST);
}

int main(int count, char **arguments) {
    long seconds = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
    struct world world = {WIDTH / 2.0f, HEIGHT / 2.0f, 0.4f, 0, 0, 0, 0, 0};
    struct openuvr_context *ouvr_ctx;
    SDL_Window *window;
    SDL_GLContext context;
    GLuint pbo;
    unsigned moment;
    int devices[2], ended = 0, failed = 0;
    Uint32 began;

    if (SDL_Init(SDL_INIT_VIDEO) != 0) {
        fprintf(stderr, "SDL: %s\n", SDL_GetError());
        return 1;
    }
    window = SDL_CreateWindow("OpenUVR host", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED, WIDTH, HEIGHT, SDL_WINDOW_OPENGL);
    context = window == NULL ? NULL : SDL_GL_CreateContext(window);
    if (context == NULL) {
        fprintf(stderr, "SDL: %s\n", SDL_GetError());
        return 1;
    }
    SDL_GL_SetSwapInterval(0);

    /* The paper's listing. */
    glGenBuffers(1, &pbo);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, pbo);
    glBufferData(GL_PIXEL_PACK_BUFFER, WIDTH * HEIGHT * 4, 0, GL_DYNAMIC_COPY);
    glReadPixels(0, 0, WIDTH, HEIGHT, GL_RGB, GL_UNSIGNED_BYTE, 0);
    ouvr_ctx = openuvr_alloc_context(OPENUVR_ENCODER_H264_CUDA, OPENUVR_NETWORK_UDP, &pbo);
    if (ouvr_ctx == NULL) {
        fprintf(stderr, "couldn't allocate openuvr context: %s\n", nl_error_message());
        exit(1);
    }
    openuvr_set_feature(ouvr_ctx, TARGET_FPS, 60);
    openuvr_set_feature(ouvr_ctx, OPENUVR_WIDTH, WIDTH);
    openuvr_set_feature(ouvr_ctx, OPENUVR_HEIGHT, HEIGHT);
    /* The listing opens /dev/input/mice for reading; here the viewers' input must be written to a pipe. */
    if (pipe(devices) != 0 || fcntl(devices[0], F_SETFL, O_NONBLOCK) != 0) {
        perror("pipe");
        exit(1);
    }
    if (openuvr_map_device(ouvr_ctx, SYS_MOUSE, devices[1]) != 0 || openuvr_map_device(ouvr_ctx, SYS_KEYBOARD, devices[1]) != 0) {
        fprintf(stderr, "couldn't map devices: %s\n", nl_error_message());
    }
    openuvr_init_thread(ouvr_ctx);
    if (openuvr_link(ouvr_ctx) == NULL) {
        return 1;
    }
    printf("%s\n", openuvr_link(ouvr_ctx));
    fflush(stdout);

    began = SDL_GetTicks();
    for (moment = 0; !ended; moment++) {
        SDL_Event event;
        while (SDL_PollEvent(&event)) {
            if (event.type == SDL_QUIT) {
                ended = 1;
            } else if (event.type == SDL_MOUSEMOTION) {
                world.x = (float)event.motion.x;
                world.y = (float)event.motion.y;
            } else if (event.type == SDL_MOUSEBUTTONDOWN || event.type == SDL_MOUSEBUTTONUP) {
                world.pressed = event.type == SDL_MOUSEBUTTONDOWN;
            } else if (event.type == SDL_KEYDOWN || event.type == SDL_KEYUP) {
                int pressed = event.type == SDL_KEYDOWN;
                switch (event.key.keysym.scancode) {
                case SDL_SCANCODE_A: on_key(&world, KEY_A, pressed); break;
                case SDL_SCANCODE_D: on_key(&world, KEY_D, pressed); break;
                case SDL_SCANCODE_W: on_key(&world, KEY_W, pressed); break;
                case SDL_SCANCODE_S: on_key(&world, KEY_S, pressed); break;
                case SDL_SCANCODE_ESCAPE: ended = 1; break;
                default: break;
                }
            }
        }
        read_devices(&world, devices[0]);
        world.x = within(world.x + 6.0f * (float)(world.right - world.left), WIDTH);
        world.horizon = within(world.horizon + 0.01f * (float)(world.up - world.down), 1);
        draw(&world, moment);
        glBindBuffer(GL_PIXEL_PACK_BUFFER, pbo);
        glPixelStorei(GL_PACK_ALIGNMENT, 1);
        glReadPixels(0, 0, WIDTH, HEIGHT, GL_RGB, GL_UNSIGNED_BYTE, 0);
        glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
        if (openuvr_send_frame(ouvr_ctx) < 0) {
            fprintf(stderr, "couldn't send a frame: %s\n", nl_error_message());
            ended = failed = 1;
        }
        SDL_GL_SwapWindow(window);
        SDL_Delay(10);
        ended |= seconds > 0 && SDL_GetTicks() - began > (Uint32)seconds * 1000;
    }
    openuvr_free_context(ouvr_ctx);
    SDL_GL_DeleteContext(context);
    SDL_DestroyWindow(window);
    SDL_Quit();
    return failed;
}
