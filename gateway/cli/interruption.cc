#include "gateway/cli/interruption.h"

#include <atomic>
#include <cstdlib>

namespace gateway::cli {
namespace {

std::atomic<int> signal_seen = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void Note(int signal) {
  signal_seen.store(signal);
}

void Watch(int signal, struct sigaction& before) {
  struct sigaction action{};
  action.sa_handler = Note;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, &before);
  if (before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
}

}  // namespace

Interruption::Interruption() {
  signal_seen.store(0);
  Watch(SIGINT, before_int_);
  Watch(SIGTERM, before_term_);
}

Interruption::~Interruption() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

bool Interruption::seen() const {
  return signal_seen.load() != 0;
}

void Interruption::Obey() const {
  const int signal = signal_seen.load();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(128 + signal);  // if the signal is blocked
}

}  // namespace gateway::cli
