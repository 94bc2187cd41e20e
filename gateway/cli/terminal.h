// Terminal: standard input and output as a screen of our own with keys that come at once, for as long as it
// lives; then both are as they were, whichever way it ends.
//
// One at a time; main thread. Interrupts still come as signals (interruption.h): whoever waits here sees
// them.
#pragma once

#include <termios.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace gateway::cli {

enum class Key : uint8_t { kNone, kQuit, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd, kGone };

// The first key of what a terminal sent, and how many bytes it took; kNone for what means nothing here.
struct KeyRead {
  Key key = Key::kNone;
  size_t bytes = 0;
};
KeyRead ReadKey(std::string_view sent);

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Both ends are one.
  static bool IsThere();

  struct Size {
    size_t columns = 80;
    size_t rows = 24;
  };
  Size size() const;

  // Up to `patience`, or until a key or a signal comes. kGone: nobody is there any more.
  Key Wait(conf::Duration patience);
  void Write(std::string_view text);

 private:
  termios before_{};
  struct sigaction before_resize_{};
  std::string sent_{};  // not looked at yet
};

}  // namespace gateway::cli
