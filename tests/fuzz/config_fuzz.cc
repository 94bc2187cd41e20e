// Any text at all must be read or refused without a crash, within the reader's bounds; what is accepted must
// read back from its own JSON as the same configuration.
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gateway/config/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const conf::Sources sources = {
      .environment = [](const std::string&) { return std::optional<std::string>(std::string(32, 'k')); },
      .file = [](const std::string&) -> absl::StatusOr<std::string> {
        return absl::NotFoundError("no files here");
      }};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const gateway::LoadResult first = gateway::ParseConfig(text, "fuzz.yaml", sources);
  if (first.config.has_value() != first.problems.empty()) std::abort();
  conf::ToJson(first.problems);
  if (!first.config) return 0;

  const nlohmann::json written = gateway::ToJson(*first.config);
  const gateway::LoadResult second = gateway::ParseConfig(written.dump(), "again.json", sources);
  if (!second.config || gateway::ToJson(*second.config) != written) std::abort();
  return 0;
}
