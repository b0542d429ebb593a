// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/workload/length_trace.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace c_interface {
namespace {

/// A product of what the caller says, or more than any array has.
std::size_t product(std::size_t a, std::size_t b)
{
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(std::int64_t);
  return b != 0 && a > most / b ? most : a * b;
}

result<ballast::gpu_kind> kind_of(ballast_gpu_kind const& given)
{
  std::size_t const gpus_per_node = given.gpus_per_node == 0 ? 8 : given.gpus_per_node;
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (given.gpus > most || gpus_per_node > most) {
    return fail(error_code::out_of_range, 0, "gpus and gpus_per_node are ", given.gpus, " and ",
                gpus_per_node, "; give numbers below 2^32");
  }
  ballast::gpu_kind kind;
  kind.gpus = static_cast<std::uint32_t>(given.gpus);
  kind.gpus_per_node = static_cast<std::uint32_t>(gpus_per_node);
  kind.memory_bytes = given.memory_bytes;
  kind.bytes_per_second = given.bytes_per_second;
  if (given.speed != 0 || given.measured_speed != 0) {
    kind.speed = {given.speed, given.measured_speed};
  }
  return kind;
}

/// Those that a problem has.
result<std::vector<ballast::gpu_kind>> kinds_of(ballast_layout_problem const& given)
{
  auto const more = array("more_gpus", given.more_gpus, given.more_kinds);
  if (!more) { return tl::unexpected(more.error()); }
  std::vector<ballast_gpu_kind> all{
      {given.gpus, given.gpus_per_node, given.memory_bytes, given.bytes_per_second, 0, 0}};
  all.insert(all.end(), more->begin(), more->end());
  std::vector<ballast::gpu_kind> kinds;
  for (ballast_gpu_kind const& each : all) {
    auto const kind = kind_of(each);
    if (!kind) { return tl::unexpected(kind.error()); }
    kinds.push_back(*kind);
  }
  return kinds;
}

/// Samples to price, and batches to simulate: those that were given, or drawn as `ballast search`
/// draws them.
struct drawn_sizes {
  std::vector<ballast::tokens> priced;
  std::vector<ballast::tokens> batches;
};

result<drawn_sizes> draw(ballast_layout_problem const& given, std::size_t modules)
{
  constexpr std::size_t most = std::size_t{1} << 21;
  auto const all = array("sizes", given.sizes, product(given.samples, modules));
  if (!all) { return tl::unexpected(all.error()); }
  std::size_t const simulated = product(given.batches, given.global_batch);
  if (given.samples == 0 || given.draws > most || simulated > most) {
    return fail(error_code::out_of_range, 0, "batches of ", given.global_batch, " samples are ",
                given.batches, ", and ", given.draws, " of ", given.samples,
                " samples are drawn; give a sample, and numbers up to ", most);
  }
  ballast::random_source random(given.seed);
  std::vector<std::size_t> rows(given.samples);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  random.shuffle(std::span(rows));
  drawn_sizes drawn;
  drawn.priced = ballast::sizes_of_rows(
      *all, modules, std::span(rows).first(std::min(given.draws, given.samples)));
  rows.resize(simulated);
  for (std::size_t& row : rows) { row = static_cast<std::size_t>(random.below(given.samples)); }
  drawn.batches = ballast::sizes_of_rows(*all, modules, rows);
  return drawn;
}

result<ballast_profile> read_modules(ballast_planner& planner, char const* text)
{
  if (text == nullptr) {
    return fail(error_code::out_of_range, 0, "profile_csv is null; give the text of a profile");
  }
  auto profile = ballast::read_profile(text);
  if (!profile) { return tl::unexpected(profile.error()); }
  auto const modules = profile->profiles();
  if (!modules) { return tl::unexpected(modules.error()); }
  std::vector<std::string> names;
  names.reserve(modules->size());
  for (auto const& each : *modules) { names.push_back(each.name); }
  planner.modules.keep(std::move(names));
  planner.notes.keep(std::move(profile->notes));
  ballast_profile found{};
  found.modules = planner.modules.pointers.size();
  found.name = planner.modules.pointers.data();
  found.notes = planner.notes.pointers.size();
  found.note = planner.notes.pointers.data();
  return found;
}

result<ballast_layouts> search(ballast_planner& planner, ballast_layout_problem const& given)
{
  if (given.profile_csv == nullptr) {
    return fail(error_code::out_of_range, 0, "profile_csv is null; give the text of a profile");
  }
  auto const profile = ballast::read_profile(given.profile_csv);
  if (!profile) { return tl::unexpected(profile.error()); }
  auto const modules = profile->profiles();
  if (!modules) { return tl::unexpected(modules.error()); }
  auto kinds = kinds_of(given);
  if (!kinds) { return tl::unexpected(kinds.error()); }
  if (given.global_batch > std::numeric_limits<std::uint32_t>::max()) {
    return fail(error_code::out_of_range, 0, "global_batch is ", given.global_batch,
                "; give a number below 2^32");
  }
  bool const draws = given.batch_sizes == nullptr && given.draws != 0;
  result<drawn_sizes> const drawn = draws ? draw(given, modules->size()) : drawn_sizes{};
  if (!drawn) { return tl::unexpected(drawn.error()); }
  auto sizes = array("sizes", given.sizes, product(given.samples, modules->size()));
  if (!sizes) { return tl::unexpected(sizes.error()); }
  std::size_t const in_batches =
      product(product(given.batches, given.global_batch), modules->size());
  auto batches = draws ? std::span<std::int64_t const>(drawn->batches)
                       : array("batch_sizes", given.batch_sizes, in_batches);
  if (!batches) { return tl::unexpected(batches.error()); }
  if (draws) { sizes = drawn->priced; }
  auto const stages = array("virtual_stages", given.virtual_stages, given.more_virtual_stages);
  if (!stages) { return tl::unexpected(stages.error()); }

  ballast::layout_problem problem;
  problem.modules = *modules;
  problem.sizes = *sizes;
  problem.global_batch = static_cast<std::uint32_t>(given.global_batch);
  problem.kinds = *std::move(kinds);
  problem.may_leave_gpus = given.leave_gpus != 0;
  problem.state.is_optimizer_shared = given.share_optimizer != 0;
  std::vector<ballast::module_role> roles(modules->size());
  for (std::size_t module = 0; module < roles.size(); ++module) {
    roles[module].is_trained = given.frozen == nullptr || given.frozen[module] == 0;
    roles[module].is_input_trained =
        given.trained_inputs != nullptr && given.trained_inputs[module] != 0;
  }
  problem.roles = roles;
  ballast::layout_search_options options;
  if (given.best != 0) { options.best = given.best; }
  if (given.most_work != 0) { options.most_work = given.most_work; }
  options.virtual_stages.assign(stages->begin(), stages->end());
  auto const ranking = ballast::search_layouts(problem, *batches, options);
  if (!ranking) { return tl::unexpected(ranking.error()); }

  found_layouts all;
  for (auto const& [layout, simulated] : ranking->layouts) {
    for (auto const& [tp, pp, dp, sp, ep, is_sharded] : layout.modules) {
      all.modules.push_back({tp, pp, dp, sp, ep});
    }
    for (std::size_t module = 0; module < modules->size(); ++module) {
      all.kinds.push_back(layout.kinds.empty() ? 0
                                               : static_cast<std::uint32_t>(layout.kinds[module]));
    }
    all.microbatches.push_back(layout.microbatches);
    all.virtual_stages.push_back(layout.virtual_stages);
    all.simulated.push_back(simulated);
    all.memory_bytes.push_back(layout.memory_bytes);
  }
  planner.layouts = std::move(all);
  ballast_layouts found{};
  found.layouts = ranking->layouts.size();
  found.modules = modules->size();
  found.module = planner.layouts.modules.data();
  found.kind = planner.layouts.kinds.data();
  found.microbatches = planner.layouts.microbatches.data();
  found.simulated = planner.layouts.simulated.data();
  found.memory_bytes = planner.layouts.memory_bytes.data();
  found.lower_bound = ranking->lower_bound;
  found.is_proven = ranking->is_proven ? 1 : 0;
  found.virtual_stages = planner.layouts.virtual_stages.data();
  found.gap = ranking->gap();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_search_layouts(ballast_planner* planner, ballast_layout_problem const* problem,
                           ballast_layouts* layouts)
{
  return c_interface::answer(planner, problem, layouts, c_interface::search);
}

int ballast_read_profile(ballast_planner* planner, char const* profile_csv,
                         ballast_profile* profile)
{
  return c_interface::write_answer(
      planner, profile, [&] { return c_interface::read_modules(*planner, profile_csv); });
}
