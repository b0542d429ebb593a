// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/ulysses_exchange.hpp>

#include "../support/counted_allocations.hpp"
#include "bag_arrays.hpp"
#include "instances.hpp"
#include "tiny_attention.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/random.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/place.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using ballast::error_code;
using ballast::head_shape;
using ballast::heads_of;
using ballast::result;
using ballast::run_ranks;
using ballast::thread_communicator;
using ballast::ulysses_plan;
using ballast::workspace;
using ballast_test::bag_case;
using ballast_test::tiny_attention;
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
    int collectives = 0;
  };
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
        auto const back =
            ballast::to_tokens(comm, plan, memory, heads_of(of.q_heads, of.q_back, q.heads, 2),
                               heads_of(of.k_heads, of.k_back, k.heads, 4));
        of.done = there && back;
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
    RC_ASSERT(outcomes[gpu].collectives == (bag.gpus == 1 ? 0 : 2));
    RC_ASSERT(outcomes[gpu].q_heads == q.heads_of(gpu));
    RC_ASSERT(outcomes[gpu].k_heads == k.heads_of(gpu));
    RC_ASSERT(outcomes[gpu].q_back == q.tokens_of(gpu));
    RC_ASSERT(outcomes[gpu].k_back == k_sum.tokens_of(gpu));
  }
}

// One attention layer of a bag as a trainer has it: the GPU's own rows before and after.
class bag_attention {
 public:
  bag_attention(thread_communicator& bag, bag_case const& of, tiny_attention heads)
      : bag_(bag), plan_(of.plan()), heads_(heads)
  {
    std::uint32_t const gpu = gpu_of(bag);
    queries_ = plan_.share(gpu, heads.query_heads);
    key_values_ = plan_.share(gpu, heads.key_value_heads);
    for (numbers* const each : {&q_, &out_, &d_q_, &d_out_}) {
      each->resize(plan_.heads_of_sequences(gpu, heads.query_heads) * heads.dim);
    }
    for (numbers* const each : {&k_, &v_, &d_k_, &d_v_}) {
      each->resize(plan_.heads_of_sequences(gpu, heads.key_value_heads) * heads.dim);
    }
  }

  [[nodiscard]] numbers forward(numbers const& q, numbers const& k, numbers const& v)
  {
    numbers out(q.size());
    auto const [query_heads, kv_heads, dim] = heads_;
    EXPECT_TRUE(ballast::to_heads(bag_, plan_, memory_, heads_of(q, q_, query_heads, dim),
                                  heads_of(k, k_, kv_heads, dim), heads_of(v, v_, kv_heads, dim)));
    heads_.forward(plan_.lengths(), queries_, key_values_, q_, k_, v_, out_);
    EXPECT_TRUE(ballast::to_tokens(bag_, plan_, memory_, heads_of(out_, out, query_heads, dim)));
    return out;
  }

  // Gradients of queries, keys and values; after forward().
  [[nodiscard]] std::array<numbers, 3> backward(numbers const& d_out)
  {
    auto const [query_heads, kv_heads, dim] = heads_;
    numbers d_q(d_out.size());
    numbers d_k(plan_.heads_of_chunks(gpu_of(bag_), kv_heads) * dim);
    numbers d_v(d_k.size());
    EXPECT_TRUE(ballast::to_heads(bag_, plan_, memory_, heads_of(d_out, d_out_, query_heads, dim)));
    heads_.backward(plan_.lengths(), queries_, key_values_, q_, k_, v_, d_out_, d_q_, d_k_, d_v_);
    EXPECT_TRUE(ballast::to_tokens(bag_, plan_, memory_, heads_of(d_q_, d_q, query_heads, dim),
                                   heads_of(d_k_, d_k, kv_heads, dim),
                                   heads_of(d_v_, d_v, kv_heads, dim)));
    return {d_q, d_k, d_v};
  }

 private:
  thread_communicator& bag_;
  ulysses_plan plan_;
  tiny_attention heads_;
  workspace memory_;
  ballast::chunk queries_, key_values_;
  numbers q_, k_, v_, out_, d_q_, d_k_, d_v_, d_out_;
};

