// Projects: the tenants made at run time and the members of tenants, as the store has them. Each change and its
// event for the ledger are one transaction. The copies follow the store, so they also show what other processes
// change.
//
// Whether somebody may, and what fits below a parent, is checked by the caller. Owner: the process. Thread: the
// loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/people/permissions.h"
#include "gateway/people/project.h"
#include "gateway/store/store.h"
#include "gateway/store/stored_copy.h"

namespace gateway {

class Projects {
 public:
  static constexpr size_t kMax = 10'000;
  static constexpr size_t kMaxOfParent = 500;
  static constexpr size_t kMaxMembers = 50'000;

  // Both must outlive it.
  Projects(net::Loop& loop, store::Store& store);

  net::Task<absl::Status> Start();
  void Stop();
  // Calls `told` when the tenants have changed.
  void OnChange(std::function<void()> told) { told_ = std::move(told); }

  // Durable and in the copy when they return. Errors: NotFound, FailedPrecondition (it is there already, there are too
  // many), and the store's; then nothing was changed.
  net::Task<absl::Status> Create(Project project);
  net::Task<absl::StatusOr<Project>> Change(std::string path, std::function<void(Project&)> edit,
                                            std::string actor);
  // With its members, and in one transaction with `also`. FailedPrecondition: a tenant stands below it.
  net::Task<absl::Status> Remove(std::string path, std::string actor, std::vector<store::Write> also);

  // Replaces the role that the person has.
  net::Task<absl::Status> SetMember(Member member);
  net::Task<absl::StatusOr<Member>> RemoveMember(std::string tenant, std::string who, std::string actor);

  // Parents before their children.
  std::vector<Project> List() const;
  // Null when there is none.
  const Project* Find(std::string_view path) const;
  std::vector<Member> Members() const;
  // The roles that the person has as a member.
  std::vector<RoleOver> RolesOf(const Person& person) const;

 private:
  // Commits, and has the copies show it. True: an object has changed meanwhile; look again.
  net::Task<absl::StatusOr<bool>> Commit(std::vector<store::Write> writes);
  net::Task<absl::Status> CatchUp();

  store::Store& store_;
  std::function<void()> told_ = [] {};
  store::StoredCopy<Project> projects_;  // by path
  store::StoredCopy<Member> members_;    // by TENANT|WHO
};

}  // namespace gateway
