#include "router/facts/splice.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace router {
namespace {

// `"key":` of a bound that is inserted.
std::string_view BoundPrefix(std::string_view key) {
  if (key == BoundKeyName(BoundKey::kMaxCompletionTokens)) return "\"max_completion_tokens\":";
  if (key == BoundKeyName(BoundKey::kMaxOutputTokens)) return "\"max_output_tokens\":";
  return "\"max_tokens\":";
}

void PlanUsage(const BodyFacts& facts, SplicePlan& plan) {
  if (facts.usage_asked) return;
  if (!facts.include_usage.empty()) {
    plan.Add(Splice(facts.include_usage.begin, facts.include_usage.size, "true"));
  } else if (facts.stream_options.empty()) {
    plan.Add(Splice(facts.insert_at, 0, "\"stream_options\":{\"include_usage\":true},"));
  } else if (facts.stream_options_null) {
    plan.Add(Splice(facts.stream_options.begin, facts.stream_options.size, "{\"include_usage\":true}"));
  } else {
    plan.Add(Splice(facts.stream_options.begin + 1, 0,
                    facts.stream_options_empty ? "\"include_usage\":true" : "\"include_usage\":true,"));
  }
}

void PlanBound(const BodyFacts& facts, int64_t cap, std::string_view insert_key, SplicePlan& plan) {
  bool bounded = false;
  for (size_t key = 0; key < kBoundKeyCount; ++key) {
    const OutputBound& bound = facts.bounds[key];
    if (!bound.present) continue;
    bounded =
        bounded || key != static_cast<size_t>(BoundKey::kNPredict);  // most engines do not obey that one
    if (!bound.value || *bound.value > cap) {
      plan.Add(Splice::Number(bound.range.begin, bound.range.size, "", cap, ""));
    }
  }
  if (!bounded) plan.Add(Splice::Number(facts.insert_at, 0, BoundPrefix(insert_key), cap, ","));
}

void PlanSalt(const BodyFacts& facts, std::string_view salt, SplicePlan& plan) {
  const ByteRange given = facts.cache_salt;
  if (given.empty()) {
    plan.Add(Splice::Text(facts.insert_at, 0, "\"cache_salt\":\"", salt, "\","));
  } else if (facts.cache_salt_null) {
    plan.Add(Splice::Text(given.begin, given.size, "\"", salt, "\""));
  } else {
    plan.Add(Splice::Text(given.begin + 1, 0, "", salt, "."));
  }
}

// Lets the engine generate one token, without a stream.
void PlanOnlyPrompt(const BodyFacts& facts, std::string_view own_key, SplicePlan& plan) {
  if (facts.stream) plan.Add(Splice(facts.stream_range.begin, facts.stream_range.size, "false"));
  if (!facts.stream_options.empty() && !facts.stream_options_null)
    plan.Add(Splice(facts.stream_options.begin, facts.stream_options.size, "null"));
  if (!facts.min_tokens.empty()) plan.Add(Splice(facts.min_tokens.begin, facts.min_tokens.size, "0"));
  PlanBound(facts, 1, own_key, plan);
}

}  // namespace

Splice Splice::Number(size_t at, size_t remove, std::string_view prefix, int64_t number,
                      std::string_view suffix) {
  Splice splice(at, remove, {});
  char* out = std::copy(prefix.begin(), prefix.end(), splice.inside_.data());
  out = std::to_chars(out, splice.inside_.data() + splice.inside_.size(), number).ptr;
  out = std::copy(suffix.begin(), suffix.end(), out);
  splice.inside_size_ = static_cast<uint8_t>(out - splice.inside_.data());
  return splice;
}

Splice Splice::Text(size_t at, size_t remove, std::string_view prefix, std::string_view text,
                    std::string_view suffix) {
  Splice splice(at, remove, {});
  char* out = splice.inside_.data();
  for (const std::string_view part : {prefix, text, suffix}) {
    const size_t room = static_cast<size_t>(splice.inside_.data() + splice.inside_.size() - out);
    out = std::copy_n(part.begin(), std::min(part.size(), room), out);
  }
  splice.inside_size_ = static_cast<uint8_t>(out - splice.inside_.data());
  return splice;
}

void SplicePlan::Add(const Splice& splice) {
  if (size_ == kMaxSplices) std::abort();  // each kind of change has its place in the array
  const auto end = splices_.begin() + static_cast<ptrdiff_t>(size_);
  const auto place = std::upper_bound(splices_.begin(), end, splice,
                                      [](const Splice& a, const Splice& b) { return a.at < b.at; });
  std::move_backward(place, end, end + 1);
  *place = splice;
  ++size_;
}

size_t SplicePlan::ResultSize(size_t body_size) const {
  size_t size = body_size;
  for (const Splice& splice : splices()) size = size - splice.remove + splice.text().size();
  return size;
}

size_t SplicePlan::Gather(std::string_view body, std::span<std::string_view, kMaxPieces> pieces) const {
  size_t count = 0;
  size_t at = 0;
  const auto put = [&](std::string_view piece) {
    if (!piece.empty()) pieces[count++] = piece;
  };
  for (const Splice& splice : splices()) {
    put(body.substr(at, splice.at - at));
    put(splice.text());
    at = splice.at + splice.remove;
  }
  put(body.substr(at));
  return count;
}

std::string SplicePlan::Apply(std::string_view body) const {
  std::array<std::string_view, kMaxPieces> pieces;
  const size_t count = Gather(body, pieces);
  std::string out;
  out.reserve(ResultSize(body.size()));
  for (size_t i = 0; i < count; ++i) out += pieces[i];
  return out;
}

SplicePlan PlanSplices(Api api, const BodyFacts& facts, const SpliceRequest& request) {
  SplicePlan plan;
  if (!request.upstream_model_json.empty()) {
    plan.Add(Splice(facts.model_range.begin, facts.model_range.size, request.upstream_model_json));
  }
  if (!request.members.empty()) plan.Add(Splice(facts.insert_at, 0, request.members));
  if (!request.cache_salt.empty()) PlanSalt(facts, request.cache_salt, plan);
  if (request.only_prompt) {
    PlanOnlyPrompt(facts, SpecOf(api).bound, plan);
    return plan;
  }
  const bool has_usage_option = api == Api::kChatCompletions || api == Api::kCompletions;
  if (request.ask_usage && facts.stream && has_usage_option) PlanUsage(facts, plan);
  const std::string_view own_key = SpecOf(api).bound;
  if (request.output_cap && !own_key.empty()) {
    PlanBound(facts, *request.output_cap, request.bound_key.empty() ? own_key : request.bound_key, plan);
  }
  return plan;
}

}  // namespace router
