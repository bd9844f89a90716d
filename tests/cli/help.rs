//! The help of every command, as a new user reads it.

use crate::support::TestWorkspace;

const VERBS: [&str; 23] = [
    "list",
    "show",
    "record",
    "resume",
    "compare",
    "search",
    "annotate",
    "rename",
    "archive",
    "restore",
    "audit",
    "export",
    "import",
    "watch",
    "wrap",
    "verify",
    "repair",
    "doctor",
    "mcp",
    "serve",
    "demo",
    "team",
    "completions",
];

#[test]
fn every_verb_explains_itself() {
    let workspace = TestWorkspace::new();
    let help = |args: &[&str]| {
        let ran = workspace.run(args);
        assert_eq!((ran.status(), ran.stderr().as_str()), (0, ""), "{ran}");
        ran.stdout().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("help", help(&["--help"]));
        for verb in VERBS {
            insta::assert_snapshot!(format!("help_{verb}"), help(&[verb, "--help"]));
        }
    });
}

/// zsh takes `a#3` for a pattern, and bash `#3` for a comment.
#[test]
fn references_in_examples_are_quoted() {
    let workspace = TestWorkspace::new();
    let mut texts: Vec<String> = VERBS.iter().map(|verb| workspace.run(&[verb, "--help"]).stdout()).collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = std::fs::read_dir(root.join("docs")).unwrap().map(|page| page.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|it| it == "md")).chain([root.join("README.md")]);
    texts.extend(pages.map(|page| std::fs::read_to_string(page).unwrap()));
    let mut found = 0;
    for line in texts.iter().flat_map(|text| text.lines()) {
        let Some((_, command)) =
            line.split_once("retake ").filter(|(before, _)| before.trim_matches(['$', ' ', '`']).is_empty())
        else {
            continue;
        };
        // The text after two spaces explains the example.
        let command = command.trim().split("  ").next().unwrap_or_default();
        for word in command.split_whitespace().filter(|word| word.contains('#')) {
            found += 1;
            assert!(word.starts_with(['\'', '"']), "{line}");
        }
    }
    assert!(found > 10, "only {found} references were found");
}

/// A terminal of 80 columns shows every line of an example in full, and the list of commands with one line each.
#[test]
fn help_is_narrow() {
    let workspace = TestWorkspace::new();
    for verb in VERBS {
        let help = workspace.run(&[verb, "--help"]).stdout();
        let summary = help.lines().next().unwrap();
        assert!(summary.chars().count() <= 70, "{verb}: {summary}");
        let after = help.lines().skip_while(|line| !line.starts_with("Example") && !line.starts_with("Queries:"));
        for line in after {
            assert!(line.chars().count() <= 78, "{verb}: {line}");
        }
    }
}

#[test]
fn every_command_is_in_this_list() {
    let help = TestWorkspace::new().run(&["-h"]).stdout();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let named = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let named: Vec<&str> =
        named.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help").collect();
    assert_eq!(named, VERBS);
}

#[test]
fn the_version_is_printed() {
    let ran = TestWorkspace::new().run(&["--version"]);
    assert_eq!(ran.status(), 0, "{ran}");
    assert_eq!(ran.stdout().lines().next(), Some(concat!("retake ", env!("CARGO_PKG_VERSION"))), "{ran}");
}

#[test]
fn every_shell_gets_its_completions() {
    let workspace = TestWorkspace::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = workspace.run(&["completions", shell]);
        assert_eq!((ran.status(), ran.stderr().as_str()), (0, ""), "{shell}");
        assert!(ran.stdout().contains("annotate") && ran.stdout().contains("workspace"), "{shell}");
    }
    assert_eq!(workspace.json(&["completions", "fish"])["shell"], "fish");
}
