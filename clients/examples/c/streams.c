/* One rank of a job, in C, with a large tensor and a small urgent one under way at the same time: the small
 * one is in a stream of its own, and does not wait for the large one. Every rank checks every sum.
 *
 *     cc streams.c $(pkg-config --cflags --libs pascaline) -o streams
 *     ./streams 10.77.0.254:16420 0 4          and so on, for ranks 1 to 3
 *
 * The appliance's jobs 1 and 2 have as many ranks: each stream is a job. docs/clients.md has the interface.
 */
#include <pascaline.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGE, URGENT, STREAMS, SMALL = 256 };

/* What a rank contributes: small integers, which float adds exactly in any order. Every rank can compute it
 * for all others, so that each can check the sums. */
static float gradient(int rank, int step, size_t index)
{
    return (float)(index % 251 + (size_t)(rank + step));
}

static int right(const float *sums, size_t count, int ranks, int step)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;

        for (int of = 0; of < ranks; of++)
            sum += gradient(of, step, i);
        if (sums[i] != sum)
            return 0;
    }
    return 1;
}

/* Begins an allreduce in place. */
static pascaline_status begin(pascaline_handle *stream, float *tensor, size_t count,
                              pascaline_request *request)
{
    return pascaline_iallreduce(stream, tensor, tensor, count, PASCALINE_F32, PASCALINE_SUM, request);
}

static int give_up(pascaline_handle **streams, const char *what, pascaline_status status)
{
    fprintf(stderr, "%s: %s\n", what, pascaline_strerror(status));
    for (int s = 0; s < STREAMS; s++)
        fprintf(stderr, "  stream %d: %s\n", s, pascaline_last_error(streams[s]));
    /* Waits for the operations in flight, so that the tensors are no longer in use. */
    pascaline_streams_finalize(streams, STREAMS);
    return 1;
}

/* One step: both sums, the urgent one first. `*overtook` counts how often the large one was still under way
 * when the urgent one, begun after it, had its sum. */
static pascaline_status step_of(pascaline_handle **streams, float *large, size_t count, float *small,
                                int *overtook)
{
    pascaline_request requests[STREAMS] = {0};
    pascaline_status status;
    int done = 0;

    status = begin(streams[LARGE], large, count, &requests[LARGE]);
    if (status == PASCALINE_OK)
        status = begin(streams[URGENT], small, SMALL, &requests[URGENT]);
    if (status == PASCALINE_OK)
        status = pascaline_wait(streams[URGENT], &requests[URGENT]);
    if (status == PASCALINE_OK)
        status = pascaline_test(streams[LARGE], &requests[LARGE], &done);
    *overtook += !done;
    /* A request that has ended is 0, and waiting for it is nothing. */
    return status == PASCALINE_OK ? pascaline_wait(streams[LARGE], &requests[LARGE]) : status;
}

int main(int argc, char **argv)
{
    size_t elements = argc > 4 ? strtoul(argv[4], NULL, 10) : 1 << 20;
    int steps = argc > 5 ? atoi(argv[5]) : 8;
    int rank, ranks, good = 0, overtook = 0;
    float *large, small[SMALL];
    char url[256];
    pascaline_handle *streams[STREAMS] = {0};
    pascaline_status status;

    if (argc < 4) {
        fprintf(stderr, "usage: streams ADDRESS:PORT RANK RANKS [ELEMENTS [STEPS [KEY=VALUE&...]]]\n");
        return 2;
    }
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    snprintf(url, sizeof url, "pascaline://%s?job=1&rank=%d&ranks=%d&%s", argv[1], rank, ranks,
             argc > 6 ? argv[6] : "");
    large = malloc(elements * sizeof *large);
    if (!large)
        return 1;

    /* Waits until every rank has joined every stream. */
    status = pascaline_streams_init(url, STREAMS, streams);
    /* Where both contend for the appliance's memory, the first of two layers is more urgent. */
    if (status == PASCALINE_OK)
        status = pascaline_set_layer(streams[LARGE], 2, 2);
    if (status == PASCALINE_OK)
        status = pascaline_set_layer(streams[URGENT], 1, 2);

    for (int step = 0; step < steps && status == PASCALINE_OK; step++) {
        for (size_t i = 0; i < elements; i++)
            large[i] = gradient(rank, step, i);
        for (size_t i = 0; i < SMALL; i++)
            small[i] = gradient(rank, step, i);
        status = step_of(streams, large, elements, small, &overtook);
        if (status == PASCALINE_OK)
            good += right(large, elements, ranks, step) && right(small, SMALL, ranks, step);
    }
    if (status != PASCALINE_OK) {
        int code = give_up(streams, "streams", status);

        free(large);
        return code;
    }
    /* Helps the others until they have all results, too. */
    pascaline_streams_finalize(streams, STREAMS);
    free(large);
    printf("rank %d: the urgent sum came first %d of %d times\n", rank, overtook, steps);
    printf("rank %d: %d of %d sums are right\n", rank, good, steps);
    return good != steps;
}
