// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/sharding/split_rows.hpp>

namespace c_interface {
namespace {

result<std::vector<ballast::row_mask>> masks_of(ballast_rows_step const& step)
{
  if (step.masks == 0) { return std::vector<ballast::row_mask>(1); }
  auto const given = array("mask", step.mask, step.masks);
  if (!given) { return tl::unexpected(given.error()); }
  std::vector<ballast::row_mask> masks;
  for (ballast_row_mask const& each : *given) {
    auto const prefixes = optional_array(each.prefixes, step.documents);
    std::size_t const layers = std::clamp(each.layers, std::size_t{1}, std::size_t{1001});
    masks.push_back({.window = each.window,
                     .prefixes = {prefixes.begin(), prefixes.end()},
                     .layers = static_cast<std::uint32_t>(layers)});
  }
  return masks;
}

result<ballast_row_split> split_step(ballast_planner& planner, ballast_rows_step const& step)
{
  rows_job& job = planner.rows;
  job.is_split = false;
  auto const lengths = array("lengths", step.lengths, step.documents);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  auto const masks = masks_of(step);
  if (!masks) { return tl::unexpected(masks.error()); }
  std::size_t const uneven = step.uneven_per_mille == 0 ? 5 : step.uneven_per_mille;
  if (auto done = ballast::split_rows_into(
          job.split, job.memory, *lengths, step.ranks, *masks, step.block == 0 ? 128 : step.block,
          static_cast<std::uint32_t>(std::min<std::size_t>(uneven, 1'000'000)));
      !done) {
    return tl::unexpected(done.error());
  }
  job.is_split = true;
  job.pairs.clear();
  job.moved.clear();
  job.bounds.clear();
  for (auto const& part : job.split.for_mask) {
    job.pairs.insert(job.pairs.end(), part.pairs.begin(), part.pairs.end());
    job.moved.insert(job.moved.end(), part.moved_to.begin(), part.moved_to.end());
    job.bounds.insert(job.bounds.end(), {part.lower_bound, part.least_moved});
  }
  ballast_row_split found{};
  found.ranks = step.ranks;
  found.rows_of_rank = static_cast<std::size_t>(job.split.rows_of_rank);
  found.blocks = job.split.owner.size();
  found.masks = job.split.for_mask.size();
  found.owner = integers(job.split.owner.data());
  found.rows = job.split.rows.data();
  found.places = job.split.places.data();
  found.pairs = job.pairs.data();
  found.moved = job.moved.data();
  found.bounds = job.bounds.data();
  found.digest = job.split.digest();
  return found;
}

result<ballast_row_work> work_step(ballast_planner& planner, ballast_row_work_step const& step)
{
  rows_job& job = planner.rows;
  if (!job.is_split) { return not_set_up("ballast_split_rows"); }
  ballast::row_split const& split = job.split;
  std::size_t const ranks = split.for_mask.front().pairs.size();
  if (step.rank >= ranks || step.mask >= split.masks.size()) {
    return fail(error_code::out_of_range, 0, "there is no rank ", step.rank, " with mask ",
                step.mask, "; the split has ", ranks, " ranks and ", split.masks.size(), " masks");
  }
  auto const rank = ballast::to_id<ballast::rank_id>(step.rank);
  job.kernels = split.calls(rank, step.mask);
  job.calls.clear();
  for (auto const& each : job.kernels) {
    job.calls.push_back({each.causal ? std::size_t{1} : 0, each.window, each.first_query.size(),
                         each.cu_queries.data(), each.cu_keys.data(), each.first_query.data(),
                         each.first_key.data()});
  }
  job.first_moved_row.assign(1, 0);
  job.moved_rows.clear();
  for (std::size_t from = 0; from < ranks; ++from) {
    auto const rows = split.moved_rows(ballast::to_id<ballast::rank_id>(from), rank, step.mask);
    job.moved_rows.insert(job.moved_rows.end(), rows.begin(), rows.end());
    job.first_moved_row.push_back(job.moved_rows.size());
  }
  ballast_row_work found{};
  found.calls = job.calls.size();
  found.call = job.calls.data();
  found.ranks = ranks;
  found.first_moved = job.first_moved_row.data();
  found.moved = job.moved_rows.data();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_split_rows(ballast_planner* planner, ballast_rows_step const* step,
                       ballast_row_split* split)
{
  return c_interface::answer(planner, step, split, c_interface::split_step);
}

int ballast_work_of_rows(ballast_planner* planner, ballast_row_work_step const* step,
                         ballast_row_work* work)
{
  return c_interface::answer(planner, step, work, c_interface::work_step);
}
