// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_HPP
#define BALLAST_REPORT_HPP

/// All of ballast/report: what happened: metrics, charts, pages, timelines.

// IWYU pragma: begin_exports
#include <ballast/report/chart_style.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/report/cost_chart.hpp>
#include <ballast/report/gantt_bar.hpp>
#include <ballast/report/gantt_chart.hpp>
#include <ballast/report/histogram_chart.hpp>
#include <ballast/report/html_page.hpp>
#include <ballast/report/html_table.hpp>
#include <ballast/report/judged_bags.hpp>
#include <ballast/report/layout_chart.hpp>
#include <ballast/report/layout_page.hpp>
#include <ballast/report/layout_steps_chart.hpp>
#include <ballast/report/load_chart.hpp>
#include <ballast/report/measured_bars.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/orchestration_page.hpp>
#include <ballast/report/pipeline_bar.hpp>
#include <ballast/report/pipeline_bars.hpp>
#include <ballast/report/pipeline_chart.hpp>
#include <ballast/report/pipeline_page.hpp>
#include <ballast/report/plan_page.hpp>
#include <ballast/report/plan_page_step.hpp>
#include <ballast/report/sharded_timeline.hpp>
#include <ballast/report/slow_ranks.hpp>
#include <ballast/report/step_bars.hpp>
#include <ballast/report/step_metrics.hpp>
#include <ballast/report/svg.hpp>
#include <ballast/report/traffic_chart.hpp>
// IWYU pragma: end_exports

#endif  // BALLAST_REPORT_HPP
