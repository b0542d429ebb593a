// SPDX-License-Identifier: Apache-2.0
// What all functions of the C interface share: what a planner keeps, and how a call reads its
// struct, catches what is thrown and writes its result.
#pragma once

#include "../common/by_name/any_order_policy.hpp"
#include "../common/by_name/any_policy.hpp"
#include "../common/fit_table.hpp"
#include "ballast.h"

#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/parallelism/share_experts.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/sharding/row_split.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/slots_plan.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace c_interface {

using ballast::error_code;
using ballast::fail;
using ballast::result;

/// A sample whose cost is known; what of it is attention, the model says.
struct priced_length {
  ballast::tokens length = 0;
  ballast::cost_units cost = 0;
};

struct known_cost {
  ballast::quadratic_cost model;

  ballast::cost_units operator()(priced_length const& sample) const { return sample.cost; }
  [[nodiscard]] ballast::cost_units attention_part(priced_length const& sample) const
  {
    return std::min(sample.cost, model.attention_part(sample.length));
  }
};

/// Where GPUs of bags or groups begin, since these keep it for each by itself.
struct first_gpus {
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> gpus;

  template <class Id, class Groups>
  static first_gpus of(Groups const& groups)
  {
    first_gpus all;
    for (std::size_t each = 0; each < groups.size(); ++each) {
      auto const [first, count] = groups[ballast::to_id<Id>(each)];
      all.first.push_back(static_cast<std::uint32_t>(first));
      all.gpus.push_back(count);
    }
    return all;
  }
};

struct plan_job {
  ballast::bag_layout bags;
  first_gpus gpus;
  by_name::any_policy policy;
  ballast::quadratic_cost cost;
  bool has_model = false;
  std::vector<priced_length> samples;
  ballast::partition_plan plan;
  bool is_planned = false;
  ballast::workspace memory;
};

struct grid_job {
  ballast::bag_layout bags;
  first_gpus gpus;
  ballast::microbatches slots;
  std::size_t least_microbatches = 0;
  ballast::quadratic_cost cost;
  std::vector<priced_length> samples;
  ballast::grid_plan plan;
  bool is_planned = false;
  std::string why;
  ballast::workspace memory;
};

/// Labels of cells, and what their losses weigh.
struct loss_job {
  std::vector<std::int64_t> labels;
  std::vector<double> weights;
};

/// What of a packing goes on, and what is left for the next call.
struct stream_part {
  std::vector<std::uint32_t> by_load;  ///< bins
  std::vector<std::uint32_t> bin_of;   ///< of each bin of the plan, its new number
  std::vector<std::uint32_t> owner;
  std::vector<std::size_t> first;
  std::vector<std::uint32_t> sample;
  std::vector<std::int64_t> loads;
  std::vector<std::uint32_t> above_cap;
  std::vector<std::uint32_t> left;
};

struct pack_job {
  ballast::packing_plan plan;
  stream_part stream;
  ballast::workspace memory;
};

struct pad_job {
  std::vector<ballast::padded_lengths> lengths;
  first_gpus gpus;
  ballast::grid_plan grid;
  ballast::packing_plan packing;
};

struct sampler_job {
  std::vector<std::int64_t> lengths;
  std::size_t samples = 0;
  std::size_t step_samples = 0;
  std::uint64_t seed = 0;
  bool shuffles = true;
  bool drops_last = false;
  std::uint64_t made_by = 0;
  std::uint64_t epoch = 0;
  std::vector<std::int64_t> order;  ///< of the epoch; empty: of none yet
  std::vector<std::int64_t> drawn_lengths;
};

struct rows_job {
  ballast::row_split split;
  std::vector<std::int64_t> pairs;
  std::vector<std::int64_t> moved;
  std::vector<std::int64_t> bounds;
  bool is_split = false;
  std::vector<ballast::row_split::kernel_call> kernels;  ///< of the rank that was asked for last
  std::vector<ballast_kernel_call> calls;
  std::vector<std::size_t> first_moved_row;
  std::vector<std::int64_t> moved_rows;
  ballast::workspace memory;
};

struct sharding_job {
  ballast::node_sizes nodes;
  ballast::device_groups groups;
  std::size_t largest_degree = 0;
  first_gpus gpus;
  ballast::sharding_cost cost;
  ballast::sharding_plan plan;
  bool is_planned = false;
  ballast::workspace memory;
};

