#include "tools/engine/media.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/engine/tokenizer.h"

namespace tidegate_engine {
namespace {

// The value of `key="…"` or `key=…` in a header.
std::string_view Parameter(std::string_view header, std::string_view key) {
  for (size_t at = header.find(key); at != std::string_view::npos; at = header.find(key, at + 1)) {
    bool alone = at > 0 && (header[at - 1] == ' ' || header[at - 1] == ';');
    std::string_view rest = header.substr(at + key.size());
    if (!alone || !rest.starts_with('=')) continue;
    rest.remove_prefix(1);
    if (rest.starts_with('"')) return rest.substr(1, rest.find('"', 1) - 1);
    return rest.substr(0, rest.find_first_of("; \r\n"));
  }
  return {};
}

}  // namespace

absl::StatusOr<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body) {
  std::string_view boundary = Parameter(content_type, "boundary");
  if (!content_type.starts_with("multipart/form-data") || boundary.empty() || boundary.size() > 70) {
    return absl::InvalidArgumentError("The content type must be multipart/form-data with a boundary.");
  }
  std::string delimiter = fmt::format("\r\n--{}", boundary);
  if (!body.starts_with(std::string_view(delimiter).substr(2))) {
    return absl::InvalidArgumentError("The form does not begin with its boundary.");
  }
  body.remove_prefix(delimiter.size() - 2);
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    size_t head_end = body.find("\r\n\r\n");
    size_t part_end = body.find(delimiter, std::min(head_end, body.size()));
    if (!body.starts_with("\r\n") || part_end == std::string_view::npos) {
      return absl::InvalidArgumentError("The form is cut or malformed.");
    }
    std::string_view head = body.substr(2, head_end - 2);
    parts.push_back({.name = std::string(Parameter(head, "name")),
                     .filename = std::string(Parameter(head, "filename")),
                     .content = body.substr(head_end + 4, std::max(part_end, head_end + 4) - head_end - 4)});
    body.remove_prefix(part_end + delimiter.size());
  }
  return parts;
}

std::string_view FindPart(const std::vector<FormPart>& parts, std::string_view name) {
  auto it =
      std::find_if(parts.begin(), parts.end(), [name](const FormPart& part) { return part.name == name; });
  return it == parts.end() ? std::string_view() : it->content;
}

std::string_view TinyPng() {
  static constexpr unsigned char kPng[] = {
      0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
      0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00,
      0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78,
      0x9c, 0x63, 0x60, 0x60, 0x60, 0x60, 0x00, 0x00, 0x00, 0x05, 0x00, 0x01, 0xa5, 0xf6,
      0x45, 0x40, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
  return {reinterpret_cast<const char*>(kPng), sizeof(kPng)};
}

std::string MakeWav(std::string_view text) {
  constexpr uint32_t kRate = 8000;
  auto samples = static_cast<uint32_t>(std::min<size_t>(CountTokens(text) * kRate * 60 / 1000, kRate * 60));
  auto number = [](uint32_t value, int bytes) {
    std::string out;
    for (; bytes > 0; --bytes, value >>= 8) out += static_cast<char>(value & 0xFF);
    return out;
  };
  return "RIFF" + number(36 + samples, 4) + "WAVEfmt " + number(16, 4) + number(1, 2) + number(1, 2) +
         number(kRate, 4) + number(kRate, 4) + number(1, 2) + number(8, 2) + "data" + number(samples, 4) +
         std::string(samples, '\x80');
}

}  // namespace tidegate_engine
