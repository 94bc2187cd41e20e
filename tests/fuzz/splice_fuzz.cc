// The bytes that a route changes in a body: the result must be a body that says what the route asked for, and
// all other bytes must be as they came.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "router/facts/body_facts.h"
#include "router/facts/splice.h"

namespace {

using namespace router;

constexpr std::string_view kSalt = "0123456789abcdef0123456789abcdef";
constexpr std::string_view kMember = "\"tidegate_fuzz\":{\"a\":[1]},";

void Require(bool holds) {
  if (!holds) std::abort();
}

SpliceRequest RequestOf(uint8_t wishes, uint8_t cap, const ApiSpec& spec) {
  SpliceRequest request;
  if (wishes & 1) request.upstream_model_json = "\"up/\\\"stream\"";
  request.ask_usage = wishes & 2;
  if (wishes & 4) request.output_cap = cap;
  if (wishes & 8 && spec.api == Api::kChatCompletions) request.bound_key = "max_completion_tokens";
  if (wishes & 16) request.members = kMember;
  if (wishes & 32) request.cache_salt = kSalt;
  request.only_prompt = wishes & 64 && !spec.bound.empty();
  return request;
}

void CheckBytes(const SplicePlan& plan, std::string_view body, std::string_view result) {
  Require(plan.splices().size() <= kMaxSplices && plan.ResultSize(body.size()) == result.size());
  size_t from = 0;
  size_t to = 0;
  for (const Splice& splice : plan.splices()) {
    Require(splice.at >= from && splice.at + splice.remove <= body.size());
    const size_t kept = splice.at - from;
    Require(body.substr(from, kept) == result.substr(to, kept));
    Require(splice.text() == result.substr(to + kept, splice.text().size()));
    from = splice.at + splice.remove;
    to += kept + splice.text().size();
  }
  Require(body.substr(from) == result.substr(to));
}

void CheckBounds(const BodyFacts& facts, int64_t cap) {
  for (const OutputBound& bound : facts.bounds)
    Require(!bound.present || (bound.value && *bound.value <= cap));
  const std::optional<int64_t> most = facts.MaxOutputTokens();
  Require(most && *most <= cap);
}

void CheckWishes(Api api, const SpliceRequest& request, const BodyFacts& before, const BodyFacts& after,
                 std::string_view result) {
  const std::string_view model =
      request.upstream_model_json.empty() ? before.model.view() : std::string_view("up/\"stream");
  Require(after.model.view() == model);
  if (!request.cache_salt.empty())
    Require(result.substr(after.cache_salt.begin + 1).starts_with(request.cache_salt));
  if (request.only_prompt) {
    Require(!after.stream);
    return CheckBounds(after, 1);
  }
  Require(after.stream == before.stream);
  if (request.output_cap && !SpecOf(api).bound.empty()) CheckBounds(after, *request.output_cap);
  const bool tells_usage = api == Api::kChatCompletions || api == Api::kCompletions;
  if (request.ask_usage && after.stream && tells_usage) Require(after.usage_asked);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FactsScanner scanner;
  if (size < 3) return 0;
  const auto api = static_cast<Api>(data[0] % kApiCount);
  const SpliceRequest request = RequestOf(data[1], data[2], SpecOf(api));
  const std::string_view body(reinterpret_cast<const char*>(data + 3), size - 3);
  BodyFacts before;
  if (scanner.Scan(body, api, before)) return 0;

  const SplicePlan plan = PlanSplices(api, before, request);
  const std::string result = plan.Apply(body);
  CheckBytes(plan, body, result);
  BodyFacts after;
  Require(!scanner.Scan(result, api, after));
  CheckWishes(api, request, before, after, result);
  return 0;
}
