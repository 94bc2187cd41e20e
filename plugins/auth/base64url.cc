#include "plugins/auth/base64url.h"

#include <absl/strings/escaping.h>

#include "conf/text.h"

namespace plugins::auth {

std::string EncodeBase64Url(std::string_view bytes) {
  return absl::WebSafeBase64Escape(conf::Abseil(bytes));
}

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(conf::Abseil(text), &bytes)) return std::nullopt;
  // abseil accepts padding, white space and unused bits; only the text that it would write itself is strict.
  if (EncodeBase64Url(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace plugins::auth
