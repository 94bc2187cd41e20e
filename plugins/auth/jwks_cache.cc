#include "plugins/auth/jwks_cache.h"

#include <algorithm>

namespace plugins::auth {

void JwksCache::SetPolicy(const JwksPolicy& policy) {
  policy_ = policy;
  if (failures_ == 0 && last_good_) next_fetch_ = std::min(*next_fetch_, *last_good_ + policy_.refresh);
}

JwksCache::Step JwksCache::Next(conf::TimePoint now) {
  if (in_flight_until_) {
    if (now < *in_flight_until_) return {false, *in_flight_until_};
    Failed("the fetch took too long", now);
  }
  if (next_fetch_ && now < *next_fetch_) return {false, *next_fetch_};
  last_start_ = now;
  in_flight_until_ = now + policy_.fetch_timeout;
  return {true, *in_flight_until_};
}

absl::Status JwksCache::Loaded(std::string_view text, conf::TimePoint now) {
  const Digest document = Sha256(text);
  if (published_.keys != nullptr && document == document_) {
    Succeeded(now);
    return absl::OkStatus();
  }
  absl::StatusOr<JwkSet> set = JwkSet::Parse(text);
  absl::Status problem = set.status();
  if (set.ok() && set->keys().empty()) {
    problem = absl::InvalidArgumentError("the key set holds no usable key");
  }
  if (!problem.ok()) {
    Failed(std::string_view(problem.message().data(), problem.message().size()), now);
    return problem;
  }
  published_.keys = std::make_shared<const JwkSet>(*std::move(set));
  ++published_.generation;
  document_ = document;
  Succeeded(now);
  return absl::OkStatus();
}

void JwksCache::Unchanged(conf::TimePoint now) {
  if (published_.keys == nullptr) return Failed("the source says \"unchanged\" before it gave any keys", now);
  Succeeded(now);
}

void JwksCache::Failed(std::string_view why, conf::TimePoint now) {
  constexpr uint32_t kMostDoublings = 30;
  conf::Duration wait = policy_.first_backoff;
  for (uint32_t i = 0; i < std::min(failures_, kMostDoublings) && wait < policy_.max_backoff; ++i) wait *= 2;
  ++failures_;
  ++all_failures_;
  last_error_ = why;
  in_flight_until_.reset();
  next_fetch_ = now + std::min(wait, policy_.max_backoff);
}

void JwksCache::UnknownKid(conf::TimePoint now) {
  if (in_flight_until_ || failures_ > 0) return;  // under way, or the back-off decides
  const conf::TimePoint earliest =
      last_start_ ? std::max(now, *last_start_ + policy_.unknown_kid_interval) : now;
  if (next_fetch_) next_fetch_ = std::min(*next_fetch_, earliest);
}

void JwksCache::Succeeded(conf::TimePoint now) {
  last_good_ = now;
  failures_ = 0;
  last_error_.clear();
  in_flight_until_.reset();
  next_fetch_ = now + policy_.refresh;
  published_.usable_until = now + policy_.max_staleness;
}

}  // namespace plugins::auth
