//! Compares ticks with a naive implementation that checks every minute or second.

use jiff::civil::{Date, date};

use super::*;

const DAY: i64 = 86_400;

/// A local date and time.
#[derive(Clone, Copy)]
struct Shown {
    second: u8,
    minute: u8,
    hour: u8,
    day: u8,
    days_in_month: u8,
    month: u8,
    weekday: u8,
}

/// An expression, and a predicate that means the same.
struct Case {
    text: String,
    runs_all_day: bool,
    matches: Box<dyn Fn(Shown) -> bool>,
}

/// Returns the ticks of each case in `(after, until]`, found by checking every `step` seconds. The clocks must not
/// change shortly before `after`, and only at quarters of an hour.
fn naive(cases: &[Case], zone: &TimeZone, after: i64, until: i64, step: i64) -> Vec<Vec<Time>> {
    let mut calendar = Calendar { days: i64::MIN, date: Date::ZERO };
    let mut found = vec![Vec::new(); cases.len()];
    let offset = |at: i64| i64::from(zone.to_offset(Timestamp::from_second(at).unwrap()).seconds());
    let mut shift = offset(after);
    let mut reached = after + shift + step;
    for at in (after + step..=until).step_by(step as usize) {
        if at % 900 == 0 {
            shift = offset(at);
        }
        let clock = at + shift;
        let shown = calendar.shown(clock);
        for (case, found) in cases.iter().zip(&mut found) {
            let due = if case.runs_all_day || clock == reached {
                (case.matches)(shown)
            } else {
                (reached..=clock).step_by(step as usize).any(|skipped| (case.matches)(calendar.shown(skipped)))
            };
            if due {
                found.push(Time::from_micros(at * 1_000_000));
            }
        }
        reached = reached.max(clock + step);
    }
    found
}

/// Converts seconds to a local date and time, and caches the last date.
struct Calendar {
    days: i64,
    date: Date,
}

impl Calendar {
    fn shown(&mut self, clock: i64) -> Shown {
        let (days, second) = (clock.div_euclid(DAY), clock.rem_euclid(DAY));
        if days != self.days {
            (self.days, self.date) = (days, date(1970, 1, 1) + days.days());
        }
        Shown {
            second: (second % 60) as u8,
            minute: (second / 60 % 60) as u8,
            hour: (second / 3_600) as u8,
            day: self.date.day() as u8,
            days_in_month: self.date.days_in_month() as u8,
            month: self.date.month() as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
        }
    }
}

fn assert_like_naive(cases: &[Case], zone: &str, after: &str, until: &str, step: i64) -> usize {
    let zone = Zone::new(zone).unwrap();
    let (after, until) = (time(after), time(until));
    let (first, last) = (after.micros() / 1_000_000, until.micros() / 1_000_000);
    let expected = naive(cases, &zone.look_up().unwrap(), first, last, step);
    for (case, expected) in cases.iter().zip(&expected) {
        let ticks = cron(&case.text).ticks(&zone, after, until, expected.len() + 1);
        let differs = ticks.iter().zip(expected).find(|(tick, expected)| tick != expected);
        assert_eq!(differs, None, "{} in {zone}", case.text);
        assert_eq!(ticks.len(), expected.len(), "{} in {zone}", case.text);
        assert_next(&case.text, &zone, expected);
    }
    expected.iter().map(Vec::len).sum()
}

/// Checks that the later of two ticks is next from anywhere between them.
fn assert_next(text: &str, zone: &Zone, ticks: &[Time]) {
    let cron = cron(text);
    for pair in ticks.windows(2).step_by(1 + ticks.len() / 100) {
        let gap = pair[1].micros() - pair[0].micros();
        for part in [0, 1, gap / 3, gap / 2, gap - 1_800_000_001, gap - 1] {
            let after = Time::from_micros(pair[0].micros() + part.max(0));
            assert_eq!(cron.next(zone, after), Some(pair[1]), "{text} in {zone} after {after}");
        }
    }
}

fn case(text: &str, runs_all_day: bool, matches: impl Fn(Shown) -> bool + 'static) -> Case {
    Case { text: text.to_owned(), runs_all_day, matches: Box::new(matches) }
}

#[test]
fn whole_years_match_the_naive_implementation() {
    let cases = [
        case("30 2 * * *", false, |at| at.minute == 30 && at.hour == 2),
        case("0 0 L * *", false, |at| at.day == at.days_in_month && at.minute == 0 && at.hour == 0),
        case("10,50 1-2 29 FEB,OCT SUN", false, |at| {
            (at.minute == 10 || at.minute == 50)
                && (at.hour == 1 || at.hour == 2)
                && (at.month == 2 || at.month == 10)
                && (at.day == 29 || at.weekday == 0)
        }),
        case("45 */3 */2 * SAT-SUN", true, |at| {
            at.minute == 45 && at.hour % 3 == 0 && at.day % 2 == 1 && (at.weekday == 6 || at.weekday == 0)
        }),
    ];
    let mut ticks = 0;
    // Each range has a leap day and changes of the clocks in both directions.
    for (zone, after, until) in [
        ("Europe/Berlin", "2023-12-20T00:00:00Z", "2026-01-10T00:00:00Z"),
        ("America/New_York", "2023-12-20T00:00:00Z", "2025-01-10T00:00:00Z"),
        ("Australia/Lord_Howe", "2023-12-20T00:00:00Z", "2025-01-10T00:00:00Z"),
        ("America/Sao_Paulo", "2015-12-20T00:00:00Z", "2017-01-10T00:00:00Z"),
    ] {
        ticks += assert_like_naive(&cases, zone, after, until, 60);
    }
    assert!(ticks > 4_000, "{ticks}");
}

