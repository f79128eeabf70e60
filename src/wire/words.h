// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_WORDS_H
#define PF_WORDS_H

#include "host/text.h"
#include "preflight/plant.h"
#include "preflight/session.h"

// What a check says to a person: what was done, what was found, what follows. check, explain and
// demo say it with these words, of a session or of a certificate. Tables have tabs between their
// cells and headings a '#': src/cli/screen.h lays them out.

// Whether a task names a fallback; else it is the uncorrected command.
bool pf__has_fallback(const char *fallback);

// Conditions that the operator takes upon himself: --accept.
typedef struct pf_accepted {
    bool not_rehearsed, unseen_loss;
} pf_accepted;

void pf__words_percent(pf_text *out, double probability);
// A name from a file, which must stay one cell of one line.
void pf__words_name(pf_text *out, const char *name);

// --- what was done

// The machine, and what is believed before the check.
void pf__words_start(pf_text *out, const pf_session *session);
// That a fault was put into the machine; nothing where none was ("").
void pf__words_injected(pf_text *out, const char *injected);
// Probes, rehearsals, charge, and why it ended.
void pf__words_done(pf_text *out, pf_session *session);
void pf__words_spent(pf_text *out, int probes, int rehearsals, double charge);

// What an audit means for a go whose false ones may be more than alpha, at worst, after a sentence
// about it; nothing where none was false or alpha is kept.
void pf__words_audit_failed(pf_text *out, int false_go, double worst_upper, double alpha);

// --- what was found

typedef struct pf_found {
    const char *mechanism;
    double changed, gain, interval[2];
    bool probed;
    bool gain_if_changed; // the gain says something where it changed only
    bool unconfirmed; // it changed, and no task that uses it came out as predicted in a rehearsal
    bool silent;      // and no response of its own probes says so
} pf_found;

const char *pf__finding(const pf_found *found); // "lost strength", "healthy", "not sure" ...
void pf__words_found_head(pf_text *out);
void pf__words_found_row(pf_text *out, const pf_found *found);

// What is odd about the responses.
typedef struct pf_odd {
    double misfit;
    int implausible, look;
    const char *channel;    // "": none alone
    const char *looks_like; // "": nothing known
    bool alarm, explained;
} pf_odd;

// Whether the responses fit no machine of the model.
bool pf__misfits(const pf_odd *odd);

// A line each; nothing where nothing is odd.
void pf__words_odd(pf_text *out, const pf_odd *odd);
// The same of a finding that no rehearsal confirmed, unless a misfit says as much of all.
void pf__words_unconfirmed(pf_text *out, const pf_found *found, const pf_odd *odd);

void pf__words_notes(pf_text *out, pf_text *notes); // lines below the table; frees them

// All of it, of a session that is certified.
void pf__words_found(pf_text *out, const pf_session *session, const char *looks_like);

// --- what follows

// A mechanism that a task uses.
typedef struct pf_use {
    int index; // of the mechanism
    const char *mechanism;
    double factor;  // of its commands
    double through; // what its limits let through of that; NaN: not known
    double changed, interval[2];
    bool probed;
} pf_use;

typedef struct pf_task_said {
    const char *name, *fallback, *rehearsed;
    pf_decision decision;
    pf_why why;
    double mean, lower, unseen[2];
    bool accepted; // the condition of a go-if
    int n_uses;
    pf_use uses[PF_MECH_MAX];
} pf_task_said;

// What a task says of the finding on a mechanism that changed: whether it is confirmed.
void pf__found_by_task(pf_found *found, int mechanism, const pf_task_said *task);

// What would make a task go that is not; no sentence. doubtful: something was found that is odd
// itself, and the probes may have been spent on that.
void pf__words_remedy(pf_text *out, const pf_task_said *task, bool doubtful);

// Tasks one after the other: a table, then a line for all that is not simply go.
typedef struct pf_follows {
    double alpha, j_min;
    bool rehearsed;                    // a go needs a rehearsal
    bool agreed;                       // or that it has none was accepted
    bool doubtful;                     // something that was found is odd itself
    int tasks;                         // all of them; of these
    int no_go, conditions, open;       // no-go, go-if and accepted, go-if and not
    pf_text table, lines, names, line; // names: of the tasks that share the line
} pf_follows;

void pf__words_follow(pf_follows *f, const pf_task_said *task);
void pf__words_follows_end(pf_follows *f, pf_text *out); // and frees

// All of it, of a session that is certified. accepted is Nullable.
void pf__words_follows(pf_text *out, const pf_session *session, const pf_accepted *accepted);

// The verdict on all tasks, of which so many are no-go and go-if: go only if there are tasks, every
// one is go, and the kit rehearses (the paper's rules do not).
pf_decision pf__overall(int tasks, int no_go, int go_if, bool rehearses);
const char *pf__shouted(pf_decision decision); // "GO", "GO-IF", "NO-GO"

// Whether a condition is accepted (Nullable: none is).
bool pf__accepts(const pf_accepted *accepted, pf_why why);
// Whether every task is go, or go-if with a condition that is accepted.
bool pf__all_go(const pf_session *session, const pf_accepted *accepted);

#endif
