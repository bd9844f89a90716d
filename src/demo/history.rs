//! The sample history of the demo, a week of work: prompts, changes, ratings and dead ends.

use crate::model::{Lora, OutcomeStatus, Recipe, Seed};

/// A session of the sample.
pub(super) struct SampleSession {
    pub(super) title: Option<&'static str>,
    pub(super) project: Option<&'static str>,
    /// How long ago it started, in hours.
    pub(super) hours_ago: i64,
    /// The session and iteration that its first iteration was derived from.
    pub(super) from: Option<(usize, u32)>,
    pub(super) iterations: Vec<SampleIteration>,
    /// Why it was archived.
    pub(super) archived: Option<&'static str>,
}

/// An iteration of the sample.
#[derive(Clone, Default)]
pub(super) struct SampleIteration {
    pub(super) recipe: Recipe,
    /// The index of its parent, if that is not the previous iteration.
    pub(super) parent: Option<u32>,
    pub(super) rating: Option<u8>,
    pub(super) tags: &'static [&'static str],
    pub(super) note: Option<&'static str>,
    pub(super) outcome: OutcomeStatus,
    pub(super) message: Option<&'static str>,
}

/// Returns all sessions, in the order in which they were started.
pub(super) fn sessions() -> Vec<SampleSession> {
    vec![sketches(), valley(), forest(), dunes(), harbour(), lights(), cards()]
}

/// Returns the first recipe of a session.
fn recipe(prompt: &str, seed: u64, width: u32, height: u32) -> Recipe {
    Recipe {
        prompt: prompt.to_owned(),
        negative_prompt: Some("blurry, watermark, text".to_owned()),
        model: Some("landscape-xl-1.2".to_owned()),
        seed: Some(Seed(seed)),
        steps: Some(28),
        guidance_scale: Some(6.0),
        sampler: Some("dpmpp_2m".to_owned()),
        scheduler: Some("karras".to_owned()),
        width: Some(width),
        height: Some(height),
        provider: Some("retake demo".to_owned()),
        ..Recipe::default()
    }
}

impl SampleIteration {
    fn first(recipe: Recipe) -> SampleIteration {
        SampleIteration { recipe, ..SampleIteration::default() }
    }

    /// Returns the next iteration, with a change.
    fn then(&self, change: impl FnOnce(&mut Recipe)) -> SampleIteration {
        let mut recipe = self.recipe.clone();
        change(&mut recipe);
        SampleIteration::first(recipe)
    }

    fn prompt(&self, prompt: &str) -> SampleIteration {
        self.then(|recipe| recipe.prompt = prompt.to_owned())
    }

    fn seed(&self, seed: u64) -> SampleIteration {
        self.then(|recipe| recipe.seed = Some(Seed(seed)))
    }

    fn from(mut self, parent: u32) -> SampleIteration {
        self.parent = Some(parent);
        self
    }

    fn rated(mut self, rating: u8) -> SampleIteration {
        self.rating = Some(rating);
        self
    }

    fn tagged(mut self, tags: &'static [&'static str]) -> SampleIteration {
        self.tags = tags;
        self
    }

    fn noted(mut self, note: &'static str) -> SampleIteration {
        self.note = Some(note);
        self
    }

    fn ended(mut self, outcome: OutcomeStatus, message: &'static str) -> SampleIteration {
        (self.outcome, self.message) = (outcome, Some(message));
        self
    }
}

fn harbour() -> SampleSession {
    let first = SampleIteration::first(recipe("a harbour with sail boats, morning light", 412, 768, 512));
    let dusk = first.prompt("a harbour with sail boats at dusk, golden light");
    let house = dusk.prompt("a harbour with sail boats and a lighthouse at dusk, golden light");
    let reroll = house.seed(2611);
    let warm = reroll.then(|recipe| recipe.guidance_scale = Some(8.5));
    let mist = warm.prompt("a harbour with sail boats and a lighthouse at dusk, golden light, low mist over the water");
    let night = reroll.prompt("a harbour with sail boats and a lighthouse at night, full moon");
    let moon = night.seed(77);
    let last = mist.then(|recipe| {
        recipe.steps = Some(45);
        recipe.loras = vec![Lora::new("soft-light", 0.6)];
    });
    SampleSession {
        title: Some("Harbour at dusk"),
        project: Some("Postcards"),
        hours_ago: 5,
        from: None,
        iterations: vec![
            first.rated(2),
            dusk.rated(3),
            house,
            reroll.rated(4).noted("The boats stand well against the light."),
            warm,
            mist.rated(4).tagged(&["print"]),
            night.from(3).rated(3),
            moon.rated(4).tagged(&["alternative"]),
            last.from(5).rated(5).tagged(&["hero", "print"]).noted("This one. Send it to the printer."),
        ],
        archived: None,
    }
}

