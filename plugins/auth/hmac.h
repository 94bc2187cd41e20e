// HMAC-SHA256 (RFC 2104), in hexadecimal digits. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace plugins::auth {

std::string HmacSha256(std::string_view secret, std::string_view message);

}  // namespace plugins::auth
