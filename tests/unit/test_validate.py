"""Validate: what lets data through, what stops it, and what is only said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from enginehouse.artifact import Workspace
from enginehouse.errors import RecipeError
from enginehouse.ingest.record import Manifest
from enginehouse.stage import Job, Stage
from enginehouse.store import Store
from enginehouse.validate.leaks import find_label_leaks
from enginehouse.validate.near_duplicates import KEPT, find_near_duplicates
from enginehouse.validate.outliers import find_outliers
from enginehouse.validate.record import Validated
from enginehouse.validate.suite_result import (
    compare_with_suite,
    looks_like_result,
    looks_like_suite,
)
from enginehouse.validate.user_expectation import UserExpectation
from enginehouse.validate.validate import ValidateConfig, validate

CHECK = ValidateConfig.for_check()
QUARANTINE = ["path", "place", "reason", "detail"]
FINDINGS = ["severity", "reason", "file", "place", "detail", "remedy"]
BOXES = ["path", "label", "x", "y", "width", "height", "polygons", "source", "place"]

Rows = list[dict[str, Any]]


def draw_rows(counts: dict[str, int], split: str = "", start: int = 0, **more: Any) -> Rows:
    """Rows of the manifest: so many pictures of each class, all of them unlike each other."""
    rng = np.random.default_rng([start, *map(ord, split)])
    rows = []
    for label, count in counts.items():
        for number in range(start, start + count):
            path = "/".join(filter(None, (split, label, f"{split}{label}_{number}.jpg")))
            rows.append(
                {
                    **{"path": path, "md5": "0" * 32, "bytes": 1000, "format": "JPEG"},
                    **{"pixels": path, "phash": f"{rng.integers(2**63):016x}"},
                    **{"width": 64, "height": 48, "mode": "RGB", "handling": ""},
                    **{"label": label, "labels": [label], "part": path, "time": ""},
                    **{"split": split, "source": "", "place": ""},
                    "brightness": float(rng.normal(120, 5)),
                    "contrast": float(rng.normal(30, 2)),
                    "sharpness": float(rng.normal(50, 4)),
                    **more,
                }
            )
    return rows


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    (tmp_path / "scratch").mkdir()
    return Workspace(Store(tmp_path / "store"), tmp_path / "scratch")


@pytest.fixture
def make(here: Workspace) -> Callable[..., Manifest]:
    """Seal a manifest of the given rows."""

    def make(
        rows: Rows,
        classes: tuple[str, ...] = (),
        quarantine: Rows | None = None,
        findings: Rows | None = None,
        boxes: Rows | None = None,
        good: str = "",
    ) -> Manifest:
        columns = list(draw_rows({"a": 1})[0])
        tables = {
            "manifest": pd.DataFrame(rows, columns=columns),
            "boxes": pd.DataFrame(boxes or [], columns=BOXES),
            "quarantine": pd.DataFrame(quarantine or [], columns=QUARANTINE, dtype="str"),
            "findings": pd.DataFrame(findings or [], columns=FINDINGS, dtype="str"),
        }
        for name, table in tables.items():
            table.to_parquet(here.scratch / f"{name}.parquet", index=False)
        labels = tuple(sorted({row["label"] for row in rows} - {""}))
        return Manifest(
            files=here.seal([f"{name}.parquet" for name in tables]),
            format="class_folders",
            classes=classes or labels,
            labels=classes or labels,
            label_ids={},
            good=good,
            num_rows=len(rows),
            num_boxes=len(boxes or []),
            num_quarantined=len(quarantine or []),
            num_errors=sum(f["severity"] == "error" for f in findings or []),
        )

    return make


def read_findings(here: Workspace, validated: Validated) -> pd.DataFrame:
    return pd.read_parquet(here.path(validated, "findings.parquet"))


def test_good_data_is_let_through(here: Workspace, make: Callable[..., Manifest]) -> None:
    manifest = make(draw_rows({"cat": 12, "dog": 12}))
    validated = validate(manifest, ValidateConfig(), here)
    assert (validated.failures, validated.warnings) == ((), ())
    assert validated.manifest == manifest.identity
    assert validated.num_expectations > 20
    assert {"data_docs/index.html", "near_duplicates.parquet"} <= validated.reports.keys()
    assert read_findings(here, validated).empty


def test_a_class_with_one_picture_is_named_with_its_count_and_the_minimum(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    manifest = make(draw_rows({"cat": 6, "dog": 6, "fox": 1}))
    (failure,) = validate(manifest, CHECK, here).failures
    assert "fox has 1 picture(s)" in failure
    assert "at least 3" in failure
    assert "cat" not in failure


def test_a_declared_class_without_pictures_is_named(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    manifest = make(draw_rows({"cat": 6, "dog": 6}), classes=("cat", "dog", "emu"))
    (failure,) = validate(manifest, CHECK, here).failures
    assert "emu has 0 picture(s)" in failure


def test_a_fragment_passes_only_where_it_may(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    manifest = make(draw_rows({"ok": 2, "scratch": 1}, width=8))
    checked = validate(manifest, CHECK, here)
    assert checked.failures == ()
    assert any("too few usable pictures: 3 picture(s)" in text for text in checked.warnings)
    assert any("scratch has 1 picture(s)" in text for text in checked.warnings)
    assert any("narrower" in text for text in checked.warnings)
    refused = validate(manifest, ValidateConfig(), here)
    assert len(refused.failures) == 3  # rows, classes, width


def test_one_class_and_no_labels(here: Workspace, make: Callable[..., Manifest]) -> None:
    one = make(draw_rows({"pit": 30}), classes=("good", "pit"), good="good")
    assert "1 class(es) with pictures: pit" in validate(one, ValidateConfig(), here).failures[0]
    assert validate(one, ValidateConfig(min_classes=1), here).failures == ()
    assert validate(one, CHECK, here).failures == ()
    none = make(draw_rows({"": 30}))
    (failure,) = validate(none, ValidateConfig(), here).failures
    assert failure.startswith("no labels")
    assert "_0.jpg has no label" in failure
    assert validate(none, CHECK, here).failures == ()


@pytest.mark.parametrize("config", [ValidateConfig(), CHECK])
def test_no_rows_are_refused(
    here: Workspace, make: Callable[..., Manifest], config: ValidateConfig
) -> None:
    lost = {"path": "a.jpg", "place": "", "reason": "not an image", "detail": "text"}
    validated = validate(make([], quarantine=[lost]), config, here)
    assert validated.failures[0].startswith("no usable picture: 0 picture(s)")
    assert read_findings(here, validated)["severity"].eq("error").all()


def test_errors_of_ingest_are_failures(here: Workspace, make: Callable[..., Manifest]) -> None:
    errors = [
        {"severity": "error", "reason": "duplicate id", "file": "a.json", "place": f"id {n}"}
        | {"detail": f"id {n} stands twice", "remedy": "number anew"}
        for n in range(25)
    ]
    told = {**errors[0], "severity": "warning"}
    manifest = make(draw_rows({"cat": 12, "dog": 12}), findings=[told, *errors])
    validated = validate(manifest, ValidateConfig(), here)
    assert validated.failures[0] == "a.json id 0: id 0 stands twice (number anew)"
    assert len(validated.failures) == 21
    assert validated.failures[-1].startswith("5 more errors")
    assert read_findings(here, validated).empty  # they are the manifest's


def test_quarantine_counts_files_and_rows_apart(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    junk = {"path": "Thumbs.db", "place": "", "reason": "junk", "detail": ""}
    file = {"path": "bad.jpg", "place": "", "reason": "truncated", "detail": ""}
    row = {"path": "labels.csv", "place": "line 3", "reason": "missing file", "detail": ""}
    manifest = make(draw_rows({"cat": 12, "dog": 12}), quarantine=[junk, file, row, row, row])
    (failure,) = validate(manifest, ValidateConfig(), here).failures
    assert "labels.csv line 3 (missing file)" in failure
    assert "Thumbs.db" not in failure
    assert validate(manifest, CHECK, here).failures == ()
    (failure,) = validate(
        make(draw_rows({"cat": 9, "dog": 9}), quarantine=[file]), ValidateConfig(min_rows=1), here
    ).failures
    assert "bad.jpg (truncated)" in failure


def test_a_copy_in_another_split_is_a_leak(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 5, "dog": 4}, "train") + draw_rows({"cat": 3, "dog": 2}, "val")
    rows[4] |= {"path": "train/cat/leak.jpg", "part": "train/cat/leak.jpg"}
    rows[11] |= {"path": "val/cat/copy_of_leak.jpg", "pixels": rows[4]["pixels"]}
    validated = validate(make(rows), CHECK, here)
    (failure,) = validated.failures
    assert failure.startswith("a leak: a duplicate picture")
    assert "train/cat/leak.jpg and val/cat/copy_of_leak.jpg" in failure
    (finding,) = read_findings(here, validated).query("severity == 'error'").to_dict("records")
    assert finding["file"] == "val/cat/copy_of_leak.jpg"
    assert "train/cat/leak.jpg" in finding["detail"]


def test_copies_within_a_split_are_said(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 12, "dog": 12})
    rows[3] |= {"pixels": rows[2]["pixels"]}
    validated = validate(make(rows), ValidateConfig(), here)
    assert validated.failures == ()
    (warning,) = validated.warnings
    assert "cat/cat_2.jpg and cat/cat_3.jpg are the same picture" in warning
    rows[14] |= {"pixels": rows[2]["pixels"]}
    (failure,) = validate(make(rows), ValidateConfig(), here).failures
    assert "the same picture under two labels" in failure


def test_a_part_in_two_splits_is_a_leak(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 8, "dog": 8}, "train") + draw_rows({"cat": 4, "dog": 4}, "test")
    for row in (rows[0], rows[1], rows[16]):
        row["part"] = "P0017"
    (failure,) = validate(make(rows), ValidateConfig(), here).failures
    assert "part P0017 is in train and test" in failure
    assert rows[16]["path"] in failure


def test_a_class_missing_from_a_given_split(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 6, "dog": 6, "fox": 2}, "train")
    rows += draw_rows({"cat": 3, "dog": 3}, "val")
    for config in (CHECK, ValidateConfig()):
        (failure,) = validate(make(rows), config, here).failures
        assert "fox has no picture in val" in failure
    few = draw_rows({"cat": 1}, "train") + draw_rows({"dog": 1}, "val")
    assert validate(make(few), CHECK, here).failures == ()
    assert any("cat has no picture in val" in w for w in validate(make(few), CHECK, here).warnings)


def test_splits_without_training_are_said(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 12, "dog": 12}, "test")
    (warning,) = validate(make(rows), ValidateConfig(), here).warnings
    assert "given to test, none to train" in warning
    rows += draw_rows({"cat": 12, "dog": 12})  # given to none, so trained on
    rows[30]["pixels"] = rows[3]["pixels"]
    (failure,) = validate(make(rows), ValidateConfig(), here).failures
    assert "a duplicate in train and test" in failure


def test_a_label_of_boxes_missing_from_a_given_split(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    rows = draw_rows({"defect": 12, "good": 12}, "train")
    rows += draw_rows({"defect": 4, "good": 4}, "val")
    box = {"x": 1.0, "y": 1.0, "width": 4.0, "height": 4.0, "source": "", "place": ""}
    boxes = [
        {**box, "path": row["path"], "label": label}
        for row in rows
        for label in (("pit", "dent") if row["split"] == "train" else ("pit",))
        if row["label"] == "defect"
    ]
    validated = validate(make(rows, boxes=boxes, good="good"), ValidateConfig(), here)
    assert validated.failures == ()
    assert "dent has no box in val (12 in all)" in validated.warnings[0]


def with_near_pair(rows: Rows, first: int, second: int) -> Rows:
    flipped = int(rows[first]["phash"], 16) ^ 0b101
    rows[second] = {**rows[second], "phash": f"{flipped:016x}"}
    return rows


def test_near_duplicates_across_splits_and_labels(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    rows = draw_rows({"cat": 8, "dog": 8}, "train") + draw_rows({"cat": 4, "dog": 4}, "val")
    rows = with_near_pair(with_near_pair(with_near_pair(rows, 0, 16), 1, 8), 2, 3)
    validated = validate(make(rows), ValidateConfig(), here)
    assert validated.failures == ()
    leak, doubt = validated.warnings
    assert "near duplicates in two splits" in leak
    assert f"{rows[0]['path']} (cat in train) and {rows[16]['path']} (cat in val)" in leak
    assert "label doubt" in doubt
    pairs = pd.read_parquet(here.path(validated, "near_duplicates.parquet"))
    assert list(pairs["distance"]) == [2, 2, 2]
    assert list(pairs.columns) == ["a", "b", "distance"] + [
        f"{name}_{side}" for name in ("label", "split") for side in "ab"
    ]
    (told,) = read_findings(here, validated).query("severity == 'info'").to_dict("records")
    assert "1 pair(s) of 2 picture(s)" in told["detail"]
    assert "ingest.group_pattern" in told["remedy"]
    strict = validate(make(rows), ValidateConfig(near_leak="critical"), here)
    assert "near duplicates in two splits" in strict.failures[0]


def test_many_near_duplicates_are_a_warning_where_a_split_would_tear_them_apart(
    here: Workspace, make: Callable[..., Manifest]
) -> None:
    rows = draw_rows({"cat": 12, "dog": 12})
    assert validate(make(with_near_pair(rows, 0, 1)), ValidateConfig(), here).warnings == ()
    (warning,) = validate(make(with_near_pair(rows, 13, 14)), ValidateConfig(), here).warnings
    assert warning.startswith("near duplicates: 2 pair(s) of 4 picture(s)")
    assert "ingest.group_pattern" in warning


def test_flat_pictures_and_pictures_of_one_part_are_no_near_duplicates() -> None:
    rows = draw_rows({"cat": 12, "dog": 12})
    for row in rows[:6]:
        row |= {"phash": "f" * 16, "contrast": 0.2}
    for row in rows[6:9]:
        row |= {"phash": "0" * 16, "part": "P1"}
    assert find_near_duplicates(pd.DataFrame(rows), 4).pairs.empty


def test_many_near_duplicates_are_counted_and_capped() -> None:
    rows = pd.DataFrame(draw_rows({"cat": 300}, phash="0123456789abcdef"))
    near = find_near_duplicates(rows, 4)
    assert len(near.pairs) == KEPT
    assert f"{300 * 299 // 2} pairs, of which {KEPT}" in near.instances["near_copies"][0].detail


def test_a_file_format_that_tells_the_class(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"red iron": 80, "roll printing": 60, "scratch": 30})
    for row in rows[80:120]:
        row |= {"format": "PNG", "path": row["path"].replace(".jpg", ".png")}
    validated = validate(make(rows), ValidateConfig(), here)
    (warning,) = validated.warnings
    assert "40 of the 40 pictures with format PNG, suffix .png are roll printing" in warning
    assert "40 of its 60" in warning


def test_a_folder_that_tells_the_class_is_a_leak_unless_it_is_its_name() -> None:
    rows = draw_rows({"good": 40, "bad": 40})
    assert find_label_leaks(pd.DataFrame(rows), ValidateConfig()) == []
    for row in rows:
        row["path"] = row["path"].replace("bad/", "monday/").replace("good/", "sunday/")
    leaks = [leak.detail for leak in find_label_leaks(pd.DataFrame(rows), ValidateConfig())]
    assert any("folder monday are bad" in leak for leak in leaks)


def test_a_few_pictures_of_one_size_are_no_leak() -> None:
    rows = draw_rows({"good": 60, "bad": 60})
    for number, row in enumerate(rows):
        row["width"] = 64 + number % 12  # ten of each, and none belongs to a class
    assert find_label_leaks(pd.DataFrame(rows), ValidateConfig()) == []


def test_outliers_are_named(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 30, "dog": 30})
    rows[7]["brightness"] = 230.0
    rows[9]["width"] = 66
    (warning,) = validate(make(rows), ValidateConfig(), here).warnings
    assert f"{rows[7]['path']} has brightness 230" in warning
    assert f"{rows[9]['path']} has width 66 (median 64)" in warning


def test_two_heaps_are_no_outliers() -> None:
    rows = pd.DataFrame(draw_rows({"dark": 80, "bright": 12}))
    rows.loc[rows["label"] == "bright", "brightness"] += 100
    rows.loc[rows["label"] == "bright", "height"] = 400
    assert find_outliers(rows, 6) == []
    rows.loc[3, "sharpness"] = 1e6
    assert [found.file for found in find_outliers(rows, 6)] == [rows["path"][3]]


def test_drift_against_the_version_before(here: Workspace, make: Callable[..., Manifest]) -> None:
    before = make(draw_rows({"cat": 80, "dog": 80, "emu": 5}))
    rows = draw_rows({"cat": 140, "dog": 20, "fox": 5}, start=500)
    for row in rows:
        row["brightness"] += 40
    now = make(rows)
    drifted = validate(now, ValidateConfig(), here, previous=before)
    (warning,) = (text for text in drifted.warnings if "drifted" in text)
    assert "class fox is new" in warning
    assert "class emu is gone" in warning
    assert "cat 50.0% -> 87.5%" in warning
    assert "brightness moved" in warning
    alone = validate(now, ValidateConfig(), here)
    assert not any("drifted" in text for text in alone.warnings)
    assert drifted.identity == alone.identity  # so that a warning computes nothing anew
    same = make(draw_rows({"cat": 80, "dog": 80, "emu": 5}, start=500))
    assert validate(same, ValidateConfig(), here, previous=before).warnings == ()


def test_the_version_before_is_in_the_key(make: Callable[..., Manifest]) -> None:
    stage = Stage.of(validate)
    now, before = make(draw_rows({"cat": 4})), make(draw_rows({"cat": 5}))
    without = Job(stage, "tiny/validate", CHECK, {"manifest": now})
    with_it = Job(stage, "tiny/validate", CHECK, {"manifest": now, "previous": before})
    assert without.parts() != with_it.parts()


SUM_TYPE = "expect_column_sum_to_be_between"
BETWEEN_TYPE = "expect_column_values_to_be_between"


def own(table: str, kind: str, severity: str = "critical", **kwargs: Any) -> UserExpectation:
    data = {"table": table, "type": kind, "kwargs": kwargs, "severity": severity}
    return UserExpectation.model_validate(data)


def test_the_users_own_expectations(here: Workspace, make: Callable[..., Manifest]) -> None:
    rows = draw_rows({"cat": 12, "dog": 12})
    rows[5]["width"] = 60
    config = ValidateConfig(
        expectations=(
            own("pictures", BETWEEN_TYPE, column="width", min_value=64),
            own(
                "set", "expect_column_max_to_be_between", "warning", column="pictures", max_value=3
            ),
            own("set", SUM_TYPE, "info", column="boxes", min_value=3),
            own("classes", "expect_table_row_count_to_equal", value=2),
            # The same as one of ours: of two equal ones the library keeps one.
            own("pictures", BETWEEN_TYPE, column="width", min_value=16),
            # Nothing was compared, which is only good where nothing should be.
            own("boxes", BETWEEN_TYPE, column="width", min_value=4),
            own("quarantine", "expect_column_values_to_be_in_set", column="reason", value_set=[]),
        )
    )
    validated = validate(make(rows), config, here)
    width, no_rows = validated.failures
    assert width.startswith("validation.expectations.0 (expect_column_values_to_be_between on pic")
    assert f"width 60 in {rows[5]['path']}" in width
    assert "expectations.5" in no_rows
    assert "0 rows" in no_rows
    assert any("observed 24" in text for text in validated.warnings)
    found = read_findings(here, validated)
    assert "observed 0" in found[found["severity"] == "info"]["detail"].iloc[0]


@pytest.mark.parametrize(
    ("expectation", "words"),
    [
        (own("pictures", "expect_column_to_exits", column="width"), "did you mean"),
        (own("pictures", "expect_column_to_exist", column="width", leest=3), "leest"),
        (own("pictures", BETWEEN_TYPE, column="wdith", min_value=3), "wdith"),
        (
            own("pictures", "expect_column_values_to_match_regex", column="path", regex="("),
            "could not be evaluated",
        ),
    ],
)
def test_a_faulty_expectation_is_named(
    here: Workspace, make: Callable[..., Manifest], expectation: UserExpectation, words: str
) -> None:
    manifest = make(draw_rows({"cat": 12, "dog": 12}))
    config = ValidateConfig(expectations=(expectation,))
    with pytest.raises(RecipeError, match=r"validation\.expectations\.0 \(expect_") as caught:
        validate(manifest, config, here)
    assert words in str(caught.value)


# Suites and results of others: no table is read, only their JSON.

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "image_id"}}
BETWEEN = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "x", "min_value": 0, "max_value": 10},
}


def result_of(*results: dict[str, Any], success: bool = True, **more: Any) -> dict[str, Any]:
    return {"success": success, "results": list(results), **more}


def passed(expectation: dict[str, Any], **more: Any) -> dict[str, Any]:
    kwargs = {**expectation["kwargs"], "batch_id": "manifest-all"}
    return {"success": True, "expectation_config": {**expectation, "kwargs": kwargs}, **more}


def test_a_result_that_lacks_an_expectation_in_the_short_form() -> None:
    suite = {"expectations": ["row_count_between", "x_between", "image_id_not_null"]}
    result = result_of(
        {"expectation": "row_count_between", "success": True},
        {"expectation": "x_between", "success": True},
    )
    assert looks_like_suite(suite)
    assert looks_like_result(result)
    faults = compare_with_suite(suite, result)
    assert faults[0] == "image_id_not_null is missing from the result"
    assert "the suite has 3 expectation(s), the result 2: 1 missing" in faults
    assert "the result says success: true all the same" in faults


def test_a_whole_result_is_believed() -> None:
    suite = {"name": "boxes", "expectations": [NOT_NULL, BETWEEN]}
    wider = {**BETWEEN, "kwargs": {**BETWEEN["kwargs"], "min_value": 0.0, "strict_min": False}}
    result = result_of(passed(wider), passed(NOT_NULL), suite_name="boxes")
    assert compare_with_suite(suite, result) == []
    assert compare_with_suite(suite, {"success": True, "run_results": {"id": result}}) == []


RAISED = {"metric": {"raised_exception": True, "exception_message": "no column x"}}


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (passed(BETWEEN, exception_info=RAISED), "could not be evaluated: no column x"),
        (passed(BETWEEN, result={"element_count": 0}), "on 0 rows"),
        (passed(BETWEEN, result={"element_count": 7, "missing_count": 7}), "all 7 values missing"),
        (passed(BETWEEN) | {"success": None}, "has no verdict"),
        (
            passed(BETWEEN, result={"unexpected_count": 3, "element_count": 9})
            | {"success": False},
            "failed: 3 of 9 values",
        ),
        (passed(NOT_NULL), "expect_column_values_to_be_between on x is missing"),
    ],
)
def test_a_result_that_says_success_all_the_same(second: dict[str, Any], words: str) -> None:
    suite = {"name": "boxes", "expectations": [NOT_NULL, BETWEEN]}
    faults = compare_with_suite(suite, result_of(passed(NOT_NULL), second))
    assert any(words in fault for fault in faults)
    assert faults[-1] == "the result says success: true all the same"


def test_results_of_another_suite_or_of_none() -> None:
    suite = {"expectation_suite_name": "boxes", "expectations": [NOT_NULL]}
    result = result_of(passed(NOT_NULL), meta={"expectation_suite_name": "labels"})
    assert "of suite 'labels', the suite is 'boxes'" in compare_with_suite(suite, result)[0]
    nothing = compare_with_suite({"name": "boxes", "expectations": []}, result_of())
    assert "nothing was checked" in nothing[0]
    statistics = {"evaluated_expectations": 2, "successful_expectations": 1}
    faults = compare_with_suite(suite, result_of(passed(NOT_NULL), statistics=statistics))
    assert "evaluated_expectations 2, its list holds 1" in faults[0]
    assert compare_with_suite(suite, result_of(passed(NOT_NULL), success=False)) == [
        "the result says success: false"
    ]


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"images": [], "annotations": []}, {"expectations": {}}, {"results": []}],
)
def test_other_json_is_no_suite_and_no_result(data: object) -> None:
    assert not looks_like_suite(data)
    assert not looks_like_result(data)
    assert compare_with_suite(data, data)
