#include "scheduler/engine/presets.h"

#include <charconv>
#include <string>

namespace scheduler::engine {
namespace {

// Vendors' data sheets: memory, bandwidth, dense FP16/BF16 peak.
constexpr Accelerator kAccelerators[] = {
    {.name = "a100", .memory_gb = 80, .bandwidth_gb_s = 2039, .tflops = 312},
    {.name = "h100", .memory_gb = 80, .bandwidth_gb_s = 3350, .tflops = 989},
    {.name = "h200", .memory_gb = 141, .bandwidth_gb_s = 4800, .tflops = 989},
    {.name = "b200", .memory_gb = 180, .bandwidth_gb_s = 7700, .tflops = 2250},
    {.name = "l40s", .memory_gb = 48, .bandwidth_gb_s = 864, .tflops = 362},
    {.name = "l4", .memory_gb = 24, .bandwidth_gb_s = 300, .tflops = 121},
    {.name = "mi300x", .memory_gb = 192, .bandwidth_gb_s = 5300, .tflops = 1307},
    {.name = "910b", .memory_gb = 64, .bandwidth_gb_s = 1600, .tflops = 376},
};

// The models' published configurations.
constexpr ModelShape kModels[] = {
    {"llama-3.1-8b", 8.03, 8.03, 2, 32, 8, 128}, {"llama-3.3-70b", 70.6, 70.6, 2, 80, 8, 128},
    {"qwen3-8b", 8.19, 8.19, 2, 36, 8, 128},     {"qwen3-32b", 32.8, 32.8, 2, 64, 8, 128},
    {"qwen3-30b-a3b", 30.5, 3.3, 2, 48, 4, 128}, {"mistral-7b", 7.25, 7.25, 2, 32, 8, 128},
};

constexpr std::string_view kOffered[] = {
    "demo",          "instant",       "llama-3.1-8b-h100", "llama-3.1-8b-l40s",  "llama-3.3-70b-4xh100",
    "qwen3-8b-a100", "qwen3-8b-910b", "qwen3-32b-2xh100",  "qwen3-30b-a3b-h200", "mistral-7b-l4",
};

Profile Demo() {
  Profile demo{.name = "demo"};
  demo.step_base = std::chrono::milliseconds(12);
  demo.step_per_sequence = std::chrono::microseconds(200);
  demo.per_prefill_token = std::chrono::microseconds(50);
  demo.per_context_token = Nanos(100);
  demo.max_batched_tokens = 2048;
  demo.max_running = 32;
  demo.max_model_len = 32768;
  demo.kv_blocks = 4096;
  demo.load_time = std::chrono::seconds(1);
  demo.move_time = std::chrono::milliseconds(50);
  demo.reload_time = std::chrono::milliseconds(300);
  return demo;
}

// Prefix caching stays on: `cached_tokens` needs it, and it costs less than a microsecond a request.
Profile Instant() {
  Profile instant{.name = "instant"};
  instant.max_batched_tokens = 1u << 20;
  instant.max_running = 1u << 16;
  instant.max_model_len = 1u << 22;
  instant.kv_blocks = 1u << 22;
  return instant;
}

// "4xh100" or "h100".
std::optional<Profile> FindOn(const ModelShape& model, std::string_view devices) {
  uint32_t count = 1;
  const char* end = devices.data() + devices.size();
  uint32_t parsed = 0;
  if (auto [rest, error] = std::from_chars(devices.data(), end, parsed);
      error == std::errc() && rest != end && *rest == 'x') {
    count = parsed;
    devices = std::string_view(rest + 1, static_cast<size_t>(end - rest - 1));
  }
  for (const Accelerator& accelerator : kAccelerators) {
    if (accelerator.name == devices) return DeriveProfile(model, accelerator, count);
  }
  return std::nullopt;
}

}  // namespace

std::span<const Accelerator> Accelerators() {
  return kAccelerators;
}
std::span<const ModelShape> ModelShapes() {
  return kModels;
}
std::vector<std::string_view> PresetNames() {
  return {std::begin(kOffered), std::end(kOffered)};
}

std::optional<Profile> DeriveProfile(const ModelShape& model, const Accelerator& accelerator,
                                     uint32_t count) {
  if (count == 0 || count > 64) return std::nullopt;
  constexpr double kBlockTokens = 16;
  double devices = count;
  double bandwidth = accelerator.bandwidth_gb_s * 1e9 * 0.75 * devices;
  double weights = model.parameters_b * 1e9 * model.bytes_per_parameter;
  double kv_token = 2.0 * model.layers * model.kv_heads * model.head_dim * 2.0;
  double kv_bytes = (accelerator.memory_gb * 0.9 - 4) * 1e9 * devices - weights;
  double kv_blocks = kv_bytes / (kv_token * kBlockTokens);
  if (kv_blocks < 64) return std::nullopt;

  Profile profile;
  profile.name = std::string(model.name) + "-" + (count > 1 ? std::to_string(count) + "x" : "") +
                 std::string(accelerator.name);
  profile.step_base = Nanos(model.active_parameters_b * 1e9 * model.bytes_per_parameter / bandwidth * 1e9);
  if (count > 1) profile.step_base += Nanos(2.0 * model.layers * 12e3);
  profile.step_per_sequence = Nanos(15e3);
  profile.per_prefill_token =
      Nanos(2.0 * model.active_parameters_b * 1e9 / (accelerator.tflops * 1e12 * 0.5 * devices) * 1e9);
  profile.per_context_token = Nanos(kv_token / bandwidth * 1e9);
  profile.kv_blocks = static_cast<uint32_t>(kv_blocks);
  profile.devices = count;
  profile.load_time =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(30.0 + weights / (1e9 * devices)));
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
  };
  profile.move_time = seconds(0.1 + weights / (20e9 * devices));
  profile.reload_time = seconds(weights / (1e9 * devices));
  return profile;
}

std::optional<Profile> FindPreset(std::string_view name) {
  if (name == "demo") return Demo();
  if (name == "instant") return Instant();
  for (const ModelShape& model : kModels) {
    if (!name.starts_with(model.name) || name.size() <= model.name.size() + 1) continue;
    if (name[model.name.size()] != '-') continue;
    if (auto found = FindOn(model, name.substr(model.name.size() + 1))) return found;
  }
  return std::nullopt;
}

}  // namespace scheduler::engine
