mod oracle;

use super::*;

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

/// Returns the ticks after an instant in the local time of the zone: `2026-03-29 03:00+02`.
fn ticks(text: &str, zone: &str, after: &str, limit: usize) -> Vec<String> {
    let zone = Zone::new(zone).unwrap();
    let ticks = cron(text).ticks(&zone, time(after), Time::NEVER, limit);
    let clocks = zone.look_up().unwrap();
    let shown = |tick: &Time| {
        let shown = Timestamp::from_microsecond(tick.micros()).unwrap().to_zoned(clocks.clone());
        let second = if shown.second() == 0 { String::new() } else { format!(":{:02}", shown.second()) };
        format!("{}{second}{}", shown.strftime("%Y-%m-%d %H:%M"), shown.offset())
    };
    ticks.iter().map(shown).collect()
}

/// Checks a table of expressions with their next ticks in UTC after an instant.
fn assert_utc(after: &str, cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|tick| format!("{tick}+00")).collect();
        assert_eq!(ticks(text, "UTC", after, expected.len()), expected, "{text}");
    }
}

#[test]
fn every_form_of_a_field_is_parsed() {
    // A Sunday.
    assert_utc(
        "2026-11-15T10:00:00Z",
        &[
            ("* * * * *", &["2026-11-15 10:01", "2026-11-15 10:02"]),
            ("5 * * * *", &["2026-11-15 10:05", "2026-11-15 11:05"]),
            ("5,10 * * * *", &["2026-11-15 10:05", "2026-11-15 10:10", "2026-11-15 11:05"]),
            ("58-59 * * * *", &["2026-11-15 10:58", "2026-11-15 10:59", "2026-11-15 11:58"]),
            ("*/25 * * * *", &["2026-11-15 10:25", "2026-11-15 10:50", "2026-11-15 11:00"]),
            ("10-30/15 * * * *", &["2026-11-15 10:10", "2026-11-15 10:25", "2026-11-15 11:10"]),
            ("5/20 * * * *", &["2026-11-15 10:05", "2026-11-15 10:25", "2026-11-15 10:45", "2026-11-15 11:05"]),
            ("1-3/2,50/9 * * * *", &["2026-11-15 10:01", "2026-11-15 10:03", "2026-11-15 10:50", "2026-11-15 10:59"]),
            ("*/60 * * * *", &["2026-11-15 11:00", "2026-11-15 12:00"]),
            ("0 9-17/4 * * *", &["2026-11-15 13:00", "2026-11-15 17:00", "2026-11-16 09:00"]),
            ("59 23 31 12 *", &["2026-12-31 23:59", "2027-12-31 23:59"]),
            ("\t0  0 1 *\t* ", &["2026-12-01 00:00"]),
            ("007 00 01 012 *", &["2026-12-01 00:07"]),
            // Seconds.
            ("*/30 * * * * *", &["2026-11-15 10:00:30", "2026-11-15 10:01", "2026-11-15 10:01:30"]),
            ("59 59 23 * * *", &["2026-11-15 23:59:59", "2026-11-16 23:59:59"]),
            // Names.
            ("0 0 1 jan *", &["2027-01-01 00:00"]),
            ("0 0 1 DECEMBER-DEC *", &["2026-12-01 00:00", "2027-12-01 00:00"]),
            ("0 0 1 Jan-Mar/2 *", &["2027-01-01 00:00", "2027-03-01 00:00", "2028-01-01 00:00"]),
            ("0 12 * * sun", &["2026-11-15 12:00", "2026-11-22 12:00"]),
            ("0 12 * * Monday,wed", &["2026-11-16 12:00", "2026-11-18 12:00", "2026-11-23 12:00"]),
        ],
    );
}

