/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the C interface, from C99. Without an argument it checks what can be checked by
 * itself; with one it prints an input or a plan as the program `ballast` reads and writes them, so
 * that same_plans.cmake can compare. */
#include "ballast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t allocations_so_far(void); /* allocations.cpp */

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      fprintf(stderr, "the last error: %s\n", ballast_error(planner));        \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

enum { samples = 96, gpus = 8, microbatches = 12, stages = 4, modules = 2, rows = 8 };

static ballast_planner* planner;
static int64_t lengths[samples];
static int64_t prompts[samples];
static uint32_t readers[samples];
static int64_t forward[microbatches * stages];
static int64_t backward[microbatches * stages];

static void make_inputs(void)
{
  uint32_t state = 1;
  size_t i;
  for (i = 0; i < samples; ++i) {
    state = state * 1664525u + 1013904223u;
    lengths[i] = 16 + (state >> 20) * (i % 7 == 0 ? 9 : 1);
    prompts[i] = (int64_t)(i / 3);
    readers[i] = (uint32_t)(i * gpus / samples);
  }
  for (i = 0; i < microbatches * stages; ++i) {
    state = state * 1664525u + 1013904223u;
    forward[i] = 1 + (int64_t)(state >> 24);
    backward[i] = 2 * forward[i];
  }
}

/* ---- One call of each planning function, with the job that all tests have --------------------- */

static char const cost[] = "transformer:d=3072,gamma=0.405";

static ballast_plan plan_with(char const* policy, char const* bags)
{
  ballast_plan_options options = {.struct_size = sizeof options};
  ballast_plan_step step = {.struct_size = sizeof step};
  ballast_plan plan = {.struct_size = sizeof plan};
  options.gpus = gpus;
  options.bags = bags;
  options.cost = cost;
  options.policy = policy;
  CHECK(ballast_set_up_plan(planner, &options) == BALLAST_OK);
  step.samples = samples;
  step.lengths = lengths;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
  return plan;
}

static ballast_grid plan_grid(void)
{
  ballast_grid_options options = {.struct_size = sizeof options};
  ballast_grid_step step = {.struct_size = sizeof step};
  ballast_grid grid = {.struct_size = sizeof grid};
  ballast_limits const limits = {
      .struct_size = sizeof limits, .most_per_gpu = 65536, .home = readers};
  options.gpus = gpus;
  options.cost = cost;
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OK);
  step.samples = samples;
  step.lengths = lengths;
  step.limits = &limits;
  CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_OK);
  return grid;
}

static ballast_packing pack(void)
{
  ballast_limits const limits = {.struct_size = sizeof limits, .most_per_gpu = 65536};
  ballast_pack_step step = {.struct_size = sizeof step};
  ballast_packing packing = {.struct_size = sizeof packing};
  step.samples = samples;
  step.lengths = lengths;
  step.limits = &limits;
  CHECK(ballast_pack(planner, &step, &packing) == BALLAST_OK);
  return packing;
}

static ballast_order order(char const* policy)
{
  ballast_order_options options = {.struct_size = sizeof options};
  ballast_order_step step = {.struct_size = sizeof step};
  ballast_order found = {.struct_size = sizeof found};
  options.microbatches = microbatches;
  options.stages = stages;
  options.policy = policy;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
  step.forward = forward;
  step.backward = backward;
  CHECK(ballast_order_microbatches(planner, &step, &found) == BALLAST_OK);
  return found;
}

/* ---- What the program is compared with ------------------------------------------------------- */

static void print_trace(void)
{
  size_t i;
  puts("tokens,prompt");
  for (i = 0; i < samples; ++i) { printf("%" PRId64 ",%" PRId64 "\n", lengths[i], prompts[i]); }
}

static void print_durations(void)
{
  size_t i;
  puts("microbatch,stage,forward,backward");
  for (i = 0; i < microbatches * stages; ++i) {
    printf("%zu,%zu,%" PRId64 ",%" PRId64 "\n", i / stages, i % stages, forward[i], backward[i]);
  }
}

static void print_plan(char const* policy)
{
  ballast_plan const plan = plan_with(policy, "g1n4+g4n1");
  size_t i;
  for (i = 0; i < samples; ++i) { printf("%zu,%" PRIu32 "\n", i, plan.owner[i]); }
}

static void print_grid(void)
{
  ballast_grid const grid = plan_grid();
  size_t i;
  for (i = 0; i < samples; ++i) {
    printf("%zu,%" PRIu32 ",%" PRIu32 "\n", i, grid.owner[i] % gpus, grid.owner[i] / gpus);
  }
}

static void print_packing(void)
{
  ballast_packing const packing = pack();
  size_t i;
  for (i = 0; i < samples; ++i) { printf("%zu,%" PRIu32 "\n", i, packing.owner[i]); }
}

static void print_order(char const* policy)
{
  ballast_order const found = order(policy);
  size_t i;
  for (i = 0; i < found.microbatches; ++i) { printf("%" PRIu32 "\n", found.order[i]); }
}

/* The text of a file, to be freed. */
static char* text_of(char const* path)
{
  FILE* const file = fopen(path, "rb");
  size_t const most = 1 << 20;
  char* const text = calloc(most, 1);
  CHECK(file != NULL && text != NULL && fread(text, 1, most - 1, file) > 0);
  fclose(file);
  return text;
}

/* All samples have one size, so that it does not matter which ones are drawn. Of the further job the
   encoder is frozen, and may run on slower GPUs. */
static void print_layouts(char const* profile, int is_further)
{
  static uint8_t const encoder[modules] = {1, 0};
  ballast_gpu_kind const slower = {8, 0, UINT64_C(40000000000), 0, 1, 2};
  char* const csv = text_of(profile);
  static int64_t sizes[rows * modules];
  static int64_t drawn[4 * 64 * modules];
  ballast_layout_problem problem = {.struct_size = sizeof problem};
  ballast_layouts found = {.struct_size = sizeof found};
  size_t i;
  for (i = 0; i < rows * modules; ++i) { sizes[i] = i % modules == 0 ? 5 : 2632; }
  for (i = 0; i < 4 * 64 * modules; ++i) { drawn[i] = i % modules == 0 ? 5 : 2632; }
  problem.profile_csv = csv;
  problem.samples = rows;
  problem.sizes = sizes;
  problem.batches = 4;
  problem.batch_sizes = drawn;
  problem.global_batch = 64;
  problem.gpus = 16;
  problem.memory_bytes = UINT64_C(80000000000);
  problem.best = 3;
  if (is_further) {
    problem.more_kinds = 1;
    problem.more_gpus = &slower;
    problem.frozen = encoder;
    problem.leave_gpus = problem.share_optimizer = 1;
  }
  CHECK(ballast_search_layouts(planner, &problem, &found) == BALLAST_OK);
  free(csv);
  for (i = 0; i < found.layouts * found.modules; ++i) {
    ballast_module_layout const each = found.module[i];
    printf("%zu,%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 "\n",
           i / found.modules, each.tp, each.pp, each.dp, found.microbatches[i / found.modules],
           found.kind[i], found.memory_bytes[i / found.modules]);
  }
  CHECK(found.is_proven == 1 && found.lower_bound == found.simulated[0]);
}

#define PRINT_SIZE(type) printf(#type " %zu\n", sizeof(type))

static void print_sizes(void)
{
  PRINT_SIZE(ballast_cost);
  PRINT_SIZE(ballast_fit_step);
  PRINT_SIZE(ballast_fit);
  PRINT_SIZE(ballast_sampler_options);
  PRINT_SIZE(ballast_draw_step);
  PRINT_SIZE(ballast_draw);
  PRINT_SIZE(ballast_bags);
  PRINT_SIZE(ballast_cap);
  PRINT_SIZE(ballast_counts);
  PRINT_SIZE(ballast_limits);
  PRINT_SIZE(ballast_plan_options);
  PRINT_SIZE(ballast_plan_step);
  PRINT_SIZE(ballast_plan);
  PRINT_SIZE(ballast_grid_options);
  PRINT_SIZE(ballast_grid_step);
  PRINT_SIZE(ballast_grid);
  PRINT_SIZE(ballast_loss_step);
  PRINT_SIZE(ballast_losses);
  PRINT_SIZE(ballast_pack_step);
  PRINT_SIZE(ballast_packing);
  PRINT_SIZE(ballast_padded_cost);
  PRINT_SIZE(ballast_pad_step);
  PRINT_SIZE(ballast_row_mask);
  PRINT_SIZE(ballast_rows_step);
  PRINT_SIZE(ballast_row_split);
  PRINT_SIZE(ballast_kernel_call);
  PRINT_SIZE(ballast_row_work_step);
  PRINT_SIZE(ballast_row_work);
  PRINT_SIZE(ballast_sharding_options);
  PRINT_SIZE(ballast_sharding_step);
  PRINT_SIZE(ballast_sharding);
  PRINT_SIZE(ballast_slots_step);
  PRINT_SIZE(ballast_slots);
  PRINT_SIZE(ballast_chain_step);
  PRINT_SIZE(ballast_chain);
  PRINT_SIZE(ballast_experts_step);
  PRINT_SIZE(ballast_experts);
  PRINT_SIZE(ballast_place_step);
  PRINT_SIZE(ballast_piece);
  PRINT_SIZE(ballast_placement);
  PRINT_SIZE(ballast_route_step);
  PRINT_SIZE(ballast_rows);
  PRINT_SIZE(ballast_kept_rows);
  PRINT_SIZE(ballast_route);
  PRINT_SIZE(ballast_task);
  PRINT_SIZE(ballast_order_options);
  PRINT_SIZE(ballast_order_step);
  PRINT_SIZE(ballast_order);
  PRINT_SIZE(ballast_profile);
  PRINT_SIZE(ballast_gpu_kind);
  PRINT_SIZE(ballast_layout_problem);
  PRINT_SIZE(ballast_module_layout);
  PRINT_SIZE(ballast_layouts);
}

