// GatewayView: a store that several gateways share, as one of them sees it.
//
// Some kinds belong to one gateway's ledger and machine: positions of its readers, its last checkpoint,
// events that wait for it. Their ids carry the gateway: this view adds the gateway's id when it writes, and
// shows that gateway's objects alone, without it. All other kinds are the same for every gateway.
//
// Thread: the store's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/store/store.h"

namespace gateway::store {

// Whether objects of that kind belong to one gateway.
bool IsOfGateway(std::string_view kind);
// "ID@GATEWAY", and back; empty: the id belongs to another gateway.
std::string IdOfGateway(std::string_view id, std::string_view gateway);
std::optional<std::string> WithoutGateway(std::string_view id, std::string_view gateway);

class GatewayView final : public Store {
 public:
  GatewayView(std::unique_ptr<Store> store, std::string gateway)
      : store_(std::move(store)), gateway_(std::move(gateway)) {}

  net::Task<absl::StatusOr<std::optional<Object>>> Get(std::string kind, std::string id) override;
  net::Task<absl::StatusOr<Listing>> List(std::string kind) override;
  // Only for kinds that are the same for every gateway.
  net::Task<absl::StatusOr<Listing>> ListPage(std::string kind, std::string after, size_t limit) override;
  net::Task<absl::StatusOr<ChangeList>> Changes(std::string kind, uint64_t after) override;
  net::Task<absl::StatusOr<Committed>> Commit(std::vector<Write> writes, uint64_t epoch) override;
  net::Task<absl::StatusOr<Lead>> Campaign(std::string holder, std::string about,
                                           conf::Duration ttl) override {
    return store_->Campaign(std::move(holder), std::move(about), ttl);
  }
  net::Task<absl::StatusOr<Lead>> Leader() override { return store_->Leader(); }
  net::Task<absl::Status> SkipTo(uint64_t number) override { return store_->SkipTo(number); }
  net::Task<absl::Status> Resign(std::string holder, uint64_t epoch) override {
    return store_->Resign(std::move(holder), epoch);
  }
  void Add(Listener& listener) override { store_->Add(listener); }
  void Remove(Listener& listener) override { store_->Remove(listener); }

 private:
  const std::unique_ptr<Store> store_;
  const std::string gateway_;
};

}  // namespace gateway::store
