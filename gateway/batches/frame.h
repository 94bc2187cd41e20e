// Frame: how a piece of a file's text lies sealed on a disk or in a bucket (kept_file.h).
//
//   frame = length of the text (4, little-endian) | offset of the text in the file (8) and text, sealed
//
// Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/ledger/content_keys.h"

namespace gateway::batches {

inline constexpr size_t kFrameText = 64u << 10;  // at most, in one frame
inline constexpr size_t kFrameLengthBytes = 4;
inline constexpr size_t kFrameOffsetBytes = 8;
// Of a frame, beside its text.
inline constexpr size_t kFrameExtra = kFrameLengthBytes + kFrameOffsetBytes + ledger::ContentKey::kOverhead;

std::string SealFrame(const ledger::ContentKey& key, uint64_t offset, std::string_view text);

// The length of the text in a frame that begins with `head`, of kFrameLengthBytes; nothing: it is no frame's.
std::optional<size_t> FrameLength(std::string_view head);

// The offset and the text of what follows the length; nothing: it was changed, or sealed under another key,
// or stands at another place in the file. The text begins at kFrameOffsetBytes of the answer.
std::optional<std::string> OpenFrame(const ledger::ContentKey& key, uint64_t offset, std::string_view sealed);

}  // namespace gateway::batches
