use super::*;

fn bounds(window: &str, now: &str) -> String {
    let now: Timestamp = now.parse().unwrap();
    let window: Window = window.parse().unwrap();
    let (start, end) = window.calendar_bounds(Time::from_micros(now.as_microsecond())).unwrap();
    let hours = (end.micros() - start.micros()) as f64 / 3_600e6;
    format!("{} {hours}h", start.to_string().replace(":00.000000Z", "Z"))
}

#[test]
fn calendar_windows_follow_the_clocks_of_their_zone() {
    let cases = [
        // Plain.
        ("month", "2026-11-15T10:00:00Z", "2026-11-01T00:00Z 720h"),
        ("year", "2026-11-15T10:00:00Z", "2026-01-01T00:00Z 8760h"),
        ("week", "2026-11-15T10:00:00Z", "2026-11-09T00:00Z 168h"),
        ("week@UTC:sunday", "2026-11-15T10:00:00Z", "2026-11-15T00:00Z 168h"),
        ("hour", "2026-11-15T10:59:59.999999Z", "2026-11-15T10:00Z 1h"),
        // The first and the last instant of a window.
        ("day", "2026-11-15T00:00:00Z", "2026-11-15T00:00Z 24h"),
        ("day", "2026-11-14T23:59:59.999999Z", "2026-11-14T00:00Z 24h"),
        // Daylight saving: Berlin jumps on 2026-03-29 and falls back on 2026-10-25.
        ("day@Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00Z 23h"),
        ("day@Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00Z 25h"),
        ("week@Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-18T22:00Z 169h"),
        ("month@Europe/Berlin", "2026-10-25T12:00:00Z", "2026-09-30T22:00Z 745h"),
        // A zone whose clocks jump at midnight: the day has no 00:00.
        ("day@America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00Z 23h"),
        // A zone half an hour off, and one that shifts by half an hour.
        ("hour@Asia/Kolkata", "2026-11-15T10:10:00Z", "2026-11-15T09:30Z 1h"),
        ("day@Australia/Lord_Howe", "2026-04-04T20:00:00Z", "2026-04-04T13:00Z 24.5h"),
        // A zone that skipped a whole day.
        ("day@Pacific/Apia", "2011-12-30T11:00:00Z", "2011-12-30T10:00Z 24h"),
        // Month ends and leap days.
        ("month", "2028-02-29T23:59:59Z", "2028-02-01T00:00Z 696h"),
        ("month", "2027-02-28T23:59:59Z", "2027-02-01T00:00Z 672h"),
        ("year", "2028-02-29T00:00:00Z", "2028-01-01T00:00Z 8784h"),
        ("day", "2028-02-29T00:00:00Z", "2028-02-29T00:00Z 24h"),
        ("month@Pacific/Kiritimati", "2026-12-31T12:00:00Z", "2026-12-31T10:00Z 744h"),
    ];
    for (window, now, expected) in cases {
        assert_eq!(bounds(window, now), expected, "{window} at {now}");
    }
}

#[test]
fn windows_tile_time_where_the_clocks_change() {
    // Half an hour, whole hours, a skipped day, no change at all, and gaps and folds at midnight.
    let changes = [
        ("Australia/Lord_Howe", ["2026-04-04", "2026-10-03"]),
        ("Europe/Berlin", ["2026-03-29", "2026-10-25"]),
        ("America/New_York", ["2026-03-08", "2026-11-01"]),
        ("Pacific/Apia", ["2011-12-30", "2011-04-02"]),
        ("Asia/Kathmandu", ["2026-01-01", "1985-12-31"]),
        ("America/Sao_Paulo", ["2017-10-15", "2018-02-18"]),
        ("Africa/Cairo", ["2026-04-24", "2026-10-30"]),
        ("America/St_Johns", ["2010-03-14", "2010-11-07"]),
    ];
    for (zone, days) in changes {
        for unit in ["hour", "day", "week", "week@:sunday", "month", "year"] {
            let (unit, start) = unit.split_once('@').unwrap_or((unit, ""));
            let window: Window = format!("{unit}@{zone}{start}").parse().unwrap();
            for day in days {
                tiles(&window, format!("{day}T00:00:00Z").parse().unwrap());
            }
        }
    }
}

