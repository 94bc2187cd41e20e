// Plots as SVG for pages: a frame with axes, and lines in it. Text in, text out.
//
// Colours are classes (c0 to c7) that the page's style defines, so that they follow its light or dark scheme. Lines
// beyond the eighth have the same colours, dashed.
// The frame carries its scales as data attributes (`data-x`, `data-y`), by which a page's script reads values
// off; without a script the plot is whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scheduler::sim {

inline constexpr size_t kPlotColors = 8;

// The classes of the line, the row or the legend's mark at this place.
std::string ColorClass(size_t place);

struct Axis {
  std::string label{};  // with the unit
  double from = 0;      // at the left or the bottom; may be the greater
  double to = 1;
  bool log = false;  // then both ends are above 0
};

struct Frame {
  std::string alt{};  // description of the plot
  int width = 520;    // of the view box; pages scale it, to 3/2 at most
  int height = 240;
  Axis x{};
  Axis y{};

  double left() const { return 70; }
  double right() const { return width - 22.0; }
  double top() const { return 10; }
  double bottom() const { return height - 44.0; }
  // The place of a value; a value outside the axis is at its end.
  double AtX(double value) const;
  double AtY(double value) const;
};

struct Line {
  std::string name{};
  size_t color = 0;
  // In order of x. A y that is no number is a gap: nothing was measured there, and nothing is drawn across it.
  std::vector<std::pair<double, double>> points{};
};

// Round numbers between the ends, both included where round; about `count`. Of a log axis, powers of ten.
std::vector<double> Ticks(const Axis& axis, size_t count);

// A number just above `value` to end an axis at: 1, 2, 2.5 or 5 times a power of ten; 1 for 0.
double RoundUp(double value);

// The means of runs of neighbours, each so long that at most `most` points remain. A gap within a run does not count; a
// run of gaps alone is a gap.
std::vector<std::pair<double, double>> Thin(const std::vector<std::pair<double, double>>& points,
                                            size_t most);

// The SVG element; `content` is drawn between the grid and the axes. Each line is a group of polylines, one for each
// part between gaps.
std::string Draw(const Frame& frame, std::string_view content);
std::string DrawLines(const Frame& frame, const std::vector<Line>& lines);

}  // namespace scheduler::sim
