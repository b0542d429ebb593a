/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BALLAST_C_INTERFACE_BALLAST_H
#define BALLAST_C_INTERFACE_BALLAST_H

#include <stddef.h>
#include <stdint.h>

/* What ballast plans, for C99 and what can call it: integers and pointers.
 *
 * A planner holds one job of each kind. Where a job stays the same from step to step it is set up
 * once, by a text such as "refine:lpt" for a policy, and then planned every step: after a step as
 * large, a plan allocates nothing. What a result points to lies in the planner until it makes the
 * next result of this kind or is destroyed. One thread at a time uses a planner.
 *
 * Every function that returns int returns BALLAST_OK or what went wrong. Then ballast_error() says
 * it in one sentence, and nothing is written to the result.
 *
 * Every struct that a function takes begins with struct_size, its sizeof, so that a program built
 * with an older header works with a newer library. All that is 0 or null is the default, so begin
 * with
 *
 *     ballast_plan_options options = {.struct_size = sizeof options};
 *
 * A table of rows is two arrays: row r is value[first[r]] to value[first[r + 1] - 1]. */

#define BALLAST_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum ballast_status {
  BALLAST_OK = 0,
  BALLAST_SYNTAX = 1,       /* a text does not follow its grammar; position: byte from 0 */
  BALLAST_BAD_ROW = 2,      /* of a CSV text; position: its line from 1 */
  BALLAST_UNKNOWN_NAME = 3, /* of a policy, schedule, cost or parameter; position: byte from 0 */
  BALLAST_OUT_OF_RANGE = 4, /* position: index of the value */
  BALLAST_INFEASIBLE = 5,   /* no plan exists; position: index of the sample or bag */
  BALLAST_MISMATCH = 8,     /* two things do not belong together */
  BALLAST_WRONG_ORDER = 13, /* a call came before one that it needs */
  BALLAST_FAILED = 14,      /* anything else, such as no planner */
  BALLAST_NO_MEMORY = 15,
  BALLAST_CANCELLED = 16 /* ballast_cancel_when stopped it */
};

typedef struct ballast_planner ballast_planner;

/* BALLAST_VERSION of the library: major * 10000 + minor * 100 + patch. */
BALLAST_C_API uint32_t ballast_version(void);
/* Null if there is no memory. */
BALLAST_C_API ballast_planner* ballast_create(void);
BALLAST_C_API void ballast_destroy(ballast_planner* planner);
/* Why the last call that failed has failed, in one sentence, and where: see ballast_status. */
BALLAST_C_API char const* ballast_error(ballast_planner const* planner);
BALLAST_C_API size_t ballast_error_position(ballast_planner const* planner);
/* From now on, what plans with this planner asks is_cancelled(of) often, on its own thread, and
 * returns BALLAST_CANCELLED soon after that was not 0. It returns quickly and calls no function of
 * this planner. Null: never asked, as at first. */
BALLAST_C_API int ballast_cancel_when(ballast_planner* planner, int (*is_cancelled)(void* of),
                                      void* of);
/* The same, asked at most once in so many microseconds, and at first after so many: for what takes
 * its time, such as a function of another language. */
BALLAST_C_API int ballast_cancel_every(ballast_planner* planner, size_t microseconds,
                                       int (*is_cancelled)(void* of), void* of);

/* ---- What a sample costs by its length ------------------------------------------------------- */

/* (linear l + quadratic l^2) / 2^fraction_bits for l tokens: the same on every machine. */
typedef struct ballast_cost {
  size_t struct_size;
  uint64_t linear;
  uint64_t quadratic;
  size_t fraction_bits; /* at most 127 */
} ballast_cost;

/* Measured times, of single samples or of steps. */
typedef struct ballast_fit_step {
  size_t struct_size;
  char const* model; /* "transformer:d=3072,layers=28" */
  size_t measurements;
  double const* seconds;  /* [measurements] */
  int64_t const* lengths; /* [measurements], of single samples; null: */
  int64_t const*
      steps; /* [measurements x 4], sums of lengths and of their squares, samples, GPUs */
} ballast_fit_step;

typedef struct ballast_fit {
  size_t struct_size;
  uint64_t linear; /* of the ballast_cost: in picoseconds, of steps in nanoseconds */
  uint64_t quadratic;
  size_t fraction_bits;
  double seconds_per_flop;
  double gamma;
  double seconds_per_call;
  double median_relative_error;
  double r_squared;
  double seconds_per_exchanged_token; /* these two of steps */
  double seconds_per_sequence;
  size_t misfits;
  size_t const* misfit; /* [misfits], measurements that are far off */
} ballast_fit;

/* The one that a text names, such as "transformer:d=3072,gamma=0.405". */
BALLAST_C_API int ballast_read_cost(ballast_planner* planner, char const* text, ballast_cost* cost);
/* Writes what each of so many lengths costs. */
BALLAST_C_API int ballast_price(ballast_planner* planner, ballast_cost const* cost, size_t samples,
                                int64_t const* lengths, int64_t* costs);
BALLAST_C_API int ballast_fit_cost(ballast_planner* planner, ballast_fit_step const* step,
                                   ballast_fit* fit);

/* ---- Which samples of a data set each step has ----------------------------------------------- */

