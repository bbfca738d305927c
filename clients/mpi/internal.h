/* What the files of libpascaline-mpi share. docs/clients.md is the user's page. */
#ifndef PASCALINE_MPI_INTERNAL_H
#define PASCALINE_MPI_INTERNAL_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "pascaline.h"

/* The calls that may go through the appliance, by the place of their counts. */
enum call { ALLREDUCE, IALLREDUCE, REDUCE, BCAST, BARRIER, CALLS };

/* The job of a communicator, kept as its attribute. */
struct job {
    pascaline_handle *handle; /* null: the communicator goes through MPI */
    pthread_mutex_t calls;    /* the holder may call on the handle, which is one thread's at a time */
    int number;               /* of the job, for its leader to give back; or -1 */
    struct job *next;         /* of the list of all */
    pthread_t leaving;        /* the thread that leaves, once the communicator has been freed */
};

/* Bytes of a text that says why nothing goes through an appliance. */
enum { WRONG = 512 };

/* How a call on a handle has ended. */
struct outcome {
    pascaline_status status;
    char text[480]; /* what is known of an error */
};

/* communicators.c */

/* The job of a communicator, or null where MPI has to do it. The first call on a communicator joins, which
 * all of its ranks have to do together; without `may_join` it does not. */
struct job *job_of(MPI_Comm comm, enum call call, bool may_join);
void start_with_world(void);
void leave_all(void);
/* Whether this many bytes are worth a packet (PASCALINE_MIN_BYTES). */
bool large_enough(size_t bytes);

/* meeting.c */

/* Has all ranks of the world find out that all have the library, and agree: on the largest `min_bytes`, and
 * on what the lowest rank has against the appliance. Ends the program where a rank lacks the library. */
void meet(int rank, int ranks, long *min_bytes, char *wrong);

/* requests.c */

/* Waits for the requests of a communicator that goes. */
void complete_those_of(struct job *job);

/* types.c */

/* Finds what the appliance calls a type and an operation; says why not otherwise, and returns false. */
bool known(enum call call, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, int *dtype, int *operation);
/* Whether the elements of a type lie in memory without gaps, in their order. */
bool is_plain(MPI_Datatype datatype);
/* Whether MPI would take these buffers of an operation whose result is for all. It refuses others itself, and
 * says best what is wrong with them. */
bool are_for_all(const void *sendbuf, const void *recvbuf, int count);
/* Bytes of this many elements; 0 if there are none, or if it is for MPI to say what is wrong with them. */
size_t bytes_of(int count, MPI_Datatype datatype, MPI_Comm comm);

/* report.c */

extern const char *const call_names[CALLS];
/* Says why something goes through MPI: one line at the communicator's first rank, once in a process. */
void say_why(MPI_Comm comm, const char *format, ...) __attribute__((format(printf, 2, 3)));
void count_ours(enum call call, size_t bytes);
void count_theirs(enum call call);
void print_statistics(void);
/* Notes how a call on a job's handle has ended, and gives back the job, which the caller has. */
void end_call(struct job *job, pascaline_status status, struct outcome *outcome);
/* Turns an outcome into what MPI's user expects: success, or the communicator's error handler is called. */
int conclude(MPI_Comm comm, enum call call, const struct outcome *outcome, size_t bytes);
int no_memory(MPI_Comm comm, enum call call);
/* For null, which MPI does not look for and would read or write all the same. */
int no_buffer(MPI_Comm comm);

#endif
