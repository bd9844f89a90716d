//! Images in terminals: each kind of terminal is simulated at the other end of a real pseudo-terminal, with its answers
//! to queries, and must be sent what it can draw. In files, pipes and JSON, no image is drawn.
//!
//! `script` creates the pseudo-terminal; it is part of every Linux system.

use std::collections::HashMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, Rgb, RgbImage};

use crate::support::TestWorkspace;

const RED: Rgb<u8> = Rgb([250, 20, 20]);
const BLUE: Rgb<u8> = Rgb([20, 20, 250]);
/// The end of every query, which all terminals answer that answer at all.
const WHAT_ARE_YOU: &str = "\x1b[c";

/// A terminal: its name, and its answers to queries.
struct Terminal {
    env: &'static [(&'static str, &'static str)],
    answers: &'static [(&'static str, &'static str)],
}

const XTERM: Terminal = Terminal {
    env: &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")],
    answers: &[(WHAT_ARE_YOU, "\x1b[?62;22c")],
};
const SILENT: Terminal = Terminal { answers: &[], ..XTERM };
const FOOT: Terminal = Terminal {
    env: &[("TERM", "foot")],
    answers: &[("\x1b[16t", "\x1b[6;20;10t"), (WHAT_ARE_YOU, "\x1b[?62;4;22;28c")],
};
const ITERM: Terminal = Terminal { env: &[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], answers: &[] };
const KITTY: Terminal = Terminal {
    env: &[("TERM", "xterm-kitty"), ("KITTY_WINDOW_ID", "1")],
    answers: &[("i=31,s=1,v=1,a=q,t=d", "\x1b_Gi=31;OK\x1b\\"), (WHAT_ARE_YOU, "\x1b[?62;c")],
};

/// Creates a session of two iterations with images: red next to blue, and blue alone.
fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    let both = RgbImage::from_fn(64, 64, |x, _| if x < 32 { RED } else { BLUE });
    for (name, picture) in [("both.png", both), ("blue.png", RgbImage::from_pixel(64, 64, BLUE))] {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        workspace.file(name, bytes.into_inner());
    }
    let first = workspace.record(0, &["a flag", "--image", "both.png"]);
    let session = first.split('#').next().unwrap();
    workspace.record(1, &["a blue flag", "--image", "blue.png", "--session", session]);
    workspace
}

/// Returns what a command sent to the terminal.
fn sent(workspace: &TestWorkspace, terminal: &Terminal, args: &str) -> String {
    let line = format!("stty cols 100 rows 40; exec '{}' {args}", env!("CARGO_BIN_EXE_retake"));
    let plain = workspace.command(&[] as &[&str]);
    let mut command = Command::new("script");
    command
        .args(["-qefc", &line, "/dev/null"])
        .current_dir(workspace.dir())
        .env_clear()
        .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
        // For `stty`.
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("SHELL", "/bin/sh")
        .envs(terminal.env.iter().copied());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    converse(child, terminal.answers)
}

/// Reads all output, and answers queries in order.
fn converse(mut child: Child, answers: &[(&str, &str)]) -> String {
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (parts, read) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut part = vec![0; 65_536];
        while let Ok(count @ 1..) = stdout.read(&mut part) {
            parts.send(part[..count].to_vec()).unwrap();
        }
    });
    let (mut seen, mut heard) = (Vec::new(), 0);
    loop {
        match read.recv_timeout(Duration::from_secs(60)) {
            Ok(part) => seen.extend(part),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(error) => {
                child.kill().unwrap();
                assert_eq!(error, mpsc::RecvTimeoutError::Disconnected, "it waits forever, after {seen:?}");
            }
        }
        let next = |from: usize| {
            let places = answers.iter().filter_map(|(question, answer)| {
                let at = memchr::memmem::find(&seen[from..], question.as_bytes())?;
                Some((from + at + question.len(), *answer))
            });
            places.min()
        };
        while let Some((end, answer)) = next(heard) {
            heard = end;
            stdin.write_all(answer.as_bytes()).unwrap();
        }
    }
    reader.join().unwrap();
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&seen).into_owned()
}

/// Returns the text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    assert!(text.contains(start), "no {start:?} in {text:?}");
    let (_, rest) = text.split_once(start).unwrap();
    assert!(rest.contains(end), "no {end:?} after {start:?}");
    rest.split_once(end).unwrap().0
}

