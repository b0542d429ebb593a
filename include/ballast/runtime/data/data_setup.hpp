// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>

#include <functional>
#include <memory>

namespace ballast::inline v0 {

/// What of a sample a rank may compute by itself: a frame of a video, an image, a text.
struct data_part {
  std::uint32_t module = 0;  ///< that computes it
  tokens length = 0;         ///< in that module
  std::uint64_t bytes = 0;   ///< of the payload

  friend bool operator==(data_part, data_part) = default;
};

/// A sample as its loader gives it: its length in each module, and what the model trains on.
struct loaded_sample {
  std::vector<tokens> lengths;
  std::vector<std::byte> bytes;
  /// What `bytes` has, part after part; empty: the sample is one part.
  std::vector<data_part> parts = {};
};

/// Where samples come from: the user's part of a data pipeline.
///
///   load(sample)      fetches and decodes a sample. An error says that it cannot be decoded, and
///                     why; an exception ends the loader, and the sample goes to another one
///   lengths(sample)   optional: the lengths, as std::vector<tokens>, without decoding the sample,
///                     so that windows are planned before anything is decoded. They may be
///                     estimates; steps are planned by those of load()
///
/// Expects     both depend on the sample alone, and may be called by several threads at a time.
template <class S>
concept data_source = requires(S const& source, std::uint64_t sample) {
  { source.load(sample) } -> std::same_as<result<loaded_sample>>;
};

namespace detail {

template <class S>
concept data_source_with_lengths =
    data_source<S> && requires(S const& source, std::uint64_t sample) {
      { source.lengths(sample) } -> std::same_as<std::vector<tokens>>;
    };

/// The lengths of a sample before it is decoded; null: nobody knows them.
using known_lengths = std::function<std::vector<tokens>(std::uint64_t sample)>;

}  // namespace detail

/// What a data pipeline deals, and in which order. Steps depend on this alone: not on how many
/// ranks, loaders and threads there are, nor on how fast they are.
struct data_setup {
  /// Samples of an epoch; they are 0, 1, ..., below 2^32.
  std::size_t samples = 0;
  /// The most samples of a step, of all ranks together. Steps are that full, but the last of an
  /// epoch, steps without room for a whole group, and steps of which samples were left out.
  std::size_t step_samples = 1;
  /// How many lengths a sample has.
  std::size_t modules = 1;
  std::uint64_t epochs = 1;
  std::uint64_t seed = 1;
  /// Empty, or the group of each sample: samples of a group train in one step, and are left out
  /// together. Their numbers are arbitrary.
  std::vector<std::uint32_t> together = {};
  /// A sample that cannot be decoded is named, left out with all of its group, and counted; or its
  /// step is an error that names it.
  bool stops_at_undecodable = false;
  /// For how many steps samples may be fetched that have not been taken, beside the window's: the
  /// bound of all queues together, at least 1.
  std::size_t fetched_ahead = 2;
};

/// Bytes of a sample that a rank computes, as the plan of a step says. Several ranks may have the
/// same ones, as tensor ranks do.
struct data_share {
  std::size_t entry = 0;  ///< which of the step's samples it is of
  rank_id rank{};
  std::uint64_t first = 0;  ///< of its payload
  std::uint64_t count = 0;
  std::size_t microbatch = 0;  ///< in which the rank computes it

  friend bool operator==(data_share, data_share) = default;
};

/// A step of training as every rank sees it: which samples, how long they are, who computes them.
///
/// Shapes      samples[n], lengths[n x modules], a row of each sample; part_begins[n + 1], those of
///             sample e are parts[part_begins[e]] up to parts[part_begins[e + 1]].
struct data_step {
  std::uint64_t number = 0;    ///< counts steps over all epochs
  std::uint64_t epoch = 0;     ///< counts from 0
  std::uint64_t position = 0;  ///< of the step in its epoch
  std::uint64_t left_out = 0;  ///< samples that were left out up to this step, since the start
  bool ends_epoch = false;
  std::size_t modules = 1;  ///< lengths of each sample
  std::vector<std::uint64_t> samples = {};
  std::vector<tokens> lengths = {};
  std::vector<data_part> parts = {};
  std::vector<std::size_t> part_begins = {};
  std::vector<data_share> shares = {};  ///< in the order of the plan; empty until it is made
  std::vector<std::string> news = {};   ///< a sentence for each sample left out or loader lost
  std::string saved = {};               ///< what save() returns

  /// What data_proxy::restore needs to go on after this step, and to see whether it is given the
  /// same data, setup and windows.
  [[nodiscard]] std::string const& save() const noexcept { return saved; }

  [[nodiscard]] std::span<tokens const> lengths_of(std::size_t entry) const
  {
    return {lengths.data() + entry * modules, modules};
  }

