//! Precedence of the sources, and errors of the configuration.

use std::path::PathBuf;

use bursar::meter::{MeterSettings, OnFailure, Signed};
use bursar::{Span, Tenant};

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns the error of a configuration file, without the folder in it.
    fn error(&self, text: &str) -> String {
        let path = self.file("bursar.toml", text);
        let detail = load_from(Some(&path), &[], &Flags::default()).unwrap_err().detail;
        detail.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn variables(pairs: &[(&str, &str)]) -> Vec<Variable> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
}

fn shown(loaded: &mut Loaded, name: &str) -> (Option<String>, String) {
    let index = settings().iter().position(|setting| setting.name == name).unwrap();
    (settings()[index].kind.show(&mut loaded.config), loaded.origins[index].to_string())
}

const TOKEN: &str = "a token of more than thirty-two characters";

#[test]
fn later_sources_take_precedence_and_origins_are_recorded() {
    let folder = Folder::new();
    let toml = "database = \"sqlite:///a.db\"\nlisten = \"127.0.0.1:1\"\n\n[limits]\nrequests = 5\nbody_ms = 1_000\n\n\
        [log]\nformat = \"json\"\n";
    let path = folder.file("bursar.toml", toml);
    let env = variables(&[("BURSAR_LISTEN", "127.0.0.1:2"), ("BURSAR_LIMITS_REQUESTS", "6"), ("BURSAR_URL", "x")]);
    let flags = Flags::default().with("listen", Some("127.0.0.1:3"));
    let mut loaded = load_from(Some(&path), &env, &flags).unwrap();
    let file = path.display().to_string();
    for (name, value, from) in [
        ("database", "sqlite:///a.db", format!("{file}:1")),
        ("listen", "127.0.0.1:3", "--listen".to_owned()),
        ("limits.requests", "6", "BURSAR_LIMITS_REQUESTS".to_owned()),
        ("limits.body_ms", "1000", format!("{file}:6")),
        ("log.format", "json", format!("{file}:9")),
        ("limits.waiting", "10000", "default".to_owned()),
    ] {
        assert_eq!(shown(&mut loaded, name), (Some(value.to_owned()), from), "{name}");
    }
    assert_eq!(loaded.unknown, ["BURSAR_URL"]);
    assert_eq!((loaded.config.limits.requests, loaded.config.log.json), (6, true));
}

