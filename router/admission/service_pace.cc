#include "router/admission/service_pace.h"

#include <algorithm>

namespace router {
namespace {

conf::Duration Lasting(double seconds) {
  return std::chrono::duration_cast<conf::Duration>(
      std::chrono::duration<double>(std::min(seconds, 86'400.0)));
}

}  // namespace

void ServicePace::Least::Note(double a, double b, conf::TimePoint now) {
  if (now - begun >= kWindow) {
    windows[1] = now - begun < 2 * kWindow ? windows[0] : Window{};
    windows[0] = {};
    begun = now;
  }
  Window& running = windows[0];
  ++running.count;
  running.first = std::min(running.first, a);
  running.second = std::min(running.second, b);
}

ServicePace::Least::Window ServicePace::Least::Read(conf::TimePoint now) const {
  Window all;
  const auto add = [&](const Window& window) {
    all.count += window.count;
    all.first = std::min(all.first, window.first);
    all.second = std::min(all.second, window.second);
  };
  if (now - begun < 2 * kWindow) add(windows[0]);
  if (now - begun < kWindow) add(windows[1]);
  return all.count >= kEnough ? all : Window{};
}

void ServicePace::ObserveFirstByte(conf::Duration took, conf::TimePoint now) {
  first_byte_.Note(conf::ToSeconds(took), 0, now);
}

void ServicePace::ObserveWhole(conf::Duration took, int64_t tokens, conf::TimePoint now) {
  const auto count = static_cast<double>(std::max<int64_t>(1, tokens));
  whole_.Note(conf::ToSeconds(took) / count, count, now);
}

conf::Duration ServicePace::LeastToFirstByte(conf::TimePoint now) const {
  const Least::Window least = first_byte_.Read(now);
  return least.count > 0 ? Lasting(least.first) : conf::Duration::zero();
}

conf::Duration ServicePace::LeastWhole(int64_t most_tokens, conf::TimePoint now) const {
  const Least::Window least = whole_.Read(now);
  if (least.count == 0) return conf::Duration::zero();
  const double tokens =
      most_tokens > 0 ? std::min(least.second, static_cast<double>(most_tokens)) : least.second;
  return Lasting(least.first * tokens);
}

}  // namespace router