/* ---- What it can check by itself ------------------------------------------------------------- */

/* Whether rows say the same as owners. */
static int agree(size_t count, uint32_t const* owner, size_t keys, size_t const* first,
                 uint32_t const* sample)
{
  size_t key;
  size_t at;
  for (key = 0; key < keys; ++key) {
    for (at = first[key]; at < first[key + 1]; ++at) {
      if (owner[sample[at]] != key) { return 0; }
    }
  }
  return first[0] == 0 && first[keys] == count;
}

static void check_every_policy(void)
{
  static char const* const policies[] = {"lpt",
                                         "karmarkar_karp",
                                         "refine",
                                         "refine:nodes=1000",
                                         "padded_batches",
                                         "attention_padded_batches",
                                         "conv_transformer_batches",
                                         "quadratic_with_tolerance",
                                         "greedy_knapsack",
                                         "round_robin"};
  size_t i;
  for (i = 0; i < sizeof policies / sizeof *policies; ++i) {
    ballast_plan const plan = plan_with(policies[i], NULL);
    CHECK(plan.samples == samples && plan.bags == gpus && plan.makespan >= plan.lower_bound);
    CHECK(agree(samples, plan.owner, plan.bags, plan.first, plan.sample));
  }
}

/* Groups share a bag, no GPU holds more than its cap, and little leaves its home. */
static void check_constraints(void)
{
  ballast_limits limits = {.struct_size = sizeof limits, .together = prompts, .home = readers};
  ballast_plan_step step = {.struct_size = sizeof step, .limits = &limits};
  ballast_plan plan = {.struct_size = sizeof plan};
  size_t i;
  plan_with("refine", NULL);
  step.samples = samples;
  step.lengths = lengths;
  limits.then = BALLAST_THEN_FEWEST_MOVES;
  limits.within_per_million = 5000;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
  for (i = 0; i < samples; ++i) { CHECK(plan.owner[i] == plan.owner[3 * (i / 3)]); }
  CHECK(plan.moved > 0 && plan.moved < 1);

  limits.most_per_gpu = 60000;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
  for (i = 0; i < plan.bags; ++i) {
    int64_t held = 0;
    size_t at;
    for (at = plan.first[i]; at < plan.first[i + 1]; ++at) { held += lengths[plan.sample[at]]; }
    CHECK(held <= limits.most_per_gpu);
  }
  step.costs = lengths; /* instead of what the cost model says */
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
  for (i = 0; i < samples; ++i) { CHECK(plan.costs[i] == lengths[i]); }
}

/* 6 and 5 only on bag 2, 4 not on bag 1, 3 only on bag 0: one plan, of 11, is the shortest. */
static void check_fits(void)
{
  static uint8_t const allowed[] = {0, 0, 1, 0, 0, 255, 1, 0, 1, 1, 0, 0};
  static uint8_t const nowhere[12];
  static int64_t const four[] = {6, 5, 4, 3};
  static uint32_t const expected[] = {2, 2, 0, 0};
  ballast_limits limits = {.struct_size = sizeof limits, .fits = allowed};
  ballast_plan_options options = {.struct_size = sizeof options, .gpus = 3};
  ballast_plan_step step = {
      .struct_size = sizeof step, .samples = 4, .lengths = four, .limits = &limits};
  ballast_plan plan = {.struct_size = sizeof plan};
  ballast_grid_options grid_options = {
      .struct_size = sizeof grid_options, .gpus = 3, .microbatches = 2};
  ballast_grid_step grid_step = {
      .struct_size = sizeof grid_step, .samples = 4, .lengths = four, .limits = &limits};
  ballast_grid grid = {.struct_size = sizeof grid};
  size_t i;
  CHECK(ballast_set_up_plan(planner, &options) == BALLAST_OK);
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK && plan.makespan == 11);
  CHECK(ballast_set_up_grid(planner, &grid_options) == BALLAST_OK);
  CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_OK && grid.makespan == 11);
  for (i = 0; i < 4; ++i) {
    CHECK(plan.owner[i] == expected[i] && grid.owner[i] % 3 == expected[i]);
  }

  limits.fits = nowhere;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_INFEASIBLE);
  CHECK(strstr(ballast_error(planner), "limits.fits") != NULL);
  CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_INFEASIBLE);
  limits.struct_size = offsetof(ballast_limits, fits); /* a program with an older header */
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK && plan.makespan == 7);
  CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_OK && grid.makespan == 7);
}

/* Two modules of one layer; a sample takes a second in each. */
static char const two_modules[] =
    "module,tp,quantity,layers,size,value\n"
    "vision,,layers,,,1\nvision,,linear_flop,,,1e12\nvision,1,linear_flop_per_second,,1,1e12\n"
    "vision,1,state_bytes,1,,16e9\nvision,1,state_bytes,2,,32e9\n"
    "vision,1,activation_bytes,1,0,0\nvision,1,activation_bytes,1,1,1e9\n"
    "vision,1,activation_bytes,2,0,0\nvision,1,activation_bytes,2,1,2e9\n"
    "llm,,layers,,,1\nllm,,linear_flop,,,1e12\nllm,1,linear_flop_per_second,,1,1e12\n"
    "llm,1,state_bytes,1,,16e9\nllm,1,state_bytes,2,,32e9\n"
    "llm,1,activation_bytes,1,0,0\nllm,1,activation_bytes,1,1,1e9\n"
    "llm,1,activation_bytes,2,0,0\nllm,1,activation_bytes,2,1,2e9\n";

static ballast_layouts laid_out(ballast_layout_problem const* problem)
{
  ballast_layouts found = {.struct_size = sizeof found};
  CHECK(ballast_search_layouts(planner, problem, &found) == BALLAST_OK && found.modules == 2);
  return found;
}

/* On two GPUs each sample follows the one before it after a second: 5 seconds. */
static void check_kinds(void)
{
  static int64_t const ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
  static uint8_t const encoder[] = {1, 0};
  ballast_gpu_kind more[] = {{2, 0, UINT64_C(40000000000), 0, 1, 2},
                             {2, 0, UINT64_C(40000000000), 0, 0, 0}};
  ballast_layout_problem problem = {.struct_size = sizeof problem};
  ballast_layouts found = {.struct_size = offsetof(ballast_layouts, kind)};
  int64_t frozen, slower;
  uint64_t whole;
  problem.profile_csv = two_modules;
  problem.samples = problem.global_batch = 4;
  problem.sizes = problem.batch_sizes = ones;
  problem.batches = 1;
  problem.gpus = 2;
  problem.memory_bytes = UINT64_C(40000000000);
  CHECK(laid_out(&problem).simulated[0] == INT64_C(5000000000000));
  CHECK(laid_out(&problem).kind[0] == 0 && laid_out(&problem).kind[1] == 0);

  problem.frozen = encoder;
  frozen = laid_out(&problem).simulated[0];
  CHECK(frozen < INT64_C(5000000000000));
  problem.trained_inputs = encoder; /* the gradient passes through it again */
  CHECK(laid_out(&problem).simulated[0] > frozen);
  problem.trained_inputs = NULL;

  problem.more_kinds = 1;
  CHECK(ballast_search_layouts(planner, &problem, &found) == BALLAST_OUT_OF_RANGE);
  problem.more_gpus = more;
  slower = laid_out(&problem).simulated[0];
  CHECK(slower < frozen);
  CHECK(laid_out(&problem).kind[0] == 1 && laid_out(&problem).kind[1] == 0);
  more[0].speed = more[0].measured_speed = 3;
  CHECK(laid_out(&problem).simulated[0] < slower);
  whole = laid_out(&problem).memory_bytes[0];
  problem.share_optimizer = 1;
  CHECK(laid_out(&problem).memory_bytes[0] < whole);

  problem.more_kinds = 2; /* three kinds for two modules */
  CHECK(ballast_search_layouts(planner, &problem, &found) == BALLAST_INFEASIBLE);
  problem.leave_gpus = 1;
  CHECK(ballast_search_layouts(planner, &problem, &found) == BALLAST_OK && found.kind == NULL);
  more[0].measured_speed = 0;
  CHECK(ballast_search_layouts(planner, &problem, &found) == BALLAST_OUT_OF_RANGE);
  problem.struct_size = offsetof(ballast_layout_problem, more_kinds); /* an older header */
  CHECK(laid_out(&problem).simulated[0] == INT64_C(5000000000000));
}