/// Changes of the clocks, with a day without change before.
const CHANGES: [(&str, &str, &str); 10] = [
    ("Europe/Berlin", "2026-03-27T22:00:00Z", "2026-04-01T02:00:00Z"),
    ("Europe/Berlin", "2026-10-23T22:00:00Z", "2026-11-01T02:00:00Z"),
    ("America/New_York", "2026-03-07T04:00:00Z", "2026-03-10T12:00:00Z"),
    ("America/New_York", "2026-10-30T04:00:00Z", "2026-11-03T12:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-03T12:00:00Z", "2026-04-06T12:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-02T12:00:00Z", "2026-10-05T12:00:00Z"),
    ("America/Sao_Paulo", "2018-02-16T12:00:00Z", "2018-02-19T12:00:00Z"),
    ("America/Sao_Paulo", "2018-11-02T12:00:00Z", "2018-11-05T12:00:00Z"),
    ("Asia/Beirut", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z"),
    ("Pacific/Apia", "2011-12-28T12:00:00Z", "2012-01-01T12:00:00Z"),
];

#[test]
fn clock_changes_match_the_naive_implementation_by_the_second() {
    let cases = [
        case("*/45 */30 * * * *", true, |at| at.second % 45 == 0 && at.minute % 30 == 0),
        case("59 59 23,0-2 * * *", false, |at| at.second == 59 && at.minute == 59 && (at.hour == 23 || at.hour <= 2)),
        case("7/20 15 1/12 * * SUN", true, |at| {
            at.weekday == 0 && at.minute == 15 && at.hour % 12 == 1 && [7, 27, 47].contains(&at.second)
        }),
    ];
    let ticks: usize =
        CHANGES.iter().step_by(3).map(|(zone, after, until)| assert_like_naive(&cases, zone, after, until, 1)).sum();
    assert!(ticks > 500, "{ticks}");
}

#[test]
fn random_expressions_match_the_naive_implementation() {
    let mut dice = Dice(20_260_329);
    let mut ticks = 0;
    for (zone, after, until) in CHANGES {
        let cases: Vec<Case> = (0..24).map(|_| random(&mut dice)).collect();
        ticks += assert_like_naive(&cases, zone, after, until, 60);
    }
    assert!(ticks > 2_000, "{ticks}");
}

/// A deterministic pseudorandom number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u8) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u8
    }
}

/// Returns a random expression with a list of one or two items in each field.
fn random(dice: &mut Dice) -> Case {
    let minute = list(dice, 0, 59, false);
    let hour = list(dice, 0, 23, true);
    let day = list(dice, 1, 31, true);
    let month = if dice.below(3) == 0 { list(dice, 1, 12, true) } else { List::all(1, 12) };
    let weekday = list(dice, 0, 6, true);
    let text = format!("{} {} {} {} {}", minute.text, hour.text, day.text, month.text, weekday.text);
    if text.parse::<Cron>().is_err() {
        // No date matches the expression; try another.
        return random(dice);
    }
    let hours = (0..24).filter(|value| hour.has(*value)).count();
    let runs_all_day = hours == 24 || hours > 1 && (hour.text.contains('*') || hour.text.contains('/'));
    let both = day.text.starts_with('*') || weekday.text.starts_with('*');
    case(&text, runs_all_day, move |at| {
        let (by_day, by_weekday) = (day.has(at.day), weekday.has(at.weekday));
        minute.has(at.minute)
            && hour.has(at.hour)
            && month.has(at.month)
            && if both { by_day && by_weekday } else { by_day || by_weekday }
    })
}

/// A field: its text, and `(from, to, step)` of each item.
struct List {
    text: String,
    items: Vec<(u8, u8, u8)>,
}

impl List {
    fn all(first: u8, last: u8) -> List {
        List { text: "*".to_owned(), items: vec![(first, last, 1)] }
    }

    fn has(&self, value: u8) -> bool {
        self.items.iter().any(|(from, to, step)| (*from..=*to).contains(&value) && (value - from).is_multiple_of(*step))
    }
}

fn list(dice: &mut Dice, first: u8, last: u8, star: bool) -> List {
    if star && dice.below(3) == 0 {
        return List::all(first, last);
    }
    let mut list = List { text: String::new(), items: Vec::new() };
    for place in 0..=dice.below(2) {
        let (from, step) = (first + dice.below(last - first + 1), 2 + dice.below(last - first));
        let to = from + dice.below(last - from + 1);
        let (text, item) = match dice.below(5) {
            0 => (format!("*/{step}"), (first, last, step)),
            1 => (format!("{from}/{step}"), (from, last, step)),
            2 => (format!("{from}-{to}/{step}"), (from, to, step)),
            3 if star => (format!("{from}-{to}"), (from, to, 1)),
            _ => (from.to_string(), (from, from, 1)),
        };
        list.text += if place > 0 { "," } else { "" };
        list.text += &text;
        list.items.push(item);
    }
    list
}
