// AdminServer: the listener for operators: liveness, readiness, metrics and the admin API.
//
// What reads the disk runs on a thread of its own, one at a time, and a long search in steps, between which
// others have their turn; the rest runs on the loop.
// Owner: the Process, on its control loop; destroyed after the loop's tasks have ended. Thread: the loop's.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>

#include "gateway/admin/leader_calls.h"
#include "gateway/admin/read_records.h"
#include "gateway/admin/route.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/http/server.h"
#include "gateway/net/tls_holder.h"

namespace gateway::admin {

class AdminServer {
 public:
  // People sign in, and get pages and the calls of the API that their roles give. Metrics, health and keys are for
  // the listener for everyone.
  enum class Audience : uint8_t { kEveryone, kPeople };

  // `operations` and `tls` (null: plain) must outlive it.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Listen(net::Loop& loop, const Operations& operations,
                                                             const config::Address& address,
                                                             const net::TlsHolder* tls,
                                                             Audience audience = Audience::kEveryone);

  uint16_t port() const { return server_->port(); }

  // A call that another gateway has passed to this one, which leads.
  net::Task<Answer> Serve(PassedCall passed);

  // Ends every connection, after the request that it is at.
  void Close();

 private:
  AdminServer(net::Loop& loop, const Operations& operations, bool secure, Audience audience)
      : loop_(loop), operations_(operations), secure_(secure), audience_(audience), reads_(kMaxWaiting) {}

  static constexpr size_t kMaxWaiting = 64;

  net::Task<void> Serve(net::http::Exchange& exchange);
  size_t BodyLimit(const net::http::Head& head) const;
  std::variant<Caller, api::ApiError> CallerOf(const net::http::Head& head, const Config& config,
                                               conf::TimePoint now) const;
  bool LimitStranger(const Call& call, Answer& answer) const;
  std::optional<WebPage> FindPage(const net::http::Exchange& exchange) const;
  net::Task<Answer> AnswerTo(net::http::Exchange& exchange, Call& call);
  net::Task<Answer> RunChecked(const Route& route, std::string_view query, std::string_view body, Call& call);
  net::Task<Answer> RunRoute(const Route& route, const Call& call);
  net::Task<bool> ReadInTurn(std::function<void()> work);

  net::Loop& loop_;
  const Operations& operations_;
  const bool secure_;  // it speaks TLS
  const Audience audience_;
  net::AsyncMutex reads_;
  ReadRecords read_records_{operations_};
  std::unique_ptr<net::http::Server> server_;
};

}  // namespace gateway::admin