/* Writes 0 to count - 1 in an order that the seed alone decides. */
BALLAST_C_API int ballast_shuffle(ballast_planner* planner, uint64_t seed, size_t count,
                                  int64_t* order);

typedef struct ballast_sampler_options {
  size_t struct_size;
  size_t samples;         /* of the data set */
  int64_t const* lengths; /* [samples], which are copied; null: not known */
  size_t step_samples;    /* of a step, over all ranks */
  uint64_t seed;
  size_t in_order;  /* 1: epochs are not shuffled */
  size_t drop_last; /* 1: samples that do not fill a step are left out; 0: the last has fewer */
} ballast_sampler_options;

/* These three numbers are a sampler's state, to be saved after a step as `next_epoch`, `next_step`
 * and `made_by`. Ranks may be others when it goes on: steps keep their samples. */
typedef struct ballast_draw_step {
  size_t struct_size;
  uint64_t epoch;
  uint64_t step;    /* of the epoch, from 0 */
  uint64_t made_by; /* another sampler's is refused; 0: not checked */
} ballast_draw_step;

typedef struct ballast_draw {
  size_t struct_size;
  size_t steps; /* of an epoch */
  size_t samples;
  int64_t const* sample;  /* [samples], of the data set */
  int64_t const* lengths; /* [samples]; null where they are not known */
  uint64_t next_epoch;
  uint64_t next_step;
  uint64_t made_by; /* from the sampler's options and lengths; never 0 */
} ballast_draw;

BALLAST_C_API int ballast_set_up_sampler(ballast_planner* planner,
                                         ballast_sampler_options const* options);
BALLAST_C_API int ballast_draw_samples(ballast_planner* planner, ballast_draw_step const* step,
                                       ballast_draw* draw);

/* ---- What plans, grids and packings have to keep to ------------------------------------------ */

/* One thing that bags, cells or bins have a limited amount of, such as images. */
typedef struct ballast_cap {
  int64_t const* of;    /* [samples], what each takes of it; null: its length */
  int64_t most_per_gpu; /* a bag of G GPUs gets at most G times this; 0: no limit */
  int64_t const* most;  /* [bags], what each gets at most; null: no limit */
  int64_t rounded_to;   /* what a sample takes is rounded up to one of it; 0: 1 */
  size_t is_soft;       /* 1: a sample above every bag's limit gets a bag for itself */
} ballast_cap;

enum ballast_counts_kind {
  BALLAST_ANY_COUNT = 0,
  BALLAST_AT_MOST = 1,
  BALLAST_EQUAL = 2, /* or differing by one; with a number all but one are multiples of it */
  BALLAST_MULTIPLE_OF = 3,
  BALLAST_FILLED = 4 /* at least one */
};

/* How many samples each bag, cell or bin gets. */
typedef struct ballast_counts {
  size_t kind; /* ballast_counts_kind */
  int64_t number;
} ballast_counts;

/* What decides among plans of one makespan. */
enum ballast_then {
  BALLAST_THEN_NOTHING = 0,
  BALLAST_THEN_LEVEL = 1,        /* the next latest bags too */
  BALLAST_THEN_FEWEST_MOVES = 2, /* of tokens, from `home` */
  BALLAST_THEN_LEAST = 3         /* the largest sum of `least` */
};

/* All of it is optional, and all of it is kept together. A bag is a cell of a grid, or a bin of a
 * packing, which takes no home, starting_loads and fits. */
typedef struct ballast_limits {
  size_t struct_size;
  int64_t most_per_gpu;    /* tokens: a bag of G GPUs gets at most G times this; 0: no limit */
  ballast_counts samples;  /* of a bag */
  size_t caps;             /* beside most_per_gpu */
  ballast_cap const* also; /* [caps], at most four */
  int64_t const* together; /* [samples], one key shares a bag; null: none */
  int64_t const* apart;    /* [samples], one key shares no bag; null: none */
  uint32_t const* home;    /* [samples], the GPU that has each now; null: none */
  uint8_t const* fits;     /* [samples x bags], 0: it may not go there; null: all may */
  int64_t const* starting_loads; /* [bags], work that they have already; null: none */
  size_t then;                   /* ballast_then */
  int64_t const* least;          /* [samples], for BALLAST_THEN_LEAST */
  size_t within_per_million;     /* how much longer than the shortest a plan may be for that */
} ballast_limits;

/* ---- Which bag of GPUs computes which sample ------------------------------------------------- */

typedef struct ballast_plan_options {
  size_t struct_size;
  size_t gpus;                 /* of the job */
  size_t gpus_per_node;        /* 0: 8, or all where bags is null */
  uint32_t const* gpu_speeds;  /* [gpus], in any unit; null: all equally fast */
  char const* bags;            /* "g1n4+g4n1"; null: one GPU each */
  size_t largest_bags_first;   /* 1: lay them so where they would straddle a node; 0: refuse them */
  size_t admits_short_samples; /* 1: of fewer tokens than every bag has GPUs; 0: refuse them */
  char const* cost;            /* "transformer:d=3072,gamma=0.405"; null: "tokens" */
  char const* policy;          /* "refine:nodes=1000000"; null: "refine" */
  ballast_cost const* model;   /* instead of `cost`; null: that */
} ballast_plan_options;

