// A store in memory that answers at once, for tests of its users. If a test sets `refuses`, every write ends
// with it. The lead ends by `now`, which a test moves.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/store/store.h"

namespace tests {

class MemoryStore final : public gateway::store::Store {
 public:
  gateway::net::Task<absl::StatusOr<std::optional<gateway::store::Object>>> Get(std::string kind,
                                                                                std::string id) override {
    const auto at = objects.find({kind, id});
    co_return at == objects.end() ? std::nullopt : std::optional(at->second);
  }

  gateway::net::Task<absl::StatusOr<gateway::store::Listing>> List(std::string kind) override {
    if (!lists.ok()) co_return lists;
    gateway::store::Listing listing;
    listing.number = number;
    for (const auto& [key, object] : objects) {
      if (kind.empty() || key.first == kind) listing.objects.push_back(object);
    }
    co_return listing;
  }

  gateway::net::Task<absl::StatusOr<gateway::store::Listing>> ListPage(std::string kind, std::string after,
                                                                       size_t limit) override {
    if (!lists.ok()) co_return lists;
    gateway::store::Listing listing;
    listing.number = number;
    for (auto at = objects.upper_bound({kind, after}); at != objects.end() && at->first.first == kind; ++at) {
      if (listing.objects.size() < limit) listing.objects.push_back(at->second);
    }
    co_return listing;
  }

  gateway::net::Task<absl::StatusOr<gateway::store::ChangeList>> Changes(std::string kind,
                                                                         uint64_t after) override {
    gateway::store::ChangeList list;
    list.number = number;
    for (const auto& [of, change] : changes) {
      if (of == kind && change.number > after) list.changes.push_back(change);
    }
    co_return list;
  }

  gateway::net::Task<absl::StatusOr<gateway::store::Committed>> Commit(
      std::vector<gateway::store::Write> writes, uint64_t epoch = 0) override {
    if (!refuses.ok()) co_return refuses;
    if (std::ranges::any_of(writes, [&](const auto& write) { return write.kind == refuses_kind; }))
      co_return absl::UnavailableError("the test refuses this kind");
    if (const uint64_t leads = now < lead_ends_ ? lead_.epoch : 0; epoch != 0 && epoch != leads)
      co_return gateway::store::DeposedError(epoch, leads);
    if (absl::Status checked = CheckWrites(writes); !checked.ok()) co_return checked;
    for (const gateway::store::Write& write : writes) {
      const auto at = objects.find({write.kind, write.id});
      if ((at == objects.end() ? 0 : at->second.version) != write.replaces)
        co_return absl::AbortedError(write.kind + " " + write.id + " has another version");
    }
    const uint64_t first = number + 1;
    for (gateway::store::Write& write : writes) {
      ++number;
      changes.emplace_back(write.kind, gateway::store::Change{number, write.id, write.body});
      if (write.body) {
        objects[{write.kind, write.id}] = {write.kind, write.id, number, *std::move(write.body)};
      } else {
        objects.erase({write.kind, write.id});
      }
    }
    ++commits;
    for (size_t i = 0; i < listeners_.size(); ++i) listeners_[i]->OnChange(number);
    if (loses_answer) co_return absl::UnknownError("the answer was lost");
    co_return gateway::store::Committed{.first = first, .last = number};
  }

  gateway::net::Task<absl::StatusOr<gateway::store::Lead>> Campaign(std::string holder, std::string about,
                                                                    conf::Duration ttl) override {
    ++asks;
    if (before_campaign) co_await before_campaign();
    if (!campaigns.ok()) co_return campaigns;
    if (absl::Status checked = gateway::store::CheckHolder(holder, about); !checked.ok()) co_return checked;
    const bool over = now >= lead_ends_;
    if (over || lead_.holder == holder) {
      lead_ = {.epoch = lead_.epoch + (over ? 1 : 0), .holder = holder, .about = about};
      lead_ends_ = now + ttl;
    }
    gateway::store::Lead lead = lead_;
    lead.mine = lead.holder == holder;
    lead.left = lead_ends_ - now;
    co_return lead;
  }
  gateway::net::Task<absl::StatusOr<gateway::store::Lead>> Leader() override {
    if (!campaigns.ok()) co_return campaigns;
    gateway::store::Lead lead;
    if (now < lead_ends_) lead = lead_;
    lead.left = now < lead_ends_ ? lead_ends_ - now : conf::Duration();
    co_return lead;
  }
  gateway::net::Task<absl::Status> SkipTo(uint64_t to) override {
    number = std::max(number, to);
    co_return absl::OkStatus();
  }
  gateway::net::Task<absl::Status> Resign(std::string holder, uint64_t epoch) override {
    if (!campaigns.ok()) co_return campaigns;
    if (now < lead_ends_ && lead_.holder == holder && lead_.epoch == epoch) lead_ends_ = now;
    co_return absl::OkStatus();
  }

  void Add(Listener& listener) override { listeners_.push_back(&listener); }
  void Remove(Listener& listener) override { std::erase(listeners_, &listener); }

  size_t Count(const std::string& kind) const {
    size_t count = 0;
    for (const auto& [key, object] : objects) count += key.first == kind ? 1 : 0;
    return count;
  }

  std::map<std::pair<std::string, std::string>, gateway::store::Object> objects;
  std::vector<std::pair<std::string, gateway::store::Change>> changes;  // with their kinds
  uint64_t number = 0;
  uint64_t commits = 0;
  absl::Status refuses;
  std::string refuses_kind;  // writes of which end with Unavailable
  absl::Status lists;
  absl::Status campaigns;
  int asks = 0;                                                     // for the lead
  std::function<gateway::net::Task<void>()> before_campaign = {};   // how long an answer takes; none: no time
  conf::TimePoint now = conf::TimePoint() + std::chrono::hours(1);  // by which a lead ends
  bool loses_answer = false;  // writes succeed, but their answers are lost

 private:
  std::vector<Listener*> listeners_;
  gateway::store::Lead lead_;
  conf::TimePoint lead_ends_{};
};

}  // namespace tests
