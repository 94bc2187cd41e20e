// Follower: keeps a copy of one kind of object current. The copy is its user's: the follower hands it all
// objects once, and then the changes.
//
// When the store does not answer, the copy stays unchanged, the user is notified once, and the follower tries
// again.
//
// Owner: the owner of the copy; destroyed after Stop() and after the loop's tasks have ended. Thread: the loop's.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/store/store.h"

namespace gateway::store {

class Follower final : private Store::Listener {
 public:
  struct Copy {
    // The whole kind: at the start, and when the store has forgotten what changed since.
    std::function<void(const std::vector<Object>&)> replace;
    // At least one change, in order; of a transaction all or nothing.
    std::function<void(const std::vector<Change>&)> apply;
    // The store stopped answering, or (Ok) answers again.
    std::function<void(const absl::Status&)> on_health = [](const absl::Status&) {};
  };

  // Both must outlive it.
  Follower(net::Loop& loop, Store& store, std::string kind, Copy copy);
  ~Follower();

  // Loads all, and follows from then on.
  net::Task<absl::Status> Start();
  // Applies all that was committed before the call: after Ok, the copy shows the caller's own change.
  net::Task<absl::Status> CatchUp();
  // Stops following; a pending read ends without a change to the copy.
  void Stop();

  // No task of it is under way.
  bool idle() const { return !following_; }

  // The copy shows every change up to this one.
  uint64_t number() const { return number_; }

 private:
  void OnChange(uint64_t number) override;
  void OnHealth(const absl::Status& status) override;
  void OnRestored() override;
  // Tells the user when the copy begins to fall behind, and when it is current again.
  void ReportHealth();
  net::Task<absl::Status> Load();
  net::Task<void> Follow();

  net::Loop& loop_;
  Store& store_;
  const std::string kind_;
  const Copy copy_;
  net::Sleep pause_;
  uint64_t number_ = 0;
  uint64_t wanted_ = 0;  // the last change that was reported
  absl::Status store_health_{};
  absl::Status follow_health_{};
  bool reported_well_ = true;
  bool following_ = false;  // Follow() runs
  bool reload_ = false;     // the copy is of a state that the store has left
  bool listening_ = false;
  bool stopped_ = false;
};

}  // namespace gateway::store
