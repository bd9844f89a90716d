//! Midjourney images downloaded from its web site: the prompt with its flags and the job are in the description.

use chrono::{DateTime, Utc};

use super::container::{Slot, Texts};
use super::fields::{self, Fields, at};
use super::xmp::{Namespace, Packet};
use super::{Created, Generator, Precision};
use crate::Timestamp;

const JOB: &str = "Job ID:";

/// Reads Midjourney's metadata.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let (index, text) = descriptions(texts).find(|(_, text)| text.contains(JOB))?;
    let (prompt, job) = text.rsplit_once(JOB)?;
    let job = job.trim();
    if job.len() != 36 || !job.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return None;
    }
    let mut fields = Fields::of(Generator::Midjourney, at(index, "`Job ID`"));
    // The flags are part of the prompt as typed.
    fields.prompt(at(index, "the text before `Job ID`"), prompt);
    fields.parameter("Job ID", job.into());
    for flag in prompt.split(" --").skip(1) {
        let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
        let value = value.trim();
        match name {
            "seed" => {
                fields.seed(at(index, "flag --seed"), &value.into());
            }
            "no" => {
                fields.negative(at(index, "flag --no"), value);
            }
            _ => fields.parameter(
                &format!("--{}", name.trim()),
                if value.is_empty() { true.into() } else { fields::verbatim(value) },
            ),
        }
    }
    if let Some(author) = texts.png("Author") {
        fields.parameter("Author", texts.text(author).into());
    }
    if let Some(time) = texts.png("Creation Time") {
        let text = texts.text(time);
        fields.created(text);
        let rfc_2822 = DateTime::parse_from_rfc2822(text.trim()).ok();
        let at = rfc_2822.map(|time| Timestamp::from(time.with_timezone(&Utc)));
        fields.created_at = fields.created_at.or(at.map(|at| Created { at, precision: Precision::Second }));
    }
    Some(fields)
}

/// Returns the descriptions of an image, wherever its format has one.
pub(super) fn descriptions(texts: &Texts) -> impl Iterator<Item = (usize, String)> + '_ {
    let plain = [texts.png("Description"), texts.exif("ImageDescription"), texts.iptc("Caption")];
    let packet = texts.raw.iter().position(|raw| raw.slot == Slot::Xmp);
    let in_packet = packet.and_then(|index| {
        let packet = Packet::parse(texts.text(index));
        Some((index, packet.get(Namespace::DublinCore, "description")?.to_owned()))
    });
    plain.into_iter().flatten().map(|index| (index, texts.text(index).to_owned())).chain(in_packet)
}
