#include "tools/engine/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>

#include "conf/text.h"
#include "conf/time.h"
#include "scheduler/engine/presets.h"

namespace tidegate_engine {
namespace {

using scheduler::engine::Nanos;
using scheduler::engine::Profile;

// Flags that change one field of the preset.
struct Overrides {
  std::string step_base;
  std::string step_per_sequence;
  std::string per_context_token;
  std::string load_time;
  std::string lora_load;
  std::string move_time;
  std::string reload_time;
  std::optional<uint32_t> max_loras;
  std::optional<double> prefill_rate;
  std::optional<uint32_t> max_batched_tokens;
  std::optional<uint32_t> max_running;
  std::optional<uint32_t> max_waiting;
  std::optional<uint32_t> max_model_len;
  std::optional<uint32_t> block_size;
  std::optional<uint32_t> kv_blocks;
  bool no_prefix_caching = false;
  double speed_up = 1;
};

conf::Duration DurationOf(const std::string& flag, const std::string& text) {
  auto duration = conf::ParseDuration(text);
  if (!duration)
    throw CLI::ValidationError(flag, fmt::format("\"{}\" is not a duration such as 250us or 1.5s", text));
  return *duration;
}

template <class T>
void Set(const std::optional<T>& value, T& field) {
  if (value) field = *value;
}

Profile MakeProfile(const std::string& preset, const Overrides& with) {
  auto found = scheduler::engine::FindPreset(preset);
  if (!found) {
    auto names = scheduler::engine::PresetNames();
    throw CLI::ValidationError(
        "--preset", fmt::format("unknown preset \"{}\"{}; known are {} and any MODEL-[Nx]GPU of the "
                                "tables in scheduler/engine/presets.cc",
                                preset, conf::DidYouMean(preset, names), fmt::join(names, ", ")));
  }
  Profile profile = *std::move(found);
  if (!with.step_base.empty()) profile.step_base = DurationOf("--step-base", with.step_base);
  if (!with.step_per_sequence.empty()) {
    profile.step_per_sequence = DurationOf("--step-per-sequence", with.step_per_sequence);
  }
  if (!with.per_context_token.empty()) {
    profile.per_context_token = DurationOf("--per-context-token", with.per_context_token);
  }
  if (!with.load_time.empty()) profile.load_time = DurationOf("--load-time", with.load_time);
  if (!with.move_time.empty()) profile.move_time = DurationOf("--move-time", with.move_time);
  if (!with.reload_time.empty()) profile.reload_time = DurationOf("--reload-time", with.reload_time);
  profile.lora_load = DurationOf("--lora-load", with.lora_load.empty() ? "100ms" : with.lora_load);
  profile.max_loras = with.max_loras.value_or(1);
  if (with.prefill_rate) profile.per_prefill_token = Nanos(1e9 / *with.prefill_rate);
  Set(with.max_batched_tokens, profile.max_batched_tokens);
  Set(with.max_running, profile.max_running);
  Set(with.max_waiting, profile.max_waiting);
  Set(with.max_model_len, profile.max_model_len);
  Set(with.block_size, profile.block_size);
  Set(with.kv_blocks, profile.kv_blocks);
  if (with.no_prefix_caching) profile.prefix_caching = false;
  profile = scheduler::engine::SpeedUp(std::move(profile), with.speed_up);
  return profile;
}

void AddProfileFlags(CLI::App& app, std::string& preset, Overrides& with) {
  app.add_option("--preset", preset,
                 "The preset to simulate: demo, instant, or MODEL-[Nx]GPU such as llama-3.1-8b-h100")
      ->capture_default_str();
  app.add_option("--speed-up", with.speed_up, "Divides every delay")->check(CLI::PositiveNumber);
  app.add_option("--load-time", with.load_time, "Until ready, before --speed-up; /health answers 503 (10s)");
  app.add_option(
      "--move-time", with.move_time,
      "Of its weights to host memory or back, when it falls asleep or wakes, before --speed-up (50ms)");
  app.add_option("--reload-time", with.reload_time,
                 "Of weights that a sleep of level 2 discarded, before --speed-up (300ms)");
  app.add_option("--max-loras", with.max_loras, "LoRA adapters that are loaded at a time (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--lora-load", with.lora_load, "Time of loading one, before --speed-up (100ms)");
  app.add_option("--prefill-rate", with.prefill_rate, "Prompt tokens per second")->check(CLI::PositiveNumber);
  app.add_option("--step-base", with.step_base, "Time of a step with an empty batch (10ms)");
  app.add_option("--step-per-sequence", with.step_per_sequence,
                 "Added for each sequence that decodes (100us)");
  app.add_option("--per-context-token", with.per_context_token,
                 "Added for each token of their context (50ns)");
  app.add_option("--max-batched-tokens", with.max_batched_tokens, "Token budget of a step")
      ->check(CLI::PositiveNumber);
  app.add_option("--max-running", with.max_running, "Sequences in the batch")->check(CLI::PositiveNumber);
  app.add_option("--max-waiting", with.max_waiting, "Length of the queue; beyond it 503 (0: no bound)");
  app.add_option("--max-model-len", with.max_model_len, "Prompt and output together")
      ->check(CLI::PositiveNumber);
  app.add_option("--block-size", with.block_size, "Tokens in a KV block")->check(CLI::PositiveNumber);
  app.add_option("--kv-blocks", with.kv_blocks, "KV blocks")->check(CLI::PositiveNumber);
  app.add_flag("--no-prefix-caching", with.no_prefix_caching, "Compute every prompt whole");
}

void AddGangFlags(CLI::App& app, GangOptions& gang, std::string& worker_of, std::string& join_within) {
  CLI::Option* const workers =
      app.add_option("--workers", gang.workers, "Workers that join it before it is ready; it ends with them")
          ->check(CLI::Range(1U, 1000U));
  CLI::Option* const at = app.add_option("--workers-at", gang.workers_at, "Port where they join it")
                              ->check(CLI::Range(1, 65'535));
  workers->needs(at);
  at->needs(workers);
  CLI::Option* const worker =
      app.add_option("--worker-of", worker_of,
                     "HOST:PORT where a leader's workers join it: serves nothing, joins once it has loaded, "
                     "ends with the leader");
  for (const char* const served : {"--listen", "--port", "--workers", "--kv-events", "--role"})
    worker->excludes(served);
  app.add_option("--join-within", join_within, "How long it tries to join (10m)")->needs(worker);
}

void SetLeader(const std::string& worker_of, GangOptions& gang) {
  const size_t colon = worker_of.rfind(':');
  const std::string host = worker_of.substr(0, colon);
  const auto port = conf::ReadNumber<uint16_t>(
      std::string_view(worker_of).substr(std::min(colon, worker_of.size() - 1) + 1));
  if (colon == std::string::npos || host.empty() || !port || *port == 0) {
    throw CLI::ValidationError("--worker-of",
                               fmt::format("\"{}\" is not HOST:PORT, as 10.0.0.5:30100 is", worker_of));
  }
  gang.leader_host = host;
  gang.leader_port = std::to_string(*port);
}

std::vector<std::string> ApiNames() {
  std::vector<std::string> names;
  for (const Route& route : Routes()) {
    std::string name(route.name);
    if (!route.always_served && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace

bool Options::Serves(Api api) const {
  if (only.empty() || !IsModelApi(api)) return true;
  return std::find(only.begin(), only.end(), ApiName(api)) != only.end();
}

std::optional<ApiError> Options::CheckModel(std::string_view model) const {
  const bool known =
      std::ranges::find(models, model) != models.end() || std::ranges::find(loras, model) != loras.end();
  if (model.empty() || known) return std::nullopt;
  return ApiError{.status = 404,
                  .type = {},
                  .message = fmt::format("The model `{}` does not exist.", model),
                  .param = "model"};
}

std::optional<Options> ParseOptions(int argc, const char* const* argv, int& exit_code) {
  Options options;
  Overrides overrides;
  std::string preset = "demo";
  std::vector<std::string> faults;
  bool no_usage = false;
  std::string transfer_wait;
  std::string hold_for;

  CLI::App app("An inference engine without a GPU: vLLM's API over a model of continuous batching.",
               "tidegate-engine");
  app.add_option("--listen", options.listen, "Address")->capture_default_str();
  app.add_option("--port", options.port, "Port; 0: any free one, printed once it listens")
      ->capture_default_str();
  app.add_option("--model", options.models, "Name it answers to; repeat for aliases (demo-model)");
  app.add_option("--lora", options.loras, "Names of LoRA adapters that it also serves; repeat, or a,b")
      ->delimiter(',');
  app.add_flag("--enable-lora", options.loads_loras,
               "Serve /v1/load_lora_adapter and /v1/unload_lora_adapter; with --lora they are always served");
  app.add_option("--max-loaded-loras", options.max_loaded_loras,
                 "Adapters that are loaded by these paths at a time; one more is refused")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--seed", options.seed, "Another seed gives other answers");
  app.add_option(
      "--output-tokens,--chunks", options.output_tokens,
      "Length of an answer whose request sets none; one event a token (0: 16 to 200, by the prompt)");
  app.add_option("--only", options.only, "APIs it knows; all others answer 404")
      ->delimiter(',')
      ->check(CLI::IsMember(ApiNames()));
  app.add_option("--api-key", options.api_key, "The key that requests below /v1 must carry, as vLLM has it")
      ->envname("VLLM_API_KEY");
  app.add_flag("--no-usage", no_usage, "Never report usage");
  app.add_flag("--enable-sleep-mode", options.sleeps,
               "Serve /sleep, /wake_up and /is_sleeping, as vLLM does");
  app.add_option("--fault", faults,
                 "KIND[:ARG][@PROBABILITY|@every:N|@first:N]; see README.md for the kinds");
  app.add_option("--kv-events", options.kv_events.url,
                 "Address to publish KV events on, as vLLM does: tcp://ADDRESS:PORT");
  app.add_option("--kv-events-replay", options.kv_events.replay, "Address to replay missed batches on")
      ->needs("--kv-events");
  app.add_option("--kv-events-topic", options.kv_events.topic, "Topic of the messages")->needs("--kv-events");
  app.add_option("--kv-events-buffer", options.kv_events.buffer, "Batches kept to be sent again")
      ->needs("--kv-events")
      ->capture_default_str();
  app.add_flag("--kv-events-maps", options.kv_events.maps, "As maps, not as arrays")->needs("--kv-events");
  app.add_option("--role", options.handover.role, "prefill: computes prompts for others; decode: takes them")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Role>{
          {"both", Role::kBoth}, {"prefill", Role::kPrefill}, {"decode", Role::kDecode}}));
  app.add_option("--handover", options.handover.kind,
                 "nixl: as vLLM, by kv_transfer_params; bootstrap: as SGLang, by a room (nixl)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, HandoverKind>{
          {"nixl", HandoverKind::kNixl}, {"bootstrap", HandoverKind::kBootstrap}}));
  app.add_option("--transfer-rate", options.handover.transfer_rate, "Transferred tokens per second (1e6)")
      ->check(CLI::PositiveNumber);
  app.add_option("--handover-wait", transfer_wait, "How long the two engines of a room wait (30s)");
  app.add_option("--handover-hold", hold_for, "How long a prompt is held for another engine (480s)");
  std::string worker_of;
  std::string join_within;
  AddGangFlags(app, options.gang, worker_of, join_within);
  AddProfileFlags(app, preset, overrides);
  try {
    app.parse(argc, argv);
    if (!worker_of.empty()) SetLeader(worker_of, options.gang);
    if (!join_within.empty()) options.gang.join_within = DurationOf("--join-within", join_within);
    options.profile = MakeProfile(preset, overrides);
    if (!transfer_wait.empty()) options.handover.wait_for = DurationOf("--handover-wait", transfer_wait);
    if (!hold_for.empty()) options.handover.hold_for = DurationOf("--handover-hold", hold_for);
    for (const std::string& text : faults) {
      auto fault = ParseFault(text);
      if (!fault.ok()) throw CLI::ValidationError("--fault", std::string(fault.status().message()));
      options.faults.push_back(*std::move(fault));
    }
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }
  if (options.models.empty()) options.models = {"demo-model"};
  options.report_usage = !no_usage;
  return options;
}

}  // namespace tidegate_engine