static void check_grid_and_packing(void)
{
  ballast_grid const grid = plan_grid();
  ballast_packing const packing = pack();
  ballast_cap const second = {.of = prompts, .most_per_gpu = 2 * prompts[samples - 1]};
  ballast_limits limits = {.struct_size = sizeof limits, .most_per_gpu = 65536};
  ballast_pack_step step = {.struct_size = sizeof step, .limits = &limits};
  ballast_packing ruled = {.struct_size = sizeof ruled};
  size_t i;
  CHECK(agree(samples, grid.owner, grid.ranks * grid.microbatches, grid.first, grid.sample));
  for (i = 0; i < grid.ranks * grid.microbatches; ++i) { CHECK(grid.filled[i] <= 65536); }
  CHECK(agree(samples, packing.owner, packing.bins, packing.first, packing.sample));
  CHECK(packing.bins == packing.fewest_bins);
  step.samples = samples;
  step.lengths = lengths;
  step.multiple_of = gpus;
  CHECK(ballast_pack(planner, &step, &ruled) == BALLAST_OK && ruled.bins % gpus == 0);
  step.multiple_of = 0;
  limits.caps = 1;
  limits.also = &second; /* any second quantity */
  limits.then = BALLAST_THEN_LEVEL;
  CHECK(ballast_pack(planner, &step, &ruled) == BALLAST_OK);
  for (i = 0; i < ruled.bins; ++i) {
    int64_t held = 0;
    size_t at;
    for (at = ruled.first[i]; at < ruled.first[i + 1]; ++at) { held += prompts[ruled.sample[at]]; }
    CHECK(held <= second.most_per_gpu);
  }
}

static void check_row_split(void)
{
  static int64_t const documents[] = {4, 8};
  ballast_row_mask const masks[] = {{0, NULL, 1}, {3, NULL, 2}};
  ballast_rows_step step = {.struct_size = sizeof step};
  ballast_row_split split = {.struct_size = sizeof split};
  size_t i;
  step.documents = 2;
  step.lengths = documents;
  step.ranks = 2;
  step.block = 1;
  step.masks = 2;
  step.mask = masks;
  CHECK(ballast_split_rows(planner, &step, &split) == BALLAST_OK);
  CHECK(split.blocks == 12 && split.masks == 2 && split.rows_of_rank == 6);
  for (i = 0; i < 12; ++i) {
    CHECK(split.rows[split.places[i]] == (int64_t)i);
    CHECK(split.owner[i] == (uint32_t)(split.places[i] / 6));
  }
  CHECK(split.pairs[0] == 23 && split.pairs[1] == 23 && split.bounds[0] == 23);
  CHECK(split.pairs[2] == 15 && split.pairs[3] == 15 && split.bounds[2] == 15);
  CHECK(split.moved[0] + split.moved[1] >= split.bounds[1]);
  for (i = 0; i < 4; ++i) { /* pairs and keys of the calls are those of the plan */
    ballast_row_work_step asked = {.struct_size = sizeof asked, .rank = i % 2, .mask = i / 2};
    ballast_row_work work = {.struct_size = sizeof work};
    int64_t pairs = 0;
    size_t each;
    CHECK(ballast_work_of_rows(planner, &asked, &work) == BALLAST_OK && work.calls == 1);
    CHECK(work.call->is_causal == 1 && work.call->window == (i < 2 ? 0 : 3) && work.ranks == 2);
    CHECK(work.call->cu_queries[work.call->sequences] == 6);
    for (each = 0; each < work.call->sequences; ++each) {
      int64_t const queries = work.call->cu_queries[each + 1] - work.call->cu_queries[each];
      int64_t const keys = work.call->cu_keys[each + 1] - work.call->cu_keys[each];
      int64_t query;
      for (query = 1; query <= queries; ++query) {
        int64_t const seen = keys - queries + query;
        pairs += i < 2 || seen < 3 ? seen : 3;
      }
    }
    CHECK(pairs == split.pairs[i] && (int64_t)work.first_moved[2] == split.moved[i]);
    for (each = 0; each < work.first_moved[2]; ++each) {
      CHECK(split.owner[work.moved[each]] == 1 - i % 2);
    }
    asked.mask = 2;
    CHECK(ballast_work_of_rows(planner, &asked, &work) == BALLAST_OUT_OF_RANGE);
  }
  step.ranks = 0;
  CHECK(ballast_split_rows(planner, &step, &split) == BALLAST_OUT_OF_RANGE);
  step.ranks = 2;
  step.mask = NULL;
  CHECK(ballast_split_rows(planner, &step, &split) == BALLAST_OUT_OF_RANGE);
}

/* A grid of equal samples, which cost 1, over GPUs of these speeds. */
static ballast_grid share(size_t count, ballast_grid_options options, ballast_grid_step step)
{
  static int64_t ones[1000];
  static int64_t equal[1000];
  static uint32_t const speeds[] = {3, 3, 2, 2};
  ballast_grid grid = {.struct_size = sizeof grid};
  size_t i;
  for (i = 0; i < count; ++i) { equal[i] = 2 * (ones[i] = 1); }
  options.gpus = 4;
  options.gpu_speeds = speeds;
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OK);
  step.samples = count;
  step.lengths = equal;
  step.costs = ones;
  CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_OK);
  return grid;
}

/* Equal samples in the proportion of speeds, of GPUs and of bags, and the limits that plans have. */
static void check_grid_speeds(void)
{
  static int64_t const started[] = {0, 300, 0, 200};
  static int64_t const by_gpu[] = {300, 300, 200, 200};
  static int64_t const after_start[] = {300, 0, 200, 0};
  static uint32_t const slow[] = {3, 3, 2, 0};
  static uint32_t homes[500];
  static int64_t longest[2] = {1, 9};
  ballast_cap five = {.most_per_gpu = 5};
  ballast_limits limits = {.struct_size = sizeof limits};
  ballast_grid_options options = {.struct_size = sizeof options};
  ballast_grid_step step = {.struct_size = sizeof step};
  ballast_grid grid = share(1000, options, step);
  size_t i;
  CHECK(grid.ranks == 4 && grid.microbatches == 1 && grid.gap == 0);
  CHECK(grid.used_microbatches == 1);
  for (i = 0; i < 4; ++i) { CHECK(grid.loads[i] == by_gpu[i] && grid.rank_gpus[i] == 1); }

  step.limits = &limits;
  limits.starting_loads = started;
  grid = share(500, options, step);
  for (i = 0; i < 4; ++i) { CHECK(grid.loads[i] == after_start[i]); }
  limits.starting_loads = NULL;

  for (i = 0; i < 500; ++i) { homes[i] = i < 150 ? 2 : i < 250 ? 0 : i < 350 ? 3 : 1; }
  limits.home = homes; /* 50 on a GPU that has no time for them */
  limits.then = BALLAST_THEN_FEWEST_MOVES;
  grid = share(500, options, step);
  CHECK(grid.makespan == 50 && grid.moved == 0.1);
  limits.home = NULL;
  limits.then = BALLAST_THEN_LEVEL;
  grid = share(999, options, step);
  CHECK(grid.makespan == 100);
  step.samples = 1;
  step.lengths = longest;
  for (limits.then = BALLAST_THEN_LEAST; limits.then < 5; ++limits.then) {
    CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_OUT_OF_RANGE);
  }
  limits.then = BALLAST_THEN_NOTHING;

  options.bags = "g1n2+g2n1";
  grid = share(1000, options, step);
  CHECK(grid.ranks == 3 && grid.rank_first_gpu[2] == 2 && grid.rank_gpus[2] == 2);
  CHECK(grid.loads[0] == 300 && grid.loads[1] == 300 && grid.loads[2] == 400);
  options.bags = NULL;

  options.gpus = 2;
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OK);
  limits.also = &five;
  limits.caps = 1;
  step.samples = 2;
  CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_INFEASIBLE);
  five.is_soft = 1;
  CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_OK);
  CHECK(grid.cells_above_cap == 1 && grid.above_cap[0] == grid.owner[1]);

  options.gpus = 4;
  options.gpu_speeds = slow;
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(planner), "speed") != NULL);
}

/* How often it was asked, and from which time on it says so. */
typedef struct asked {
  size_t times;
  size_t from;
} asked;

