// A real redis-server, if one is installed: on a free port, in its own folder, ended with the object.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/free_port.h"

extern char** environ;

namespace tests {

class RedisServer {
 public:
  static bool Installed() { return std::filesystem::exists(kBinary); }

  explicit RedisServer(std::vector<std::string> more = {}) : more_(std::move(more)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "redis-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~RedisServer() {
    Kill();
    std::filesystem::remove_all(folder_);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Keeps no data after a Kill().
  bool Start() {
    std::vector<std::string> words{kBinary,
                                   "--port",
                                   std::to_string(port_.number()),
                                   "--bind",
                                   "127.0.0.1",
                                   "--save",
                                   "",
                                   "--appendonly",
                                   "no",
                                   "--dir",
                                   folder_,
                                   "--daemonize",
                                   "no",
                                   "--enable-debug-command",
                                   "yes"};
    words.insert(words.end(), more_.begin(), more_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    const int failed = posix_spawn(&pid_, kBinary, &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) pid_ = -1;
    return failed == 0;
  }
  void Signal(int signal) const {
    if (pid_ > 0) kill(pid_, signal);
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  uint16_t port() const { return port_.number(); }

 private:
  static constexpr const char* kBinary = "/usr/bin/redis-server";

  std::vector<std::string> more_;
  std::string folder_;
  FreePort port_;
  pid_t pid_ = -1;
};

}  // namespace tests
