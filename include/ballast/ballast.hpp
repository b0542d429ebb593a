// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BALLAST_HPP
#define BALLAST_BALLAST_HPP

/// Everything that needs only the host compiler, the standard library and tl::expected. Headers of
/// optional parts (range-v3, CUDA, MPI, NCCL) are included one by one.

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/descending_order.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/groups.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/read_file.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/cost/composed_cost.hpp>
#include <ballast/cost/concepts.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/gamma_correction.hpp>
#include <ballast/cost/interpolated_cost.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/cost/memory_model.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/quantise.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/cost/throughput_grid.hpp>
#include <ballast/cost/training_passes.hpp>
#include <ballast/cost/transformer_shape.hpp>
#include <ballast/partition/any_policy.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/lightest_bags.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/lower_bound.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/report/axis.hpp>
#include <ballast/report/chart_style.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/report/cost_chart.hpp>
#include <ballast/report/gantt_chart.hpp>
#include <ballast/report/histogram_chart.hpp>
#include <ballast/report/html_page.hpp>
#include <ballast/report/html_table.hpp>
#include <ballast/report/load_chart.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/plan_page.hpp>
#include <ballast/report/plot_frame.hpp>
#include <ballast/report/step_bars.hpp>
#include <ballast/report/svg.hpp>
#include <ballast/report/text_escape.hpp>
#include <ballast/report/write_file.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/lay_out.hpp>
#include <ballast/version.hpp>
#include <ballast/workload/batch_sampler.hpp>
#include <ballast/workload/column_expression.hpp>
#include <ballast/workload/csv.hpp>
#include <ballast/workload/data_code.hpp>
#include <ballast/workload/excerpt.hpp>
#include <ballast/workload/fixed_point_math.hpp>
#include <ballast/workload/length_distribution.hpp>
#include <ballast/workload/length_histogram.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/sample_batch.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#endif  // BALLAST_BALLAST_HPP