static int says_stop(void* of)
{
  asked* const count = of;
  return count->times++ >= count->from;
}

/* A step that is stopped has an error of its own and no result; the next one is planned as ever. */
static void check_cancelling(void)
{
  static int64_t hard[40];
  asked count = {0, 1000};
  ballast_plan_options options = {.struct_size = sizeof options};
  ballast_plan_step step = {.struct_size = sizeof step};
  ballast_plan plan = {.struct_size = sizeof plan};
  ballast_limits const limits = {
      .struct_size = sizeof limits, .most_per_gpu = 65536, .home = readers};
  ballast_grid_step grid_step = {.struct_size = sizeof grid_step};
  ballast_grid grid = {.struct_size = sizeof grid};
  uint64_t const digest = plan_grid().digest;
  size_t i;
  uint32_t state = 1;
  for (i = 0; i < 40; ++i) { hard[i] = 1 + ((state = state * 1664525u + 1013904223u) >> 1); }
  options.gpus = gpus;
  options.policy = "refine:nodes=1099511627776"; /* for days */
  CHECK(ballast_set_up_plan(planner, &options) == BALLAST_OK);
  step.samples = 40;
  step.lengths = hard;
  CHECK(ballast_cancel_when(planner, says_stop, &count) == BALLAST_OK);
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_CANCELLED);
  CHECK(count.times == 1001 && plan.owner == NULL);
  CHECK(strstr(ballast_error(planner), "stopped") != NULL);
  grid_step.samples = samples;
  grid_step.lengths = lengths;
  grid_step.limits = &limits;
  CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_CANCELLED);
  count.from = (size_t)-1;
  CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_OK);
  CHECK(grid.digest == digest);
  count.from = 0;
  CHECK(ballast_cancel_when(planner, NULL, NULL) == BALLAST_OK);
  CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_OK);
  CHECK(grid.digest == digest && ballast_cancel_when(NULL, says_stop, &count) == BALLAST_FAILED);
}

/* Asked once in ten milliseconds, at first after them. */
static void check_asking_seldom(void)
{
  static int64_t hard[40];
  asked count = {0, 2};
  ballast_plan_options options = {.struct_size = sizeof options, .gpus = gpus};
  ballast_plan_step step = {.struct_size = sizeof step, .samples = 40, .lengths = hard};
  ballast_plan plan = {.struct_size = sizeof plan};
  size_t i;
  uint32_t state = 1;
  for (i = 0; i < 40; ++i) { hard[i] = 1 + ((state = state * 1664525u + 1013904223u) >> 1); }
  options.policy = "refine:nodes=1099511627776"; /* for days */
  CHECK(ballast_set_up_plan(planner, &options) == BALLAST_OK);
  CHECK(ballast_cancel_every(planner, 10000, says_stop, &count) == BALLAST_OK);
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_CANCELLED && count.times == 3);
  CHECK(ballast_cancel_when(planner, NULL, NULL) == BALLAST_OK);
}

/* A model is read, priced and given to plans, whose costs are then those. */
static void check_costs(void)
{
  static int64_t costs[samples];
  static int64_t order_of[samples];
  static int seen[samples];
  double seconds[samples];
  ballast_cost model = {.struct_size = sizeof model};
  ballast_fit_step fit_step = {.struct_size = sizeof fit_step};
  ballast_fit fit = {.struct_size = sizeof fit};
  ballast_bags bags = {.struct_size = sizeof bags};
  ballast_plan_options options = {.struct_size = sizeof options, .gpus = gpus};
  ballast_plan_step step = {.struct_size = sizeof step, .samples = samples, .lengths = lengths};
  ballast_plan plan = {.struct_size = sizeof plan};
  uint64_t const digest = plan_with("refine", NULL).digest;
  size_t i;
  CHECK(ballast_read_cost(planner, cost, &model) == BALLAST_OK);
  CHECK(ballast_price(planner, &model, samples, lengths, costs) == BALLAST_OK);
  options.model = &model;
  CHECK(ballast_set_up_plan(planner, &options) == BALLAST_OK);
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK && plan.digest == digest);
  for (i = 0; i < samples; ++i) {
    CHECK(plan.costs[i] == costs[i]);
    seconds[i] = 1e-15 * (double)costs[i];
  }
  fit_step.model = cost;
  fit_step.measurements = samples;
  fit_step.seconds = seconds;
  fit_step.lengths = lengths;
  CHECK(ballast_fit_cost(planner, &fit_step, &fit) == BALLAST_OK && fit.misfits == 0);
  CHECK(fit.gamma > 0.40 && fit.gamma < 0.41);
  fit_step.model = "tokens";
  CHECK(ballast_fit_cost(planner, &fit_step, &fit) == BALLAST_OUT_OF_RANGE);
  model.fraction_bits = 128;
  CHECK(ballast_price(planner, &model, samples, lengths, costs) == BALLAST_OUT_OF_RANGE);
  CHECK(ballast_price(planner, &model, samples, NULL, costs) == BALLAST_OUT_OF_RANGE);
  CHECK(ballast_read_bags(planner, "g1n4+g4n1", &bags) == BALLAST_OK);
  CHECK(bags.gpus == 8 && bags.bags == 5);
  CHECK(ballast_read_bags(planner, "nonsense", &bags) == BALLAST_SYNTAX);
  CHECK(ballast_shuffle(planner, 7, samples, order_of) == BALLAST_OK);
  for (i = 0; i < samples; ++i) { CHECK(seen[order_of[i]]++ == 0); }
}

/* Further caps, a quantity whose largest sum is least, and what decided a number of microbatches. */
static void check_caps(void)
{
  static int64_t images[samples];
  ballast_cap caps[5] = {{.of = images, .most_per_gpu = 30}};
  ballast_limits limits = {.struct_size = sizeof limits, .caps = 1, .also = caps};
  ballast_plan_step step = {.struct_size = sizeof step, .samples = samples, .limits = &limits};
  ballast_plan plan = {.struct_size = sizeof plan};
  ballast_pack_step pack_step = {
      .struct_size = sizeof pack_step, .samples = samples, .limits = &limits};
  ballast_packing packing = {.struct_size = sizeof packing};
  size_t row;
  size_t at;
  size_t i;
  for (i = 0; i < samples; ++i) { images[i] = (int64_t)(i % 3); }
  plan_with("refine", NULL);
  limits.then = BALLAST_THEN_LEAST;
  limits.least = images;
  step.lengths = pack_step.lengths = lengths;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
  CHECK(ballast_pack(planner, &pack_step, &packing) == BALLAST_OK && packing.bins >= 4);
  for (row = 0; row < plan.bags; ++row) {
    int64_t sum = 0;
    for (at = plan.first[row]; at < plan.first[row + 1]; ++at) { sum += images[plan.sample[at]]; }
    CHECK(sum <= 30);
  }
  limits.least = NULL;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OUT_OF_RANGE);
  limits.then = BALLAST_THEN_NOTHING;
  for (i = 0; i < 2; ++i) { /* below 0, and no limit at all */
    caps[0].most_per_gpu = (int64_t)i - 1;
    CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OUT_OF_RANGE);
  }
  for (i = 0; i < 5; ++i) { caps[i].most_per_gpu = 100000000; }
  for (i = BALLAST_AT_MOST; i <= BALLAST_FILLED; ++i) { /* 8 x 12 samples */
    limits.samples.kind = i;
    limits.samples.number = i == BALLAST_AT_MOST || i == BALLAST_MULTIPLE_OF ? samples / gpus : 0;
    CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
    for (row = 0; row < plan.bags; ++row) {
      at = plan.first[row + 1] - plan.first[row];
      CHECK(i == BALLAST_FILLED ? at > 0 : at == samples / gpus);
    }
  }
  limits.samples.kind = BALLAST_FILLED + 1;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OUT_OF_RANGE);
  limits.samples.kind = BALLAST_ANY_COUNT;
  limits.caps = 5;
  CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OUT_OF_RANGE);
  caps[0].most = images;
  limits.caps = 1;
  CHECK(ballast_pack(planner, &pack_step, &packing) == BALLAST_OUT_OF_RANGE);
  plan_grid();
  CHECK(strstr(ballast_why_microbatches(planner), "microbatch") != NULL);
}

static void shard(ballast_sharding* sharding)
{
  ballast_sharding_options options = {.struct_size = sizeof options};
  ballast_sharding_step step = {.struct_size = sizeof step};
  options.gpus = gpus;
  options.cost = "transformer:d=3072,heads=24,gamma=0.405";
  options.bytes_per_head = 256;
  CHECK(ballast_set_up_sharding(planner, &options) == BALLAST_OK);
  step.samples = samples;
  step.lengths = lengths;
  CHECK(ballast_shard(planner, &step, sharding) == BALLAST_OK);
}