#[test]
fn weekdays_begin_with_sunday_and_ranges_wrap_around() {
    let days = |field: &str| {
        let week = cron(&format!("0 0 * * {field}")).ticks(
            &Zone::utc(),
            time("2026-11-14T23:00:00Z"),
            time("2026-11-21T23:00:00Z"),
            9,
        );
        week.iter().map(|tick| (tick.micros() / 86_400_000_000 + 4) % 7).collect::<Vec<i64>>()
    };
    let cases: [(&str, &[i64]); 16] = [
        ("0", &[0]),
        ("7", &[0]),
        ("SAT", &[6]),
        ("1-5", &[1, 2, 3, 4, 5]),
        ("5-7", &[0, 5, 6]),
        ("SAT-SUN", &[0, 6]),
        ("FRI-MON", &[0, 1, 5, 6]),
        ("FRI-TUE/2", &[0, 2, 5]),
        ("6-0", &[0, 6]),
        ("7-2", &[0, 1, 2]),
        ("7-0", &[0]),
        ("0-7", &[0, 1, 2, 3, 4, 5, 6]),
        ("MON-SUN", &[0, 1, 2, 3, 4, 5, 6]),
        ("*/2", &[0, 2, 4, 6]),
        ("MON/2", &[1, 3, 5]),
        ("7/3", &[0, 3, 6]),
    ];
    for (field, expected) in cases {
        assert_eq!(days(field), expected, "{field}");
    }
}

#[test]
fn nicknames_expand_to_expressions() {
    assert_utc(
        "2026-11-17T10:30:00Z",
        &[
            ("@hourly", &["2026-11-17 11:00", "2026-11-17 12:00"]),
            ("@daily", &["2026-11-18 00:00", "2026-11-19 00:00"]),
            ("@midnight", &["2026-11-18 00:00", "2026-11-19 00:00"]),
            ("@weekly", &["2026-11-22 00:00", "2026-11-29 00:00"]),
            ("@monthly", &["2026-12-01 00:00", "2027-01-01 00:00"]),
            ("@yearly", &["2027-01-01 00:00", "2028-01-01 00:00"]),
            (" @Annually", &["2027-01-01 00:00", "2028-01-01 00:00"]),
        ],
    );
}

#[test]
fn a_day_matches_if_either_restricted_field_does() {
    assert_utc(
        "2026-11-15T10:00:00Z",
        &[
            ("0 0 20 * *", &["2026-11-20 00:00", "2026-12-20 00:00"]),
            ("0 0 * * FRI", &["2026-11-20 00:00", "2026-11-27 00:00"]),
            ("0 0 18 * FRI", &["2026-11-18 00:00", "2026-11-20 00:00", "2026-11-27 00:00"]),
            ("0 0 L * FRI", &["2026-11-20 00:00", "2026-11-27 00:00", "2026-11-30 00:00", "2026-12-04 00:00"]),
            // A field that begins with a star is not restricted: odd days that are Fridays, the first Monday of a
            // month.
            ("0 0 */2 * FRI", &["2026-11-27 00:00", "2026-12-11 00:00", "2026-12-25 00:00"]),
            ("0 0 */31,1-7 * MON", &["2026-12-07 00:00", "2027-01-04 00:00", "2027-02-01 00:00"]),
            ("0 0 13 * */5", &["2026-12-13 00:00", "2027-06-13 00:00", "2027-08-13 00:00"]),
            // The months restrict both.
            ("0 0 30 2 SUN", &["2027-02-07 00:00", "2027-02-14 00:00"]),
        ],
    );
}

#[test]
fn days_of_month_respect_the_length_of_months() {
    assert_utc(
        "2026-11-15T10:00:00Z",
        &[
            ("0 0 31 * *", &["2026-12-31 00:00", "2027-01-31 00:00", "2027-03-31 00:00", "2027-05-31 00:00"]),
            ("0 0 30 * *", &["2026-11-30 00:00", "2026-12-30 00:00", "2027-01-30 00:00", "2027-03-30 00:00"]),
            ("0 0 L * *", &["2026-11-30 00:00", "2026-12-31 00:00", "2027-01-31 00:00", "2027-02-28 00:00"]),
            ("0 0 l,15 2 *", &["2027-02-15 00:00", "2027-02-28 00:00", "2028-02-15 00:00", "2028-02-29 00:00"]),
            ("0 0 31,L 4 *", &["2027-04-30 00:00", "2028-04-30 00:00"]),
            ("0 0 29 2 *", &["2028-02-29 00:00", "2032-02-29 00:00"]),
            ("0 0 29 2,3 *", &["2027-03-29 00:00", "2028-02-29 00:00", "2028-03-29 00:00"]),
        ],
    );
    // No leap year in 2100, and 29 February on a Sunday after 40 years instead of 28.
    assert_utc("2096-03-01T00:00:00Z", &[("0 0 29 2 *", &["2104-02-29 00:00"])]);
    assert_utc("2088-03-01T00:00:00Z", &[("0 0 29 2 */7", &["2128-02-29 00:00", "2156-02-29 00:00"])]);
}