/// Returns the number after a name in a kitty sequence.
fn transcript(control: &str, name: char) -> u32 {
    let value = control.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    value.unwrap().parse().unwrap()
}

fn assert_flag(pixels: &RgbImage) {
    let (width, height) = pixels.dimensions();
    let near = |x: u32, colour: Rgb<u8>| {
        let shown = pixels.get_pixel(x, height / 2);
        assert!(shown.0.iter().zip(colour.0).all(|(one, other)| one.abs_diff(other) < 24), "{shown:?} at {x}");
    };
    near(width / 4, RED);
    near(width * 3 / 4, BLUE);
}

#[test]
fn kitty_is_sent_the_pixels() {
    let workspace = workspace();
    for (args, least) in [("show '#0'", 64), ("compare '#0' '#1'", 200)] {
        let sent = sent(&workspace, &KITTY, args);
        let control = between(&sent, "\x1b_Ga=T,", ";");
        let (mut rest, mut data) = (sent.split_once("\x1b_Ga=T,").unwrap().1, String::new());
        while let Some((chunk, others)) = rest.split_once("\x1b\\") {
            let (control, part) = chunk.split_once(';').unwrap();
            data += part;
            assert_eq!(control.ends_with("m=1"), others.starts_with("\x1b_Gm="), "the last part is marked as the last");
            assert!(part.len() <= 4096, "the protocol's limit");
            rest = others.strip_prefix("\x1b_G").unwrap_or_default();
        }
        let picture = image::load_from_memory(&STANDARD.decode(data).unwrap()).unwrap().to_rgb8();
        assert!(picture.width() >= least, "{}", picture.width());
        if least == 64 {
            assert_flag(&picture);
            assert!(transcript(control, 'c') <= 40, "half of the height: {control}");
        }
    }
}

#[test]
fn iterm_is_sent_a_file_without_a_query() {
    let workspace = workspace();
    for (args, size) in [("show '#0'", None), ("compare '#0' '#1'", Some(100))] {
        let sent = sent(&workspace, &ITERM, args);
        assert!(!sent.contains(WHAT_ARE_YOU), "{sent:?}");
        let drawn = between(&sent, "\x1b]1337;File=inline=1;", "\x07");
        let picture = image::load_from_memory(&STANDARD.decode(drawn.split_once(':').unwrap().1).unwrap()).unwrap();
        match size {
            None => assert_flag(&picture.to_rgb8()),
            Some(least) => assert!(picture.width() > 2 * least && picture.height() > least, "{}", picture.width()),
        }
    }
}

/// Draws sixels as a terminal does.
fn draw_sixels(data: &str, (width, height): (u32, u32)) -> RgbImage {
    let mut pixels = RgbImage::from_pixel(width, height, Rgb([1, 2, 3]));
    let mut palette = HashMap::new();
    let (mut colour, mut x, mut top) = (Rgb([0; 3]), 0, 0);
    let mut rest = data;
    let numbers = |rest: &mut &str| -> Vec<u32> {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(rest.len());
        let (found, others) = rest.split_at(end);
        *rest = others;
        found.split(';').map(|number| number.parse().unwrap()).collect()
    };
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let mut run = 1;
        let mut sixel = c;
        match c {
            '#' => {
                let printed = numbers(&mut rest);
                if let [index, 2, channels @ ..] = printed.as_slice() {
                    let light = |part: usize| u8::try_from(channels[part] * 255 / 100).unwrap();
                    palette.insert(*index, Rgb([light(0), light(1), light(2)]));
                }
                colour = palette[&printed[0]];
                continue;
            }
            '$' => {
                x = 0;
                continue;
            }
            '-' => {
                (x, top) = (0, top + 6);
                continue;
            }
            '!' => {
                run = numbers(&mut rest)[0];
                sixel = rest.chars().next().unwrap();
                rest = &rest[1..];
            }
            _ => {}
        }
        let bits = u32::from(sixel) - u32::from('?');
        for _ in 0..run {
            (0..6).filter(|row| bits >> row & 1 == 1).for_each(|row| pixels.put_pixel(x, top + row, colour));
            x += 1;
        }
    }
    assert!(pixels.pixels().all(|pixel| pixel.0 != [1, 2, 3]), "every pixel is drawn");
    pixels
}