numbers random_numbers(std::size_t count, std::uint64_t seed)
{
  ballast::random_source random(seed);
  numbers all(count);
  for (double& each : all) { each = static_cast<double>(random.between(-1000, 1000)) / 1000; }
  return all;
}

double furthest(numbers const& a, numbers const& b)
{
  EXPECT_EQ(a.size(), b.size());
  double distance = 0;
  for (std::size_t at = 0; at < a.size(); ++at) {
    distance = std::max(distance, std::abs(a[at] - b[at]));
  }
  return distance;
}

struct attention_case {
  bag_case bag;
  tiny_attention heads;
};

std::vector<attention_case> attention_cases()
{
  std::vector<attention_case> cases;
  for (std::uint32_t gpus = 1; gpus <= 8; ++gpus) {
    for (auto const& [queries, key_values] :
         {std::pair{8U, 8U}, std::pair{8U, 2U}, std::pair{6U, 1U}, std::pair{3U, 2U}}) {
      cases.push_back({{gpus, {9, 0, 17, 8, 1, 5}, queries}, {queries, key_values, 3}});
    }
  }
  return cases;
}

TEST(UlyssesExchange, AttentionInABagIsThatOfOneGpu)
{
  for (auto const& [bag, heads] : attention_cases()) {
    SCOPED_TRACE(testing::Message() << bag.gpus << " GPUs, " << heads.query_heads << " and "
                                    << heads.key_value_heads << " heads");
    std::size_t const width = bag.rows() * heads.dim;
    auto const array = [&](std::uint32_t of_token, std::uint64_t seed) {
      auto const values = random_numbers(width * of_token, seed);
      return whole_array<double>(bag, of_token, heads.dim,
                                 [&](auto index) { return values[index]; });
    };
    auto const q = array(heads.query_heads, 1);
    auto const k = array(heads.key_value_heads, 2);
    auto const v = array(heads.key_value_heads, 3);
    auto const d_out = array(heads.query_heads, 4);
    auto out = q;
    auto d_q = q;
    auto d_k = k;
    auto d_v = v;
    ballast::chunk const all_queries{0, heads.query_heads};
    ballast::chunk const all_key_values{0, heads.key_value_heads};
    heads.forward(bag.lengths, all_queries, all_key_values, q.elements, k.elements, v.elements,
                  out.elements);
    heads.backward(bag.lengths, all_queries, all_key_values, q.elements, k.elements, v.elements,
                   d_out.elements, d_q.elements, d_k.elements, d_v.elements);

    run_ranks(
        bag.gpus,
        [&](thread_communicator& comm) {
          std::uint32_t const gpu = gpu_of(comm);
          bag_attention layer(comm, bag, heads);
          EXPECT_EQ(layer.forward(q.tokens_of(gpu), k.tokens_of(gpu), v.tokens_of(gpu)),
                    out.tokens_of(gpu));
          auto const [own_d_q, own_d_k, own_d_v] = layer.backward(d_out.tokens_of(gpu));
          EXPECT_EQ(own_d_q, d_q.tokens_of(gpu));
          EXPECT_LE(furthest(own_d_k, d_k.tokens_of(gpu)), 1e-12);  // summed in another order
          EXPECT_LE(furthest(own_d_v, d_v.tokens_of(gpu)), 1e-12);
        },
        deadline);
  }
}

