// Reads Prometheus' text format: the samples of a scrape, one by one, as views of the text.
#pragma once

#include <absl/functional/function_ref.h>

#include <optional>
#include <string_view>

namespace plugins::engines {

struct Sample {
  std::string_view name;    // "vllm:num_requests_running"
  std::string_view labels;  // the text between the braces
  double value = 0;         // may be NaN or infinite

  // A label's value as written, with its escapes; absent where there is no such label.
  std::optional<std::string_view> Label(std::string_view label) const;
};

// Comments, and lines that are not samples, are passed over.
void ForEachSample(std::string_view text, absl::FunctionRef<void(const Sample&)> use);

}  // namespace plugins::engines
