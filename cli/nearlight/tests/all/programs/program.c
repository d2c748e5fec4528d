/* A program that knows nothing of streaming, for the tests of served programs. It uses SDL 2, whose library it asks the dynamic linker for;
 * no headers beyond C's are needed. The first argument says what it is:
 *
 * relative  captures the pointer, and prints the sum of all movement whenever a key is released
 * stripes   draws by OpenGL as fast as it can, each picture of one grey in horizontal bands drawn one after the other
 * blink     changes its grey ten times a second
 * dialog    opens a message box over its window, and prints how it was closed and the keys that its window gets afterwards
 * grab      grabs the X server, for itself alone, and changes its grey ten times a second
 * kill      ends all other connections to the X server, then opens a window and prints its size
 * gamepad   prints what gamepads do, in SDL's numbers and names of their parts, and lets one vibrate when its button A is pressed */
#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginnings of SDL_Event's members that are used (SDL 2's application binary interface, which does not change). */
typedef union {
  unsigned type;
  struct { unsigned type, time, window; unsigned char state, repeat, unused[2]; int scancode; } key;
  struct { unsigned type, time, window, which, state; int x, y, right, down; } motion;
  struct { unsigned type, time; int which; unsigned char part, state; short unused, value; } pad;
  char room[128];
} Event;
enum { QUIT = 0x100, KEY_DOWN = 0x300, KEY_UP = 0x301, MOTION = 0x400, PAD_AXIS = 0x650, PAD_DOWN = 0x651, PAD_UP = 0x652, PAD_ADDED = 0x653 };

static void *library;
static void *known(const char *name) {
  void *found = dlsym(library, name);
  if (!found) { fprintf(stderr, "SDL 2 lacks %s\n", name); exit(3); }
  return found;
}
#define SDL(result, name, ...) ((result (*)(__VA_ARGS__))known("SDL_" #name))

static void relative(void) {
  Event event;
  long right = 0, down = 0, moves = 0;
  if (SDL(int, SetRelativeMouseMode, int)(1)) { fprintf(stderr, "no relative mode\n"); exit(3); }
  printf("captured\n");
  while (SDL(int, WaitEvent, Event *)(&event)) {
    if (event.type == MOTION) { right += event.motion.right; down += event.motion.down; moves++; }
    if (event.type == KEY_UP) printf("moved %ld %ld in %ld moves\n", right, down, moves);
    if (event.type == QUIT) return;
  }
}

static void stripes(void *window) {
  void *(*find)(const char *) = SDL(void *, GL_GetProcAddress, const char *);
  Event event;
  int width = 0, height = 0;
  if (!SDL(void *, GL_CreateContext, void *)(window)) { fprintf(stderr, "no OpenGL\n"); exit(3); }
  SDL(int, GL_SetSwapInterval, int)(0);
  void (*enable)(unsigned) = find("glEnable");
  void (*scissor)(int, int, int, int) = find("glScissor");
  void (*colour)(float, float, float, float) = find("glClearColor");
  void (*clear)(unsigned) = find("glClear");
  enable(0x0c11 /* GL_SCISSOR_TEST */);
  for (unsigned frame = 0;; frame++) {
    while (SDL(int, PollEvent, Event *)(&event)) if (event.type == QUIT) return;
    SDL(void, GL_GetDrawableSize, void *, int *, int *)(window, &width, &height);
    /* Neighbours differ by much. */
    float grey = (float)(frame * 37 % 256) / 255;
    colour(grey, grey, grey, 1);
    for (int band = 0; band < 8; band++) {
      scissor(0, height * band / 8, width, height / 8 + 1);
      clear(0x4000 /* GL_COLOR_BUFFER_BIT */);
    }
    SDL(void, GL_SwapWindow, void *)(window);
  }
}

static void blink(void *window) {
  Event event;
  for (unsigned grey = 0;; grey = (grey + 16) % 256) {
    /* A window that has changed its size has another surface. */
    void *surface = SDL(void *, GetWindowSurface, void *)(window);
    SDL(int, FillRect, void *, const void *, unsigned)(surface, NULL, grey * 0x010101);
    SDL(int, UpdateWindowSurface, void *)(window);
    while (SDL(int, PollEvent, Event *)(&event)) if (event.type == QUIT) return;
    SDL(void, Delay, unsigned)(100);
  }
}

static void dialog(void *window) {
  Event event;
  while (SDL(int, WaitEventTimeout, Event *, int)(&event, 300)) {}
  int failed = SDL(int, ShowSimpleMessageBox, unsigned, const char *, const char *, void *)(0x40, "Question", "Well?", window);
  printf(failed ? "no dialog\n" : "closed\n");
  while (SDL(int, WaitEvent, Event *)(&event)) {
    if (event.type == KEY_DOWN) printf("key %d\n", event.key.scancode);
    if (event.type == QUIT) return;
  }
}

/* Files among the input devices whose names begin as a device's do. */
static int devices(void) {
  DIR *folder = opendir("/dev/input");
  int count = 0;
  for (struct dirent *file; folder && (file = readdir(folder));) count += !strncmp(file->d_name, "event", 5);
  if (folder) closedir(folder);
  return count;
}

