/* One rank of MPI: sums tensors of several sizes and prints what each allreduce took.
 *
 *     mpi_allreduce BYTES:ITERATIONS...
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 2 };

static void measure(int rank, int ranks, size_t bytes, int iterations)
{
    size_t count = bytes / sizeof(float);
    float *tensor = malloc(bytes), *sum = malloc(bytes);
    double *seconds = malloc(sizeof(double) * iterations);
    int right = tensor && sum && seconds;

    if (!right)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = -WARM_UP; i < iterations; i++) {
        double start;

        for (size_t at = 0; at < count; at++)
            tensor[at] = (float)(rank + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Allreduce(tensor, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0)
            seconds[i] = MPI_Wtime() - start;
        /* The check of those who are done must not take the processor from those who are not. */
        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t at = 0; at < count; at++)
            right = right && sum[at] == (float)(ranks * (ranks + 1) / 2);
    }
    printf("{\"rank\": %d, \"bytes\": %zu, ", rank, bytes);
    printf("\"right\": %s, \"seconds\": [", right ? "true" : "false");
    for (int i = 0; i < iterations; i++)
        printf("%s%.9f", i ? ", " : "", seconds[i]);
    printf("]}\n");
    fflush(stdout);
    free(tensor);
    free(sum);
    free(seconds);
}

int main(int argc, char **argv)
{
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        size_t bytes;
        int iterations;

        if (sscanf(argv[i], "%zu:%d", &bytes, &iterations) != 2)
            MPI_Abort(MPI_COMM_WORLD, 2);
        measure(rank, ranks, bytes, iterations);
    }
    MPI_Finalize();
    return 0;
}
