// BodyMemory: the memory of the bodies of running requests, for the process and for each tenant. A request asks it
// before it reads its body, so that the process never holds more than the budget, however many connections it has.
//
// A body that fits into its connection's own buffer takes nothing. Owner: the process; it outlives all holds.
// Thread-safe. Asked once for a body with a known length, and once for every 64 KiB of any other.
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
  // The bytes that one tenant of a path, together with the tenants below it, may hold.
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
  // The memory of one request's body. Lives as long as the body.
  class Hold final : public net::http::BodyRoom {
   public:
    Hold(BodyMemory& memory, uint64_t process_bytes) : memory_(memory), process_bytes_(process_bytes) {}
    ~Hold() override;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    // Called for each tenant of the path, from the root on, before the first GrowTo.
    void Add(Share share) { links_.push_back({std::move(share), {}}); }

    // False: the hold does not grow, and refusal() says why.
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
  Accounts by_tenant_;  // only tenants that hold something
};

}  // namespace gateway
