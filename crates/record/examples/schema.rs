//! Prints the JSON Schema of events, out of which `make schema` makes Python's types.

fn main() {
    println!("{}", record::event::event_schema());
}
