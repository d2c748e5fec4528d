/* A program that draws by OpenGL and knows nothing of streaming. It has a red, a green, a blue and a white quarter, from the upper left in
 * reading order. Space changes the window's size, Escape ends it with 7, and it prints buttons and keys. It sets OpenGL state that reading
 * a picture back needs otherwise, and ends with 42 if a call leaves anything changed, or an error.
 *
 * With -DLINKED it is linked with libX11 and libGL; otherwise it asks the dynamic linker for each function. With the argument `egl` it uses
 * EGL and OpenGL ES. No headers of X11 and OpenGL are needed: what it uses is declared here. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long XID;
typedef struct { int type; unsigned long serial; int send_event; void *display; XID window, root, subwindow; unsigned long time;
                 int x, y, x_root, y_root; unsigned state, button; int same_screen; } PressEvent;
typedef union { int type; PressEvent press; long pad[24]; } XEvent;
typedef struct { void *visual; unsigned long id; int screen, depth, class_; unsigned long masks[3]; int colours, bits; } XVisualInfo;

static void *library(const char *name) {
  void *opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!opened) { fprintf(stderr, "%s\n", dlerror()); exit(3); }
  return opened;
}
static void *known(void *found, const char *name) {
  if (!found) { fprintf(stderr, "%s is missing\n", name); exit(3); }
  return found;
}

#ifdef LINKED
#define X_GET(name) name
#define GLX_GET(name) name
#else
#define X_GET(name) ((__typeof__(&name))known(dlsym(library("libX11.so.6"), #name), #name))
#define GLX_GET(name) ((__typeof__(&name))known(dlsym(library("libGL.so.1"), #name), #name))
#endif

void *XOpenDisplay(const char *);
XID XDefaultRootWindow(void *);
XID XCreateSimpleWindow(void *, XID, int, int, unsigned, unsigned, unsigned, unsigned long, unsigned long);
int XSelectInput(void *, XID, long);
int XMapWindow(void *, XID);
int XResizeWindow(void *, XID, unsigned, unsigned);
int XPending(void *);
int XNextEvent(void *, XEvent *);
XVisualInfo *glXChooseVisual(void *, int, int *);
void *glXCreateContext(void *, XVisualInfo *, void *, int);
int glXMakeCurrent(void *, XID, void *);
void glXSwapBuffers(void *, XID);
void *glXGetProcAddressARB(const unsigned char *);
void *eglGetDisplay(void *);
unsigned eglInitialize(void *, int *, int *);
unsigned eglChooseConfig(void *, const int *, void **, int, int *);
void *eglCreateWindowSurface(void *, void *, XID, const int *);
void *eglCreateContext(void *, void *, void *, const int *);
unsigned eglMakeCurrent(void *, void *, void *, void *);
unsigned eglSwapBuffers(void *, void *);
void *eglGetProcAddress(const char *);

typedef void Integer(unsigned, int *);
typedef void One(unsigned);
typedef void Two(unsigned, int);
typedef void Names(int, unsigned *);
typedef void Area(int, int, int, int);
typedef void Colour(float, float, float, float);
typedef unsigned Error(void);

enum { PACK_ALIGNMENT = 0x0D05, PACK_ROW_LENGTH = 0x0D02, PACK_SKIP_ROWS = 0x0D03, READ_BUFFER = 0x0C02, FRONT = 0x0404, BACK = 0x0405,
       PIXEL_PACK_BUFFER = 0x88EB, PIXEL_PACK_BUFFER_BINDING = 0x88ED, READ_FRAMEBUFFER = 0x8CA8, READ_FRAMEBUFFER_BINDING = 0x8CAA,
       SCISSOR_TEST = 0x0C11, COLOR_BUFFER_BIT = 0x4000 };

static int use_egl;
static void *(*get_glx)(const unsigned char *);
static void *(*get_egl)(const char *);
static void *gl(const char *name) {
  return known(use_egl ? get_egl(name) : get_glx((const unsigned char *)name), name);
}

int main(int count, char **words) {
  use_egl = count > 1 && !strcmp(words[1], "egl");
  unsigned width = 320, height = 240;
  void *display = X_GET(XOpenDisplay)(NULL);
  if (!display) return 3;
  XID root = X_GET(XDefaultRootWindow)(display);
  XID window = X_GET(XCreateSimpleWindow)(display, root, 40, 30, width, height, 0, 0, 0);
  X_GET(XSelectInput)(display, window, 1 | 4); /* KeyPress, ButtonPress */
  X_GET(XMapWindow)(display, window);
  void *egl_display = NULL, *surface = NULL;
  unsigned (*egl_swap)(void *, void *) = NULL;
  if (use_egl) {
    void *egl = library("libEGL.so.1");
#define EGL_GET(name) ((__typeof__(&name))known(dlsym(egl, #name), #name))
    get_egl = EGL_GET(eglGetProcAddress);
    egl_display = EGL_GET(eglGetDisplay)(display);
    EGL_GET(eglInitialize)(egl_display, NULL, NULL);
    int wanted[] = {0x3033, 4, 0x3040, 0x40, 0x3024, 8, 0x3038}, found = 0, version[] = {0x3098, 3, 0x3038};
    void *config = NULL;
    EGL_GET(eglChooseConfig)(egl_display, wanted, &config, 1, &found);
    surface = EGL_GET(eglCreateWindowSurface)(egl_display, config, window, NULL);
    void *context = EGL_GET(eglCreateContext)(egl_display, config, NULL, version);
    if (!EGL_GET(eglMakeCurrent)(egl_display, surface, surface, context)) return 3;
    egl_swap = (unsigned (*)(void *, void *))gl("eglSwapBuffers");
  } else {
    int wanted[] = {4, 5, 8, 8, 9, 8, 10, 8, 0}; /* RGBA, double buffer, eight bits each */
    get_glx = GLX_GET(glXGetProcAddressARB);
    XVisualInfo *visual = GLX_GET(glXChooseVisual)(display, 0, wanted);
    if (!visual) return 3;
    void *context = GLX_GET(glXCreateContext)(display, visual, NULL, 1);
    if (!GLX_GET(glXMakeCurrent)(display, window, context)) return 3;
  }
  Integer *get = gl("glGetIntegerv");
  Error *error = gl("glGetError");
  Area *scissor = gl("glScissor");
  Colour *colour = gl("glClearColor");
  One *clear = gl("glClear"), *enable = gl("glEnable"), *read_buffer = gl("glReadBuffer");
  Two *store = gl("glPixelStorei");
  void (*bind_buffer)(unsigned, unsigned) = gl("glBindBuffer"), (*bind_framebuffer)(unsigned, unsigned) = gl("glBindFramebuffer");
  unsigned buffer, framebuffer;
  ((Names *)gl("glGenBuffers"))(1, &buffer);
  ((Names *)gl("glGenFramebuffers"))(1, &framebuffer);
  int source = use_egl ? BACK : FRONT;
  read_buffer(source);
  bind_framebuffer(READ_FRAMEBUFFER, framebuffer);
  bind_buffer(PIXEL_PACK_BUFFER, buffer);
  store(PACK_ALIGNMENT, 8);
  store(PACK_ROW_LENGTH, 3333);
  store(PACK_SKIP_ROWS, 5);
  enable(SCISSOR_TEST);
  const float colours[4][3] = {{0, 0, 1}, {1, 1, 1}, {1, 0, 0}, {0, 1, 0}}; /* rows from the bottom */
  const struct timespec frame = {0, 16000000};
  for (;;) {
    for (int quarter = 0; quarter < 4; quarter++) {
      int right = quarter & 1, upper = quarter >> 1;
      scissor(right ? width / 2 : 0, upper ? height / 2 : 0, width / 2 + 1, height / 2 + 1);
      colour(colours[quarter][0], colours[quarter][1], colours[quarter][2], 1);
      clear(COLOR_BUFFER_BIT);
    }
    if (use_egl) egl_swap(egl_display, surface);
    else GLX_GET(glXSwapBuffers)(display, window);
    const int expected[6][2] = {{PACK_ALIGNMENT, 8}, {PACK_ROW_LENGTH, 3333}, {PACK_SKIP_ROWS, 5}, {PIXEL_PACK_BUFFER_BINDING, (int)buffer},
                                {READ_FRAMEBUFFER_BINDING, (int)framebuffer}, {READ_BUFFER, source}};
    for (int number = 0; number < 6; number++) {
      int value = -1;
      if (number == 5) bind_framebuffer(READ_FRAMEBUFFER, 0);
      get(expected[number][0], &value);
      if (value != expected[number][1]) {
        printf("state %#x is %d and not %d\n", expected[number][0], value, expected[number][1]);
        return 42;
      }
    }
    bind_framebuffer(READ_FRAMEBUFFER, framebuffer);
    unsigned code = error();
    if (code) { printf("error %#x\n", code); return 42; }
    while (X_GET(XPending)(display)) {
      XEvent event;
      X_GET(XNextEvent)(display, &event);
      if (event.type == 4) printf("button %u at %d %d\n", event.press.button, event.press.x, event.press.y);
      if (event.type == 2) {
        printf("key %u\n", event.press.button);
        if (event.press.button == 65) X_GET(XResizeWindow)(display, window, width = 480, height = 200);
        if (event.press.button == 9) return 7;
      }
      fflush(stdout);
    }
    nanosleep(&frame, NULL);
  }
}