/// Checks from a day before to two days after that every instant lies in its window, that all instants of a window
/// have the same window, and that the next window starts where it ends. Samples each quarter of an hour and both sides
/// of each boundary.
fn tiles(window: &Window, day: Timestamp) {
    const QUARTER: i64 = 900_000_000;
    let first = day.as_microsecond() - 96 * QUARTER;
    let at = |micros| window.calendar_bounds(Time::from_micros(micros)).unwrap();
    let mut before = at(first);
    for quarter in 0..(4 * 96) {
        let now = first + quarter * QUARTER;
        for now in [now, now + QUARTER - 1] {
            let (start, end) = at(now);
            assert!(start.micros() <= now && now < end.micros(), "{window} at {now}: {start} {end}");
            assert!(before == (start, end) || before.1 == start, "{window} at {now}: {before:?} then {start} {end}");
            assert_eq!(at(start.micros()), (start, end), "{window} at {now}: its first instant");
            assert_eq!(at(end.micros() - 1), (start, end), "{window} at {now}: its last instant");
            assert_eq!(at(end.micros()).0, end, "{window} at {now}: the next one");
            before = (start, end);
        }
    }
}

#[test]
fn an_hour_is_cut_where_the_clocks_change_by_half_an_hour() {
    let cases = [
        // Lord Howe goes back from 02:00 to 01:30 at 15:00 UTC, and forward from 02:00 to 02:30 at 15:30 UTC.
        ("2026-04-04T14:59:59Z", "2026-04-04T14:00Z 1h"),
        ("2026-04-04T15:00:00Z", "2026-04-04T15:00Z 0.5h"),
        ("2026-04-04T15:30:00Z", "2026-04-04T15:30Z 1h"),
        ("2026-10-03T15:29:59Z", "2026-10-03T14:30Z 1h"),
        ("2026-10-03T15:30:00Z", "2026-10-03T15:30Z 0.5h"),
        ("2026-10-03T16:00:00Z", "2026-10-03T16:00Z 1h"),
    ];
    for (now, expected) in cases {
        assert_eq!(bounds("hour@Australia/Lord_Howe", now), expected, "{now}");
    }
}

#[test]
fn windows_parse_back_from_their_text_form() {
    for (text, shown, stored) in [
        ("lifetime", "lifetime", "lifetime"),
        ("rolling:1h30m", "rolling:1h30m", "rolling:5400000"),
        ("rolling:3600000", "rolling:1h", "rolling:3600000"),
        ("bucket:100:10:1000", "bucket:100:10/s", "bucket:100:10:1000"),
        ("bucket:500000:10000/1h", "bucket:500000:10000/h", "bucket:500000:10000:3600000"),
        ("bucket:5k:1k/1h30m", "bucket:5000:1000/1h30m", "bucket:5000:1000:5400000"),
        ("month@europe/berlin", "month@Europe/Berlin", "month@Europe/Berlin"),
        ("week@UTC:sunday", "week@UTC:sunday", "week@UTC:sunday"),
        ("day", "day@UTC", "day@UTC"),
    ] {
        let window: Window = text.parse().unwrap();
        assert_eq!(window.to_string(), shown);
        assert_eq!(shown.parse(), Ok(window.clone()));
        let json = serde_json::to_string(&window).unwrap();
        assert_eq!(json, format!("{stored:?}"), "fingerprints depend on this form");
        assert_eq!(serde_json::from_str::<Window>(&json).unwrap(), window);
    }
}

#[test]
fn a_bad_window_is_refused_by_field() {
    let cases = [
        ("fortnight", "window"),
        ("rolling:0", "window"),
        ("rolling:99999999999999", "window"),
        ("rolling:-1", "window"),
        ("bucket:1:2", "window"),
        ("bucket:1/h", "window"),
        ("bucket:1:1:1/h", "window"),
        ("bucket:1:1/fortnight", "window"),
        ("bucket:-1:2:3", "window"),
        ("day@Mars/Olympus", "zone"),
        ("day@UTC:sunday", "window"),
        ("week@UTC:funday", "week_start"),
    ];
    for (text, field) in cases {
        assert_eq!(text.parse::<Window>().unwrap_err().field, field, "{text}");
    }
}
