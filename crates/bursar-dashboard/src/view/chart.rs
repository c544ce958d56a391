//! Charts as SVG, drawn by the server: they need no script, and their colours follow the theme.

use bursar_core::time::{Span, Time};
use maud::{Markup, html};

/// The width and height of a plot in its own units; the browser stretches it.
const WIDTH: i64 = 600;
const HEIGHT: i64 = 100;
/// The widest column.
const COLUMN_MAX: i64 = 24;

/// Values that are stacked upon each other.
pub(crate) struct Series {
    pub(crate) name: String,
    /// The class that gives it its colour.
    pub(crate) class: &'static str,
    pub(crate) values: Vec<i64>,
}

/// The ranges that a chart of minutes can show. It shows the shortest one that has all activity.
const RANGES: [usize; 3] = [10, 30, 60];

/// Shows series by minute as stacked columns. The right end is now.
pub(crate) fn columns(title: &str, meta: &str, series: &[Series], format: &dyn Fn(i64) -> String) -> Markup {
    let known = series.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let active = (0..known).find(|step| series.iter().any(|series| value(series, *step) > 0));
    let needed = known - active.unwrap_or(known);
    let steps = RANGES.into_iter().find(|range| *range >= needed).unwrap_or(known);
    let series: Vec<Series> = series.iter().map(|series| series.last(steps)).collect();
    let total = |step: usize| series.iter().map(|series| value(series, step)).fold(0, i64::saturating_add);
    let top = nice((0..steps).map(total).max().unwrap_or(0));
    html! {
        figure.chart {
            figcaption.chart-head {
                h2 { (title) }
                span.meta { (meta) }
                span.legend { @for series in &series { (key(&series.name, series.class)) } }
            }
            div.chart-body {
                div.chart-y aria-hidden="true" { span { (format(top)) } span { (format(top / 2)) } span { (format(0)) } }
                div.chart-plot {
                    svg viewBox=(view_box()) preserveAspectRatio="none" role="img" aria-label=(summary(title, &series, format)) {
                        (grid())
                        @for step in 0..steps { (column(&series, step, steps, top, format)) }
                    }
                }
                div.chart-x aria-hidden="true" { span { (steps) " min ago" } span { "now" } }
            }
        }
    }
}

impl Series {
    /// Returns the last values, with zeros in front if there are fewer.
    fn last(&self, count: usize) -> Series {
        let missing = count.saturating_sub(self.values.len());
        let kept = self.values.iter().skip(self.values.len().saturating_sub(count)).copied();
        let values = std::iter::repeat_n(0, missing).chain(kept).collect();
        Series { name: self.name.clone(), class: self.class, values }
    }
}

fn value(series: &Series, step: usize) -> i64 {
    series.values.get(step).copied().unwrap_or(0).max(0)
}

fn column(series: &[Series], step: usize, steps: usize, top: i64, format: &dyn Fn(i64) -> String) -> Markup {
    let (left, width) = (step as i64 * WIDTH / steps as i64, (WIDTH / steps as i64).max(1));
    // Few columns stay slender.
    let drawn = (width - 1).clamp(1, COLUMN_MAX);
    let drawn_left = left + (width - drawn) / 2;
    let mut below = HEIGHT;
    let mut parts = Vec::new();
    for series in series {
        let amount = value(series, step);
        let height = scaled(amount, top);
        // What is not zero is visible.
        let height = if amount > 0 { height.max(1) } else { 0 };
        below -= height;
        if height > 0 {
            parts.push(html! { rect class=(series.class) x=(drawn_left) y=(below) width=(drawn) height=(height) {} });
        }
    }
    let text: Vec<String> =
        series.iter().map(|series| format!("{} {}", series.name, format(value(series, step)))).collect();
    html! {
        @for part in parts { (part) }
        rect.hit x=(left) y="0" width=(width) height=(HEIGHT) { title { (ago(steps - 1 - step)) ": " (text.join(", ")) } }
    }
}

fn ago(minutes: usize) -> String {
    if minutes == 0 { "this minute".to_owned() } else { format!("{minutes} min ago") }
}

fn view_box() -> String {
    format!("0 0 {WIDTH} {HEIGHT}")
}

fn grid() -> Markup {
    html! { @for y in [0, HEIGHT / 2, HEIGHT] { line.l-grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {} } }
}

fn key(name: &str, class: &str) -> Markup {
    html! { span.key { svg viewBox="0 0 12 12" aria-hidden="true" { rect class=(class) width="12" height="12" rx="2" {} } (name) } }
}