  /// The parts of a sample, as its payload has them; at least one.
  [[nodiscard]] std::span<data_part const> parts_of(std::size_t entry) const
  {
    std::size_t const begin = part_begins[entry];
    return {parts.data() + begin, part_begins[entry + 1] - begin};
  }

  /// One word of what trains in this step. It does not depend on who computes what, so it is the
  /// same for other numbers of ranks and loaders.
  [[nodiscard]] std::uint64_t digest() const
  {
    return ballast::digest{}
        .add(number)
        .add(epoch)
        .add(position)
        .add(left_out)
        .add(std::span(samples))
        .add(std::span(lengths))
        .value();
  }
};

/// What a rank has of a step: all of its metadata, and the payloads that the plan gives this rank,
/// in the order of the step's shares.
struct data_batch {
  /// A sample that this rank computes, or what it has of one: which entry of the step it is, its
  /// bytes, and where in the payload these begin.
  struct own_sample {
    std::size_t entry = 0;
    std::vector<std::byte> bytes = {};
    std::uint64_t first = 0;
    std::size_t microbatch = 0;
  };

  std::shared_ptr<data_step const> step;
  std::vector<own_sample> own;
};

/// A sample that a loader is to fetch. Where one sample is dealt again after a loader was lost, it
/// has the same ticket; in another epoch it has another one.
struct data_deal {
  std::uint64_t ticket = 0;
  std::uint64_t sample = 0;

  friend bool operator==(data_deal, data_deal) = default;
};

/// How many loaders fetch samples, and when one of them is given up.
struct loader_options {
  /// Bounds of their number, which follows measured rates; at least 1.
  std::size_t least = 1;
  std::size_t most = 4;
  /// A loader that says nothing for so long while it is waited for is lost: its samples go to
  /// others. Longer than any sample takes to load, and above 0; the largest value is never.
  std::chrono::milliseconds late_after = std::chrono::minutes(5);
  /// So many loaders may be lost; one more is an error of the step.
  std::size_t most_lost = 64;
};

namespace detail {

/// The same options, with times that a clock can be asked to wait.
[[nodiscard]] inline loader_options checked(loader_options options)
{
  BALLAST_EXPECTS(options.late_after > std::chrono::milliseconds(0), "late_after is ",
                  options.late_after.count(),
                  " ms; give one above 0, milliseconds::max() for never");
  options.late_after = std::min(options.late_after, longest_deadline);
  return options;
}

}  // namespace detail

/// What a window policy sees: units (samples, or groups that stay together) of one size, which may
/// change places between the steps of a window. Each unit has arrived in a step, and trains in a
/// step: in an earlier one, or in one that is at most held_back later. As many train in a step as
/// have arrived in it.
///
/// Shapes      costs[n], arrived[n], which does not decrease and is below steps.
struct window_problem {
  std::span<cost_units const> costs;
  std::span<std::uint32_t const> arrived;
  std::size_t steps = 1;
  std::size_t held_back = 0;
};

namespace detail {

/// The places that are left in the steps of a window, and whether all units that have none can
/// still get one in time.
///
/// A unit may take any place up to its last step. So all fit exactly when, for each step u, no more
/// units must train up to u than there are places up to u (Hall's condition for nested sets).
///
/// Ensures     (1) after place() of what fits() all units that are left fit
/// Complexity  O(steps) a call.
class window_room {
 public:
  explicit window_room(window_problem const& problem)
      : last_(problem.steps - 1),
        held_back_(problem.held_back),
        places_(problem.steps),
        spare_(problem.steps)
  {
    for (std::uint32_t const step : problem.arrived) {
      ++places_[step];
      for (std::size_t u = step; u <= last_; ++u) { ++spare_[u]; }
      for (std::size_t u = last_step(step); u <= last_; ++u) { --spare_[u]; }
    }
  }

  /// The last step in which a unit may train.
  [[nodiscard]] std::size_t last_step(std::size_t arrived) const
  {
    return held_back_ < last_ - arrived ? arrived + held_back_ : last_;
  }

  [[nodiscard]] std::size_t places(std::size_t step) const { return places_[step]; }

  /// Whether a unit may train in this step.
  [[nodiscard]] bool fits(std::size_t arrived, std::size_t step) const
  {
    std::size_t const last = last_step(arrived);
    if (places_[step] == 0 || step > last) { return false; }
    return std::all_of(spare_.begin() + static_cast<std::ptrdiff_t>(step),
                       spare_.begin() + static_cast<std::ptrdiff_t>(last),
                       [](std::int64_t spare) { return spare > 0; });
  }

