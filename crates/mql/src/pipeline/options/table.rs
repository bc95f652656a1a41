//! Stages that run over documents.

use super::{Field, Null, Range, Refusal, StageOptions, inner, optional, refusal, required, stage};
use super::{MISSING, NO_VALUE, UNKNOWN, WRONG_TYPE};
use crate::types::Types;

const TEXT: Types = Types::STRING;
const OBJECT: Types = Types::OBJECT;
const ARRAY: Types = Types::ARRAY;
const NUMBER: Types = Types::NUMBER;
const ANY: Types = Types::ANY;

pub(super) const STAGES: &[StageOptions] = &[
    stage("$addFields", OBJECT, ADDED),
    BUCKET,
    BUCKET_AUTO,
    stage("$count", TEXT, refusal(40156, "the count field must be a non-empty string")),
    DENSIFY,
    stage("$documents", ANY, NO_REFUSAL),
    stage("$facet", OBJECT, EMPTY_FACET).within(&[(Range::NotEmpty, EMPTY_FACET)]),
    FILL,
    GEO_NEAR,
    GRAPH_LOOKUP,
    GROUP,
    stage("$limit", NUMBER, BAD_LIMIT).within(&[
        (Range::Whole, BAD_LIMIT),
        (Range::NotNegative, BAD_LIMIT),
        (Range::Positive, refusal(15958, "the limit must be positive")),
    ]),
    LOOKUP,
    stage("$match", OBJECT, refusal(15959, "the match filter must be an expression in an object")),
    MERGE,
    OUT,
    stage("$project", OBJECT, refusal(15969, "$project specification must be an object")).within(&[(
        Range::NotEmpty,
        refusal(51272, "projection specification must have at least one field"),
    )]),
    stage("$redact", ANY, NO_REFUSAL),
    REPLACE_ROOT,
    stage("$replaceWith", ANY, NO_REFUSAL),
    SAMPLE,
    stage("$set", OBJECT, ADDED),
    SET_WINDOW_FIELDS,
    stage("$skip", NUMBER, BAD_SKIP).within(&[(Range::Whole, BAD_SKIP), (Range::NotNegative, BAD_SKIP)]),
    stage("$sort", OBJECT, refusal(15973, "the $sort key specification must be an object"))
        .within(&[(Range::NotEmpty, refusal(15976, "$sort stage must have at least one sort key"))]),
    stage(
        "$sortByCount",
        TEXT.or(OBJECT),
        refusal(40149, "the sortByCount field must be specified as a string or as an object"),
    ),
    UNION_WITH,
    stage("$unset", TEXT.or(ARRAY), refusal(31002, "$unset specification must be a string or an array"))
        .within(&[(
            Range::Items,
            refusal(31119, "$unset specification must be a string or an array with at least one field"),
        )]),
    UNWIND,
];

/// For arguments of any type.
const NO_REFUSAL: Refusal = WRONG_TYPE;

const ADDED: Refusal = refusal(40272, "{stage} specification stage must be an object, got {type}");
const EMPTY_FACET: Refusal =
    refusal(40169, "the $facet specification must be a non-empty object, but found {type}");
const BAD_LIMIT: Refusal = refusal(
    5_107_201,
    "invalid argument to $limit stage: Expected a non-negative number in: $limit: {value}",
);
const BAD_SKIP: Refusal =
    refusal(5_107_200, "invalid argument to $skip stage: Expected a non-negative number in: $skip: {value}");