/* What a text such as "g1n4+g4n1" says, laid once. */
typedef struct ballast_bags {
  size_t struct_size;
  size_t gpus;
  size_t bags;
} ballast_bags;

BALLAST_C_API int ballast_read_bags(ballast_planner* planner, char const* text, ballast_bags* bags);

typedef struct ballast_plan_step {
  size_t struct_size;
  size_t samples;
  int64_t const* lengths;       /* [samples], in tokens */
  int64_t const* costs;         /* [samples]; null: what the cost model says */
  ballast_limits const* limits; /* null: none */
} ballast_plan_step;

typedef struct ballast_plan {
  size_t struct_size;
  size_t samples;
  size_t bags;
  uint32_t const* bag_first_gpu; /* [bags] */
  uint32_t const* bag_gpus;      /* [bags], as many from the first on */
  uint32_t const* owner;         /* [samples], the bag of each */
  size_t const* first;           /* [bags + 1] */
  uint32_t const* sample;        /* [samples], those of bag 0, then of bag 1, ... */
  int64_t const* costs;          /* [samples] */
  int64_t const* loads;          /* [bags] */
  size_t bags_above_cap;
  uint32_t const* above_cap; /* [bags_above_cap], where the cap is soft */
  double makespan;           /* the largest load per GPU, or per unit of speed */
  double lower_bound;        /* no plan has less */
  double gap;                /* at most so far above the best plan: 0.01 is 1 % */
  double moved;              /* share of all tokens that leave the bag of their home */
  uint64_t digest;           /* the same on every rank */
  size_t is_proven;          /* 1: no plan is better */
  size_t short_samples;      /* those that leave GPUs of their bag without a token */
} ballast_plan;

BALLAST_C_API int ballast_set_up_plan(ballast_planner* planner,
                                      ballast_plan_options const* options);
BALLAST_C_API int ballast_partition(ballast_planner* planner, ballast_plan_step const* step,
                                    ballast_plan* plan);

/* ---- Which rank computes which sample in which microbatch ------------------------------------ */

/* A rank is a bag: one GPU, where `bags` is null. */
typedef struct ballast_grid_options {
  size_t struct_size;
  size_t gpus; /* these are as in ballast_plan_options */
  size_t gpus_per_node;
  uint32_t const* gpu_speeds;
  char const* bags;
  size_t largest_bags_first;
  size_t admits_short_samples;
  char const* cost;
  size_t microbatches;       /* of every rank; 0: the least that is found */
  size_t multiple_of;        /* what a number that is found is a multiple of; 0: 1 */
  size_t meets_microbatch;   /* 1: ranks wait in every microbatch; 0: once a step */
  ballast_cost const* model; /* instead of `cost`; null: that */
  size_t least_microbatches; /* of a number that is found; 0: 1 */
} ballast_grid_options;

typedef struct ballast_grid_step {
  size_t struct_size;
  size_t samples;
  int64_t const* lengths;       /* [samples] */
  int64_t const* costs;         /* [samples]; null: what the cost model says */
  int64_t const* kinds;         /* [samples], a slot has samples of one key; null: any */
  ballast_limits const* limits; /* of a cell; null: none */
} ballast_grid_step;

/* Cell slot * ranks + rank is the microbatch `slot` of that rank. */
typedef struct ballast_grid {
  size_t struct_size;
  size_t samples;
  size_t ranks;
  size_t microbatches;
  size_t fewest_microbatches;     /* no plan has fewer */
  uint32_t const* rank_first_gpu; /* [ranks] */
  uint32_t const* rank_gpus;      /* [ranks], as many from the first on */
  uint32_t const* owner;          /* [samples], the cell of each */
  size_t const* first;            /* [cells + 1] */
  uint32_t const* sample;         /* [samples], cell by cell */
  int64_t const* costs;           /* [samples] */
  int64_t const* loads;           /* [cells], the cost */
  int64_t const* filled;          /* [cells], of the first cap; without one, tokens */
  size_t cells_above_cap;
  uint32_t const* above_cap; /* [cells_above_cap], where the cap is soft */
  double makespan;           /* per unit of speed */
  double lower_bound;
  double gap;
  double moved;
  uint64_t digest;
  size_t used_microbatches; /* those after them are empty on all ranks */
  size_t empty_cells;
  int64_t const* kinds;   /* [microbatches], the key of each slot; null: samples have none */
  size_t is_proven;       /* 1: no plan with as many microbatches is better */
  int64_t const* longest; /* [cells x 2], what ballast_pad_grid pads to: source, target; or null */
} ballast_grid;

BALLAST_C_API int ballast_set_up_grid(ballast_planner* planner,
                                      ballast_grid_options const* options);
BALLAST_C_API int ballast_partition_grid(ballast_planner* planner, ballast_grid_step const* step,
                                         ballast_grid* grid);
/* Why the last grid has so many microbatches, in a sentence; null before there is one. */
BALLAST_C_API char const* ballast_why_microbatches(ballast_planner* planner);

/* What the loss of a cell or of a bag counts, so that the step's is the mean over all that have one,
 * however many of them are where. */
