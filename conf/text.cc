#include "conf/text.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace conf {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (Lower(a[i]) == Lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const auto alike = [](char x, char y) { return Lower(x) == Lower(y); };
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end(), alike).first - a.begin());
}

// Words that begin alike may differ more: "retry" and "retries", "llama" and "llamacpp".
constexpr size_t kBeginning = 4;

}  // namespace

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  const size_t usual = std::max<size_t>(word.size() / 3, 2);
  size_t best_distance = std::max<size_t>(usual, 3) + 1;
  for (std::string_view candidate : candidates) {
    // No distance is shorter than the difference in length. A word may be a caller's, of many megabytes.
    const size_t longer = std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (longer >= best_distance) continue;
    const size_t distance = EditDistance(word, candidate);
    if (distance > usual && CommonPrefix(word, candidate) < kBeginning) continue;
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view nearest = Nearest(word, candidates);
  return nearest.empty() ? std::string() : ", did you mean \"" + std::string(nearest) + "\"?";
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a == b || std::equal(a.begin(), a.end(), b.begin(),
                                                       [](char x, char y) { return Lower(x) == Lower(y); }));
}

}  // namespace conf
