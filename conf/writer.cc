#include "conf/writer.h"

#include <nlohmann/json.hpp>

#include "conf/secret.h"

namespace conf {

Writer Writer::Field(std::string_view key) {
  return Writer((*out_)[std::string(key)]);
}

Writer Writer::Item() {
  out_->push_back(nullptr);
  return Writer(out_->back());
}

void Writer::BeginMapping() {
  *out_ = nlohmann::json::object();
}

void Write(Writer& writer, const std::string& in) {
  if (!in.empty()) writer.json() = in;
}
void Write(Writer& writer, bool in) {
  writer.json() = in;
}
void Write(Writer& writer, double in) {
  writer.json() = in;
}
void Write(Writer& writer, int64_t in) {
  writer.json() = in;
}
void Write(Writer& writer, uint64_t in) {
  writer.json() = in;
}
void Write(Writer& writer, uint32_t in) {
  writer.json() = in;
}
void Write(Writer& writer, uint16_t in) {
  writer.json() = in;
}
void Write(Writer& writer, Duration in) {
  writer.json() = FormatDuration(in);
}
void Write(Writer& writer, const Secret& in) {
  Write(writer, in.reference());
}

void Prune(nlohmann::json& tree) {
  if (!tree.is_structured()) return;
  for (nlohmann::json& child : tree) Prune(child);
  if (!tree.is_object()) return;
  for (auto it = tree.begin(); it != tree.end();) {
    it = it->is_null() || (it->is_object() && it->empty()) ? tree.erase(it) : std::next(it);
  }
}

}  // namespace conf
