// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/ulysses.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "bag_arrays.hpp"
#include "instances.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::head_shape;
using ballast::heads_of;
using ballast::result;
using ballast::run_ranks;
using ballast::thread_communicator;
using ballast::ulysses_plan;
using ballast::workspace;
using ballast_test::bag_case;
using ballast_test::whole_array;

using numbers = std::vector<double>;

constexpr std::chrono::seconds deadline(30);  // ends a test that would hang

std::uint32_t gpu_of(auto const& bag)
{
  return static_cast<std::uint32_t>(ballast::to_index(bag.rank()));
}

// A queue, as NCCL's is: an all-to-all moves nothing before wait(). It counts what goes over it.
class queued_communicator {
 public:
  explicit queued_communicator(thread_communicator inner) : inner_(std::move(inner)) {}

  [[nodiscard]] ballast::rank_id rank() const { return inner_.rank(); }
  [[nodiscard]] std::size_t size() const { return inner_.size(); }
  result<void> all_gather(std::span<std::byte const> send, std::span<std::byte> receive)
  {
    ++collectives;
    return inner_.all_gather(send, receive);
  }
  result<void> all_to_all_v(std::span<std::byte const> send,
                            std::span<std::size_t const> send_bytes, std::span<std::byte> receive,
                            std::span<std::size_t const> receive_bytes)
  {
    ++collectives;
    for (std::size_t const bytes : send_bytes) {
      messages += bytes > 0 ? 1 : 0;
      bytes_sent += bytes;
    }
    for (std::size_t const bytes : receive_bytes) { bytes_received += bytes; }
    queued_.emplace(send, send_bytes, receive, receive_bytes);
    return {};
  }
  result<void> broadcast(std::span<std::byte> bytes, ballast::rank_id root)
  {
    ++collectives;
    return inner_.broadcast(bytes, root);
  }
  result<void> barrier()
  {
    ++collectives;
    return inner_.barrier();
  }
  result<queued_communicator> split(std::uint32_t colour)
  {
    ++collectives;
    auto part = inner_.split(colour);
    if (!part) { return tl::unexpected(part.error()); }
    return queued_communicator(*std::move(part));
  }
  result<void> wait()
  {
    if (!queued_) { return {}; }
    auto const [send, send_bytes, receive, receive_bytes] = *std::exchange(queued_, std::nullopt);
    return inner_.all_to_all_v(send, send_bytes, receive, receive_bytes);
  }
  std::span<std::byte> scratch(std::size_t bytes) { return inner_.scratch(bytes); }

  int collectives = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint32_t messages = 0;

 private:
  thread_communicator inner_;
  std::optional<std::tuple<std::span<std::byte const>, std::span<std::size_t const>,
                           std::span<std::byte>, std::span<std::size_t const>>>
      queued_;
};
static_assert(ballast::communicator<queued_communicator>);

