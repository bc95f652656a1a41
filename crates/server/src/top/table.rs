//! The figures as lines for a terminal.

use serde_json::Value;

use crate::operate::{Paint, aligned, bytes, thousands};

/// Partitions of one container that are shown.
const PARTITIONS_MAX: usize = 20;
/// Share of its budget from which a partition counts as busy.
const BUSY: f64 = 0.9;
const KEY_CHARACTERS: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    Head,
    Warning,
    Bad,
}

/// A line of text and its colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    text: String,
    look: Look,
}

impl Line {
    fn plain(text: impl Into<String>) -> Line {
        Line { text: text.into(), look: Look::Plain }
    }

    pub fn painted(&self, paint: Paint) -> String {
        match self.look {
            Look::Plain => self.text.clone(),
            Look::Head => paint.head(&self.text),
            Look::Warning => paint.warning(&self.text),
            Look::Bad => paint.bad(&self.text),
        }
    }

    /// The first characters of the line.
    pub fn cut(&self, characters: usize) -> Line {
        Line { text: self.text.chars().take(characters).collect(), look: self.look }
    }
}

/// `trouble` is the error of the last attempt to ask the server.
pub fn lines(sample: &Value, trouble: Option<&str>) -> Vec<Line> {
    let mut lines = vec![Line::plain(format!(
        "{}  means of {} s",
        sample["endpoint"].as_str().unwrap_or_default(),
        sample["windowSeconds"]
    ))];
    if let Some(trouble) = trouble {
        lines.push(Line { text: format!("no new figures: {trouble}"), look: Look::Bad });
    }
    lines.extend(summary(sample).map(Line::plain));
    lines.push(Line::plain(""));
    lines.extend(containers(sample));
    let left_out = sample["containersNotShown"].as_u64().unwrap_or_default();
    if left_out > 0 {
        lines.push(Line::plain(format!("{} further containers", thousands(left_out))));
    }
    lines
}

fn summary(sample: &Value) -> [String; 2] {
    let process = &sample["process"];
    let figure = |name: &str| process[name].as_f64();
    let count = |name: &str| figure(name).map_or("-".to_owned(), |count| thousands(count as u64));
    let size = |name: &str| figure(name).map_or("-".to_owned(), |size| bytes(size as u64));
    let time = |name: &str| figure(name).map_or("-".to_owned(), |time| format!("{time:.2} ms"));
    [
        format!(
            "requests {}  RU {}  429 {}  failed {}/s  p50 {}  p99 {}",
            rate(&sample["operationsPerSecond"]),
            rate(&sample["ruPerSecond"]),
            rate(&sample["throttledPerSecond"]),
            count("failed"),
            time("latencyP50Ms"),
            time("latencyP99Ms"),
        ),
        format!(
            "connections {} ({} in Direct mode)  processors {}  memory {}  disk {}",
            count("connections"),
            count("directConnections"),
            figure("cpuCores").map_or("-".to_owned(), |cores| format!("{cores:.2}")),
            size("memoryBytes"),
            size("diskBytes"),
        ),
    ]
}

fn containers(sample: &Value) -> Vec<Line> {
    let names =
        ["container / partition", "requests", "RU", "budget", "used", "429", "items", "size", "hottest keys"];
    let mut rows = vec![names.map(str::to_owned)];
    let mut looks = vec![Look::Head];
    for container in members(&sample["containers"]) {
        let text = |name: &str| container[name].as_str().unwrap_or_default();
        let name = printable(&format!("{}/{}", text("database"), text("container")), usize::MAX);
        rows.push(row(name, container, relocation(text("relocation"))));
        looks.push(Look::Plain);
        for partition in members(&container["partitions"]).take(PARTITIONS_MAX) {
            let id = partition["id"].as_str().unwrap_or_default();
            rows.push(row(format!("  {id} on shard {}", partition["shard"]), partition, keys(partition)));
            looks.push(look(partition));
        }
    }
    // Keys stand at the left of the last column.
    let lines = aligned(
        &rows.iter().map(|row| row[..8].to_vec().try_into().expect("eight")).collect::<Vec<[String; 8]>>(),
        1,
    );
    let lines = lines.into_iter().zip(&rows).zip(looks);
    lines
        .map(|((line, row), look)| Line { text: format!("{line}  {}", row[8]).trim_end().to_owned(), look })
        .collect()
}

