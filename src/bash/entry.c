/* The entry of every builtin: the only frames of ours that bash's long jumps may cross.

   A call is a loop of short Rust steps. A step that meets a signal returns INTERRUPTED, with no Rust frame left on the
   stack; then bash runs its traps from here, and may jump away for good. There are three ways, and on each what the call
   has taken must be given back:
   - exit, a failing command under set -e, Ctrl-C at a prompt: a jump to top_level, which guarded() catches and passes on.
     Waiting for bash to unwind is not enough: a script that is read from a file exits without, and its EXIT trap comes first.
   - return: the unwind frame that is there from the first interruption on makes bash call leave(). bash jumps first and
     unwinds afterwards, so what leave() needs is on the heap.
   - exec of a program that is not there, an unset variable under both set -e and set -u: exit handlers run (after the EXIT
     trap), and nothing else. */

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct word_list WORD_LIST;
typedef int builtin_function (WORD_LIST *);

/* bash; symbols.txt has the list with versions. */
extern volatile sig_atomic_t terminating_signal;
extern volatile sig_atomic_t interrupt_state;
extern int trapped_signal_received;
extern int breaking;
extern int continuing;
extern int loop_level;
extern int exit_immediately_on_error;
extern int builtin_ignoring_errexit;
extern sigjmp_buf top_level;
extern int errexit_flag;
extern char *this_command_name;
extern builtin_function *this_shell_builtin;
extern void check_signals_and_traps (void);
extern void begin_unwind_frame (char *);
extern void run_unwind_frame (char *);
extern void add_unwind_protect (void (*) (void *), void *);
extern int evalstring (char *, const char *, int);

#define SEVAL_NOHIST 0x004

/* The beginning of the Rust side's record of a call. The first three are signals that bash leaves set when it has
   looked after them: they must not interrupt the next step at once, again and again. */
struct call
{
  int seen_terminating;
  int seen_interrupt;
  int seen_trapped;
  int outer_loop_level;		/* -1 outside of a loop of ours */
  int runs_shell_code;		/* the command to evaluate is more than one to bash */
  int has_suspended_errexit;
  pid_t runner;			/* the process whose traps or commands run meanwhile, or 0 */
  struct call *outer;		/* the one of these that was begun before */
  sigjmp_buf *outer_top_level;	/* where a jump goes on that was caught, or NULL */
};

/* What a step returns besides a status. */
enum { INTERRUPTED = -1, EVALUATE = -2, RUN = -3 };

/* Rust. */
extern void interlock_loaded (int script);
extern struct call *interlock_begin (int builtin);
extern int interlock_step (struct call *, WORD_LIST *);
extern void interlock_broken_off (struct call *, WORD_LIST *);
extern int interlock_command (struct call *, char **);
extern int interlock_finish (struct call *);
extern int interlock_give_back (struct call *);
extern void interlock_abandon (struct call *);
extern void interlock_end (struct call *);

/* `$$`. Weak, since the tests of the core link this file into programs that are not bash. */
extern int dollar_dollar_pid __attribute__ ((weak));

/* The start time of `$$` is needed, and it may be dead when the first builtin is called in a background subshell. */
__attribute__ ((constructor)) static void
loaded (void)
{
  if (&dollar_dollar_pid != NULL)
    interlock_loaded (dollar_dollar_pid);
}

static int
is_trapped (void)
{
  return *(volatile int *) &trapped_signal_received;
}

/* Has bash a signal to look at that it has not seen? */
int
interlock_has_news (const struct call *call)
{
  return (terminating_signal && !call->seen_terminating) || (interrupt_state && !call->seen_interrupt)
	 || (is_trapped () && !call->seen_trapped);
}

/* The calls in which bash runs something, the innermost first. */
static struct call *runners;

static void
restore_top_level (struct call *call)
{
  if (call->outer_top_level == NULL)
    return;
  memcpy (&top_level, call->outer_top_level, sizeof top_level);
  free (call->outer_top_level);
  call->outer_top_level = NULL;
}

/* What the call has changed and taken. Does nothing the second time. */
static void
give_back (struct call *call)
{
  struct call **place = &runners;

  while (*place != NULL && *place != call)
    place = &(*place)->outer;
  if (*place != NULL)
    *place = call->outer;

  restore_top_level (call);
  if (call->outer_loop_level >= 0)
    loop_level = call->outer_loop_level;
  call->outer_loop_level = -1;
  if (call->has_suspended_errexit)
    {
      builtin_ignoring_errexit = 0;
      exit_immediately_on_error = errexit_flag;
    }
  call->has_suspended_errexit = 0;
  interlock_abandon (call);
}

static void
leave (void *argument)
{
  give_back (argument);
  interlock_end (argument);
}

