#include "plugins/weights/s3_listing.h"

#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include "conf/hex.h"
#include "conf/text.h"

namespace plugins::weights {
namespace {

// The text of the first element of that name, without markup inside; absent: there is none.
std::optional<std::string_view> Element(std::string_view xml, std::string_view name) {
  const std::string open = fmt::format("<{}>", name);
  const size_t begin = xml.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  xml.remove_prefix(begin + open.size());
  const size_t end = xml.find(fmt::format("</{}>", name));
  if (end == std::string_view::npos) return std::nullopt;
  return xml.substr(0, end);
}

std::string Unescaped(std::string_view text) {
  return absl::StrReplaceAll(
      conf::Abseil(text),
      {{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&#39;", "'"}, {"&amp;", "&"}});
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? conf::HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? conf::HexDigit(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

}  // namespace

std::optional<S3Page> ReadS3Page(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos) return std::nullopt;
  S3Page page;
  const bool encoded = Element(xml, "EncodingType") == "url";
  constexpr std::string_view kEnd = "</Contents>";
  std::string_view rest = xml;
  while (const std::optional<std::string_view> object = Element(rest, "Contents")) {
    const std::optional<std::string_view> key = Element(*object, "Key");
    const std::optional<uint64_t> size =
        conf::ReadNumber<uint64_t>(Element(*object, "Size").value_or(std::string_view()));
    if (!key || !size) return std::nullopt;
    const std::string text = Unescaped(*key);
    page.objects.push_back({encoded ? PercentDecoded(text) : text, *size});
    rest.remove_prefix(static_cast<size_t>(object->data() + object->size() - rest.data()) + kEnd.size());
  }
  if (Element(xml, "IsTruncated") == "true") {
    page.next = Unescaped(Element(xml, "NextContinuationToken").value_or(std::string_view()));
    if (page.next.empty()) return std::nullopt;
  }
  return page;
}

}  // namespace plugins::weights
