//! Where spans are sent, from the settings and the standard variables of OpenTelemetry.

use bursar_server::OtlpSettings;
use bursar_wire::problem::Problem;

use super::{Assignment, Config, Loaded, Origin, Secret, Variable, settings};

/// The value of an address that stands for no export.
pub(super) const NONE: &str = "none";
/// The variables of OpenTelemetry that Bursar reads, with the setting that each gives a value. The settings of Bursar take precedence.
const VARIABLES: [(&str, &str); 5] = [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp.endpoint"),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "otlp.traces_endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "otlp.headers"),
    ("OTEL_SERVICE_NAME", "otlp.service_name"),
    ("OTEL_TRACES_SAMPLER_ARG", "otlp.sample"),
];

/// Where spans are sent.
#[derive(Debug)]
pub(crate) struct Otlp {
    pub(crate) endpoint: Option<String>,
    pub(crate) traces_endpoint: Option<String>,
    pub(crate) headers: Option<Secret>,
    pub(crate) sample: f64,
    pub(crate) service_name: Option<String>,
}

impl Default for Otlp {
    fn default() -> Otlp {
        Otlp { endpoint: None, traces_endpoint: None, headers: None, sample: 1.0, service_name: None }
    }
}

impl Config {
    /// Returns where a server sends its spans; `None` if it exports none.
    pub(super) fn otlp(&self) -> Result<Option<OtlpSettings>, Problem> {
        let invalid = |name: &str, error| Problem::invalid(name.to_owned(), format!("{name} {error}"));
        let (endpoint, traces_endpoint) = (self.otlp.endpoint.as_deref(), self.otlp.traces_endpoint.as_deref());
        let made = match (endpoint, traces_endpoint) {
            (Some(NONE), _) | (_, Some(NONE)) | (None, None) => return Ok(None),
            (_, Some(address)) => OtlpSettings::at(address).map_err(|error| invalid("otlp.traces_endpoint", error))?,
            (Some(endpoint), None) => OtlpSettings::new(endpoint).map_err(|error| invalid("otlp.endpoint", error))?,
        };
        let headers = self.otlp.headers.as_ref().map_or("", Secret::reveal);
        let mut made = made.with_headers(headers).map_err(|error| invalid("otlp.headers", error))?;
        made.sample = self.otlp.sample;
        if let Some(name) = &self.otlp.service_name {
            made.service_name.clone_from(name);
        }
        Ok(Some(made))
    }
}

impl Loaded {
    /// Drops the full address of OpenTelemetry's variable if a setting of Bursar names the receiver.
    pub(super) fn prefer_own_receiver(&mut self) {
        let origin = |name: &str| {
            let place = settings().iter().position(|setting| setting.name == name).expect("the table has the setting");
            (place, self.origins[place].clone())
        };
        let is_standard = |origin: &Origin| matches!(origin, Origin::Environment(variable, _) if is_variable(variable));
        let ((_, endpoint), (place, full)) = (origin("otlp.endpoint"), origin("otlp.traces_endpoint"));
        if is_standard(&full) && endpoint != Origin::Default && !is_standard(&endpoint) {
            self.config.otlp.traces_endpoint = None;
            self.origins[place] = Origin::Default;
        }
    }
}

/// Returns whether a text is a list of headers.
pub(super) fn are_headers(text: &str) -> bool {
    OtlpSettings::at("http://localhost").is_ok_and(|settings| settings.with_headers(text).is_ok())
}

/// Returns whether a variable is one of those of OpenTelemetry that Bursar reads.
pub(super) fn is_variable(name: &str) -> bool {
    VARIABLES.iter().any(|(variable, _)| *variable == name)
}

/// Returns the values of the variables of OpenTelemetry, and the names of those that are invalid. They are meant for many programs, so an
/// invalid one does not keep this one from starting.
pub(super) fn assignments(variables: &[Variable]) -> (Vec<Assignment>, Vec<String>) {
    let (mut assignments, mut invalid) = (Vec::new(), Vec::new());
    for (variable, setting) in VARIABLES {
        let Some((_, value)) = variables.iter().find(|(name, _)| name == variable) else { continue };
        let setting = settings().iter().position(|known| known.name == setting).expect("the table has the setting");
        match value {
            // An empty variable counts as unset.
            Some(text) if text.is_empty() => {}
            Some(text) if settings()[setting].kind.put(&mut Config::default(), text).is_ok() => {
                let origin = Origin::Environment(variable.to_owned(), None);
                assignments.push(Assignment { setting, text: text.clone(), origin });
            }
            _ => invalid.push(variable.to_owned()),
        }
    }
    (assignments, invalid)
}
