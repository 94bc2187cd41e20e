// LoRA adapters that are loaded and unloaded while the engine runs: vLLM's paths, and SGLang's.
//
// An adapter is a folder with adapter_config.json, as both engines expect; a path that is not absolute names one of
// the Hugging Face hub, and counts as found. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/net/loop.h"
#include "tools/engine/engine.h"
#include "tools/engine/options.h"
#include "tools/engine/reply.h"
#include "tools/engine/stats.h"

namespace tidegate_engine {

class LoraPaths {
 public:
  // The adapters are `options.loras`; the name of an unloaded one becomes empty, so that the others keep their
  // numbers.
  LoraPaths(gateway::net::Loop& loop, Options& options, const Engine& engine, Stats& stats)
      : loop_(loop), options_(options), engine_(engine), stats_(stats) {}

  bool enabled() const { return options_.loads_loras || !options_.loras.empty(); }
  Task<bool> Serve(Exchange& exchange, Api api);
  // "/adapters/NAME" for one that was there from the start; empty: there is no such adapter.
  std::string SourceOf(std::string_view name) const;

 private:
  Task<bool> Load(Exchange& exchange, const std::string& name, const std::string& path);
  Task<bool> Unload(Exchange& exchange, const std::string& name);
  Task<bool> Refuse(Exchange& exchange, int status, std::string why);
  Task<bool> Done(Exchange& exchange, std::string_view what, const std::string& name);

  gateway::net::Loop& loop_;
  Options& options_;
  const Engine& engine_;
  Stats& stats_;
};

}  // namespace tidegate_engine
