#include "gateway/batches/stored_file.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "conf/hex.h"
#include "conf/json_fields.h"
#include "gateway/people/stored_json.h"

namespace gateway::batches {
namespace {

constexpr conf::Word<Purpose> kPurposes[] = {
    {"batch", Purpose::kBatch}, {"batch_output", Purpose::kBatchOutput}, {"user_data", Purpose::kUserData}};

}  // namespace

conf::Words<Purpose> WordsOf(Purpose) {
  return kPurposes;
}

template <class O>
constexpr void Bind(O& o, StoredFile& file) {
  o.Required("id", file.id);
  o.Required("tenant", file.tenant);
  o.Optional("key", file.key);
  o.Always("purpose", file.purpose);
  o.Optional("name", file.name);
  o.Always("bytes", file.bytes);
  o.Optional("sealed_by", file.sealed_by);
  o.Optional("object", file.object);
  o.Optional("parts", file.parts);
  o.Required("created", file.created);
  o.Optional("expires", file.expires);
  o.NotWritten(file.shared);
}

conf::TimePoint StoredFile::EndsAt(conf::Duration max_age) const {
  const conf::TimePoint last = created + max_age;
  return expires ? std::min(*expires, last) : last;
}

std::vector<std::string> StoredFile::objects() const {
  std::vector<std::string> names;
  if (!object.empty()) names.push_back(object);
  for (const ResultPart& part : parts) names.push_back(part.object);
  return names;
}

std::string EncodeFile(const StoredFile& file) {
  return conf::ToJsonText(file);
}

absl::StatusOr<StoredFile> DecodeFile(std::string_view json) {
  return ReadStored<StoredFile>("file", json);
}

nlohmann::ordered_json ShowFile(const StoredFile& file, conf::Duration max_age) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.bytes},
          {"created_at", UnixSeconds(file.created)},
          {"expires_at", UnixSeconds(file.EndsAt(max_age))},
          {"filename", file.name},
          {"purpose", conf::WordOf(kPurposes, file.purpose)},
          {"status", "processed"},
          {"status_details", nullptr}};
}

std::string NewId(std::string_view prefix) {
  std::array<uint8_t, 12> bits{};
  if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1) std::abort();
  return std::string(prefix) + conf::Hex(bits);
}

int64_t UnixSeconds(conf::TimePoint at) {
  return conf::ToUnixMicros(at) / 1'000'000;
}

}  // namespace gateway::batches
