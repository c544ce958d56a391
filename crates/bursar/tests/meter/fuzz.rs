//! Fuzz tests: no settings file and no request makes the meter panic.

use axum::http::Request;
use bursar::meter::{AgentId, ApiKey, Caller, ClientIp, Identify, MeterSettings, PathPattern};

#[test]
fn path_patterns_match_paths_made_from_them() {
    let samples = ["/v1/claims/{id}", "/docs/{*rest}", "/", "/a/{b}/c/", "/{a}/{*b}"];
    bursar_fuzz::texts(&samples, |text| {
        let Ok(pattern) = text.parse::<PathPattern>() else { return };
        assert_eq!(pattern.to_string(), text);
        let filled = |word: &str| match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            Some(name) if name.starts_with('*') => "x/y".to_owned(),
            Some(_) => "x".to_owned(),
            None => word.to_owned(),
        };
        let path: Vec<_> = text.split('/').map(filled).collect();
        assert!(pattern.matches(&path.join("/")), "{text:?} and {path:?}");
        assert!(!pattern.matches("") && !pattern.matches("x"), "{text:?}: a path starts with a slash");
    });
}

#[test]
fn matching_any_path_never_panics() {
    let patterns = ["/", "/a/{b}", "/a/{*rest}", "/{a}/b/"].map(|text| text.parse::<PathPattern>().unwrap());
    bursar_fuzz::texts(&["/a/b", "/a//b/", "//", "/a/%2F?x"], |path| {
        let open = patterns[2].matches(path);
        assert_eq!(open, path.strip_prefix("/a/").is_some_and(|rest| !rest.is_empty()), "{path:?}");
        assert!(patterns.iter().filter(|pattern| pattern.matches(path)).count() <= 2, "{path:?}");
    });
}

#[test]
fn any_settings_text_is_read_or_refused() {
    let deep = format!("costs = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let samples = [
        "patience_ms = 100\nhold_ms = 60_000\n[costs]\nbase = 3\nper_kib = 1\n",
        "[[costs.operations]]\nname = \"query\"\nmethod = \"GET\"\npath = \"/claims/{id}\"\nbase = 5\ntwo_phase = true\n\
         extras = [{ name = \"lens\", each = 1, query = \"lens\" }, { name = \"h\", each = 2, header = \"x-lens\" }]\n",
        "signed = 'optional'\n[signatures]\nauthorities = ['a.example:1', '*']\nwindow_ms = 5000\n[signatures.agents]\n\
         'a b' = [{ key = '0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a', not_after = '2027-02-01T00:00:00Z' }]\n",
        &deep,
    ];
    let uris = ["/", "/claims/7?lens=a%2Cb,,c&lens=&x", "/claims/7/8"];
    bursar_fuzz::texts(&samples, |text| {
        let settings = match MeterSettings::from_toml(text) {
            Ok(settings) => settings,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        for uri in uris {
            let (head, ()) = Request::builder().uri(uri).header("x-lens", "a, b").body(()).unwrap().into_parts();
            let price = settings.costs.price(&head);
            assert!(price.with_payload(u64::MAX) >= price.with_payload(0) && price.fixed >= 0, "{text:?}");
        }
    });
    assert!(samples[..3].iter().all(|sample| MeterSettings::from_toml(sample).is_ok()), "the samples are valid");
}

#[test]
fn any_header_identifies_a_valid_caller_or_is_refused() {
    let agent = "0a".repeat(32);
    bursar_fuzz::bytes(&[agent.as_bytes(), b"Bearer abc", b"1.2.3.4, [::1]:80, 2001:db8::1", b"\xff"], |bytes| {
        let request = ["x-agent-id", "authorization", "x-api-key", "x-forwarded-for"].into_iter();
        let request = request.fold(Request::builder(), |request, name| request.header(name, bytes));
        let Ok(request) = request.body(()) else { return };
        let (head, ()) = request.into_parts();
        let by: [&dyn Identify; 4] = [&AgentId, &ApiKey::default(), &ApiKey::bearer(), &ClientIp::behind_proxies(1)];
        for found in by.into_iter().filter_map(|by| by.identify(&head).ok().flatten()) {
            assert_eq!(Caller::new(found.name()), Ok(found));
        }
    });
}
