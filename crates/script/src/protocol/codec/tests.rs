//! Any message survives being encoded and decoded; any bytes are decoded or refused.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::confined::Confined;
use crate::function_store::{FunctionQuery, FunctionRead, FunctionWriteKind, FunctionWriteOrder};
use crate::protocol::{
    ChangesDone, ChangesOrder, Failure, FailureKind, FunctionAsk, OrderedContainer, OrderedRole, RunOrder,
    Used,
};
use crate::settings::ScriptLimits;
use crate::store::{StoreAnswer, StoreFailure, StoreOperation, StoreReply, StoreRequest};

const OPERATIONS: [StoreOperation; 7] = [
    StoreOperation::ReadDocument,
    StoreOperation::ReadDocuments,
    StoreOperation::QueryDocuments,
    StoreOperation::CreateDocument,
    StoreOperation::UpsertDocument,
    StoreOperation::ReplaceDocument,
    StoreOperation::DeleteDocument,
];

fn text() -> impl Strategy<Value = String> {
    ".{0,40}"
}

fn request() -> impl Strategy<Value = StoreRequest> {
    let texts = (option::of(text()), option::of(text()), option::of(text()), option::of(text()));
    (0..OPERATIONS.len(), text(), texts, any::<Option<i64>>(), any::<bool>()).prop_map(
        |(operation, link, (body, if_match, if_none_match, continuation), page_size, flag)| StoreRequest {
            operation: OPERATIONS[operation],
            link,
            body,
            if_match,
            if_none_match,
            page_size,
            continuation,
            disables_id_generation: flag,
            wants_body: !flag,
        },
    )
}

fn reply() -> impl Strategy<Value = StoreReply> {
    let answer = (option::of(text()), option::of(text()), any::<bool>())
        .prop_map(|(body, continuation, not_modified)| StoreAnswer { body, continuation, not_modified });
    let failure = (any::<u16>(), text()).prop_map(|(number, message)| StoreFailure { number, message });
    (prop::result::maybe_ok(answer, failure), any::<bool>())
        .prop_map(|(outcome, accepts_more)| StoreReply { outcome, accepts_more })
}

fn role() -> impl Strategy<Value = OrderedRole> {
    let bodies = || (text(), option::of(text()), option::of(text()));
    prop_oneof![
        text().prop_map(|arguments| OrderedRole::Procedure { arguments }),
        bodies().prop_map(|(operation, request_body, _)| OrderedRole::PreTrigger { operation, request_body }),
        bodies().prop_map(|(operation, request_body, response_body)| OrderedRole::PostTrigger {
            operation,
            request_body,
            response_body
        }),
    ]
}

fn order() -> impl Strategy<Value = Order<'static>> {
    let limits = ScriptLimits { steps_max: u64::MAX, ..ScriptLimits::default() };
    prop_oneof![
        text().prop_map(|source| Order::Check { source }),
        (role(), text(), text(), any::<bool>()).prop_map(move |(role, name, source, logs)| {
            let (self_link, alt_link) = (name.clone(), source.clone());
            let (usage, quota, foresees) = (source.clone(), name.clone(), !logs);
            Order::Run(RunOrder {
                self_link,
                alt_link,
                usage,
                quota,
                name,
                source,
                role,
                logs,
                foresees,
                limits,
            })
        }),
        vec((text(), text()), 0..3).prop_map(move |definitions| Order::Functions { definitions, limits }),
        (any::<u32>(), vec(vec(option::of(text()), 0..3), 0..4)).prop_map(|(function, rows)| Order::Call {
            function,
            time: Duration::from_millis(50),
            rows: rows.into()
        }),
        Just(Order::Release),
        reply().prop_map(Order::Reply),
        (text(), text(), vec((text(), vec(text(), 0..3), any::<bool>()), 0..3), any::<u64>()).prop_map(
            move |(name, source, containers, version)| {
                let ordered = |(name, key_paths, may_write)| OrderedContainer { name, key_paths, may_write };
                let containers = containers.into_iter().map(ordered).collect();
                let (changes, attempt) = (name.clone(), version as u32);
                Order::Changes(ChangesOrder { name, version, attempt, source, changes, containers, limits })
            }
        ),
        prop::result::maybe_ok(
            option::of(text()),
            (any::<u16>(), text()).prop_map(|(number, message)| StoreFailure { number, message })
        )
        .prop_map(Order::Answer),
    ]
}