/* What a parent holds is not ours to give back. */
static void
leave_all (void)
{
  struct call *call = runners;

  while (call != NULL)
    {
      struct call *outer = call->outer;

      if (call->runner == getpid ())
	give_back (call);
      call = outer;
    }
}

static void
enlist (struct call *call)
{
  static int is_registered;

  if (call->runner != 0)
    return;
  if (!is_registered)
    is_registered = atexit (leave_all) == 0;
  call->runner = getpid ();
  call->outer = runners;
  runners = call;
}

/* Does WORK, in which bash may jump to top_level: then what was taken is given back, and the jump goes on. A child that was
   forked in it has nothing to give back. */
static int
guarded (struct call *call, int (*work) (struct call *))
{
  int status, code;

  enlist (call);
  call->outer_top_level = malloc (sizeof top_level);
  if (call->outer_top_level == NULL)
    return work (call);
  memcpy (call->outer_top_level, &top_level, sizeof top_level);
  code = sigsetjmp (top_level, 0);
  if (code == 0)
    {
      status = work (call);
      restore_top_level (call);
      return status;
    }
  if (call->runner == getpid ())
    give_back (call);
  else
    restore_top_level (call);
  siglongjmp (top_level, code);
}

/* Runs what is due. A signal that comes while a trap runs is noticed by looking again; what is set after three looks is
   not going to be served now. */
static int
look_after_signals (struct call *call)
{
  char *name = this_command_name;
  builtin_function *function = this_shell_builtin;
  int looks = 0;

  /* Of this signal bash dies from here, after its EXIT trap, without a jump and without exit handlers. */
  if (terminating_signal && !call->seen_terminating)
    interlock_give_back (call);

  do
    check_signals_and_traps ();
  while (++looks < 3 && (terminating_signal || interrupt_state || is_trapped ()));

  call->seen_terminating = terminating_signal;
  call->seen_interrupt = interrupt_state;
  call->seen_trapped = is_trapped ();

  /* The commands of a trap have changed what error messages name. Not current_builtin: only builtin_usage reads it, and a
     trap that unloads a builtin frees what it points to. */
  this_command_name = name;
  this_shell_builtin = function;
  return 0;
}

/* Under set -e the failure of a command must reach bash as the status of our builtin, since only there bash knows whether
   an `if` or `||` looks at it. But in a function, and in what eval runs, set -e goes on to end the first failing command. */
static void
suspend_errexit (struct call *call)
{
  if (exit_immediately_on_error && !builtin_ignoring_errexit && !call->runs_shell_code)
    {
      call->has_suspended_errexit = 1;
      builtin_ignoring_errexit = 1;
      exit_immediately_on_error = 0;
    }
}

/* The loop of queue_foreach; break and continue as in a loop of the shell. */
static int
evaluate (struct call *call)
{
  char *command;
  int answer;
  int status = 0;

  suspend_errexit (call);
  call->outer_loop_level = loop_level++;
  while (status == 0 && (answer = interlock_command (call, &command)) != 0)
    {
      if (answer < 0)
	return 3;
      status = evalstring (command, NULL, SEVAL_NOHIST);
      if (breaking)
	{
	  breaking--;
	  break;
	}
      if (continuing && --continuing)
	break;
    }
  return status != 0;
}

/* The one command of *_run. */
static int
evaluate_one (struct call *call)
{
  char *name = this_command_name;
  char *command;
  int status, failure;

  if (interlock_command (call, &command) <= 0)
    return 3;
  suspend_errexit (call);
  status = evalstring (command, NULL, SEVAL_NOHIST);
  /* For its message. */
  this_command_name = name;
  failure = interlock_finish (call);
  return failure != 0 ? failure : status;
}

static int
run (int builtin, WORD_LIST *words)
{
  static char frame[] = "interlock";
  struct call *call = interlock_begin (builtin);
  int is_framed = 0;
  int status;

  while ((status = interlock_step (call, words)) < 0)
    {
      if (!is_framed)
	{
	  begin_unwind_frame (frame);
	  add_unwind_protect (leave, call);
	  is_framed = 1;
	}
      if (status == EVALUATE)
	{
	  status = guarded (call, evaluate);
	  break;
	}
      if (status == RUN)
	{
	  status = guarded (call, evaluate_one);
	  break;
	}
      guarded (call, look_after_signals);
      if (breaking || continuing)
	{
	  interlock_broken_off (call, words);
	  status = 1;
	  break;
	}
    }

  if (is_framed)
    run_unwind_frame (frame);
  else
    leave (call);
  return status;
}

#define ENTRY(name, index) \
  int interlock_##name (WORD_LIST *words) { return run (index, words); }

#include "entries.inc"
