// The recent load of models, and the speed of their answers.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/admin/answers/traffic.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/routing/find.h"

namespace gateway::admin {
namespace {

std::optional<answers::Quantiles> Millis(const std::optional<RecentTraffic::Quantiles>& quantiles) {
  if (!quantiles) return std::nullopt;
  return answers::Quantiles{quantiles->p50 * 1e3, quantiles->p90 * 1e3, quantiles->p99 * 1e3};
}

// The most urgent first; of a band that is configured no more, nothing.
std::vector<answers::TrafficOfClass> Classes(const RecentTraffic::Row& row, const config::Queue& queue,
                                             double seconds) {
  std::vector<answers::TrafficOfClass> all;
  for (const config::Band& band : queue.bands) {
    const auto of = std::ranges::find(row.classes, band.name, &RecentTraffic::ClassRow::name);
    if (of == row.classes.end()) continue;
    const auto rate = [seconds](uint64_t count) { return static_cast<double>(count) / seconds; };
    all.push_back({.name = of->name,
                   .requests_per_second = rate(of->requests),
                   .prompt_tokens_per_second = rate(of->prompt_tokens),
                   .refusals_per_second = rate(of->refused),
                   .first_token_ms = Millis(of->first_token),
                   .inter_token_ms = Millis(of->inter_token)});
  }
  return all;
}

}  // namespace

Answer ListTraffic(const Operations& operations, const Call& call) {
  const std::string only = call.Query("model");
  std::map<std::string, uint64_t> outstanding;
  for (const router::Replica& replica : call.runtime->routes().replicas()) {
    outstanding[call.runtime->routes().model(replica.model).spec.name] +=
        static_cast<uint64_t>(call.runtime->load()[replica.id].load.requests());
  }
  const VisibleModels visible(call);
  std::vector<answers::Traffic> all;
  for (const RecentTraffic::Row& row : operations.traffic()) {
    const std::optional<ModelId> id = call.runtime->routes().Find(row.model);
    if (!id || (!only.empty() && row.model != only) || !visible.Has(row.model)) continue;
    const double seconds = std::max(row.seconds, 1.0);
    const auto rate = [seconds](uint64_t count) { return static_cast<double>(count) / seconds; };
    all.push_back({.model = row.model,
                   .window_s = row.seconds,
                   .requests_per_second = rate(row.requests),
                   .errors_per_second = rate(row.errors),
                   .output_tokens_per_second = rate(row.output_tokens),
                   .outstanding_requests = outstanding[row.model],
                   .waiting = call.runtime->model(*id).waits->waiting(),
                   .first_token_ms = Millis(row.first_token),
                   .inter_token_ms = Millis(row.inter_token),
                   .classes = Classes(row, call.runtime->model(*id).config->queue, seconds)});
  }
  return ListPage(std::move(all), &answers::Traffic::model, call);
}

Answer ShowRoute(const Operations&, const Call& call) {
  const Config& config = call.runtime->config();
  const std::string request = call.item == "last" ? "" : call.item;
  for (const std::string& path : routing::LogPaths(config.server.state_dir, config.routing_log.files)) {
    const absl::StatusOr<std::optional<routing::LoggedRequest>> found = routing::FindRequest(path, request);
    if (!found.ok() || !*found) continue;
    return Json(answers::LoggedRoute{
        .request = (*found)->request,
        .time = (*found)->time,
        .line = {(*found)->line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)}});
  }
  return Refuse(api::Code::kNotFound,
                fmt::format("{} is not in the routing log; it has only a sample of the requests, see "
                            "routing_log.sample",
                            request.empty() ? "a request" : request),
                call.request_id);
}

}  // namespace gateway::admin
