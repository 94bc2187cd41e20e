#include "gateway/batches/frame.h"

namespace gateway::batches {
namespace {

template <size_t kBytes>
void PutNumber(uint64_t number, char* to) {
  for (size_t i = 0; i < kBytes; ++i) to[i] = static_cast<char>(number >> (8 * i) & 0xff);
}

template <size_t kBytes>
uint64_t NumberAt(const char* from) {
  uint64_t number = 0;
  for (size_t i = 0; i < kBytes; ++i) number |= uint64_t{static_cast<uint8_t>(from[i])} << (8 * i);
  return number;
}

}  // namespace

std::string SealFrame(const ledger::ContentKey& key, uint64_t offset, std::string_view text) {
  std::string open(kFrameOffsetBytes, '\0');
  PutNumber<kFrameOffsetBytes>(offset, open.data());
  open += text;
  std::string frame(kFrameExtra + text.size(), '\0');
  PutNumber<kFrameLengthBytes>(text.size(), frame.data());
  key.Seal(open, frame.data() + kFrameLengthBytes);
  return frame;
}

std::optional<size_t> FrameLength(std::string_view head) {
  const uint64_t length = NumberAt<kFrameLengthBytes>(head.data());
  if (length == 0 || length > kFrameText) return std::nullopt;
  return length;
}

std::optional<std::string> OpenFrame(const ledger::ContentKey& key, uint64_t offset,
                                     std::string_view sealed) {
  std::optional<std::string> open = key.Open(sealed);
  if (!open || NumberAt<kFrameOffsetBytes>(open->data()) != offset) return std::nullopt;
  return open;
}

}  // namespace gateway::batches
