// A batch of KV events from an engine, in any bytes: it is read or refused, and what is read is in
// proportion.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "plugins/kv_events/batch.h"

namespace {

using plugins::kv_events::Batch;
using plugins::kv_events::Event;

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::variant<Batch, std::string> decoded = plugins::kv_events::Decode(bytes);
  if (const std::string* why = std::get_if<std::string>(&decoded)) {
    Require(!why->empty());
    return 0;
  }
  const Batch& batch = std::get<Batch>(decoded);
  size_t items = batch.events.size() + batch.unknown;
  for (const Event& event : batch.events) {
    items += event.hashes.size() + event.tokens.size();
    if (event.kind == Event::Kind::kStored) {
      Require(event.block_size > 0 && event.tokens.size() == event.hashes.size() * event.block_size);
    }
  }
  Require(items <= size);
  return 0;
}
