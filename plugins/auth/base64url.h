// Base64url without padding (RFC 7515, appendix C), strict: one text for one value and no other.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plugins::auth {

std::string EncodeBase64Url(std::string_view bytes);

// Absent for padding, white space, a character outside the alphabet, a length of 4n+1, or a last character whose unused
// bits are not zero.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace plugins::auth
