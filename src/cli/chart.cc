// Draws horizontal bars with their limits.
#include "cli/chart.h"

#include <fmt/format.h>

#include <algorithm>

namespace gale::cli {
namespace {

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string draw(const Chart& chart) {
  constexpr int kWidth = 760, kLabel = 150, kPlot = 440, kRow = 26, kTop = 64;
  const int height = kTop + kRow * static_cast<int>(chart.bars.size()) + 16;
  double largest = 1e-9;
  for (const Chart::Bar& bar : chart.bars) largest = std::max({largest, bar.value, bar.limit});
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"bold\">{2}</text>\n<text x=\"16\" y=\"46\" "
      "fill=\"#555\">{3}</text>\n",
      kWidth, height, escape(chart.title), escape(chart.subtitle));
  int y = kTop;
  for (const Chart::Bar& bar : chart.bars) {
    const double length = bar.value / largest * kPlot, limit = kLabel + bar.limit / largest * kPlot;
    out += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"18\" "
        "fill=\"#2a78b5\"/>\n<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#c33\" "
        "stroke-width=\"2\"/>\n"
        "<text x=\"{:.1f}\" y=\"{}\" fill=\"#333\">{}</text>\n",
        kLabel - 8, y + 14, escape(bar.label), kLabel, y, length, limit, limit, y - 2, y + 20,
        std::max(limit, kLabel + length) + 8, y + 14, escape(bar.note));
    y += kRow;
  }
  return out + "</svg>\n";
}

}  // namespace gale::cli