typedef struct ballast_loss_step {
  size_t struct_size;
  size_t samples;
  int64_t const* labels; /* [samples], how many tokens of each have a loss */
  uint32_t const* owner; /* [samples], the cell or bag of each, as plans have it */
  size_t cells;
  size_t averaged_over; /* processes whose gradients are averaged; 0: they are added up */
} ballast_loss_step;

typedef struct ballast_losses {
  size_t struct_size;
  size_t cells;
  double const* weights; /* [cells], of the mean loss of its tokens; 0 where it has none */
  double token_weight;   /* of the sum of losses, on each process of its own tokens */
  int64_t const* labels; /* [cells] */
  int64_t all_labels;
} ballast_losses;

BALLAST_C_API int ballast_weigh_losses(ballast_planner* planner, ballast_loss_step const* step,
                                       ballast_losses* losses);

/* ---- As few bins as are found ---------------------------------------------------------------- */

/* With more limits than most_per_gpu or one cap, a call allocates.
 *
 * A stream is packed call after call: what one leaves comes first in the next, before new samples.
 * The bins that are kept are then a multiple of multiple_of, and at least so many of the fullest
 * where there are so many; one of them has sample 0, so that none waits for ever. */
typedef struct ballast_pack_step {
  size_t struct_size;
  size_t samples;
  int64_t const* lengths;       /* [samples] */
  ballast_limits const* limits; /* of a bin; null: none */
  size_t least_bins;
  size_t multiple_of; /* of bins; 0: 1 */
  size_t is_padded;   /* 1: a bin takes count x longest; 0: the sum */
  int64_t least_load; /* a stream: samples of bins that hold less are left; 0: none */
  size_t most_bins;   /* a stream: so are those of all but so many, the fullest; 0: none */
} ballast_pack_step;

/* The owner of a sample that is left. */
#define BALLAST_LEFT UINT32_MAX

typedef struct ballast_packing {
  size_t struct_size;
  size_t samples;
  size_t bins;
  size_t fewest_bins;     /* no packing has fewer; of a stream, of all samples */
  uint32_t const* owner;  /* [samples], the bin of each */
  size_t const* first;    /* [bins + 1] */
  uint32_t const* sample; /* [samples], bin by bin */
  int64_t const* loads;   /* [bins] */
  uint64_t digest;
  size_t empty_bins;
  uint32_t const* empty; /* [empty_bins], where more were asked for than there are samples */
  size_t bins_above_cap;
  uint32_t const* above_cap; /* [bins_above_cap], where a cap is soft */
  int64_t most_per_gpu;      /* the first cap, of a bin */
  int64_t largest_bound;     /* no packing into as many bins has a smaller largest one */
  size_t samples_left;
  uint32_t const* left; /* [samples_left], of a stream, ascending */
} ballast_packing;

BALLAST_C_API int ballast_pack(ballast_planner* planner, ballast_pack_step const* step,
                               ballast_packing* packing);

/* ---- Batches that are padded to their longest source and their longest target ---------------- */

/* source s + target t + source_squared s^2 + product s t + target_squared t^2; none is negative. */
typedef struct ballast_padded_cost {
  int64_t source;
  int64_t target;
  int64_t source_squared;
  int64_t product;
  int64_t target_squared;
} ballast_padded_cost;

/* A batch costs, and takes, its samples times what one does with its longest lengths. */
typedef struct ballast_pad_step {
  size_t struct_size;
  size_t samples;
  int64_t const* source; /* [samples] */
  int64_t const* target; /* [samples]; null: 0 */
  ballast_padded_cost cost;
  ballast_padded_cost of; /* what most_per_gpu counts; all 0: the cost */
  int64_t most_per_gpu;   /* of a batch; 0: no limit */
  size_t ranks;
  size_t microbatches; /* of every rank; 0: 1 */
  uint64_t work;       /* of the search, in steps; 0: 2,000,000 */
} ballast_pad_step;

/* One batch for each rank and microbatch, so that the busiest rank has least. It allocates. */
BALLAST_C_API int ballast_pad_grid(ballast_planner* planner, ballast_pad_step const* step,
                                   ballast_grid* grid);
/* As few batches within most_per_gpu as are found; ranks, microbatches and cost say nothing. */
BALLAST_C_API int ballast_pad_to_cap(ballast_planner* planner, ballast_pad_step const* step,
                                     ballast_packing* packing);

/* ---- Which rows of packed documents each rank of a context-parallel group has ---------------- */

/* Queries see the keys of their document up to their own. */
typedef struct ballast_row_mask {
  int64_t window;          /* only the last so many of these; 0: all */
  int64_t const* prefixes; /* [documents], keys that all queries see too, or NULL */
  size_t layers;           /* that have this mask; 0: 1 */
} ballast_row_mask;

typedef struct ballast_rows_step {
  size_t struct_size;
  size_t documents;
  int64_t const* lengths; /* [documents] */
  size_t ranks;
  int64_t block;                /* rows; 0: 128 */
  size_t uneven_per_mille;      /* above the mean work, that counts as even; 0: 5 */
  size_t masks;                 /* 0: causal */
  ballast_row_mask const* mask; /* [masks] */
} ballast_rows_step;

