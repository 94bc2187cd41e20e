// JobServer: serves the APIs of the model: makes a job of a request, runs it, and answers it whole or event
// by event; and the faults that show only then.
//
// Owner: the Service. One thread. A request's coroutine owns its Job; when the client leaves, in any phase,
// the job leaves the model at once, and the coroutine ends.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/net/loop.h"
#include "tools/engine/engine.h"
#include "tools/engine/fault.h"
#include "tools/engine/options.h"
#include "tools/engine/prompt_transfer.h"
#include "tools/engine/protocol.h"
#include "tools/engine/pump.h"
#include "tools/engine/reply.h"

namespace tidegate_engine {

class JobServer {
 public:
  // All outlive this.
  JobServer(gateway::net::Loop& loop, const Options& options, Engine& engine, Pump& pump,
            PromptTransfer& transfer, Stats& stats, Draw& ids);

  // Answers a request with a JSON body.
  Task<void> Serve(Exchange& exchange, Api api, Request request, const std::optional<Fault>& fault);
  // Answers a form with a file (transcriptions, image edits): the model runs over its bytes and the prompt.
  Task<void> ServeForm(Exchange& exchange, Api api, const std::optional<Fault>& fault);

 private:
  Task<bool> Count(Exchange& exchange, const Counting& request);
  Task<void> Generate(Exchange& exchange, Api api, Generation generation, Job& job,
                      const std::optional<Fault>& fault);
  Task<void> Run(Exchange& exchange, Job& job, std::function<std::string()> body,
                 std::string_view content_type, const std::optional<Fault>& fault);
  Task<void> AwaitEnd(Job& job);
  Task<void> Stream(Exchange& exchange, Job& job, const std::optional<Fault>& fault);
  Task<void> BreakStream(Exchange& exchange, Job& job, const Fault& fault, Events& out);
  Task<void> BreakAnswer(Exchange& exchange, const Fault& fault, std::string_view body);
  Task<bool> SlowHead(Exchange& exchange, std::string head, uint32_t milliseconds);
  void Prepare(Api api, Job& job, std::string_view model, const std::optional<Fault>& fault);
  void AddPrompts(const std::vector<Prompt>& prompts, uint32_t n, bool answers, Job& job);

  gateway::net::Loop& loop_;
  const Options& options_;
  Engine& engine_;
  Pump& pump_;
  PromptTransfer& transfer_;
  Stats& stats_;
  Draw& ids_;
};

}  // namespace tidegate_engine
