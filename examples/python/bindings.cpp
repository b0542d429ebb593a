// SPDX-License-Identifier: Apache-2.0
// What Python calls: arguments that are checked, a plan made without the interpreter's lock, and arrays
// of NumPy that look into the plan. src/ballast/__init__.py has the functions that users call.

#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/version.hpp>

#include "../common/by_name/any_policy.hpp"
#include "../common/by_name/parse_policy.hpp"
#include "../common/fit_table.hpp"
#include "python_arrays.hpp"

#include <pybind11/numpy.h>
#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <ranges>
#include <variant>

namespace py = pybind11;

void add_pipelines(py::module_& module);  // pipelines.cpp

namespace {

using namespace python;
using ballast::quadratic_cost;
using ballast::tokens;

using ballast::no_limit;

// ---- Costs ---------------------------------------------------------------------------------------

/// What samples cost: by their lengths, or one by one.
struct prices {
  std::span<tokens const> lengths;
  std::span<std::int64_t const> given;  // none: by `model`
  quadratic_cost model;

  ballast::cost_units operator()(std::size_t sample) const
  {
    return given.empty() ? model(lengths[sample]) : given[sample];
  }
  ballast::cost_units attention_part(std::size_t sample) const
  {
    return model.attention_part(lengths[sample]);
  }
};

using cost_argument = std::variant<quadratic_cost, integers>;

prices prices_of(std::span<tokens const> lengths, cost_argument const& cost)
{
  if (auto const* model = std::get_if<quadratic_cost>(&cost)) { return {lengths, {}, *model}; }
  auto const given = numbers_of(std::get<integers>(cost));
  if (given.size() != lengths.size()) {
    refuse("cost has ", given.size(), " entries for ", lengths.size(),
           " samples; give one for each");
  }
  return {lengths, given, {}};
}

auto indices_of(std::span<tokens const> lengths)
{
  return std::views::iota(std::size_t{0}, lengths.size());
}

/// The exact FLOP of what was measured.
ballast::flop_polynomial flops_of(std::string const& model, bool whole_steps)
{
  ballast::cost_spec const spec = value(ballast::parse_cost_spec(model));
  if (spec.forward.linear == 0) {
    refuse("'", model,
           "' has no FLOP to fit; write 'transformer:d=3072,layers=28' with your numbers");
  }
  return whole_steps ? value(ballast::step_flops(spec.forward, spec.passes)) : spec.forward;
}

py::dict report_of(ballast::gamma_fit const& fit)
{
  py::dict report;
  report["seconds_per_flop"] = fit.seconds_per_flop;
  report["gamma"] = fit.gamma;
  report["seconds_per_call"] = fit.seconds_per_call;
  report["median_relative_error"] = fit.median_relative_error;
  report["r_squared"] = fit.r_squared;
  return report;
}

py::tuple fit_lengths(integers const& lengths, numbers const& seconds, std::string const& model)
{
  auto const flops = flops_of(model, false);
  auto const read = numbers_of(lengths);
  auto const times = numbers_of(seconds);
  if (times.size() != read.size()) {
    refuse("seconds has ", times.size(), " entries for ", read.size(),
           " lengths; give one for each");
  }
  std::vector<ballast::gamma_fit::measurement> measured;
  for (std::size_t at = 0; at < read.size(); ++at) { measured.push_back({read[at], times[at]}); }
  auto const fit = value(ballast::fit_latency(measured, flops));
  py::dict report = report_of(fit);
  report["misfits"] = fit.misfits(measured, flops);
  return py::make_tuple(value(ballast::latency_cost(fit, flops)), report);
}

/// `steps`: rows of length_sum, square_sum, sequences, gpus.
py::tuple fit_steps(integers const& steps, numbers const& seconds, std::string const& model)
{
  constexpr std::size_t long_log = 20;  // as ballast plan --measured
  auto const flops = flops_of(model, true);
  auto const rows = numbers_of(steps);
  auto const times = numbers_of(seconds);
  if (rows.size() != 4 * times.size()) {
    refuse("seconds has ", times.size(), " entries for ", rows.size() / 4,
           " steps; give one for each");
  }
  std::vector<ballast::step_fit::measurement> measured;
  for (std::size_t at = 0; at < times.size(); ++at) {
    auto const count = [&](std::size_t column) {
      return static_cast<std::uint32_t>(
          in_range("a number of sequences or GPUs", rows[4 * at + column], 0, most_32_bits));
    };
    measured.push_back({rows[4 * at], static_cast<std::uint64_t>(rows[4 * at + 1]), count(2),
                        count(3), times[at]});
  }
  ballast::step_fit::terms terms{.gamma = value(ballast::parse_cost_spec(model)).gamma};
  if (times.size() >= long_log) { terms = {.gamma = {}, .sequences = true, .steps = true}; }
  auto const fit = value(ballast::fit_steps(measured, flops, terms));
  py::dict report = report_of(fit.compute);
  report["seconds_per_exchanged_token"] = fit.seconds_per_exchanged_token;
  report["seconds_per_sequence"] = fit.seconds_per_sequence;
  report["misfits"] = fit.misfits(measured, flops);
  return py::make_tuple(value(fit.cost(flops)), report);
}

// ---- Plans ---------------------------------------------------------------------------------------

struct bag_plan : timed<ballast::partition_plan> {
  ballast::bag_layout bags;
};

/// Bags of one GPU where `bags` is a number, otherwise those that the text writes, over all GPUs.
///
/// Shapes      speeds[gpus], or empty.
ballast::bag_layout layout_of(std::variant<std::int64_t, std::string> const& bags,
                              std::optional<std::int64_t> gpus, std::int64_t gpus_per_node,
                              std::vector<std::int64_t> const& speeds)
{
  constexpr std::int64_t most = std::int64_t{1} << 24;
  auto const* const count = std::get_if<std::int64_t>(&bags);
  std::size_t const of_one = count == nullptr ? 0 : in_range("bags", *count, 1, most);
  if (count != nullptr && speeds.empty()) { return ballast::one_gpu_bags(of_one); }
  auto const spec =
      value(ballast::parse_bags(count == nullptr ? std::get<std::string>(bags) : "g1n1"));
  std::size_t const all = count != nullptr ? of_one
                          : gpus           ? in_range("gpus", *gpus, 1, most)
                                           : spec.gpus();
  auto machines =
      value(ballast::cluster_of(all, in_range("gpus_per_node", gpus_per_node, 1, most)));
  for (std::int64_t const speed : speeds) {
    machines.gpu_speeds.push_back(
        static_cast<std::uint32_t>(in_range("speeds", speed, 1, most_32_bits)));
  }
  return value(ballast::lay_out(spec, machines));
}

/// A cap of a call: what samples take, the most of a GPU and of each bag, rounding, softness.
using cap_argument = std::tuple<optional_integers, std::optional<std::int64_t>, optional_integers,
                                std::int64_t, bool>;

/// Of at most as many as the library takes; of more it says so.
ballast::caps caps_of(std::vector<cap_argument> const& given)
{
  ballast::caps caps;
  for (auto const& [of, most_per_gpu, most, rounded_to, is_soft] : given) {
    caps.add({.of = numbers_of(of),
              .most_per_gpu = most_per_gpu.value_or(no_limit),
              .most = numbers_of(most),
              .rounded_to = rounded_to,
              .is_soft = is_soft});
  }
  return caps;
}

/// What plans and packings are limited by in the same words.
void read_limits(ballast::placement_limits& limits, optional_integers const& weights,
                 std::optional<std::int64_t> most_per_gpu, std::optional<std::int64_t> most_samples,
                 bool cap_is_soft, std::vector<cap_argument> also, std::string const& counts,
                 std::int64_t multiple, std::string const& then, optional_integers const& least)
{
  if ((weights || cap_is_soft) && !most_per_gpu) {
    refuse(weights ? "weights have" : "cap_is_soft has",
           " no most_per_gpu to count against; give the most that a GPU holds");
  }
  if (most_per_gpu) {
    also.insert(also.begin(), {weights, most_per_gpu, optional_integers(), 1, cap_is_soft});
  }
  limits.also = caps_of(also);
  if (most_samples) { limits.samples = ballast::counts::at_most(*most_samples); }
  if (counts == "equal") { limits.samples = ballast::counts::equal(multiple); }
  if (counts == "filled") { limits.samples = ballast::counts::filled(); }
  if (then == "level") { limits.then = ballast::most_level; }
  if (then == "fewest_moves") { limits.then = ballast::fewest_moves; }
  if (least) { limits.then = ballast::least(numbers_of(least)); }
}

using optional_bytes = std::optional<py::array_t<std::uint8_t, py::array::c_style>>;

/// Which of so many samples may go to which bags; none where the call did not say.
///
/// Shapes      fits[samples x bags].
std::optional<fit_table> fits_of(optional_bytes const& fits, std::size_t samples, std::size_t bags)
{
  if (!fits) { return std::nullopt; }
  std::vector<std::size_t> const shape(fits->shape(), fits->shape() + fits->ndim());
  if (shape != std::vector{samples, bags} && samples > 0) {
    std::string given;
    for (std::size_t const extent : shape) {
      given += (given.empty() ? "" : " x ") + std::to_string(extent);
    }
    refuse("fits is of [", given, "]; give one True or False for each sample and place, [", samples,
           " x ", bags, "]");
  }
  return fit_table{fits->data(), bags};
}

bag_plan make_plan(integers const& lengths, ballast::bag_layout const& bags,
                   cost_argument const& cost, by_name::any_policy const& policy,
                   optional_integers const& together, optional_integers const& apart,
                   optional_bytes const& fits, optional_integers const& home,
                   optional_integers const& weights, optional_integers const& starting_loads,
                   std::optional<std::int64_t> most_per_gpu,
                   std::optional<std::int64_t> most_samples, bool cap_is_soft,
                   std::vector<cap_argument> also, std::string const& counts, std::int64_t multiple,
                   std::string const& then, optional_integers const& least,
                   std::int64_t within_per_million)
{
  prices const price = prices_of(numbers_of(lengths), cost);
  if (ballast::batching_of(policy) == ballast::batching::attention_padded && !price.given.empty()) {
    refuse(
        "the policy pads attention alone, and costs one by one do not say what of them that is; ",
        "name a cost model");
  }
  auto const homes = identifiers_of<ballast::rank_id>("home", home);
  ballast::placement_limits limits{
      .together = numbers_of(together),
      .home = homes,
      .starting_loads = numbers_of(starting_loads),
      .apart = numbers_of(apart),
  };
  auto const table = fits_of(fits, price.lengths.size(), bags.size());
  if (table) { limits.fits = *table; }
  read_limits(limits, weights, most_per_gpu, most_samples, cap_is_soft, std::move(also), counts,
              multiple, then, least);
  limits.within_per_million = static_cast<std::uint32_t>(
      in_range("within_per_million", within_per_million, 0, 1'000'000'000));
  auto const length_of = [&price](std::size_t sample) { return price.lengths[sample]; };
  return {planned<ballast::partition_plan>([&](ballast::partition_plan& plan, auto& memory) {
            return ballast::partition_into(plan, memory, indices_of(price.lengths), bags, price,
                                           length_of, limits, policy);
          }),
          bags};
}

using grid_plan = timed<ballast::grid_plan>;

grid_plan make_grid(integers const& lengths, ballast::bag_layout const& bags,
                    cost_argument const& cost, std::optional<std::int64_t> microbatches,
                    std::optional<std::int64_t> most_tokens, optional_integers const& weights,
                    std::int64_t multiple_of, std::int64_t weight_multiple,
                    std::vector<cap_argument> also, std::string const& counts, std::int64_t count,
                    std::string const& meet, optional_integers const& together,
                    optional_integers const& apart, optional_bytes const& fits,
                    optional_integers const& home, optional_integers const& kinds)
{
  prices const price = prices_of(numbers_of(lengths), cost);
  if (weights && numbers_of(weights).size() != price.lengths.size()) {
    refuse("weights has ", numbers_of(weights).size(), " entries for ", price.lengths.size(),
           " samples; give one for each");
  }
  if (meet != "step" && meet != "microbatch") {
    refuse("ranks meet at the end of a 'step' or of each 'microbatch'; meet is '", meet, "'");
  }
  auto const homes = identifiers_of<ballast::rank_id>("home", home);
  ballast::microbatches slots{
      .multiple_of = in_range("multiple_of", multiple_of, 1, no_limit),
      .meet = meet == "step" ? ballast::grid_meeting::step : ballast::grid_meeting::microbatch,
      .kinds = numbers_of(kinds),
  };
  if (microbatches) { slots.number = in_range("microbatches", *microbatches, 1, no_limit); }
  ballast::placement_limits limits{
      .together = numbers_of(together), .home = homes, .apart = numbers_of(apart)};
  auto const table = fits_of(fits, price.lengths.size(), bags.size());
  if (table) { limits.fits = *table; }
  // A cap that nothing reaches, so that weights are what the plan says of cells.
  also.insert(also.begin(), {weights, most_tokens.value_or(no_limit - 1), optional_integers(),
                             weight_multiple, false});
  limits.also = caps_of(also);
  auto const number =
      static_cast<std::int64_t>(in_range("a number of samples", count, 0, most_32_bits));
  if (counts == "equal") { limits.samples = ballast::counts::equal(); }
  if (counts == "at_most") { limits.samples = ballast::counts::at_most(number); }
  if (counts == "multiple_of") { limits.samples = ballast::counts::multiple_of(number); }
  if (counts == "filled") { limits.samples = ballast::counts::filled(); }
  auto const length_of = [&price](std::size_t sample) { return price.lengths[sample]; };
  return planned<ballast::grid_plan>([&](ballast::grid_plan& plan, auto& memory) {
    return ballast::partition_grid_into(plan, memory, indices_of(price.lengths), bags, slots, price,
                                        length_of, limits);
  });
}

/// The property that shows a number for each cell, as [microbatches x ranks].
template <class Self, class Plan, class Vector>
auto cells_of(Vector Plan::* member)
{
  return [member](py::object const& self) {
    auto const& plan = self.cast<Self const&>();
    return array_of<Self>(member)(self).reshape(
        {static_cast<py::ssize_t>(plan.microbatches), static_cast<py::ssize_t>(plan.ranks)});
  };
}

using packing = timed<ballast::packing_plan>;

packing make_packing(integers const& lengths, optional_integers const& together,
                     optional_integers const& apart, optional_integers const& weights,
                     std::optional<std::int64_t> most_per_gpu,
                     std::optional<std::int64_t> most_samples, bool cap_is_soft,
                     std::vector<cap_argument> const& also, std::string const& counts,
                     std::int64_t multiple, std::string const& then, optional_integers const& least,
                     std::int64_t least_bins, std::int64_t multiple_of, bool padded)
{
  ballast::placement_limits limits{
      .together = numbers_of(together),
      .apart = numbers_of(apart),
  };
  read_limits(limits, weights, most_per_gpu, most_samples, cap_is_soft, also, counts, multiple,
              then, least);
  ballast::bins const wanted{
      .least = in_range("least_bins", least_bins, 0, no_limit),
      .multiple_of = in_range("multiple_of", multiple_of, 1, no_limit),
      .is_padded = padded,
  };
  return planned<ballast::packing_plan>([&](ballast::packing_plan& plan, auto& memory) {
    return ballast::pack_into(plan, memory, numbers_of(lengths), limits, wanted);
  });
}

integers shuffled(std::int64_t count, std::uint64_t seed)
{
  integers order(static_cast<py::ssize_t>(in_range("count", count, 0, std::int64_t{1} << 40)));
  std::span const items(order.mutable_data(), static_cast<std::size_t>(order.size()));
  std::iota(items.begin(), items.end(), std::int64_t{0});
  ballast::random_source(seed).shuffle(items);
  return order;
}

}  // namespace

PYBIND11_MODULE(_planner, module)
{
  module.attr("version") = BALLAST_VERSION;

  py::class_<quadratic_cost>(module, "Cost")
      .def(py::init(
          [](std::string const& text) { return value(ballast::parse_cost_spec(text)).cost; }))
      .def(py::init([](std::uint64_t linear, std::uint64_t quadratic, std::int64_t fraction_bits) {
        return quadratic_cost{
            linear, quadratic,
            static_cast<std::uint32_t>(in_range("fraction_bits", fraction_bits, 0, 127))};
      }))
      .def("__call__",
           [](quadratic_cost const& cost, integers const& lengths) {
             integers costs(lengths.size());
             auto const read = numbers_of(lengths);
             std::transform(read.begin(), read.end(), costs.mutable_data(), cost);
             return costs;
           })
      .def_property_readonly("coefficients",
                             [](quadratic_cost const& cost) {
                               return py::make_tuple(cost.linear, cost.quadratic,
                                                     cost.fraction_bits);
                             })
      .def(py::self == py::self)
      .def(py::pickle(
          [](quadratic_cost const& cost) {
            return py::make_tuple(cost.linear, cost.quadratic, cost.fraction_bits);
          },
          [](py::tuple const& saved) {
            return quadratic_cost{saved[0].cast<std::uint64_t>(), saved[1].cast<std::uint64_t>(),
                                  saved[2].cast<std::uint32_t>()};
          }));
  module.def("fit_lengths", &fit_lengths);
  module.def("fit_steps", &fit_steps);
  module.def("shuffled", &shuffled);

  py::class_<ballast::bag_layout>(module, "Bags").def(py::init(&layout_of));

  py::class_<by_name::any_policy>(module, "Policy").def(py::init([](std::string const& text) {
    return value(by_name::parse_policy(text));
  }));

  py::class_<bag_plan> plan(module, "Plan");
  add_rows(plan);
  add_certificate(plan);
  plan.def_property_readonly("owner", array_of<bag_plan>(&bag_plan::owner))
      .def_property_readonly("lengths", array_of<bag_plan>(&bag_plan::lengths))
      .def_property_readonly("costs", array_of<bag_plan>(&bag_plan::costs))
      .def_property_readonly("loads", array_of<bag_plan>(&bag_plan::loads))
      .def_property_readonly("above_cap", array_of<bag_plan>(&bag_plan::above_cap))
      .def_property_readonly("gpus",
                             [](py::object const& self) {
                               return view(self.cast<bag_plan const&>().bags.sizes(), self);
                             })
      .def_property_readonly("moved", [](bag_plan const& self) { return self.moved.value(); })
      .def_readonly("short_samples", &bag_plan::short_samples);
  module.def("plan", &make_plan);

  py::class_<grid_plan> grid(module, "Grid");
  add_rows(grid);
  add_certificate(grid);
  grid.def_property_readonly("owner", array_of<grid_plan>(&grid_plan::owner))
      .def_property_readonly("costs", array_of<grid_plan>(&grid_plan::costs))
      .def_property_readonly("loads", cells_of<grid_plan>(&grid_plan::loads))
      .def_property_readonly("weights", cells_of<grid_plan>(&grid_plan::filled))
      .def_property_readonly("kinds", array_of<grid_plan>(&grid_plan::kinds))
      .def(
          "microbatch",
          [](py::object const& self, std::int64_t rank, std::int64_t slot) {
            auto const& cells = self.cast<grid_plan const&>();
            auto const last = [](std::size_t count) {
              return static_cast<std::int64_t>(count) - 1;
            };
            std::size_t const column = in_range("rank", rank, 0, last(cells.ranks));
            std::size_t const row = in_range("slot", slot, 0, last(cells.microbatches));
            return view(cells.microbatch(ballast::to_id<ballast::rank_id>(column), row), self);
          },
          py::arg("rank"), py::arg("slot"))
      .def_readonly("ranks", &grid_plan::ranks)
      .def_readonly("microbatches", &grid_plan::microbatches)
      .def_readonly("fewest_microbatches", &grid_plan::fewest_microbatches)
      .def_property_readonly("why", &grid_plan::why)
      .def_property_readonly("used_microbatches", &grid_plan::used_microbatches)
      .def_property_readonly("empty_cells", &grid_plan::empty_cells)
      .def_property_readonly("moved", [](grid_plan const& self) { return self.moved.value(); });
  module.def("grid", &make_grid);

  py::class_<packing> pack(module, "Packing");
  add_rows(pack);
  pack.def_property_readonly("owner", array_of<packing>(&packing::owner))
      .def_property_readonly("loads", array_of<packing>(&packing::loads))
      .def_property_readonly("empty", array_of<packing>(&packing::empty))
      .def_readonly("fewest_bins", &packing::lower_bound)
      .def_property_readonly("above_cap", array_of<packing>(&packing::above_cap))
      .def_property_readonly("largest", [](packing const& self) { return self.largest(); })
      .def_readonly("largest_bound", &packing::largest_bound)
      .def_readonly("capacity", &packing::capacity)
      .def_property_readonly("proven_optimal",
                             [](packing const& self) { return self.proven_optimal(); });
  module.def("pack", &make_packing);

  add_pipelines(module);
}