fn summary(title: &str, series: &[Series], format: &dyn Fn(i64) -> String) -> String {
    let sums: Vec<String> = series
        .iter()
        .map(|series| {
            let sum = series.values.iter().copied().fold(0, i64::saturating_add);
            format!("{} {}", series.name, format(sum))
        })
        .collect();
    format!("{title}: {}", sums.join(", "))
}

fn scaled(amount: i64, top: i64) -> i64 {
    if top <= 0 { 0 } else { (i128::from(amount) * i128::from(HEIGHT) / i128::from(top)) as i64 }
}

/// Returns the next number that an axis can end at: 1, 2, 2.5 or 5 times a power of ten, even if possible.
fn nice(most: i64) -> i64 {
    let mut power: i64 = 1;
    loop {
        for (times, by) in [(1, 1), (2, 1), (5, 2), (4, 1), (5, 1), (10, 1)] {
            let candidate = power.saturating_mul(times) / by;
            if candidate >= most.max(2) && candidate >= 2 {
                return candidate;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Shows values as a small area, for a table cell.
pub(crate) fn spark(values: &[i64], label: &str) -> Markup {
    let top = values.iter().copied().max().unwrap_or(0).max(1);
    let last = values.len().saturating_sub(1).max(1) as i64;
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(step, amount)| format!("{} {}", step as i64 * 96 / last, 19 - (*amount).max(0).saturating_mul(18) / top))
        .collect();
    let line = format!("M{}", points.join("L"));
    html! {
        svg.spark viewBox="0 0 96 20" preserveAspectRatio="none" role="img" aria-label=(label) {
            @if values.len() > 1 {
                path.s-posted-area d={ (line) "L96 20L0 20Z" } {}
                path.s-posted-line d=(line) {}
            }
        }
    }
}

/// The time over which the present rate is taken.
pub(crate) const RATE_OVER: Span = Span::from_secs(600);

/// What a burn chart shows: cumulative spend over a window with its limit.
pub(crate) struct Burn {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) now: Time,
    /// What was spent in each of equal steps from `start` to `now`; `None` if unknown.
    pub(crate) steps: Vec<Option<i64>>,
    /// What was spent in the last [`RATE_OVER`].
    pub(crate) lately: i64,
    /// What is posted now.
    pub(crate) posted: i64,
    pub(crate) held: i64,
    pub(crate) limit: i64,
}

impl Burn {
    /// Returns when the limit is reached if spending goes on as lately; `None` if not before the end of the window.
    pub(crate) fn reaches_limit_at(&self) -> Option<Time> {
        if self.posted >= self.limit {
            return Some(self.now);
        }
        let rate = self.rate_per_second()?;
        let left = i128::from(self.limit - self.posted) * 1_000_000_000_000;
        let micros = i64::try_from(left / rate.max(1)).ok()?;
        let at = Time::from_micros(self.now.micros().checked_add(micros)?);
        (at < self.end).then_some(at)
    }

    /// Returns whether the window ends now, so that its past leaves it while time goes on and no forecast is made.
    pub(crate) fn slides(&self) -> bool {
        self.end <= self.now
    }

    /// Returns the present rate in millionths of a unit per second; `None` if nothing was spent lately.
    fn rate_per_second(&self) -> Option<i128> {
        let seconds = i128::from(RATE_OVER.micros()) / 1_000_000;
        (self.lately > 0).then(|| i128::from(self.lately) * 1_000_000 / seconds)
    }

    /// Returns the cumulative spend at the end of each step. It ends at what is posted; what is unknown is taken as spent at the start.
    fn cumulative(&self) -> Vec<i64> {
        let mut at = self.posted;
        let mut points = vec![at];
        for step in self.steps.iter().rev() {
            at = at.saturating_sub(step.unwrap_or(0));
            points.push(at.max(0));
        }
        points.reverse();
        points
    }
}

/// Shows cumulative spend over a window, its limit, and the forecast.
pub(crate) fn burn(burn: &Burn, picker: &Markup, format: &dyn Fn(i64) -> String, start: &str, end: &str) -> Markup {
    let top = nice(burn.limit.max(burn.posted.saturating_add(burn.held)));
    let length = i128::from(burn.end.since(burn.start).micros()).max(1);
    let x = |at: Time| {
        (i128::from(at.since(burn.start).micros()) * i128::from(WIDTH) / length).clamp(0, WIDTH.into()) as i64
    };
    let y = |amount: i64| HEIGHT - scaled(amount.clamp(0, top), top);
    let points = burn.cumulative();
    let (now_x, last) = (x(burn.now), points.len().saturating_sub(1).max(1) as i64);
    let place = |step: usize, amount: i64| format!("{} {}", step as i64 * now_x / last, y(amount));
    let line: Vec<String> = points.iter().enumerate().map(|(step, amount)| place(step, *amount)).collect();
    let line = format!("M{}", line.join("L"));
    let forecast = burn.reaches_limit_at().filter(|at| *at > burn.now);
    let forecast_end = match (forecast, burn.rate_per_second()) {
        (Some(at), _) => Some((x(at), y(burn.limit))),
        (None, Some(rate)) if burn.posted < burn.limit && !burn.slides() => {
            let seconds = i128::from(burn.end.since(burn.now).micros()) / 1_000_000;
            let more = i64::try_from(rate * seconds / 1_000_000).unwrap_or(i64::MAX);
            Some((WIDTH, y(burn.posted.saturating_add(more))))
        }
        _ => None,
    };
    let label = format!("{} of {} spent", format(burn.posted), format(burn.limit));
    html! {
        figure.chart.is-tall {
            figcaption.chart-head {
                h2 { "Spend over the window" }
                (picker)
                span.legend {
                    (key("posted", "s-posted"))
                    @if forecast_end.is_some() { (line_key("forecast", "s-forecast")) }
                    (line_key("limit", "s-cap"))
                }
            }
            div.chart-body {
                div.chart-y aria-hidden="true" { span { (format(top)) } span { (format(top / 2)) } span { (format(0)) } }
                div.chart-plot {
                    svg viewBox=(view_box()) preserveAspectRatio="none" role="img" aria-label=(label) {
                        (grid())
                        path.s-posted-area d={ (line) "L" (now_x) " " (HEIGHT) "L0 " (HEIGHT) "Z" } {}
                        path.s-posted-line d=(line) {}
                        line.l-now x1=(now_x) x2=(now_x) y1="0" y2=(HEIGHT) {}
                        @if let Some((to_x, to_y)) = forecast_end {
                            path.s-forecast d={ "M" (now_x) " " (y(burn.posted)) "L" (to_x) " " (to_y) } {}
                        }
                        path.s-cap d={ "M0 " (y(burn.limit)) "L" (WIDTH) " " (y(burn.limit)) } {}
                    }
                }
                div.chart-x aria-hidden="true" { span { (start) } span { (end) } }
            }
        }
    }
}

fn line_key(name: &str, class: &str) -> Markup {
    html! { span.key { svg viewBox="0 0 12 12" aria-hidden="true" { path class=(class) d="M0 6L12 6" {} } (name) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0, 1, 3, 7, 11, 23, 49, 51, 99, 101, 1_234_567].map(nice);
        assert_eq!(ends, [2, 2, 4, 10, 20, 25, 50, 100, 100, 200, 2_000_000]);
        assert_eq!(nice(i64::MAX), i64::MAX);
    }

    #[test]
    fn a_chart_shows_the_shortest_range_with_all_activity() {
        let shown = |active: usize| {
            let mut values = vec![0; 60];
            values[60 - active] = 1;
            let series = Series { name: "done".to_owned(), class: "s-done", values };
            columns("Jobs", "", &[series], &|count| count.to_string()).into_string()
        };
        for (active, range) in [(1, 10), (10, 10), (11, 30), (31, 60), (60, 60)] {
            assert!(shown(active).contains(&format!(">{range} min ago</span>")), "{active}");
        }
    }

    fn burning(steps: Vec<Option<i64>>, posted: i64, lately: i64) -> Burn {
        let at = |hours: i64| Time::from_micros(hours * 3_600_000_000);
        Burn { start: at(0), end: at(100), now: at(40), steps, lately, posted, held: 0, limit: 1_000 }
    }

    #[test]
    fn the_forecast_goes_on_at_the_present_rate() {
        // 10 units in ten minutes are 60 in an hour: 600 more take 10 hours.
        let at = burning(Vec::new(), 400, 10).reaches_limit_at().expect("before the end");
        assert_eq!(at.micros() / 3_600_000_000, 50);
        assert_eq!(burning(Vec::new(), 400, 1).reaches_limit_at(), None, "100 hours are after the end");
        assert_eq!(burning(Vec::new(), 400, 0).reaches_limit_at(), None);
        let over = burning(Vec::new(), 1_500, 1);
        assert_eq!(over.reaches_limit_at(), Some(over.now));
    }

    #[test]
    fn cumulative_spend_ends_at_what_is_posted() {
        assert_eq!(burning(vec![None, Some(5), Some(7)], 30, 0).cumulative(), [18, 18, 23, 30]);
    }
}
