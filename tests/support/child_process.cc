#include "tests/support/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/support/temp_dir.h"

extern char** environ;

namespace tests {
namespace {

constexpr const char* kSetpriv = "/usr/bin/setpriv";

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> words, std::string output) : output_(std::move(output)) {
  if (std::filesystem::exists(kSetpriv)) words.insert(words.begin(), {kSetpriv, "--pdeathsig", "KILL", "--"});
  if (std::filesystem::exists(output_)) before_ = std::filesystem::file_size(output_);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
}

ChildProcess::~ChildProcess() {
  if (Running()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  } else if (WIFSIGNALED(*status_) && !sent_.contains(WTERMSIG(*status_))) {
    ADD_FAILURE() << "process " << pid_ << " died of signal " << WTERMSIG(*status_) << ":\n" << Output();
  }
  const std::string output = Output();
  for (const char* sign : {"Sanitizer:", "runtime error:"}) {
    const size_t at = output.find(sign);
    if (at != std::string::npos) ADD_FAILURE() << "process " << pid_ << ":\n" << output.substr(at, 8000);
  }
}

void ChildProcess::Signal(int signal) {
  if (status_) return;
  sent_.insert(signal);
  kill(pid_, signal);
}

std::optional<int> ChildProcess::Wait(milliseconds patience) {
  Within(patience, [&] {
    int status = 0;
    if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  });
  return status_;
}

std::string ChildProcess::Output() const {
  return ReadFile(output_).substr(before_);
}

std::string ChildProcess::WaitForLine(std::string_view sign, milliseconds patience) {
  std::string line;
  Within(patience, [&] {
    const std::string all = Output();
    const size_t at = all.find(sign);
    const size_t end = all.find('\n', at);
    if (at == std::string::npos || end == std::string::npos) return !Running();
    const size_t newline = all.rfind('\n', at);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    line = all.substr(begin, end - begin);
    return true;
  });
  return line;
}

uint64_t ChildProcess::Waits(std::string_view prefix) const {
  constexpr std::string_view kSwitches = "voluntary_ctxt_switches:";
  uint64_t waits = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_))) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with(prefix)) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(kSwitches)) waits += std::stoull(line.substr(kSwitches.size()));
    }
  }
  return waits;
}

size_t ChildProcess::ResidentBytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  size_t kib = 0;
  for (std::string word; status >> word && word != "RssAnon:";) {
  }
  status >> kib;
  return kib * 1024;
}

void Pause(milliseconds pause) {
  std::this_thread::sleep_for(pause);
}

}  // namespace tests
