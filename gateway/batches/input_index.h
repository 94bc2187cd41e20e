// InputIndex: the lines of a batch's input, checked, and where each stands in the file.
//
// The input is JSON lines: {"custom_id", "method": "POST", "url", "body"}. Every line is looked at, so that
// one answer names all that is wrong, up to kMaxProblems. Lines of white space alone do not count.
//
// Pure but for IndexInput, which reads a file and blocks. Memory: 24 bytes a line, and the custom ids while it
// is made.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/batches/batch.h"
#include "gateway/batches/kept_file.h"
#include "router/facts/body_facts.h"

namespace gateway::batches {

inline constexpr size_t kMaxProblems = 100;
inline constexpr size_t kMaxLineBytes = 8u << 20;
inline constexpr size_t kMaxCustomId = 512;

struct LineRef {
  uint64_t offset = 0;
  uint32_t bytes = 0;   // without its end
  uint32_t number = 0;  // from 1, as an editor counts
};

struct InputLine {
  std::string custom_id;
  std::string url;
  std::string body;
};

// The parts of one line.
std::variant<InputLine, BatchProblem> ParseInputLine(std::string_view text);

struct InputIndex {
  struct OfModel {
    std::string model;
    std::vector<LineRef> lines;  // that are still to do, in their order
  };
  std::vector<OfModel> models;  // in the order of their first lines
  uint64_t total = 0;           // lines, done ones included
  std::vector<BatchProblem> problems;
  uint64_t problem_count = 0;
};

struct IndexOptions {
  router::Api api = router::Api::kChatCompletions;
  std::string url;
  uint64_t max_lines = 50'000;
  // Why that model may not be asked; nothing: it may.
  std::function<std::optional<std::string>(std::string_view model)> why_not;
  // Lines that have their result already, by custom id; null: none.
  const absl::flat_hash_set<std::string>* done = nullptr;
};

class InputIndexer {
 public:
  explicit InputIndexer(IndexOptions options) : options_(std::move(options)) {}

  // The next line, without its end. `too_long`: it was not kept.
  void Add(std::string_view text, uint64_t offset, bool too_long = false);
  InputIndex Finish();

 private:
  void Problem(std::string code, std::string message, std::string param = {});
  void Take(const InputLine& line, LineRef ref);

  const IndexOptions options_;
  router::FactsScanner scanner_;
  absl::flat_hash_map<std::string, size_t> models_;  // places in index_.models
  absl::flat_hash_set<std::string> custom_ids_;
  absl::flat_hash_map<std::string, std::optional<std::string>> why_not_;
  InputIndex index_;
  uint32_t number_ = 0;
};

// Blocks.
absl::StatusOr<InputIndex> IndexInput(KeptFile& input, IndexOptions options);

}  // namespace gateway::batches
