//! The JSON Schemas that Python's types come from are those of the events and plans as they are now.

fn assert_current(name: &str, current: &str) {
    let place = format!("{}/../../python/brickyard/schema/{name}", env!("CARGO_MANIFEST_DIR"));
    let committed = std::fs::read_to_string(&place).expect("the committed schema");
    assert!(committed.trim_end() == current, "{place} is stale; run `make schema`");
}

#[test]
fn the_committed_schema_of_events_is_the_current_one() {
    assert_current("events.schema.json", &record::event::event_schema());
}

#[test]
fn the_committed_schema_of_plans_is_the_current_one() {
    assert_current("plan.schema.json", &record::plan::plan_schema());
}
