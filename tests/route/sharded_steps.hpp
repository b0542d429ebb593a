// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/test.hpp"
#include "instances.hpp"  // defines: ballast_test::plan_of

#include <ballast/comm/communicator.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast_test {

using head_numbers = std::vector<double>;

/// Causal attention without softmax: out = (q k^T) v, and its gradients, for the share of heads of
/// one GPU of `split`. Of integers every sum is exact, so no order of summation can differ.
///
/// Arrays are [rows][heads of the share][dim].
struct linear_attention {
  std::span<ballast::tokens const> lengths;
  ballast::head_split split;
  std::uint32_t gpu = 0;
  std::uint32_t kv_heads = 1;
  std::size_t dim = 1;

  void forward(std::span<double const> q, std::span<double const> k, std::span<double const> v,
               std::span<double> out) const
  {
    std::ranges::fill(out, 0.0);
    for_each_pair([&](std::size_t query, std::size_t key) {
      double const weight = dot(&q[query], &k[key]);
      add(&out[query], weight, &v[key]);
    });
  }

  void backward(std::span<double const> q, std::span<double const> k, std::span<double const> v,
                std::span<double const> d_out, std::span<double> d_q, std::span<double> d_k,
                std::span<double> d_v) const
  {
    for (auto const gradient : {d_q, d_k, d_v}) { std::ranges::fill(gradient, 0.0); }
    for_each_pair([&](std::size_t query, std::size_t key) {
      add(&d_v[key], dot(&q[query], &k[key]), &d_out[query]);
      double const d_weight = dot(&d_out[query], &v[key]);
      add(&d_q[query], d_weight, &k[key]);
      add(&d_k[key], d_weight, &q[query]);
    });
  }

 private:
  [[nodiscard]] double dot(double const* a, double const* b) const
  {
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) { sum += a[i] * b[i]; }
    return sum;
  }

  void add(double* sums, double factor, double const* values) const
  {
    for (std::size_t i = 0; i < dim; ++i) { sums[i] += factor * values[i]; }
  }

  /// Calls visit with where the elements of a query and of a key that it looks at begin.
  template <class Visit>
  void for_each_pair(Visit visit) const
  {
    ballast::chunk const queries = split.share(gpu, split.query_heads);
    ballast::chunk const keys = split.share(gpu, kv_heads);
    std::size_t first = 0;  // row of the sequence
    for (ballast::tokens const length : lengths) {
      for (std::size_t row = first; row < first + static_cast<std::size_t>(length); ++row) {
        for (std::int64_t head = 0; head < queries.count; ++head) {
          std::int64_t const key = split.used_by(queries.first + head, kv_heads) - keys.first;
          std::size_t const query_at =
              (row * static_cast<std::size_t>(queries.count) + static_cast<std::size_t>(head)) *
              dim;
          for (std::size_t other = first; other <= row; ++other) {
            visit(query_at,
                  (other * static_cast<std::size_t>(keys.count) + static_cast<std::size_t>(key)) *
                      dim);
          }
        }
      }
      first += static_cast<std::size_t>(length);
    }
  }
};

/// A step of hybrid sharding, and what attention makes of it on one GPU, sequence by sequence.
struct sharded_case {
  ballast::device_groups all;
  ballast::sharding_plan plan;
  ballast::placement where;
  std::uint32_t query_heads = 1;
  std::uint32_t kv_heads = 1;
  std::size_t dim = 1;
  std::uint32_t whole_groups_of = 0;  ///< key-value heads, where groups of attention stay whole

  /// Of one sequence, with all heads: what goes in and comes out, forward and backward.
  struct sequence {
    head_numbers q, k, v, o, d_o, d_q, d_k, d_v;
  };
  std::vector<sequence> unsharded;

  sharded_case(ballast::device_groups family, std::vector<ballast::tokens> sequence_lengths,
               std::vector<ballast::group_id> owners, std::uint32_t queries, std::uint32_t keys,
               std::size_t head_dim, ballast::random_source& random)
      : all(std::move(family)),
        plan(plan_of(all, std::move(sequence_lengths), std::move(owners))),
        where(ballast::place(plan, all).value()),
        query_heads(queries),
        kv_heads(keys),
        dim(head_dim)
  {
    bool const is_possible = queries % keys == 0 && all.degrees().back() <= queries;
    if (is_possible && random.below(2) == 0) { whole_groups_of = keys; }
    for (ballast::tokens const length : plan.lengths) {
      auto const numbers = [&](std::uint32_t heads) {
        head_numbers drawn(static_cast<std::size_t>(length) * heads * dim);
        for (double& each : drawn) { each = static_cast<double>(random.between(-9, 9)); }
        return drawn;
      };
      sequence one{numbers(query_heads),
                   numbers(kv_heads),
                   numbers(kv_heads),
                   numbers(query_heads),
                   numbers(query_heads),
                   {},
                   {},
                   {}};
      one.d_q = one.q;
      one.d_k = one.k;
      one.d_v = one.v;
      linear_attention const attention{std::span(&length, 1), {query_heads, 1}, 0, kv_heads, dim};
      attention.forward(one.q, one.k, one.v, one.o);
      attention.backward(one.q, one.k, one.v, one.d_o, one.d_q, one.d_k, one.d_v);
      unsharded.push_back(std::move(one));
    }
  }

