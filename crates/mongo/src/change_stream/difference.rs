//! Update descriptions: the difference of two versions of a document, as change events report it.
//!
//! Documents are compared member by member. So are arrays that kept an element in its place, and documents that kept a
//! name; other values are reported whole. The difference applied to the old version gives the new one, except for the
//! order of members.

use shardlake_mql::{Document, Str, Value, identical};

#[derive(Debug, Default)]
pub struct Difference {
    updated: Document,
    removed: Vec<Value>,
    truncated: Vec<Value>,
}

/// A step of a path.
#[derive(Debug, Clone)]
enum Step {
    Name(Str),
    Place(usize),
}

impl Difference {
    pub fn of(old: &Document, new: &Document) -> Difference {
        let mut difference = Difference::default();
        difference.documents(&mut Vec::new(), old, new);
        difference
    }

    /// The field `updateDescription`.
    pub fn description(self) -> Document {
        let mut told = Document::one("updatedFields", Value::document(self.updated));
        told.push("removedFields", Value::array(self.removed));
        told.push("truncatedArrays", Value::array(self.truncated));
        told
    }

    fn documents(&mut self, path: &mut Vec<Step>, old: &Document, new: &Document) {
        for (name, _) in old.iter().filter(|(name, _)| !new.has(name)) {
            path.push(Step::Name(name.clone()));
            let text = text(path);
            self.removed.push(Value::string(text));
            path.pop();
        }
        for (name, value) in new.iter() {
            path.push(Step::Name(name.clone()));
            match old.get(name) {
                Some(before) => self.values(path, before, value),
                None => self.set(path, value),
            }
            path.pop();
        }
    }

    fn values(&mut self, path: &mut Vec<Step>, old: &Value, new: &Value) {
        match (old, new) {
            _ if identical(old, new) => {}
            (Value::Document(old), Value::Document(new)) if new.iter().any(|(name, _)| old.has(name)) => {
                self.documents(path, old, new);
            }
            (Value::Array(old), Value::Array(items))
                if old.iter().zip(items.iter()).any(|(old, new)| identical(old, new)) =>
            {
                self.arrays(path, old, items);
            }
            _ => self.set(path, new),
        }
    }

    fn arrays(&mut self, path: &mut Vec<Step>, old: &[Value], new: &[Value]) {
        if new.len() < old.len() {
            let mut cut = Document::one("field", text(path).as_str());
            cut.push("newSize", Value::Int(new.len() as i32));
            self.truncated.push(Value::document(cut));
        }
        for (place, value) in new.iter().enumerate() {
            path.push(Step::Place(place));
            match old.get(place) {
                Some(before) => self.values(path, before, value),
                None => self.set(path, value),
            }
            path.pop();
        }
    }

    fn set(&mut self, path: &[Step], value: &Value) {
        let text = text(path);
        self.updated.push(text.as_str(), value.clone());
    }
}

/// The path as text, with dots between its steps.
fn text(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Name(name) => name.to_string(),
        Step::Place(place) => place.to_string(),
    };
    path.iter().map(step).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(members: &[(&str, Value)]) -> Document {
        members.iter().map(|(name, value)| (Str::from(*name), value.clone())).collect()
    }

    fn list(items: &[i32]) -> Value {
        Value::array(items.iter().map(|item| Value::Int(*item)).collect())
    }

    fn told(old: &[(&str, Value)], new: &[(&str, Value)]) -> String {
        Value::document(Difference::of(&document(old), &document(new)).description()).to_string()
    }

    #[test]
    fn members_are_compared_one_by_one() {
        let inner = |x: i32| Value::document(document(&[("x", Value::Int(x)), ("y", Value::Int(0))]));
        let told = told(
            &[("_id", Value::Int(1)), ("a", inner(1)), ("gone", Value::Null), ("same", list(&[1]))],
            &[("_id", Value::Int(1)), ("a", inner(2)), ("same", list(&[1])), ("new", Value::Long(5))],
        );
        let wanted = document(&[
            ("updatedFields", Value::document(document(&[("a.x", Value::Int(2)), ("new", Value::Long(5))]))),
            ("removedFields", Value::array(vec![Value::string("gone")])),
            ("truncatedArrays", Value::array(vec![])),
        ]);
        assert_eq!(told, Value::document(wanted).to_string());
    }

    #[test]
    fn arrays_are_cut_extended_or_told_whole() {
        let description = |old: &[i32], new: &[i32]| {
            let of = |items| document(&[("a", list(items))]);
            Difference::of(&of(old), &of(new)).description()
        };
        let cut = description(&[1, 2, 3], &[1, 5]);
        assert!(identical(
            &cut.value("updatedFields").as_document().expect("is one").value("a.1"),
            &Value::Int(5)
        ));
        let truncated = cut.value("truncatedArrays");
        let truncated = truncated.as_array().expect("is one")[0].clone();
        assert!(identical(&truncated.as_document().expect("is one").value("newSize"), &Value::Int(2)));
        let longer = description(&[1], &[1, 2]);
        assert!(identical(
            &longer.value("updatedFields").as_document().expect("is one").value("a.1"),
            &Value::Int(2)
        ));
        let other = description(&[1, 2], &[3]);
        assert!(identical(
            &other.value("updatedFields").as_document().expect("is one").value("a"),
            &list(&[3])
        ));
    }

    #[test]
    fn a_change_of_the_type_of_a_number_is_a_change() {
        let told =
            Difference::of(&document(&[("a", Value::Int(1))]), &document(&[("a", Value::Double(1.0))]));
        assert!(told.updated.has("a"));
    }
}