// What goes over the wire is what the plan says.
RC_GTEST_PROP(UlyssesExchange, MovesArraysBothWaysInOneAllToAllEach, ())  // Ensures (1) of both
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  auto const small = [&](std::size_t) { return random.below(100); };
  whole_array<double> const q(bag, bag.query_heads, 2, small);
  whole_array<float> const k(bag, ballast_test::random_heads(random, bag), 4, small);
  struct outcome {
    numbers q_heads, q_back;
    std::vector<float> k_heads, k_back;
    bool done = false;
    bool is_as_planned = false;
    int collectives = 0;
  };
  // Heads of 16 bytes fill a message without padding.
  std::array const shapes{head_shape{q.heads, 16}, head_shape{k.heads, 16}};
  auto const outcomes = run_ranks(
      bag.gpus,
      [&](thread_communicator& threads) {
        std::uint32_t const gpu = gpu_of(threads);
        queued_communicator comm(std::move(threads));
        workspace memory;
        auto const q_own = q.tokens_of(gpu);
        auto const k_own = k.tokens_of(gpu);
        outcome of{numbers(q.heads_of(gpu).size()), numbers(q_own.size()),
                   std::vector<float>(k.heads_of(gpu).size()), std::vector<float>(k_own.size())};
        auto const there =
            ballast::to_heads(comm, plan, memory, heads_of(q_own, of.q_heads, q.heads, 2),
                              heads_of(k_own, of.k_heads, k.heads, 4));
        auto const volume = plan.to_heads_volume(gpu, shapes);
        of.is_as_planned = comm.bytes_sent == volume.bytes_sent &&
                           comm.bytes_received == volume.bytes_received &&
                           comm.messages == volume.messages_sent;
        auto const back =
            ballast::to_tokens(comm, plan, memory, heads_of(of.q_heads, of.q_back, q.heads, 2),
                               heads_of(of.k_heads, of.k_back, k.heads, 4));
        of.done = there && back;
        std::uint64_t const both_ways = volume.bytes_sent + volume.bytes_received;
        of.is_as_planned = of.is_as_planned && comm.bytes_sent == both_ways &&
                           comm.bytes_received == both_ways &&
                           comm.messages == volume.messages_sent + volume.messages_received;
        of.collectives = comm.collectives;
        return of;
      },
      deadline);
  whole_array<float> const k_sum(bag, k.heads, 4, [&](std::size_t index) {
    auto const copies = bag.copies(static_cast<std::uint32_t>(index / 4 % k.heads), k.heads);
    return k.elements[index] * static_cast<float>(copies);
  });
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    RC_ASSERT(outcomes[gpu].done);
    RC_ASSERT(outcomes[gpu].is_as_planned);
    RC_ASSERT(outcomes[gpu].collectives == (bag.gpus == 1 ? 0 : 2));
    RC_ASSERT(outcomes[gpu].q_heads == q.heads_of(gpu));
    RC_ASSERT(outcomes[gpu].k_heads == k.heads_of(gpu));
    RC_ASSERT(outcomes[gpu].q_back == q.tokens_of(gpu));
    RC_ASSERT(outcomes[gpu].k_back == k_sum.tokens_of(gpu));
  }
}

