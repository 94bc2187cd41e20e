#include "router/limits/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"

namespace router::limits {
namespace {

std::string_view RootName(std::string_view path) {
  return path.substr(0, path.find('/'));
}

bool IsUnder(std::string_view path, std::string_view ancestor) {
  return path.size() > ancestor.size() && path.starts_with(ancestor) && path[ancestor.size()] == '/';
}

// The limits that apply to one model, leaf first.
Plan PlanFor(std::string_view model, const std::vector<std::shared_ptr<Limit>>& own, const Plan* inherited) {
  Plan plan;
  for (const auto& limit : own) {
    if (limit->spec().model.empty() || limit->spec().model == model) plan.limits.push_back(limit.get());
  }
  if (inherited) plan.limits.insert(plan.limits.end(), inherited->limits.begin(), inherited->limits.end());
  plan.counts_money = std::any_of(plan.limits.begin(), plan.limits.end(), [](const Limit* limit) {
    return limit->dimension() == Dimension::kBudget;
  });
  plan.counts_output = std::any_of(plan.limits.begin(), plan.limits.end(), [](const Limit* limit) {
    switch (limit->dimension()) {
      case Dimension::kTokens:
      case Dimension::kOutputTokens:
      case Dimension::kBudget:
      case Dimension::kTokenBudget:
        return true;
      case Dimension::kRequests:
      case Dimension::kInputTokens:
      case Dimension::kConcurrency:
      case Dimension::kDeviceBudget:
        break;
    }
    return false;
  });
  return plan;
}

}  // namespace

std::string LimitRef::Id() const {
  const LimitSpec& spec = limit_->spec();
  return fmt::format("{}|{}|{}{}{}", limit_->scope(), limit_->name(), spec.model,
                     spec.device.empty() ? "" : "|", spec.device);
}

LimitState LimitRef::State(conf::TimePoint now) const {
  LimitState state;
  state.scope = limit_->scope();
  state.name = limit_->name();
  state.model = limit_->spec().model;
  state.device = limit_->spec().device;
  state.dimension = limit_->dimension();
  const std::scoped_lock lock(root_->lock);
  const Moment& moment = root_->Advance(now);
  state.capacity = limit_->Capacity();
  state.effective = limit_->Effective();
  state.used = limit_->Used(moment);
  state.reserved = limit_->Reserved(moment);
  state.overrun = limit_->Overrun();
  state.refusals = limit_->Refusals();
  if (ShapeOf(state.dimension) == Shape::kPeriod) state.period = limit_->Bounds();
  return state;
}

LimitRef::Demand LimitRef::TakeDemand(conf::TimePoint now) const {
  const std::scoped_lock lock(root_->lock);
  const int64_t used = limit_->Used(root_->Advance(now));
  const Limit::Asked asked = limit_->TakeAsked();
  return {limit_->Capacity(), used, asked.admitted, asked.refused, asked.most_used};
}

int64_t LimitRef::SetShare(int64_t share, conf::TimePoint now) const {
  const std::scoped_lock lock(root_->lock);
  limit_->SetShare(std::max<int64_t>(share, 0));
  return std::max(share, limit_->Used(root_->Advance(now)));
}

int64_t LimitRef::Settled(conf::TimePoint now) const {
  const std::scoped_lock lock(root_->lock);
  return limit_->Settled(root_->Advance(now));
}

bool LimitRef::Restore(conf::TimePoint period_start, int64_t spent, int64_t settled_before,
                       conf::TimePoint now) const {
  const std::scoped_lock lock(root_->lock);
  return limit_->Restore(root_->Advance(now), period_start, spent, settled_before);
}

absl::Status LimitTree::Update(std::span<const NodeSpec> nodes) {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, Specs, std::less<>> wanted;
  for (const NodeSpec& node : nodes) {
    if (absl::Status status = Validate(node); !status.ok()) return status;
    if (!wanted.emplace(node.path, node.limits).second) {
      return absl::InvalidArgumentError(conf::Abseil(
          fmt::format("limits of \"{}\" are given twice; give all of them in one place", node.path)));
    }
  }
  for (const NodeSpec& node : nodes) {
    for (std::string_view up = ParentPath(node.path); !up.empty(); up = ParentPath(up)) {
      wanted.try_emplace(std::string(up));
    }
  }

  Changes changes;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const bool stays = wanted.contains(it->first) ||
                       (it->second.key && entries_.contains(ParentPath(it->first)));  // parents went first
    it = stays ? std::next(it) : Drop(it, changes);
  }
  for (const auto& [path, specs] : wanted) SetLimits(path, specs, /*key=*/false, changes);
  for (auto& [path, entry] : entries_) CompilePlan(entry, changes);
  Apply(std::move(changes));
  return absl::OkStatus();
}

