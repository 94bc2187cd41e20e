#include "gateway/net/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace gateway::net {
namespace {

void Say(const char* text, size_t size) {
  (void)!write(STDERR_FILENO, text, size);
}
template <size_t kSize>
void Say(const char (&text)[kSize]) {
  Say(text, kSize - 1);
}

const char* ReadHex(const char* at, uintptr_t* out) {
  *out = 0;
  for (;; ++at) {
    const char c = *at;
    if (c >= '0' && c <= '9') {
      *out = *out * 16 + static_cast<uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      *out = *out * 16 + static_cast<uintptr_t>(c - 'a' + 10);
    } else {
      return at;
    }
  }
}

// "BEGIN-END RIGHTS OFFSET DEVICE INODE   PATH": says the path if the address is between the two.
bool SayIfWithin(const char* line, uintptr_t address) {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  const char* at = ReadHex(line, &begin);
  if (*at != '-') return false;
  ReadHex(at + 1, &end);
  if (address < begin || address >= end) return false;
  const char* const path = std::strchr(line, '/');
  if (path == nullptr) return false;
  Say(path, std::strlen(path));
  return true;
}

// Only what may be called in a signal's handler.
bool SayFileOf(uintptr_t address) {
  static char text[8192];
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  size_t filled = 0;
  bool said = false;
  while (!said) {
    const ssize_t n = read(maps, text + filled, sizeof text - 1 - filled);
    if (n <= 0) break;
    filled += static_cast<size_t>(n);
    text[filled] = '\0';
    char* line = text;
    while (char* const line_end = std::strchr(line, '\n')) {
      *line_end = '\0';
      if (SayIfWithin(line, address)) {
        said = true;
        break;
      }
      line = line_end + 1;
    }
    filled = static_cast<size_t>(text + filled - line);
    std::memmove(text, line, filled);
  }
  close(maps);
  return said;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  Say("tidegate: ");
  if (!SayFileOf(reinterpret_cast<uintptr_t>(info->si_addr))) Say("a mapped file");
  Say(" cannot be read or written any more: the disk failed, or the file was cut or made immutable while it "
      "was "
      "in use. The gateway ends; the next start recovers its records. Check the disk and the "
      "file.\n");
  // The access is tried again when this returns, and ends the process as without the message.
  ::signal(signal, SIG_DFL);
}

}  // namespace

void ExplainBusErrors() {
  struct sigaction action{};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace gateway::net