typedef struct ballast_row_split {
  size_t struct_size;
  size_t ranks;
  size_t rows_of_rank;
  size_t blocks;
  size_t masks;
  uint32_t const* owner; /* [blocks], the rank of each */
  int64_t const* rows;   /* [ranks x rows_of_rank], rank by rank, the pack's row in each place */
  int64_t const* places; /* [ranks x rows_of_rank], its inverse */
  int64_t const* pairs;  /* [masks x ranks], of a query and a key, mask by mask */
  int64_t const* moved;  /* [masks x ranks], keys that a rank gets from others */
  int64_t const* bounds; /* [masks x 2], the least pairs of the busiest rank, and keys moved */
  uint64_t digest;
} ballast_row_split;

BALLAST_C_API int ballast_split_rows(ballast_planner* planner, ballast_rows_step const* step,
                                     ballast_row_split* split);

/* Sequences for an attention kernel of varied lengths: queries cu_queries[i] to cu_queries[i + 1] - 1
 * are the rank's rows from first_query[i] on, and their keys the pack's rows from first_key[i] on. In
 * a causal call the last query sees up to the last key, the one before it one less, and so on. */
typedef struct ballast_kernel_call {
  size_t is_causal; /* 0: each query sees all keys of its sequence */
  int64_t window;   /* of a causal call, only the last so many keys; 0: all */
  size_t sequences;
  int64_t const* cu_queries;  /* [sequences + 1] */
  int64_t const* cu_keys;     /* [sequences + 1] */
  int64_t const* first_query; /* [sequences] */
  int64_t const* first_key;   /* [sequences] */
} ballast_kernel_call;

typedef struct ballast_row_work_step {
  size_t struct_size;
  size_t rank;
  size_t mask; /* of those of the last ballast_row_split */
} ballast_row_work_step;

/* What a rank computes with its rows, and the keys that it gets for that. It allocates. */
typedef struct ballast_row_work {
  size_t struct_size;
  size_t calls; /* at most two: with prefixes one that is not causal */
  ballast_kernel_call const* call;
  size_t ranks;
  size_t const* first_moved; /* [ranks + 1] */
  int64_t const* moved; /* the pack's rows whose keys come from rank 0, then from rank 1, ... */
} ballast_row_work;

BALLAST_C_API int ballast_work_of_rows(ballast_planner* planner, ballast_row_work_step const* step,
                                       ballast_row_work* work);

/* ---- Over how many GPUs each sequence is split ----------------------------------------------- */

typedef struct ballast_sharding_options {
  size_t struct_size;
  size_t gpus;
  size_t gpus_per_node;    /* 0: 8 */
  size_t largest_degree;   /* most GPUs of a group; 0: all */
  char const* cost;        /* of a sequence on one GPU, with heads; null: "tokens" */
  uint64_t bytes_per_head; /* of a token, all exchanges together; 0: they take no time */
  uint64_t within_node_bytes_per_second;   /* 0: 450e9 */
  uint64_t between_nodes_bytes_per_second; /* 0: 50e9 */
  uint64_t units_per_second;               /* of the cost; 0: 1e12, picoseconds */
  int64_t latency;                         /* of all exchanges of a sequence, in that unit */
  size_t by_rows;      /* 1: attention is split by rows, as in a ring; 0: by heads */
  size_t whole_groups; /* 1: the query heads of a key-value head stay together */
} ballast_sharding_options;

typedef struct ballast_sharding_step {
  size_t struct_size;
  size_t samples;
  int64_t const* lengths; /* [samples] */
  int64_t most_per_gpu;   /* tokens that a GPU holds; 0: no limit */
} ballast_sharding_step;

/* Group g is group_gpus[g] GPUs from group_first_gpu[g] on. */
typedef struct ballast_sharding {
  size_t struct_size;
  size_t samples;
  size_t groups;
  size_t gpus;
  uint32_t const* group_first_gpu; /* [groups] */
  uint32_t const* group_gpus;      /* [groups] */
  uint32_t const* owner;           /* [samples], the group of each */
  size_t const* first;             /* [groups + 1] */
  uint32_t const* sample;          /* [samples], group by group */
  int64_t const* costs;            /* [samples], on each GPU of the group */
  int64_t const* loads;            /* [gpus] */
  int64_t const* held;             /* [gpus], in tokens */
  int64_t makespan;
  int64_t lower_bound;
  double gap;
  uint64_t digest;
} ballast_sharding;

BALLAST_C_API int ballast_set_up_sharding(ballast_planner* planner,
                                          ballast_sharding_options const* options);
BALLAST_C_API int ballast_shard(ballast_planner* planner, ballast_sharding_step const* step,
                                ballast_sharding* sharding);

/* ---- Which groups of GPUs tile each slot, and which samples they compute --------------------- */

/* The job is that of ballast_set_up_sharding: its GPUs, its cost and its largest degree. In each
 * slot every GPU is in one group, which splits each of its samples over all its GPUs. */
