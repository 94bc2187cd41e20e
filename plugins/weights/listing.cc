#include "plugins/weights/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "conf/shown.h"
#include "plugins/weights/digest.h"

namespace plugins::weights {

std::string WriteListing(std::vector<ListedFile> files) {
  std::ranges::sort(files, {}, &ListedFile::path);
  std::string text;
  for (const ListedFile& file : files) {
    text += file.sha256;
    text += "  ";
    text += file.path;
    text += '\n';
  }
  return text;
}

absl::StatusOr<std::vector<ListedFile>> ReadListing(std::string_view text, std::string_view name) {
  std::vector<ListedFile> files;
  std::set<std::string, std::less<>> seen;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    constexpr size_t kDigits = 64;
    const auto wrong = [&](std::string_view why) {
      return absl::InvalidArgumentError(fmt::format("{}: line {}: {}", name, number, why));
    };
    const std::optional<std::string> hex =
        line.size() > kDigits + 2 ? HexOfDigest(fmt::format("sha256:{}", line.substr(0, kDigits)))
                                  : std::nullopt;
    const std::string_view between = hex ? line.substr(kDigits, 2) : std::string_view();
    if (!hex || (between != "  " && between != " *"))
      return wrong("must be \"SHA256  PATH\", as the tool sha256sum writes it");
    std::string_view path = line.substr(kDigits + 2);
    while (path.starts_with("./")) path.remove_prefix(2);
    if (const std::string defect = PathDefect(path); !defect.empty()) return wrong(defect);
    if (!seen.emplace(path).second)
      return wrong(fmt::format("{} is listed twice; keep one line", conf::Visible(path)));
    files.push_back({std::string(path), *hex});
  }
  if (files.empty()) return absl::InvalidArgumentError(fmt::format("{}: lists no file", name));
  return files;
}

std::string PathDefect(std::string_view path) {
  constexpr size_t kLongest = 1024;
  const auto defect = [&path](std::string_view why) {
    return fmt::format("the path \"{}\" {}", conf::Visible(path.substr(0, kLongest)), why);
  };
  if (path.empty()) return "a path is empty";
  if (path.size() > kLongest) return defect("is longer than 1024 bytes");
  if (path.starts_with('/')) return defect("is absolute; it must be relative to the model's folder");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(path, is_control)) return defect("has a control character");
  std::string_view rest = path;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..")
      return defect("must consist of names, without \".\", \"..\" and empty ones");
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace plugins::weights
