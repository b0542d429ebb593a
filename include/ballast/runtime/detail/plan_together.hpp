// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/gather_samples.hpp>
#include <ballast/core.hpp>
#include <ballast/runtime/detail/ahead.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// A word and numbers that every rank gave, each as many, in the communicator's scratch.
template <class T>
class numbers_of_ranks {
 public:
  numbers_of_ranks(std::span<std::byte const> all, std::size_t of_rank) : all_(all), each_(of_rank)
  {}

  [[nodiscard]] T operator()(std::size_t rank, std::size_t at = 0) const
  {
    return read<T>(rank * each_ + sizeof(std::uint64_t) + at * sizeof(T));
  }

  [[nodiscard]] bool all_have(std::uint64_t word) const { return without(word).empty(); }

  /// The ranks whose word is another one.
  [[nodiscard]] std::vector<rank_id> without(std::uint64_t word) const
  {
    std::vector<rank_id> ranks;
    for (std::size_t rank = 0; rank * each_ < all_.size(); ++rank) {
      if (read<std::uint64_t>(rank * each_) != word) { ranks.push_back(to_id<rank_id>(rank)); }
    }
    return ranks;
  }

  /// The ranks whose word is not the most common one.
  [[nodiscard]] std::vector<rank_id> differing() const
  {
    std::vector<std::uint64_t> words;
    for (std::size_t at = 0; at < all_.size(); at += each_) {
      words.push_back(read<std::uint64_t>(at));
    }
    return dissenters(span_of(words));
  }

 private:
  template <class Number>
  [[nodiscard]] Number read(std::size_t at) const
  {
    Number number;
    std::memcpy(&number, &all_[at], sizeof(number));
    return number;
  }

  std::span<std::byte const> all_;
  std::size_t each_;  // bytes
};

/// Gathers a word and numbers from all ranks: number_of(0), ..., number_of(count - 1) of each.
///
/// Ensures     the numbers are valid until the next call of scratch; nothing is allocated
/// Errors      those of the communicator, also where counts differ.
/// Complexity  one all_gather of 8 bytes beside the numbers.
template <class T, class NumberOf>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] result<numbers_of_ranks<T>> gather_with_word(any_communicator comm,
                                                           std::uint64_t word, std::size_t count,
                                                           NumberOf const& number_of)
{
  std::size_t const bytes = sizeof(word) + count * sizeof(T);
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  std::memcpy(memory.data(), &word, sizeof(word));
  for (std::size_t at = 0; at < count; ++at) {
    T const number = number_of(at);
    std::memcpy(&memory[sizeof(word) + at * sizeof(T)], &number, sizeof(number));
  }
  std::span<std::byte> const all = memory.subspan(bytes, bytes * comm.size());
  auto done = comm.all_gather(memory.first(bytes), all);
  if (done) { done = comm.wait(); }
  if (!done) { return tl::unexpected(done.error()); }
  return numbers_of_ranks<T>(all, bytes);
}

/// The same with a word that all ranks have to have in common, or the numbers do not belong
/// together.
///
/// Errors      also mismatch, on every rank, where words differ: `advice` says what to make alike.
template <class T, class NumberOf>
[[nodiscard]] result<numbers_of_ranks<T>> gather_alike(any_communicator comm,
                                                       std::string_view operation, agreed_word same,
                                                       std::string_view advice, std::size_t count,
                                                       NumberOf const& number_of)
{
  auto all = gather_with_word<T>(comm, same.word, count, number_of);
  if (!all || all->all_have(same.word)) { return all; }
  return comm_failure::mismatch(operation, same.what, all->differing(), advice,
                                "nothing was changed");
}

/// Adds to what ranks are told that disagree why the first of them has nothing, if one has nothing.
/// Collective then; has(rank), the same on every rank, is read before anything is sent.
template <class Has>
void tell_why(any_communicator comm, error& told, Has const& has, std::string_view own)
{
  std::size_t without = 0;
  while (without < comm.size() && has(without)) { ++without; }
  if (without == comm.size()) { return; }
  auto const texts =
      gather_with_word<told_text>(comm, 0, 1, [&](std::size_t) { return told_text(own); });
  if (!texts) { return; }
  told.message += concat(". Rank ", without, " has none: ", (*texts)(without).bytes.data());
}

/// Makes a step on all ranks: each gathers what all have read, plans, which gives a word that is the
/// same on all, and hears whether all have that plan. See common_steps.
[[nodiscard]] BALLAST_ONCE result<void> make_together(
    any_communicator comm, std::function<result<void>()> const& gather,
    std::function<result<void>(std::uint64_t& word)> const& plan);

/// The steps of a job, which all ranks plan from what each has read: at once, or on a thread and a
/// communicator of its own while the step before runs.
///
/// Planner     result<void>(Step&, workspace&, gathered_samples<Sample> const&, std::size_t ranks,
///             rank_id): plans for one rank. Step::digest() is one word of it, the same on all ranks.
/// Errors      of a step: those of gather_samples. mismatch, on a rank that has a plan, if
///             others have a different one or none, and then why; a rank that could not plan has its
///             own error: `failed` where a call threw. Only std::bad_alloc is thrown again, after the
///             others have been told. Also the errors of the communicator.
/// Complexity  of a step: gather_samples, the planner and one all_gather of 9 bytes a rank; one
///             more where a rank has no plan and others have one, or another reason.
template <splitting_communicator Communicator, class Sample, class Step, class Planner>
class common_steps {
 public:
  common_steps(Communicator& comm, Planner planner)
      : comm_(comm),
        planner_(std::move(planner)),
        ahead_([this](made_step& next) { return make(*planning_, next, span_of(read_)); })
  {}