fn ask() -> impl Strategy<Value = FunctionAsk> {
    let read = (text(), text(), text()).prop_map(|(container, id, partition_key)| {
        FunctionAsk::Read(FunctionRead { container, id, partition_key })
    });
    let query = (text(), text(), text(), option::of(text()), any::<u32>()).prop_map(
        |(container, text, parameters, partition_key, rows_max)| {
            FunctionAsk::Query(FunctionQuery { container, text, parameters, partition_key, rows_max })
        },
    );
    prop_oneof![read, query]
}

fn write() -> impl Strategy<Value = FunctionWriteOrder> {
    use FunctionWriteKind::{Create, Delete, Patch, Replace, Upsert};
    let kind = prop_oneof![
        text().prop_map(|item| Create { item }),
        text().prop_map(|item| Upsert { item }),
        text().prop_map(|item| Replace { item }),
        (text(), text(), text()).prop_map(|(id, partition_key, operations)| Patch {
            id,
            partition_key,
            operations
        }),
        (text(), text()).prop_map(|(id, partition_key)| Delete { id, partition_key }),
    ];
    (text(), kind, option::of(text())).prop_map(|(container, kind, if_match)| FunctionWriteOrder {
        container,
        kind,
        if_match,
    })
}

fn used() -> impl Strategy<Value = Used> {
    (any::<u64>(), any::<bool>())
        .prop_map(|(micros, is_spent)| Used { processor: Duration::from_micros(micros), is_spent })
}

fn report() -> impl Strategy<Value = Report> {
    let kinds = [FailureKind::Script, FailureKind::Limit, FailureKind::Size, FailureKind::Worker];
    prop_oneof![
        vec(request(), 0..4).prop_map(Report::Store),
        vec(request(), 0..4).prop_map(Report::Foreseen),
        Just(Report::Ready),
        text().prop_map(Report::Log),
        (vec(option::of(text()), 0..5), used())
            .prop_map(|(values, used)| Report::Results { values, processor: used.processor }),
        (0u8..16).prop_map(|bits| Report::Confined(Confined::try_from(bits).expect("four layers"))),
        (option::of(text()), option::of(text()), text(), used()).prop_map(
            |(response_body, request_body, log, used)| Report::Completed {
                response_body,
                request_body,
                log,
                used
            }
        ),
        vec(ask(), 0..4).prop_map(Report::Reads),
        (vec(write(), 0..4), vec((any::<u32>(), text()), 0..3), vec(text(), 0..3), used()).prop_map(
            |(writes, letters, log, used)| Report::Changes {
                ended: Ok(ChangesDone { writes, letters }),
                log,
                used
            }
        ),
        (text(), used()).prop_map(|(message, used)| Report::Changes {
            ended: Err(Failure { kind: FailureKind::Limit, message }),
            log: Vec::new(),
            used
        }),
        (
            prop_oneof![prop::sample::select(kinds.to_vec()), any::<u16>().prop_map(FailureKind::Numbered)],
            text(),
            used()
        )
            .prop_map(|(kind, message, used)| Report::Failed { failure: Failure { kind, message }, used }),
    ]
}

/// The one frame that was encoded, without its header.
fn frame(encoder: &Encoder) -> &[u8] {
    let (header, frame) = encoder.bytes().split_at(HEADER_BYTES);
    assert_eq!(header, (frame.len() as u32).to_le_bytes());
    frame
}

proptest! {
    #[test]
    fn orders_come_back(order in order()) {
        let mut encoder = Encoder::default();
        encoder.order(&order);
        prop_assert_eq!(decode_order(frame(&encoder)), Ok(order));
    }

    #[test]
    fn reports_come_back_and_no_part_of_one_is_one(report in report(), cut in any::<prop::sample::Index>()) {
        let mut encoder = Encoder::default();
        encoder.report(&report);
        let frame = frame(&encoder);
        prop_assert_eq!(decode_report(&frame[..cut.index(frame.len())]), Err(Malformed));
        prop_assert_eq!(decode_report(frame), Ok(report));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = (decode_order(&bytes), decode_report(&bytes));
    }
}
