// FrameReader: opens the bytes of a kept file (kept_file.h) as they come, from its beginning on.
//
// Sans-IO. Memory: one frame.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/ledger/content_keys.h"

namespace gateway::batches {

class FrameReader {
 public:
  // `key`: as KeptFile has it.
  explicit FrameReader(ledger::ContentKeyRef key) : key_(std::move(key)) {}

  // Takes the next bytes, split anywhere, and appends what they hold to `text`. DataLoss: they were changed,
  // or sealed under another key.
  absl::Status Feed(std::string_view bytes, std::string& text);
  // Of the text until now.
  uint64_t bytes() const { return bytes_; }

 private:
  const ledger::ContentKeyRef key_;
  std::string pending_;  // a frame that is not whole yet
  uint64_t bytes_ = 0;
};

}  // namespace gateway::batches