#[test]
fn a_bad_expression_is_refused_with_its_mistake() {
    let long = format!("{}0 * * * *", " ".repeat(250));
    let forms = "allowed are *, ranges such as a-b, steps such as */n, a-b/n or a/n, and lists with commas";
    let fields = "five fields (minute, hour, day of month, month, day of week), or six with seconds first";
    let value =
        |item: &str, field: &str, values: &str| format!("has {item:?} as its {field}: values are {values}; {forms}");
    let weekdays = "0 to 7 (0 and 7 are Sunday), SUN to SAT";
    let nicknames = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually";
    let cases = [
        ("", format!("must not be empty: write {fields}")),
        (" \t", format!("must not be empty: write {fields}")),
        ("daily", format!("has 1 field: write {fields}")),
        ("* * * *", format!("has 4 fields: write {fields}")),
        ("0 0 0 1 1 * 2026", format!("has 7 fields: write {fields}")),
        (&long, "has 259 bytes; at most 255 are allowed".to_owned()),
        (
            "@reboot",
            format!(
                "\"@reboot\" is not supported, because a schedule is not tied to one machine: use one of {nicknames}"
            ),
        ),
        ("@fortnightly", format!("\"@fortnightly\" is not one of {nicknames}")),
        ("@daily *", format!("has 2 fields: write {fields}")),
        // Values.
        ("60 * * * * *", value("60", "second", "0 to 59")),
        ("60 * * * *", value("60", "minute", "0 to 59")),
        ("0 24 * * *", value("24", "hour", "0 to 23")),
        ("0 0 0 * *", value("0", "day of month", "1 to 31, L for the last day")),
        ("0 0 32 * *", value("32", "day of month", "1 to 31, L for the last day")),
        ("0 0 1 13 *", value("13", "month", "1 to 12, JAN to DEC")),
        ("0 0 1 0-3 *", value("0-3", "month", "1 to 12, JAN to DEC")),
        ("0 0 1 MON *", value("MON", "month", "1 to 12, JAN to DEC")),
        ("0 0 1 janu *", value("janu", "month", "1 to 12, JAN to DEC")),
        ("0 0 * * 8", value("8", "day of week", weekdays)),
        ("0 0 * * MON#1", value("MON#1", "day of week", weekdays)),
        ("0 0 ? * MON", value("?", "day of month", "1 to 31, L for the last day")),
        ("-1 * * * *", value("-1", "minute", "0 to 59")),
        ("+1 * * * *", value("+1", "minute", "0 to 59")),
        ("1- * * * *", value("1-", "minute", "0 to 59")),
        ("1-2-3 * * * *", value("1-2-3", "minute", "0 to 59")),
        ("*5 * * * *", value("*5", "minute", "0 to 59")),
        ("*-5 * * * *", value("*-5", "minute", "0 to 59")),
        ("99999999999999999999 * * * *", value("99999999999999999999", "minute", "0 to 59")),
        ("0 0 * * *\n", value("*\n", "day of week", weekdays)),
        ("١ * * * *", value("١", "minute", "0 to 59")),
        // Lists, ranges, steps, the last day.
        ("1,,2 * * * *", "has \"\" as its minute: an item of the list is missing".to_owned()),
        ("1, 2 * * * *", "has \"\" as its second: an item of the list is missing".to_owned()),
        (
            "50-10 * * * *",
            "has \"50-10\" as its minute: a range must ascend; write \"50-59,0-10\" to wrap around".to_owned(),
        ),
        (
            "0 0 1 NOV-FEB *",
            "has \"NOV-FEB\" as its month: a range must ascend; write \"NOV-12,1-FEB\" to wrap around".to_owned(),
        ),
        ("*/0 * * * *", "has \"*/0\" as its minute: a step is a number from 1 to 60".to_owned()),
        ("*/90 * * * *", "has \"*/90\" as its minute: a step is a number from 1 to 60".to_owned()),
        ("*/ * * * *", "has \"*/\" as its minute: a step is a number from 1 to 60".to_owned()),
        ("*/5/5 * * * *", "has \"*/5/5\" as its minute: a step is a number from 1 to 60".to_owned()),
        ("0 0 * * */MON", "has \"*/MON\" as its day of week: a step is a number from 1 to 7".to_owned()),
        (
            "0 0 L-3 * *",
            "has \"L-3\" as its day of month: L can stand alone or in a list, but not in a range or with a step"
                .to_owned(),
        ),
        (
            "0 0 L/2 * *",
            "has \"L/2\" as its day of month: L can stand alone or in a list, but not in a range or with a step"
                .to_owned(),
        ),
        ("0 0 * * L", "has \"L\" as its day of week: L (the last day) is only for the day of month".to_owned()),
    ];
    for (text, problem) in cases {
        assert_eq!(text.parse::<Cron>().unwrap_err(), Invalid::new("cron", problem), "{text}");
    }
}

