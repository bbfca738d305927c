/* One rank of a job, in C: sums tensors with the other ranks and checks every sum.
 *
 *     cc allreduce.c $(pkg-config --cflags --libs pascaline) -o allreduce
 *     ./allreduce 10.77.0.254:16420 0 4        and so on, for ranks 1 to 3
 *
 * The appliance's job 1 has as many ranks. docs/clients.md has the interface.
 */
#include <pascaline.h>
#include <stdio.h>
#include <stdlib.h>

/* What a rank contributes: small integers, which float adds exactly in any order. Every rank can compute it
 * for all others, so that each can check the sums. */
static float gradient(int rank, int step, size_t index)
{
    return (float)(index % 251 + (size_t)(rank + step));
}

static int give_up(pascaline_handle *handle, const char *what, pascaline_status status)
{
    fprintf(stderr, "%s: %s: %s\n", what, pascaline_strerror(status), pascaline_last_error(handle));
    pascaline_finalize(&handle);
    return 1;
}

int main(int argc, char **argv)
{
    size_t elements = argc > 4 ? strtoul(argv[4], NULL, 10) : 1 << 15;
    int steps = argc > 5 ? atoi(argv[5]) : 8;
    int rank, ranks, right = 0;
    float *tensor;
    char url[256];
    pascaline_handle *handle;
    pascaline_request request;
    pascaline_status status;

    if (argc < 4) {
        fprintf(stderr, "usage: allreduce ADDRESS:PORT RANK RANKS [ELEMENTS [STEPS [KEY=VALUE&...]]]\n");
        return 2;
    }
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    snprintf(url, sizeof url, "pascaline://%s?job=1&rank=%d&ranks=%d&%s", argv[1], rank, ranks,
             argc > 6 ? argv[6] : "");

    /* Waits until every rank of the job has joined. */
    status = pascaline_init(url, &handle);
    if (status != PASCALINE_OK)
        return give_up(handle, "cannot join", status);
    tensor = malloc(elements * sizeof *tensor);
    if (!tensor)
        return 1;

    for (int step = 0; step < steps; step++) {
        size_t wrong = 0;

        for (size_t i = 0; i < elements; i++)
            tensor[i] = gradient(rank, step, i);
        /* In place: the sum replaces what this rank has contributed. Every other time without waiting. */
        if (step % 2 == 0) {
            status = pascaline_allreduce(handle, tensor, tensor, elements, PASCALINE_F32, PASCALINE_SUM);
        } else {
            status = pascaline_iallreduce(handle, tensor, tensor, elements, PASCALINE_F32, PASCALINE_SUM,
                                          &request);
            /* Here a program does something else, and leaves the tensor alone. */
            if (status == PASCALINE_OK)
                status = pascaline_wait(handle, &request);
        }
        if (status != PASCALINE_OK)
            return give_up(handle, "allreduce", status);

        for (size_t i = 0; i < elements; i++) {
            float sum = 0;

            for (int of = 0; of < ranks; of++)
                sum += gradient(of, step, i);
            wrong += tensor[i] != sum;
        }
        right += wrong == 0;
    }
    free(tensor);
    /* Helps the others until they have all results, too. */
    pascaline_finalize(&handle);
    printf("rank %d: %d of %d sums are right\n", rank, right, steps);
    return right != steps;
}