static void check_sharding(void)
{
  ballast_sharding sharding = {.struct_size = sizeof sharding};
  int64_t held = 0;
  int64_t all = 0;
  size_t i;
  shard(&sharding);
  CHECK(agree(samples, sharding.owner, sharding.groups, sharding.first, sharding.sample));
  for (i = 0; i < sharding.gpus; ++i) {
    held += sharding.held[i];
    CHECK(sharding.loads[i] <= sharding.makespan);
  }
  for (i = 0; i < samples; ++i) { all += lengths[i]; }
  CHECK(held == all);
  CHECK(sharding.group_gpus[0] == 1 && sharding.group_gpus[sharding.groups - 1] == gpus);
}

/* Five parts and three on eight GPUs that hold one each: a slot of groups of 5 and 3, or two slots of
 * powers of two. What was read on GPUs 0 and 7 comes to lie one part a GPU. */
static void check_slots(void)
{
  enum { part = 960 };
  static int64_t const long_samples[] = {5 * part, 3 * part};
  static uint32_t const read_by[] = {0, 7};
  static uint32_t const four = 4;
  ballast_sharding_options options = {.struct_size = sizeof options, .gpus = gpus, .by_rows = 1};
  ballast_slots_step step = {
      .struct_size = sizeof step, .samples = 2, .lengths = long_samples, .most_per_gpu = part};
  ballast_slots slots = {.struct_size = sizeof slots};
  ballast_place_step where = {.struct_size = sizeof where,
                              .ranks = gpus,
                              .samples = 2,
                              .lengths = long_samples,
                              .rank = read_by};
  ballast_placement placement = {.struct_size = sizeof placement};
  size_t i;
  CHECK(ballast_set_up_sharding(planner, &options) == BALLAST_OK);
  where.by = BALLAST_BY_SLOT;
  CHECK(ballast_place(planner, &where, &placement) == BALLAST_WRONG_ORDER);
  CHECK(ballast_plan_slots(planner, &step, &slots) == BALLAST_OK);
  CHECK(slots.slots == 1 && slots.groups == 2 && slots.ranks == gpus && slots.first_group[1] == 2);
  CHECK(slots.group_gpus[0] == 5 && slots.group_gpus[1] == 3 && slots.group_first_gpu[1] == 5);
  CHECK(slots.owner[0] == 0 && slots.owner[1] == 1 && slots.loads[1] == part);
  CHECK(slots.makespan == part && slots.gap == 0 && slots.held[0] == part);
  CHECK(slots.ends[slots.first_end[1]] == 0 && slots.ends[slots.first_end[1] + 1] == 3 * part);
  CHECK(slots.loss_weight == 1.0 / (8 * part));

  CHECK(ballast_place(planner, &where, &placement) == BALLAST_OK);
  for (i = 0; i < gpus; ++i) { CHECK(placement.rows[i] == part); }
  where.by = BALLAST_BY_RANK;
  where.placement = 1;
  CHECK(ballast_place(planner, &where, &placement) == BALLAST_OK);
  where.by = BALLAST_BY_READ;
  where.placement = 2;
  where.read = 1;
  CHECK(ballast_place(planner, &where, &placement) == BALLAST_OK);
  CHECK(placement.piece[1].rank == 7 && placement.piece[1].count == 3 * part);
  where.read = 2;
  CHECK(ballast_place(planner, &where, &placement) == BALLAST_MISMATCH);
  where.slot = 1;
  CHECK(ballast_place(planner, &where, &placement) == BALLAST_OUT_OF_RANGE);

  step.powers_of_two = 1;
  step.counts.kind = BALLAST_AT_MOST;
  step.counts.number = 1;
  CHECK(ballast_plan_slots(planner, &step, &slots) == BALLAST_OK && slots.slots == 2);
  step.sizes = 1;
  CHECK(ballast_plan_slots(planner, &step, &slots) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(planner), "size is null") != NULL);
  step.size = &four; /* the first is above what four GPUs hold */
  CHECK(ballast_plan_slots(planner, &step, &slots) == BALLAST_INFEASIBLE);
  CHECK(ballast_error_position(planner) == 0);
  step.is_soft = 1;
  CHECK(ballast_plan_slots(planner, &step, &slots) == BALLAST_OK);
  CHECK(slots.groups_above_cap == 1 && slots.above_cap[0] == slots.owner[0]);
}

/* Two experts at home on each of four GPUs, which hold three: three copies, and every GPU has 50;
 * within a tenth two are enough; with what any GPU takes none is needed. */
static void check_experts(void)
{
  static int64_t const tokens[] = {70, 10, 20, 20, 10, 30, 20, 20};
  static uint32_t const slots[] = {3, 3, 3, 3};
  static size_t const first[] = {0, 2, 4, 6, 8};
  static uint32_t now[] = {0, 1, 2, 3, 4, 5, 6, 7};
  static size_t const wrong[] = {0, 2, 1, 6, 8};
  ballast_experts_step step = {.struct_size = sizeof step,
                               .experts = 8,
                               .loads = tokens,
                               .gpus = 4,
                               .slots = slots,
                               .first_now = first,
                               .now = now,
                               .is_uneven = 1};
  ballast_experts found = {.struct_size = sizeof found};
  double loads[4] = {0, 0, 0, 0};
  size_t i;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OK);
  CHECK(found.makespan == 50 && found.gap == 0 && found.kept == 8 && found.least_added == 3);
  CHECK(found.first_gpu[8] == 11 && found.first_expert[4] == 11);
  for (i = 0; i < found.first_gpu[8]; ++i) {
    loads[found.gpu[i]] += (double)found.parts[i] / (double)found.unit;
  }
  for (i = 0; i < 4; ++i) { CHECK(loads[i] == 50); }
  step.within_per_million = 100000;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OK && found.first_gpu[8] == 10);
  step.shared = 200;
  step.within_per_million = 0;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OK && found.first_gpu[8] == 8);
  CHECK(found.makespan == 100);
  step.only_shares = 1;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OK && found.makespan == 80);
  step.only_shares = step.is_uneven = 0;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OK && found.parts == NULL);

  now[1] = 0;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(planner), "expert 0 twice on GPU 0") != NULL);
  now[1] = 8;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OUT_OF_RANGE);
  CHECK(ballast_error_position(planner) == 1);
  step.first_now = wrong;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OUT_OF_RANGE);
  step.first_now = NULL;
  step.only_shares = 1;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OUT_OF_RANGE);
  step.only_shares = 0;
  step.slots = NULL;
  CHECK(ballast_place_experts(planner, &step, &found) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(planner), "slots is null") != NULL);
}

/* Losses of four ranks' two microbatches, as sums over labels, some of which have none: their
 * weighted means, averaged over ranks, are the mean over all labels. */
static void check_losses(void)
{
  static int64_t const labels[] = {2, 1, 2, 2, 2, 2, 0, 2};
  static double const sums[] = {8, 3, 10, 4, 6, 2, 0, 19};
  static uint32_t owner[] = {0, 1, 2, 3, 4, 5, 6, 7}; /* slot * ranks + rank */
  ballast_loss_step step = {.struct_size = sizeof step,
                            .samples = 8,
                            .labels = labels,
                            .owner = owner,
                            .cells = 8,
                            .averaged_over = 4};
  ballast_losses losses = {.struct_size = sizeof losses};
  double loss = 0;
  double by_tokens = 0;
  size_t i;
  CHECK(ballast_weigh_losses(planner, &step, &losses) == BALLAST_OK && losses.all_labels == 13);
  for (i = 0; i < 8; ++i) {
    if (labels[i] > 0) { loss += losses.weights[i] * sums[i] / (double)labels[i] / 4; }
    by_tokens += losses.token_weight * sums[i] / 4;
  }
  CHECK(loss > 4 - 1e-12 && loss < 4 + 1e-12 && by_tokens > 4 - 1e-12 && by_tokens < 4 + 1e-12);
  CHECK(losses.weights[0] == 8.0 / 13 && losses.weights[1] == 4.0 / 13 && losses.weights[6] == 0);
  owner[5] = 0; /* two samples in a cell, and one cell without any */
  step.averaged_over = 0;
  CHECK(ballast_weigh_losses(planner, &step, &losses) == BALLAST_OK);
  CHECK(losses.weights[0] == 4.0 / 13 && losses.labels[0] == 4 && losses.weights[5] == 0);
  owner[5] = 8;
  CHECK(ballast_weigh_losses(planner, &step, &losses) == BALLAST_OUT_OF_RANGE);
  CHECK(ballast_error_position(planner) == 5);
  step.samples = 0;
  CHECK(ballast_weigh_losses(planner, &step, &losses) == BALLAST_OK && losses.token_weight == 0);
}

/* Every sample of an epoch once, whatever the ranks; the next epoch in another order; a state goes on
 * with the same samples, and that of another sampler is refused. */
