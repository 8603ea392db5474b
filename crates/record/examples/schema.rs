//! Prints the JSON Schema of events, or of plans, out of which `make schema` makes Python's types.

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("plan") => println!("{}", record::plan::plan_schema()),
        _ => println!("{}", record::event::event_schema()),
    }
}
