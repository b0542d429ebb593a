// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pages {

/// How charts look: the colours of a page in light and dark, and the classes that charts draw with.
///
/// Before and after are orange and blue, which people with any common kind of colour vision tell
/// apart. Wherever two colours mean different things, the shapes or their places differ as well.
///
/// Ensures     (1) --ink, --muted, --before-ink and --after-ink have a contrast of at least 4.5 : 1
///                 on --card and --page, in light and dark (WCAG 2.2, 1.4.3); areas have 3 : 1 on
///                 --card (1.4.11)
///             (2) labels inside bars have 4.5 : 1 as well: --ink on the lightest tone of --before
///                 and --after, and --card on their inks
inline constexpr std::string_view chart_style = R"css(:root {
  color-scheme: light dark;
  --page: #f4f5f7;
  --card: #ffffff;
  --ink: #17202a;
  --muted: #55616e;
  --grid: #e4e8ec;
  --before: #d9690f;
  --before-ink: #ad4c00;
  --after: #1f77b4;
  --after-ink: #0b629f;
  --samples: #8390a0;
  --work: #8e3fae;
  --waiting: #e9ecf0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1419;
    --card: #182028;
    --ink: #e8edf2;
    --muted: #a4b0bd;
    --grid: #2c3640;
    --before: #ee8a3c;
    --before-ink: #f5a05a;
    --after: #4fa3df;
    --after-ink: #6db6ec;
    --samples: #7f8e9f;
    --work: #cf8be6;
    --waiting: #26303a;
  }
}
svg text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); }
svg .tick, svg .axis { fill: var(--muted); font-size: 11px; font-variant-numeric: tabular-nums; }
svg .note { fill: var(--muted); }
svg .heading { font-size: 14px; font-weight: 600; }
svg .before-ink { fill: var(--before-ink); }
svg .after-ink { fill: var(--after-ink); }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .halo { paint-order: stroke; stroke: var(--card); stroke-width: 6px; stroke-linejoin: round; }
svg .grid { stroke: var(--grid); }
svg .base { stroke: var(--muted); }
svg .mean { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .mark { stroke: var(--muted); stroke-dasharray: 2 3; }
svg .before { fill: var(--before); }
svg .after { fill: var(--after); }
svg .samples { fill: var(--samples); }
svg .work { fill: none; stroke: var(--work); stroke-width: 2.5; stroke-linejoin: round; }
svg .dense { fill: var(--samples); fill-opacity: 0.75; }
svg .attention { fill: var(--work); fill-opacity: 0.75; }
svg .edge { fill: none; stroke: var(--ink); stroke-width: 1.5; }
svg .measured { fill: var(--card); stroke: var(--ink); stroke-width: 1.5; }
svg .within { fill: var(--samples); }
svg .between { fill: var(--work); }
svg .waiting { fill: var(--waiting); }
svg .inside { font-size: 10px; text-anchor: middle; pointer-events: none; }
svg .on-ink { fill: var(--card); }
svg .tone-0 { fill-opacity: 0.4; }
svg .tone-1 { fill-opacity: 0.6; }
svg .tone-2 { fill-opacity: 0.8; }
svg .tone-0, svg .tone-1, svg .tone-2, svg .tone-3 { stroke: var(--card); stroke-width: 0.5; }
@media (hover: hover) {
  svg .before:hover, svg .after:hover, svg .samples:hover { fill: var(--ink); }
  svg .within:hover, svg .between:hover { fill: var(--ink); }
  svg rect.before-ink:hover, svg rect.after-ink:hover { fill: var(--ink); }
}
)css";

/// Makes a chart a file of its own, for a README or a slide, with its style and background inside.
///
/// Expects     `markup` is what `svg_drawing::markup` or a chart returned.
[[nodiscard]] inline std::string standalone_svg(std::string_view markup)
{
  std::size_t const inside = markup.find('>') + 1;
  std::string file = "<svg xmlns=\"http://www.w3.org/2000/svg\" ";
  file += markup.substr(5, inside - 5);
  (file += "\n<style>\n") += chart_style;
  file += "svg { background: var(--card); }\n</style>";
  return file += markup.substr(inside);
}

}  // namespace pages
