// SPDX-License-Identifier: Apache-2.0
// A model of two layers whose weights are sharded over ranks (FSDP), trained slot by slot.
#include <ballast/runtime/step_balancer.hpp>

#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/sharded_weights.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace sharded_slots {

using ballast::thread_communicator;
using ballast::to_index;
using ballast::tokens;

constexpr std::size_t width = 4;
using matrix = std::array<std::int64_t, width * width>;
using model = std::array<matrix, 2>;  // integers, whose sums no order changes

constexpr model weights{{{1, 2, 0, -1, 3, 1, -2, 0, 0, 1, 1, 2, -1, 0, 2, 1},
                         {2, -1, 1, 0, 0, 1, 3, -2, 1, 1, 0, 1, -1, 2, 0, 1}}};

// y = m x, or m^T x.
std::array<std::int64_t, width> product(matrix const& m, std::span<std::int64_t const> x,
                                        bool transposed)
{
  std::array<std::int64_t, width> y{};
  for (std::size_t row = 0; row < width; ++row) {
    for (std::size_t column = 0; column < width; ++column) {
      y[transposed ? column : row] += m[row * width + column] * x[transposed ? row : column];
    }
  }
  return y;
}

// What layers get from gather(layer) before each use, and how their gradients leave by
// scatter(layer, gradient): a microbatch of rows, forward and backward; the loss is |y|^2 / 2.
template <class Gather, class Scatter>
void run_microbatch(std::span<std::int64_t const> x, Gather const& gather, Scatter const& scatter)
{
  std::size_t const rows = x.size() / width;
  std::array<std::vector<std::int64_t>, 3> values;
  values[0].assign(x.begin(), x.end());
  for (std::size_t layer = 0; layer < 2; ++layer) {
    matrix const whole = gather(layer);
    for (std::size_t row = 0; row < rows; ++row) {
      auto const y = product(whole, std::span(values[layer]).subspan(row * width, width), false);
      values[layer + 1].insert(values[layer + 1].end(), y.begin(), y.end());
    }
  }
  std::vector<std::int64_t> gradient = values[2];
  for (std::size_t layer = 2; layer-- > 0;) {
    matrix const whole = gather(layer);
    matrix of_weights{};
    for (std::size_t row = 0; row < rows; ++row) {
      auto const own = std::span(gradient).subspan(row * width, width);
      for (std::size_t at = 0; at < width * width; ++at) {
        of_weights[at] += own[at / width] * values[layer][row * width + at % width];
      }
      std::ranges::copy(product(whole, own, true), own.begin());
    }
    scatter(layer, of_weights);
  }
}

model gradients_of_one_rank(std::vector<std::vector<tokens>> const& read)
{
  model gradients{};
  std::vector<std::int64_t> x;
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    tokens const rows = std::reduce(read[rank].begin(), read[rank].end(), tokens{0});
    for (std::size_t at = 0; at < static_cast<std::size_t>(rows) * width; ++at) {
      x.push_back(static_cast<std::int64_t>((7 * at + 3 * rank) % 11) - 5);
    }
  }
  run_microbatch(
      x, [](std::size_t layer) { return weights[layer]; },
      [&](std::size_t layer, matrix const& own) {
        for (std::size_t at = 0; at < own.size(); ++at) { gradients[layer][at] += own[at]; }
      });
  return gradients;
}

// The rows of a rank's shard of each layer: one of four, and its gradients.
struct sharded_model {
  thread_communicator& comm;
  std::array<std::array<std::int64_t, width>, 2> shards{};
  std::array<std::array<std::int64_t, width>, 2> gradients{};
  std::size_t received = 0;  // bytes of others' weights

