// A bar chart with a limit per bar, as SVG.
#pragma once

#include <string>
#include <vector>

namespace gale::cli {

struct Chart {
  struct Bar {
    std::string label;
    double value = 0, limit = 0;
    std::string note;  // written behind the bar
  };
  std::string title, subtitle;
  std::vector<Bar> bars;
};

std::string draw(const Chart& chart);

}  // namespace gale::cli
