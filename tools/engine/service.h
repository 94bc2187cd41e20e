// Service: every endpoint of the engine, over one loop. One thread.
//
// Each request is a coroutine of the HTTP server that owns its Job; the client's leaving takes the job out of
// the model at once, in every phase, and ends the coroutine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/net/http/server.h"
#include "gateway/net/loop.h"
#include "tools/engine/engine.h"
#include "tools/engine/fault.h"
#include "tools/engine/kv_publisher.h"
#include "tools/engine/options.h"
#include "tools/engine/protocol.h"
#include "tools/engine/pump.h"
#include "tools/engine/stats.h"

namespace tidegate_engine {

class Service {
 public:
  using Exchange = gateway::net::http::Exchange;
  template <class T = void>
  using Task = gateway::net::Task<T>;

  Service(gateway::net::Loop& loop, Options options);

  Task<void> Handle(Exchange& exchange);
  // Asked for each connection; false closes it unheard.
  bool Admit() { return !faults_.PickRefusal(); }
  void SetConnections(std::function<size_t()> count) { connections_ = std::move(count); }
  // From the first request on; `publisher` outlives the service's work. Needs Options::kv_events.
  void PublishKvEvents(KvPublisher& publisher);
  // Where other engines reach this one.
  void SetAddress(std::string host, uint16_t port);
  void Stop() { pump_.Stop(); }

 private:
  // service.cc: what needs no model.
  Task<bool> Reply(Exchange& exchange, std::string body);
  Task<bool> Fail(Exchange& exchange, Api api, const ApiError& error);
  Task<void> Dispatch(Exchange& exchange, Api api, std::string_view rest, const std::optional<Fault>& fault);
  std::optional<ApiError> CheckMethod(Api api, std::string_view method) const;
  std::optional<ApiError> CheckModel(std::string_view model) const;
  Task<bool> Models(Exchange& exchange, std::string_view id);
  Task<bool> Count(Exchange& exchange, const Counting& request);
  Task<bool> ChangeFaults(Exchange& exchange);
  // True when the fault has answered in the request's place.
  Task<bool> FailEarly(Exchange& exchange, Api api, const Fault& fault);
  Task<void> AwaitLeaving(Exchange& exchange);

  // service_handover.cc: prompts that come from other engines, or go there.
  std::optional<ApiError> CheckHandover(const Generation& request) const;
  // Its answers are one token that nobody reads: SGLang's prefill engines.
  bool OnlyPrefills() const {
    return options_.handover.role == Role::kPrefill && options_.handover.kind == HandoverKind::kBootstrap;
  }
  std::shared_ptr<Room> RoomOf(uint64_t id);
  Task<std::optional<ApiError>> Receive(Exchange& exchange, Job& job);
  Task<std::optional<ApiError>> Offer(Exchange& exchange, Job& job);
  Task<void> HandOver(Exchange& exchange);

  // service_jobs.cc: what goes through it.
  Task<void> Serve(Exchange& exchange, Api api, Request request, const std::optional<Fault>& fault);
  Task<void> ServeForm(Exchange& exchange, Api api, const std::optional<Fault>& fault);
  Task<void> Run(Exchange& exchange, Job& job, std::function<std::string()> body,
                 std::string_view content_type, const std::optional<Fault>& fault);
  Task<void> AwaitEnd(Job& job);
  Task<void> Stream(Exchange& exchange, Job& job, const std::optional<Fault>& fault);
  bool Render(Job& job, const Protocol& protocol, uint64_t until, uint64_t& sent, Events& out);
  Task<void> BreakStream(Exchange& exchange, Job& job, const Fault& fault, Events& out);
  Task<void> BreakAnswer(Exchange& exchange, const Fault& fault, std::string_view body);
  Task<bool> SlowHead(Exchange& exchange, std::string head, uint32_t milliseconds);
  void Prepare(Api api, Job& job, std::string_view model, const std::optional<Fault>& fault);
  void AddPrompts(const std::vector<Prompt>& prompts, uint32_t n, bool answers, Job& job);

  gateway::net::Loop& loop_;
  Options options_;
  Engine engine_;
  Pump pump_;
  Faults faults_;
  Stats stats_;
  Draw ids_;
  std::string host_;
  uint16_t port_ = 0;
  std::string engine_id_;
  Held held_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Room>> rooms_;  // of requests that are under way
  HandoverCounts handovers_;
  std::function<size_t()> connections_ = [] { return size_t{0}; };
  int64_t started_;
};

}  // namespace tidegate_engine