TEST(UlyssesExchange, OfABagOfOneIsFree)
{
  ulysses_plan plan;
  plan.assign(std::vector<ballast::tokens>{3, 2}, 1, 2);
  auto group = thread_communicator::make(1);
  queued_communicator comm(std::move(group[0]));
  workspace memory;
  std::vector<int> same{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto const before = same;
  std::vector<int> other(10);
  std::vector<int> none;
  std::size_t const allocations = ballast_test::allocations();
  EXPECT_TRUE(ballast::to_heads(comm, plan, memory, heads_of(same, same, 2, 1),
                                heads_of(same, other, 2, 1)));
  EXPECT_EQ(same, before);
  EXPECT_EQ(other, before);
  EXPECT_TRUE(ballast::to_tokens(comm, plan, memory, heads_of(same, same, 2, 1)));
  EXPECT_EQ(same, before);
  EXPECT_EQ(ballast_test::allocations(), allocations);
  EXPECT_EQ(comm.collectives, 0);

  plan.assign({}, 1, 2);
  EXPECT_TRUE(ballast::to_heads(comm, plan, memory, heads_of(none, none, 2, 1)));
}

TEST(UlyssesExchange, MayHaveNothingToMove)
{
  for (auto const& lengths : {std::vector<ballast::tokens>{}, std::vector<ballast::tokens>{0, 0}}) {
    auto const plan = bag_case{4, lengths, 3}.plan();
    run_ranks(
        4,
        [&](thread_communicator& comm) {
          workspace memory;
          numbers none;
          EXPECT_TRUE(ballast::to_heads(comm, plan, memory, heads_of(none, none, 3, 2),
                                        heads_of(none, none, 1, 2)));
          EXPECT_TRUE(ballast::to_tokens(comm, plan, memory, heads_of(none, none, 1, 2)));
          EXPECT_TRUE(ballast::to_heads(comm, plan, memory));  // no array at all
        },
        deadline);
  }
}

TEST(UlyssesExchange, ServesTheBagsOfAStep)
{
  std::vector<ballast::tokens> const lengths{9, 30, 4, 7, 16, 5};
  ballast::bag_layout const bags(std::vector<ballast::bag>{
      {ballast::rank_id{0}, 1}, {ballast::rank_id{1}, 1}, {ballast::rank_id{2}, 2}});
  auto const step = ballast::partition(
                        lengths, bags, [](ballast::tokens length) { return length * length; }, {},
                        ballast::greedy_knapsack{})
                        .value();
  auto const placed = ballast::place(step, bags).value();
  auto const names = ballast_test::named_rows(placed);
  constexpr std::uint32_t query_heads = 3;
  constexpr std::uint32_t kv_heads = 1;
  constexpr std::size_t dim = 2;
  auto const element = [](std::int64_t name, std::int64_t head) {
    return static_cast<double>(10 * name + head);
  };

  run_ranks(
      4,
      [&](thread_communicator& world) {
        ballast::bag_id const own = bags.bag_of(world.rank());
        numbers q;
        numbers k;
        for (std::int64_t const name : names[ballast::to_index(world.rank())]) {
          for (std::int64_t head = 0; head < query_heads; ++head) {
            q.insert(q.end(), dim, element(name, head));
          }
          k.insert(k.end(), dim, element(name, 0));
        }
        numbers out(q.size());
        workspace memory;
        // [ulysses]
        auto const colour = static_cast<std::uint32_t>(own);
        auto bag = world.split(colour).value();  // once, when the job starts
        auto const gpu = static_cast<std::uint32_t>(bag.rank());

        ulysses_plan plan;  // every step, in place
        plan.assign(lengths, step.samples[own], bags[own].gpus, query_heads);
        numbers q_whole(plan.heads_of_sequences(gpu, query_heads) * dim);
        numbers k_whole(plan.heads_of_sequences(gpu, kv_heads) * dim);
        auto const there =
            ballast::to_heads(bag, plan, memory, heads_of(q, q_whole, query_heads, dim),
                              heads_of(k, k_whole, kv_heads, dim));
        numbers const& out_whole = q_whole;  // where a trainer calls its attention
        auto const back =
            ballast::to_tokens(bag, plan, memory, heads_of(out_whole, out, query_heads, dim));
        // [ulysses]
        ASSERT_TRUE(there && back);
        EXPECT_EQ(out, q);
        numbers expected_q;
        numbers expected_k;
        for (ballast::sample_id const sample : step.samples[own]) {
          std::size_t const index = ballast::to_index(sample);
          for (ballast::tokens token = 0; token < lengths[index]; ++token) {
            std::int64_t const name = ballast_test::token_name(index, token);
            auto const [first, count] = plan.share(gpu, query_heads);
            for (std::int64_t head = first; head < first + count; ++head) {
              expected_q.insert(expected_q.end(), dim, element(name, head));
            }
            expected_k.insert(expected_k.end(), dim, element(name, 0));
          }
        }
        EXPECT_EQ(q_whole, expected_q);
        EXPECT_EQ(k_whole, expected_k);
      },
      deadline);
}

TEST(UlyssesExchange, AllocatesNothingInTheSteadyState)  // Ensures (2) of both
{
  std::array const steps{bag_case{4, {40, 9}, 6}, bag_case{4, {4, 5, 0}, 6}, bag_case{4, {}, 6}};
  run_ranks(
      4,
      [&](thread_communicator& comm) {
        std::uint32_t const gpu = gpu_of(comm);
        ulysses_plan plan;
        workspace memory;
        numbers own(2 * 49 * 6);
        numbers heads(2 * 49 * 6);
        auto const run = [&](bag_case const& step) {
          plan.assign(step.lengths, step.gpus, step.query_heads);
          for (std::uint32_t const of_token : {6U, 2U}) {
            std::span const before(own.data(), plan.heads_of_chunks(gpu, of_token) * 2);
            std::span const during(heads.data(), plan.heads_of_sequences(gpu, of_token) * 2);
            EXPECT_TRUE(
                ballast::to_heads(comm, plan, memory, heads_of(before, during, of_token, 2)));
            EXPECT_TRUE(
                ballast::to_tokens(comm, plan, memory, heads_of(during, before, of_token, 2)));
          }
        };
        std::size_t before = 0;
        for (int round = 0; round < 6; ++round) {
          for (bag_case const& step : steps) { run(step); }
          EXPECT_TRUE(comm.barrier());  // all have done this round, and none begins the next
          if (round == 1) { before = ballast_test::allocations(); }
          if (round == 5) { EXPECT_EQ(ballast_test::allocations(), before); }
          EXPECT_TRUE(comm.barrier());
        }
      },
      deadline);
}

TEST(UlyssesExchange, OfDifferentPlansIsAnErrorOnEveryGpu)
{
  bag_case const agreed{3, {9, 6}, 3};
  bag_case const other{3, {9, 30}, 3};
  run_ranks(
      3,
      [&](thread_communicator& threads) {
        std::uint32_t const gpu = gpu_of(threads);
        queued_communicator comm(std::move(threads));
        workspace memory;
        auto const exchange = [&](bag_case const& bag) {
          whole_array<int> const x(bag, 3, 1, [](std::size_t index) { return index; });
          auto const own = x.tokens_of(gpu);
          auto heads = x.heads_of(gpu);
          return ballast::to_heads(comm, bag.plan(), memory, heads_of(own, heads, 3, 1));
        };
        auto const refused = exchange(gpu == 1 ? other : agreed);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
        EXPECT_TRUE(exchange(agreed));  // nothing is broken
      },
      deadline);
}

// Messages are as long, padded or not.
TEST(UlyssesExchange, OfOtherElementsIsAnErrorOnEveryGpu)
{
  ballast::ulysses_plan plan;
  plan.assign(std::array<ballast::tokens, 1>{6}, std::array{ballast::sample_id{0}}, 3, 3);
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
    auto const move = [&](auto element, std::size_t dim) {
      ballast::workspace memory;
      std::vector x(plan.heads_of_chunks(gpu, 3) * dim, element);
      std::vector y(plan.heads_of_sequences(gpu, 3) * dim, element);
      return to_heads(comm, plan, memory, ballast::heads_of(x, y, 3, dim));
    };
    for (std::size_t const dim : {1U, 2U}) {
      auto const done = gpu == 1 ? move(1.0F, dim) : move(1.0, 1);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
      EXPECT_EQ(done.error().ranks, std::vector{ballast::rank_id{1}}) << done.error().message;
    }
  });
}

