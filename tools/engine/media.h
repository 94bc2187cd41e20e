// Audio and images: parses forms, and makes small but valid files for answers.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate_engine {

struct FormPart {
  std::string name;
  std::string filename;
  std::string_view content;  // into the body
};

// The parts of a multipart/form-data body.
absl::StatusOr<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body);

// The content of the part with this name; empty when there is none.
std::string_view FindPart(const std::vector<FormPart>& parts, std::string_view name);

// An image of one pixel, as a PNG file.
std::string_view TinyPng();

// Silence of about 60 ms for each token of the text, as a WAV file (8 kHz, mono, 8 bit; at most a minute).
std::string MakeWav(std::string_view text);

}  // namespace tidegate_engine
