//! Exploded tables (R31): one record, a row for each element of one of its arrays.

use super::*;
use crate::config::{ArrayOf, Explode};

fn explode(column: &str) -> Explode {
    let of = Some(ArrayOf { table: "items".into(), column: column.into() });
    Explode { keeps_arrays: true, outer: false, taken: vec![], of }
}

fn exploding(explode: Explode) -> DecodeSpec {
    let mut spec = spec("");
    spec.schema.explode = Some(explode);
    spec
}

fn outer(column: &str) -> DecodeSpec {
    exploding(Explode { outer: true, ..explode(column) })
}

/// The rows of the pages of one walk.
fn rows_of(spec: DecodeSpec, select: Option<&[&str]>, pages: &[&str]) -> Result<(String, Vec<u64>, Counts)> {
    let select = select.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let mut decoder = Decoder::new(spec, None, select)?;
    let (mut shown_rows, mut received, mut counts) = (Vec::new(), Vec::new(), Counts::default());
    for body in pages {
        let mut page = decoder.page(200, body.as_bytes(), &mut idle())?;
        received.push(page.received);
        page.batches = page.take_batches().collect::<Result<_>>()?;
        let text = shown(&page);
        shown_rows.extend(Some(text).filter(|text| !text.is_empty()));
        counts.merge(page.counts);
    }
    Ok((shown_rows.join("; "), received, counts))
}

fn rows(spec: DecodeSpec, body: &str) -> String {
    rows_of(spec, None, &[body]).unwrap().0
}

fn error_of(spec: DecodeSpec, pages: &[&str]) -> crate::error::Error {
    rows_of(spec, None, pages).unwrap_err()
}

#[test]
fn r31_a_row_is_the_record_without_the_array_and_then_the_element() {
    let body = r#"[{"lines":[{"sku":"a","qty":1},{"qty":2,"more":{"x":[1, 2]}}],"id":1,"tags":["t"]},
        {"id":2,"lines":[]},{"id":3,"lines":[{"sku":"c","qty":3}]},{"id":4},{"id":5,"lines":null}]"#;
    let kept = "id=1 tags=[\"t\"] lines_sku=a lines_qty=1 lines_more_x=-; \
                id=1 tags=[\"t\"] lines_sku=- lines_qty=2 lines_more_x=[1, 2]; \
                id=3 tags=- lines_sku=c lines_qty=3 lines_more_x=-";
    assert_eq!(rows(exploding(explode("lines")), body), kept);
    let view = exploding(Explode { keeps_arrays: false, ..explode("lines") });
    assert_eq!(rows(view, body), kept.replace(" tags=[\"t\"]", "").replace(" tags=-", ""));
    assert_eq!(rows(exploding(explode("tags")), body).split("; ").count(), 1);
}

