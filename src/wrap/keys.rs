//! The names of arguments for prompts, seeds, input images and so on. All are compared without case and separators.

use super::redact::normalized;

/// Arguments that contain the actual arguments.
pub(super) const CONTAINERS: &[&str] = &[
    "input",
    "inputs",
    "params",
    "parameters",
    "arguments",
    "args",
    "request",
    "requestoverrides",
    "imagerequest",
    "payload",
    "options",
    "paramoverrides",
    "cfparams",
    "body",
    "data",
    "config",
    "settings",
];
/// Names of the prompt, most specific first.
pub(super) const PROMPTS: &[&str] = &[
    "prompt",
    "text",
    "positiveprompt",
    "textprompt",
    "editprompt",
    "imageprompt",
    "instruction",
    "instructions",
    "editinstruction",
    "editinstructions",
    "description",
    "imagedescription",
    "scene",
    "scenedescription",
    "productdescription",
    "improvementgoals",
    "maintext",
    "caption",
    "positive",
    "subject",
    "concept",
    "idea",
    "query",
];
/// Names of a list of prompts.
pub(super) const PROMPT_LISTS: &[&str] = &["prompts", "promptvariations", "requests"];
/// Names of the negative prompt.
pub(super) const NEGATIVES: &[&str] = &[
    "negativeprompt",
    "negative",
    "negativetext",
    "uc",
    "undesiredcontent",
    "avoidelements",
    "avoid",
    "exclude",
    "promptnegative",
    "negprompt",
    "negativeprompts",
    "unwanted",
];
/// Names of the model.
pub(super) const MODELS: &[&str] = &[
    "model",
    "modelid",
    "modelname",
    "modeltier",
    "modelkey",
    "checkpoint",
    "checkpointname",
    "ckptname",
    "ckpt",
    "basemodel",
    "engine",
    "engineid",
    "modelversion",
    "version",
    "spacename",
    "endpoint",
    "imagemodel",
    "modelslug",
    "modelpath",
    "modelalias",
    "deployment",
    "unetname",
    "generator",
];
/// Names of the seed.
pub(super) const SEEDS: &[&str] = &["seed", "seeds", "noiseseed", "randomseed"];
/// Names of the number of steps.
pub(super) const STEPS: &[&str] = &[
    "steps",
    "numinferencesteps",
    "samplingsteps",
    "inferencesteps",
    "numsteps",
    "samplesteps",
    "nsteps",
    "stepcount",
];
/// Names of the guidance scale.
pub(super) const GUIDANCES: &[&str] =
    &["guidancescale", "guidance", "cfgscale", "cfg", "promptguidance", "truecfgscale", "cfgguidance"];
/// Names of the sampler.
pub(super) const SAMPLERS: &[&str] = &["sampler", "samplername", "samplerindex", "samplingmethod"];
/// Names of the scheduler.
pub(super) const SCHEDULERS: &[&str] = &["scheduler", "schedulername", "noiseschedule", "schedule"];
/// Names of the width.
pub(super) const WIDTHS: &[&str] = &["width", "imagewidth", "w"];
/// Names of the height.
pub(super) const HEIGHTS: &[&str] = &["height", "imageheight", "h"];
/// Names of the size.
pub(super) const SIZES: &[&str] = &[
    "size",
    "imagesize",
    "dimensions",
    "resolution",
    "outputsize",
    "imageresolution",
    "outputresolution",
    "imagedimensions",
    "canvassize",
];
/// Names of the denoising strength.
pub(super) const DENOISES: &[&str] = &[
    "denoise",
    "denoisingstrength",
    "strength",
    "denoisestrength",
    "promptstrength",
    "editstrength",
    "transformationstrength",
];
/// Names of the number of images.
pub(super) const COUNTS: &[&str] = &[
    "n",
    "numimages",
    "numoutputs",
    "samplecount",
    "numberofimages",
    "count",
    "batchsize",
    "imagecount",
    "nsamples",
    "outputcount",
    "numvariants",
    "batchcount",
    "imagesnum",
    "numimage",
    "quantity",
    "numberresults",
    "maximages",
    "numvariations",
    "variations",
    "samples",
    "numsamples",
    "numresults",
    "imagesperprompt",
    "numimagesperprompt",
    "amount",
    "imagescount",
    "variationcount",
];

/// The role of an argument that names a file.
pub(super) enum ArgumentRole {
    /// An input image.
    Input,
    /// A mask.
    Mask,
    /// The output location.
    Output,
}