typedef struct ballast_slots_step {
  size_t struct_size;
  size_t samples;
  int64_t const* lengths; /* [samples] */
  int64_t most_per_gpu;   /* tokens that a GPU holds in a slot; 0: no limit */
  size_t is_soft;         /* 1: a sample that no group can hold gets a group for itself */
  ballast_counts counts;  /* of samples of a group: any, or at most */
  size_t sizes;           /* that groups may have; 0: any */
  uint32_t const* size;   /* [sizes], in any order */
  size_t powers_of_two;   /* 1: of these only 1, 2, 4, ... */
  size_t aligned;         /* 1: a group's first GPU is a multiple of its size */
  size_t slots;           /* 0: the number with the shortest plan found */
  size_t multiple_of;     /* what a number that is found is a multiple of; 0: 1 */
  size_t meets_step;      /* 1: ranks wait once a step; 0: in every slot */
  uint64_t work;          /* of the search, in visits of samples; 0: 80,000 */
} ballast_slots_step;

/* Groups go slot after slot, in a slot by their first GPU; one without samples has no work. */
typedef struct ballast_slots {
  size_t struct_size;
  size_t samples;
  size_t ranks;
  size_t slots;
  size_t fewest_slots; /* that tokens and caps need */
  size_t groups;
  size_t const* first_group;       /* [slots + 1] */
  uint32_t const* group_first_gpu; /* [groups] */
  uint32_t const* group_gpus;      /* [groups] */
  uint32_t const* owner;           /* [samples], the group of each */
  size_t const* first;             /* [groups + 1] */
  uint32_t const* sample;          /* [samples], group by group */
  size_t const* first_end;         /* [groups + 1] */
  int32_t const* ends;             /* 0 and where each sample of group 0 ends, then of group 1 */
  int64_t const* loads;            /* [groups], on each GPU */
  int64_t const* held;             /* [groups], in tokens, of the GPU that holds most */
  size_t groups_above_cap;
  uint32_t const* above_cap; /* [groups_above_cap], where the cap is soft */
  int64_t makespan;
  int64_t lower_bound;
  double gap;
  double loss_weight; /* of a token, where gradients are added up: 1 / all tokens */
  uint64_t digest;
} ballast_slots;

BALLAST_C_API int ballast_plan_slots(ballast_planner* planner, ballast_slots_step const* step,
                                     ballast_slots* slots);

/* ---- Which layers of a model each stage of a pipeline has ------------------------------------ */

/* A cut is made before training, and allocates. */
typedef struct ballast_chain_step {
  size_t struct_size;
  size_t layers;                   /* with the embedding, the head and the loss */
  int64_t const* costs;            /* [layers], in any unit */
  int64_t const* state_bytes;      /* [layers]; null: 0 */
  int64_t const* activation_bytes; /* [layers], of one microbatch; null: 0 */
  size_t ranks;
  size_t chunks;       /* of each rank: stage s lies on rank s % ranks; 0: 1 */
  int64_t const* most; /* [ranks], bytes of each; null: no limits */
  int64_t const* held; /* [ranks x chunks], microbatches that a stage keeps; null: one each */
} ballast_chain_step;

typedef struct ballast_chain {
  size_t struct_size;
  size_t stages;
  size_t ranks;
  size_t const* first;  /* [stages + 1], the first layer of each, and their number */
  int64_t const* loads; /* [ranks] */
  int64_t makespan;     /* the largest load */
  int64_t lower_bound;
  double gap;
} ballast_chain;

BALLAST_C_API int ballast_cut_chain(ballast_planner* planner, ballast_chain_step const* step,
                                    ballast_chain* chain);

/* ---- On which GPUs the experts of a mixture lie ---------------------------------------------- */

/* Placing allocates. With `first_now` and is_uneven, experts stay where they are and get copies. */
typedef struct ballast_experts_step {
  size_t struct_size;
  size_t experts;
  int64_t const* loads; /* [experts], as tokens of a batch or of the last steps */
  size_t gpus;
  uint32_t const* slots;     /* [gpus], replicas that fit each */
  size_t const* first_now;   /* [gpus + 1], where replicas are now; null: nowhere */
  uint32_t const* now;       /* the experts of GPU 0, then of GPU 1, ... */
  size_t within_per_million; /* above the least load, that a placement may be to move fewer */
  size_t is_uneven;          /* 1: shares of an expert's replicas may differ; 0: they are equal */
  int64_t shared;            /* work that any GPU takes, as of experts of all tokens */
  uint32_t const* replicas;  /* [experts], how many of each; null: what is best */
  size_t nodes;              /* 0: one */
  uint32_t const* node_gpus; /* [nodes], as many as each has */
  size_t most_nodes;         /* for the replicas of an expert; 0: no limit */
  size_t only_shares;        /* 1: replicas are `now`, and only their shares are found */
  uint64_t work;             /* of the search, in slots; 0: as is usual */
} ballast_experts_step;

typedef struct ballast_experts {
  size_t struct_size;
  size_t experts;
  size_t gpus;
  size_t const* first_expert; /* [gpus + 1] */
  uint32_t const* expert;     /* of GPU 0, then of GPU 1, ... */
  size_t const* first_gpu;    /* [experts + 1] */
  uint32_t const* gpu;        /* of expert 0, then of expert 1, ... */
  int64_t const* parts;       /* as `gpu`, of its load in 1 / unit; null: equal ones */
  int64_t unit;
  double makespan; /* the largest load of a GPU */
  double lower_bound;
  double gap;
  size_t kept;        /* replicas that were on their GPU before */
  size_t most_kept;   /* no placement as short keeps more */
  size_t least_added; /* none that keeps all adds fewer */
  uint64_t digest;
} ballast_experts;

