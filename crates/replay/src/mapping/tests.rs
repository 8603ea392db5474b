use super::*;
use crate::time::Stamp;
use proptest::prelude::*;

const TILES: &str = r#"
title = "tiles"
partition = ["T", "X"]
[[call]]
page = "tile"
path = "/tile.ashx"
sql = "select * from tile(:T, :X, :N)"
expect_rows = 1
  [call.parameters]
  T = { type = "int2" }
  X = { from = "query", type = "int4" }
  N = { type = "text", default = "none" }
[[call]]
page = "place"
path = "/places/{X}/{name*}"
methods = ["GET", "HEAD"]
sql = "select :name, :X, :X, :K"
  [call.parameters]
  X = { from = "path", type = "int4" }
  name = { from = "path", type = "text" }
  K = { from = "constant", type = "bool", value = true }
[[route]]
brick = 2
where = { T = "1", X = "10..12" }
"#;

fn entry<'a>(method: &'a str, path: &'a str, query: &'a str) -> Entry<'a> {
    let stamp = Stamp { at_ns: 7, whole_second: true };
    let (method, path, query) = (method.as_bytes(), path.as_bytes(), query.as_bytes());
    Entry { stamp, method, path, query, client: b"", cookie: b"", rows: None }
}

fn mapped(mapping: &Mapping, method: &str, path: &str, query: &str) -> Result<Call, Unmapped> {
    mapping.call(&entry(method, path, query), 0, &mut Scratch::default())
}

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

#[test]
fn requests_become_calls_with_typed_values() {
    let mapping = Mapping::from_toml(TILES, 1).unwrap();
    assert_eq!(mapping.statements[0].sql, "select * from tile($1, $2, $3)");
    let call = mapped(&mapping, "GET", "/Tile.ASHX", "x=-5&t=1&N=a%20b+c").unwrap();
    assert_eq!(*call.values, [Value::Int(1), Value::Int(-5), text("a b c")]);
    assert_eq!((call.at_ns, call.expected_rows, mapping.page_of(call.call)), (7, 1, 0));
    let call = mapped(&mapping, "HEAD", "/places/12/a/b%2Fc", "").unwrap();
    assert_eq!(*call.values, [text("a/b/c"), Value::Int(12), Value::Bool(true)]);
    assert_eq!(mapping.statements[1].sql, "select $1, $2, $2, $3");
}

#[test]
fn what_is_unlike_is_told_apart() {
    let mapping = Mapping::from_toml(TILES, 1).unwrap();
    assert_eq!(mapped(&mapping, "GET", "/tile", "T=1&X=1"), Err(Unmapped::Path));
    assert_eq!(mapped(&mapping, "POST", "/tile.ashx", "T=1&X=1"), Err(Unmapped::Method { taken: vec!["GET".into()] }));
    assert_eq!(mapped(&mapping, "GET", "/places/12", ""), Err(Unmapped::Path));
    let missing = Err(Unmapped::Parameter { call: 0, parameter: 1 });
    assert_eq!(mapped(&mapping, "GET", "/tile.ashx", "T=1"), missing);
    assert_eq!(mapped(&mapping, "GET", "/tile.ashx", "T=1&X=99999999999"), missing);
    assert_eq!(mapping.parameter_name(0, 1), "X");
    assert!(mapped(&mapping, "GET", "/tile.ashx", "TT=9&XX=1&X=1&T=2").is_ok());
}

#[test]
fn routes_come_first_then_the_hash_of_the_partition() {
    let mapping = Mapping::from_toml(TILES, 3).unwrap();
    let brick = |query: &str| mapped(&mapping, "GET", "/tile.ashx", query).unwrap().brick;
    assert_eq!(brick("T=1&X=11"), 2);
    // What is no part of the partition moves nothing, and the hash is that of its text.
    assert_eq!(brick("T=2&X=5&N=a"), brick("T=2&X=5&N=b"));
    let mut hash = Fnv::default();
    hash.write(b"T=2\nX=5\n");
    assert_eq!(u64::from(brick("T=2&X=5")), hash.0 % 3);
    let given = BTreeMap::from([("T".to_string(), "2".to_string()), ("X".into(), "5".into())]);
    assert_eq!(mapping.route("tile", &given), Ok(brick("T=2&X=5")));
    let mut counts = [0; 3];
    (0..3000).for_each(|x| counts[usize::from(brick(&format!("T=3&X={x}")))] += 1);
    assert!(counts.iter().all(|c| (800..1200).contains(c)), "{counts:?}");
}

#[test]
fn mistakes_are_named_in_one_line() {
    let call = |changes: &str| format!("[[call]]\npage = \"p\"\npath = \"/p\"\n{changes}");
    let cases = [
        (String::new(), "[[call]]"),
        ("x = [".into(), "line 1"),
        (call("sql = \"select :Q\""), ":Q"),
        (call("sql = \"select 1\"\nspeed = 1"), "speed"),
        (call("sql = \" \""), "sql is empty"),
        (call("sql = \"s\"\nmethods = []"), "methods"),
        (call("sql = \"s :a\"\nparameters.a = { type = \"date\" }"), "date"),
        (call("sql = \"s :a\"\nparameters.a = { type = \"int2\", from = \"path\" }"), "{a}"),
        (call("sql = \"s :a\"\nparameters.a = { type = \"int2\", default = 70000 }"), "70000"),
        (call("sql = \"s :a\"\nparameters.a = { type = \"int2\", from = \"constant\" }"), "value"),
        (call("sql = \"s\"\n[[route]]\nbrick = 3"), "brick 3"),
        (call("sql = \"s\"\n[[route]]\nbrick = 0\nwhere = { Q = \"1\" }"), "Q"),
        ("[[call]]\npage = \"p\"\npath = \"p\"\nsql = \"s\"".into(), "begin with /"),
        ("[[call]]\npage = \"p\"\npath = \"/a{b}\"\nsql = \"s\"".into(), "whole segment"),
        ("[[call]]\npage = \"p\"\npath = \"/{a*}/b\"\nsql = \"s\"".into(), "all that is left"),
    ];
    for (text, said) in cases {
        let error = Mapping::from_toml(&text, 2).err().unwrap_or_else(|| panic!("taken: {text}")).0;
        assert!(error.contains(said) && !error.contains('\n'), "{said}: {error}");
    }
}

proptest! {
    #[test]
    fn any_request_is_taken_or_refused(path in prop::collection::vec(any::<u8>(), 0..40), query in prop::collection::vec(any::<u8>(), 0..60)) {
        let mapping = Mapping::from_toml(TILES, 3).unwrap();
        for prefix in [&b""[..], b"/tile.ashx", b"/places/"] {
            let path = [prefix, &path].concat();
            let stamp = Stamp { at_ns: 7, whole_second: true };
            let entry = Entry { stamp, method: b"GET", path: &path, query: &query, client: b"", cookie: b"", rows: None };
            if let Ok(call) = mapping.call(&entry, 0, &mut Scratch::default()) {
                prop_assert!(call.brick < 3);
            }
        }
    }

    #[test]
    fn any_file_is_read_or_refused_in_one_line(text in "[\\[\\]a-z=\"{}:/ \n,0-9]{0,80}", at in 0..600usize) {
        let mut whole = TILES.to_string();
        let at = (0..=at.min(whole.len())).rev().find(|i| whole.is_char_boundary(*i)).unwrap_or(0);
        whole.insert_str(at, &text);
        if let Err(error) = Mapping::from_toml(&whole, 3) {
            prop_assert!(!error.0.contains('\n'));
        }
    }
}
