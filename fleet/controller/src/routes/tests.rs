use super::*;
use crate::{Config, Standing, Stored};

/// The document lists exactly the routes, and the picture names everything.
#[test]
fn the_document_lists_the_routes_and_the_picture_everything() {
    let document = serde_json::to_value(Document::openapi()).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/api/v1/jobs/{job}/ranks/{rank}", "/api/v1/openapi.json", "/api/v1/status"]);
    let schemas = &document["components"]["schemas"];
    // A placement is its way in the first tree, and more.
    let [placement, job] = [&schemas["Placement"]["allOf"][1], &schemas["JobView"]];
    for schema in [placement, job] {
        assert!(schema["properties"].get("further_trees").is_some(), "{schemas}");
    }
    assert!(schemas["Way"].is_object() && schemas["TreeView"].is_object());
    let text = include_str!("../../../../conf/controller.toml");
    let config = Config::parse(std::path::Path::new("controller.toml"), text).unwrap();
    let core = Core::new(&config, Stored::default(), Duration::ZERO);
    let picture = picture::svg(&core, Duration::from_secs(1));
    let network = &config.network;
    let names = network.switches.iter().map(|switch| &switch.name);
    let names = names.chain(network.appliances.iter().map(|appliance| &appliance.name));
    for name in names.chain(network.hosts.iter().map(|host| &host.name)) {
        assert!(picture.contains(&format!(">{name}<")), "{name} is not in the picture");
    }
    assert!(!picture.contains("leads"), "one controller has none to lead");
    let mut core = Core::following(&config, Some("b"), Duration::ZERO);
    let problem = Some("etcd at x: no answer".to_owned());
    let standing = Standing { leader: Some("a".to_owned()), problem, ..Standing::default() };
    core.set_standing(standing, Duration::ZERO);
    let picture = picture::svg(&core, Duration::ZERO);
    assert!(picture.contains("controller b follows a<") && picture.contains("etcd at x: no answer<"));
}
