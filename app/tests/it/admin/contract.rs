//! The OpenAPI document says what there is: it is sound, and every answer is as it says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::site::{Response, Site};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// All values below a key of that name, anywhere.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            if name == key {
                found.push(value);
            }
            all(value, key, found);
        }),
        Value::Array(list) => list.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

/// Fails unless an answer is as the document says for this operation.
#[track_caller]
fn conforms(document: &Value, method: &str, template: &str, response: &Response) {
    let operation = &document["paths"][template][method];
    assert!(operation.is_object(), "{method} {template} is not documented");
    let said = &operation["responses"][response.status.to_string()];
    assert!(said.is_object(), "{method} {template}: status {} is not documented", response.status);
    let content = said["content"].as_object().expect("a content");
    let (kind, said) = content.iter().next().expect("a content type");
    assert!(response.head.to_lowercase().contains(&format!("content-type: {kind}")), "{}", response.head);
    if kind == "application/json" {
        let mut schema = said["schema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let body = response.json();
        let errors: Vec<String> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{method} {template}: {errors:?} in {body}");
    }
}

#[test]
fn the_document_is_sound() {
    let site = Site::start();
    let document = site.get("/api/v1/openapi.json");
    assert_eq!(
        (&document["openapi"], &document["info"]["title"]),
        (&json!("3.1.0"), &json!("Pascaline admin API"))
    );
    let mut references = Vec::new();
    all(&document, "$ref", &mut references);
    assert!(references.len() > 10);
    for reference in references {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(METHODS.contains(&method.as_str()), "{path} {method}");
            assert!(
                ids.insert(operation["operationId"].to_string()),
                "{path} {method}: a second {}",
                operation["operationId"]
            );
            assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 5), "{path} {method}");
            let declared = operation["parameters"].as_array().map_or(0, Vec::len);
            assert_eq!(declared, path.matches('{').count(), "{path} {method}");
            assert!(operation["responses"].as_object().is_some_and(|all| !all.is_empty()));
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let mut schema = schema.clone();
        schema["components"] = document["components"].clone();
        jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_schema_of_a_new_job_has_the_keys_of_the_configuration() {
    let site = Site::start();
    let refused = site.call("POST", "/api/v1/jobs", r#"{"id": 9, "fan_in": 2, "no_key": 1}"#);
    let refused = String::from_utf8_lossy(&refused.body);
    let (_, known) = refused.split_once("expected one of ").expect("the reader lists its keys");
    let known = known.split(['"', ';']).next().unwrap_or_default();
    let known: BTreeSet<&str> = known.split('`').skip(1).step_by(2).collect();
    let document = site.get("/api/v1/openapi.json");
    let keys = |schema: &str| {
        let told = &document["components"]["schemas"][schema]["properties"];
        told.as_object().expect("properties").keys().map(String::as_str).collect::<BTreeSet<_>>()
    };
    assert_eq!(keys("NewJob"), known);
    // An answer has each of them, but for the file of the key and the table of updates, which has no term of
    // its own.
    let terms = keys("JobTerms");
    let lacks = |key: &&str| !terms.contains(key) && !terms.contains(format!("{key}_seconds").as_str());
    assert_eq!(known.iter().copied().filter(lacks).collect::<Vec<_>>(), ["key_file", "updates"]);
}

const KEY: &str = r#"{"key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}"#;

#[test]
fn answers_are_as_documented() {
    let site = Site::start();
    let document = site.get("/api/v1/openapi.json");
    let mut asked = BTreeSet::new();
    for (method, template, job, body, status) in [
        ("GET", "/api/v1/status", "", "", 200),
        ("GET", "/api/v1/jobs", "", "", 200),
        ("GET", "/api/v1/jobs/{job}", "1", "", 200),
        ("GET", "/api/v1/jobs/{job}", "nobody", "", 404),
        ("GET", "/api/v1/jobs/{job}/explain", "one", "", 200),
        ("GET", "/api/v1/jobs/{job}/explain", "77", "", 404),
        ("GET", "/api/v1/config", "", "", 200),
        ("GET", "/api/v1/openapi.json", "", "", 200),
        (
            "POST",
            "/api/v1/jobs",
            "",
            r#"{"id": 8, "fan_in": 2, "window": 16, "kind": "shared", "shared": {"server": false}}"#,
            201,
        ),
        ("POST", "/api/v1/jobs", "", r#"{"id": 8, "fan_in": 2}"#, 409),
        ("POST", "/api/v1/jobs", "", r#"{"id": 10}"#, 422),
        ("POST", "/api/v1/jobs", "", "[]", 400),
        ("PATCH", "/api/v1/jobs/{job}", "8", r#"{"shared": {"quota": 3}}"#, 200),
        ("PATCH", "/api/v1/jobs/{job}", "8", r#"{"shared": {"quota": "three"}}"#, 422),
        ("PATCH", "/api/v1/jobs/{job}", "77", r#"{"shared": {"quota": 3}}"#, 404),
        ("DELETE", "/api/v1/jobs/{job}", "8", "", 200),
        ("DELETE", "/api/v1/jobs/{job}", "8", "", 404),
        ("POST", "/api/v1/jobs/{job}/capture", "1", r#"{"seconds": 1}"#, 200),
        ("POST", "/api/v1/jobs/{job}/capture", "77", "", 404),
        ("POST", "/api/v1/jobs/{job}/command", "1", r#"{"command": "halt"}"#, 200),
        ("POST", "/api/v1/jobs/{job}/command", "1", r#"{"command": "help", "psn": 7}"#, 409),
        ("POST", "/api/v1/jobs/{job}/command", "1", "{}", 400),
        ("POST", "/api/v1/jobs/{job}/command", "77", r#"{"command": "reset"}"#, 404),
        ("POST", "/api/v1/jobs/{job}/key", "1", r#"{"key": "no key"}"#, 422),
        ("POST", "/api/v1/jobs/{job}/key", "77", KEY, 404),
        ("POST", "/api/v1/jobs/{job}/key", "1", KEY, 409),
        ("POST", "/api/v1/reload", "", "", 200),
        ("POST", "/api/v1/drain", "", "", 202),
    ] {
        let response = site.call(method, &template.replace("{job}", job), body);
        assert_eq!(response.status, status, "{method} {template} {body}: {response:?}");
        conforms(&document, &method.to_lowercase(), template, &response);
        asked.insert((template.to_owned(), method.to_lowercase()));
    }
    let paths = document["paths"].as_object().unwrap();
    let documented = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(move |method| (path.clone(), method.clone()))
    });
    assert_eq!(asked, documented.collect(), "what is documented, and nothing else, is tried here");
}
