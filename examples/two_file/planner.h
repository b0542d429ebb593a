/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BALLAST_EXAMPLES_TWO_FILE_PLANNER_H
#define BALLAST_EXAMPLES_TWO_FILE_PLANNER_H

#include <stddef.h>
#include <stdint.h>

/* What a trainer that is not C++20 sees of ballast: pointers, counts and four functions. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct planner planner;

/* Which rank computes which documents of a step, and where their tokens go.
 *
 * As read the documents lie one after the other. As computed they do so too, but in the order of
 * `document`: document[i] has its first token at from[i] as read and at to[i] as computed, and
 * to[documents] is the number of all tokens. Rank r computes document[first[r]] to
 * document[first[r + 1] - 1]. */
typedef struct step_plan {
  size_t ranks;
  size_t documents;
  uint32_t const* document; /* [documents] */
  size_t const* first;      /* [ranks + 1] */
  int64_t const* from;      /* [documents] */
  int64_t const* to;        /* [documents + 1] */
  double imbalance_as_read; /* work of the busiest rank over that of a mean one */
  double imbalance;         /* and balanced */
} step_plan;

/* A planner for a GPT of these dimensions, none of which is 0; null if there is no memory. */
planner* planner_create(size_t ranks, uint32_t channels, uint32_t layers);

/* Plans a step: document i has lengths[i] tokens, and rank source[i], below `ranks`, has read it.
 * What `plan` points to lasts until the next call. Returns 0, or 1 if there is no plan:
 * planner_error says why. */
int planner_plan(planner* self, int64_t const* lengths, uint32_t const* source, size_t documents,
                 step_plan* plan);

/* Why the last call has failed, in one sentence. */
char const* planner_error(planner const* self);

void planner_destroy(planner* self);

#ifdef __cplusplus
}
#endif

#endif /* BALLAST_EXAMPLES_TWO_FILE_PLANNER_H */
