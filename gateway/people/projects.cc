#include "gateway/people/projects.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/text.h"
#include "gateway/audit/stored_events.h"
#include "gateway/log.h"
#include "gateway/people/being_changed.h"
#include "gateway/store/kinds.h"

namespace gateway {
namespace {

// How often a change is tried when others change the same object at the same time.

std::string MemberId(std::string_view tenant, std::string_view who) {
  return fmt::format("{}|{}", tenant, who);
}

store::Write EventOf(std::string_view action, const std::string& actor, const std::string& tenant,
                     std::string detail) {
  return StoredEvent({.action = std::string(action),
                      .actor = actor,
                      .subject = tenant,
                      .tenant = tenant,
                      .detail = std::move(detail)});
}

std::string DetailOf(const Member& member) {
  return nlohmann::ordered_json{{"who", member.who}, {"role", RoleName(member.role)}}.dump();
}

absl::Status NoSuchTenant(std::string_view path) {
  return absl::NotFoundError(
      conf::Abseil(fmt::format("no tenant made at run time has the path \"{}\"", path)));
}

}  // namespace

Projects::Projects(net::Loop& loop, store::Store& store)
    : store_(store),
      projects_(loop, store, store::kTenant, DecodeProject, [this] { told_(); }),
      members_(loop, store, store::kMember, DecodeMember, [] {}) {}

net::Task<absl::Status> Projects::Start() {
  if (absl::Status started = co_await projects_.Start(); !started.ok()) co_return started;
  co_return co_await members_.Start();
}

void Projects::Stop() {
  projects_.Stop();
  members_.Stop();
}

net::Task<absl::Status> Projects::CatchUp() {
  if (absl::Status current = co_await projects_.CatchUp(); !current.ok()) co_return current;
  co_return co_await members_.CatchUp();
}

net::Task<absl::StatusOr<bool>> Projects::Commit(std::vector<store::Write> writes) {
  const absl::StatusOr<store::Committed> committed = co_await store_.Commit(std::move(writes));
  if (absl::IsAborted(committed.status())) co_return true;
  if (!committed.ok()) co_return committed.status();
  if (absl::Status current = co_await CatchUp(); !current.ok()) {
    log::Warn("a change of a tenant is stored and not in force yet", {{"why", conf::Std(current.message())}});
  }
  co_return false;
}

net::Task<absl::Status> Projects::Create(Project project) {
  if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
  if (projects_.all().size() >= kMax)
    co_return absl::FailedPreconditionError("too many tenants were made at run time; remove some");
  const auto siblings = std::ranges::count_if(
      projects_.all(), [&](const auto& entry) { return entry.second.value.parent() == project.parent(); });
  if (static_cast<size_t>(siblings) >= kMaxOfParent) {
    co_return absl::FailedPreconditionError(conf::Abseil(fmt::format(
        "{} has {} tenants made at run time, which is the limit; remove some", project.parent(), siblings)));
  }
  std::string body = EncodeProject(project);
  std::vector<store::Write> writes;
  writes.push_back(EventOf("tenant.create", project.made_by, project.path, body));
  writes.push_back(store::Write::Create(store::kTenant, project.path, std::move(body)));
  const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
  if (!again.ok()) co_return again.status();
  if (*again)
    co_return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("the tenant {} exists already", project.path)));
  co_return absl::OkStatus();
}

net::Task<absl::StatusOr<Project>> Projects::Change(std::string path, std::function<void(Project&)> edit,
                                                    std::string actor) {
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = projects_.Find(path);
    if (entry == nullptr) co_return NoSuchTenant(path);
    Project changed = entry->value;
    edit(changed);
    if (changed == entry->value) co_return changed;
    std::string body = EncodeProject(changed);
    std::vector<store::Write> writes;
    writes.push_back(EventOf("tenant.change", actor, path, body));
    writes.push_back({store::kTenant, path, entry->version, std::move(body)});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (!*again) co_return changed;
  }
  co_return BeingChanged(path);
}

net::Task<absl::Status> Projects::Remove(std::string path, std::string actor,
                                         std::vector<store::Write> also) {
  if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
  const auto* const entry = projects_.Find(path);
  if (entry == nullptr) co_return NoSuchTenant(path);
  for (const auto& [id, other] : projects_.all()) {
    if (other.value.parent() != path) continue;
    co_return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("{} stands below {}; remove it first", id, path)));
  }
  std::vector<store::Write> writes = std::move(also);
  writes.push_back(EventOf("tenant.remove", actor, path, "{}"));
  writes.push_back({store::kTenant, path, entry->version, std::nullopt});
  for (const auto& [id, member] : members_.all()) {
    if (member.value.tenant == path) writes.push_back({store::kMember, id, member.version, std::nullopt});
  }
  const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
  if (!again.ok()) co_return again.status();
  co_return *again ? BeingChanged(path) : absl::OkStatus();
}

net::Task<absl::Status> Projects::SetMember(Member member) {
  const std::string id = MemberId(member.tenant, member.who);
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = members_.Find(id);
    if (entry == nullptr && members_.all().size() >= kMaxMembers)
      co_return absl::FailedPreconditionError("too many members; remove some");
    std::vector<store::Write> writes;
    writes.push_back(EventOf("member.set", member.added_by, member.tenant, DetailOf(member)));
    writes.push_back({store::kMember, id, entry == nullptr ? 0 : entry->version, EncodeMember(member)});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (!*again) co_return absl::OkStatus();
  }
  co_return BeingChanged("the member");
}

net::Task<absl::StatusOr<Member>> Projects::RemoveMember(std::string tenant, std::string who,
                                                         std::string actor) {
  const std::string id = MemberId(tenant, who);
  for (int attempt = 0; attempt < store::kChangeAttempts; ++attempt) {
    if (absl::Status current = co_await CatchUp(); !current.ok()) co_return current;
    const auto* const entry = members_.Find(id);
    if (entry == nullptr) {
      co_return absl::NotFoundError(
          conf::Abseil(fmt::format("{} is not a member of {} that was added at run time", who, tenant)));
    }
    Member removed = entry->value;
    std::vector<store::Write> writes;
    writes.push_back(EventOf("member.remove", actor, tenant, DetailOf(removed)));
    writes.push_back({store::kMember, id, entry->version, std::nullopt});
    const absl::StatusOr<bool> again = co_await Commit(std::move(writes));
    if (!again.ok()) co_return again.status();
    if (!*again) co_return removed;
  }
  co_return BeingChanged("the member");
}

std::vector<Project> Projects::List() const {
  std::vector<Project> all;
  all.reserve(projects_.all().size());
  for (const auto& [path, entry] : projects_.all()) all.push_back(entry.value);
  // A path is longer than that of its parent.
  std::ranges::sort(all, [](const Project& a, const Project& b) {
    return std::pair(a.path.size(), a.path) < std::pair(b.path.size(), b.path);
  });
  return all;
}

const Project* Projects::Find(std::string_view path) const {
  const auto* const entry = projects_.Find(path);
  return entry == nullptr ? nullptr : &entry->value;
}

std::vector<Member> Projects::Members() const {
  std::vector<Member> all;
  all.reserve(members_.all().size());
  for (const auto& [id, entry] : members_.all()) all.push_back(entry.value);
  return all;
}

std::vector<RoleOver> Projects::RolesOf(const Person& person) const {
  std::vector<RoleOver> roles;
  for (const auto& [id, entry] : members_.all()) {
    if (IsMember(entry.value, person)) roles.push_back({entry.value.role, entry.value.tenant});
  }
  return roles;
}

}  // namespace gateway
