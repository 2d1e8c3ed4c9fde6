//! `msgpath completions SHELL`.

use crate::verb::Group;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

/// Print the completions of a shell
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "completions";
    const GROUP: Group = Group::Once;

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = generated(arguments.shell);
    out.extend_from_slice(names_of_this_machine(arguments.shell).as_bytes());
    crate::output::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// What clap_complete makes of the command without its hidden verbs.
fn generated(shell: Shell) -> Vec<u8> {
    let command = crate::command::command();
    let mut shown = clap::Command::new("msgpath")
        .args(command.get_arguments())
        .subcommands(command.get_subcommands().filter(|verb| !verb.is_hide_set()));
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut shown, "msgpath", &mut out);
    out
}

/// Run names and lists of paths change from machine to machine; where a shell lets us, they are asked of the program.
fn names_of_this_machine(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Fish => FISH,
        _ => "",
    }
}

// Bash cuts words at colons, so the word is taken from the line, and what stands before its last colon is not repeated.
const BASH: &str = r#"
_msgpath_names() {
    local line="${COMP_LINE:0:COMP_POINT}" verb what="" head="" colon
    local word="${line##* }" rest="${line% *}"
    read -r _ verb _ <<< "$line"
    case "$verb ${rest##* }" in
        *" -x" | *" --path" | *" --baseline" | "compare compare" | "paths paths") what=paths ;;
        "show show" | "resume resume" | "export export" | "verify verify" | "diff diff" | "report report") what=runs ;;
        "diff --"* | "report --"*) ;;
        "diff "* | "report "*) what=runs ;;
    esac
    if [[ -z "$what" || "$word" == -* ]]; then
        _msgpath "$@"
        return
    fi
    [[ "$word" == *,* ]] && head="${word%,*},"
    COMPREPLY=($(compgen -P "$head" -W "$("$1" __complete "$what" 2>/dev/null)" -- "${word##*,}"))
    colon="${word%"${word##*:}"}"
    COMPREPLY=("${COMPREPLY[@]#"$colon"}")
}
complete -F _msgpath_names -o nosort -o bashdefault -o default msgpath
"#;

const FISH: &str = r#"
complete -c msgpath -n "__fish_seen_subcommand_from show resume report export diff verify" -f -a "(msgpath __complete runs)"
complete -c msgpath -n "__fish_seen_subcommand_from compare" -f -a "(msgpath __complete paths)"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_has_completions_that_know_the_verbs() {
        crate::begin(&[]);
        for shell in Shell::value_variants() {
            let text = String::from_utf8(generated(*shell)).unwrap();
            assert!(!text.contains("__agent"), "{shell}: a hidden verb");
            assert!(text.contains("compare") && text.contains("no-save"), "{shell}");
        }
    }
}
