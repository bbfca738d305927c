/* One rank of MPI, which knows nothing of Pascaline: sums, broadcasts and barriers, all of them checked.
 *
 *     mpicc allreduce.c -o allreduce
 *     mpirun -np 4 -x LD_PRELOAD=libpascaline-mpi.so -x PASCALINE_URL=pascaline://10.77.0.254 ./allreduce
 *
 * Prints how many of its checks were right.
 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int checks, right, rank, ranks;

static void check(int good)
{
    checks++;
    right += good;
}

/* The sum over the ranks of rank + more. */
static int sum_of(int more)
{
    return ranks * (ranks - 1) / 2 + ranks * more;
}

#define ALL_EQUAL(values, count, wanted, good)    \
    do {                                          \
        for (int at_ = 0; at_ < (count); at_++)   \
            (good) = (good) && (values)[at_] == (wanted); \
    } while (0)

static void floats(int count, MPI_Comm comm)
{
    float *mine = calloc((size_t)count, sizeof *mine), *sum = calloc((size_t)count, sizeof *sum);
    int good = mine && sum;

    for (int at = 0; good && at < count; at++)
        mine[at] = (float)(rank + 1);
    MPI_Allreduce(mine, sum, count, MPI_FLOAT, MPI_SUM, comm);
    ALL_EQUAL(sum, count, (float)sum_of(1), good);
    ALL_EQUAL(mine, count, (float)(rank + 1), good);
    MPI_Allreduce(MPI_IN_PLACE, mine, count, MPI_FLOAT, MPI_MAX, comm);
    ALL_EQUAL(mine, count, (float)ranks, good);
    check(good);
    free(mine);
    free(sum);
}

static void other_types(MPI_Comm comm)
{
    double doubles[2] = {rank + 0.5, -rank};
    long longs[2] = {rank, (long)INT_MAX * 2};
    int ints[2] = {INT_MAX, rank}, good = 1, none = 7;
    unsigned unsigneds[2] = {UINT_MAX, (unsigned)rank};

    MPI_Allreduce(MPI_IN_PLACE, doubles, 2, MPI_DOUBLE, MPI_MIN, comm);
    check(doubles[0] == 0.5 && doubles[1] == 1 - ranks);
    MPI_Allreduce(MPI_IN_PLACE, longs, 2, MPI_LONG, MPI_SUM, comm);
    check(longs[0] == sum_of(0) && longs[1] == (long)INT_MAX * 2 * ranks);
    /* Wraps, as integers of MPI do. */
    MPI_Allreduce(MPI_IN_PLACE, ints, 2, MPI_INT, MPI_SUM, comm);
    check(ints[0] == (int)(unsigned)((unsigned)INT_MAX * (unsigned)ranks) && ints[1] == sum_of(0));
    MPI_Allreduce(MPI_IN_PLACE, unsigneds, 1, MPI_UNSIGNED, MPI_SUM, comm);
    check(unsigneds[0] == UINT_MAX * (unsigned)ranks);
    MPI_Allreduce(MPI_IN_PLACE, unsigneds, 2, MPI_UINT32_T, MPI_MAX, comm);
    check(unsigneds[0] == UINT_MAX * (unsigned)ranks && unsigneds[1] == (unsigned)(ranks - 1));
    ints[1] = 1 << rank;
    MPI_Allreduce(MPI_IN_PLACE, ints + 1, 1, MPI_INT, MPI_BOR, comm);
    check(ints[1] == (1 << ranks) - 1);
    MPI_Allreduce(MPI_IN_PLACE, &none, 0, MPI_INT, MPI_SUM, comm);
    check(none == 7 && good);
}

