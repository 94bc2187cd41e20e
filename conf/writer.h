// Where a bound struct is written: one place in a JSON tree. Absent optionals and empty texts and lists write
// nothing, so that what is written reads back as the same struct.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace conf {

class Writer {
 public:
  // Writes below `out`, which must outlive the Writer. Places that were left empty are removed by Prune.
  explicit Writer(nlohmann::json& out) : out_(&out) {}

  Writer Field(std::string_view key);
  Writer Item();
  void BeginMapping();
  nlohmann::json& json() { return *out_; }

 private:
  nlohmann::json* out_;
};

class Secret;

void Write(Writer& writer, const std::string& in);
void Write(Writer& writer, bool in);
void Write(Writer& writer, double in);
void Write(Writer& writer, int64_t in);
void Write(Writer& writer, uint64_t in);
void Write(Writer& writer, uint32_t in);
void Write(Writer& writer, uint16_t in);
void Write(Writer& writer, Duration in);
void Write(Writer& writer, const Secret& in);  // its reference

// Removes what holds nothing, nulls and empty mappings, from the mappings of a tree.
void Prune(nlohmann::json& tree);

}  // namespace conf
