// StoredFile: what is known of a file that an application keeps here; its bytes lie in the folder of files, or in a
// bucket.
//
// A value: pure, any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "gateway/batches/result_part.h"

namespace gateway::batches {

enum class Purpose : uint8_t { kBatch, kBatchOutput, kUserData };
conf::Words<Purpose> WordsOf(Purpose);

// What an application may ask for as a file's age, in seconds: OpenAI's bounds.
inline constexpr int64_t kLeastAge = 3600;
inline constexpr int64_t kMostAge = 2'592'000;

struct StoredFile {
  std::string id = {};
  std::string tenant = {};
  std::string key = {};  // who made it; empty: the anonymous tenant
  Purpose purpose = Purpose::kUserData;
  std::string name = {};
  uint64_t bytes = 0;
  std::string sealed_by = {};  // the id of a content key; empty: its bytes lie there as they are
  std::string object = {};  // the name of its object in the bucket; empty: it lies in the folder, or in ...
  ResultParts parts = {};   // ... these, one behind the other
  conf::TimePoint created = {};
  std::optional<conf::TimePoint> expires = {};  // its maker's wish
  bool shared = false;  // it is of all gateways that use the store; not stored: its kind says so

  // In the bucket.
  std::vector<std::string> objects() const;
  // The first moment at which it is gone, where files get at most so old.
  conf::TimePoint EndsAt(conf::Duration max_age) const;
};

std::string EncodeFile(const StoredFile& file);
absl::StatusOr<StoredFile> DecodeFile(std::string_view json);

// As OpenAI's API shows it.
nlohmann::ordered_json ShowFile(const StoredFile& file, conf::Duration max_age);

// "file-" and 96 random bits in hex; likewise with other prefixes.
std::string NewId(std::string_view prefix);
int64_t UnixSeconds(conf::TimePoint at);

}  // namespace gateway::batches
