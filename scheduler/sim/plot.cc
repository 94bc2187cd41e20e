#include "scheduler/sim/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "conf/html.h"

namespace scheduler::sim {
namespace {

// `value` as a multiple of its power of ten, and that power.
std::pair<double, double> Mantissa(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  return {value / power, power};
}

double Share(const Axis& axis, double value) {
  const double share = axis.log
                           ? std::log(std::max(value, 1e-300) / axis.from) / std::log(axis.to / axis.from)
                           : (value - axis.from) / (axis.to - axis.from);
  return std::clamp(share, 0.0, 1.0);
}

std::string Scales(const Frame& frame) {
  const auto scale = [](const Axis& axis, double begin, double end) {
    return fmt::format("{:.10g} {:.10g} {} {} {}", axis.from, axis.to, begin, end, axis.log ? 1 : 0);
  };
  return fmt::format(R"( data-x="{}" data-y="{}")", scale(frame.x, frame.left(), frame.right()),
                     scale(frame.y, frame.bottom(), frame.top()));
}

}  // namespace

double Frame::AtX(double value) const {
  return left() + Share(x, value) * (right() - left());
}

double Frame::AtY(double value) const {
  return bottom() - Share(y, value) * (bottom() - top());
}

std::vector<double> Ticks(const Axis& axis, size_t count) {
  const auto [low, high] = std::minmax(axis.from, axis.to);
  std::vector<double> ticks;
  if (axis.log) {
    for (int power = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
         std::pow(10, power) <= high * (1 + 1e-9); ++power) {
      ticks.push_back(std::pow(10, power));
    }
    return ticks;
  }
  if (!(high > low)) return {low};
  const double step = RoundUp((high - low) / static_cast<double>(std::max<size_t>(count, 1)));
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n)
    ticks.push_back(n * step + 0.0);  // never -0
  return ticks;
}

double RoundUp(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  const auto [mantissa, power] = Mantissa(value);
  for (const double round : {1.0, 2.0, 2.5, 5.0}) {
    if (mantissa <= round * (1 + 1e-9)) return round * power;
  }
  return 10 * power;
}

std::vector<std::pair<double, double>> Thin(const std::vector<std::pair<double, double>>& points,
                                            size_t most) {
  const size_t run = (points.size() + most - 1) / most;
  if (run <= 1) return points;
  std::vector<std::pair<double, double>> thin;
  for (size_t begin = 0; begin < points.size(); begin += run) {
    const size_t end = std::min(begin + run, points.size());
    std::pair<double, double> sum;
    double measured = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].second)) continue;
      sum.first += points[i].first;
      sum.second += points[i].second;
      ++measured;
    }
    thin.emplace_back(measured > 0 ? sum.first / measured : points[begin].first,
                      measured > 0 ? sum.second / measured : std::numeric_limits<double>::quiet_NaN());
  }
  return thin;
}

std::string ColorClass(size_t place) {
  return fmt::format("c{}{}", place % kPlotColors, place < kPlotColors ? "" : " dashed");
}

std::string Draw(const Frame& frame, std::string_view content) {
  std::string out = fmt::format(
      R"(<svg viewBox="0 0 {} {}" style="max-width:{}px" role="img" aria-label="{}"{}>)", frame.width,
      frame.height, frame.width * 3 / 2, conf::HtmlEscaped(frame.alt), Scales(frame));
  out += R"(<g class="grid">)";
  std::string labels;
  for (const double tick : Ticks(frame.x, 6)) {
    const double x = frame.AtX(tick);
    out +=
        fmt::format(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", x, frame.top(), frame.bottom());
    labels += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:.10g}</text>)", x,
                          frame.bottom() + 17, tick);
  }
  for (const double tick : Ticks(frame.y, 5)) {
    const double y = frame.AtY(tick);
    out +=
        fmt::format(R"(<line x1="{1}" x2="{2}" y1="{0:.1f}" y2="{0:.1f}"/>)", y, frame.left(), frame.right());
    labels += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{:.10g}</text>)", frame.left() - 7,
                          y + 4, tick);
  }
  out += "</g>";
  out += content;
  const double middle = (frame.left() + frame.right()) / 2;
  const double half = (frame.top() + frame.bottom()) / 2;
  out += fmt::format(
      R"(<g class="axis"><path d="M{0} {1}V{2}H{3}"/>{4}<text class="label" x="{5}" y="{6}" text-anchor="middle">{7}</text>)"
      R"svg(<text class="label" transform="translate(14 {8}) rotate(-90)" text-anchor="middle">{9}</text></g>)svg",
      frame.left(), frame.top(), frame.bottom(), frame.right(), labels, middle, frame.height - 8,
      conf::HtmlEscaped(frame.x.label), half, conf::HtmlEscaped(frame.y.label));
  out += fmt::format(R"(<line class="cursor" y1="{}" y2="{}" x1="-9" x2="-9"/></svg>)", frame.top(),
                     frame.bottom());
  return out;
}

std::string DrawLines(const Frame& frame, const std::vector<Line>& lines) {
  std::string content;
  for (const Line& line : lines) {
    content += fmt::format(R"(<g class="line {}" data-name="{}">)", ColorClass(line.color),
                           conf::HtmlEscaped(line.name));
    std::string part;  // between two gaps
    size_t count = 0;  // of its points; one is drawn as a dot
    const auto end_part = [&] {
      if (count == 1) content += fmt::format(R"(<polyline class="dot" points="{0}{0}"/>)", part);
      if (count > 1) content += fmt::format(R"(<polyline points="{}"/>)", part);
      part.clear();
      count = 0;
    };
    for (const auto& [x, y] : line.points) {
      if (std::isfinite(x) && std::isfinite(y)) {
        fmt::format_to(std::back_inserter(part), "{:.1f},{:.1f} ", frame.AtX(x), frame.AtY(y));
        ++count;
      } else {
        end_part();
      }
    }
    end_part();
    content += "</g>";
  }
  return Draw(frame, content);
}

}  // namespace scheduler::sim
