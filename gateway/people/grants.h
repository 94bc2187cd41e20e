// Grants: what tenants have for a time beside their configuration, and the requests for it, as the store has them.
// Each change and its event for the ledger are one transaction. The copies follow the store.
//
// A grant begins and ends by itself: the owner is told at that moment, within a second. A request that nobody
// decides expires likewise. What ended a long time ago is removed; the ledger keeps it.
//
// Whether somebody may, and what fits a tenant, is checked by the caller. Owner: the process. Thread: the loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/watchdog.h"
#include "gateway/people/grant.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

namespace gateway {

class Grants final : private net::Alarm {
 public:
  static constexpr size_t kMax = 20'000;             // of grants, and of requests
  static constexpr size_t kMaxPendingOfPerson = 50;  // requests
  static constexpr size_t kMaxComments = 100;        // of a request

  // Something that people are told of.
  struct Notice {
    std::string_view event;                 // "request.make", "request.approve", …, "grant.end"
    std::string actor;                      // empty: it happened by itself
    const GrantRequest* request = nullptr;  // the call's; null where it is about a grant alone
    const TenantGrant* grant = nullptr;     // likewise
  };

  // Both must outlive it.
  Grants(net::Loop& loop, store::Store& store);

  net::Task<absl::Status> Start();
  void Stop();
  // Calls `told` when other grants are in force than before, or may be.
  void OnChange(std::function<void()> told) { told_ = std::move(told); }
  // Calls `notify` once for each change, in the process that made it.
  void OnNotice(std::function<void(const Notice&)> notify) { notify_ = std::move(notify); }

  // Durable and in the copy when they return. Errors: NotFound, FailedPrecondition (it has ended, or is decided
  // already, there are too many), and the store's; then nothing was changed.
  net::Task<absl::StatusOr<TenantGrant>> Give(TenantGrant grant);
  net::Task<absl::StatusOr<TenantGrant>> End(std::string id, std::string actor, conf::TimePoint now);

  // Also of a grant that has not begun. `edit` may change all but its id and tenant.
  net::Task<absl::StatusOr<TenantGrant>> Change(std::string id, std::function<void(TenantGrant&)> edit,
                                                std::string actor);

  // `grant`: what a rule gives for it at once; of a request that renews a grant, until when that lasts then.
  net::Task<absl::StatusOr<GrantRequest>> Ask(GrantRequest request, const TenantGrant* grant);
  // `grant` is what is given, possibly less than requested; of a request that renews a grant, only its end
  // counts.
  net::Task<absl::StatusOr<GrantRequest>> Approve(std::string id, TenantGrant grant, std::string answer,
                                                  conf::TimePoint now);
  // Declined, withdrawn or expired.
  net::Task<absl::StatusOr<GrantRequest>> Close(std::string id, RequestState state, std::string actor,
                                                std::string answer, conf::TimePoint now);

  // Whatever its state: people also talk about what was decided.
  net::Task<absl::StatusOr<GrantRequest>> Comment(std::string id, RequestComment comment);

  // What ends the grants of a tenant and the requests for it in a transaction of others.
  std::vector<store::Write> EndAllOf(std::string_view tenant, const std::string& actor,
                                     conf::TimePoint now) const;

  // The newest first.
  std::vector<TenantGrant> List() const;
  std::vector<GrantRequest> Requests() const;
  // Null when there is none.
  const TenantGrant* Find(std::string_view id) const;
  const GrantRequest* FindRequest(std::string_view id) const;

 private:
  void OnAlarm() override;
  void Changed();
  net::Task<void> Sweep();
  net::Task<void> Remind(std::string id, conf::TimePoint now);
  net::Task<absl::StatusOr<GrantRequest>> Decide(std::string id, std::function<void(GrantRequest&)> decide,
                                                 std::string_view action, const TenantGrant* grant);
  // Adds the writes of what is given for the request; FailedPrecondition: the grant that it renews has ended.
  absl::StatusOr<TenantGrant> AddGiven(const GrantRequest& request, TenantGrant grant,
                                       std::vector<store::Write>& writes) const;
  // Commits, and has the copies show it. True: an object has changed meanwhile; look again.
  net::Task<absl::StatusOr<bool>> Commit(std::vector<store::Write> writes);
  net::Task<absl::Status> CatchUp();
  std::vector<store::Write> Outdated(conf::TimePoint now) const;

  net::Loop& loop_;
  store::Store& store_;
  std::function<void()> told_ = [] {};
  std::function<void(const Notice&)> notify_ = [](const Notice&) {};
  store::StoredCopy<TenantGrant> grants_;
  store::StoredCopy<GrantRequest> requests_;
  conf::TimePoint told_at_{};  // grants that begin or end later are still to be told of
  bool sweeping_ = false;
  bool stopped_ = false;
};

}  // namespace gateway
