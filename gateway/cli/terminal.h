// Terminal: turns standard input and output into a full screen with single keys, during its lifetime. Its end
// restores both, however the process ends.
//
// One at a time; main thread. Interrupts still arrive as signals (interruption.h), and a wait here returns on
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

// The first key in the bytes of a terminal, and the number of its bytes; kNone for keys without a meaning
// here.
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
  // The columns of standard output; 0 where it is no terminal, and lines may have any length.
  static size_t ColumnsOfOutput();

  struct Size {
    size_t columns = 80;
    size_t rows = 24;
  };
  Size size() const;

  // Waits up to `patience` for a key or a signal. kGone: the terminal is closed.
  Key Wait(conf::Duration patience);
  void Write(std::string_view text);

 private:
  termios before_{};
  struct sigaction before_resize_{};
  std::string sent_{};  // not looked at yet
};

}  // namespace gateway::cli