struct slots_job {
  ballast::slots_plan plan;
  first_gpus gpus;
  std::vector<std::int64_t> loads;
  std::vector<std::int64_t> held;
  bool is_planned = false;
  ballast::workspace memory;
};

struct experts_job {
  ballast::jagged<ballast::rank_id, ballast::expert_id> experts;
  ballast::jagged<ballast::expert_id, ballast::rank_id> gpus;
  ballast::jagged<ballast::expert_id, std::int64_t> parts;
};

struct placed {
  ballast::placement where;
  std::vector<std::size_t> first;
  std::vector<ballast::tokens> rows;
};

/// Ranges of rows, peer by peer.
struct peer_ranges {
  std::vector<std::size_t> first;
  std::vector<ballast::route_table::range> ranges;
};

struct route_job {
  ballast::route_plan plan;
  peer_ranges sent;
  peer_ranges received;
};

struct order_job {
  ballast::compiled_schedule schedule;
  by_name::any_order_policy policy;
  ballast::pipeline_times times;
  ballast::pipeline_memory held;
  bool is_planned = false;  ///< `schedule` is then what the planned one is compared with
  bool has_cells = false;   ///< the schedule is planned or was read
  ballast::order_plan plan = {};
  ballast::workspace memory = {};
  std::vector<std::size_t> first_task = {};  ///< of the last step, as are tasks and cells
  std::vector<ballast_task> tasks = {};
  std::string cells = {};
};

/// Texts that C reads.
struct c_texts {
  std::vector<std::string> texts;
  std::vector<char const*> pointers;

  void keep(std::vector<std::string> given)
  {
    texts = std::move(given);
    pointers.clear();
    pointers.reserve(texts.size());
    for (std::string const& each : texts) { pointers.push_back(each.c_str()); }
  }
};

/// Asks whether to stop, at most once in `pause`: the clock is read less often where asking is.
struct stop_question {
  using clock = std::chrono::steady_clock;

  int (*is_cancelled)(void*) = nullptr;
  void* of = nullptr;
  std::chrono::microseconds pause{0};
  clock::time_point next = {};
  std::uint32_t polls = 0;
  std::uint32_t every = 1;
  bool is_asking = false;  // who is asked plans with another planner, which asks for this one too

  void begin()
  {
    if (pause.count() != 0) { next = clock::now() + pause; }
    polls = 0;
    every = 1;
  }
  [[nodiscard]] bool asks()
  {
    constexpr std::uint32_t many = 20'000;  // in a pause: the clock would take a part of it
    if (is_cancelled == nullptr || is_asking) { return false; }
    ++polls;
    if (pause.count() != 0 && (polls % every != 0 || clock::now() < next)) { return false; }
    is_asking = true;
    bool const stops = is_cancelled(of) != 0;
    is_asking = false;
    if (pause.count() == 0) { return stops; }
    next = clock::now() + pause;
    every = polls > many ? 16 : 1;
    polls = 0;
    return stops;
  }
};

struct found_layouts {
  std::vector<ballast_module_layout> modules;
  std::vector<std::uint32_t> virtual_stages;
  std::vector<std::uint32_t> kinds;
  std::vector<std::uint32_t> microbatches;
  std::vector<std::int64_t> simulated;
  std::vector<std::uint64_t> memory_bytes;
};

}  // namespace c_interface

struct ballast_planner {
  std::optional<c_interface::plan_job> plan;
  std::optional<c_interface::grid_job> grid;
  c_interface::loss_job losses;
  c_interface::pack_job pack;
  c_interface::pad_job pad;
  std::optional<c_interface::sampler_job> sampler;
  c_interface::rows_job rows;
  std::optional<c_interface::sharding_job> sharding;
  c_interface::slots_job slots;
  ballast::chain_cut chain;
  c_interface::experts_job experts;
  std::array<c_interface::placed, BALLAST_PLACEMENTS> placements;
  c_interface::route_job route;
  std::optional<c_interface::order_job> order;
  c_interface::found_layouts layouts;
  c_interface::c_texts modules;
  c_interface::c_texts notes;
  std::vector<std::size_t> misfits;

  c_interface::stop_question stop;
  ballast::error error;
  bool is_out_of_memory = false;  // then there may be none for a sentence either
};

