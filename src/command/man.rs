//! The manual page interlock(1), made from the table.

use std::fmt::Write;

use super::{Builtin, TABLE, VERBS};

const HEAD: &str = r#".SH NAME
interlock \- locks, semaphores and queues between processes, as builtins of bash
.SH SYNOPSIS
.nf
\&. interlock.sh
enable \-f libinterlock.so \fINAME\fR ...
.fi
.SH DESCRIPTION
Names are paths. A mutex is a symbolic link, a semaphore, a queue, a lock directory and a bakery are directories.
A lock is held while the process that took it, or a program which that process started meanwhile, lives; the lock of
a dead holder is taken over by whoever locks it next. Waiting is by events of the kernel, with a look every second at
most. Traps run while a builtin waits.
.PP
Options come before the name; \fB\-\-\fR ends them; everything after the name is data. \fITIMEOUT\fR is in seconds,
decimals allowed: omitted or negative waits for ever, 0 tries once.
.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
an honest no, silently: busy, timed out, empty, not locked, exists
.TP
.B 2
wrong usage, or not the owner; nothing was done
.TP
.B 3
system error or damaged object; one line says which
"#;

const TAIL: &str = r#".SH ASSUMPTIONS
Locks are advisory. Exclusion needs a file system with an atomic symlink and mkdir, and everybody on the same path.
Takeover and events need one kernel, containers on it included. In a directory that everybody may write everybody may
block you: prefer \fI$XDG_RUNTIME_DIR\fR or \fI/run/lock\fR.
.SH SEE ALSO
.BR bash (1),
.BR flock (1),
.BR inotify (7)
"#;

/// The whole page, in roff's man macros.
pub fn page() -> String {
    let mut page =
        format!(".TH INTERLOCK 1 \"\" \"interlock {}\" \"User Commands\"\n{HEAD}", env!("CARGO_PKG_VERSION"));
    page.push_str(".SH BUILTINS\n");
    for builtin in TABLE {
        section(builtin, &mut page);
    }
    page.push_str(".SH VERBS OF INTERLOCK\n");
    for verb in VERBS {
        section(verb, &mut page);
    }
    page + TAIL
}

fn section(builtin: &Builtin, page: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(page, ".SS \"{}\"\n.B {}\n", roff(builtin.name), roff(&builtin.usage()));
    let _ = write!(page, ".PP\n{}.\n", roff(builtin.summary));
    if !builtin.details.is_empty() {
        let _ = write!(page, ".PP\n.nf\n{}\n.fi\n", roff(builtin.details));
    }
    for option in builtin.options {
        let _ = write!(page, ".TP\n.B {}\n{}\n", roff(&option.shown()), roff(option.text));
    }
    page.push_str(".PP\nExit status:\n");
    for (status, meaning) in builtin.statuses {
        let _ = write!(page, ".TP\n.B {}\n{}\n", roff(status), roff(meaning));
    }
    let _ = write!(page, ".PP\nExample:\n.PP\n.nf\n.RS\n{}\n.RE\n.fi\n", roff(builtin.example));
}

/// Text that roff leaves as it is.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    let line = |line: &str| if line.starts_with('.') { format!("\\&{line}") } else { line.to_owned() };
    escaped.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_and_verb_has_its_section() {
        let page = page();
        for builtin in TABLE.iter().chain(VERBS) {
            assert!(page.contains(&format!(".SS \"{}\"\n", builtin.name)), "{}", builtin.name);
        }
        assert!(page.lines().all(|line| !line.is_empty()), "an empty line is a break in roff");
    }

    #[test]
    fn nothing_in_a_text_is_a_command_of_roff() {
        assert_eq!(roff(". x\n'a' `b` \\n -v"), "\\&. x\n\\(aqa\\(aq \\(gab\\(ga \\en \\-v");
    }
}