  void place(std::size_t arrived, std::size_t step)
  {
    --places_[step];
    for (std::size_t u = step; u < last_step(arrived); ++u) { --spare_[u]; }
  }

 private:
  std::size_t last_;
  std::size_t held_back_;
  std::vector<std::size_t> places_;
  std::vector<std::int64_t> spare_;  // places up to each step that no unit must have
};

/// Each unit, the heaviest first, of equal ones the first, trains in the step choose(room, arrived).
template <class Choose>
void train_heaviest_first(window_problem const& problem, std::span<cost_units> loads,
                          std::span<std::uint32_t> step, Choose const& choose)
{
  std::vector<std::uint32_t> order(problem.costs.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem.costs[a] > problem.costs[b] || (problem.costs[a] == problem.costs[b] && a < b);
  });
  window_room room(problem);
  for (std::uint32_t const unit : order) {
    std::size_t const chosen = choose(room, problem.arrived[unit]);
    room.place(problem.arrived[unit], chosen);
    step[unit] = static_cast<std::uint32_t>(chosen);
    loads[chosen] += problem.costs[unit];
  }
}

}  // namespace detail

/// Gathers long samples in few steps of a window: the heaviest units train as early as they may. A
/// sample that outweighs what a rank has to do otherwise then makes one step long, in which others
/// as long run beside it, in place of a step each.
///
/// Ensures     (1) what a policy of data_windows promises
///             (2) from heaviest to lightest, each unit trains in the first step where it leaves all
///                 lighter ones a place in time
///             (3) with equal counts and held_back of all steps, no other choice has a smaller sum
///                 over the steps of the heaviest unit: the k-th largest maximum is at least the
///                 heaviest unit after k full groups
/// Complexity  O(n (log n + steps^2)).
struct long_rounds {
  void operator()(window_problem const& problem, std::span<cost_units> loads,
                  std::span<std::uint32_t> step) const
  {
    detail::train_heaviest_first(problem, loads, step,
                                 [](detail::window_room const& room, std::size_t arrived) {
                                   std::size_t first = 0;
                                   while (!room.fits(arrived, first)) { ++first; }
                                   return first;
                                 });
  }

  friend bool operator==(long_rounds, long_rounds) = default;
};

/// The cost of a sample by which windows are planned, where nobody says otherwise.
struct total_length {
  cost_units operator()(std::span<tokens const> lengths) const
  {
    return std::accumulate(lengths.begin(), lengths.end(), cost_units{0});
  }
};

/// Plans over several steps: which samples of a window train in which of its steps. With one step,
/// the default, samples train in the order in which they are dealt.
///
///     data_windows{.steps = 8, .held_back = 4, .policy = long_rounds{}, .cost = cost_of_lengths}
///
/// An epoch has the same samples as without windows, and the same number of steps; a window does
/// not reach into the next epoch. The gradients of a single step change: they are those of other
/// samples, chosen by their length. Where training minds that, take small windows.
struct data_windows {
  std::size_t steps = 1;
  /// For how many of these steps a sample may be held back at most.
  std::size_t held_back = 0;
  /// Says in which step each unit of a window trains: policy(problem, loads, step) writes step[n];
  /// loads[steps] has the work that each step has already (units of other sizes), and grows by what
  /// is added. Every step trains as many units as have arrived in it, none more than held_back after
  /// its arrival, and the same from the same problem, everywhere; other answers are refused.
  std::function<void(window_problem const&, std::span<cost_units>, std::span<std::uint32_t>)>
      policy = long_rounds{};
  std::function<cost_units(std::span<tokens const>)> cost = total_length{};
};

/// Gives the steps of a window about the same work, so that steps take equally long and need as
/// much memory: the heaviest units first, each into the step with the least work.
///
/// Ensures     (1) what a policy of data_windows promises
///             (2) from heaviest to lightest, each unit trains in the step with the least work of
///                 those where it leaves all lighter ones a place in time; of equal steps the first
/// Complexity  O(n (log n + steps^2)).
/// Source      longest processing time first, with equal counts (R. L. Graham, 1969).
struct even_rounds {
  void operator()(window_problem const& problem, std::span<cost_units> loads,
                  std::span<std::uint32_t> step) const
  {
    detail::train_heaviest_first(
        problem, loads, step, [&](detail::window_room const& room, std::size_t arrived) {
          std::size_t best = problem.steps;
          for (std::size_t each = 0; each <= room.last_step(arrived); ++each) {
            bool const less = best == problem.steps || loads[each] < loads[best];
            if (less && room.fits(arrived, each)) { best = each; }
          }
          return best;
        });
  }

  friend bool operator==(even_rounds, even_rounds) = default;
};

}  // namespace ballast::inline v0
