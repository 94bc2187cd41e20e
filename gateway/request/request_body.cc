#include "gateway/request/request_body.h"

#include <algorithm>

#include "conf/text.h"

namespace gateway {
namespace {

// 8 kbit/s: speech codecs hardly need less, and most uploads have many times more.
constexpr int64_t kBytesPerAudioSecond = 1000;
constexpr int64_t kMostImages = router::kMaxN;

// Counts the characters of a JSON string without its quotes. An escape is one character.
int64_t CountCharacters(std::string_view raw) {
  int64_t count = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    const auto byte = static_cast<unsigned char>(raw[i]);
    if (byte == '\\' && i + 1 < raw.size()) {
      i += raw[i + 1] == 'u' ? 5 : 1;
    } else if ((byte & 0xc0) == 0x80) {
      continue;  // not the first byte of a UTF-8 character
    }
    ++count;
  }
  return count;
}

}  // namespace

int64_t RequestBody::Images() const {
  if (!form) return facts.n;
  const std::optional<std::string_view> asked = form->field(router::FormField::kN);
  if (!asked) return 1;
  return std::clamp<int64_t>(conf::ReadNumber<int64_t>(*asked).value_or(1), 1, kMostImages);
}

int64_t RequestBody::Characters() const {
  const std::string_view input = facts.part(router::PromptPart::kInput).In(text);
  return input.size() < 2 ? 0 : CountCharacters(input.substr(1, input.size() - 2));
}

int64_t RequestBody::MostAudioMs(std::optional<uint64_t> content_length) const {
  const uint64_t bytes = content_length.value_or(form ? form_text.size() : text.size());
  return static_cast<int64_t>(std::min<uint64_t>(bytes, 1u << 30)) * 1000 / kBytesPerAudioSecond;
}

}  // namespace gateway
