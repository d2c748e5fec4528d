// The same five calls in C++: a server that closes itself, and events in a thread of the library.
//
//   c++ -std=c++17 five_calls.cpp $(pkg-config --cflags --libs nearlight) -o five_calls && ./five_calls
//
// Open the link that it prints. Keys change the colour; Escape or Ctrl-C ends the program.

#include <nearlight.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t escape = 0x70029;
volatile std::sig_atomic_t signalled = 0;

struct Closer {
    void operator()(nl_host *host) const { nl_close(host); }
};

void check(nl_status status) {
    if (status != NL_STATUS_OK) {
        throw std::runtime_error(nl_error_message());
    }
}

struct Wishes {
    std::atomic<unsigned> colour{1};
    std::atomic<bool> ended{false};

    // Called in a thread of the library.
    static void on_event(void *wishes, const nl_event *event) {
        auto &self = *static_cast<Wishes *>(wishes);
        if (event->kind == NL_EVENT_KIND_KEY && event->pressed) {
            self.colour++;
            self.ended = event->code == escape;
        }
    }
};

void run() {
    constexpr std::uint16_t width = 640, height = 360;
    constexpr auto interval = std::chrono::microseconds(1000000 / 60);
    nl_options options{};
    options.size = sizeof options;
    options.width = width;
    options.height = height;
    Wishes wishes; // Outlives the server, whose thread it is passed to.
    nl_host *opened = nullptr;
    check(nl_open(&options, &opened));
    std::unique_ptr<nl_host, Closer> host(opened);
    check(nl_set_callback(host.get(), Wishes::on_event, &wishes));
    std::printf("%s\n", nl_link(host.get(), 0));
    std::fflush(stdout);

    std::vector<std::uint8_t> pixels(std::size_t{4} * width * height);
    for (unsigned moment = 0; !wishes.ended && !signalled; moment++) {
        for (std::size_t index = 0; index < pixels.size(); index++) {
            const bool lit = wishes.colour >> index % 4 & 1;
            pixels[index] = lit ? static_cast<std::uint8_t>(index / 4 % width + moment) : 0;
        }
        nl_picture picture{};
        picture.size = sizeof picture;
        picture.format = NL_PIXEL_FORMAT_RGBA;
        picture.width = width;
        picture.height = height;
        picture.planes[0].bytes = pixels.data();
        check(nl_submit(host.get(), &picture));
        std::this_thread::sleep_for(interval);
    }
}

} // namespace

int main() {
    std::signal(SIGINT, [](int) { signalled = 1; });
    std::signal(SIGTERM, [](int) { signalled = 1; });
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
