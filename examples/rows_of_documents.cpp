// SPDX-License-Identifier: Apache-2.0
// A pack of documents on eight ranks of one context-parallel group: attention that is causal, has a
// window, or has prompts that all see, takes the same time on all of them. Loss and gradients are
// those of one rank. `rows_of_documents mpi` does it on eight processes.

#include "common/block_math.hpp"    // defines: block::{values, linear, linear_gradient}
#include "common/gradient_sum.hpp"  // defines: block::sum_over_ranks
#include "common/packed_attention.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/sharding.hpp>
#ifdef ROWS_OF_DOCUMENTS_WITH_MPI
#include "common/on_processes.hpp"
#endif

#include <cmath>
#include <cstdio>
#include <numeric>

namespace {

using namespace ballast;
using block::values;

constexpr std::size_t width = 6;
constexpr std::size_t pair = 2 * width;  // a key and a value
constexpr std::size_t ranks = 8;
std::vector<tokens> const documents = {7, 90, 21, 3, 200, 44, 12};
std::vector<row_mask> const masks = {{}, {.window = 24}, {.prefixes = {2, 30, 0, 3, 50, 44, 1}}};

std::size_t index(tokens row)
{
  return static_cast<std::size_t>(row);
}

// Gets keys and values, which lie where the pack has their rows, from the ranks that have them; or
// brings back what was added to those of others, where it is added.
template <class C>
void move(C& comm, row_split const& split, std::size_t mask, values& pack, bool back)
{
  std::vector<std::size_t> sent, received;
  values send;
  std::vector<double*> places;
  for (std::size_t other = 0; other < comm.size(); ++other) {
    auto out = split.moved_rows(comm.rank(), rank_id(other), mask);
    auto in = split.moved_rows(rank_id(other), comm.rank(), mask);
    if (back) { std::swap(out, in); }
    for (tokens const row : out) {
      send.insert(send.end(), &pack[index(row) * pair], &pack[index(row) * pair] + pair);
      if (back) { std::fill_n(&pack[index(row) * pair], pair, 0.0); }
    }
    for (tokens const row : in) { places.push_back(&pack[index(row) * pair]); }
    sent.push_back(out.size() * pair * sizeof(double));
    received.push_back(in.size() * pair * sizeof(double));
  }
  values receive(places.size() * pair);
  or_throw(comm.all_to_all_v(std::as_bytes(std::span(send)), sent,
                             std::as_writable_bytes(std::span(receive)), received));
  or_throw(comm.wait());
  for (std::size_t at = 0; at < receive.size(); ++at) {
    double& value = places[at / pair][at % pair];
    value = back ? value + receive[at] : receive[at];
  }
}

// y = x + attention(x q, x k, x v). Arrays have a place for each row of the pack, with zeros where
// it is another rank's; a trainer's have those of split.rows_of(rank).
struct layer {
  std::size_t mask;
  values query_weights, kv_weights, x = {}, q = {}, kv = {};

  template <class C>
  values forward(C& comm, row_split const& split, values const& in)
  {
    x = in;
    q.assign(x.size(), 0);
    kv.assign(2 * x.size(), 0);
    block::linear(x, query_weights, width, width, q);
    block::linear(x, kv_weights, width, pair, kv);
    move(comm, split, mask, kv, false);
    values y = x;
    auto const calls = split.calls(comm.rank(), mask);
    block::packed_attention(width, split.rows_of(comm.rank()), calls).forward(q, kv, y);
    return y;
  }

  template <class C>
  values backward(C& comm, row_split const& split, values const& dy, std::span<double> dweights)
  {
    values dq(q.size()), dkv(kv.size()), dx = dy;
    auto const calls = split.calls(comm.rank(), mask);
    block::packed_attention(width, split.rows_of(comm.rank()), calls).gradient(q, kv, dy, dq, dkv);
    move(comm, split, mask, dkv, true);
    block::linear_gradient(x, query_weights, width, width, dq, dx, dweights.first(width * width));
    block::linear_gradient(x, kv_weights, width, pair, dkv, dx, dweights.subspan(width * width));
    return dx;
  }
};

values drawn(std::size_t count, std::uint64_t seed)
{
  values all(count);
  random_source random(seed);
  for (double& each : all) { each = static_cast<double>(random.between(-999, 999)) / 1500; }
  return all;
}

template <class C>
values train(C& comm)
{
  auto const split = split_rows(documents, comm.size(), masks, /*block=*/8).value();
  values const pack = drawn(split.rows.size() * width, 1);
  values x(pack.size());
  for (tokens const row : split.rows_of(comm.rank())) {
    bool const is_padding = row >= split.starts.back();
    std::copy_n(&pack[index(row) * width], is_padding ? 0 : width, &x[index(row) * width]);
  }
  constexpr std::size_t weights = 3 * width * width;
  std::vector<layer> layers;
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    layers.push_back({mask, drawn(width * width, 2 + mask), drawn(width * pair, 9 + mask)});
    x = layers.back().forward(comm, split, x);
  }
  values sums(1 + weights * layers.size());  // the loss, and gradients
  sums[0] = std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / 2;
  for (std::size_t at = layers.size(); at-- > 0;) {
    x = layers[at].backward(comm, split, x, std::span(sums).subspan(1 + at * weights, weights));
  }
  sums.insert(sums.end(), x.begin(), x.end());
  return block::sum_over_ranks(comm, sums);
}

bool is_as_on_one_rank(values const& ours)
{
  values const one = run_ranks(1, [](thread_communicator& comm) { return train(comm); })[0];
  double largest = 0;
  for (std::size_t at = 0; at < one.size(); ++at) {
    largest = std::max(largest, std::abs(ours[at] - one[at]) / std::max(1.0, std::abs(one[at])));
  }
  std::printf("loss %.12f; loss and gradients differ by %.1e from one rank's\n", ours[0], largest);
  return largest < 1e-12;
}

}  // namespace

int main([[maybe_unused]] int arguments, char**)
{
#ifdef ROWS_OF_DOCUMENTS_WITH_MPI
  if (arguments > 1) {
    bool same = true;
    on_processes("rows_of_documents", ranks, [&](mpi_communicator& comm) {
      auto const ours = train(comm);
      if (comm.rank() == rank_id{0}) { same = is_as_on_one_rank(ours); }
    });
    return same ? 0 : 1;
  }
#endif
  auto const all = run_ranks(ranks, [](thread_communicator& comm) { return train(comm); });
  return is_as_on_one_rank(all[0]) ? 0 : 1;
}
