// Upstream: one try of a request at one replica: connect or reuse a connection, send, read the answer's head.
//
// Owner: the exchange, or the prefill transfer for its own try. Thread: the shard's. Whatever waits here is
// the operation that the try's CancelScope aborts.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gateway/api/chat.h"
#include "gateway/net/http/pool.h"
#include "gateway/net/task.h"
#include "gateway/request/cancel_scope.h"
#include "gateway/request/failure.h"
#include "gateway/request/form_reader.h"
#include "gateway/request/outgoing_request.h"
#include "router/attempt.h"
#include "router/facts/splice.h"

namespace gateway {

// How the client's API is carried to the replica.
enum class Carry : uint8_t {
  kAsIs,
  kMessagesAsChat,
  kResponsesAsChat,
  kCountAsTokenize,
  kCountHere,  // the engine counts no tokens: the gateway estimates them, and asks nobody
};

// A refusal of the replica (400 and above), read whole, so that another replica can be tried before it is
// relayed.
struct UpstreamRefusal {
  int status = 0;  // 0: none
  std::string content_type;
  std::string body;
  std::optional<conf::Duration> retry_after = {};
};

// One try: where it goes, what ends it, and what it adds to the client's request.
struct UpstreamTry {
  const router::Replica& replica;
  ModelId model;                   // that serves: the replica's, or an adapter on it
  const router::Attempt& attempt;  // decides whether the replica hangs
  CancelScope& cancel;
  std::optional<conf::TimePoint> deadline;  // for the first byte
  std::string_view members = {};            // added to the body; as in router::SpliceRequest, like the next
  bool only_prompt = false;
};

class Upstream {
 public:
  // The request and what the try refers to outlive this.
  Upstream(const OutgoingRequest& request, const UpstreamTry& which);
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  // Translates the body where the replica does not speak the client's API. Fails when the request cannot be
  // said there: that is the client's fault, whatever the replica.
  std::optional<Failure> Prepare();

  // Sends the request; ends with kStatus, or with what went wrong. A refusal is read whole. `form`: of a
  // request with a form, the rest of which is read while it is sent; when that fails the event is
  // kClientGone, and the form has the failure.
  net::Task<router::Event> Send(bool fresh_connection, conf::TimePoint now, FormReader* form = nullptr);

  Carry carry() const { return carry_; }
  // Whether the engine's cache keeps the prompts of the caller's cache domain apart.
  bool salted() const {
    return !CacheSalt(carry_ == Carry::kAsIs ? request_.identity.spec->api : router::Api::kChatCompletions)
                .empty();
  }
  const api::ChatRequest& chat() const { return chat_; }
  net::http::ClientConnection& connection() { return *connection_; }
  const UpstreamRefusal& refusal() const { return refusal_; }
  // The answer is this refusal, which another replica gave.
  void SetRefusal(UpstreamRefusal refusal) { refusal_ = std::move(refusal); }
  // When the request was written, and when the answer's head was read; none: not yet.
  const std::optional<conf::TimePoint>& sent() const { return sent_; }
  const std::optional<conf::TimePoint>& answered() const { return answered_; }

  // The exchange with the replica is over; the connection goes back to its pool if it can carry another.
  void Release(conf::TimePoint now);
  void Abort() {
    if (connection_) connection_->Abort();
  }

 private:
  void TakeIdle(conf::TimePoint now);
  net::Task<router::Event> Connect(conf::TimePoint now);
  net::Task<router::Event> ReadAnswer();
  net::Task<router::Event> StreamForm(FormReader& form);
  net::Task<net::IoResult> SendFormSoFar(Client& client, bool chunked);
  net::Task<net::IoResult> SendFormPiece(Client& client, std::string_view piece, bool chunked);
  void RenderHead(size_t body_size, bool chunked);
  // What keeps the caller's prompts apart in the engine's cache, as the engine is asked by `api`; or nothing.
  std::string_view CacheSalt(router::Api api) const;
  size_t PlanJsonBody(std::span<net::ConstBuffer> pieces);
  router::ReplicaState& state() const { return request_.runtime->load()[try_.replica.id]; }
  // Whether the body asks for usage although the client did not, ...
  bool AddsUsageOption(conf::TimePoint now) const;
  // ... and the replica has refused it for that.
  bool RefusesUsageOption(const router::Event& event) const;
  // How the request went that did without.
  void NoteUsageRefused(const router::Event& again);
  // The time by which the replica must have taken what is written, or have begun its answer.
  conf::TimePoint ReplyDeadline(conf::TimePoint now) const;
  router::Event Lost(net::http::ClientConnection::Status status) const;
  router::Event Lost(const net::IoResult& write) const { return Lost(connection_->StatusOf(write.error)); }

  const OutgoingRequest request_;
  const UpstreamTry try_;
  const ModelRuntime& model_;
  const router::UpstreamName name_;
  const ReplicaRuntime& replica_;
  Carry carry_ = Carry::kAsIs;
  bool asks_usage_ = false;  // the body that is sent asks for it
  api::ChatRequest chat_;    // the translated body
  router::SplicePlan splices_;
  std::string head_;
  std::shared_ptr<net::http::Pool> pool_;
  std::unique_ptr<net::http::ClientConnection> connection_;
  UpstreamRefusal refusal_;
  std::optional<conf::TimePoint> sent_;
  std::optional<conf::TimePoint> answered_;
};

}  // namespace gateway