#[test]
fn an_expression_is_refused_exactly_when_no_date_matches_it() {
    let longest = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, days) in (1..).zip(longest) {
        for day in 1..=31 {
            let text = format!("0 0 {day} {month} *");
            match text.parse::<Cron>() {
                Ok(found) => {
                    assert!(day <= days, "{text}");
                    assert!(found.next(&Zone::utc(), time("2096-03-01T00:00:00Z")).is_some(), "{text}");
                }
                Err(wrong) => {
                    assert!(day > days, "{text}");
                    let problem = format!("{text:?} never occurs: none of its months has any of its days");
                    assert_eq!(wrong, Invalid::new("cron", problem));
                }
            }
        }
    }
    for text in ["0 0 31 2,4,6,9,11 *", "0 0 30-31 FEB *", "5 0 0 30,31 2 */2", "* * 31 4/5 *"] {
        assert!(text.parse::<Cron>().unwrap_err().problem.contains("never occurs"), "{text}");
    }
    for text in ["0 0 31 2,3 *", "0 0 30,L 2 *", "0 0 30 2 MON", "0 0 29 2 */7", "0 0 */31 2 SUN"] {
        assert!(cron(text).next(&Zone::utc(), time("2096-03-01T00:00:00Z")).is_some(), "{text}");
    }
}