/// Returns the role of an argument with this normalised name, if it names a file or an image.
pub(super) fn place(key: &str) -> Option<ArgumentRole> {
    const OUTPUTS: &[&str] = &[
        "output",
        "outputpath",
        "outputdir",
        "outputdirectory",
        "outputfile",
        "outputfilename",
        "outputfolder",
        "outputname",
        "outputimagefilename",
        "out",
        "outdir",
        "outpath",
        "outfile",
        "savepath",
        "savedir",
        "saveto",
        "saveas",
        "savedirectory",
        "filename",
        "filepath",
        "fileoutput",
        "directory",
        "folder",
        "destination",
        "destinationpath",
    ];
    const SUFFIXES: &[&str] =
        &["path", "paths", "uri", "uris", "url", "urls", "base64", "b64", "data", "file", "id", "ids", "fileuri"];
    const NOUNS: &[&str] = &["image", "images", "img", "imgs", "file", "files", "photo", "photos", "picture", "asset"];
    const PREFIXES: &[&str] = &[
        "",
        "input",
        "init",
        "source",
        "src",
        "reference",
        "ref",
        "base",
        "target",
        "original",
        "start",
        "style",
        "control",
        "face",
        "subject",
        "swap",
        "edit",
        "main",
        "background",
        "content",
        "structure",
        "encoded",
        "parent",
        "first",
        "last",
        "second",
        "product",
        "character",
        "user",
    ];
    if OUTPUTS.contains(&key) {
        return Some(ArgumentRole::Output);
    }
    // `output_image_path`, `save_location`, but not `output_format`.
    let is_setting =
        ["format", "quality", "compression", "type", "metadata", "mode", "count", "size", "width", "height"];
    let is_output = ["output", "save", "export", "destination"].iter().any(|word| key.starts_with(word));
    let is_place =
        ["path", "dir", "file", "folder", "location", "name", "uri", "to"].iter().any(|word| key.contains(word));
    if is_output && is_place && !is_setting.iter().any(|word| key.contains(word)) {
        return Some(ArgumentRole::Output);
    }
    let bare = key.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare.contains("mask") && !bare.contains("prompt") {
        return Some(ArgumentRole::Mask);
    }
    if matches!(bare, "input" | "references" | "assetid" | "fileid" | "inputpath" | "inputpaths" | "sourcepath") {
        return Some(ArgumentRole::Input);
    }
    let is_input = |bare: &str| {
        PREFIXES.iter().any(|prefix| {
            NOUNS.iter().any(|noun| {
                bare.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(noun)).is_some_and(str::is_empty)
            })
        })
    };
    let stem = SUFFIXES.iter().find_map(|suffix| bare.strip_suffix(suffix).filter(|stem| is_input(stem)));
    (stem.is_some() || is_input(bare)).then_some(ArgumentRole::Input)
}

/// Returns whether an argument of this name holds a prompt.
pub(crate) fn is_prompt_key(name: &str) -> bool {
    let key = normalized(name);
    let known = PROMPTS.iter().take_while(|known| **known != "subject").any(|known| *known == key);
    known || PROMPT_LISTS.contains(&key.as_str()) || is_kind_of_prompt(&key)
}

/// Returns whether a normalised name is a variant of a prompt: `blend_prompt`, `prompt_text`, or with a language,
/// `prompt_zh`.
pub(super) fn is_kind_of_prompt(key: &str) -> bool {
    let text = ["text", "input", "content", "string", "body", "description", "1", "main", "positive"];
    let of = key.strip_prefix("prompt").is_some_and(|rest| {
        let is_language = rest.len() == 2 && rest.bytes().all(|byte| byte.is_ascii_lowercase()) && rest != "id";
        is_language || text.contains(&rest)
    });
    let excluded = ["negative", "system", "avoid"].iter().any(|word| key.contains(word));
    (key.ends_with("prompt") || of || matches!(key, "提示词" | "描述")) && !excluded
}

/// Returns whether an argument with an unknown name holds an input image, also judging by its value: the name must
/// suggest an image or a source, and the value must be an image or the name of one.
pub(super) fn is_input_by_value(key: &str, value: &str) -> bool {
    let speaks = ["image", "img", "photo", "picture", "frame", "source", "input", "reference", "face", "file", "asset"];
    let is_output = ["output", "save", "export", "dest", "target"].iter().any(|word| key.starts_with(word));
    let is_callback = ["hook", "callback", "prompt", "baseurl", "apiurl"].iter().any(|word| key.contains(word));
    !is_output && !is_callback && speaks.iter().any(|word| key.contains(word)) && looks_like_image(value)
}

/// Returns whether an argument of this name holds an input image.
pub(crate) fn is_input_key(name: &str) -> bool {
    matches!(place(&normalized(name)), Some(ArgumentRole::Input | ArgumentRole::Mask))
}

/// Returns whether an argument of this name chooses a model.
pub(crate) fn is_model_key(name: &str) -> bool {
    let key = normalized(name);
    MODELS.contains(&key.as_str()) && key != "version" && key != "endpoint"
}

/// Returns whether a text is an image or names one, rather than describing one.
pub(crate) fn looks_like_image(text: &str) -> bool {
    let text = text.trim();
    let lower = text.to_lowercase();
    let scheme = ["http://", "https://", "file://", "data:image/", "gs://", "s3://", "image://"];
    let extension = [".png", ".jpg", ".jpeg", ".webp", ".gif", ".avif", ".bmp", ".tif", ".tiff", ".svg", ".heic"];
    !text.contains('\n')
        && (scheme.iter().any(|scheme| lower.starts_with(scheme)) && !text.contains(' ')
            || extension.iter().any(|extension| lower.ends_with(extension)))
        || (text.len() > 256 && super::base64::decode(text).is_some())
}