TEST(UlyssesExchange, GradientsAreThoseOfFiniteDifferences)
{
  bag_case const bag{3, {4, 0, 3}, 4};
  tiny_attention const heads{4, 2, 2};
  std::size_t const width = bag.rows() * heads.dim;
  auto const weights = random_numbers(width * heads.query_heads, 5);
  whole_array<double> const d_out(bag, 4, 2, [&](std::size_t index) { return weights[index]; });
  std::array const inputs{random_numbers(width * 4, 1), random_numbers(width * 2, 2),
                          random_numbers(width * 2, 3)};
  std::array const input_heads{4U, 2U, 2U};
  // The error of a central difference is step^2 / 6 times a third derivative, here below 100, and
  // the rounding of sums below 100 over step.
  constexpr double step = 1e-5;
  constexpr double tolerance = 1e-8;

  run_ranks(
      bag.gpus,
      [&](thread_communicator& comm) {
        std::uint32_t const gpu = gpu_of(comm);
        bag_attention layer(comm, bag, heads);
        auto const own_weights = d_out.tokens_of(gpu);
        auto const own = [&](numbers const& values, std::uint32_t of_token) {
          return whole_array<double>(bag, of_token, 2, [&](auto index) { return values[index]; })
              .tokens_of(gpu);
        };
        // The loss sum(weights x out) of the whole bag.
        auto const loss = [&](std::array<numbers, 3> const& at) {
          auto const out = layer.forward(own(at[0], 4), own(at[1], 2), own(at[2], 2));
          double sum = 0;
          for (std::size_t i = 0; i < out.size(); ++i) { sum += out[i] * own_weights[i]; }
          std::array<double, 3> sums{};
          EXPECT_TRUE(comm.all_gather(std::as_bytes(std::span(&sum, 1)),
                                      std::as_writable_bytes(std::span(sums))));
          return sums[0] + sums[1] + sums[2];
        };
        (void)loss(inputs);
        auto const gradients = layer.backward(own_weights);
        for (std::size_t input = 0; input < inputs.size(); ++input) {
          numbers differences(inputs[input].size());
          for (std::size_t at = 0; at < differences.size(); ++at) {
            auto moved = inputs;
            moved[input][at] += step;
            double const above = loss(moved);
            moved[input][at] -= 2 * step;
            differences[at] = (above - loss(moved)) / (2 * step);
          }
          EXPECT_LE(furthest(gradients[input], own(differences, input_heads[input])), tolerance);
        }
      },
      deadline);
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

TEST(UlyssesExchange, BringsShortSequencesThereAndBack)
{
  for (std::uint32_t const gpus : {1U, 2U, 4U, 8U}) {
    for (ballast::tokens length = 0; length <= gpus + 1; ++length) {
      for (bag_case const& bag :
           {bag_case{gpus, {length}, 8}, bag_case{gpus, {length, 20, length}, 8}}) {
        SCOPED_TRACE(testing::Message() << length << " tokens on " << gpus << " GPUs");
        whole_array<double> const q(bag, 8, 2, [](std::size_t index) { return index; });
        auto const plan = bag.plan();
        run_ranks(
            gpus,
            [&](thread_communicator& comm) {
              workspace memory;
              auto const own = q.tokens_of(gpu_of(comm));
              numbers heads(q.heads_of(gpu_of(comm)).size());
              numbers back(own.size());
              EXPECT_TRUE(ballast::to_heads(comm, plan, memory, heads_of(own, heads, 8, 2)));
              EXPECT_EQ(heads, q.heads_of(gpu_of(comm))) << "all tokens of the GPU's heads";
              EXPECT_TRUE(ballast::to_tokens(comm, plan, memory, heads_of(heads, back, 8, 2)));
              EXPECT_EQ(back, own);
            },
            deadline);
      }
    }
  }
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

TEST(UlyssesExchange, PutsOnTheWireWhatThePlanSays)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 20; ++trial) {
    bag_case const bag = ballast_test::random_bag(random, 6);
    std::uint32_t const few = ballast_test::random_heads(random, bag);
    auto const plan = bag.plan();
    // Heads of 16 bytes fill a message without padding.
    std::array const shapes{head_shape{bag.query_heads, 16}, head_shape{few, 16}};
    whole_array<double> const q(bag, bag.query_heads, 2, [](std::size_t) { return 1; });
    whole_array<double> const k(bag, few, 2, [](std::size_t) { return 1; });
    run_ranks(
        bag.gpus,
        [&](thread_communicator& threads) {
          std::uint32_t const gpu = gpu_of(threads);
          queued_communicator comm(std::move(threads));
          workspace memory;
          auto q_own = q.tokens_of(gpu);
          auto q_heads = q.heads_of(gpu);
          auto k_own = k.tokens_of(gpu);
          auto k_heads = k.heads_of(gpu);
          auto const volume = plan.to_heads_volume(gpu, shapes);
          EXPECT_TRUE(ballast::to_heads(comm, plan, memory, heads_of(q_own, q_heads, q.heads, 2),
                                        heads_of(k_own, k_heads, k.heads, 2)));
          EXPECT_EQ(comm.bytes_sent, volume.bytes_sent);
          EXPECT_EQ(comm.bytes_received, volume.bytes_received);
          EXPECT_EQ(comm.messages, volume.messages_sent);
          EXPECT_TRUE(ballast::to_tokens(comm, plan, memory, heads_of(q_heads, q_own, q.heads, 2),
                                         heads_of(k_heads, k_own, k.heads, 2)));
          EXPECT_EQ(comm.bytes_sent, volume.bytes_sent + volume.bytes_received);
          EXPECT_EQ(comm.bytes_received, volume.bytes_received + volume.bytes_sent);
          EXPECT_EQ(comm.messages, volume.messages_sent + volume.messages_received);
        },
        deadline);
  }
}

