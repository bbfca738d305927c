/* Who has the library, and with which settings: found out when MPI has started.
 *
 * No collective operation is used. A rank that lacks the library would meet it with its own first one, and
 * both would end with wrong results. Messages between two ranks wait for no other rank.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Ranks come out of MPI_Init within this time of each other. */
enum { LIMIT_SECONDS = 20, PAUSE_MICROSECONDS = 200, VERSION = 1 };

/* What each rank tells rank 0, and rank 0 tells each. */
struct hello {
    long version;
    long min_bytes;
    char wrong[WRONG];
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The last tag: programs count theirs from 0. */
static int tag(void)
{
    int *most = NULL, found = 0;

    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    return found ? *most : 32767;
}

/* Receives from a rank until the time is over. Polls: the rank may never send. */
static bool receive(int from, struct hello *hello, double end)
{
    MPI_Request request;
    int done = 0;

    if (PMPI_Irecv(hello, sizeof *hello, MPI_BYTE, from, tag(), MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return false;
    while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (now() > end) {
            PMPI_Cancel(&request);
            PMPI_Wait(&request, MPI_STATUS_IGNORE);
            return false;
        }
        usleep(PAUSE_MICROSECONDS);
    }
    return true;
}

/* The others would wait for a rank that knows nothing of them, or take its operations for theirs. */
static void give_up(int rank, int other)
{
    fprintf(stderr,
            "pascaline-mpi: rank %d: rank %d has not loaded libpascaline-mpi.so, or another version: every "
            "rank needs it (mpirun -x LD_PRELOAD=.../libpascaline-mpi.so, on every host)\n",
            rank, other);
    PMPI_Abort(MPI_COMM_WORLD, 1);
}

void meet(int rank, int ranks, long *min_bytes, char *wrong)
{
    struct hello own = {VERSION, *min_bytes, ""}, other;
    double end = now() + LIMIT_SECONDS;

    snprintf(own.wrong, WRONG, "%s", wrong);
    if (rank) {
        PMPI_Send(&own, sizeof own, MPI_BYTE, 0, tag(), MPI_COMM_WORLD);
        /* Rank 0 waits for others as long, and names them. */
        if (!receive(0, &own, end + LIMIT_SECONDS / 4.0) || own.version != VERSION)
            give_up(rank, 0);
    } else {
        for (int from = 1; from < ranks; from++) {
            if (!receive(from, &other, end) || other.version != VERSION)
                give_up(rank, from);
            if (other.min_bytes > own.min_bytes)
                own.min_bytes = other.min_bytes;
            if (!*own.wrong && *other.wrong)
                snprintf(own.wrong, WRONG, "%.460s (rank %d)", other.wrong, from);
        }
        for (int to = 1; to < ranks; to++)
            PMPI_Send(&own, sizeof own, MPI_BYTE, to, tag(), MPI_COMM_WORLD);
    }
    *min_bytes = own.min_bytes;
    snprintf(wrong, WRONG, "%s", own.wrong);
}
