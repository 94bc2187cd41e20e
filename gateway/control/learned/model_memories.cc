#include "gateway/control/learned/model_memories.h"

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

constexpr size_t kWritesAtOnce = 64;

}  // namespace

net::Task<absl::Status> ModelMemories::Load() {
  if (loaded_) co_return absl::OkStatus();
  const absl::StatusOr<store::Listing> listing = co_await store_.List(store::kModelMemory);
  if (!listing.ok()) co_return listing.status();
  const std::vector<std::string> models = env_.models();
  for (const store::Object& object : listing->objects) {
    versions_[object.id] = object.version;
    if (std::ranges::find(models, object.id) == models.end()) continue;
    const absl::StatusOr<ModelMemory> memory = ReadModelMemory(object.id, object.body);
    if (memory.ok()) {
      env_.recall(object.id, *memory);
    } else {
      log::Warn("the law of a model learns anew",
                {{"model", object.id}, {"why", conf::Std(memory.status().message())}});
    }
  }
  loaded_ = true;
  next_ = context_.now() + kEvery;
  co_return absl::OkStatus();
}

void ModelMemories::Tick() {
  if (saving_ || !loaded_ || context_.now() < next_) return;
  saving_ = true;
  context_.spawn(SaveInTurn());
}

net::Task<void> ModelMemories::SaveInTurn() {
  co_await Save();
  next_ = context_.now() + kEvery;
  saving_ = false;
}

std::vector<store::Write> ModelMemories::Changes() const {
  std::vector<store::Write> writes;
  const std::vector<std::string> models = env_.models();
  for (const std::string& model : models) {
    const auto there = versions_.find(model);
    writes.push_back({.kind = store::kModelMemory,
                      .id = model,
                      .replaces = there == versions_.end() ? 0 : there->second,
                      .body = BodyOf(env_.learned(model))});
  }
  for (const auto& [model, version] : versions_) {
    if (std::ranges::find(models, model) == models.end())
      writes.push_back({.kind = store::kModelMemory, .id = model, .replaces = version, .body = std::nullopt});
  }
  return writes;
}

net::Task<void> ModelMemories::Save() {
  if (!loaded_) co_return;
  std::vector<store::Write> left = Changes();
  while (!left.empty()) {
    const size_t count = std::min(left.size(), kWritesAtOnce);
    const std::vector<store::Write> writes(left.end() - static_cast<std::ptrdiff_t>(count), left.end());
    left.resize(left.size() - count);
    const absl::StatusOr<store::Committed> committed =
        co_await store_.Commit(writes, context_.shared ? context_.epoch : 0);
    if (!committed.ok()) {
      // Only the next process would use it.
      log::Warn("what scaling has learned is not stored yet",
                {{"why", conf::Std(committed.status().message())}});
      co_return;
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      if (writes[i].body) {
        versions_[writes[i].id] = committed->VersionOf(i);
      } else {
        versions_.erase(writes[i].id);
      }
    }
  }
}

}  // namespace gateway::control