  /// Plans a step at once.
  [[nodiscard]] result<void> plan(std::span<Sample const> read)
  {
    if (ahead_.is_started()) { return not_taken(); }
    return is_planned_after([&] { return make(comm_, ahead_.present(), read); });
  }

  /// Has the thread plan a step. Collective: the first time it splits the communicator.
  [[nodiscard]] result<void> submit(std::span<Sample const> read)
  {
    if (ahead_.is_started()) { return not_taken(); }
    if (!planning_) {
      if constexpr (requires { Communicator::serves_threads(); }) {
        if (!Communicator::serves_threads()) {
          return fail(error_code::transport, 0,
                      "the communicator serves one thread, and a step that is submitted is planned "
                      "in another; initialise MPI with MPI_THREAD_MULTIPLE");
        }
      }
      auto own = comm_.split(0);
      if (!own) { return tl::unexpected(own.error()); }
      planning_.emplace(*std::move(own));
    }
    read_.assign(read.begin(), read.end());
    ahead_.start();
    return {};
  }

  /// Takes the step that was submitted.
  [[nodiscard]] result<void> next()
  {
    if (!ahead_.is_started()) {
      return fail(error_code::wrong_order, 0,
                  "no step was submitted; submit what was read before its plan is taken");
    }
    return is_planned_after([this] { return ahead_.take(); });
  }

  /// From here on there is no plan.
  void forget() noexcept { is_planned_ = false; }
  void expect_plan() const
  {
    BALLAST_EXPECTS(is_planned_, "there is no plan: no step was planned, or planning it failed");
  }
  [[nodiscard]] Step const& step() const { return expect_plan(), ahead_.present().step; }
  /// What all ranks have read in it.
  [[nodiscard]] gathered_samples<Sample> const& samples() const
  {
    return expect_plan(), ahead_.present().samples;
  }
  [[nodiscard]] std::uint64_t waited() const noexcept { return ahead_.waited(); }
  [[nodiscard]] Planner const& planner() const noexcept { return planner_; }

 private:
  struct made_step {
    gathered_samples<Sample> samples;
    Step step;
  };

  [[nodiscard]] static result<void> not_taken()
  {
    return fail(error_code::wrong_order, 0,
                "a step was submitted and not taken; call next() before another one is planned");
  }

  template <class Make>
  [[nodiscard]] result<void> is_planned_after(Make const& make_plan)
  {
    is_planned_ = false;
    auto made = make_plan();
    is_planned_ = made.has_value();
    return made;
  }

  [[nodiscard]] result<void> make(Communicator& comm, made_step& next, std::span<Sample const> read)
  {
    struct {
      common_steps& self;
      Communicator& comm;
      made_step& next;
      std::span<Sample const> read;
    } const own{*this, comm, next, read};
    next.samples.room = std::exchange(room_, 0);  // a rank that threw does not know that of others
    // One reference each, so that nothing is allocated.
    auto made = make_together(
        comm, [&own] { return gather_samples(own.next.samples, own.comm, own.read); },
        [&own](std::uint64_t& word) {
          auto planned = own.self.planner_(own.next.step, own.self.memory_, own.next.samples,
                                           own.comm.size(), own.comm.rank());
          if (planned) { word = own.next.step.digest(); }
          return planned;
        });
    if (made) { room_ = next.samples.room; }
    return made;
  }

  Communicator& comm_;
  bool is_planned_ = false;

  // The thread's from submit() until next() has returned, the caller's at other times.
  Planner planner_;
  workspace memory_;
  std::size_t room_ = 0;  // of either gathered_samples; 0 after a step that failed
  std::optional<Communicator> planning_;
  std::vector<Sample> read_;
  ahead<made_step> ahead_;  // last: it ends before all else
};

}  // namespace ballast::inline v0::detail

#ifndef BALLAST_COMPILED

namespace ballast::inline v0::detail {

[[nodiscard]] BALLAST_ONCE result<void> make_together(
    any_communicator comm, std::function<result<void>()> const& gather,
    std::function<result<void>(std::uint64_t& word)> const& plan)
{
  result<void> made;
  bool has_gathered = false;
  std::uint64_t word = 0;
  auto const thrown = thrown_by([&] {
    made = gather();
    if (!made) { return; }
    has_gathered = true;
    made = plan(word);
  });
  if (thrown) {
    made = fail(error_code::failed, 0, "planning threw on rank ", comm.rank(), ": ",
                thrown_text(thrown));
  } else if (!has_gathered) {
    return made;
  }
  if (!made) {
    auto const code = static_cast<std::uint64_t>(made.error().code);
    word = digest{}.add(code).add(made.error().position).value();
  }
  // No rank waits for one that threw: the others are here too, or still in gather_samples,
  // where this other call is a mismatch.
  bool const has_plan = made.has_value();
  auto const words = gather_with_word<bool>(comm, word, 1, [&](std::size_t) { return has_plan; });
  result<void> same;
  if (!words) {
    same = tl::unexpected(words.error());
  } else if (!words->all_have(word)) {
    same = comm_failure::mismatch("plan", "the plan, or on why there is none", words->differing());
    tell_why(
        comm, same.error(), [&](std::size_t rank) { return (*words)(rank); },
        made ? "" : made.error().message);
  }
  if (thrown) { rethrow_if_out_of_memory(thrown); }
  return made ? std::move(same) : std::move(made);
}

}  // namespace ballast::inline v0::detail

#endif
