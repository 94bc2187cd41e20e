// Service: every endpoint of the engine, over one loop. One thread.
//
// Each request is a coroutine of the HTTP server. Endpoints that run the model are the JobServer's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/net/loop.h"
#include "tools/engine/engine.h"
#include "tools/engine/fault.h"
#include "tools/engine/job_server.h"
#include "tools/engine/kv_publisher.h"
#include "tools/engine/lora.h"
#include "tools/engine/options.h"
#include "tools/engine/prompt_transfer.h"
#include "tools/engine/pump.h"
#include "tools/engine/reply.h"
#include "tools/engine/sleep.h"
#include "tools/engine/stats.h"

namespace tidegate_engine {

class Service {
 public:
  Service(gateway::net::Loop& loop, Options options);

  Task<void> Handle(Exchange& exchange);
  // Called for each new connection; false closes it before it is read.
  bool Admit() { return !faults_.PickRefusal(); }
  void SetConnections(std::function<size_t()> count) { connections_ = std::move(count); }
  // Call it before the first request; `publisher` outlives the service's work. Needs Options::kv_events.
  void PublishKvEvents(KvPublisher& publisher);
  // Whether all of its gang is there: called for each request; until then the engine is loading.
  void SetComplete(std::function<bool()> complete) { complete_ = std::move(complete); }
  // The address at which other engines reach this one.
  void SetAddress(std::string host, uint16_t port) { transfer_.SetAddress(std::move(host), port); }
  void Stop() { pump_.Stop(); }

 private:
  bool Ready() const;
  Task<void> Dispatch(Exchange& exchange, Api api, std::string_view rest, const std::optional<Fault>& fault);
  bool IsAllowed(const Exchange& exchange) const;
  std::optional<ApiError> CheckMethod(Api api, std::string_view method) const;
  Task<bool> Models(Exchange& exchange, std::string_view id);
  Task<bool> ChangeFaults(Exchange& exchange);
  // True when the fault has answered in the request's place.
  Task<bool> FailEarly(Exchange& exchange, Api api, const Fault& fault);

  Options options_;  // its adapters change
  Engine engine_;
  Pump pump_;
  Faults faults_;
  Stats stats_;
  Sleep sleep_;
  LoraPaths loras_;
  Draw ids_;
  PromptTransfer transfer_;
  JobServer jobs_;
  std::function<size_t()> connections_ = [] { return size_t{0}; };
  std::function<bool()> complete_ = [] { return true; };
  int64_t started_;
};

}  // namespace tidegate_engine
