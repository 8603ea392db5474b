//! The JSON Schema that Python's types come from is that of the events as they are now.

#[test]
fn the_committed_schema_is_the_current_one() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/brickyard/schema/events.schema.json");
    let committed = std::fs::read_to_string(place).expect("the committed schema");
    assert!(committed.trim_end() == record::event::event_schema(), "{place} is stale; run `make schema`");
}