#[test]
fn sixels_are_as_wide_as_their_columns() {
    let workspace = workspace();
    let sent = sent(&workspace, &FOOT, "show '#0'");
    let drawn = between(&sent, "\x1bP", "\x1b\\");
    let (size, data) = drawn.split_once('"').unwrap().1.split_once('#').unwrap();
    // 64 columns of 10 pixels would be the full width; half of 40 rows of 20 pixels is the limit.
    let sides: Vec<u32> = size.split(';').skip(2).map(|side| side.parse().unwrap()).collect();
    assert!((300..=400).contains(&sides[0]) && sides[0].abs_diff(sides[1]) < 13, "{sides:?}");
    assert_flag(&draw_sixels(&format!("#{data}"), (sides[0], sides[1])));
    assert!(sent.ends_with("\x1b\\\r\n"), "what follows begins below the picture");
    assert_eq!(sent.matches("\x1bP").count(), 1);
    assert!(!sent.contains("^["), "an answer is shown: {sent:?}");
}

#[test]
fn any_other_terminal_is_sent_half_blocks() {
    let workspace = workspace();
    for terminal in [&XTERM, &SILENT] {
        let sent = sent(&workspace, terminal, "show '#0'");
        let rows: Vec<Vec<&str>> = sent
            .lines()
            .filter(|line| line.contains('▄'))
            .map(|line| line.split('▄').filter(|cell| cell.contains("38;2;")).collect())
            .collect();
        assert!((18..=20).contains(&rows.len()) && rows[0].len().abs_diff(2 * rows.len()) <= 2, "{} rows", rows.len());
        let row = &rows[rows.len() / 2];
        for (cell, colour) in [(row[3], RED), (row[row.len() - 3], BLUE)] {
            let shown = between(cell, "[48;2;", "m").split(';').map(|light| light.parse::<u8>().unwrap());
            assert!(shown.zip(colour.0).all(|(one, other)| one.abs_diff(other) < 24), "{cell:?}");
        }
        assert!(!sent.contains("^[") && !sent.contains("\x1bP") && !sent.contains("\x1b_G"), "{sent:?}");
    }
    let fewer = Terminal { env: &[("TERM", "xterm-256color")], ..XTERM };
    let sent = sent(&workspace, &fewer, "show '#0'");
    assert!(sent.contains("[48;5;") && !sent.contains("[48;2;"), "{sent:?}");
}

#[test]
fn a_terminal_multiplexer_is_not_mistaken_for_the_outer_terminal() {
    let workspace = workspace();
    let tmux = Terminal {
        env: &[("TERM", "tmux-256color"), ("TMUX", "/tmp/x"), ("LC_TERMINAL", "iTerm2"), ("KITTY_WINDOW_ID", "1")],
        answers: &[(WHAT_ARE_YOU, "\x1b[?1;2c")],
    };
    let sent = sent(&workspace, &tmux, "show '#0'");
    assert!(sent.contains('▄') && !sent.contains("\x1b]1337") && !sent.contains("\x1b_G"), "{sent:?}");
}

#[test]
fn a_terminal_that_does_not_answer_gets_half_blocks() {
    let workspace = workspace();
    for terminal in [&KITTY, &FOOT] {
        let sent = sent(&workspace, &Terminal { answers: &[], env: terminal.env }, "compare '#0' '#1'");
        assert!(sent.contains('▄') && !sent.contains("\x1bP") && !sent.contains("\x1b_Ga=T"), "{sent:?}");
    }
}

#[test]
fn nothing_is_drawn_for_json_pipes_and_plain_terminals() {
    let workspace = workspace();
    let plain = Terminal { env: &[("TERM", "xterm-kitty"), ("NO_COLOR", "1")], answers: &[] };
    let dumb = Terminal { env: &[("TERM", "dumb")], answers: &[] };
    for verb in ["show '#0'", "compare '#0' '#1'"] {
        for (terminal, args) in [
            (&ITERM, format!("{verb} --json")),
            (&KITTY, format!("{verb} --json")),
            (&ITERM, format!("{verb} --color never")),
            (&ITERM, format!("{verb} | cat")),
            (&plain, verb.to_owned()),
            (&dumb, verb.to_owned()),
        ] {
            let sent = sent(&workspace, terminal, &args);
            assert!(sent.contains("flag") && !sent.contains('\x1b') && !sent.contains('▄'), "{args}: {sent:?}");
        }
    }
    let kept = fs::read_dir(workspace.dir()).unwrap().count();
    assert_eq!(kept, 3, "nothing is left beside the pictures and the workspace");
}