static void check_sampler(void)
{
  ballast_sampler_options options = {.struct_size = sizeof options,
                                     .samples = samples,
                                     .lengths = lengths,
                                     .step_samples = 10,
                                     .seed = 7};
  ballast_draw_step step = {.struct_size = sizeof step};
  ballast_draw draw = {.struct_size = sizeof draw};
  int64_t order[2][samples];
  int seen[samples] = {0};
  size_t epoch;
  size_t at;
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OK);
  for (epoch = 0; epoch < 2; ++epoch) {
    size_t drawn = 0;
    CHECK(step.step == 0 && step.epoch == epoch);
    do {
      CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_OK && draw.steps == 10);
      for (at = 0; at < draw.samples; ++at) {
        CHECK(draw.lengths[at] == lengths[draw.sample[at]]);
        ++seen[draw.sample[at]];
        order[epoch][drawn++] = draw.sample[at];
      }
      step.epoch = draw.next_epoch;
      step.step = draw.next_step;
      step.made_by = draw.made_by;
    } while (step.step != 0);
    CHECK(drawn == samples && draw.samples == 6);
  }
  for (at = 0; at < samples; ++at) { CHECK(seen[at] == 2); }
  CHECK(memcmp(order[0], order[1], sizeof *order) != 0);

  step.epoch = 1;
  step.step = 3;
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OK);
  CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_OK);
  CHECK(memcmp(draw.sample, order[1] + 30, 10 * sizeof **order) == 0);
  step.step = 10;
  CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_OUT_OF_RANGE);
  options.seed = 8;
  step.step = 3;
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OK);
  CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_MISMATCH);
  step.made_by = 0;
  options.in_order = options.drop_last = 1;
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OK);
  CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_OK && draw.sample[9] == 39);
  CHECK(draw.steps == 9);
  options.step_samples = samples + 1;
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OUT_OF_RANGE);
  options.drop_last = 0; /* fewer samples than a step has */
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OK);
  step.step = 0;
  CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_OK && draw.samples == samples);
  options.lengths = NULL;
  CHECK(ballast_set_up_sampler(planner, &options) == BALLAST_OK);
  CHECK(ballast_draw_samples(planner, &step, &draw) == BALLAST_OK && draw.lengths == NULL);
}

/* Layers of 4 1 1 1 1 4 on three ranks: 4, 4 and 4; where ranks hold three layers, 5. */
static void check_chain(void)
{
  static int64_t const costs[] = {4, 1, 1, 1, 1, 4};
  static int64_t const bytes[] = {1, 1, 1, 1, 1, 1};
  static int64_t most[] = {3, 3, 3};
  ballast_chain_step step = {.struct_size = sizeof step, .layers = 6, .costs = costs, .ranks = 3};
  ballast_chain chain = {.struct_size = sizeof chain};
  CHECK(ballast_cut_chain(planner, &step, &chain) == BALLAST_OK && chain.stages == 3);
  CHECK(chain.makespan == 4 && chain.gap == 0 && chain.loads[1] == 4 && chain.ranks == 3);
  CHECK(chain.first[0] == 0 && chain.first[1] == 1 && chain.first[2] == 5 && chain.first[3] == 6);
  step.state_bytes = bytes;
  step.most = most;
  CHECK(ballast_cut_chain(planner, &step, &chain) == BALLAST_OK && chain.makespan == 5);
  step.chunks = 2;
  CHECK(ballast_cut_chain(planner, &step, &chain) == BALLAST_OK && chain.stages == 6);
  most[1] = 1;
  CHECK(ballast_cut_chain(planner, &step, &chain) == BALLAST_INFEASIBLE);
  step.ranks = (size_t)-1 / 2;
  CHECK(ballast_cut_chain(planner, &step, &chain) == BALLAST_INFEASIBLE);
  step.costs = NULL;
  CHECK(ballast_cut_chain(planner, &step, &chain) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(planner), "costs is null") != NULL);
}

/* Long ones together, 2 x (10 + 1), and short ones, 2 x (2 + 2). */
static void check_padding(void)
{
  static int64_t const source[] = {10, 1, 9, 2};
  static int64_t const target[] = {1, 2, 1, 1};
  ballast_pad_step step = {.struct_size = sizeof step,
                           .samples = 4,
                           .source = source,
                           .target = target,
                           .cost = {.source = 1, .target = 1},
                           .ranks = 2};
  ballast_grid grid = {.struct_size = sizeof grid};
  ballast_packing packing = {.struct_size = sizeof packing};
  size_t cell;
  size_t at;
  CHECK(ballast_pad_grid(planner, &step, &grid) == BALLAST_OK && grid.ranks == 2);
  CHECK(grid.makespan == 22 && grid.owner[0] == grid.owner[2] && grid.owner[1] == grid.owner[3]);
  for (cell = 0; cell < 2; ++cell) {
    int64_t longest = 0;
    for (at = grid.first[cell]; at < grid.first[cell + 1]; ++at) {
      if (source[grid.sample[at]] > longest) { longest = source[grid.sample[at]]; }
    }
    CHECK(grid.longest[2 * cell] == longest);
  }
  step.most_per_gpu = 22;
  CHECK(ballast_pad_to_cap(planner, &step, &packing) == BALLAST_OK && packing.bins == 2);
  step.of.product = 5;
  step.most_per_gpu = 100; /* 10 x 1 and 9 x 1: 2 x 50; all: 4 x 5 x 20 */
  CHECK(ballast_pad_to_cap(planner, &step, &packing) == BALLAST_OK && packing.bins == 2);
  CHECK(packing.loads[packing.owner[0]] == 100);
  step.cost.product = -1;
  CHECK(ballast_pad_grid(planner, &step, &grid) == BALLAST_OUT_OF_RANGE);
  step.cost.product = INT64_MAX;
  CHECK(ballast_pad_grid(planner, &step, &grid) == BALLAST_OUT_OF_RANGE);
  step.cost.product = 0;
  step.most_per_gpu = 40;
  CHECK(ballast_pad_grid(planner, &step, &grid) == BALLAST_INFEASIBLE);
  CHECK(ballast_error_position(planner) == 0);
  step.ranks = 0;
  CHECK(ballast_pad_grid(planner, &step, &grid) == BALLAST_OUT_OF_RANGE);
}

/* Samples come one buffer after the other; each goes out once, in bins that are full enough, as many
 * as ranks, and the oldest never waits while others go. */
static void check_stream(void)
{
  enum { buffer = 24 };
  int64_t waiting[2 * samples];
  size_t held = 0;
  size_t next = 0;
  int64_t in = 0;
  int64_t out = 0;
  int turn;
  ballast_limits const limits = {.struct_size = sizeof limits, .most_per_gpu = 65536};
  ballast_pack_step step = {.struct_size = sizeof step, .limits = &limits};
  ballast_packing packing = {.struct_size = sizeof packing};
  for (turn = 0; next < samples || held > 0; ++turn) {
    size_t bin;
    size_t at;
    size_t small = 0;
    int64_t rest[2 * samples];
    int is_last;
    for (; held < buffer && next < samples; ++next) {
      waiting[held++] = lengths[next];
      in += lengths[next];
    }
    is_last = next == samples;
    step.samples = held;
    step.lengths = waiting;
    step.least_load = is_last ? 0 : 60000;
    step.most_bins = is_last ? buffer : 4;
    step.multiple_of = is_last ? 1 : 2;
    CHECK(ballast_pack(planner, &step, &packing) == BALLAST_OK && packing.bins <= buffer);
    CHECK(is_last || (packing.bins <= 4 && packing.bins % 2 == 0));
    for (bin = 0; bin < packing.bins; ++bin) {
      int64_t load = 0;
      for (at = packing.first[bin]; at < packing.first[bin + 1]; ++at) {
        CHECK(packing.owner[packing.sample[at]] == bin);
        load += waiting[packing.sample[at]];
      }
      CHECK(load == packing.loads[bin] && load <= 65536);
      small += load < step.least_load && packing.owner[0] != bin;
      out += load;
    }
    CHECK(small < 2 && packing.bins > 0 && packing.owner[0] != BALLAST_LEFT);
    CHECK(packing.first[packing.bins] + packing.samples_left == held);
    for (at = 0; at < packing.samples_left; ++at) {
      CHECK(packing.owner[packing.left[at]] == BALLAST_LEFT);
      rest[at] = waiting[packing.left[at]];
    }
    held = packing.samples_left;
    memcpy(waiting, rest, held * sizeof *rest);
    CHECK(turn < 100);
  }
  CHECK(in == out);
  step.most_bins = 1;
  step.multiple_of = 2;
  CHECK(ballast_pack(planner, &step, &packing) == BALLAST_OUT_OF_RANGE);
}