  explicit sharded_model(thread_communicator& group) : comm(group)
  {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      auto const first = weights[layer].begin() + own() * static_cast<std::ptrdiff_t>(width);
      std::copy_n(first, width, shards[layer].begin());
    }
  }
  [[nodiscard]] std::ptrdiff_t own() const
  {
    return static_cast<std::ptrdiff_t>(to_index(comm.rank()));
  }

  matrix gather(std::size_t layer)
  {
    matrix whole{};
    or_throw(comm.all_gather(std::as_bytes(std::span(shards[layer])),
                             std::as_writable_bytes(std::span(whole))));
    or_throw(comm.wait());
    received += sizeof whole - sizeof shards[layer];
    return whole;
  }

  void scatter(std::size_t layer, matrix const& of_weights)
  {
    std::array<std::size_t, width> bytes{};
    bytes.fill(width * sizeof(std::int64_t));
    matrix of_all{};
    or_throw(comm.all_to_all_v(std::as_bytes(std::span(of_weights)), bytes,
                               std::as_writable_bytes(std::span(of_all)), bytes));
    or_throw(comm.wait());
    for (std::size_t at = 0; at < of_all.size(); ++at) {
      gradients[layer][at % width] += of_all[at];
    }
  }

  void run(std::span<std::int64_t const> x)
  {
    run_microbatch(
        x, [this](std::size_t layer) { return gather(layer); },
        [this](std::size_t layer, matrix const& gradient) { scatter(layer, gradient); });
  }
};

// One rank has read nearly all; five samples and eight cells, of which no two samples fit one.
std::vector<std::vector<tokens>> const read = {{10, 9, 8, 10}, {}, {7}, {}};

// Returns on how many slots this rank ran a dummy pass.
template <class Run>
std::size_t train(thread_communicator& comm, sharded_model& sharded, Run const& runs)
{
  ballast::step_balancer balancer(comm, ballast::one_gpu_bags(4), std::identity{},
                                  {.microbatches = {.meet = ballast::grid_meeting::microbatch},
                                   .limits = {.most_per_gpu = 10}});
  or_throw(balancer.plan(read[comm.rank()]));
  std::vector<std::int64_t> x(balancer.rows_read() * width);
  for (std::size_t at = 0; at < x.size(); ++at) {
    x[at] = static_cast<std::int64_t>((7 * at + 3 * to_index(comm.rank())) % 11) - 5;
  }
  std::size_t dummies = 0;
  for (std::size_t number = 0; number < balancer.slots().size(); ++number) {
    auto const slot = balancer.slots()[number];
    std::vector<std::int64_t> x_there(slot.rows_computed() * width);
    or_throw(slot.route(ballast::rows_of(x, x_there, width)));
    EXPECT_EQ(slot.is_dummy(), balancer.grid().is_empty(comm.rank(), number));
    dummies += slot.is_dummy() ? 1 : 0;
    if (runs(slot)) { sharded.run(x_there); }  // of no rows in a dummy pass: it gathers as often
  }
  EXPECT_EQ(balancer.slots().size(), 2U);
  return dummies;
}

TEST(ShardedSlots, GatherAsOftenOnEveryRankByDummyPasses)
{
  model const expected = gradients_of_one_rank(read);
  auto const dummies = ballast::run_ranks(4, [&](thread_communicator& comm) {
    sharded_model sharded(comm);
    std::size_t const own = train(comm, sharded, [](auto const&) { return true; });
    for (std::size_t layer = 0; layer < 2; ++layer) {
      for (std::size_t at = 0; at < width; ++at) {
        EXPECT_EQ(sharded.gradients[layer][at],
                  expected[layer][static_cast<std::size_t>(sharded.own()) * width + at]);
      }
    }
    // Two slots gather each layer before its forward and before its backward, as priced.
    ballast::sharded_weights const priced{
        .layers = 2, .ranks = 4, .weight_bytes = sizeof(model), .gradient_bytes = sizeof(model)};
    EXPECT_EQ(sharded.received, 2 * 2 * 2 * priced.of_layer(sizeof(model)));
    return own;
  });
  EXPECT_EQ(std::reduce(dummies.begin(), dummies.end()), 3U);
}

// Without them the calls of ranks no longer belong together: over threads an error, elsewhere a hang.
TEST(ShardedSlots, FailWhereARankLeavesOutItsDummyPass)
{
  using namespace std::chrono_literals;
  auto const errors = ballast::run_ranks(
      4,
      [&](thread_communicator& comm) -> std::string {
        sharded_model sharded(comm);
        try {
          train(comm, sharded, [](auto const& slot) { return !slot.is_dummy(); });
        } catch (std::exception const& problem) {
          return problem.what();
        }
        return {};
      },
      200ms);
  EXPECT_GT(std::ranges::count_if(errors, [](auto const& each) { return !each.empty(); }), 0);
}

}  // namespace sharded_slots
