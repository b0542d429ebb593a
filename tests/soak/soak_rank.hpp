// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

/// Steps of plan and route with random faults. All ranks draw the same faults from the seed, so
/// each knows what it must be told.
namespace soak {

enum class fault : std::size_t {
  none,
  lie,         // one rank gives an all-to-all another size
  other,       // it calls another operation
  other_plan,  // it has another plan
  late,        // it comes late, within the deadline
  memory,      // one of its allocations fails
  leave,       // it gives up in the midst of a step
  count
};
inline constexpr std::array<char const*, static_cast<std::size_t>(fault::count)> fault_names = {
    "none", "lie", "other_operation", "other_plan", "late", "out_of_memory", "leave"};

struct settings {
  std::uint64_t steps = 0;
  std::uint64_t seed = 1;
  std::uint64_t one_break_in = 0;  // of so many steps, in turn, one breaks the communicator
  std::chrono::milliseconds deadline{};
};

struct tally {
  std::array<std::uint64_t, static_cast<std::size_t>(fault::count)> faults{};
  std::uint64_t bytes = 0;  // compared with what they must be
  std::uint64_t changed_bytes = 0;
  std::uint64_t lost_rows = 0;
  std::uint64_t wrong_answers = 0;
  std::uint64_t allocations = 0;     // in the steady state
  std::uint64_t counted_steps = 0;   // that were in the steady state
  std::uint64_t memory_growth = 0;   // bytes, in the last four fifths of the steps
  std::uint64_t slowest_answer = 0;  // ms
};

/// Bytes that this process has allocated and not freed.
inline std::uint64_t memory_in_use()
{
  struct mallinfo2 const all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

/// One rank of a soak. `meeting` has a deadline that is never reached, `whole` one that faults
/// reach; work is done in a part of `whole`, which is split again after it broke.
template <class C>
class soak_rank {
 public:
  soak_rank(C& meeting, C& whole, settings const& chosen, ballast::bag_layout const& bags)
      : meeting_(meeting), whole_(whole), chosen_(chosen), bags_(bags)
  {
    before_.reserve(most_rows);
    after_.reserve(most_rows);
    back_.reserve(most_rows);
    grow();
  }

  /// Calls progress(step) on rank 0 now and then.
  template <class Progress>
  tally run(Progress progress)
  {
    remake();
    std::uint64_t memory = 0;
    for (std::uint64_t step = 0; step < chosen_.steps && count_.wrong_answers == 0; ++step) {
      if (step == chosen_.steps / 5) { memory = memory_in_use(); }
      if (step % 256 == 0 && to_index(whole_.rank()) == 0) { progress(step); }
      one(step);
    }
    std::uint64_t const now = memory_in_use();
    count_.memory_growth = now > memory ? now - memory : 0;
    return count_;
  }

 private:
  using row = std::array<std::uint64_t, 3>;
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t capacity = 4;
  static constexpr std::size_t most_rows = 4096;
  static constexpr std::uint64_t warm_steps = 200;  // until no array grows any more
  static constexpr row unset = {~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}};

  // What all ranks know of a step.
  struct choice {
    fault what = fault::none;
    ballast::rank_id victim{};
    std::uint64_t number = 0;
  };

  [[nodiscard]] choice choose(std::uint64_t step) const
  {
    ballast::random_source random(
        ballast::digest{}.add(chosen_.seed).add(step).add(std::uint64_t{7}).value());
    choice chosen;
    chosen.victim = ballast::to_id<ballast::rank_id>(random.below(whole_.size()));
    chosen.number = random();
    std::uint64_t const drawn = random.below(100);
    if (step % chosen_.one_break_in == chosen_.one_break_in / 2) {
      chosen.what = random.below(2) == 0 ? fault::memory : fault::leave;
    } else if (drawn < 10) {
      chosen.what = static_cast<fault>(1 + drawn % 5);
    }
    return chosen;
  }

  void expect(bool right, char const* what, std::uint64_t step)
  {
    if (right) { return; }
    ++count_.wrong_answers;
    std::fprintf(stderr, "soak: rank %zu, step %llu, %s\n", to_index(whole_.rank()),
                 static_cast<unsigned long long>(step), what);
  }

  // Whether a call was told what all ranks must be told of what this step's fault breaks.
  [[nodiscard]] static bool is_mismatch(ballast::result<void> const& done)
  {
    return !done && done.error().code == ballast::error_code::mismatch;
  }

  void one(std::uint64_t step)
  {
    choice const chosen = choose(step);
    ++count_.faults[static_cast<std::size_t>(chosen.what)];
    auto const start = clock::now();
    bool const breaks = chosen.what == fault::memory || chosen.what == fault::leave;
    if (breaks) {
      broken(step, chosen);
    } else {
      std::size_t const before = ballast_test::allocations_of_thread();
      faults_that_break_nothing(step, chosen);
      bool const steady = chosen.what == fault::none || chosen.what == fault::late;
      std::size_t const between = ballast_test::allocations_of_thread();
      ballast::result<void> const done = plan_and_route(step, chosen, false);
      expect(done.has_value(), done ? "" : done.error().message.c_str(), step);
      if (steady && ++warm_ > warm_steps) {
        count_.allocations += ballast_test::allocations_of_thread() - before;
        ++count_.counted_steps;
      } else if (warm_ > warm_steps) {
        count_.allocations += ballast_test::allocations_of_thread() - between;
      }
    }
    auto const taken = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - start);
    count_.slowest_answer =
        std::max(count_.slowest_answer, static_cast<std::uint64_t>(taken.count()));
    if (breaks && count_.wrong_answers == 0) { remake(); }
  }