  /// What a rank has of an array between attentions, from where the placement says that tokens lie.
  [[nodiscard]] head_numbers of_rank(ballast::rank_id rank, head_numbers sequence::* array,
                                     std::uint32_t heads) const
  {
    std::size_t const row = heads * dim;
    head_numbers own(static_cast<std::size_t>(where.rows(rank)) * row);
    for (std::size_t sample = 0; sample < plan.lengths.size(); ++sample) {
      for (ballast::piece const& each : where[ballast::to_id<ballast::sample_id>(sample)]) {
        if (each.rank != rank) { continue; }
        auto const from = std::span(unsharded[sample].*array)
                              .subspan(static_cast<std::size_t>(each.first) * row,
                                       static_cast<std::size_t>(each.count) * row);
        std::ranges::copy(from, own.begin() + static_cast<std::ptrdiff_t>(
                                                  static_cast<std::size_t>(each.row) * row));
      }
    }
    return own;
  }

  [[nodiscard]] ballast::sharded_packs packs_of(ballast::rank_id rank) const
  {
    ballast::sharded_packs packs;
    packs.assign(plan, all, rank, query_heads, whole_groups_of);
    return packs;
  }
};

/// Groups over so many GPUs in nodes of random sizes.
inline ballast::device_groups random_groups(ballast::random_source& random, std::size_t gpus)
{
  std::vector<std::uint32_t> nodes;
  bool const one_node = random.below(3) == 0;
  for (std::size_t left = gpus; left > 0; left -= nodes.back()) {
    nodes.push_back(static_cast<std::uint32_t>(one_node ? left : 1 + random.below(left)));
  }
  std::uint64_t const largest = random.below(4) == 0 ? 1 + random.below(gpus) : gpus;
  return {ballast::node_sizes(nodes), static_cast<std::uint32_t>(largest)};
}

/// Groups, sequences of 0 to 3 tokens for each GPU of the group that owns them, and heads: fewer
/// than GPUs, not divisible by them, shared by several queries. Some steps have no sequences, some
/// only unsharded ones or only shared ones.
inline sharded_case random_sharded_step(ballast::random_source& random, std::size_t gpus)
{
  auto family = random_groups(random, gpus);
  std::vector<ballast::tokens> lengths(random.below(3) == 0 ? random.below(4) : random.below(14));
  std::vector<ballast::group_id> owner(lengths.size());
  std::uint64_t const kind = random.below(6);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    auto const degrees = family.degrees();
    std::uint32_t const degree = kind == 0   ? 1
                                 : kind == 1 ? degrees.back()
                                             : degrees[random.below(degrees.size())];
    auto const of_degree = family.of_degree(degree);
    owner[sample] = of_degree[random.below(of_degree.size())];
    bool const empty = random.below(8) == 0;
    lengths[sample] =
        empty ? 0 : static_cast<ballast::tokens>(degree * (1 + random.below(2)) + random.below(4));
  }
  auto const queries = static_cast<std::uint32_t>(1 + random.below(2 * gpus));
  auto const keys = static_cast<std::uint32_t>(1 + random.below(queries));
  return {std::move(family),
          std::move(lengths),
          std::move(owner),
          queries,
          random.below(3) == 0 ? queries : keys,
          1 + random.below(3),
          random};
}

inline std::vector<sharded_case> random_sharded_steps(int count, std::size_t gpus,
                                                      std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<sharded_case> steps;
  for (int each = 0; each < count; ++each) { steps.push_back(random_sharded_step(random, gpus)); }
  return steps;
}

/// Sleeps at one event in sixteen, for up to 200 us.
class random_delays {
 public:
  explicit random_delays(std::uint64_t seed) : random_(seed) {}

  void operator()(ballast::sharded_packs::event /*event*/)
  {
    if (random_.below(16) == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(200)));
    }
  }

 private:
  ballast::random_source random_;
};

/// A rank's arrays of a step, in whose attention nothing has been written yet.
struct sharded_arrays {
  sharded_case const& step;
  ballast::rank_id rank;
  ballast::sharded_packs packs;
  head_numbers q, k, v, d_o;                                   // between attentions
  head_numbers o, d_q, d_k, d_v;                               // what comes out
  head_numbers q_whole, k_whole, v_whole, o_whole, d_o_whole;  // in attention
  head_numbers d_q_whole, d_k_whole, d_v_whole;

  sharded_arrays(sharded_case const& of, ballast::rank_id of_rank)
      : step(of), rank(of_rank), packs(of.packs_of(of_rank))
  {
    auto const queries = step.query_heads;
    auto const keys = step.kv_heads;
    q = step.of_rank(rank, &sharded_case::sequence::q, queries);
    k = step.of_rank(rank, &sharded_case::sequence::k, keys);
    v = step.of_rank(rank, &sharded_case::sequence::v, keys);
    d_o = step.of_rank(rank, &sharded_case::sequence::d_o, queries);
    for (auto* const array : {&o, &d_q}) { array->assign(q.size(), unwritten); }
    for (auto* const array : {&d_k, &d_v}) { array->assign(k.size(), unwritten); }
    for (auto* const array : {&q_whole, &o_whole, &d_o_whole, &d_q_whole}) {
      array->assign(packs.heads_of_sequences(queries) * step.dim, unwritten);
    }
    for (auto* const array : {&k_whole, &v_whole, &d_k_whole, &d_v_whole}) {
      array->assign(packs.heads_of_sequences(keys) * step.dim, unwritten);
    }
  }

