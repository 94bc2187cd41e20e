#include "plugins/weights/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"
#include "plugins/weights/credentials.h"
#include "plugins/weights/digest.h"
#include "plugins/weights/neighbour_document.h"
#include "plugins/weights/progress.h"

namespace plugins::weights {
namespace {

constexpr size_t kLongestDocument = 64U << 20;

}  // namespace

Neighbours::Neighbours(const WeightsOrder& order, std::function<void(std::string_view)> say)
    : order_(order),
      hex_(HexOfDigest(order.digest).value_or(std::string())),
      credentials_(BearerOf(order.access.token)),
      say_(std::move(say)) {
  for (std::string url : order.neighbours) {
    while (url.ends_with('/')) url.pop_back();
    all_.push_back({.url = std::move(url)});
  }
}

gateway::net::Task<absl::StatusOr<FilePlan>> Neighbours::Plan(Web& web) {
  for (std::optional<size_t> at = Next(0); at; at = Next(*at + 1)) {
    const std::string url = all_[*at].url + NeighbourPath(hex_);
    WebRequest request{.url = url, .credentials = credentials_};
    const absl::StatusOr<WebAnswer> answer = co_await web.Ask(std::move(request), kLongestDocument);
    absl::StatusOr<FilePlan> plan =
        answer.ok() ? PlanOfDocument(answer->body, order_.digest, order_.source, ShownUrl(url))
                    : answer.status();
    if (plan.ok()) plan = Checked(*std::move(plan), url);
    if (plan.ok()) co_return plan;
    Leave(*at, plan.status());
  }
  co_return absl::NotFoundError("no neighbour has the weights");
}

std::optional<size_t> Neighbours::Next(size_t at) const {
  const std::scoped_lock lock(mutex_);
  for (; at < all_.size(); ++at) {
    if (all_[at].asked) return at;
  }
  return std::nullopt;
}

WebRequest Neighbours::RequestFor(size_t neighbour, std::string_view sha256) const {
  return {.url = fmt::format("{}{}", all_[neighbour].url, NeighbourPath(hex_, sha256)),
          .credentials = credentials_};
}

void Neighbours::Leave(size_t neighbour, const absl::Status& why) {
  const std::scoped_lock lock(mutex_);
  Neighbour& left = all_[neighbour];
  left.wrong |= absl::IsDataLoss(why);
  if (!std::exchange(left.asked, false)) return;
  std::string text = absl::IsNotFound(why)
                         ? fmt::format("the neighbour {} does not have the weights", ShownUrl(left.url))
                         : fmt::format("the neighbour {} is not asked again: {}", ShownUrl(left.url),
                                       conf::Std(why.message()));
  if (left.wrong) text += "; tidegate weights verify on that node shows whether its files are damaged";
  say_(text);
  if (!absl::IsNotFound(why)) notes_.push_back(text.substr(0, FetchProgress::kLongestNote));
}

bool Neighbours::IsWrong(size_t neighbour) const {
  const std::scoped_lock lock(mutex_);
  return all_[neighbour].wrong;
}

std::vector<std::string> Neighbours::notes() const {
  const std::scoped_lock lock(mutex_);
  return notes_;
}

}  // namespace plugins::weights
