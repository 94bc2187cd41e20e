#include "gateway/store/gateway_view.h"

#include <algorithm>
#include <utility>

#include "gateway/store/kinds.h"

namespace gateway::store {

bool IsOfGateway(std::string_view kind) {
  return std::ranges::any_of(kKindsOfGateway, [kind](const char* one) { return kind == one; });
}

std::string IdOfGateway(std::string_view id, std::string_view gateway) {
  return std::string(id).append("@").append(gateway);
}

std::optional<std::string> WithoutGateway(std::string_view id, std::string_view gateway) {
  if (id.size() <= gateway.size() + 1 || !id.ends_with(gateway)) return std::nullopt;
  id.remove_suffix(gateway.size());
  if (id.back() != '@') return std::nullopt;
  return std::string(id.substr(0, id.size() - 1));
}

net::Task<absl::StatusOr<std::optional<Object>>> GatewayView::Get(std::string kind, std::string id) {
  if (!IsOfGateway(kind)) co_return co_await store_->Get(std::move(kind), std::move(id));
  absl::StatusOr<std::optional<Object>> found =
      co_await store_->Get(std::move(kind), IdOfGateway(id, gateway_));
  if (found.ok() && *found) (*found)->id = std::move(id);
  co_return found;
}

net::Task<absl::StatusOr<Listing>> GatewayView::List(std::string kind) {
  const bool mine = IsOfGateway(kind);
  absl::StatusOr<Listing> all = co_await store_->List(std::move(kind));
  if (!mine || !all.ok()) co_return all;
  std::erase_if(all->objects, [this](Object& object) {
    std::optional<std::string> id = WithoutGateway(object.id, gateway_);
    if (id) object.id = *std::move(id);
    return !id;
  });
  std::ranges::sort(all->objects, {}, &Object::id);
  co_return all;
}

net::Task<absl::StatusOr<Listing>> GatewayView::ListPage(std::string kind, std::string after, size_t limit) {
  if (IsOfGateway(kind))
    co_return absl::InvalidArgumentError("objects of one gateway cannot be listed page by page");
  co_return co_await store_->ListPage(std::move(kind), std::move(after), limit);
}

net::Task<absl::StatusOr<ChangeList>> GatewayView::Changes(std::string kind, uint64_t after) {
  const bool mine = IsOfGateway(kind);
  absl::StatusOr<ChangeList> list = co_await store_->Changes(std::move(kind), after);
  if (!mine || !list.ok()) co_return list;
  std::erase_if(list->changes, [this](Change& change) {
    std::optional<std::string> id = WithoutGateway(change.id, gateway_);
    if (id) change.id = *std::move(id);
    return !id;
  });
  co_return list;
}

net::Task<absl::StatusOr<Committed>> GatewayView::Commit(std::vector<Write> writes, uint64_t epoch) {
  for (Write& write : writes) {
    if (IsOfGateway(write.kind)) write.id = IdOfGateway(write.id, gateway_);
  }
  co_return co_await store_->Commit(std::move(writes), epoch);
}

}  // namespace gateway::store
