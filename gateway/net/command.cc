#include "gateway/net/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>

#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/net/child_process.h"

namespace gateway::net {
namespace {

// A memory file of a fixed size that takes the command's output: writes beyond it fail, so a program that
// never stops writing costs no more.
absl::StatusOr<Fd> OutputFile() {
  Fd file(memfd_create("command", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), kMaxCommandOutput) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)
    return absl::UnavailableError(
        fmt::format("memory for output: {}", std::generic_category().message(errno)));
  return file;
}

std::string Printed(int fd) {
  const off_t size = lseek(fd, 0, SEEK_CUR);
  std::string text(size > 0 ? static_cast<size_t>(size) : 0, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

// Tools print in the language of their environment; this asks for English.
std::vector<std::string> Environment(std::string_view search_path) {
  std::vector<std::string> env{fmt::format("PATH={}", search_path), "LC_ALL=C"};
  for (const char* name : {"HOME", "LD_LIBRARY_PATH"}) {
    if (const char* value = std::getenv(name)) env.push_back(fmt::format("{}={}", name, value));
  }
  return env;
}

}  // namespace

absl::StatusOr<CommandOutput> RunCommand(const std::vector<std::string>& words, conf::Duration patience) {
  if (words.empty()) return absl::InvalidArgumentError("no command");
  const char* const path = std::getenv("PATH");
  const std::string_view search_path = path ? path : "/usr/local/bin:/usr/bin:/bin";
  absl::StatusOr<std::string> program = FindProgram(words.front(), search_path, {});
  if (!program.ok()) return absl::NotFoundError(program.status().message());
  absl::StatusOr<Fd> output = OutputFile();
  if (!output.ok()) return output.status();
  absl::StatusOr<std::unique_ptr<HeldChild>> held = HeldChild::Make(
      {.program = *program, .argv = words, .env = Environment(search_path), .output = output->get()});
  if (!held.ok()) return held.status();
  const pid_t pid = (*held)->pid();
  const absl::StatusOr<ProcessHandle> process = (*held)->Release();
  if (!process.ok()) return process.status();

  pollfd ended{.fd = process->fd(), .events = POLLIN, .revents = 0};
  const auto until = std::chrono::steady_clock::now() + patience;
  int ready = 0;
  while (ready == 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    ready = poll(&ended, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (ready < 0 && errno == EINTR) ready = 0;
  }
  // The child is not reaped yet, so the number of its group is still its own.
  kill(-pid, SIGKILL);
  const std::optional<ProcessEnd> end = process->WaitAndReap();
  if (ready <= 0) {
    return absl::DeadlineExceededError(
        fmt::format("{} did not end within {}", *program, conf::InWords(patience)));
  }
  if (!end || !end->exit_code) {
    return absl::UnavailableError(
        fmt::format("{} was ended by signal {}", *program, end && end->signal ? *end->signal : 0));
  }
  return CommandOutput{.exit_code = *end->exit_code, .text = Printed(output->get())};
}

}  // namespace gateway::net