/// The expression, the zone, an instant, and the local times of the ticks after it.
type Change = (&'static str, &'static str, &'static str, &'static [&'static str]);

fn assert_changes(cases: &[Change]) {
    for (text, zone, after, expected) in cases {
        assert_eq!(ticks(text, zone, after, expected.len()), *expected, "{text} in {zone} after {after}");
    }
}

#[test]
fn a_skipped_time_ticks_once_right_after_the_gap() {
    assert_changes(&[
        // Berlin goes from 02:00 to 03:00 on 29 March.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            &["2026-03-28 02:30+01", "2026-03-29 03:00+02", "2026-03-30 02:30+02"],
        ),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", &["2026-03-29 03:00+02", "2026-03-30 02:00+02"]),
        (
            "*/20 1-3 * * *",
            "Europe/Berlin",
            "2026-03-29T00:30:00Z",
            &["2026-03-29 01:40+01", "2026-03-29 03:00+02", "2026-03-29 03:20+02", "2026-03-29 03:40+02"],
        ),
        ("15 30 2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", &["2026-03-29 03:00+02", "2026-03-30 02:30:15+02"]),
        ("30 2 29 3 *", "Europe/Berlin", "2026-01-01T00:00:00Z", &["2026-03-29 03:00+02", "2027-03-29 02:30+02"]),
        // Right before, at and right after the instant of the change, which is 01:00 in UTC.
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:59.999999Z", &["2026-03-29 03:00+02"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", &["2026-03-30 02:30+02"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00.000001Z", &["2026-03-30 02:30+02"]),
        ("30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", &["2026-03-08 03:00-04", "2026-03-09 02:30-04"]),
        // Half an hour, from 02:00 to 02:30.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", &["2026-10-04 02:30+11", "2026-10-05 02:15+11"]),
        ("45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", &["2026-10-04 02:45+11", "2026-10-05 02:45+11"]),
        // Days that begin at 01:00.
        ("@daily", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["2018-11-04 01:00-02", "2018-11-05 00:00-02"]),
        ("0 */24 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["2018-11-04 01:00-02", "2018-11-05 00:00-02"]),
        ("30 0 4 11 *", "America/Sao_Paulo", "2018-01-01T00:00:00Z", &["2018-11-04 01:00-02", "2019-11-04 00:30-03"]),
        ("@daily", "Asia/Beirut", "2026-03-28T12:00:00Z", &["2026-03-29 01:00+03", "2026-03-30 00:00+03"]),
        // A whole day.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00:00Z",
            &["2011-12-29 12:00-10", "2011-12-31 00:00+14", "2011-12-31 12:00+14"],
        ),
    ]);
}

#[test]
fn a_repeated_time_ticks_the_first_time() {
    assert_changes(&[
        // Berlin goes from 03:00 back to 02:00 on 25 October, at 01:00 in UTC.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25 02:30+02", "2026-10-26 02:30+01"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["2026-10-26 02:30+01"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:59:59Z", &["2026-10-26 02:30+01"]),
        (
            "*/30 1-3 * * *",
            "Europe/Berlin",
            "2026-10-24T23:50:00Z",
            &[
                "2026-10-25 02:00+02",
                "2026-10-25 02:30+02",
                "2026-10-25 03:00+01",
                "2026-10-25 03:30+01",
                "2026-10-26 01:00+01",
            ],
        ),
        (
            "0 1,2 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            &["2026-11-01 01:00-04", "2026-11-01 02:00-05", "2026-11-02 01:00-05"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T12:00:00Z",
            &["2026-04-05 01:45+11", "2026-04-06 01:45+10:30"],
        ),
        // The last hour of a day occurs twice, then midnight once.
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00Z", &["2018-02-17 23:30-02", "2018-02-18 23:30-03"]),
        ("@daily", "America/Sao_Paulo", "2018-02-17T12:00:00Z", &["2018-02-18 00:00-03", "2018-02-19 00:00-03"]),
        ("@daily", "Asia/Beirut", "2026-10-24T12:00:00Z", &["2026-10-25 00:00+02", "2026-10-26 00:00+02"]),
        // A whole day that occurred twice.
        ("0 12 * * *", "Pacific/Kwajalein", "1969-09-29T12:00:00Z", &["1969-09-30 12:00+11", "1969-10-01 12:00-12"]),
    ]);
}

#[test]
fn an_expression_that_runs_all_day_follows_the_clocks() {
    assert_changes(&[
        (
            "@hourly",
            "Europe/Berlin",
            "2026-03-28T23:30:00Z",
            &["2026-03-29 01:00+01", "2026-03-29 03:00+02", "2026-03-29 04:00+02"],
        ),
        ("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-29 01:30+01", "2026-03-29 03:30+02"]),
        ("30 0-23 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-29 01:30+01", "2026-03-29 03:30+02"]),
        ("30 */2 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", &["2026-03-29 00:30+01", "2026-03-29 04:30+02"]),
        ("30 2/4 * * *", "Europe/Berlin", "2026-03-28T23:00:00Z", &["2026-03-29 06:30+02", "2026-03-29 10:30+02"]),
        (
            "@hourly",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            &["2026-10-25 02:00+02", "2026-10-25 02:00+01", "2026-10-25 03:00+01"],
        ),
        (
            "30 */2 * * *",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            &["2026-10-25 02:30+02", "2026-10-25 02:30+01", "2026-10-25 04:30+01"],
        ),
        // The repeated hour has the last match of the year.
        ("10 1-2/1 25 10 *", "Europe/Berlin", "2026-10-25T00:30:00Z", &["2026-10-25 02:10+01", "2027-10-25 01:10+02"]),
        (
            "*/40 * * * *",
            "America/New_York",
            "2026-11-01T05:30:00Z",
            &["2026-11-01 01:40-04", "2026-11-01 01:00-05", "2026-11-01 01:40-05", "2026-11-01 02:00-05"],
        ),
        ("*/30 * * * *", "America/New_York", "2026-03-08T06:00:00Z", &["2026-03-08 01:30-05", "2026-03-08 03:00-04"]),
        (
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-10-03T15:10:00Z",
            &["2026-10-04 01:45+10:30", "2026-10-04 02:30+11", "2026-10-04 02:45+11"],
        ),
        (
            "*/15 * * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:40:00Z",
            &["2026-04-05 01:45+11", "2026-04-05 01:30+10:30", "2026-04-05 01:45+10:30", "2026-04-05 02:00+10:30"],
        ),
        ("@hourly", "America/Sao_Paulo", "2018-11-04T01:30:00Z", &["2018-11-03 23:00-03", "2018-11-04 01:00-02"]),
        (
            "@hourly",
            "Asia/Beirut",
            "2026-10-24T19:30:00Z",
            &["2026-10-24 23:00+03", "2026-10-24 23:00+02", "2026-10-25 00:00+02"],
        ),
        (
            "30 * * * * *",
            "Europe/Berlin",
            "2026-03-29T00:59:00Z",
            &["2026-03-29 01:59:30+01", "2026-03-29 03:00:30+02"],
        ),
    ]);
}

