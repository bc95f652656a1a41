//! Shapes as GeoJSON texts, in both kinds of geometry.

use super::*;
use crate::value::context::GeometryKind::{self, Geography, Geometry};
use proptest::prelude::*;
use shardlake_document::ParseLimits;

const SQUARE: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[10,0],[10,10],[0,10],[0,0]]]}"#;
const CLOCKWISE: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[0,10],[10,10],[10,0],[0,0]]]}"#;
const HOLED: &str = r#"{"type":"Polygon","coordinates":[[[0,0],[10,0],[10,10],[0,10],[0,0]],
    [[4,4],[6,4],[6,6],[4,6],[4,4]]]}"#;

fn read(text: &str, kind: GeometryKind) -> Shape {
    let value = Value::from_json(text.as_bytes(), &ParseLimits::default()).expect(text);
    Shape::read(&Datum::from_tree(&value), kind).expect(text).expect(text)
}

fn reason(text: &str, kind: GeometryKind) -> Option<String> {
    let value = Value::from_json(text.as_bytes(), &ParseLimits::default()).expect(text);
    match Shape::read(&Datum::from_tree(&value), kind).expect(text) {
        Ok(shape) => topology::fault_of_rings(&shape),
        Err(fault) => Some(fault),
    }
}

fn point(x: f64, y: f64) -> String {
    format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#)
}

fn is_near(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-6 * right.abs()
}

fn distance(left: &str, right: &str, kind: GeometryKind) -> f64 {
    let (left, right) = (read(left, kind), read(right, kind));
    let distance = measure::distance(&left, &right);
    assert!((distance - measure::distance(&right, &left)).abs() <= 1e-6, "the same in both directions");
    distance
}

#[test]
fn the_references_areas_and_distances_come_out() {
    let area = r#"{"type":"Polygon","coordinates":[[[31.8,-5],[32,-5],[32,-4.7],[31.8,-4.7],[31.8,-5]]]}"#;
    assert!(is_near(measure::area(&read(area, Geography)), 735_970_283.052_261_4));
    let office = point(-122.117_581_139_535_35, 47.669_010_870_061_31);
    for (other, expected) in [
        (point(-122.128_268_223_046_72, 47.639_802_393_357_18), 3_345.269_817_267_368),
        (point(-96.843_686_647_659_94, 46.812_977_943_146_63), 1_907_438.421_299_902),
    ] {
        let found = distance(&office, &other, Geography);
        assert!(is_near(found, expected), "{found} {expected}");
    }
}

#[test]
fn areas_leave_out_holes_and_know_the_inverse() {
    assert_eq!(measure::area(&read(SQUARE, Geometry)), 100.0);
    assert_eq!(measure::area(&read(CLOCKWISE, Geometry)), 100.0);
    assert_eq!(measure::area(&read(HOLED, Geometry)), 96.0);
    let (square, inverse) =
        (measure::area(&read(SQUARE, Geography)), measure::area(&read(CLOCKWISE, Geography)));
    assert!(is_near(square + inverse, 510_065_621_724_088.4), "the whole ellipsoid: {}", square + inverse);
    let hole = r#"{"type":"Polygon","coordinates":[[[4,4],[6,4],[6,6],[4,6],[4,4]]]}"#;
    let expected = square - measure::area(&read(hole, Geography));
    assert!(is_near(measure::area(&read(HOLED, Geography)), expected));
}

