// Upstream: one try of a request at one replica: connect or reuse, send, read the answer's head.
//
// Owner: the exchange. Thread: its shard's. Whatever waits here is what the client's leaving aborts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gateway/api/chat.h"
#include "gateway/exchange.h"
#include "gateway/handover/hop.h"
#include "gateway/net/http/pool.h"
#include "gateway/net/task.h"
#include "router/splice.h"

namespace gateway {

// How the client's API is carried to this replica.
enum class Carry : uint8_t {
  kAsIs,
  kMessagesAsChat,
  kResponsesAsChat,
  kCountAsTokenize,
};

// What a request says beyond what its client did, in a pool that computes prompts apart.
struct UpstreamEdit {
  std::string_view members = {};  // as in router::SpliceRequest, like the next
  bool only_prompt = false;
  handover::Hop* hop = nullptr;  // it is the hop's try, not the answer's
};

class Upstream {
 public:
  // `model`: the one that serves, of this replica's or of an adapter on it.
  Upstream(Exchange& x, const router::Replica& route, ModelId model, const UpstreamEdit& edit = {});
  ~Upstream();

  // Sends the request; ends with kStatus, or with what went wrong. An answer of 400 and above is read whole
  // into refusal().
  net::Task<router::Event> Send(bool fresh_connection, conf::TimePoint now);

  // Sets x.error and returns false when the request cannot be said in the replica's API.
  bool Prepare();

  Carry carry() const { return carry_; }
  const api::ChatRequest& chat() const { return chat_; }
  net::http::ClientConnection& connection() { return *connection_; }
  const UpstreamRefusal& refusal() const { return refusal_; }
  void Refuse(UpstreamRefusal refusal) { refusal_ = std::move(refusal); }

  // The exchange with the replica is over; the connection goes back to its pool if it can carry another.
  void Release(conf::TimePoint now);
  void Abort() {
    if (connection_) connection_->Abort();
  }

 private:
  net::Task<router::Event> Connect(bool fresh, conf::TimePoint now);
  net::Task<router::Event> WriteRequest();
  net::Task<router::Event> ReadAnswer();
  net::Task<router::Event> StreamForm();
  net::Task<net::IoResult> SendFormSoFar(bool chunked);
  net::Task<net::IoResult> SendFormPiece(std::string_view piece, bool chunked);
  void SetWaiting(net::Abortable* what);
  bool given_up() const;
  void RenderHead(size_t body_size, bool chunked);
  size_t PlanJsonBody(std::span<net::ConstBuffer> pieces);
  // By when the replica must have taken what is written, or begun its answer.
  conf::TimePoint Patience() const;
  router::Event Lost(net::http::ClientConnection::Status status) const;
  router::Event Lost(const net::IoResult& write) const { return Lost(connection_->StatusOf(write.error)); }

  Exchange& x_;
  const ModelRuntime& model_;
  const router::UpstreamName name_;
  const ReplicaRuntime& replica_;
  const UpstreamEdit edit_;
  Carry carry_ = Carry::kAsIs;
  api::ChatRequest chat_;  // the body, where it is translated
  router::SplicePlan splices_;
  std::string head_;
  std::shared_ptr<net::http::Pool> pool_;
  std::unique_ptr<net::http::ClientConnection> connection_;
  UpstreamRefusal refusal_;
};

}  // namespace gateway
