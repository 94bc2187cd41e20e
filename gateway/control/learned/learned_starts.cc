#include "gateway/control/learned/learned_starts.h"

#include <algorithm>
#include <optional>

namespace gateway::control {
namespace {

conf::Duration PhaseQuantile(std::vector<conf::Duration> all, double q) {
  if (all.empty()) return {};
  std::ranges::sort(all);
  const double last = static_cast<double>(all.size() - 1);
  return all[static_cast<size_t>(std::clamp(q * last + 0.5, 0.0, last))];
}

}  // namespace

void LearnedStarts::Add(const std::string& model, const std::string& node, const std::string& kind,
                        const StartPhases& phases) {
  Recall(model, {.node = node, .kind = kind, .phases = phases});
  transferred_ += phases.transferred;
  from_neighbours_ += phases.neighbours;
}

void LearnedStarts::Recall(const std::string& model, const Start& start) {
  Starts& of = starts_[{model, start.node}];
  if (of.kind != start.kind) of.last.clear();
  of.kind = start.kind;
  of.last.push_back(start.phases);
  if (of.last.size() > kKept) of.last.pop_front();
}

std::vector<LearnedStarts::Start> LearnedStarts::Last(const std::string& model, size_t most) const {
  std::vector<Start> out;
  for (auto at = starts_.lower_bound({model, std::string()}); at != starts_.end() && at->first.first == model;
       ++at) {
    const Starts& of = at->second;
    for (size_t i = of.last.size() - std::min(most, of.last.size()); i < of.last.size(); ++i)
      out.push_back({.node = at->first.second, .kind = of.kind, .phases = of.last[i]});
  }
  return out;
}

bool LearnedStarts::Knows(const std::string& model) const {
  const auto first = starts_.lower_bound({model, std::string()});
  return first != starts_.end() && first->first.first == model;
}

template <class Fits, class Of>
std::vector<conf::Duration> LearnedStarts::Collect(const std::string& model, Fits fits, Of of) const {
  std::vector<conf::Duration> out;
  for (auto at = starts_.lower_bound({model, std::string()}); at != starts_.end() && at->first.first == model;
       ++at) {
    if (!fits(at->first.second, at->second.kind)) continue;
    for (const StartPhases& phases : at->second.last) {
      if (const std::optional<conf::Duration> took = of(phases)) out.push_back(*took);
    }
  }
  return out;
}

conf::Duration LearnedStarts::StartAt(const std::string& model, const StartPlace& place, double q) const {
  const auto start = [](const StartPhases& phases) { return std::optional(phases.start()); };
  const auto own =
      Collect(model, [&](const std::string& node, const std::string&) { return node == place.node; }, start);
  if (own.size() >= kOwn) return PhaseQuantile(own, q);
  const auto of_kind =
      Collect(model, [&](const std::string&, const std::string& kind) { return kind == place.kind; }, start);
  if (!of_kind.empty()) return PhaseQuantile(of_kind, q);
  return PhaseQuantile(Collect(model, [](const std::string&, const std::string&) { return true; }, start), q);
}

conf::Duration LearnedStarts::FetchAt(const std::string& model, const StartPlace& place, double q) const {
  const auto fetch = [](const StartPhases& phases) -> std::optional<conf::Duration> {
    if (phases.transferred == 0) return std::nullopt;
    return phases[StartPhase::kFetched];
  };
  const auto own =
      Collect(model, [&](const std::string& node, const std::string&) { return node == place.node; }, fetch);
  if (!own.empty()) return PhaseQuantile(own, q);
  return PhaseQuantile(Collect(model, [](const std::string&, const std::string&) { return true; }, fetch), q);
}

conf::Duration LearnedStarts::Lead(const std::string& model, std::span<const StartPlace> places,
                                   double q) const {
  const bool any_free = std::ranges::any_of(places, &StartPlace::free);
  const auto may = [&](const StartPlace& place) { return place.free || !any_free; };
  const bool any_holds =
      std::ranges::any_of(places, [&](const StartPlace& place) { return may(place) && place.holds_weights; });
  conf::Duration longest{};
  bool any = false;
  for (const StartPlace& place : places) {
    if (!may(place) || (any_holds && !place.holds_weights)) continue;
    any = true;
    conf::Duration lead = StartAt(model, place, q);
    if (lead > conf::Duration::zero() && !place.holds_weights) lead += FetchAt(model, place, q);
    longest = std::max(longest, lead);
  }
  if (any) return longest;
  return StartAt(model, {}, q);
}

std::vector<LearnedStarts::Row> LearnedStarts::rows() const {
  std::map<std::pair<std::string, std::string>, std::vector<const StartPhases*>> by_kind;
  for (const auto& [of, starts] : starts_) {
    for (const StartPhases& phases : starts.last) by_kind[{of.first, starts.kind}].push_back(&phases);
  }
  std::vector<Row> rows;
  rows.reserve(by_kind.size());
  for (const auto& [of, starts] : by_kind) {
    Row& row = rows.emplace_back(Row{.model = of.first, .kind = of.second, .starts = starts.size()});
    for (size_t i = 0; i < kStartPhases; ++i) {
      std::vector<conf::Duration> took;
      took.reserve(starts.size());
      for (const StartPhases* const phases : starts) took.push_back(phases->took[i]);
      row.p50[i] = PhaseQuantile(took, 0.5);
      row.p90[i] = PhaseQuantile(std::move(took), 0.9);
    }
  }
  return rows;
}

}  // namespace gateway::control