  // The steps with most rows to send, to receive and to keep, so that no later step has more.
  void grow()
  {
    std::vector<ballast::tokens> const lengths(capacity * whole_.size(), 4);
    std::vector<ballast::rank_id> const here(lengths.size(), whole_.rank());
    ballast::partition_plan const spread =
        ballast::partition(lengths, bags_, ballast::quadratic_cost{.linear = 1}, {},
                           ballast::longest_processing_time{})
            .value();
    ballast::place(as_read_, lengths, here, whole_.size());
    or_throw(ballast::place(as_planned_, spread, bags_));
    ballast::plan_route(to_compute_, as_read_, as_planned_, whole_.rank());
    ballast::plan_route(to_compute_, as_planned_, as_read_, whole_.rank());
    ballast::plan_route(to_compute_, as_read_, as_read_, whole_.rank());
  }

  // All ranks meet, and split what the fault has not broken.
  void remake()
  {
    part_.reset();
    auto const met = meeting_.barrier();
    expect(met.has_value(), met ? "" : met.error().message.c_str(), 0);
    if (!met) { return; }
    auto part = whole_.split(5);
    expect(part.has_value(), part ? "" : part.error().message.c_str(), 0);
    if (!part) { return; }
    part_.emplace(*std::move(part));
    gathered_.room = 0;  // that of a rank which broke the last one is another
    // So that the steady state begins again at once: all that the part will ever need.
    (void)part_->scratch(std::size_t{64} << 10U);
    std::vector<std::size_t> const counts(part_->size(), 1);
    std::vector<std::byte> send(part_->size()), receive(part_->size());
    auto const done = part_->all_to_all_v(send, counts, receive, counts);
    expect(done.has_value(), done ? "" : done.error().message.c_str(), 0);
  }

  // The rank that is to blame does it, and all must be told; the communicator goes on.
  void faults_that_break_nothing(std::uint64_t step, choice const& chosen)
  {
    bool const blamed = part_->rank() == chosen.victim;
    std::size_t const ranks = part_->size();
    switch (chosen.what) {
      case fault::lie: {
        std::vector<std::size_t> to(ranks, 8), from(ranks, 8);
        if (blamed) { ++to[chosen.number % ranks]; }
        std::vector<std::byte> send(8 * ranks + (blamed ? 1 : 0)), receive(8 * ranks);
        expect(is_mismatch(part_->all_to_all_v(send, to, receive, from)), "a lie was believed",
               step);
        break;
      }
      case fault::other: {
        std::array<std::byte, 8> own{};
        std::vector<std::byte> all(8 * ranks);
        auto const done = blamed ? part_->barrier() : part_->all_gather(own, all);
        expect(is_mismatch(done) && done.error().ranks == std::vector{chosen.victim},
               "another operation was not noticed", step);
        break;
      }
      case fault::other_plan: {
        auto const done = ballast::agree(*part_, blamed ? 1 : 2, "the plan");
        expect(is_mismatch(done) && done.error().ranks == std::vector{chosen.victim},
               "another plan was not noticed", step);
        break;
      }
      case fault::late:
        if (blamed) {
          std::this_thread::sleep_for(std::chrono::microseconds(chosen.number % 1000));
        }
        break;
      default: break;
    }
  }

  // One rank's part in a step that breaks the communicator, here and there or everywhere.
  void broken(std::uint64_t step, choice const& chosen)
  {
    bool const blamed = part_->rank() == chosen.victim;
    if (!blamed) {
      auto const done = plan_and_route(step, chosen, true);
      if (chosen.what == fault::leave) {
        expect(!done && std::ranges::count(done.error().ranks, chosen.victim) == 1,
               "a rank that left was not missed", step);
      } else {
        expect(done || done.error().code == ballast::error_code::peer_lost ||
                   done.error().code == ballast::error_code::timed_out,
               "memory that ran out has another error", step);
      }
      return;
    }
    if (chosen.what == fault::leave) {
      part_.reset();
      return;
    }
    try {
      ballast_test::failing_allocation const failing(1 + chosen.number % 40);
      (void)plan_and_route(step, chosen, true);
    } catch (std::bad_alloc const&) {}
    part_.reset();
  }