static void gamepad(void) {
  Event event;
  if (SDL(int, InitSubSystem, unsigned)(0x2000 /* game controllers */)) { fprintf(stderr, "no game controllers\n"); exit(3); }
  printf("%d at the start\n", SDL(int, NumJoysticks, void)());
  while (SDL(int, WaitEvent, Event *)(&event)) {
    int which = event.pad.which;
    if (event.type == PAD_ADDED) {
      void *pad = SDL(void *, GameControllerOpen, int)(which);
      which = pad ? SDL(int, JoystickInstanceID, void *)(SDL(void *, GameControllerGetJoystick, void *)(pad)) : -1;
      printf("%d: found %s among %d devices\n", which, pad ? SDL(const char *, GameControllerName, void *)(pad) : "nothing", devices());
    }
    if (event.type == PAD_AXIS) printf("%d: %s %d\n", which, SDL(const char *, GameControllerGetStringForAxis, int)(event.pad.part), event.pad.value);
    if (event.type == PAD_DOWN || event.type == PAD_UP)
      printf("%d: %s %s\n", which, SDL(const char *, GameControllerGetStringForButton, int)(event.pad.part), event.type == PAD_DOWN ? "down" : "up");
    if (event.type == PAD_DOWN && event.pad.part == 0 /* A */) {
      void *pad = SDL(void *, GameControllerFromInstanceID, int)(which);
      printf("%d: vibrates: %d\n", which, SDL(int, GameControllerRumble, void *, unsigned short, unsigned short, unsigned)(pad, 0x8000, 0x4000, 400));
    }
    if (event.type == QUIT) return;
  }
}

/* Xlib's functions and structures that are used; its interface does not change either. */
static void *xlib;
#define X(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(xlib, "X" #name))
typedef union {
  int type;
  struct { int type; unsigned long serial; int sent; void *display; unsigned long event, window; int x, y, width, height; } configure;
  long room[24];
} XEvent;
enum { CONFIGURE_NOTIFY = 22, STRUCTURE_NOTIFY_MASK = 1 << 17 };

static int ignore(void *display, void *error) { (void)display; (void)error; return 0; }

/* Ends all other clients' connections. */
static void kill_others(void *display, unsigned long window) {
  /* The numbers of a client's resources begin at a multiple of 2^21. */
  unsigned long own = window >> 21;
  for (unsigned long client = 1; client < 32; client++)
    for (unsigned long number = 0; client != own && number < 64; number++) X(int, KillClient, void *, unsigned long)(display, client << 21 | number);
  X(int, Sync, void *, int)(display, 0);
}

static void x_window(const char *what) {
  xlib = dlopen("libX11.so.6", RTLD_NOW);
  void *display = xlib ? X(void *, OpenDisplay, const char *)(NULL) : NULL;
  if (!display) { fprintf(stderr, "no display\n"); exit(3); }
  X(void *, SetErrorHandler, void *)(ignore);
  unsigned long root = X(unsigned long, DefaultRootWindow, void *)(display);
  unsigned long window = X(unsigned long, CreateSimpleWindow, void *, unsigned long, int, int, unsigned, unsigned, unsigned, unsigned long, unsigned long)(display, root, 0, 0, 100, 100, 0, 0, 0);
  if (!strcmp(what, "kill")) {
    kill_others(display, window);
    printf("killed\n");
  }
  X(int, SelectInput, void *, unsigned long, long)(display, window, STRUCTURE_NOTIFY_MASK);
  X(int, MapWindow, void *, unsigned long)(display, window);
  /* The window manager gives the window its size. */
  for (XEvent event = {0}; event.type != CONFIGURE_NOTIFY || event.configure.width == 100;) {
    X(int, NextEvent, void *, XEvent *)(display, &event);
    if (event.type == CONFIGURE_NOTIFY) printf("size %d %d\n", event.configure.width, event.configure.height);
  }
  if (strstr(what, "grab")) {
    X(int, GrabServer, void *)(display);
    X(int, Sync, void *, int)(display, 0);
    printf("grabbed\n");
  }
  if (!strcmp(what, "grab-kill")) {
    /* The server's spare connections are used up after the first time, and new ones are not answered while the server is grabbed. */
    for (; access("stop", F_OK); poll(NULL, 0, 20)) kill_others(display, window);
    X(int, UngrabServer, void *)(display);
    X(int, Sync, void *, int)(display, 0);
  }
  while (!strcmp(what, "kill-loop") && access("stop", F_OK)) {
    kill_others(display, window);
    poll(NULL, 0, 5);
  }
  for (unsigned long grey = 0;; grey = (grey + 16) % 256) {
    X(int, SetWindowBackground, void *, unsigned long, unsigned long)(display, window, grey * 0x010101);
    X(int, ClearWindow, void *, unsigned long)(display, window);
    X(int, Sync, void *, int)(display, 0);
    poll(NULL, 0, 100);
  }
}

int main(int count, char **words) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count > 1 && (strstr(words[1], "grab") || strstr(words[1], "kill"))) x_window(words[1]);
  library = dlopen("libSDL2-2.0.so.0", RTLD_NOW);
  if (!library || count < 2) { fprintf(stderr, "SDL 2 is missing\n"); return 3; }
  if (SDL(int, Init, unsigned)(0x20 /* video */)) { fprintf(stderr, "%s\n", SDL(const char *, GetError, void)()); return 3; }
  unsigned kind = strcmp(words[1], "stripes") ? 0 : 2; /* SDL_WINDOW_OPENGL */
  void *window = SDL(void *, CreateWindow, const char *, int, int, int, int, unsigned)(words[1], 0, 0, 320, 240, kind | 0x20 /* resizable */);
  if (!window) { fprintf(stderr, "%s\n", SDL(const char *, GetError, void)()); return 3; }
  if (!strcmp(words[1], "relative")) relative();
  else if (!strcmp(words[1], "gamepad")) gamepad();
  else if (!strcmp(words[1], "blink")) blink(window);
  else if (kind) stripes(window);
  else dialog(window);
  return 0;
}