TEST(UlyssesExchangeDeathTest, RejectsArraysThatDoNotFit)
{
  auto group = thread_communicator::make(1);
  auto const plan = bag_case{1, {2}, 2}.plan();
  workspace memory;
  numbers four(4);
  numbers five(5);
  auto const to_heads = [&](auto const&... arrays) {
    (void)ballast::to_heads(group[0], plan, memory, arrays...);
  };
  EXPECT_DEATH(to_heads(heads_of(five, four, 2, 1)),
               "array 0 has .* bytes in `from`, and its heads on GPU 0 take ");
  EXPECT_DEATH(to_heads(heads_of(four, five, 2, 1)),
               "array 0 has .* bytes in `to`, and its heads on GPU 0 take ");
  EXPECT_DEATH(to_heads(heads_of(four, five, 3, 1)), "an array has 3 heads");
  auto const wider = bag_case{2, {2}, 2}.plan();
  EXPECT_DEATH((void)ballast::to_heads(group[0], wider, memory),
               "the plan is for a bag of .* GPUs, and the communicator has ");
}

TEST(UlyssesExchangeDeathTest, RejectsWhatOnlyABagOfOneMayDo)
{
  auto group = thread_communicator::make(2, std::chrono::milliseconds(200));
  auto const plan = bag_case{2, {2}, 2}.plan();
  workspace memory;
  std::vector<std::byte> same(2);
  std::vector<std::byte> token(1);
  EXPECT_DEATH((void)ballast::to_heads(group[0], plan, memory, heads_of(same, same, 2, 1)),
               "`to` of array 0 overlaps its `from`");
  EXPECT_DEATH((void)ballast::to_tokens(group[0], plan, memory, heads_of(same, token, 1, 1)),
               "several GPUs have the same of the 1 head of array 0");
}

}  // namespace
