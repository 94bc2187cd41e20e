#include "gateway/batches/frame_reader.h"

#include <fmt/format.h>

#include <optional>

#include "conf/text.h"
#include "gateway/batches/frame.h"

namespace gateway::batches {

absl::Status FrameReader::Feed(std::string_view bytes, std::string& text) {
  if (key_ == nullptr) {
    text += bytes;
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  const auto wrong = [this] {
    return absl::DataLossError(
        conf::Abseil(fmt::format("it was changed after byte {}, or sealed under another key", bytes_)));
  };
  while (!bytes.empty()) {
    // The length first, then the rest of the frame.
    size_t needed = kFrameLengthBytes;
    if (pending_.size() >= kFrameLengthBytes) {
      const std::optional<size_t> length = FrameLength(pending_);
      if (!length) return wrong();
      needed = kFrameExtra + *length;
    }
    const std::string_view part = bytes.substr(0, needed - pending_.size());
    pending_ += part;
    bytes.remove_prefix(part.size());
    if (pending_.size() < needed || needed == kFrameLengthBytes) continue;
    const std::optional<std::string> open =
        OpenFrame(*key_, bytes_, std::string_view(pending_).substr(kFrameLengthBytes));
    if (!open) return wrong();
    text.append(*open, kFrameOffsetBytes);
    bytes_ += open->size() - kFrameOffsetBytes;
    pending_.clear();
  }
  return absl::OkStatus();
}

}  // namespace gateway::batches
