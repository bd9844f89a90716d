//! Ratings of single images. An annotation belongs to an iteration, and its event format is frozen, so an iteration
//! with several images stores their ratings as reserved tags: `image/1:4` rates the second image, numbered as in
//! references. The rating of the iteration is then the best of them, so that search and sorting work. If all images
//! have the same rating, such tags are absent.

use crate::model::Annotation;

use super::cover::COVER_TAG;

/// The prefix of tags that rate single images.
const PREFIX: &str = "image/";

/// Returns whether a tag is the rating of a single image.
pub fn is_image_rating(tag: &str) -> bool {
    parse(tag).is_some()
}

/// Returns the image that a tag rates, numbered from 0.
pub fn rated_image(tag: &str) -> Option<usize> {
    parse(tag).map(|(image, _)| image)
}

/// Returns the rating of an image of an iteration, numbered from 0.
pub fn image_rating(rating: Option<u8>, tags: &[String], image: usize) -> Option<u8> {
    let mut own = tags.iter().filter_map(|tag| parse(tag)).peekable();
    match own.peek() {
        None => rating,
        Some(_) => own.find(|(number, _)| *number == image).map(|(_, rating)| rating),
    }
}

/// Returns the image that a tag makes the cover of its session: `cover` is the first, `cover/1` the second.
pub(super) fn cover_image(tag: &str) -> Option<usize> {
    match tag.strip_prefix(COVER_TAG)? {
        "" => Some(0),
        number => digits(number.strip_prefix('/')?),
    }
}

/// Returns the rating and the tags of an iteration after one of its images is rated.
pub(super) fn with_image_rating(
    before: &Annotation,
    images: usize,
    image: usize,
    rating: Option<u8>,
) -> (Option<u8>, Vec<String>) {
    let mut ratings: Vec<Option<u8>> =
        (0..images).map(|number| image_rating(before.rating, &before.tags, number)).collect();
    if let Some(changed) = ratings.get_mut(image) {
        *changed = rating;
    }
    let mut tags = without_image_ratings(&before.tags);
    let best = ratings.iter().copied().max().flatten();
    if ratings.iter().any(|rating| *rating != best) {
        let rated = ratings.iter().enumerate().filter_map(|(number, rating)| Some((number, (*rating)?)));
        tags.extend(rated.map(|(number, rating)| format!("{PREFIX}{number}:{rating}")));
    }
    (best, tags)
}

/// Returns the tags that are not ratings of single images.
pub(super) fn without_image_ratings(tags: &[String]) -> Vec<String> {
    tags.iter().filter(|tag| !is_image_rating(tag)).cloned().collect()
}

fn parse(tag: &str) -> Option<(usize, u8)> {
    let (image, rating) = tag.strip_prefix(PREFIX)?.split_once(':')?;
    let rating = rating.parse().ok().filter(|rating| (1..=5).contains(rating))?;
    Some((digits(image)?, rating))
}

fn digits(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(before: &Annotation, image: usize, rating: Option<u8>) -> Annotation {
        let (rating, tags) = with_image_rating(before, 3, image, rating);
        Annotation { rating, tags, note: None }
    }

    fn ratings(annotation: &Annotation) -> [Option<u8>; 3] {
        [0, 1, 2].map(|image| image_rating(annotation.rating, &annotation.tags, image))
    }

    #[test]
    fn each_image_has_a_rating_and_the_iteration_the_best() {
        let none = Annotation { rating: None, tags: vec!["hero".to_owned()], note: None };
        let one = rated(&none, 1, Some(4));
        assert_eq!((one.rating, ratings(&one)), (Some(4), [None, Some(4), None]));
        assert_eq!(one.tags, ["hero", "image/1:4"]);
        let two = rated(&one, 2, Some(5));
        assert_eq!((two.rating, ratings(&two)), (Some(5), [None, Some(4), Some(5)]));
        let less = rated(&two, 2, None);
        assert_eq!(less, one, "clearing a rating brings back what was before");
        assert_eq!(rated(&one, 1, None), none);
    }

    #[test]
    fn a_rating_of_the_whole_iteration_counts_for_all_images() {
        let whole = Annotation { rating: Some(3), tags: Vec::new(), note: None };
        assert_eq!(ratings(&whole), [Some(3); 3]);
        let one = rated(&whole, 0, Some(5));
        assert_eq!(ratings(&one), [Some(5), Some(3), Some(3)]);
        assert_eq!(rated(&one, 0, Some(3)), whole);
    }

    #[test]
    fn other_tags_are_not_ratings() {
        for tag in ["image", "image/1", "image/1:6", "image/1:0", "image/-1:4", "image/1:4 ", "images/1:4"] {
            assert!(!is_image_rating(tag), "{tag}");
        }
        assert_eq!(
            ["cover", "cover/2", "covers", "cover/", "cover/x"].map(cover_image),
            [Some(0), Some(2), None, None, None]
        );
    }
}
