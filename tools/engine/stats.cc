#include "tools/engine/stats.h"

#include <absl/strings/escaping.h>
#include <openssl/sha.h>

#include "conf/text.h"

namespace tidegate_engine {
namespace {

std::string Sha256(std::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

}  // namespace

void Stats::Received(Api api, gateway::net::http::Exchange& exchange) {
  ++received_;
  ++by_api_[static_cast<size_t>(api)];
  method_ = exchange.method();
  target_ = exchange.head().target;
  header_count_ = exchange.head().fields.size();
  if (headers_.size() < header_count_) headers_.resize(header_count_);
  for (size_t i = 0; i < header_count_; ++i) {
    headers_[i].first = exchange.head().fields[i].name;
    headers_[i].second = exchange.head().fields[i].value;
  }
  std::string_view body = exchange.body();
  body_ = body.substr(0, kKeptBody);
  body_bytes_ = body.size();
  if (body.size() > kKeptBody) body_sha256_ = Sha256(body);
}

Json Stats::LastRequest() const {
  if (received_ == 0) return nullptr;
  Json headers = Json::array();
  for (size_t i = 0; i < header_count_; ++i) headers.push_back({headers_[i].first, headers_[i].second});
  return Json{{"method", method_},
              {"target", target_},
              {"headers", headers},
              {"body_bytes", body_bytes_},
              {"body_sha256", body_bytes_ > kKeptBody ? body_sha256_ : Sha256(body_)},
              {"body", body_},
              {"body_base64", absl::Base64Escape(conf::Abseil(body_))}};
}

std::string Stats::Render(const Engine& engine, std::span<const std::string> loras, const Faults& faults,
                          const HandoverCounts& handovers, size_t held, size_t connections) const {
  const auto& counters = engine.model().counters();
  const Ended& ended = engine.ended();
  Json by_api = Json::object();
  for (size_t api = 0; api < by_api_.size(); ++api) {
    if (by_api_[api] == 0) continue;
    Json& count = by_api[std::string(ApiName(static_cast<Api>(api)))];
    count = count.is_null() ? by_api_[api] : count.get<uint64_t>() + by_api_[api];
  }
  Json list = Json::array();
  for (const Fault& fault : faults.list()) list.push_back(ToJson(fault));
  Json loaded = Json::array();
  for (const uint32_t adapter : engine.model().adapters().Loaded()) loaded.push_back(loras[adapter - 1]);
  Json stats{{"requests",
              {{"received", received_},
               {"completed", ended.completed},
               {"cancelled", ended.cancelled() + left_hanging_},
               {"refused", refused_},
               {"faulted", faulted_},
               {"undelivered", undelivered_}}},
             {"cancelled",
              {{"waiting", ended.waiting},
               {"prefill", ended.prefill},
               {"decode", ended.decode},
               {"hanging", left_hanging_}}},
             {"running", engine.model().running()},
             {"waiting", engine.model().waiting()},
             {"kv_cache_usage", engine.model().kv_use()},
             {"tokens",
              {{"prompt", counters.prompt_tokens},
               {"generated", counters.generated_tokens},
               {"for_nobody", counters.cancelled_tokens}}},
             {"prefix_cache",
              {{"queries", counters.prefix_queries},
               {"hits", counters.prefix_hits},
               {"blocks", engine.model().kv().cached()}}},
             {"kv_events", {{"batches", engine.kv_log() == nullptr ? 0 : engine.kv_log()->batches()}}},
             {"preemptions", counters.preemptions},
             {"lora",
              {{"loads", engine.model().adapters().loads()},
               {"evictions", engine.model().adapters().evictions()},
               {"loaded", loaded}}},
             {"handover",
              {{"offered", handovers.offered},
               {"taken", handovers.taken},
               {"held", held},
               {"received", handovers.received},
               {"recomputed", handovers.recomputed}}},
             {"connections", connections},
             {"by_api", by_api},
             {"faults", list},
             {"last_request", LastRequest()}};
  // Bodies and headers need not be UTF-8; body_base64 has the exact bytes.
  return stats.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidegate_engine