const BUCKET: StageOptions = stage(
    "$bucket",
    OBJECT,
    refusal(40201, "Argument to $bucket stage must be an object, but found type: {type}"),
)
.fields(
    &[
        required("groupBy", TEXT.or(OBJECT))
            .or_wrong(refusal(
                40202,
                "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression",
            ))
            .or_missing(BUCKET_PARTS),
        required("boundaries", ARRAY)
            .or_wrong(refusal(40200, "The $bucket 'boundaries' field must be an array"))
            .or_missing(BUCKET_PARTS),
        optional("default", ANY),
        optional("output", OBJECT).or_wrong(refusal(40196, "The $bucket 'output' field must be an object")),
    ],
    refusal(40197, "Unrecognized option to $bucket: {field}."),
);
const BUCKET_PARTS: Refusal = refusal(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified");

const BUCKET_AUTO: StageOptions = stage(
    "$bucketAuto",
    OBJECT,
    refusal(40240, "The argument to $bucketAuto must be an object, but found type: {type}"),
)
.fields(
    &[
        required("groupBy", TEXT.or(OBJECT))
            .or_wrong(refusal(
                40239,
                "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object",
            ))
            .or_missing(AUTO_PARTS),
        required("buckets", NUMBER)
            .or_wrong(refusal(40241, "The $bucketAuto 'buckets' field must be a numeric value, but found type: {type}"))
            .or_missing(AUTO_PARTS)
            .within(&[
                (
                    Range::Whole32,
                    refusal(40242, "The $bucketAuto 'buckets' field must be representable as a 32-bit integer"),
                ),
                (
                    Range::Positive,
                    refusal(40243, "The $bucketAuto 'buckets' field must be greater than 0, but found: {value}"),
                ),
            ]),
        optional("output", OBJECT).or_wrong(refusal(40244, "The $bucketAuto 'output' field must be an object")),
        optional("granularity", TEXT)
            .or_wrong(refusal(40261, "The $bucketAuto 'granularity' field must be a string"))
            .within(&[(
                Range::OneOf(&[
                    "R5", "R10", "R20", "R40", "R80", "1-2-5", "E6", "E12", "E24", "E48", "E96", "E192",
                    "POWERSOF2",
                ]),
                refusal(40257, "Unknown rounding granularity '{value}'"),
            )]),
    ],
    refusal(40245, "Unrecognized option to $bucketAuto: {field}."),
);
const AUTO_PARTS: Refusal = refusal(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified");

const DENSIFY: StageOptions =
    stage("$densify", OBJECT, refusal(9, "The $densify stage specification must be an object, found {type}"))
        .fields(
            &[
                required("field", TEXT),
                optional("partitionByFields", ARRAY).of(TEXT, WRONG_TYPE),
                required("range", OBJECT).with(&DENSIFY_RANGE),
            ],
            UNKNOWN,
        );
const DENSIFY_RANGE: StageOptions = inner(
    "$densify.range",
    &[
        required("step", NUMBER).within(&[(
            Range::Positive,
            refusal(
                5_733_401,
                "The step parameter in a range statement must be a strictly positive numeric value",
            ),
        )]),
        optional("unit", TEXT),
        required("bounds", ARRAY.or(TEXT)).within(&[(
            Range::OneOf(&["full", "partition"]),
            refusal(5_946_802, "Bounds string must either be 'full' or 'partition'"),
        )]),
    ],
);

const FILL: StageOptions =
    stage("$fill", OBJECT, refusal(9, "The $fill stage specification must be an object, found {type}"))
        .fields(
            &[
                optional("partitionBy", OBJECT.or(TEXT)),
                optional("partitionByFields", ARRAY).of(TEXT, WRONG_TYPE),
                optional("sortBy", OBJECT),
                required("output", OBJECT),
            ],
            UNKNOWN,
        );

const FORMER_LIMIT: Refusal =
    refusal(50858, "$geoNear no longer supports the '{field}' parameter. Use a $limit stage instead.");
const NO_TEXT_16606: Refusal =
    refusal(16606, "$geoNear parameter 'distanceField' must be of type string but found type: {type}");
const GEO_NEAR: StageOptions = stage(
    "$geoNear",
    OBJECT,
    refusal(10065, "invalid parameter: expected an object ($geoNear)"),
)
.fields(
    &[
        required("near", ANY).or_missing(refusal(5_860_400, "$geoNear requires a 'near' argument")),
        optional("distanceField", TEXT).or_wrong(NO_TEXT_16606),
        optional("includeLocs", TEXT).or_wrong(refusal(
            16607,
            "$geoNear parameter 'includeLocs' must be of type string but found type: {type}",
        )),
        optional("minDistance", ANY),
        optional("maxDistance", ANY),
        optional("distanceMultiplier", NUMBER)
            .or_wrong(refusal(14, "distanceMultiplier must be a number, found {type}"))
            .within(&[(Range::NotNegative, refusal(2, "distanceMultiplier must be nonnegative"))]),
        optional("query", OBJECT).or_wrong(refusal(14, "query must be an object, found {type}")),
        optional("spherical", ANY),
        optional("key", TEXT)
            .or_wrong(refusal(14, "$geoNear parameter 'key' must be of type string but found type: {type}"))
            .within(&[(Range::NotEmpty, refusal(2, "$geoNear parameter 'key' cannot be the empty string"))]),
        optional("uniqueDocs", ANY),
        optional("limit", ANY).refused(FORMER_LIMIT),
        optional("num", ANY).refused(FORMER_LIMIT),
    ],
    refusal(2, "Unknown argument to $geoNear: {field}"),
);

const GRAPH_PARTS: Refusal = refusal(
    40105,
    "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified.",
);
const GRAPH_TEXT: Refusal = refusal(40103, "expected string as argument for {field}, found: {type}");
const fn graph_path(name: &'static str) -> Field {
    required(name, TEXT).or_wrong(GRAPH_TEXT).or_missing(GRAPH_PARTS)
}
const GRAPH_LOOKUP: StageOptions = stage(
    "$graphLookup",
    OBJECT,
    refusal(40327, "the $graphLookup specification must be an object, found {type}"),
)
.fields(
    &[
        required("from", TEXT.or(OBJECT))
            .or_wrong(refusal(9, "the collection of $graphLookup must be a string, is type {type}"))
            .or_missing(GRAPH_PARTS),
        graph_path("as"),
        required("startWith", ANY).or_missing(GRAPH_PARTS),
        graph_path("connectFromField"),
        graph_path("connectToField"),
        optional("depthField", TEXT).or_wrong(GRAPH_TEXT),
        optional("maxDepth", NUMBER)
            .or_wrong(refusal(40100, "maxDepth requires a non-negative integer, found {type}"))
            .within(&[
                (Range::Whole, refusal(40102, "maxDepth could not be represented as a long long")),
                (
                    Range::NotNegative,
                    refusal(40101, "maxDepth requires a nonnegative argument, found: {value}"),
                ),
            ]),
        optional("restrictSearchWithMatch", OBJECT)
            .or_wrong(refusal(40185, "restrictSearchWithMatch must be an object, found {type}")),
    ],
    refusal(40104, "unknown argument to $graphLookup: {field}"),
);

const GROUP: StageOptions =
    stage("$group", OBJECT, refusal(15947, "a group's fields must be specified in an object")).open(&[
        required("_id", ANY).or_missing(refusal(15955, "a group specification must include an _id")),
    ]);

const LOOKUP_TEXT: Refusal =
    refusal(14, "$lookup argument '{field}: {value}' must be a string, is type {type}");
const LOOKUP: StageOptions =
    stage("$lookup", OBJECT, refusal(9, "the $lookup specification must be an object, but found {type}"))
        .fields(
            &[
                optional("from", TEXT.or(OBJECT))
                    .or_wrong(refusal(9, "the collection of $lookup must be a string, is type {type}")),
                optional("localField", TEXT).or_wrong(LOOKUP_TEXT).null(Null::Missing),
                optional("foreignField", TEXT).or_wrong(LOOKUP_TEXT).null(Null::Missing),
                required("as", TEXT)
                    .or_wrong(LOOKUP_TEXT)
                    .or_missing(refusal(9, "must specify 'as' field for a $lookup"))
                    .null(Null::Missing),
                optional("let", OBJECT)
                    .or_wrong(refusal(
                        14,
                        "$lookup argument 'let: {value}' must be an object, is type {type}",
                    ))
                    .null(Null::Missing),
                optional("pipeline", ARRAY)
                    .or_wrong(refusal(14, "'pipeline' option must be specified as an array, is type {type}")),
            ],
            UNKNOWN,
        )
        .once();

const MERGE: StageOptions = stage(
    "$merge",
    TEXT.or(OBJECT),
    refusal(51182, "$merge only supports a string or object argument, not {type}"),
)
.fields(
    &[
        required("into", TEXT.or(OBJECT))
            .or_wrong(refusal(
                51178,
                "$merge 'into' field must be either a string or an object, but found {type}",
            ))
            .with(&MERGE_INTO),
        optional("on", TEXT.or(ARRAY))
            .or_wrong(refusal(51186, "$merge 'on' must be a string or an array of strings, but found {type}"))
            .within(&[(
                Range::Items,
                refusal(51187, "If explicitly specifying $merge 'on', must include at least one field"),
            )])
            .of(
                TEXT,
                refusal(51134, "$merge 'on' must be a string or an array of strings, but found {type}"),
            ),
        optional("let", OBJECT).null(Null::Missing),
        optional("whenMatched", TEXT.or(ARRAY))
            .or_wrong(refusal(
                51191,
                "$merge 'whenMatched' field must be either a string or an array, but found {type}",
            ))
            .within(&[(
                Range::OneOf(&["replace", "keepExisting", "merge", "fail"]),
                refusal(2, "Enumeration value '{value}' for field 'whenMatched' is not a valid value."),
            )])
            .of(OBJECT, refusal(14, "Each element of the 'pipeline' array must be an object")),
        optional("whenNotMatched", TEXT).within(&[(Range::OneOf(&["insert", "discard", "fail"]), NO_VALUE)]),
    ],
    UNKNOWN,
);
const MERGE_INTO: StageOptions = inner(
    "$merge.into",
    &[
        optional("db", TEXT),
        required("coll", TEXT)
            .or_missing(refusal(5_786_801, "$merge 'into' must name a collection"))
            .null(Null::Refused(refusal(5_786_801, "$merge 'into.coll' must not be null"))),
    ],
);

const OUT: StageOptions = stage(
    "$out",
    TEXT.or(OBJECT),
    refusal(16990, "$out only supports a string or object argument, but found {type}"),
)
.fields(
    &[
        required("coll", TEXT).null(Null::Refused(MISSING)),
        required("db", TEXT).null(Null::Refused(MISSING)),
        optional("timeseries", OBJECT)
            .refused(refusal(303, "$out to a time series collection is not supported")),
    ],
    UNKNOWN,
)
.once();

const REPLACE_ROOT: StageOptions = stage(
    "$replaceRoot",
    OBJECT,
    refusal(40229, "expected an object as specification for $replaceRoot stage, got {type}"),
)
.fields(&[required("newRoot", ANY)], UNKNOWN);

const SAMPLE: StageOptions =
    stage("$sample", OBJECT, refusal(28745, "the $sample stage specification must be an object")).fields(
        &[required("size", NUMBER)
            .or_wrong(refusal(28746, "size argument to $sample must be a number"))
            .or_missing(refusal(28749, "$sample stage must specify a size"))
            .within(&[(Range::One, refusal(28747, "size argument to $sample must be a positive integer"))])],
        refusal(28748, "unrecognized option to $sample: {field}"),
    );

const SET_WINDOW_FIELDS: StageOptions = stage(
    "$setWindowFields",
    OBJECT,
    refusal(9, "the $setWindowFields stage specification must be an object, found {type}"),
)
.fields(&[optional("partitionBy", ANY), optional("sortBy", OBJECT), required("output", OBJECT)], UNKNOWN);

const UNION_WITH: StageOptions = stage(
    "$unionWith",
    TEXT.or(OBJECT),
    refusal(9, "the $unionWith stage specification must be an object or string, but found {type}"),
)
.fields(
    &[
        optional("coll", TEXT).or_wrong(refusal(14, "'$unionWith.coll' must be a string, is type {type}")),
        optional("pipeline", ARRAY)
            .or_wrong(refusal(14, "'$unionWith.pipeline' must be an array, is type {type}")),
    ],
    UNKNOWN,
);

const NO_PATH: Refusal = refusal(28812, "no path specified to $unwind stage");
const NO_INDEX: Refusal = refusal(
    28810,
    "expected a non-empty string for the includeArrayIndex option to $unwind stage, got {type}",
);
const UNWIND: StageOptions = stage(
    "$unwind",
    TEXT.or(OBJECT),
    refusal(15981, "expected either a string or an object as specification for $unwind stage, got {type}"),
)
.fields(
    &[
        required("path", TEXT)
            .or_wrong(refusal(28808, "expected a string as the path for $unwind stage, got {type}"))
            .or_missing(NO_PATH),
        optional("includeArrayIndex", TEXT).or_wrong(NO_INDEX).within(&[(Range::NotEmpty, NO_INDEX)]),
        optional("preserveNullAndEmptyArrays", Types::BOOL_ONLY).or_wrong(refusal(
            28809,
            "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {type}",
        )),
    ],
    refusal(28811, "unrecognized option to $unwind stage: {field}"),
);