TEST(UlyssesExchange, ServesTheBagsOfAStep)
{
  std::vector<ballast::tokens> const lengths{9, 30, 4, 7, 16, 5};
  ballast::bag_layout const bags(std::vector<ballast::bag>{
      {ballast::rank_id{0}, 1}, {ballast::rank_id{1}, 1}, {ballast::rank_id{2}, 2}});
  auto const step =
      ballast::partition(lengths, bags, ballast::greedy_knapsack{}, [](ballast::tokens length) {
        return length * length;
      }).value();
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

TEST(UlyssesExchange, ServesTwoModelsInOneProcess)
{
  // Six GPUs: bags of 2 and 4 for one model, of 3 and 3 for the other.
  std::array const first_model{bag_case{2, {5, 2}, 4}, bag_case{4, {6, 0, 11}, 4}};
  std::array const second_model{bag_case{3, {7}, 2}, bag_case{3, {3, 4}, 2}};
  run_ranks(
      6,
      [&](thread_communicator& world) {
        std::size_t const rank = ballast::to_index(world.rank());
        std::uint32_t const first_bag = rank < 2 ? 0 : 1;
        std::uint32_t const second_bag = rank < 3 ? 0 : 1;
        auto first_comm = world.split(first_bag).value();
        auto second_comm = world.split(second_bag).value();
        bag_case const& first = first_model[first_bag];
        bag_case const& second = second_model[second_bag];
        auto const same = [](std::size_t index) { return index; };
        whole_array<std::int64_t> const x(first, 4, 3, same);
        whole_array<float> const y(second, 2, 1, same);
        auto const x_own = x.tokens_of(gpu_of(first_comm));
        auto const y_own = y.tokens_of(gpu_of(second_comm));
        auto x_heads = x.heads_of(gpu_of(first_comm));
        auto y_heads = y.heads_of(gpu_of(second_comm));
        auto const first_plan = first.plan();
        auto const second_plan = second.plan();
        workspace memory;
        for (int step = 0; step < 10; ++step) {
          std::ranges::fill(x_heads, 0);
          std::ranges::fill(y_heads, 0.0F);
          std::vector<std::int64_t> x_back(x_own.size());
          std::vector<float> y_back(y_own.size());
          EXPECT_TRUE(
              ballast::to_heads(first_comm, first_plan, memory, heads_of(x_own, x_heads, 4, 3)));
          EXPECT_TRUE(
              ballast::to_heads(second_comm, second_plan, memory, heads_of(y_own, y_heads, 2, 1)));
          EXPECT_TRUE(
              ballast::to_tokens(first_comm, first_plan, memory, heads_of(x_heads, x_back, 4, 3)));
          EXPECT_TRUE(ballast::to_tokens(second_comm, second_plan, memory,
                                         heads_of(y_heads, y_back, 2, 1)));
          EXPECT_EQ(x_heads, x.heads_of(gpu_of(first_comm)));
          EXPECT_EQ(y_heads, y.heads_of(gpu_of(second_comm)));
          EXPECT_EQ(x_back, x_own);
          EXPECT_EQ(y_back, y_own);
        }
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
        EXPECT_EQ(refused.error().code, error_code::mismatch);
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