#[test]
fn errors_of_the_file_name_the_line_and_the_allowed_values() {
    let folder = Folder::new();
    for (text, expected) in [
        ("\nlisten = \"here\"", "bursar.toml:2: listen is \"here\"; it must be an address such as 127.0.0.1:7440"),
        (
            "[limits]\nrequests = 0",
            "bursar.toml:2: limits.requests is \"0\"; it must be a whole number from 1 to 1000000",
        ),
        ("[limits]\nrequests = \"5\"", "bursar.toml:2: limits.requests must be an integer: a whole number from 1"),
        ("[limits]\nbody_ms = 99999999999999999999", "bursar.toml:2: limits.body_ms is"),
        (
            "[limits]\n\nrequest = 5",
            "bursar.toml:3: limits.request is not a setting; the settings here are limits.connections",
        ),
        (
            "[limit]\nrequests = 5",
            "bursar.toml:1: [limit] is not a table of settings; the tables are jwt, log, otlp, limits",
        ),
        ("\n[metre]\n", "bursar.toml:2: [metre] is not a table of settings"),
        ("[limits.requests]\nmost = 5", "bursar.toml:1: limits.requests must be an integer"),
        ("limits = 5", "bursar.toml:1: limits is not a setting"),
        ("databse = \"x\"", "bursar.toml:1: databse is not a setting; the settings here are database, listen"),
        ("database = \"mysql://x\"", "bursar.toml:1: database must be sqlite://PATH or postgres://…"),
        ("migrate = 1", "bursar.toml:1: migrate must be true or false"),
        ("[jwt]\njwks_url = \"http://id.example/\"", "bursar.toml:2: jwt.jwks_url must be https://…, or http://… on a"),
        ("[log]\nlevel = \"loud\"", "bursar.toml:2: log.level is \"loud\"; it must be a level"),
        ("[log]\nformat = \"xml\"", "bursar.toml:2: log.format is \"xml\"; it must be text or json"),
        (
            "[rules]\ntenants_kept = \"acme.jobs=1d\"",
            "bursar.toml:2: rules.tenants_kept has \"acme.jobs=1d\"; an item is TENANT.KIND=DURATION",
        ),
        (
            "[rules]\ntenants_kept = \"acme.costs=1h\"",
            "bursar.toml:2: rules.tenants_kept has \"acme.costs=1h\"; costs are kept for ",
        ),
        (
            "[rules]\ntenants_kept = \"acme.holds=1d, acme.holds=2d\"",
            "bursar.toml:2: rules.tenants_kept has \"acme.holds=2d\" after another time for the same rows",
        ),
        ("a = \n", "bursar.toml:1: "),
        ("operator_token_file = \"gone\"", "bursar.toml:1: operator_token_file: gone cannot be read"),
        ("listen = \"127.0.0.1:1\"\nlisten_file = \"bursar.toml\"", "bursar.toml: set either listen or listen_file"),
    ] {
        let error = folder.error(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn rows_of_a_tenant_can_be_kept_for_another_time() {
    let folder = Folder::new();
    let text = "acme.holds=365d, a.b.grants=0s , acme.costs=1d";
    let path = folder.file("bursar.toml", &format!("[rules]\nholds_kept_ms = 60_000\ntenants_kept = \"{text}\"\n"));
    let mut loaded = load_from(Some(&path), &variables(&[]), &Flags::default()).unwrap();
    let rules = &loaded.config.rules.tenants_kept;
    let acme = &rules[&Tenant::new("acme").unwrap()];
    assert_eq!((acme.holds, acme.grants, acme.costs), (Some(Span::from_days(365)), None, Some(Span::from_days(1))));
    assert_eq!(rules[&Tenant::new("a.b").unwrap()].grants, Some(Span::ZERO));
    let value = "a.b.grants=0s, acme.holds=365d, acme.costs=1d".to_owned();
    assert_eq!(shown(&mut loaded, "rules.tenants_kept").0, Some(value));
}

#[test]
fn secrets_come_from_variables_or_files_and_are_never_shown() {
    let folder = Folder::new();
    for (text, expected) in [
        (format!("operator_token = \"{TOKEN}\""), "operator_token is a secret"),
        (format!("[jwt]\nsecret = \"{TOKEN}\""), "jwt.secret is a secret"),
        (format!("database = \"postgres://me:{TOKEN}@host/db\""), "database has a password in it"),
        (format!("operator_token = \"{TOKEN}"), "bursar.toml:1: "),
        (format!("operator_token = [\"{TOKEN}\"]"), "operator_token must be a string"),
    ] {
        let error = folder.error(&text);
        assert!(error.contains(expected) && !error.contains(TOKEN), "{error}");
    }
    let secret = folder.file("operator", &format!("{TOKEN}\n"));
    folder.file("bursar.toml", "operator_token_file = \"operator\"");
    let mut loaded = load_from(Some(&folder.0.path().join("bursar.toml")), &[], &Flags::default()).unwrap();
    let (value, from) = shown(&mut loaded, "operator_token");
    assert_eq!(
        (value.as_deref(), from.ends_with(&format!("({})", secret.display()))),
        (Some("(secret)"), true),
        "{from}"
    );
    assert_eq!(loaded.config.operator_token.as_ref().unwrap().reveal(), TOKEN);
    assert!(!format!("{loaded:?}").contains(TOKEN), "Debug must hide the token");

    let url = format!("postgres://me:{TOKEN}@host/db").replace(' ', "+");
    let loaded = load_from(None, &variables(&[("BURSAR_DATABASE", &url)]), &Flags::default()).unwrap();
    assert_eq!(loaded.config.database.url(), url);
    assert!(!format!("{loaded:?}").contains("thirty"), "{loaded:?}");
    let short = load_from(None, &variables(&[("BURSAR_OPERATOR_TOKEN", "short")]), &Flags::default()).unwrap_err();
    assert_eq!(short.detail, "BURSAR_OPERATOR_TOKEN: operator_token must be at least 32 characters");
    let file = secret.display().to_string();
    let both = variables(&[("BURSAR_OPERATOR_TOKEN", TOKEN), ("BURSAR_OPERATOR_TOKEN_FILE", &file)]);
    let both = load_from(None, &both, &Flags::default()).unwrap_err().detail;
    assert!(both.contains("not both") && !both.contains(TOKEN), "{both}");
}

#[test]
fn a_password_in_a_url_is_never_shown() {
    for (url, expected) in [
        ("postgres://me:secret@host:5432/db", "postgres://me:…@host:5432/db"),
        ("postgres://me:se@cret@host/db?sslmode=require", "postgres://me:…@host/db?sslmode=require"),
        ("postgres://me@host/db", "postgres://me@host/db"),
        ("postgres://host/db?user=me&password=secret", "postgres://host/db?…"),
        ("sqlite://a:b@c.db", "sqlite://a:…@c.db"),
        ("sqlite:///var/lib/a.db", "sqlite:///var/lib/a.db"),
    ] {
        assert_eq!(kind::without_password(url), expected);
    }
}

#[test]
fn every_setting_accepts_its_default_and_has_unique_names() {
    let mut names: Vec<String> = Vec::new();
    for setting in settings() {
        if let Some(default) = setting.default() {
            let mut config = Config::default();
            assert_eq!(setting.kind.put(&mut config, &default), Ok(()), "{}", setting.name);
            assert_eq!(setting.kind.show(&mut config), Some(default), "{}", setting.name);
        }
        names.extend([setting.variable(), format!("{}_FILE", setting.variable()), setting.flag()]);
        assert!(!setting.name.ends_with("_file"), "{}", setting.name);
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "two settings share a name");
}

#[test]
fn the_documentation_contains_the_settings_table() {
    let document = include_str!("../../../../docs/configuration.md");
    assert!(
        document.contains(&markdown()),
        "docs/configuration.md is out of date: replace its table with the output of `bursar config table`"
    );
}

#[test]
fn the_meter_table_is_read_and_checked() {
    let folder = Folder::new();
    let read = |text: &str| {
        let path = folder.file("bursar.toml", text);
        let file = path.display().to_string();
        load_from(Some(&path), &[], &Flags::default()).map_err(|problem| problem.detail.replace(&file, "FILE"))
    };
    let of = |loaded: &mut Loaded, name| {
        let (value, from) = shown(loaded, name);
        (value.unwrap(), from.rsplit('/').next().unwrap().to_owned())
    };
    let told = |value: &str, from: &str| (value.to_owned(), from.to_owned());
    let mut unset = read("").unwrap();
    assert_eq!(of(&mut unset, "meter.enabled"), told("false", "default"), "the server's meter is off by default");
    assert_eq!(of(&mut unset, "meter.quota"), told("10000:hour@UTC", "default"));
    let mut loaded = read("listen = \"127.0.0.1:1\"\n[meter]\nquota = [{ amount = 7, window = \"day\" }]\n").unwrap();
    assert_eq!(of(&mut loaded, "meter.enabled"), told("true", "bursar.toml:2"), "the table turns it on");
    assert_eq!(of(&mut loaded, "meter.quota"), told("7:day@UTC", "bursar.toml:3"));
    assert_eq!(of(&mut loaded, "meter.on_failure"), told("open", "default"));
    let quota = loaded.config.server("sqlite://bursar.db").unwrap().meter.unwrap().quota;
    assert_eq!((quota.len(), quota[0].amount), (1, 7));
    let signed = read("[meter]\nsigned = \"required\"\n[meter.signatures]\nauthorities = [\"a.example\"]\n").unwrap();
    let signed = signed.config.server("sqlite://bursar.db").unwrap().meter.unwrap();
    assert_eq!((signed.signed, &*signed.signatures.authorities[0]), (Signed::Required, "a.example"));
    let mut off = read("[meter]\nenabled = false\n").unwrap();
    assert_eq!(of(&mut off, "meter.enabled"), told("false", "bursar.toml:2"));
    for (text, expected) in [
        ("[meter]\nquta = []\n", "FILE:2: meter: unknown field `quta`"),
        ("[meter]\npatience_ms = 0\n", "FILE:1: meter.patience_ms: must be from 1 to 600000"),
        ("[meter]\nsigned = \"required\"\n", "FILE:1: meter.signatures.authorities: must name the hosts"),
        ("[meter.signatures]\nwindow = 1\n", "FILE:2: meter: unknown field `window`"),
    ] {
        let problem = read(text).err().unwrap();
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn the_meter_is_set_by_the_environment_and_by_flags() {
    let folder = Folder::new();
    let table = "[meter]\npatience_ms = 7\n[meter.costs]\nbase = 3\n[[meter.costs.operations]]\nname = \"a\"\npath = \"/a\"\nbase = 9\n";
    let path = folder.file("bursar.toml", table);
    let env = variables(&[
        ("BURSAR_METER_ENABLED", "false"),
        ("BURSAR_METER_QUOTA", "50:hour, 1k:month@Europe/Berlin"),
        ("BURSAR_METER_BYPASS", "/v1/jobs/{*rest},/livez"),
        ("BURSAR_METER_ON_FAILURE", "open"),
    ]);
    let flags = Flags::default().with("meter.on_failure", Some("closed"));
    let mut loaded = load_from(Some(&path), &env, &flags).unwrap();
    for (name, value, from) in [
        ("meter.enabled", "false", "BURSAR_METER_ENABLED"),
        ("meter.quota", "50:hour@UTC, 1000:month@Europe/Berlin", "BURSAR_METER_QUOTA"),
        ("meter.on_failure", "closed", "--meter-on-failure"),
        ("meter.bypass", "/v1/jobs/{*rest}, /livez", "BURSAR_METER_BYPASS"),
    ] {
        assert_eq!(shown(&mut loaded, name), (Some(value.to_owned()), from.to_owned()), "{name}");
    }
    let meter = loaded.config.server("sqlite://bursar.db").unwrap().meter.unwrap();
    meter.check().unwrap();
    assert_eq!((meter.enabled, meter.on_failure, meter.patience_ms), (false, OnFailure::Closed, 7));
    // Prices stay those of the file.
    assert_eq!((meter.costs.base, meter.costs.operations[0].base), (3, 9));
    assert!(meter.bypass.iter().any(|pattern| pattern.matches("/v1/jobs/1")) && meter.bypass.len() == 2);
    let mut none = load_from(None, &variables(&[("BURSAR_METER_BYPASS", "-")]), &Flags::default()).unwrap();
    assert_eq!(shown(&mut none, "meter.bypass").0, Some("-".to_owned()));
    assert!(none.config.meter.settings().bypass.is_empty());
    assert_eq!(shown(&mut load_from(None, &[], &Flags::default()).unwrap(), "meter.bypass").0, None);
    assert_eq!(Config::default().meter.settings().bypass, MeterSettings::default().bypass);
    for (name, value, expected) in [
        ("QUOTA", "many", "BURSAR_METER_QUOTA: meter.quota has \"many\": "),
        ("QUOTA", "5:fortnight", "BURSAR_METER_QUOTA: meter.quota has \"5:fortnight\": "),
        ("QUOTA", "5:day,6:day", "BURSAR_METER_QUOTA: meter.quota is \"5:day,6:day\": "),
        ("QUOTA", ",", "BURSAR_METER_QUOTA: meter.quota is \",\": quota: limits must not be empty"),
        ("BYPASS", "livez", "BURSAR_METER_BYPASS: meter.bypass is refused: the path \"livez\" must begin with a slash"),
        ("ON_FAILURE", "maybe", "BURSAR_METER_ON_FAILURE: meter.on_failure is \"maybe\"; it must be open or closed"),
        (
            "PATIENCE_MS",
            "0",
            "BURSAR_METER_PATIENCE_MS: meter.patience_ms is \"0\"; it must be milliseconds from 1 to 600000",
        ),
    ] {
        let env = variables(&[(&format!("BURSAR_METER_{name}"), value)]);
        let detail = load_from(None, &env, &Flags::default()).unwrap_err().detail;
        assert!(detail.starts_with(expected), "{detail}");
    }
}

#[test]
fn the_settings_of_bursar_take_precedence_over_the_variables_of_opentelemetry() {
    let folder = Folder::new();
    let standard = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://standard:4318/full"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key=swordfish"),
        ("OTEL_SERVICE_NAME", ""),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
    ];
    let mut loaded = load_from(None, &variables(&standard), &Flags::default()).unwrap();
    let is = |value: &str, from: &str| (Some(value.to_owned()), from.to_owned());
    assert_eq!(shown(&mut loaded, "otlp.endpoint"), is("http://standard:4318", "OTEL_EXPORTER_OTLP_ENDPOINT"));
    assert_eq!(shown(&mut loaded, "otlp.headers"), is("(secret)", "OTEL_EXPORTER_OTLP_HEADERS"));
    assert_eq!(shown(&mut loaded, "otlp.sample"), is("0.25", "OTEL_TRACES_SAMPLER_ARG"));
    assert_eq!(shown(&mut loaded, "otlp.service_name"), (None, "default".to_owned()));
    assert!(!format!("{:?}", loaded.config).contains("swordfish"));
    let otlp = loaded.config.otlp().unwrap().unwrap();
    assert!(format!("{otlp:?}").contains("http://standard:4318/full") && !format!("{otlp:?}").contains("swordfish"));
    assert_eq!((otlp.sample, otlp.service_name.as_str()), (0.25, "bursar"));

    let path = folder.file("bursar.toml", "[otlp]\nendpoint = \"https://own\"\nsample = 0.5\n");
    let mut loaded = load_from(Some(&path), &variables(&standard), &Flags::default()).unwrap();
    assert_eq!(shown(&mut loaded, "otlp.traces_endpoint"), (None, "default".to_owned()));
    assert_eq!(shown(&mut loaded, "otlp.sample").0, Some("0.5".to_owned()));
    assert!(format!("{:?}", loaded.config.otlp().unwrap()).contains("https://own/v1/traces"));
    let own = [standard.as_slice(), &[("BURSAR_OTLP_ENDPOINT", "none")]].concat();
    assert!(load_from(None, &variables(&own), &Flags::default()).unwrap().config.otlp().unwrap().is_none());
    assert!(load_from(None, &[], &Flags::default()).unwrap().config.otlp().unwrap().is_none());

    let bad = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "swordfish"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
    ];
    let loaded = load_from(None, &variables(&bad), &Flags::default()).unwrap();
    assert_eq!(loaded.ignored, bad.map(|(name, _)| name));
    assert!(loaded.config.otlp().unwrap().is_none());
    for (name, value, expected) in [
        ("ENDPOINT", "collector:4317", "BURSAR_OTLP_ENDPOINT: otlp.endpoint must be http://… or https://…"),
        ("HEADERS", "swordfish", "BURSAR_OTLP_HEADERS: otlp.headers must be at most 32 headers"),
        ("SAMPLE", "2", "BURSAR_OTLP_SAMPLE: otlp.sample is \"2\"; it must be a number from 0 to 1"),
    ] {
        let env = variables(&[(&format!("BURSAR_OTLP_{name}"), value)]);
        let detail = load_from(None, &env, &Flags::default()).unwrap_err().detail;
        assert!(detail.starts_with(expected) && !detail.contains("swordfish"), "{detail}");
    }
    let error = folder.error("[otlp]\nsample = \"half\"");
    assert_eq!(error, "bursar.toml:2: otlp.sample must be a number: a number from 0 to 1");
    let error = folder.error("[otlp]\nheaders = \"key=swordfish\"");
    assert!(error.starts_with("bursar.toml:2: otlp.headers is a secret") && !error.contains("swordfish"), "{error}");
}
