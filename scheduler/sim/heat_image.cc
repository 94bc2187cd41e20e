#include "scheduler/sim/heat_image.h"

#include <absl/strings/escaping.h>

#include <algorithm>
#include <cmath>

#include "conf/text.h"

namespace scheduler::sim {
namespace {

constexpr uint32_t kHeaderBytes = 14 + 40 + 4 * kShades;

void Put(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// The headers of a BMP with 4 bits a pixel, lines from the bottom up, and its palette.
std::string Header(uint32_t width, uint32_t height, uint32_t pixel_bytes) {
  std::string out = "BM";
  Put(out, kHeaderBytes + pixel_bytes, 4);
  Put(out, 0, 4);
  Put(out, kHeaderBytes, 4);
  Put(out, 40, 4);
  Put(out, width, 4);
  Put(out, height, 4);
  Put(out, 1, 2);
  Put(out, 4, 2);
  Put(out, 0, 4);
  Put(out, pixel_bytes, 4);
  Put(out, 2835, 4);
  Put(out, 2835, 4);
  Put(out, kShades, 4);
  Put(out, 0, 4);
  for (const uint32_t shade : Shades()) Put(out, shade, 4);
  return out;
}

uint32_t ShadeOf(double cell) {
  if (!(cell > 0)) return 0;
  return static_cast<uint32_t>(std::lround(std::min(cell, 1.0) * (kShades - 1)));
}

// The mean of the cells that fall on a pixel.
double Pixel(const HeatMap& heat, size_t columns, size_t rows_per_pixel, size_t columns_per_pixel, size_t row,
             size_t column) {
  const size_t row_end = std::min((row + 1) * rows_per_pixel, heat.rows);
  const size_t column_end = std::min((column + 1) * columns_per_pixel, columns);
  double sum = 0;
  size_t cells = 0;
  for (size_t c = column * columns_per_pixel; c < column_end; ++c) {
    for (size_t r = row * rows_per_pixel; r < row_end; ++r, ++cells) {
      sum += static_cast<double>(heat.cells[c * heat.rows + r]);
    }
  }
  return sum / static_cast<double>(cells);
}

}  // namespace

std::array<uint32_t, kShades> Shades() {
  constexpr std::array<int, 3> kEmpty = {0xf3, 0xf5, 0xf8};
  constexpr std::array<int, 3> kMiddle = {0x5b, 0x9b, 0xd8};
  constexpr std::array<int, 3> kFull = {0x0c, 0x2c, 0x5e};
  std::array<uint32_t, kShades> shades{};
  for (size_t i = 0; i < kShades; ++i) {
    const double at = 2 * static_cast<double>(i) / (kShades - 1);
    const auto& from = at < 1 ? kEmpty : kMiddle;
    const auto& to = at < 1 ? kMiddle : kFull;
    const double share = at < 1 ? at : at - 1;
    for (size_t channel = 0; channel < 3; ++channel) {
      const double value = from[channel] + share * (to[channel] - from[channel]);
      shades[i] = shades[i] << 8 | static_cast<uint32_t>(std::lround(value));
    }
  }
  return shades;
}

std::string HeatImage(const HeatMap& heat) {
  const size_t columns = heat.rows == 0 ? 0 : heat.cells.size() / heat.rows;
  if (columns == 0) return {};
  const size_t rows_per_pixel = (heat.rows + kHeatImageRows - 1) / kHeatImageRows;
  const size_t columns_per_pixel = (columns + kHeatImageColumns - 1) / kHeatImageColumns;
  const size_t height = (heat.rows + rows_per_pixel - 1) / rows_per_pixel;
  const size_t width = (columns + columns_per_pixel - 1) / columns_per_pixel;
  const size_t line_bytes = (width + 7) / 8 * 4;  // 4 bits a pixel, whole words

  std::string bmp = Header(static_cast<uint32_t>(width), static_cast<uint32_t>(height),
                           static_cast<uint32_t>(line_bytes * height));
  for (size_t row = height; row-- > 0;) {
    std::string line(line_bytes, '\0');
    for (size_t column = 0; column < width; ++column) {
      const uint32_t shade = ShadeOf(Pixel(heat, columns, rows_per_pixel, columns_per_pixel, row, column));
      char& pair = line[column / 2];
      pair = static_cast<char>(static_cast<unsigned char>(pair) | (column % 2 == 0 ? shade << 4 : shade));
    }
    bmp += line;
  }
  return "data:image/bmp;base64," + absl::Base64Escape(conf::Abseil(bmp));
}

}  // namespace scheduler::sim
