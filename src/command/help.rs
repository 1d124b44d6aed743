//! The texts of a builtin, made from the table. The build script reads this file too.

use super::table::Builtin;

impl Builtin {
    /// `mutex_lock [-c] NAME [TIMEOUT]`: bash's `short_doc`.
    pub fn usage(&self) -> String {
        format!("{} {}", self.name, self.synopsis).trim_end().to_owned()
    }

    /// bash's `long_doc`: the summary first, since `help -d` shows that line. bash indents the first line by four
    /// spaces and leaves the others as they are, so they bring their own.
    pub fn long_doc(&self) -> String {
        let mut text = format!("{}.\n", self.summary);
        if !self.details.is_empty() {
            text.push_str(&format!("\n{}\n", self.details));
        }
        let rows: Vec<(String, &str)> =
            self.options.iter().map(|option| (option.shown(), option.text)).chain([("--help".into(), HELP)]).collect();
        text.push_str(&format!("\nOptions:\n{}", two_columns(&rows)));
        let rows: Vec<(String, &str)> =
            self.statuses.iter().map(|&(status, meaning)| (status.to_owned(), meaning)).collect();
        text.push_str(&format!("\nExit Status:\n{}", two_columns(&rows)));
        text.push_str(&format!("\nExample:\n  {}", self.example));
        text.replace("\n", "\n    ").replace("\n    \n", "\n\n")
    }

    /// What `--help` prints, as `help NAME` does.
    pub fn help(&self) -> String {
        format!("{}: {}\n    {}\n", self.name, self.usage(), self.long_doc())
    }
}

const HELP: &str = "show this text";

impl super::table::Opt {
    /// As it is given.
    pub fn shown(&self) -> String {
        let letter = char::from(self.letter);
        match (self.value, self.long) {
            (Some(value), _) => format!("-{letter} {value}"),
            (None, Some(long)) => format!("-{letter}, --{long}"),
            (None, None) => format!("-{letter}"),
        }
    }
}

fn two_columns(rows: &[(String, &str)]) -> String {
    let width = rows.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("  {left:width$}  {right}\n")).collect()
}
