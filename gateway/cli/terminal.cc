#include "gateway/cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace gateway::cli {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[H\033[2J";  // a screen of our own, no cursor
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";

constexpr std::array<std::pair<std::string_view, Key>, 24> kKeys = {
    {{"q", Key::kQuit},           {"Q", Key::kQuit},      {"k", Key::kUp},
     {"j", Key::kDown},           {"h", Key::kLeft},      {"l", Key::kRight},
     {"g", Key::kHome},           {"G", Key::kEnd},       {" ", Key::kPageDown},
     {"\033[A", Key::kUp},        {"\033[B", Key::kDown}, {"\033[C", Key::kRight},
     {"\033[D", Key::kLeft},      {"\033OA", Key::kUp},   {"\033OB", Key::kDown},
     {"\033OC", Key::kRight},     {"\033OD", Key::kLeft}, {"\033[5~", Key::kPageUp},
     {"\033[6~", Key::kPageDown}, {"\033[H", Key::kHome}, {"\033[F", Key::kEnd},
     {"\033[1~", Key::kHome},     {"\033[4~", Key::kEnd}, {"\033OF", Key::kEnd}}};

void OnResize(int) {}  // only interrupts a wait

}  // namespace

KeyRead ReadKey(std::string_view sent) {
  if (sent.empty()) return {};
  for (const auto& [bytes, key] : kKeys) {
    if (sent.starts_with(bytes)) return {key, bytes.size()};
  }
  if (sent.front() != '\033' || sent.size() == 1 || (sent[1] != '[' && sent[1] != 'O'))
    return {Key::kNone, 1};
  // A sequence of another key: up to its final byte.
  size_t end = 2;
  while (end < sent.size() && (sent[end] < '@' || sent[end] > '~')) ++end;
  return {Key::kNone, std::min(end + 1, sent.size())};
}

bool Terminal::IsThere() {
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

Terminal::Terminal() {
  tcgetattr(STDIN_FILENO, &before_);
  termios now = before_;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  now.c_cc[VMIN] = 0;
  now.c_cc[VTIME] = 0;
  now.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stop would leave the shell with this screen
  tcsetattr(STDIN_FILENO, TCSANOW, &now);
  struct sigaction action{};
  action.sa_handler = OnResize;
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, &before_resize_);
  Write(kEnter);
}

Terminal::~Terminal() {
  Write(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  sigaction(SIGWINCH, &before_resize_, nullptr);
}

size_t Terminal::ColumnsOfOutput() {
  winsize window{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

Terminal::Size Terminal::size() const {
  winsize window{};
  Size size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.columns = window.ws_col;
  if (window.ws_row > 0) size.rows = window.ws_row;
  return size;
}

Key Terminal::Wait(conf::Duration patience) {
  if (sent_.empty()) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(patience, conf::Duration::zero()));
    const int ready = poll(&input, 1, static_cast<int>(std::min<int64_t>(ms.count(), 60'000)));
    if (ready <= 0) return Key::kNone;
    std::array<char, 256> buffer{};
    const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return Key::kGone;
    if (n > 0) sent_.assign(buffer.data(), static_cast<size_t>(n));
  }
  const KeyRead read = ReadKey(sent_);
  sent_.erase(0, read.bytes);
  return read.key;
}

void Terminal::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace gateway::cli
