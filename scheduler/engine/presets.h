// Profiles of known models on known accelerators, derived from published figures, not from measurements.
//
// Decoding reads all weights once a step, so the base time of a step is weights / (bandwidth * 0.75). Prefill
// is bound by arithmetic: 2 FLOP per active parameter and token, at 50 % of the dense 16-bit peak. KV takes 2
// (K and V) * layers * kv_heads * head_dim * 2 bytes a token; a decoding sequence pays the time to read it
// for each token of its context. 90 % of the memory is used (vLLM's default), less the weights and 4 GB a
// device for activations and graphs. Tensor parallelism over n devices divides all of this by n and adds two
// all-reduces a layer (12 us each). Each decoding sequence adds 15 us (sampling, scheduling). Loading takes
// 30 s for start-up and compilation, plus the weights at 1 GB/s a device; weights that a sleep discarded are
// loaded at that rate, and those in host memory come back at 20 GB/s a device (PCIe) after 0.1 s.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/engine/model.h"

namespace scheduler::engine {

struct Accelerator {
  std::string_view name;
  double memory_gb;
  double bandwidth_gb_s;
  double tflops;  // dense, 16 bit
};

struct ModelShape {
  std::string_view name;
  double parameters_b;         // billions, all of them in memory
  double active_parameters_b;  // read and multiplied per token
  double bytes_per_parameter;
  uint32_t layers;
  uint32_t kv_heads;
  uint32_t head_dim;
};

std::span<const Accelerator> Accelerators();
std::span<const ModelShape> ModelShapes();

// The profile of `model` on `count` devices of one kind; absent when the weights leave no room for KV.
std::optional<Profile> DeriveProfile(const ModelShape& model, const Accelerator& accelerator, uint32_t count);

// "MODEL-ACCELERATOR" or "MODEL-COUNTxACCELERATOR" (llama-3.3-70b-4xh100) with names of the tables above, or:
//   demo     quick enough for a first try on a laptop, slow enough to see it stream; loads in 1 s
//   instant  no delays at all: a mock for benches
std::optional<Profile> FindPreset(std::string_view name);

// Names for a help text.
std::vector<std::string_view> PresetNames();

}  // namespace scheduler::engine