#[test]
fn ticks_continue_until_the_calendar_ends() {
    let berlin = Zone::new("Europe/Berlin").unwrap();
    let leap_years = (2000..=9999).filter(|year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)).count();
    let leap = cron("0 0 29 2 *").ticks(&berlin, time("2000-01-01T00:00:00Z"), Time::NEVER, leap_years + 1);
    assert_eq!(leap.len(), leap_years);
    assert_eq!(leap.last(), Some(&time("9996-02-28T23:00:00Z")));

    let last = cron("@yearly").next(&berlin, time("9998-06-01T00:00:00Z"));
    assert_eq!(last, Some(time("9998-12-31T23:00:00Z")));
    for after in [last.unwrap(), time("9999-12-30T00:00:00Z"), Time::NEVER] {
        assert_eq!(cron("@yearly").next(&berlin, after), None, "{after}");
    }
    assert!(cron("* * * * * *").next(&berlin, Time::MIN).is_some());
}

#[test]
fn ticks_are_bounded_by_both_instants_and_the_limit() {
    let hourly = |after: &str, until: &str, limit: usize| {
        let ticks = cron("@hourly").ticks(&Zone::utc(), time(after), time(until), limit);
        ticks.iter().map(|tick| tick.micros() / 3_600_000_000 % 24).collect::<Vec<i64>>()
    };
    assert_eq!(hourly("2026-11-15T10:00:00Z", "2026-11-15T12:00:00Z", 9), [11, 12]);
    assert_eq!(hourly("2026-11-15T09:59:59.999999Z", "2026-11-15T11:59:59.999999Z", 9), [10, 11]);
    assert_eq!(hourly("2026-11-15T10:00:00Z", "2026-11-15T20:00:00Z", 3), [11, 12, 13]);
    assert_eq!(hourly("2026-11-15T10:00:00Z", "2026-11-15T20:00:00Z", 0), [0; 0]);
    assert_eq!(hourly("2026-11-15T10:00:00Z", "2026-11-15T10:00:00Z", 9), [0; 0]);
    assert_eq!(hourly("2026-11-15T10:00:00Z", "2026-11-14T10:00:00Z", 9), [0; 0]);
}

#[test]
fn an_unknown_zone_has_no_ticks() {
    let unknown: Zone = serde_json::from_str("\"Mars/Olympus\"").unwrap();
    assert_eq!(cron("@daily").next(&unknown, time("2026-01-01T00:00:00Z")), None);
    assert_eq!(cron("@daily").ticks(&unknown, time("2026-01-01T00:00:00Z"), Time::NEVER, 3), []);
    assert_eq!(unknown.check(), Err(Zone::new("Mars/Olympus").unwrap_err()));
    assert_eq!(Zone::utc().check(), Ok(()));
}

#[test]
fn an_expression_is_stored_as_its_text() {
    let written = cron("0 9 * * MON-FRI");
    assert_eq!(written.to_string(), "0 9 * * MON-FRI");
    assert_eq!(format!("{written:?}"), "\"0 9 * * MON-FRI\"");
    let stored = serde_json::to_string(&written).unwrap();
    assert_eq!(stored, "\"0 9 * * MON-FRI\"");
    assert_eq!(serde_json::from_str::<Cron>(&stored).unwrap(), written);
    assert_ne!(cron("@daily"), cron("0 0 * * *"));
    let wrong = serde_json::from_str::<Cron>("\"0 9 30 2 *\"").unwrap_err().to_string();
    assert!(wrong.contains("cron \"0 9 30 2 *\" never occurs"), "{wrong}");
}
