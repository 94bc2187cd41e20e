// The answers of S3's ListObjectsV2, with `encoding-type=url`. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plugins::weights {

struct S3Object {
  std::string key{};
  uint64_t size = 0;
};
struct S3Page {
  std::vector<S3Object> objects{};
  std::string next{};  // the token of the next page; empty: it is the last
};

// Absent: it is another document.
std::optional<S3Page> ReadS3Page(std::string_view xml);

}  // namespace plugins::weights