  [[nodiscard]] ballast::head_array queries(head_numbers const& from, head_numbers& to) const
  {
    return ballast::heads_of(from, to, step.query_heads, step.dim);
  }
  [[nodiscard]] ballast::head_array keys(head_numbers const& from, head_numbers& to) const
  {
    return ballast::heads_of(from, to, step.kv_heads, step.dim);
  }

  [[nodiscard]] std::array<ballast::head_array, 3> inputs()
  {
    return {queries(q, q_whole), keys(k, k_whole), keys(v, v_whole)};
  }
  [[nodiscard]] std::array<ballast::head_array, 1> outputs() { return {queries(o_whole, o)}; }
  [[nodiscard]] std::array<ballast::head_array, 1> output_gradients()
  {
    return {queries(d_o, d_o_whole)};
  }
  [[nodiscard]] std::array<ballast::head_array, 3> input_gradients()
  {
    return {queries(d_q_whole, d_q), keys(d_k_whole, d_k), keys(d_v_whole, d_v)};
  }

  void compute_forward(std::size_t pack)
  {
    attention(pack).forward(query_part(pack, q, q_whole), key_part(pack, k, k_whole),
                            key_part(pack, v, v_whole), query_part(pack, o, o_whole));
  }

  void compute_backward(std::size_t pack)
  {
    attention(pack).backward(query_part(pack, q, q_whole), key_part(pack, k, k_whole),
                             key_part(pack, v, v_whole), query_part(pack, d_o, d_o_whole),
                             query_part(pack, d_q, d_q_whole), key_part(pack, d_k, d_k_whole),
                             key_part(pack, d_v, d_v_whole));
  }

  void expect_unsharded_output() const
  {
    EXPECT_EQ(o, step.of_rank(rank, &sharded_case::sequence::o, step.query_heads));
  }

  void expect_unsharded_gradients() const
  {
    EXPECT_EQ(d_q, step.of_rank(rank, &sharded_case::sequence::d_q, step.query_heads));
    EXPECT_EQ(d_k, step.of_rank(rank, &sharded_case::sequence::d_k, step.kv_heads));
    EXPECT_EQ(d_v, step.of_rank(rank, &sharded_case::sequence::d_v, step.kv_heads));
  }

 private:
  static constexpr double unwritten = 0.5;

  [[nodiscard]] linear_attention attention(std::size_t pack) const
  {
    auto const& plan = packs[pack].plan;
    return {plan.lengths(), plan.split(), packs[pack].gpu, step.kv_heads, step.dim};
  }
  [[nodiscard]] std::span<double> query_part(std::size_t pack, head_numbers& between,
                                             head_numbers& whole) const
  {
    return packs.for_attention(pack, std::span(between), std::span(whole), step.query_heads,
                               step.dim);
  }
  [[nodiscard]] std::span<double> key_part(std::size_t pack, head_numbers& between,
                                           head_numbers& whole) const
  {
    return packs.for_attention(pack, std::span(between), std::span(whole), step.kv_heads, step.dim);
  }
};

/// Where a rank's arrays lie: on the host, which computes at once.
struct on_host {
  [[nodiscard]] static ballast::sharded_packs const& packs(ballast::sharded_packs const& own)
  {
    return own;
  }
  template <class Work>
  static void run(Work const& work)
  {
    work();
  }
  static void finish() {}
};

/// Two layers of a rank, forward and backward, equal those of one GPU bit for bit.
template <ballast::point_to_point C, class Exchange, class Watch, class Place = on_host>
ballast::result<void> expect_unsharded_step(C& comm, sharded_case const& step, Exchange& exchange,
                                            Watch watch, Place&& place = {})
{
  sharded_arrays arrays(step, comm.rank());
  auto& packs = place.packs(arrays.packs);
  for (int layer = 0; layer < 2; ++layer) {
    if (auto done = exchange.forward(
            comm, packs, arrays.inputs(), arrays.outputs(),
            [&](std::size_t pack) { place.run([&arrays, pack] { arrays.compute_forward(pack); }); },
            watch);
        !done) {
      return done;
    }
  }
  place.finish();
  arrays.expect_unsharded_output();
  for (int layer = 0; layer < 2; ++layer) {
    if (auto done = exchange.backward(
            comm, packs, arrays.output_gradients(), arrays.input_gradients(),
            [&](std::size_t pack) {
              place.run([&arrays, pack] { arrays.compute_backward(pack); });
            },
            watch);
        !done) {
      return done;
    }
  }
  place.finish();
  arrays.expect_unsharded_gradients();
  return {};
}

}  // namespace ballast_test