/* At least so many microbatches, in multiples. */
static void check_least_microbatches(void)
{
  ballast_grid_options options = {
      .struct_size = sizeof options, .gpus = gpus, .multiple_of = 2, .least_microbatches = 3};
  ballast_limits const limits = {.struct_size = sizeof limits, .most_per_gpu = 65536};
  ballast_grid_step step = {.struct_size = sizeof step, .samples = samples, .lengths = lengths};
  ballast_grid grid = {.struct_size = sizeof grid};
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OK);
  CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_OK && grid.microbatches == 4);
  options.microbatches = 3;
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OUT_OF_RANGE);
  options.microbatches = 0;
  options.least_microbatches = 1;
  step.limits = &limits;
  CHECK(ballast_set_up_grid(planner, &options) == BALLAST_OK);
  CHECK(ballast_partition_grid(planner, &step, &grid) == BALLAST_OK && grid.microbatches >= 2);
}

static void place(size_t number, size_t by, ballast_placement* placement)
{
  ballast_place_step step = {.struct_size = sizeof step};
  step.placement = number;
  step.by = by;
  step.ranks = gpus;
  step.samples = samples;
  step.lengths = lengths;
  step.rank = readers;
  CHECK(ballast_place(planner, &step, placement) == BALLAST_OK);
}

/* What ranks send each other is what they expect, and all rows arrive. */
static void check_route(size_t by)
{
  ballast_placement read = {.struct_size = sizeof read};
  ballast_placement computed = {.struct_size = sizeof computed};
  static int64_t sent[gpus][gpus];
  static int64_t received[gpus][gpus];
  uint64_t digest = 0;
  size_t rank;
  size_t peer;
  place(0, BALLAST_BY_RANK, &read);
  place(1, by, &computed);
  CHECK(read.first[samples] == samples && computed.samples == samples && computed.ranks == gpus);
  for (rank = 0; rank < gpus; ++rank) {
    ballast_route_step step = {.struct_size = sizeof step};
    ballast_route route = {.struct_size = sizeof route};
    int64_t kept = 0;
    size_t i;
    step.from = 0;
    step.to = 1;
    step.rank = rank;
    CHECK(ballast_plan_route(planner, &step, &route) == BALLAST_OK);
    CHECK(rank == 0 || route.digest == digest);
    digest = route.digest;
    for (i = 0; i < route.kept_ranges; ++i) { kept += route.kept[i].count; }
    for (peer = 0; peer < gpus; ++peer) {
      int64_t in_ranges = 0;
      for (i = route.first_sent[peer]; i < route.first_sent[peer + 1]; ++i) {
        in_ranges += route.sent[i].count;
      }
      sent[rank][peer] = route.rows_sent[peer];
      received[rank][peer] = route.rows_received[peer];
      CHECK(in_ranges == route.rows_sent[peer]);
      kept += route.rows_received[peer];
    }
    CHECK(kept == route.rows_after && route.rows_after == computed.rows[rank]);
    CHECK(route.rows_before == read.rows[rank]);
    CHECK(route.first_received[gpus] == 0 || route.received[0].count > 0);
  }
  for (rank = 0; rank < gpus; ++rank) {
    for (peer = 0; peer < gpus; ++peer) { CHECK(sent[rank][peer] == received[peer][rank]); }
  }
}

/* One microbatch on two stages: forward down, backward up, or both ranks wait for ever. */
static void check_own_schedule(void)
{
  static size_t const first[] = {0, 2, 4};
  static ballast_task const tasks[] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}};
  static ballast_task const deadlock[] = {{0, 0, 1}, {0, 0, 0}, {0, 1, 0}, {0, 1, 1}};
  ballast_order_options options = {.struct_size = sizeof options};
  ballast_order_step step = {.struct_size = sizeof step};
  ballast_order found = {.struct_size = sizeof found};
  options.microbatches = 1;
  options.stages = 2;
  options.first_task = first;
  options.tasks = tasks;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
  step.forward = forward;
  step.backward = backward;
  CHECK(ballast_order_microbatches(planner, &step, &found) == BALLAST_OK);
  CHECK(found.makespan == forward[0] + forward[1] + backward[0] + backward[1]);
  options.tasks = deadlock;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_INFEASIBLE);
  CHECK(strstr(ballast_error(planner), "deadlock") != NULL);
}

/* Two microbatches on two stages whose backwards are in two parts: planned, written as cells and read
 * back; and refused where a rank may keep one microbatch and the cells have two there. */
static void check_split_schedule(void)
{
  static uint8_t const split[] = {1, 1};
  static int64_t const ones[] = {1, 1, 1, 1};
  static uint64_t most[] = {2, 2};
  ballast_order_options options = {.struct_size = sizeof options};
  ballast_order_step step = {.struct_size = sizeof step};
  ballast_order planned = {.struct_size = sizeof planned};
  ballast_order found = {.struct_size = sizeof found};
  char* cells;
  options.microbatches = 2;
  options.stages = 2;
  options.schedule = "planned";
  options.split = split;
  options.most = most;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
  step.forward = step.backward = step.weights = ones;
  CHECK(ballast_order_microbatches(planner, &step, &planned) == BALLAST_OK);
  CHECK(planned.makespan == 7 && planned.lower_bound <= 7); /* 3 l + p - 1 */
  CHECK(planned.ranks == 2 && planned.first_task[2] == 12 && planned.tasks[0].pass == 0);
  cells = malloc(strlen(planned.cells) + 1);
  strcpy(cells, planned.cells);

  options.schedule = NULL;
  options.policy = "given";
  options.text = cells;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
  CHECK(ballast_order_microbatches(planner, &step, &found) == BALLAST_OK);
  CHECK(found.makespan == 7 && strcmp(found.cells, cells) == 0);
  most[0] = 1;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
  CHECK(ballast_order_microbatches(planner, &step, &found) == BALLAST_INFEASIBLE);
  CHECK(strstr(ballast_error(planner), "pipeline rank 0 keeps 2 bytes") != NULL);
  cells[1] = 'X';
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_BAD_ROW);
  options.text = "0F0,0B0";
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OUT_OF_RANGE);
  free(cells);
}

/* Schedules with split backwards by their names, passes of one unit: 3 l + p - 1, in a V of half
 * stages 6 l + p - 1; no plan is longer. */
static void check_named_split_schedules(void)
{
  enum { ranks = 3, count = 6 };
  static char const* const names[] = {"zero_bubble", "zero_bubble:memory=2", "zero_bubble_v",
                                      "dual_pipe_v"};
  static int64_t ones[2 * ranks * count];
  static uint8_t const split[] = {1, 1, 1, 1, 1, 1};
  ballast_order_options options = {.struct_size = sizeof options, .microbatches = count};
  ballast_order_step step = {
      .struct_size = sizeof step, .forward = ones, .backward = ones, .weights = ones};
  ballast_order found = {.struct_size = sizeof found};
  size_t i;
  for (i = 0; i < sizeof ones / sizeof *ones; ++i) { ones[i] = 1; }
  options.policy = "given";
  options.writes_cells = 1;
  for (i = 0; i < 4; ++i) {
    int const in_v = i > 1;
    options.schedule = names[i];
    options.stages = in_v ? 2 * ranks : ranks;
    CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
    CHECK(ballast_order_microbatches(planner, &step, &found) == BALLAST_OK);
    CHECK(found.makespan == (in_v ? 6 : 3) * count + ranks - 1 && found.ranks == ranks);
    CHECK(strncmp(found.cells, "0F0", 3) == 0);
  }
  options.schedule = "planned";
  options.split = split;
  options.in_v = 1;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OK);
  CHECK(ballast_order_microbatches(planner, &step, &found) == BALLAST_OK);
  CHECK(found.makespan <= 6 * count + ranks - 1 && found.tasks[found.first_task[1] - 1].pass > 0);
  options.stages = 5;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OUT_OF_RANGE);
  options.stages = 6;
  options.schedule = "1f1b"; /* of no V */
  CHECK(ballast_set_up_order(planner, &options) != BALLAST_OK);
}

/* Numbers of tasks that do not begin, grow and end as they must are refused before a task is read:
 * there are no more than four. */
static void check_first_tasks(void)
{
  static size_t const wrong[][3] = {{0, 9, 2}, {0, 9, 9}, {9, 9, 13}, {2, 4, 4}, {0, 2, 3}};
  ballast_order_options options = {.struct_size = sizeof options};
  ballast_task* const tasks = calloc(4, sizeof *tasks);
  size_t i;
  options.microbatches = 1;
  options.stages = 2;
  options.tasks = tasks;
  for (i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    options.first_task = wrong[i];
    CHECK(ballast_set_up_order(planner, &options) == BALLAST_OUT_OF_RANGE);
    CHECK(strstr(ballast_error(planner), "first_task") != NULL);
  }
  options.microbatches = SIZE_MAX / 2 + 2; /* 4 microbatches, where the product wraps */
  options.first_task = (size_t const[]){0, 2, 4};
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OUT_OF_RANGE);
  options.microbatches = 1;
  options.tasks = NULL;
  CHECK(ballast_set_up_order(planner, &options) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(planner), "tasks is null") != NULL);
  free(tasks);
}