BALLAST_C_API int ballast_place_experts(ballast_planner* planner, ballast_experts_step const* step,
                                        ballast_experts* experts);

/* ---- Where every token lies, and which rows go where ----------------------------------------- */

/* A planner keeps so many placements, by number. */
enum { BALLAST_PLACEMENTS = 8 };

enum ballast_place_by {
  BALLAST_BY_RANK = 0,     /* whole samples on ranks, as they were read */
  BALLAST_BY_PLAN = 1,     /* where the last ballast_plan wants them */
  BALLAST_BY_SHARDING = 2, /* where the last ballast_sharding wants them */
  BALLAST_BY_SLOT = 3,     /* where the last ballast_slots wants those of a slot; others nowhere */
  BALLAST_BY_READ = 4      /* the same samples where another placement has them */
};

typedef struct ballast_place_step {
  size_t struct_size;
  size_t placement; /* its number, below BALLAST_PLACEMENTS */
  size_t by;        /* ballast_place_by; what follows is for BALLAST_BY_RANK */
  size_t ranks;
  size_t samples;
  int64_t const* lengths; /* [samples] */
  uint32_t const* rank;   /* [samples] */
  size_t slot;            /* for BALLAST_BY_SLOT and BALLAST_BY_READ */
  size_t read;            /* number of the placement of all samples, for BALLAST_BY_READ */
} ballast_place_step;

/* Tokens first to first + count - 1 of a sample, in rows row, row + 1, ... of a rank's arrays. */
typedef struct ballast_piece {
  uint32_t rank;
  int64_t first;
  int64_t count;
  int64_t row;
} ballast_piece;

typedef struct ballast_placement {
  size_t struct_size;
  size_t samples;
  size_t ranks;
  size_t const* first;        /* [samples + 1] */
  ballast_piece const* piece; /* of sample 0, then of sample 1, ... */
  int64_t const* rows;        /* [ranks], of each rank's arrays */
  uint64_t digest;
} ballast_placement;

typedef struct ballast_route_step {
  size_t struct_size;
  size_t from; /* number of a placement */
  size_t to;
  size_t rank; /* whose part of the route it is */
} ballast_route_step;

typedef struct ballast_rows {
  int64_t first;
  int64_t count;
} ballast_rows;

typedef struct ballast_kept_rows {
  int64_t from_row;
  int64_t to_row;
  int64_t count;
} ballast_kept_rows;

/* The message to a peer is the rows of its ranges, one after the other; so is that from a peer.
 * Used backwards it is the reverse route. */
typedef struct ballast_route {
  size_t struct_size;
  size_t ranks;
  int64_t rows_before;
  int64_t rows_after;
  size_t const* first_sent;     /* [ranks + 1] */
  ballast_rows const* sent;     /* ranges of the rows before, peer by peer */
  int64_t const* rows_sent;     /* [ranks], to each peer */
  size_t const* first_received; /* [ranks + 1] */
  ballast_rows const* received; /* ranges of the rows after, peer by peer */
  int64_t const* rows_received; /* [ranks] */
  size_t kept_ranges;
  ballast_kept_rows const* kept; /* [kept_ranges] */
  uint64_t digest;               /* the same on every rank */
} ballast_route;

BALLAST_C_API int ballast_place(ballast_planner* planner, ballast_place_step const* step,
                                ballast_placement* placement);
BALLAST_C_API int ballast_plan_route(ballast_planner* planner, ballast_route_step const* step,
                                     ballast_route* route);

/* ---- In which order a pipeline computes its microbatches ------------------------------------- */

/* A pass of the microbatch at a position of the order, on a stage. */
typedef struct ballast_task {
  uint32_t position;
  uint32_t stage;
  uint32_t pass; /* 0: forward, 1: backward, 2: weights, where the stage is split */
} ballast_task;

/* Stage s is on rank s % ranks, unless `text` or a V says otherwise. In a V rank r has the stages r
 * and 2 ranks - 1 - r. Names of schedules are those of the program, "planned", and with backwards in
 * two parts on all stages "zero_bubble", "zero_bubble:memory=2", "zero_bubble_v", "dual_pipe_v". */
typedef struct ballast_order_options {
  size_t struct_size;
  size_t microbatches;
  size_t stages;
  size_t ranks;              /* 0: one for each stage, or for v of "interleaved:v=2" */
  int64_t transfer;          /* time from a stage to the next */
  char const* schedule;      /* "gpipe", "interleaved:v=2", "planned"; null: "1f1b" */
  size_t const* first_task;  /* [ranks + 1], from 0, a schedule of your own; null: none */
  ballast_task const* tasks; /* of rank 0, then of rank 1, ..., in their order */
  char const* policy;        /* "exact"; null: "search" */
  uint8_t const* split;      /* [stages], not 0: its backward is in two parts; null: none */
  char const* text;          /* a schedule as a file of tasks or of cells has it; null: none */
  uint64_t const* most;      /* [ranks], bytes that each may keep; null: no limits */
  size_t writes_cells;       /* 1: the order has `cells`, whatever its schedule */
  size_t in_v;               /* 1: stages go up the ranks and down again, as in those of a V */
} ballast_order_options;