#[test]
fn r31_elements_that_are_no_objects_are_one_column() {
    for (items, want) in [
        (r#"["x",null,"y"]"#, "id=1 v=x; id=1 v=-; id=1 v=y"),
        ("[1,2.5]", "id=1 v=1; id=1 v=2.5"),
        (r#"[1,{"a":2}]"#, r#"id=1 v=1; id=1 v={"a":2}"#),
        ("[[1],[]]", "id=1 v=[1]; id=1 v=[]"),
        ("[{},{}]", "id=1 v={}; id=1 v={}"),
    ] {
        assert_eq!(rows(exploding(explode("v")), &format!(r#"[{{"id":1,"v":{items}}}]"#)), want);
    }
}

#[test]
fn r31_outer_keeps_records_whose_array_is_empty_null_or_missing() {
    let body = r#"[{"id":1,"v":[7]},{"id":2,"v":[]},{"id":3,"v":null},{"id":4}]"#;
    assert_eq!(rows(outer("v"), body), "id=1 v=7; id=2 v=-; id=3 v=-; id=4 v=-");
    assert_eq!(rows(outer("v"), r#"[{"id":2,"v":[]}]"#), "id=2 v=-");
    assert_eq!(rows(exploding(explode("v")), body), "id=1 v=7");
}

#[test]
fn r31_a_table_without_its_arrays_counts_none_of_them_as_left_out() {
    let view = || exploding(Explode { keeps_arrays: false, of: None, ..explode("") });
    let body = r#"[{"id":1,"v":[1],"u":{"w":[{}],"x":2}},{"id":2,"v":null}]"#;
    let (rows, _, counts) = rows_of(view(), None, &[body]).unwrap();
    assert_eq!((rows.as_str(), counts.undeclared.count), ("id=1 u_x=2; id=2 u_x=-", 0));
    let both = exploding(Explode { of: None, ..explode("") });
    assert_eq!(rows_of(both, None, &[body]).unwrap().0, "id=1 v=[1] u_w=[{}] u_x=2; id=2 v=- u_w=- u_x=-");
    let mixed = r#"[{"id":1,"v":[1]},{"id":2,"v":"text"}]"#;
    assert_eq!(
        rows_of(view(), None, &[mixed]).unwrap().0,
        "id=1 v=[1]; id=2 v=\"text\"",
        "not an array and nothing else"
    );
}

#[test]
fn r31_arrays_inside_objects_have_the_name_of_their_column() {
    let body = r#"[{"id":1,"u":{"v":[1,2],"n":"a"}},{"id":2,"u":{"v":[3]}}]"#;
    assert_eq!(rows(exploding(explode("u_v")), body), "id=1 u_n=a u_v=1; id=1 u_n=a u_v=2; id=2 u_n=- u_v=3");
    let (rows, _, counts) =
        rows_of(exploding(Explode { keeps_arrays: false, ..explode("u_v") }), None, &[body]).unwrap();
    assert_eq!((rows.split("; ").count(), counts.undeclared.count), (3, 0));
}

#[test]
fn r31_columns_are_known_when_the_first_element_came() {
    let pages = [
        r#"[{"id":1,"v":[]},{"id":2,"v":null}]"#,
        "[]",
        r#"[{"id":3}]"#,
        r#"[{"id":4,"v":[{"a":1}]}]"#,
        r#"[{"id":5,"v":[{"b":1}]}]"#,
    ];
    let (rows, received, counts) = rows_of(exploding(explode("v")), None, &pages).unwrap();
    assert_eq!(rows, "id=4 v_a=1; id=5 v_a=-");
    assert_eq!(received, [2, 0, 1, 1, 1], "records are counted, not rows");
    assert_eq!(counts.undeclared.first.as_deref(), Some("key `b` in record 1"));
}

#[test]
fn r31_a_name_that_is_no_array_is_an_error_that_names_the_arrays() {
    for (body, column) in
        [(r#"[{"id":1,"w":[1]}]"#, "v"), (r#"[{"v":1,"w":[1]}]"#, "v"), (r#"[{"v":{"x":1},"w":[]}]"#, "v_x")]
    {
        let error = error_of(exploding(explode(column)), &[body]);
        assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("these are: w"), "{error}");
    }
}

#[test]
fn r31_names_that_meet_are_an_error_that_names_both() {
    let said = error_of(exploding(explode("v")), &[r#"[{"v":[{"a":1}],"v_a":2}]"#]).to_string();
    assert!(said.contains("/v_a") && said.contains("/a in the elements of /v") && said.contains("`v_a`"), "{said}");
    let mut rest = exploding(explode("v"));
    rest.schema.rest_column = Some("v_a".into());
    assert!(error_of(rest, &[r#"[{"v":[{"a":1}]}]"#]).to_string().contains("rest-column"));
    let taken = Explode { of: None, taken: vec![("v".into(), "items_v".into())], ..explode("") };
    let said = error_of(exploding(taken), &[r#"[{"v":[1]}]"#]).to_string();
    assert!(said.contains("`v`") && said.contains("items_v"), "{said}");
}

#[test]
fn r31_what_is_no_array_later_is_a_mismatch() {
    let pages = [r#"[{"id":1,"u":{"v":[1]}}]"#, r#"[{"id":2,"u":{"v":"x"}},{"id":3,"u":[5]},{"id":4,"u":{"v":[9]}}]"#];
    let said = error_of(exploding(explode("u_v")), &pages).to_string();
    assert!(said.contains("record 1, column `u_v`: \"x\" is not an array"), "{said}");
    let mut lenient = exploding(Explode { outer: true, ..explode("u_v") });
    lenient.schema.on_mismatch = OnMismatch::Null;
    let (rows, _, counts) = rows_of(lenient, None, &pages).unwrap();
    assert_eq!(rows, "id=1 u_v=1; id=2 u_v=-; id=3 u_v=-; id=4 u_v=9");
    assert_eq!((counts.nulled["u_v"].count, counts.nulled["u_v"].first.as_deref()), (2, Some("\"x\"")));
    let later = [r#"[{"id":1,"v":[{"a":1}]}]"#, r#"[{"id":2,"v":[5]}]"#];
    assert!(error_of(exploding(explode("v")), &later).to_string().contains("column `v_a`: 5 is not int64"));
}

#[test]
fn r31_declared_columns_stay_as_they_are_and_elements_are_inferred() {
    let declared = schema_of(&[("id", "/id", ColumnType::String), ("l", "/deep/lines", ColumnType::Json)]);
    let spec = DecodeSpec { declared: Some(declared), ..exploding(explode("l")) };
    let body = r#"[{"id":1,"other":0,"deep":{"lines":[{"a":1}]}},{"id":2,"deep":{"lines":[{"a":2},null]}}]"#;
    let (rows, _, counts) = rows_of(spec, None, &[body]).unwrap();
    assert_eq!((rows.as_str(), counts.undeclared.count), ("id=1 l_a=1; id=2 l_a=2; id=2 l_a=-", 0));
}

#[test]
fn r31_columns_can_be_chosen_from_both_sides() {
    let body = r#"[{"id":1,"x":2,"v":[{"a":1,"b":2},{"a":3}]}]"#;
    let chosen = |names: &[&str]| rows_of(exploding(explode("v")), Some(names), &[body]).map(|(rows, ..)| rows);
    assert_eq!(chosen(&["v_b", "id"]).unwrap(), "v_b=2 id=1; v_b=- id=1");
    assert_eq!(chosen(&["x"]).unwrap(), "x=2; x=2");
    assert_eq!(chosen(&["v_a"]).unwrap(), "v_a=1; v_a=3");
    assert!(chosen(&["v"]).unwrap_err().to_string().contains("id, x, v_a, v_b"));
}

#[test]
fn r31_the_rest_column_stands_in_each_row() {
    let mut spec = exploding(explode("v"));
    spec.schema.rest_column = Some("rest".into());
    let pages = [r#"[{"id":1,"v":[1]}]"#, r#"[{"id":2,"late":true,"v":[1,2]}]"#];
    let (rows, ..) = rows_of(spec, None, &pages).unwrap();
    assert_eq!(rows, r#"id=1 v=1 rest=-; id=2 v=1 rest={"late":true}; id=2 v=2 rest={"late":true}"#);
}

#[test]
fn r31_lines_explode_as_they_come() {
    let spec = DecodeSpec { batch_rows: 2, ..exploding(explode("v")) };
    let body = b"{\"id\":1,\"v\":[]}\n{\"id\":2}\n{\"id\":3,\"v\":[1,2,3]}\n{\"id\":4,\"v\":[]}\n{\"id\":5,\"v\":[4]}";
    let mut pages = lines(&[body], None, spec.clone()).unwrap();
    assert_eq!(pages.iter().map(|page| page.received).sum::<u64>(), 5);
    let batches: Vec<_> = pages.iter_mut().flat_map(Page::take_batches).map(Result::unwrap).collect();
    let page = Page { batches, ..Page::default() };
    assert_eq!(shown(&page), "id=3 v=1; id=3 v=2; id=3 v=3; id=5 v=4");
    let pages = lines(&[b"{\"v\":[]}\n{\"v\":[]}\n"], None, spec.clone()).unwrap();
    assert_eq!(pages.iter().map(|page| (page.received, page.rows())).collect::<Vec<_>>(), [(2, 0)]);
    assert!(lines(&[b"{\"v\":[]}\n{\"v\":[]\n"], None, spec).is_err());
}

#[test]
fn r26_a_million_elements_take_the_memory_of_their_page() {
    // Each row repeats 64 KiB of its record: together 64 GiB.
    let items = vec!["1"; 1_000_000].join(",");
    let body = format!(r#"[{{"v":[{items}],"text":"{}"}}]"#, "x".repeat(64 << 10));
    let spec = DecodeSpec { batch_rows: 8_192, ..exploding(explode("v")) };
    let mut decoder = Decoder::new(spec, None, None).unwrap();
    let mut page = decoder.page(200, body.as_bytes(), &mut idle()).unwrap();
    assert_eq!((page.received, page.rows()), (1, 1_000_000));
    let batches: Vec<_> = page.take_batches().take(3).map(Result::unwrap).collect();
    assert!(batches.iter().all(|batch| batch.num_rows() == 1_024), "64 MiB each");
    assert_eq!(page.rows(), 0);
}

#[test]
fn r24_keys_that_stand_twice_count_the_last_time_in_exploded_rows_too() {
    let body = r#"[{"id":"x","v":[{"a":9}],"id":1,"v":[{"a":1,"b":1,"a":2},{"a":3}]},{"id":2,"v":[{"a":4}]}]"#;
    let mut spec = exploding(explode("v"));
    spec.batch_rows = 2;
    let (rows, _, counts) = rows_of(spec, None, &[body]).unwrap();
    assert_eq!(rows, "id=1 v_a=2 v_b=1; id=1 v_a=3 v_b=-; id=2 v_a=4 v_b=-");
    assert_eq!(counts.duplicate_keys.count, 3);
    assert!(counts.converted.is_empty() && counts.nulled.is_empty());
}

proptest! {
    #[test]
    fn r31_rows_are_those_of_a_slow_reader(
        arrays in prop::collection::vec(prop::option::of(prop::collection::vec(0_i64..9, 0..7)), 1..9),
        batch_rows in 1_usize..6,
        pages in 1_usize..4,
        is_outer in any::<bool>(),
    ) {
        // The first record shows the columns.
        let arrays: Vec<_> = std::iter::once(Some(vec![0])).chain(arrays).collect();
        let records: Vec<Value> = arrays.iter().zip(0..).map(|(array, id)| match array {
            Some(array) => json!({ "v": array, "id": id }),
            None => json!({ "id": id }),
        }).collect();
        let bodies: Vec<String> = records.chunks(records.len().div_ceil(pages)).map(|page| json!(page).to_string()).collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let mut want = Vec::new();
        for (array, id) in arrays.iter().zip(0..) {
            let items = array.clone().unwrap_or_default();
            if items.is_empty() && is_outer {
                want.push(format!("id={id} v=-"));
            }
            want.extend(items.iter().map(|item| format!("id={id} v={item}")));
        }
        let spec = DecodeSpec { batch_rows, ..exploding(Explode { outer: is_outer, ..explode("v") }) };
        let (rows, received, _) = rows_of(spec.clone(), None, &bodies).unwrap();
        prop_assert_eq!(rows, want.join("; "));
        prop_assert_eq!(received.iter().sum::<u64>(), records.len() as u64);
        let mut decoder = Decoder::new(spec, None, None).unwrap();
        for body in bodies {
            let mut page = decoder.page(200, body.as_bytes(), &mut idle()).unwrap();
            for batch in page.take_batches() {
                prop_assert!((1..=batch_rows).contains(&batch.unwrap().num_rows()));
            }
        }
    }
}
