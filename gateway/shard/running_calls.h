// RunningCalls: the running calls of a shard that came with an API key, so that a revoked key ends them.
//
// Owner: the shard. Thread: its own.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <string_view>
#include <vector>

#include "plugins/auth/key_table.h"

namespace gateway {

class RunningCalls {
 public:
  // Lives in the frame of the call.
  class Call {
   public:
    Call() = default;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // From now on the call ends when the key is revoked. `key` must outlive it.
    void Begin(RunningCalls& calls, std::string_view key) {
      calls_ = &calls;
      key_ = key;
      calls.all_.insert(this);
    }

   protected:
    ~Call() {
      if (calls_) calls_->all_.erase(this);
    }
    // Called at most once. May end other calls, and destroy this one.
    virtual void OnRevoked() = 0;

   private:
    friend class RunningCalls;
    RunningCalls* calls_ = nullptr;
    std::string_view key_;
  };

  // The shard uses these keys from now on: ends the calls of keys that are revoked or missing.
  void OnKeys(const plugins::auth::KeyTable& keys) {
    std::vector<Call*> revoked;
    for (Call* call : all_) {
      const plugins::auth::KeyRecordPtr* key = keys.Find(call->key_);
      if (key == nullptr || (*key)->revoked_at) revoked.push_back(call);
    }
    for (Call* call : revoked) {
      if (all_.erase(call) > 0) call->OnRevoked();  // unless the end of another call has ended it
    }
  }

  size_t size() const { return all_.size(); }

 private:
  absl::flat_hash_set<Call*> all_;
};

}  // namespace gateway
