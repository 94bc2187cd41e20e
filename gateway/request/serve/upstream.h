// Upstream: one try of a request at one replica: connect or reuse a connection, send, read the answer's head.
//
// Owner: the exchange, or the prefill transfer for its own try. Thread: the shard's. The try's CancelScope aborts
// any wait here.
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

// How the client's request is sent to the replica: in which API.
enum class Carry : uint8_t {
  kAsIs,
  kMessagesAsChat,
  kResponsesAsChat,
  kCountAsTokenize,
  kCountHere,  // not sent: the engine cannot count tokens, so the gateway estimates their number
};

// A replica's refusal (status 400 and above). It is read whole, so that another replica can be tried before it is
// relayed.
struct UpstreamRefusal {
  int status = 0;  // 0: none
  std::string content_type;
  std::string body;
  std::optional<conf::Duration> retry_after = {};
};

// One try: its replica, what can end it, and what it adds to the client's request.
struct UpstreamTry {
  const router::Replica& replica;
  ModelId model;                   // the model that serves: the replica's, or an adapter on it
  const router::Attempt& attempt;  // decides whether the replica hangs
  CancelScope& cancel;
  std::optional<conf::TimePoint> deadline;  // for the first byte
  // As in router::SpliceRequest:
  std::string_view members = {};  // added to the body
  bool only_prompt = false;
};

class Upstream {
 public:
  // The request and what the try refers to outlive this.
  Upstream(const OutgoingRequest& request, const UpstreamTry& which);
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  // Whether the replica does not speak the client's API: then TranslateBody() comes before Send().
  bool translates() const { return carry_ != Carry::kAsIs; }
  // Fails if the request cannot be translated; that is the client's fault, and another replica would not help.
  net::Task<std::optional<Failure>> TranslateBody();

  // Sends the request and reads the answer's head; returns kStatus, or what went wrong. A refusal is read whole.
  // `form` reads the rest of a form while it is sent; if that fails, the event is kClientGone, and the form has
  // the failure.
  net::Task<router::Event> Send(bool fresh_connection, conf::TimePoint now, FormReader* form = nullptr);

  Carry carry() const { return carry_; }
  // Whether the engine's cache keeps the prompts of different cache domains apart.
  bool salted() const {
    return !CacheSalt(carry_ == Carry::kAsIs ? request_.identity.spec->api : router::Api::kChatCompletions)
                .empty();
  }
  const api::ChatRequest& chat() const { return chat_; }
  net::http::ClientConnection& connection() { return *connection_; }
  const UpstreamRefusal& refusal() const { return refusal_; }
  // Uses this refusal, which another replica gave, as the answer.
  void SetRefusal(UpstreamRefusal refusal) { refusal_ = std::move(refusal); }
  // When the request was written, and when the answer's head was read; none: not yet.
  const std::optional<conf::TimePoint>& sent() const { return sent_; }
  const std::optional<conf::TimePoint>& answered() const { return answered_; }

  // Whether what came in place of an answer is not valid HTTP.
  bool not_http() const { return not_http_; }

  // Ends the exchange with the replica. The connection goes back to its pool if it can be used again.
  void Release(conf::TimePoint now);
  void Abort() {
    if (connection_) connection_->Abort();
  }

 private:
  void TakeIdle(conf::TimePoint now);
  net::Task<router::Event> Connect(conf::TimePoint now);
  net::Task<router::Event> ReadAnswer();
  // A replica may refuse a request and close before it has read all of it. Its answer says more than `write`, which
  // failed.
  net::Task<router::Event> ReadEarlyRefusal(net::IoResult write);
  net::Task<router::Event> StreamForm(FormReader& form);
  net::Task<net::IoResult> SendFormSoFar(Client& client, bool chunked);
  net::Task<net::IoResult> SendFormPiece(Client& client, std::string_view piece, bool chunked);
  void RenderHead(size_t body_size, bool chunked);
  // How the replica gets the request, by the APIs that it serves.
  Carry ChooseCarry() const;
  // Whether the replica answers `asked`, one of the APIs that count tokens.
  bool CountsItself(router::Api asked) const;
  // The body for the replica, which does not speak the client's API. Any thread.
  api::Translated<api::ChatRequest> Translate() const;
  std::optional<Failure> TakeChat(api::Translated<api::ChatRequest> made);
  // The salt that keeps the caller's prompts apart in the engine's cache; empty if requests of `api` cannot have one.
  std::string_view CacheSalt(router::Api api) const;
  size_t PlanJsonBody(std::span<net::ConstBuffer> pieces);
  router::ReplicaState& state() const { return request_.runtime->load()[try_.replica.id]; }
  // Whether the body asks for usage although the client did not.
  bool AddsUsageOption(conf::TimePoint now) const;
  // Whether the replica refused the body because it asks for usage.
  bool RefusesUsageOption(const router::Event& event) const;
  // Remembers that the replica refuses the option, if the request succeeded without it.
  void NoteUsageRefused(const router::Event& again);
  // When the replica must have read what is written, or have begun its answer.
  conf::TimePoint ReplyDeadline(conf::TimePoint now) const;
  router::Event Lost(net::http::ClientConnection::Status status);
  router::Event Lost(const net::IoResult& write) { return Lost(connection_->StatusOf(write.error)); }

  const OutgoingRequest request_;
  const UpstreamTry try_;
  const ModelRuntime& model_;
  const router::UpstreamName name_;
  const ReplicaRuntime& replica_;
  Carry carry_ = Carry::kAsIs;
  bool asks_usage_ = false;  // the sent body asks for usage
  api::ChatRequest chat_;    // the translated body
  router::SplicePlan splices_;
  std::string head_;
  std::shared_ptr<net::http::Pool> pool_;
  std::unique_ptr<net::http::ClientConnection> connection_;
  UpstreamRefusal refusal_;
  std::optional<conf::TimePoint> sent_;
  std::optional<conf::TimePoint> answered_;
  bool not_http_ = false;
};

}  // namespace gateway
