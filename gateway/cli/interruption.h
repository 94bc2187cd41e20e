// Ctrl-C while a command works: noted, so that the command can stop between two steps and leave nothing half
// done. A second one ends the process at once.
#pragma once

#include <csignal>

namespace gateway::cli {

// During its lifetime, SIGINT and SIGTERM are noted unless they are ignored. One at a time; main thread.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool seen() const;
  // Ends the process by the signal that was seen, so that a shell's loop around it stops, too.
  [[noreturn]] void Obey() const;

 private:
  struct sigaction before_int_{};
  struct sigaction before_term_{};
};

}  // namespace gateway::cli
