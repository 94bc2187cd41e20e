#include "plugins/devices/device.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace plugins::devices {
namespace {

// Words of a product's name that say nothing of its abilities.
constexpr std::array<std::string_view, 13> kNoise{"nvidia",     "tesla",  "geforce",    "quadro", "amd",
                                                  "instinct",   "radeon", "ascend",     "huawei", "graphics",
                                                  "generation", "(tm)",   "accelerator"};
// From one of these words on, the name describes size and shape.
constexpr std::array<std::string_view, 9> kForms{"pcie", "sxm", "sxm2", "sxm3", "sxm4",
                                                 "sxm5", "nvl", "mig",  "oam"};

bool Has(const auto& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool IsSize(std::string_view word) {
  return word.starts_with("hbm") ||
         (word.ends_with("gb") && !word.empty() && std::isdigit(word.front()) != 0);
}

}  // namespace

std::string_view Name(Vendor vendor) {
  return conf::WordOf(kVendorWords, vendor);
}

Vendor VendorOf(std::string_view kind) {
  if (kind.starts_with("ascend")) return Vendor::kAscend;
  if (kind.size() > 2 && kind.starts_with("mi") && absl::ascii_isdigit(static_cast<unsigned char>(kind[2])))
    return Vendor::kAmd;
  return Vendor::kNvidia;
}

std::string KindOf(Vendor vendor, std::string_view product) {
  std::string text(product);
  // "Arcturus GL-XL [AMD Instinct MI100]" says it in brackets.
  const size_t open = text.find('[');
  const size_t close = text.find(']', open);
  if (open != std::string::npos && close != std::string::npos) text = text.substr(open + 1, close - open - 1);
  std::string kind;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" -/_", at), text.size());
    std::string word = text.substr(at, end - at);
    at = end + 1;
    for (char& c : word) c = absl::ascii_tolower(static_cast<unsigned char>(c));
    if (word.starts_with("ascend") && word.size() > 6) word.erase(0, 6);
    if (word.empty() || Has(kNoise, word)) continue;
    if (Has(kForms, word) || IsSize(word)) break;
    std::erase_if(word,
                  [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.'; });
    if (!kind.empty()) kind += '-';
    kind += word;
    // Other names have a number for the product, and a variant after it.
    if (vendor != Vendor::kNvidia && std::ranges::any_of(word, [](char c) { return std::isdigit(c) != 0; }))
      break;
  }
  if (vendor == Vendor::kAscend) {
    // 910B1 to 910B4 differ in clock and cores, and run the same programs.
    const size_t letter = kind.find_first_not_of("0123456789");
    if (letter != std::string::npos && letter > 0) kind.resize(letter + 1);
    return kind.empty() ? "ascend" : "ascend-" + kind;
  }
  return kind.empty() ? std::string(Name(vendor)) : kind;
}

}  // namespace plugins::devices
