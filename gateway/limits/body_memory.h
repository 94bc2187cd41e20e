// BodyMemory: how much memory the bodies of running requests take, in the process and for each tenant. Asked
// before a body is read, so that no number of connections makes the process hold more than the budget.
//
// A body that fits into its connection's own buffer takes nothing. Owner: the process; it outlives all holds.
// Thread-safe; asked once for a body whose length is known, and once for every 64 KiB of another.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "gateway/net/http/body_room.h"

namespace gateway {

class BodyMemory {
 public:
  // What one tenant of a path may hold, those below it included.
  struct Share {
    std::string tenant;
    uint64_t bytes = 0;
  };
  enum class Refusal : uint8_t { kNone, kProcess, kTenantBytes };

 private:
  struct Account {
    uint64_t bytes = 0;
    uint32_t holds = 0;
  };
  using Accounts = std::map<std::string, Account, std::less<>>;

 public:
  // What one request's body holds. Lives as long as the body.
  class Hold final : public net::http::BodyRoom {
   public:
    Hold(BodyMemory& memory, uint64_t process_bytes) : memory_(memory), process_bytes_(process_bytes) {}
    ~Hold() override;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    // From the root on, before the first GrowTo.
    void Add(Share share) { links_.push_back({std::move(share), {}}); }

    // False: nothing more is held, and refusal() says why.
    bool GrowTo(uint64_t bytes) override;

    Refusal refusal() const { return refusal_; }
    const std::string& refusing_tenant() const { return refusing_tenant_; }

   private:
    friend class BodyMemory;
    struct Link {
      Share share;
      Accounts::iterator account;
    };
    bool Refuse(Refusal refusal, std::string_view tenant);

    BodyMemory& memory_;
    const uint64_t process_bytes_;
    absl::InlinedVector<Link, 2> links_;
    uint64_t bytes_ = 0;
    bool begun_ = false;
    Refusal refusal_ = Refusal::kNone;
    std::string refusing_tenant_;
  };

  uint64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  uint64_t bytes_ = 0;  // guarded by mutex_, like the next
  Accounts by_tenant_;  // of those that hold something
};

}  // namespace gateway