fn valley() -> SampleSession {
    let first = SampleIteration::first(recipe("a winter valley, mountain peaks, clear morning", 90, 768, 512));
    let snow = first.prompt("a winter valley, mountain peaks in deep snow, clear morning");
    let lake = snow.prompt("a frozen lake in a winter valley, mountain peaks in deep snow, clear morning");
    let other = lake.seed(1812);
    let evening = other.prompt("a frozen lake in a winter valley, mountain peaks in deep snow, evening");
    let pines = other.prompt("a frozen lake in a winter valley, pines, mountain peaks in deep snow, clear morning");
    SampleSession {
        title: Some("Winter valley"),
        project: Some("Postcards"),
        hours_ago: 76,
        from: None,
        iterations: vec![
            first,
            snow.rated(3),
            lake,
            other.rated(4).tagged(&["print"]),
            evening.rated(3),
            pines.from(3).rated(5).tagged(&["hero"]),
        ],
        archived: None,
    }
}

fn forest() -> SampleSession {
    let first = SampleIteration::first(recipe("a forest of pines in morning mist", 1812, 512, 704));
    let deep = first.then(|recipe| recipe.steps = Some(40));
    let rough = deep.then(|recipe| recipe.steps = Some(8));
    let storm = deep.prompt("a forest of pines in the mist after a storm");
    SampleSession {
        title: Some("Forest in mist"),
        project: Some("Book covers"),
        hours_ago: 50,
        from: Some((1, 5)),
        iterations: vec![
            first.rated(3),
            deep.rated(4).tagged(&["cover"]),
            rough.rated(1).noted("Too few steps: all grain."),
            storm.from(1).rated(4),
        ],
        archived: None,
    }
}

fn dunes() -> SampleSession {
    let first = SampleIteration::first(recipe("desert dunes at sunset", 5, 640, 640));
    let moon = first.prompt("desert dunes under a full moon, night");
    let calm = moon.seed(303);
    let strong = calm.then(|recipe| recipe.guidance_scale = Some(11.0));
    let day = first.prompt("desert dunes, clear sky");
    SampleSession {
        title: Some("Desert moon"),
        project: Some("Album cover"),
        hours_ago: 28,
        from: None,
        iterations: vec![
            first.rated(3),
            moon.rated(3),
            calm.rated(5).tagged(&["hero"]),
            strong.rated(2).noted("The colours shout."),
            day.from(0),
        ],
        archived: None,
    }
}

fn lights() -> SampleSession {
    let first = SampleIteration::first(recipe("northern lights over a fjord", 64, 768, 512));
    let refused = first.prompt("northern lights over a fjord, in the style of a living painter");
    let broken = first.seed(65);
    let peaks = first.prompt("northern lights over a fjord, snow on the peaks");
    let boat = peaks.prompt("northern lights over a fjord, snow on the peaks, one sail boat");
    SampleSession {
        title: Some("Northern lights"),
        project: Some("Postcards"),
        hours_ago: 2,
        from: None,
        iterations: vec![
            first.rated(4),
            refused.ended(OutcomeStatus::Refused, "The provider does not imitate living artists."),
            broken.from(0).ended(OutcomeStatus::Failed, "CUDA out of memory: tried to allocate 1.2 GiB"),
            peaks.from(0).rated(4),
            boat.rated(5).tagged(&["hero"]),
        ],
        archived: None,
    }
}

fn cards() -> SampleSession {
    let wide =
        |prompt: &str, seed| SampleIteration::first(Recipe { negative_prompt: None, ..recipe(prompt, seed, 640, 640) });
    let first =
        wide("An overcast sea with low cloud. A lighthouse stands far out on its rock, and the water is calm.", 21);
    let storm =
        first.prompt("A sea under storm cloud. A lighthouse stands far out on its rock, and the water is rough.");
    let dawn = storm.prompt("A sea at sunrise after the storm. A lighthouse stands far out on its rock.");
    SampleSession {
        title: None,
        project: None,
        hours_ago: 1,
        from: None,
        iterations: vec![first, storm.rated(4), dawn.rated(4)],
        archived: None,
    }
}

fn sketches() -> SampleSession {
    let first = SampleIteration::first(sketchy(recipe("mountain lake", 1, 512, 512)));
    let second = first.prompt("mountain lake, sunset");
    let third = second.seed(2);
    SampleSession {
        title: Some("First sketches"),
        project: None,
        hours_ago: 150,
        from: None,
        iterations: vec![first.rated(2), second.rated(2), third.rated(3)],
        archived: Some("Only to try the model out."),
    }
}

/// Reduces the steps of a recipe, for a poor result.
fn sketchy(recipe: Recipe) -> Recipe {
    Recipe { steps: Some(10), model: Some("landscape-xl-1.0".to_owned()), ..recipe }
}