fn row(name: String, figures: &Value, last: String) -> [String; 9] {
    let used = used(figures).map_or("-".to_owned(), |used| format!("{:.0} %", used * 100.0));
    let number = |name: &str| figures[name].as_u64().unwrap_or_default();
    [
        name,
        rate(&figures["operationsPerSecond"]),
        rate(&figures["ruPerSecond"]),
        rate(&figures["budgetRuPerSecond"]),
        used,
        rate(&figures["throttledPerSecond"]),
        thousands(number("items")),
        bytes(number("sizeBytes")),
        last,
    ]
}

/// Share of the budget that is spent.
fn used(figures: &Value) -> Option<f64> {
    let budget = figures["budgetRuPerSecond"].as_f64().filter(|budget| *budget > 0.0)?;
    Some(figures["ruPerSecond"].as_f64()? / budget)
}

fn look(partition: &Value) -> Look {
    if partition["throttledPerSecond"].as_f64().is_some_and(|throttled| throttled > 0.0) {
        Look::Bad
    } else if used(partition).is_some_and(|used| used >= BUSY) {
        Look::Warning
    } else {
        Look::Plain
    }
}

fn keys(partition: &Value) -> String {
    let keys = members(&partition["hottestKeys"]).map(|key| {
        let share = key["share"].as_f64().unwrap_or_default() * 100.0;
        format!("{} {share:.0} %", printable(key["key"].as_str().unwrap_or_default(), KEY_CHARACTERS))
    });
    keys.collect::<Vec<_>>().join("  ")
}

fn relocation(kind: &str) -> String {
    if kind.is_empty() { String::new() } else { format!("{kind} in progress") }
}

/// A name of a client without characters that change a terminal.
fn printable(text: &str, characters_max: usize) -> String {
    let is_shown =
        |character: char| !character.is_control() && !('\u{200b}'..='\u{206f}').contains(&character);
    let mut shown: String = text
        .chars()
        .take(characters_max)
        .map(|character| if is_shown(character) { character } else { '?' })
        .collect();
    if text.chars().nth(characters_max).is_some() {
        shown.push('…');
    }
    shown
}

/// Small rates keep a digit.
fn rate(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}/s"),
        Some(rate) => format!("{}/s", thousands(rate.round() as u64)),
    }
}

fn members(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn partitions_stand_below_their_container_and_throttled_ones_are_marked() {
        let partition = |id: &str, throttled: f64, ru: f64| {
            json!({ "id": id, "shard": 0, "operationsPerSecond": 60.0, "ruPerSecond": ru, "budgetRuPerSecond": 500.0,
                    "throttledPerSecond": throttled, "items": 1200, "sizeBytes": 2048,
                    "hottestKeys": [{ "key": "[\"A\u{1b}[2J\"]", "share": 0.91 }] })
        };
        let sample = json!({
            "endpoint": "http://x", "windowSeconds": 5, "operationsPerSecond": 60.0, "ruPerSecond": 0.25,
            "process": { "connections": 3.0, "cpuCores": 0.5, "latencyP50Ms": 0.4 }, "containersNotShown": 2,
            "containers": [{ "database": "shop", "container": "orders", "ruPerSecond": 700.0, "relocation": "split",
                             "partitions": [partition("1", 2.5, 500.0), partition("2", 0.0, 460.0), partition("3", 0.0, 0.0)] }],
        });
        let shown = lines(&sample, Some("refused"));
        let text = |part: &str| {
            let found = shown.iter().find(|line| line.text.contains(part));
            found.unwrap_or_else(|| panic!("{part} in {shown:?}")).clone()
        };
        assert_eq!(text("no new figures").look, Look::Bad);
        assert_eq!(text("  1 on shard 0").look, Look::Bad);
        assert_eq!(text("  2 on shard 0").look, Look::Warning);
        assert_eq!(text("  3 on shard 0").look, Look::Plain);
        let first = text("  1 on shard 0").text;
        for words in ["500/s", "100 %", "2.5/s", "1,200", "2.0 KiB", "[\"A?[2J\"] 91 %"] {
            assert!(first.contains(words), "{words} in {first}");
        }
        assert!(text("shop/orders").text.ends_with("split in progress"));
        assert!(text("requests 60/s  RU 0.2/s").text.contains("p50 0.40 ms  p99 -"));
        assert_eq!(text("further").text, "2 further containers");
        assert_eq!(text("shop/orders").cut(4).text, "shop");
    }
}