absl::StatusOr<NodeRef> LimitTree::AddKey(const NodeSpec& node) {
  const std::scoped_lock lock(mutex_);
  if (absl::Status status = Validate(node); !status.ok()) return status;
  const std::string_view parent = ParentPath(node.path);
  if (!entries_.contains(parent)) {
    return absl::NotFoundError(
        conf::Abseil(fmt::format("no tenant \"{}\"; \"{}\" needs it as its parent", parent, node.path)));
  }
  Changes changes;
  const auto known = entries_.find(node.path);
  SetLimits(node.path, node.limits, known == entries_.end() || known->second.key, changes);
  const auto added = entries_.find(node.path);
  for (auto it = added; it != entries_.end() && it->first.starts_with(node.path); ++it) {
    if (it == added || IsUnder(it->first, node.path)) CompilePlan(it->second, changes);
  }
  Apply(std::move(changes));
  return NodeRef(added->second.node);
}

void LimitTree::KeepKeys(const std::set<std::string, std::less<>>& paths) {
  const std::scoped_lock lock(mutex_);
  Changes changes;
  for (auto it = entries_.begin(); it != entries_.end();)
    it = it->second.key && !paths.contains(it->first) ? Drop(it, changes) : std::next(it);
  Apply(std::move(changes));
}

NodeRef LimitTree::Resolve(std::string_view path) const {
  const std::scoped_lock lock(mutex_);
  const auto it = entries_.find(path);
  return it == entries_.end() ? NodeRef() : NodeRef(it->second.node);
}

ModelRef LimitTree::Model(std::string_view name) {
  const std::scoped_lock lock(mutex_);
  return Intern(name);
}

std::vector<LimitRef> LimitTree::Limits() const {
  const std::scoped_lock lock(mutex_);
  std::vector<LimitRef> limits;
  for (const auto& [path, entry] : entries_) {
    for (const auto& limit : entry.own) limits.emplace_back(entry.node->root, limit);
  }
  return limits;
}

std::vector<LimitState> LimitTree::Snapshot(conf::TimePoint now) const {
  std::vector<LimitState> states;
  for (const LimitRef& limit : Limits()) states.push_back(limit.State(now));
  return states;
}

LimitTree::Change& LimitTree::ChangeOf(const std::shared_ptr<Node>& node, Changes& changes) const {
  Change& change = changes[std::string(RootName(node->path))];
  change.root = node->root;
  return change;
}

void LimitTree::Apply(Changes changes) {
  for (auto& [name, change] : changes) {
    const std::scoped_lock lock(change.root->lock);
    for (auto& [limit, capacity] : change.capacities) limit->SetCapacity(capacity);
    for (auto& [node, plans] : change.plans)
      node->plans.swap(plans);  // the old ones are freed after the lock
  }
}

void LimitTree::SetLimits(const std::string& path, Specs specs, bool key, Changes& changes) {
  Entry& entry = entries_[path];
  entry.key = key;
  if (!entry.node) {
    const auto parent = entries_.find(ParentPath(path));
    auto root = parent == entries_.end() ? std::make_shared<Root>() : parent->second.node->root;
    entry.node = std::make_shared<Node>(std::move(root), path);
  }
  std::vector<std::shared_ptr<Limit>> own;
  for (const LimitSpec& spec : specs) {
    const auto same = std::find_if(entry.own.begin(), entry.own.end(),
                                   [&](const auto& limit) { return limit->spec().SameLimit(spec); });
    if (same == entry.own.end()) {
      own.push_back(std::make_shared<Limit>(path, spec));
    } else {
      own.push_back(*same);
      ChangeOf(entry.node, changes).capacities.emplace_back(*same, spec.capacity);
    }
  }
  entry.own = std::move(own);
}

void LimitTree::CompilePlan(Entry& entry, Changes& changes) {
  const auto parent = entries_.find(ParentPath(entry.node->path));
  const std::shared_ptr<const PlanSet> inherited = parent == entries_.end() ? nullptr : parent->second.plans;
  if (entry.own.empty() && inherited) {
    entry.plans = inherited;
  } else {
    auto plans = std::make_shared<PlanSet>();
    plans->root = entry.node->root;
    plans->parent = inherited;
    plans->own = entry.own;
    plans->any_model = PlanFor({}, entry.own, inherited ? &inherited->any_model : nullptr);
    const auto add = [&](std::string_view name) {
      const ModelRef model = Intern(name);
      for (const auto& [ref, plan] : plans->by_model) {
        if (ref == model) return;
      }
      plans->by_model.emplace_back(model,
                                   PlanFor(name, entry.own, inherited ? &inherited->For(model) : nullptr));
    };
    for (const PlanSet* up = plans.get(); up != nullptr; up = up->parent.get()) {
      for (const auto& limit : up->own) {
        if (!limit->spec().model.empty()) add(limit->spec().model);
      }
    }
    entry.plans = std::move(plans);
  }
  ChangeOf(entry.node, changes).plans.emplace_back(entry.node, entry.plans);
}

LimitTree::Entries::iterator LimitTree::Drop(Entries::iterator entry, Changes& changes) {
  ChangeOf(entry->second.node, changes).plans.emplace_back(entry->second.node, nullptr);
  return entries_.erase(entry);
}

ModelRef LimitTree::Intern(std::string_view name) {
  const auto it = models_.find(name);
  if (it != models_.end()) return it->second;
  const auto next = static_cast<ModelRef>(models_.size() + 1);
  return models_.emplace(std::string(name), next).first->second;
}

}  // namespace router::limits
