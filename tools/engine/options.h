// The command line of tidegate-engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/engine/model.h"
#include "tools/engine/fault.h"
#include "tools/engine/gang.h"
#include "tools/engine/handover.h"
#include "tools/engine/kv_publisher.h"

namespace tidegate_engine {

struct Options {
  std::string listen = "127.0.0.1";
  uint16_t port = 0;
  std::vector<std::string> models;  // the first is the model's own name, the others are aliases
  std::vector<std::string> loras;   // adapters, by the names that requests give as the model
  std::map<std::string, std::string, std::less<>> lora_sources;  // of those that were loaded while it ran
  bool loads_loras = false;                                      // others may be loaded while it runs
  std::optional<uint32_t> max_loaded_loras;                      // how many are loaded at a time
  scheduler::engine::Profile profile;
  uint64_t seed = 0;
  uint32_t output_tokens = 0;     // 0: drawn from the prompt
  std::vector<std::string> only;  // empty: every API
  bool report_usage = true;
  bool sleeps = false;  // as with vLLM's --enable-sleep-mode
  std::string api_key;  // required of requests below /v1; empty: none
  std::vector<Fault> faults;
  HandoverOptions handover;
  KvEventOptions kv_events;  // without a URL: none are published
  GangOptions gang;

  bool Serves(Api api) const;
  // The error for a model that the engine does not have; an empty name means its first model.
  std::optional<ApiError> CheckModel(std::string_view model) const;
};

// The options, or the exit code: 0 after --help, 2 after the message about a wrong command line.
std::optional<Options> ParseOptions(int argc, const char* const* argv, int& exit_code);

}  // namespace tidegate_engine