#[test]
fn points_are_within_what_surrounds_them() {
    for kind in [Geography, Geometry] {
        for (whole, x, y, expected) in [
            (SQUARE, 5.0, 5.0, true),
            (SQUARE, 1e-9, 5.0, true),
            (SQUARE, 0.0, 5.0, false),
            (SQUARE, 0.0, 0.0, false),
            (SQUARE, -1e-6, 5.0, false),
            (SQUARE, 15.0, 5.0, false),
            (SQUARE, -170.0, -5.0, false),
            (HOLED, 5.0, 5.0, false),
            (HOLED, 4.0, 5.0, false),
            (HOLED, 2.0, 5.0, true),
            (HOLED, 4.0, 2.0, true),
        ] {
            let (part, whole_shape) = (read(&point(x, y), kind), read(whole, kind));
            assert_eq!(topology::is_within(&part, &whole_shape), expected, "{kind:?} {x} {y} {whole}");
        }
    }
    // On the globe a clockwise ring contains everything outside it; the northern edge is a great circle,
    // north of its parallel.
    let within = |x, y, whole| topology::is_within(&read(&point(x, y), Geography), &read(whole, Geography));
    assert!(!within(5.0, 5.0, CLOCKWISE));
    assert!(within(15.0, 5.0, CLOCKWISE));
    assert!(within(-170.0, -5.0, CLOCKWISE));
    let tiny = r#"{"type":"Polygon","coordinates":[[[0,0],[0,0.001],[0.001,0.001],[0.001,0],[0,0]]]}"#;
    assert!(within(-179.9995, -0.0005, tiny));
    assert!(within(5.0, 10.03, SQUARE));
    assert!(!within(5.0, 10.05, SQUARE));
    let planar = topology::is_within(&read(&point(5.0, 10.03), Geometry), &read(SQUARE, Geometry));
    assert!(!planar);
}

#[test]
fn polygons_cross_the_antimeridian_and_surround_poles() {
    let pacific = r#"{"type":"Polygon","coordinates":[[[170,-10],[-170,-10],[-170,10],[170,10],[170,-10]]]}"#;
    let arctic = r#"{"type":"Polygon","coordinates":[[[0,60],[90,60],[180,60],[-90,60],[0,60]]]}"#;
    for (whole, x, y, expected) in [
        (pacific, 180.0, 0.0, true),
        (pacific, -180.0, 0.0, true),
        (pacific, 175.0, 5.0, true),
        (pacific, 0.0, 0.0, false),
        (arctic, 0.0, 90.0, true),
        (arctic, 45.0, 80.0, true),
        (arctic, 45.0, 50.0, false),
        (arctic, 0.0, -90.0, false),
    ] {
        let (part, whole_shape) = (read(&point(x, y), Geography), read(whole, Geography));
        assert_eq!(topology::is_within(&part, &whole_shape), expected, "{x} {y} {whole}");
    }
    assert!(is_near(distance(&point(179.9, 0.0), &point(-179.9, 0.0), Geography), 22_263.898_158_654_72));
}

#[test]
fn shapes_are_within_shapes() {
    let line = |text: &str| format!(r#"{{"type":"LineString","coordinates":{text}}}"#);
    let polygon = |text: &str| format!(r#"{{"type":"Polygon","coordinates":[{text}]}}"#);
    let two_squares = r#"{"type":"MultiPolygon","coordinates":[[[[0,0],[10,0],[10,10],[0,10],[0,0]]],
        [[[20,0],[30,0],[30,10],[20,10],[20,0]]]]}"#;
    for kind in [Geography, Geometry] {
        for (part, whole, expected) in [
            (line("[[1,1],[9,9]]"), SQUARE.to_string(), true),
            (line("[[1,1],[11,9]]"), SQUARE.into(), false),
            (line("[[0,1],[0,9]]"), SQUARE.into(), false),
            (line("[[1,5],[9,5]]"), HOLED.into(), false),
            (polygon("[[1,1],[2,1],[2,2],[1,2],[1,1]]"), SQUARE.into(), true),
            (polygon("[[3,3],[7,3],[7,7],[3,7],[3,3]]"), HOLED.into(), false),
            (polygon("[[4,4],[6,4],[6,6],[4,6],[4,4]]"), HOLED.into(), false),
            (SQUARE.into(), SQUARE.into(), true),
            (SQUARE.into(), HOLED.into(), false),
            (HOLED.into(), SQUARE.into(), true),
            (SQUARE.into(), polygon("[[1,1],[2,1],[2,2],[1,2],[1,1]]"), false),
            (SQUARE.into(), two_squares.into(), true),
            (two_squares.into(), SQUARE.into(), false),
            (point(5.0, 5.0), point(5.0, 5.0), true),
            (point(0.0, 1.0), line("[[0,0],[0,2]]"), true),
            (point(0.0, 0.0), line("[[0,0],[0,2]]"), false),
            (line("[[0,0.5],[0,1]]"), line("[[0,0],[0,2]]"), true),
            (SQUARE.into(), line("[[0,0],[0,2]]"), false),
        ] {
            let found = topology::is_within(&read(&part, kind), &read(&whole, kind));
            assert_eq!(found, expected, "{kind:?}: {part} in {whole}");
        }
    }
}