static void reduce_and_broadcast(int count, MPI_Comm comm)
{
    int root = ranks - 1, good = 1;
    int *mine = calloc((size_t)count, sizeof *mine), *sum = calloc((size_t)count, sizeof *sum);
    double pairs[3][2] = {{0}};
    MPI_Datatype column;
    char text[11] = "";

    for (int at = 0; at < count; at++)
        mine[at] = rank + at % 5;
    MPI_Reduce(mine, rank == root ? sum : NULL, count, MPI_INT, MPI_SUM, root, comm);
    for (int at = 0; rank == root && at < count; at++)
        good = good && sum[at] == sum_of(at % 5);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : mine, rank == root ? mine : NULL, count, MPI_INT, MPI_MAX, root,
               comm);
    for (int at = 0; at < count; at++)
        good = good && mine[at] == rank + at % 5;
    check(good);
    for (int at = 0; at < 11 && rank == root; at++)
        text[at] = (char)('a' + at);
    MPI_Bcast(text, 11, MPI_CHAR, root, comm);
    check(text[0] == 'a' && text[10] == 'k');
    /* Every second number at one rank, and side by side at the others. */
    MPI_Type_vector(3, 1, 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int at = 0; at < 3 && rank == 0; at++)
        pairs[at][0] = at + 1;
    if (rank == 0)
        MPI_Bcast(pairs, 1, column, 0, comm);
    else
        MPI_Bcast(pairs, 3, MPI_DOUBLE, 0, comm);
    check(rank == 0 ? pairs[2][0] == 3 && pairs[2][1] == 0 : pairs[0][1] == 2 && pairs[1][0] == 3);
    MPI_Type_free(&column);
    free(mine);
    free(sum);
}

/* Calls that MPI refuses: the caller gets the error, and no rank waits. */
static void refused(MPI_Comm comm)
{
    int numbers[2] = {1, 2}, classes[3] = {0};

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Bcast(numbers, 2, MPI_INT, ranks, comm), &classes[0]);
    MPI_Error_class(MPI_Allreduce(numbers, MPI_IN_PLACE, 2, MPI_INT, MPI_SUM, comm), &classes[1]);
    MPI_Error_class(MPI_Allreduce(numbers, numbers, 2, MPI_INT, MPI_SUM, comm), &classes[2]);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    check(classes[0] == MPI_ERR_ROOT && classes[1] == MPI_ERR_BUFFER && classes[2] == MPI_ERR_BUFFER);
}

/* Operations that run meanwhile, beside messages that MPI has to carry. */
static void nonblocking(MPI_Comm comm)
{
    enum { COUNT = 3000 };
    static float tensors[2][COUNT];
    int left = (rank + ranks - 1) % ranks, from = -1, good = 1;
    MPI_Request requests[4];
    MPI_Status statuses[4];

    for (int of = 0; of < 2; of++)
        for (int at = 0; at < COUNT; at++)
            tensors[of][at] = (float)(rank + of);
    MPI_Iallreduce(MPI_IN_PLACE, tensors[0], COUNT, MPI_FLOAT, MPI_SUM, comm, &requests[0]);
    MPI_Irecv(&from, 1, MPI_INT, left, 3, comm, &requests[1]);
    MPI_Iallreduce(MPI_IN_PLACE, tensors[1], COUNT, MPI_FLOAT, MPI_SUM, comm, &requests[2]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % ranks, 3, comm, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    for (int of = 0; of < 2; of++)
        ALL_EQUAL(tensors[of], COUNT, (float)sum_of(of), good);
    check(good && from == left && statuses[1].MPI_SOURCE == left && requests[2] == MPI_REQUEST_NULL);
    for (int done = 0; !done;)
        if (requests[0] == MPI_REQUEST_NULL)
            MPI_Iallreduce(MPI_IN_PLACE, tensors[0], 10, MPI_FLOAT, MPI_MAX, comm, &requests[0]);
        else
            MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
    check(tensors[0][9] == (float)sum_of(0) && tensors[0][10] == (float)sum_of(0));
}

/* Two halves at once, each with communicators of its own. */
static void derived(void)
{
    int world_rank = rank, world_ranks = ranks;
    MPI_Comm half, copy;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(half, &copy);
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &ranks);
    floats(1000, half);
    floats(10, copy);
    MPI_Barrier(half);
    MPI_Comm_free(&copy);
    MPI_Comm_dup(half, &copy);
    floats(10, copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    rank = world_rank;
    ranks = world_ranks;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1 << 15, rounds = argc > 2 ? atoi(argv[2]) : 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < rounds; round++)
        floats(count, MPI_COMM_WORLD);
    other_types(MPI_COMM_WORLD);
    reduce_and_broadcast(1000, MPI_COMM_WORLD);
    refused(MPI_COMM_WORLD);
    nonblocking(MPI_COMM_WORLD);
    derived();
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: %d of %d sums are right\n", rank, right, checks);
    MPI_Finalize();
    return right != checks;
}