/* A struct_size that no struct has is refused, and nothing behind the struct is read or written. */
static void check_struct_sizes(void)
{
  static size_t const wrong[] = {0, 4, 53, 4104, (size_t)-1, (size_t)-8};
  ballast_pack_step* const step = calloc(1, sizeof *step);
  ballast_packing* const packing = calloc(1, sizeof *packing);
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    step->struct_size = wrong[i];
    packing->struct_size = sizeof *packing;
    CHECK(ballast_pack(planner, step, packing) == BALLAST_OUT_OF_RANGE);
    CHECK(strstr(ballast_error(planner), "what to do has a struct_size") != NULL);
    step->struct_size = sizeof *step;
    packing->struct_size = wrong[i];
    CHECK(ballast_pack(planner, step, packing) == BALLAST_OUT_OF_RANGE);
    CHECK(strstr(ballast_error(planner), "the result has a struct_size") != NULL);
  }
  free(step);
  free(packing);
}

static void check_errors(void)
{
  ballast_planner* const fresh = ballast_create();
  ballast_plan_options options = {.struct_size = sizeof options};
  ballast_plan_step step = {.struct_size = sizeof step};
  ballast_plan plan = {.struct_size = sizeof plan};
  ballast_place_step where = {.struct_size = sizeof where};
  ballast_placement placement = {.struct_size = sizeof placement};
  struct {
    ballast_plan_options known;
    size_t more;
  } newer = {{.struct_size = sizeof newer}, 0};
  step.samples = samples;
  CHECK(ballast_partition(fresh, &step, &plan) == BALLAST_WRONG_ORDER);
  CHECK(strstr(ballast_error(fresh), "ballast_set_up_plan") != NULL);
  where.by = BALLAST_BY_PLAN;
  CHECK(ballast_place(fresh, &where, &placement) == BALLAST_WRONG_ORDER);
  CHECK(ballast_set_up_plan(NULL, &options) == BALLAST_FAILED && ballast_error(NULL) != NULL);
  CHECK(ballast_set_up_plan(fresh, NULL) == BALLAST_OUT_OF_RANGE);
  options.gpus = gpus;
  options.policy = "refin";
  CHECK(ballast_set_up_plan(fresh, &options) == BALLAST_UNKNOWN_NAME);
  options.struct_size = 0;
  CHECK(ballast_set_up_plan(fresh, &options) == BALLAST_OUT_OF_RANGE);
  newer.known.gpus = gpus;
  CHECK(ballast_set_up_plan(fresh, &newer.known) == BALLAST_OK);
  newer.more = 1;
  CHECK(ballast_set_up_plan(fresh, &newer.known) == BALLAST_OUT_OF_RANGE);
  CHECK(ballast_partition(fresh, &step, &plan) == BALLAST_OUT_OF_RANGE); /* lengths are null */
  CHECK(strstr(ballast_error(fresh), "lengths") != NULL);
  step.lengths = lengths;
  step.samples = (size_t)-1;
  CHECK(ballast_partition(fresh, &step, &plan) == BALLAST_OUT_OF_RANGE);
  CHECK(strstr(ballast_error(fresh), "lengths was said to have") != NULL);
  step.samples = samples;
  lengths[5] = -1;
  CHECK(ballast_partition(fresh, &step, &plan) == BALLAST_OUT_OF_RANGE);
  CHECK(ballast_error_position(fresh) == 5 && plan.owner == NULL);
  CHECK(ballast_place(fresh, &where, &placement) == BALLAST_WRONG_ORDER);
  make_inputs();
  plan.struct_size = offsetof(ballast_plan, owner); /* a program with an older header */
  CHECK(ballast_partition(fresh, &step, &plan) == BALLAST_OK);
  CHECK(plan.bags == gpus && plan.owner == NULL);
  ballast_destroy(fresh);
}

/* The second step of each kind allocates nothing. */
static void check_memory(void)
{
  static uint8_t not_on_the_last[samples * gpus];
  ballast_limits limits = {.struct_size = sizeof limits, .home = readers};
  ballast_plan_step step = {.struct_size = sizeof step};
  ballast_plan plan = {.struct_size = sizeof plan};
  ballast_grid_step grid_step = {.struct_size = sizeof grid_step};
  ballast_grid grid = {.struct_size = sizeof grid};
  ballast_sharding_step sharding_step = {.struct_size = sizeof sharding_step};
  ballast_sharding sharding = {.struct_size = sizeof sharding};
  ballast_slots_step slots_step = {.struct_size = sizeof slots_step};
  ballast_slots slots = {.struct_size = sizeof slots};
  ballast_sampler_options sampler = {
      .struct_size = sizeof sampler, .samples = samples, .lengths = lengths, .step_samples = 10};
  ballast_draw_step draw_step = {.struct_size = sizeof draw_step};
  ballast_draw draw = {.struct_size = sizeof draw};
  ballast_loss_step loss_step = {
      .struct_size = sizeof loss_step, .samples = samples, .labels = lengths, .cells = gpus};
  ballast_losses losses = {.struct_size = sizeof losses};
  ballast_order_step order_step = {.struct_size = sizeof order_step};
  ballast_order found = {.struct_size = sizeof found};
  ballast_placement placement = {.struct_size = sizeof placement};
  ballast_route_step route_step = {.struct_size = sizeof route_step};
  ballast_route route = {.struct_size = sizeof route};
  size_t before = 0;
  size_t i;
  int turn;
  plan_with("refine", NULL);
  plan_grid();
  CHECK(ballast_set_up_sampler(planner, &sampler) == BALLAST_OK);
  shard(&sharding);
  order("search");
  step.samples = grid_step.samples = sharding_step.samples = slots_step.samples = samples;
  step.lengths = grid_step.lengths = sharding_step.lengths = slots_step.lengths = lengths;
  step.limits = grid_step.limits = &limits;
  for (i = 0; i < samples * gpus; ++i) { not_on_the_last[i] = i % gpus != gpus - 1; }
  order_step.forward = forward;
  order_step.backward = backward;
  route_step.to = 1;
  for (turn = 0; turn < 2; ++turn) {
    before = allocations_so_far();
    limits.fits = not_on_the_last;
    CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
    CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_OK);
    limits.fits = NULL;
    CHECK(ballast_partition(planner, &step, &plan) == BALLAST_OK);
    CHECK(ballast_partition_grid(planner, &grid_step, &grid) == BALLAST_OK);
    CHECK(ballast_shard(planner, &sharding_step, &sharding) == BALLAST_OK);
    CHECK(ballast_plan_slots(planner, &slots_step, &slots) == BALLAST_OK);
    CHECK(ballast_draw_samples(planner, &draw_step, &draw) == BALLAST_OK);
    ++draw_step.epoch;
    loss_step.owner = plan.owner;
    CHECK(ballast_weigh_losses(planner, &loss_step, &losses) == BALLAST_OK);
    CHECK(ballast_order_microbatches(planner, &order_step, &found) == BALLAST_OK);
    pack();
    place(0, BALLAST_BY_RANK, &placement);
    place(1, BALLAST_BY_PLAN, &placement);
    CHECK(ballast_plan_route(planner, &route_step, &route) == BALLAST_OK);
  }
  CHECK(before > 0 && allocations_so_far() == before);
}

int main(int count, char** arguments)
{
  char const* const what = count > 1 ? arguments[1] : "";
  char const* const of = count > 2 ? arguments[2] : "";
  make_inputs();
  planner = ballast_create();
  CHECK(planner != NULL && ballast_version() > 0);
  if (strcmp(what, "trace") == 0) {
    print_trace();
  } else if (strcmp(what, "durations") == 0) {
    print_durations();
  } else if (strcmp(what, "sizes") == 0) {
    print_sizes();
  } else if (strcmp(what, "plan") == 0) {
    print_plan(of);
  } else if (strcmp(what, "grid") == 0) {
    print_grid();
  } else if (strcmp(what, "pack") == 0) {
    print_packing();
  } else if (strcmp(what, "order") == 0) {
    print_order(of);
  } else if (strcmp(what, "layouts") == 0) {
    print_layouts(of, count > 3);
  } else {
    check_every_policy();
    check_constraints();
    check_fits();
    check_kinds();
    check_grid_and_packing();
    check_row_split();
    check_grid_speeds();
    check_cancelling();
    check_asking_seldom();
    check_costs();
    check_caps();
    check_sharding();
    plan_with("refine", "g1n4+g4n1");
    check_route(BALLAST_BY_PLAN);
    check_route(BALLAST_BY_SHARDING);
    check_slots();
    check_experts();
    check_losses();
    check_sampler();
    check_chain();
    check_padding();
    check_stream();
    check_least_microbatches();
    check_own_schedule();
    check_first_tasks();
    check_split_schedule();
    check_named_split_schedules();
    check_struct_sizes();
    check_memory();
    check_errors();
  }
  ballast_destroy(planner);
  return 0;
}
