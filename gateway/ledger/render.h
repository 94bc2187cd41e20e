// Renders a record as one line of a segment: a JSON object with a fixed order of fields. The code formats by hand,
// because it runs for every request. Lines begin with {"seq":N,"time_us":T,"kind":"K"; chain.h appends the last
// field. Fields that do not apply are left out. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/ledger/record.h"

namespace gateway::ledger {

// Appends fields to a line in the order of the calls. Escapes values; bytes that are not UTF-8 become U+FFFD.
class LineWriter {
 public:
  LineWriter(std::string* out, uint64_t seq, int64_t time_us, Kind kind);
  LineWriter& Int(std::string_view key, int64_t value);
  LineWriter& Uint(std::string_view key, uint64_t value);
  LineWriter& Bool(std::string_view key, bool value);
  LineWriter& Text(std::string_view key, std::string_view value);
  LineWriter& Raw(std::string_view key, std::string_view json);  // already JSON

 private:
  void Key(std::string_view key);
  std::string* out_;
};

// The place of a record in a journal: number `n` of shard `shard`, from 1. n == 0: the record has none.
struct Origin {
  uint32_t shard = 0;
  uint64_t n = 0;
};

// A close line names its open by sequence number; 0: the request was refused before it was admitted.
void RenderOpen(std::string* out, uint64_t seq, Origin origin, const OpenRecord& record);
void RenderClose(std::string* out, uint64_t seq, Origin origin, uint64_t open_seq, const OpenRecord& of,
                 const CloseRecord& record);
void RenderContent(std::string* out, uint64_t seq, Origin origin, uint64_t open_seq, const OpenRecord& of,
                   const ContentRecord& record);
void RenderDevices(std::string* out, uint64_t seq, const DeviceRecord& record);
void RenderEvent(std::string* out, uint64_t seq, const Event& event);

}  // namespace gateway::ledger
