// A real tidegate-engine on a free port of loopback, ended with the object: its statistics, and its faults.
// It serves the model chat-small, without delays unless the flags set some.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/free_port.h"
#include "tests/support/raw_client.h"
#include "tests/support/temp_dir.h"

namespace tests {

class EngineProcess {
 public:
  explicit EngineProcess(std::vector<std::string> flags = {}) : flags_(std::move(flags)) { Start(); }

  uint16_t port() const { return port_.number(); }
  ChildProcess& process() { return *process_; }

  void Kill();
  void Start();  // again, on the same port

  // GET /engine/stats, at any time.
  Json Stats() const;
  uint64_t Stat(const char* pointer) const;  // a number of it, such as "/requests/received"

  // {"kind": "stall", "arg": 5, "first": 1}: see tools/engine/README.md.
  void Fault(const Json& fault) const;
  void ClearFaults() const;

 private:
  Answer Ask(const std::string& request) const;

  const std::vector<std::string> flags_;
  TempDir folder_;
  FreePort port_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace tests