  // What token t of sample s is in this step.
  [[nodiscard]] static row content(std::uint64_t step, std::size_t sample, ballast::tokens token)
  {
    std::uint64_t const first = ballast::digest{}
                                    .add(step)
                                    .add(static_cast<std::uint64_t>(sample))
                                    .add(static_cast<std::uint64_t>(token))
                                    .value();
    return {first, first * 3, ~first};
  }

  // Calls f(sample, token, row) for all tokens of this rank.
  template <class F>
  void each_row(ballast::placement const& where, F f) const
  {
    for (std::size_t sample = 0; sample < where.size(); ++sample) {
      for (ballast::piece const& piece : where[ballast::to_id<ballast::sample_id>(sample)]) {
        if (piece.rank != part_->rank()) { continue; }
        for (ballast::tokens at = 0; at < piece.count; ++at) {
          f(sample, piece.first + at, static_cast<std::size_t>(piece.row + at));
        }
      }
    }
  }

  void compare(ballast::placement const& where, std::vector<row> const& rows, std::uint64_t step)
  {
    std::size_t compared = 0;
    each_row(where, [&](std::size_t sample, ballast::tokens token, std::size_t at) {
      ++compared;
      row const wanted = content(step, sample, token);
      if (rows[at] == wanted) { return; }
      if (rows[at] == unset) {
        ++count_.lost_rows;
        return;
      }
      auto const left = std::as_bytes(std::span(rows[at]));
      auto const right = std::as_bytes(std::span(wanted));
      for (std::size_t byte = 0; byte < sizeof(row); ++byte) {
        count_.changed_bytes += left[byte] != right[byte] ? 1U : 0U;
      }
    });
    if (compared != rows.size()) { ++count_.lost_rows; }
    count_.bytes += compared * sizeof(row);
  }

  // A step: gather, plan, compare plans, route there and back, and compare every byte. With fresh
  // memory if it is to run out.
  ballast::result<void> plan_and_route(std::uint64_t step, choice const& chosen, bool breaks)
  {
    struct step_memory {
      ballast::partition_plan plan;
      ballast::workspace memory;
    };
    std::optional<step_memory> own;
    if (breaks && chosen.what == fault::memory) { own.emplace(); }
    ballast::partition_plan& plan = own ? own->plan : plan_;
    ballast::workspace& memory = own ? own->memory : memory_;

    // Large steps come first, so that arrays have grown before the steady state is counted.
    bool const large = step < 16;
    ballast::random_source random(
        ballast::digest{}.add(chosen_.seed).add(step).add(to_index(part_->rank()) + 100).value());
    read_.resize(large ? capacity : random.below(capacity + 1));
    for (ballast::tokens& length : read_) { length = large ? 32 : random.between(2, 32); }

    if (auto done = ballast::gather_samples(gathered_, *part_, read_); !done) { return done; }
    constexpr ballast::quadratic_cost cost{.linear = 20};
    if (auto done = ballast::partition_into(plan, memory, gathered_.samples, bags_, cost, {},
                                            ballast::longest_processing_time{});
        !done) {
      return done;
    }
    if (auto same = ballast::agree(*part_, plan.digest(), "the plan"); !same) { return same; }
    ballast::place_as_read(as_read_, gathered_);
    if (auto placed = ballast::place(as_planned_, plan, bags_); !placed) { return placed; }
    ballast::plan_route(to_compute_, as_read_, as_planned_, part_->rank());

    before_.resize(static_cast<std::size_t>(to_compute_.rows_before));
    each_row(as_read_, [&](std::size_t sample, ballast::tokens token, std::size_t at) {
      before_[at] = content(step, sample, token);
    });
    after_.assign(static_cast<std::size_t>(to_compute_.rows_after), unset);
    back_.assign(before_.size(), unset);
    if (auto done = ballast::route(*part_, to_compute_, memory, ballast::rows_of(before_, after_));
        !done) {
      return done;
    }
    compare(as_planned_, after_, step);
    if (auto done =
            ballast::reverse_route(*part_, to_compute_, memory, ballast::rows_of(after_, back_));
        !done) {
      return done;
    }
    compare(as_read_, back_, step);
    return {};
  }

  C& meeting_;
  C& whole_;
  settings const& chosen_;
  ballast::bag_layout const& bags_;
  std::optional<C> part_;
  tally count_;
  std::uint64_t warm_ = 0;

  std::vector<ballast::tokens> read_;
  ballast::gathered_samples<ballast::tokens> gathered_;
  ballast::partition_plan plan_;
  ballast::workspace memory_;
  ballast::placement as_read_;
  ballast::placement as_planned_;
  ballast::route_plan to_compute_;
  std::vector<row> before_;
  std::vector<row> after_;
  std::vector<row> back_;
};

}  // namespace soak
