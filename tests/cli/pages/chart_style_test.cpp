// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/chart_style.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace {

using palette = std::map<std::string, std::string>;

// The custom properties of the `which`-th :root block: 0 is light, 1 is dark.
palette colours(int which)
{
  std::string const style(pages::chart_style);
  std::size_t block = style.find(":root");
  for (; which > 0; --which) { block = style.find(":root", block + 1); }
  std::string const body = style.substr(block, style.find('}', block) - block);
  palette found;
  for (std::size_t at = body.find("--"); at != body.npos; at = body.find("--", at + 1)) {
    std::size_t const colon = body.find(':', at);
    found[body.substr(at, colon - at)] = body.substr(body.find('#', colon), 7);
  }
  return found;
}

// Relative luminance and contrast as WCAG 2.2 defines them.
double luminance(std::string const& colour)
{
  auto const channel = [&](std::size_t at) {
    double const value = std::stoi(colour.substr(at, 2), nullptr, 16) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

double contrast(std::string const& one, std::string const& other)
{
  auto const [dark, light] = std::minmax({luminance(one), luminance(other)});
  return (light + 0.05) / (dark + 0.05);
}

TEST(ChartStyle, IsReadableInLightAndDark)  // Ensures (1)
{
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-12);
  for (int const which : {0, 1}) {
    SCOPED_TRACE(which == 0 ? "light" : "dark");
    palette const of = colours(which);
    for (char const* const text : {"--ink", "--muted", "--before-ink", "--after-ink"}) {
      EXPECT_GE(contrast(of.at(text), of.at("--card")), 4.5) << text;
      EXPECT_GE(contrast(of.at(text), of.at("--page")), 4.5) << text;
    }
    for (char const* const area : {"--before", "--after", "--samples", "--work"}) {
      EXPECT_GE(contrast(of.at(area), of.at("--card")), 3) << area;
    }
  }
}

TEST(ChartStyle, IsReadableInsideBars)  // Ensures (2)
{
  for (int const which : {0, 1}) {
    SCOPED_TRACE(which == 0 ? "light" : "dark");
    palette const of = colours(which);
    for (std::string const name : {"--before", "--after"}) {
      std::string lightest = "#";
      for (std::size_t const at : {1U, 3U, 5U}) {
        auto const channel = [at](std::string const& colour) {
          return std::stoi(colour.substr(at, 2), nullptr, 16);
        };
        constexpr double opacity = 0.4;  // of .tone-0
        auto const mixed = static_cast<int>(
            std::lround(opacity * channel(of.at(name)) + (1 - opacity) * channel(of.at("--card"))));
        constexpr std::string_view digits = "0123456789abcdef";
        (lightest += digits[static_cast<std::size_t>(mixed / 16)]) +=
            digits[static_cast<std::size_t>(mixed % 16)];
      }
      EXPECT_GE(contrast(of.at("--ink"), lightest), 4.5) << name;
      EXPECT_GE(contrast(of.at("--card"), of.at(name + "-ink")), 4.5) << name;
    }
  }
}

TEST(ChartStyle, HasEveryColourInBothModes)
{
  palette const light = colours(0);
  palette const dark = colours(1);
  EXPECT_EQ(light.size(), dark.size());
  for (auto const& [name, colour] : light) { EXPECT_TRUE(dark.contains(name)) << name; }
}

TEST(StandaloneSvg, CarriesItsStyle)
{
  auto const elements =
      markup::parse(pages::standalone_svg("<svg viewBox=\"0 0 4 4\"><rect/></svg>"));
  ASSERT_EQ(elements.size(), 3U);
  EXPECT_EQ(elements[0].attributes.at("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_EQ(elements[0].attributes.at("viewBox"), "0 0 4 4");
  EXPECT_EQ(elements[1].name, "style");
  EXPECT_EQ(elements[2].name, "rect");
}

}  // namespace