#[test]
fn shapes_intersect_where_they_touch() {
    let line = |text: &str| format!(r#"{{"type":"LineString","coordinates":{text}}}"#);
    for kind in [Geography, Geometry] {
        for (left, right, expected) in [
            (point(0.0, 5.0), SQUARE.to_string(), true),
            (point(5.0, 5.0), HOLED.into(), false),
            (line("[[-5,5],[15,5]]"), SQUARE.into(), true),
            (line("[[-5,0],[5,-5]]"), SQUARE.into(), false),
            (line("[[-5,0],[0,0]]"), SQUARE.into(), true),
            (line("[[0,0],[2,2]]"), line("[[0,2],[2,0]]"), true),
            (line("[[0,0],[2,2]]"), line("[[0,3],[2,5]]"), false),
            (SQUARE.into(), HOLED.into(), true),
            (r#"{"type":"MultiPoint","coordinates":[[50,50],[5,1]]}"#.into(), HOLED.into(), true),
            (
                r#"{"type":"MultiLineString","coordinates":[[[50,50],[51,51]],[[-1,1],[1,1]]]}"#.into(),
                SQUARE.into(),
                true,
            ),
        ] {
            let (left_shape, right_shape) = (read(&left, kind), read(&right, kind));
            assert_eq!(topology::intersect(&left_shape, &right_shape), expected, "{kind:?} {left} {right}");
            assert_eq!(topology::intersect(&right_shape, &left_shape), expected, "{kind:?} {right} {left}");
        }
    }
}

#[test]
fn distances_are_to_the_nearest_part() {
    assert_eq!(distance(&point(13.0, 14.0), SQUARE, Geometry), 5.0);
    assert_eq!(distance(&point(5.0, 5.0), SQUARE, Geometry), 0.0);
    assert_eq!(distance(&point(5.0, 5.0), HOLED, Geometry), 1.0);
    // The hole's southern edge rises above its parallel, by less than seventy metres.
    let to_parallel = distance(&point(5.0, 5.0), &point(5.0, 4.0), Geography);
    let to_hole = distance(&point(5.0, 5.0), HOLED, Geography);
    assert!((to_parallel - 70.0..to_parallel - 60.0).contains(&to_hole), "{to_hole}");
    // The foot of the perpendicular is where neither end is: the meridian through the point meets the equator.
    let equator = r#"{"type":"LineString","coordinates":[[-30,0],[40,0]]}"#;
    let expected = distance(&point(3.0, 20.0), &point(3.0, 0.0), Geography);
    assert!(is_near(distance(&point(3.0, 20.0), equator, Geography), expected));
    let beyond = distance(&point(50.0, 0.0), equator, Geography);
    assert!(is_near(beyond, distance(&point(50.0, 0.0), &point(40.0, 0.0), Geography)));
}

#[test]
fn what_is_wrong_has_a_reason() {
    let polygon = |text: &str| format!(r#"{{"type":"Polygon","coordinates":{text}}}"#);
    let many: Vec<String> = (0..4097).map(|index| format!("[{},0]", f64::from(index) / 100.0)).collect();
    let many = format!(r#"{{"type":"LineString","coordinates":[{}]}}"#, many.join(","));
    for (text, word) in [
        (point(133.8, -184.4), "Latitude values must be between -90 and 90 degrees."),
        (point(181.0, 0.0), "Longitude"),
        (r#"{"type":"LineString","coordinates":[[1,1],[1,1]]}"#.into(), "distinct"),
        (r#"{"type":"MultiPoint","coordinates":[]}"#.into(), "position"),
        (polygon("[[[0,0],[1,0],[1,1],[0,1]]]"), "ring number 1 are not the same"),
        (polygon("[[[0,0],[1,0],[0,0]]]"), "distinct"),
        (polygon("[[[0,0],[2,2],[2,0],[0,2],[0,0]]]"), "intersects itself"),
        (polygon("[[[0,0],[2,0],[1,0],[1,1],[0,0]]]"), "intersects itself"),
        (polygon("[[[0,0],[9,0],[9,9],[0,9],[0,0]],[[20,20],[21,20],[21,21],[20,20]]]"), "ring number 2"),
        (polygon("[[[0,0],[9,0],[9,9],[0,9],[0,0]],[[1,1],[20,1],[1,2],[1,1]]]"), "ring number 2"),
        (many, "4096"),
    ] {
        let found = reason(&text, Geography).unwrap_or_else(|| panic!("{text} is valid"));
        assert!(found.contains(word), "{text}: {found}");
    }
    for text in [SQUARE, CLOCKWISE, HOLED] {
        assert_eq!(reason(text, Geography), None, "{text}");
        assert_eq!(reason(text, Geometry), None, "{text}");
    }
    assert_eq!(reason(&point(1e6, -1e6), Geometry), None);
}

fn shapes() -> impl Strategy<Value = String> {
    let number =
        prop_oneof![-180.0..180.0_f64, prop::sample::select(vec![0.0, 90.0, -90.0, 180.0, -180.0, 1e-9])];
    let position = (number.clone(), number.prop_map(|y| y / 2.0)).prop_map(|(x, y)| format!("[{x},{y}]"));
    let positions = prop::collection::vec(position, 1..8);
    (positions, 0..6_usize).prop_map(|(mut positions, kind)| {
        if kind > 3 {
            positions.push(positions[0].clone());
        }
        let list = positions.join(",");
        match kind {
            0 => format!(r#"{{"type":"Point","coordinates":{}}}"#, positions[0]),
            1 => format!(r#"{{"type":"MultiPoint","coordinates":[{list}]}}"#),
            2 => format!(r#"{{"type":"LineString","coordinates":[{list}]}}"#),
            3 => format!(r#"{{"type":"MultiLineString","coordinates":[[{list}]]}}"#),
            4 => format!(r#"{{"type":"Polygon","coordinates":[[{list}]]}}"#),
            _ => format!(r#"{{"type":"MultiPolygon","coordinates":[[[{list}]]]}}"#),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_shapes_have_answers_that_agree(left in shapes(), right in shapes(), is_plane: bool) {
        let kind = if is_plane { Geometry } else { Geography };
        let shape = |text: &str| {
            let value = Value::from_json(text.as_bytes(), &ParseLimits::default()).expect(text);
            Shape::read(&Datum::from_tree(&value), kind).expect(text).ok()
        };
        if let (Some(left), Some(right)) = (shape(&left), shape(&right)) {
            let do_meet = topology::intersect(&left, &right);
            let distance = measure::distance(&left, &right);
            prop_assert!((0.0..=2.1e7).contains(&distance));
            prop_assert_eq!(do_meet, topology::intersect(&right, &left));
            prop_assert!(!do_meet || distance < 1e-3);
            prop_assert!(!topology::is_within(&left, &right) || do_meet);
            topology::fault_of_rings(&left);
            measure::area(&left);
        }
    }
}