typedef struct ballast_order_step {
  size_t struct_size;
  int64_t const* forward;  /* [microbatches x stages], times of microbatch 0, then of 1, ... */
  int64_t const* backward; /* the same */
  int64_t const* weights;  /* the same, of weights passes; null: 0 */
  /* The same, bytes until the last pass, and how many of them from backward on; null: 1, and all. */
  uint64_t const* held;
  uint64_t const* held_for_weights;
} ballast_order_step;

typedef struct ballast_order {
  size_t struct_size;
  size_t microbatches;
  uint32_t const* order; /* [microbatches], the microbatch at each position */
  int64_t makespan;      /* of a step in this order */
  int64_t
      makespan_given; /* in the order in which they are numbered; "planned": by 1F1B, in a V by its zero bubble */
  int64_t lower_bound; /* no order takes less; "planned": no schedule */
  double gap;
  uint64_t digest;
  size_t ranks;
  size_t const* first_task;  /* [ranks + 1], of the schedule that this is the order of */
  ballast_task const* tasks; /* of rank 0, then of rank 1, ..., in their order */
  /* The same with its microbatches, as torchtitan loads it; null unless "planned", from `text` or
   * asked for. */
  char const* cells;
} ballast_order;

BALLAST_C_API int ballast_set_up_order(ballast_planner* planner,
                                       ballast_order_options const* options);
BALLAST_C_API int ballast_order_microbatches(ballast_planner* planner,
                                             ballast_order_step const* step, ballast_order* order);

/* ---- How many GPUs each module of a model gets ----------------------------------------------- */

/* What a profile has modules of, and what may be wrong with its numbers. */
typedef struct ballast_profile {
  size_t struct_size;
  size_t modules;
  char const* const* name; /* [modules] */
  size_t notes;
  char const* const* note; /* [notes], a sentence each */
} ballast_profile;

typedef struct ballast_gpu_kind {
  size_t gpus;
  size_t gpus_per_node; /* 0: 8 */
  uint64_t memory_bytes;
  uint64_t bytes_per_second;
  uint32_t speed;          /* in any unit; 0: as fast as the GPUs that were measured */
  uint32_t measured_speed; /* of these, in the same unit */
} ballast_gpu_kind;

/* A search is done before training, and allocates. */
typedef struct ballast_layout_problem {
  size_t struct_size;
  char const* profile_csv; /* the text of a profile, as `ballast profile` writes it */
  size_t samples;
  int64_t const* sizes; /* [samples x modules], in random order */
  size_t batches;
  int64_t const* batch_sizes; /* [batches x global_batch x modules]; null: see `draws` */
  size_t global_batch;
  size_t gpus;
  size_t gpus_per_node;              /* 0: 8 */
  uint64_t memory_bytes;             /* of a GPU */
  uint64_t bytes_per_second;         /* between modules and of gradients; 0: they take no time */
  size_t best;                       /* layouts to find; 0: 1 */
  uint64_t most_work;                /* tasks simulated or bounded; 0: 2^30, 2 s */
  size_t more_kinds;                 /* of GPUs */
  ballast_gpu_kind const* more_gpus; /* [more_kinds], beside those above */
  uint8_t const* frozen;             /* [modules], 1: it is not trained; null: all are */
  uint8_t const* trained_inputs;     /* [modules], 1: a trained projector feeds it; null: none */
  size_t leave_gpus;                 /* 1: GPUs may stay unused */
  size_t share_optimizer;            /* 1: replicas share the optimiser's state */
  size_t draws;  /* as `ballast search` has it: so many of `sizes`, and all batches, are drawn */
  uint64_t seed; /* of that */
  size_t more_virtual_stages;
  uint32_t const* virtual_stages; /* [more_virtual_stages], to try beside 1 */
} ballast_layout_problem;

typedef struct ballast_module_layout {
  uint32_t tp;
  uint32_t pp;
  uint32_t dp;
  uint32_t sp;
  uint32_t ep;
} ballast_module_layout;

typedef struct ballast_layouts {
  size_t struct_size;
  size_t layouts; /* best first */
  size_t modules;
  ballast_module_layout const* module; /* [layouts x modules] */
  uint32_t const* microbatches;        /* [layouts], of each replica of the last module */
  int64_t const* simulated;            /* [layouts], a step in picoseconds */
  uint64_t const* memory_bytes;        /* [layouts], of the GPU that holds most */
  int64_t lower_bound;                 /* no layout has a shorter step */
  size_t is_proven;                    /* 1: these are the best of all */
  uint32_t const* kind; /* [layouts x modules], of GPUs: 0, or 1 + the place in more_gpus */
  uint32_t const* virtual_stages; /* [layouts], of each stage of the last module */
  double gap;
} ballast_layouts;

BALLAST_C_API int ballast_read_profile(ballast_planner* planner, char const* profile_csv,
                                       ballast_profile* profile);
BALLAST_C_API int ballast_search_layouts(ballast_planner* planner,
                                         ballast_layout_problem const* problem,
                                         ballast_layouts* layouts);

#ifdef __cplusplus
}
#endif

#endif /* BALLAST_C_INTERFACE_BALLAST_H */