namespace c_interface {

/// Whether a number can be the sizeof of a struct of this kind, older or newer: one that was never
/// set seldom can.
template <class Struct>
bool is_size(std::size_t size)
{
  constexpr std::size_t most = 4096;
  return size >= sizeof size && size <= most && size % alignof(Struct) == 0;
}

/// What the caller gave, with 0 in what its struct does not have yet.
template <class Struct>
result<Struct> read(Struct const* given)
{
  if (given == nullptr) {
    return fail(error_code::out_of_range, 0, "the struct of what to do is null; give one");
  }
  std::size_t const size = given->struct_size;
  auto const* const bytes = reinterpret_cast<unsigned char const*>(given);
  if (!is_size<Struct>(size)) {
    return fail(error_code::out_of_range, 0, "the struct of what to do has a struct_size of ", size,
                "; set it to the struct's sizeof");
  }
  for (std::size_t at = sizeof(Struct); at < size; ++at) {
    if (bytes[at] != 0) {
      return fail(error_code::out_of_range, 0, "the struct of what to do has ", size,
                  " bytes, of which this library knows ", sizeof(Struct),
                  "; leave 0 what is behind them, or use a newer library");
    }
  }
  Struct known{};
  std::memcpy(&known, given, std::min(size, sizeof known));
  return known;
}

/// Whether a result can be written there.
template <class Struct>
result<void> check_result(Struct const* wanted)
{
  if (wanted == nullptr) {
    return fail(error_code::out_of_range, 0, "the struct of the result is null; give one");
  }
  if (is_size<Struct>(wanted->struct_size)) { return {}; }
  return fail(error_code::out_of_range, 0, "the struct of the result has a struct_size of ",
              wanted->struct_size, "; set it to the struct's sizeof");
}

template <class Struct>
void write(Struct* wanted, Struct found)
{
  found.struct_size = wanted->struct_size;
  std::memcpy(wanted, &found, std::min(found.struct_size, sizeof found));
}

/// Runs what may fail or throw, and keeps why it did. Where there is no memory for the reason
/// either, the outer handler says so.
template <class Work>
int guarded(ballast_planner* planner, Work const& work) noexcept
{
  if (planner == nullptr) { return BALLAST_FAILED; }
  planner->is_out_of_memory = false;
  try {
    try {
      result<void> done = work();
      if (done) { return BALLAST_OK; }
      planner->error = std::move(done.error());
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::exception const& problem) {
      planner->error = {error_code::failed, 0, problem.what()};
    }
    return planner->error.code == error_code::cancelled ? static_cast<int>(BALLAST_CANCELLED)
                                                        : 1 + static_cast<int>(planner->error.code);
  } catch (...) {
    planner->is_out_of_memory = true;
    return BALLAST_NO_MEMORY;
  }
}

/// A call that sets a job up.
template <class Options, class SetUp>
int set_up(ballast_planner* planner, Options const* options, SetUp const& from) noexcept
{
  return guarded(planner, [&]() -> result<void> {
    return read(options).and_then([&](Options const& known) { return from(*planner, known); });
  });
}

/// A call that plans a step and has a result.
template <class Step, class Found, class Plan>
int answer(ballast_planner* planner, Step const* step, Found* wanted, Plan const& plan) noexcept
{
  return guarded(planner, [&]() -> result<void> {
    if (auto checked = check_result(wanted); !checked) { return checked; }
    auto const known = read(step);
    if (!known) { return tl::unexpected(known.error()); }
    planner->stop.begin();
    ballast::cancellable const until([planner] { return planner->stop.asks(); });
    result<Found> const found = plan(*planner, *known);
    if (!found) { return tl::unexpected(found.error()); }
    write(wanted, *found);
    return {};
  });
}

/// The same of a call whose arguments are no struct.
template <class Found, class Make>
int write_answer(ballast_planner* planner, Found* wanted, Make const& make) noexcept
{
  return guarded(planner, [&]() -> result<void> {
    if (auto checked = check_result(wanted); !checked) { return checked; }
    result<Found> const found = make();
    if (!found) { return tl::unexpected(found.error()); }
    write(wanted, *found);
    return {};
  });
}

inline tl::unexpected<ballast::error> not_set_up(char const* function)
{
  return fail(error_code::wrong_order, 0, "this job was not set up; call ", function, " first");
}

/// An array that may be left out.
template <class T>
std::span<T const> optional_array(T const* values, std::size_t count)
{
  return {values, values == nullptr ? 0 : count};
}

/// The same of ranks, in the type that ballast has for them.
inline std::span<ballast::rank_id const> optional_ranks(std::uint32_t const* values,
                                                        std::size_t count)
{
  return optional_array(reinterpret_cast<ballast::rank_id const*>(values), count);
}

/// An array that must be there, unless it has nothing in it.
template <class T>
result<std::span<T const>> array(char const* name, T const* values, std::size_t count)
{
  if (values == nullptr && count > 0) {
    return fail(error_code::out_of_range, 0, name, " is null; give an array of ", count);
  }
  constexpr std::size_t most = std::size_t{1} << 32;
  if (count > most) {
    return fail(error_code::out_of_range, 0, name, " was said to have ", count,
                " entries; give at most 2^32");
  }
  return std::span<T const>(values, count);
}

/// What C reads of a grid, and of a packing.
ballast_grid grid_of(ballast::grid_plan const& plan, first_gpus const& ranks);
ballast_packing packing_of(ballast::packing_plan const& plan);

/// Identifiers as the integers that they are.
template <ballast::identifier Id>
std::uint32_t const* integers(Id const* ids)
{
  return reinterpret_cast<std::uint32_t const*>(ids);
}

inline result<ballast::cost_spec> cost_of(char const* text)
{
  return ballast::parse_cost_spec(text == nullptr ? "tokens" : text);
}

inline result<ballast::quadratic_cost> model_of(ballast_cost const& given)
{
  if (given.fraction_bits > 127) {
    return fail(error_code::out_of_range, 0, "fraction_bits is ", given.fraction_bits,
                "; give a number from 0 to 127");
  }
  return ballast::quadratic_cost{given.linear, given.quadratic,
                                 static_cast<std::uint32_t>(given.fraction_bits)};
}

/// The model that options of plans and of grids say in the same words.
template <class Options>
result<ballast::quadratic_cost> model_of_options(Options const& options)
{
  if (options.model != nullptr) { return read(options.model).and_then(model_of); }
  return cost_of(options.cost).map([](ballast::cost_spec const& spec) { return spec.cost; });
}

/// The bags that options of plans and of grids say in the same words.
template <class Options>
result<ballast::bag_layout> bags_of(Options const& options)
{
  std::size_t const of_node = options.gpus_per_node != 0 ? options.gpus_per_node
                              : options.bags == nullptr  ? options.gpus
                                                         : 8;
  auto machines = ballast::cluster_of(options.gpus, of_node);
  if (!machines) { return tl::unexpected(machines.error()); }
  auto const speeds = optional_array(options.gpu_speeds, options.gpus);
  machines->gpu_speeds.assign(speeds.begin(), speeds.end());
  auto const spec = ballast::parse_bags(options.bags == nullptr ? "g1n1" : options.bags);
  if (!spec) { return tl::unexpected(spec.error()); }
  auto const misplaced = options.largest_bags_first != 0 ? ballast::misplaced_bags::largest_first
                                                         : ballast::misplaced_bags::refuse;
  auto const bags = ballast::lay_out(*spec, *machines, misplaced);
  if (!bags || options.admits_short_samples == 0) { return bags; }
  return bags->with_short_samples(ballast::short_samples::admitted);
}

/// How many samples each gets.
result<ballast::counts> counts_of(ballast_counts const& given);

/// The limits of a step, where it has some; the table is what `fits` looks into.
///
/// Shapes      bags: of the job, and 1 of a packing, which refuses what is said of bags.
result<void> read_limits(ballast::placement_limits& limits, fit_table& fits,
                         ballast_limits const* given, std::size_t samples, std::size_t bags);

/// Samples with the costs that were given, or that the model says.
inline result<void> price_into(std::vector<priced_length>& samples,
                               ballast::quadratic_cost const& model, std::int64_t const* lengths,
                               std::int64_t const* costs, std::size_t count)
{
  auto const all = array("lengths", lengths, count);
  if (!all) { return tl::unexpected(all.error()); }
  samples.resize(count);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::int64_t const length = lengths[sample];
    bool const has_model = costs == nullptr && length >= 0 && length <= ballast::longest_sample;
    samples[sample] = {length, costs != nullptr ? costs[sample] : has_model ? model(length) : 0};
  }
  return {};
}

}  // namespace c_interface
