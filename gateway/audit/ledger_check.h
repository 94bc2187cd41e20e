// LedgerCheck: verifies the ledger of a running gateway in the background, one verification at a time, at a pace that
// leaves the disk to the ledger's own thread.
//
// It finds damage and changed records. An attacker on the gateway's machine can also change the verifier. To find
// that, run `tidegate audit verify` elsewhere, with a public key and checkpoints that are kept there.
//
// Owner: the process. Any thread; a verification has a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "conf/time.h"
#include "gateway/ledger/verify.h"

namespace gateway {

class LedgerCheck {
 public:
  explicit LedgerCheck(std::string dir) : dir_(std::move(dir)) {}
  ~LedgerCheck() { Stop(); }

  struct Status {
    std::string_view state = "never";  // never, running, good, bad, failed, stopped
    std::string by = {};               // who has started it
    std::optional<conf::TimePoint> began = {};
    std::optional<conf::TimePoint> ended = {};
    uint64_t done_bytes = 0;
    uint64_t total_bytes = 0;
    std::optional<ledger::VerifyReport> report = {};  // of good and bad
    std::string why = {};                             // of failed
  };

  // False: one runs already.
  bool Start(const std::string& by, conf::TimePoint now);
  Status Get() const;
  // Ends one that runs, and waits until it has ended; none starts after it.
  void Stop();

 private:
  void Run();
  // Notes the progress, and waits where the pace is too fast.
  void Note(uint64_t done, uint64_t total);
  bool Stopping() const;

  const std::string dir_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Status status_;
  uint64_t paced_bytes_ = 0;  // that were done at the last wait
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gateway
