/* What a call through libpascaline-mpi costs beside the same one of libpascaline: `call_cost URL JOB`,
 * started by mpirun with libpascaline-mpi preloaded. The ranks join JOB themselves, and sum 4 KiB in turns
 * this way and by MPI_Allreduce. Rank 0 prints medians in microseconds as a JSON object.
 */
#include <mpi.h>
#include <pascaline.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1024, WARM_UP = 200, TURNS = 2000 };

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *seconds)
{
    qsort(seconds, TURNS, sizeof *seconds, ascending);
    return seconds[TURNS / 2] * 1e6;
}

int main(int argc, char **argv)
{
    static float tensor[COUNT];
    static double c[TURNS], mpi[TURNS];
    pascaline_handle *handle;
    char url[512];
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    snprintf(url, sizeof url, "%s?job=%s&rank=%d&ranks=%d", argv[1], argv[2], rank, ranks);
    if (pascaline_init(url, &handle) != PASCALINE_OK) {
        fprintf(stderr, "%s\n", pascaline_last_error(handle));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int turn = -WARM_UP; turn < TURNS; turn++) {
        double start, between;
        pascaline_status status;

        /* All of them begin at the same time, and not when the slowest has ended its last turn. */
        pascaline_barrier(handle);
        start = MPI_Wtime();
        status = pascaline_allreduce(handle, tensor, tensor, COUNT, PASCALINE_F32, PASCALINE_SUM);
        between = MPI_Wtime();
        if (turn >= 0)
            c[turn] = between - start;
        if (status != PASCALINE_OK || pascaline_barrier(handle) != PASCALINE_OK)
            MPI_Abort(MPI_COMM_WORLD, 1);
        start = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, tensor, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (turn >= 0)
            mpi[turn] = MPI_Wtime() - start;
    }
    pascaline_finalize(&handle);
    if (rank == 0) {
        double c_us = median(c), mpi_us = median(mpi);

        printf("{\"c_us\":%.3f,\"mpi_us\":%.3f,\"mpi_call_us\":%.3f}\n", c_us, mpi_us, mpi_us - c_us);
    }
    MPI_Finalize();
    return 0;
}
