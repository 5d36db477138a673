//! From spans and metrics to the messages of OTLP.

use std::sync::Arc;

use prost::Message;
use touchstone_config::TelemetryConfig;
use touchstone_handler::trace::{Span, SpanKind, Value, unix_ns_now};
use touchstone_observe::metrics::{Definition, Kind, Metrics, Point, PointValue, Totals, definitions};

use crate::messages::{
    AnyValue, AnyValueKind, EventMessage, GaugeMessage, HistogramMessage, HistogramPoint, KeyValue,
    LinkMessage, MetricData, MetricMessage, MetricsRequest, NumberPoint, NumberValue, Resource,
    ResourceMetrics, ResourceSpans, Scope, ScopeMetrics, ScopeSpans, SpanMessage, StatusMessage, SumMessage,
    TraceRequest,
};

/// The conventions that the attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.27.0";

/// The values of a metric are since its start.
const CUMULATIVE: i32 = 2;

/// The span has failed.
const ERROR: i32 = 2;

/// Bits of the flags of a span: it is known whether the parent is remote, and it is.
const HAS_IS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// The resource of a configuration: the service and this process of it.
pub fn resource(config: &TelemetryConfig, instance: &str) -> Resource {
    let own = [
        ("service.name", config.service_name.as_str()),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let given = config.resource.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Resource { attributes: own.into_iter().chain(given).map(|(name, value)| text(name, value)).collect() }
}

/// A request with these spans.
pub fn spans(resource: &Resource, spans: Vec<Span>) -> Vec<u8> {
    let scope_spans = ScopeSpans { scope: Some(scope()), spans: spans.into_iter().map(span).collect() };
    let of_resource = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        schema_url: SCHEMA.to_string(),
    };
    TraceRequest { resource_spans: vec![of_resource] }.encode_to_vec()
}

/// A request with the metrics of now: the same as the exposition of the admin listener has.
pub fn metrics(resource: &Resource, metrics: &Arc<Metrics>) -> Vec<u8> {
    let totals = Totals::of(metrics);
    let now = Times { start: (metrics.started_at() * 1e9) as u64, now: unix_ns_now() };
    let all = definitions().filter_map(|definition| metric(definition, &totals, &now));
    let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics: all.collect() };
    let of_resource =
        ResourceMetrics { resource: Some(resource.clone()), scope_metrics: vec![scope_metrics] };
    MetricsRequest { resource_metrics: vec![of_resource] }.encode_to_vec()
}

fn scope() -> Scope {
    Scope { name: "touchstone".to_string(), version: env!("CARGO_PKG_VERSION").to_string() }
}

fn text(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(AnyValueKind::Text(value.to_string())) };
    KeyValue { key: name.to_string(), value: Some(value) }
}

fn attribute((name, value): (&'static str, Value)) -> KeyValue {
    let value = match value {
        Value::Text(text) => AnyValueKind::Text(text.into()),
        Value::Number(number) => AnyValueKind::Number(number),
        Value::Boolean(boolean) => AnyValueKind::Boolean(boolean),
    };
    KeyValue { key: name.to_string(), value: Some(AnyValue { value: Some(value) }) }
}

fn span(span: Span) -> SpanMessage {
    let remote = if span.has_remote_parent { IS_REMOTE } else { 0 };
    let event = |event: &touchstone_handler::trace::Event| EventMessage {
        time_unix_nano: event.unix_ns,
        name: event.name.to_string(),
    };
    SpanMessage {
        trace_id: span.trace_id.to_vec(),
        span_id: span.span_id.to_vec(),
        trace_state: String::from_utf8_lossy(&span.state).into_owned(),
        parent_span_id: span.parent.map_or(Vec::new(), |parent| parent.to_vec()),
        name: span.name.into(),
        kind: match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: span.began_unix_ns,
        end_time_unix_nano: span.ended_unix_ns,
        attributes: span.attributes.into_iter().map(attribute).collect(),
        events: span.events.iter().map(event).collect(),
        links: span
            .link
            .iter()
            .map(|link| LinkMessage { trace_id: link.trace_id.to_vec(), span_id: link.span_id.to_vec() })
            .collect(),
        status: span.is_error.then_some(StatusMessage { code: ERROR }),
        flags: u32::from(span.flags) | HAS_IS_REMOTE | remote,
    }
}

struct Times {
    start: u64,
    now: u64,
}

fn metric(definition: &Definition, totals: &Totals, times: &Times) -> Option<MetricMessage> {
    let points = definition.points(totals);
    if points.is_empty() {
        return None;
    }
    let unit = match (definition.unit(), definition.kind) {
        (Some("seconds"), _) => "s",
        (Some("bytes"), _) => "By",
        _ => "1",
    };
    let numbers = || points.iter().filter_map(|point| number(definition, point, times)).collect();
    let (name, data) = match definition.kind {
        Kind::Counter => (
            definition.name.to_string(),
            MetricData::Sum(SumMessage {
                data_points: numbers(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
        ),
        Kind::Gauge => {
            (definition.name.to_string(), MetricData::Gauge(GaugeMessage { data_points: numbers() }))
        }
        Kind::Info => {
            let name = format!("{}{}", definition.name, definition.kind.ending());
            (name, MetricData::Gauge(GaugeMessage { data_points: numbers() }))
        }
        Kind::Histogram => (
            definition.name.to_string(),
            MetricData::Histogram(HistogramMessage {
                data_points: points.iter().filter_map(|point| histogram(definition, point, times)).collect(),
                aggregation_temporality: CUMULATIVE,
            }),
        ),
    };
    // Code is marked in the page of the book only.
    let description = definition.help.replace('`', "");
    Some(MetricMessage { name, description, unit: unit.to_string(), data: Some(data) })
}

fn labels(definition: &Definition, point: &Point) -> Vec<KeyValue> {
    definition.labels.iter().zip(&point.labels).map(|((name, _), value)| text(name, value)).collect()
}

fn number(definition: &Definition, point: &Point, times: &Times) -> Option<NumberPoint> {
    let value = match &point.value {
        PointValue::Number(number) => NumberValue::Number(i64::try_from(*number).unwrap_or(i64::MAX)),
        PointValue::Float(number) => NumberValue::Float(*number),
        PointValue::Histogram { .. } => return None,
    };
    // The value of a gauge has no beginning.
    let start = if definition.kind == Kind::Counter { times.start } else { 0 };
    Some(NumberPoint {
        start_time_unix_nano: start,
        time_unix_nano: times.now,
        value: Some(value),
        attributes: labels(definition, point),
    })
}

fn histogram(definition: &Definition, point: &Point, times: &Times) -> Option<HistogramPoint> {
    let PointValue::Histogram { bounds, cumulative, count, sum } = &point.value else { return None };
    // The counts are read one by one while the cores count, so a later one may lag behind.
    let mut before = 0;
    let mut bucket_counts: Vec<u64> = Vec::with_capacity(cumulative.len() + 1);
    for no_larger in cumulative.iter().chain([count]) {
        bucket_counts.push(no_larger.saturating_sub(before));
        before = before.max(*no_larger);
    }
    Some(HistogramPoint {
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        // The sum of the buckets, as the protocol demands.
        count: bucket_counts.iter().sum(),
        sum: Some(*sum),
        bucket_counts,
        explicit_bounds: bounds.clone(),
        attributes: labels(definition, point),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_handler::trace::{Event, Link};
    use touchstone_observe::metrics::MetricSources;

    #[test]
    fn a_span_is_read_as_it_was() {
        let resource = resource(&TelemetryConfig::default(), "one");
        let sent = Span {
            trace_id: [1; 16],
            span_id: [2; 8],
            parent: Some([3; 8]),
            has_remote_parent: true,
            state: Arc::from(*b"a=b"),
            flags: 3,
            kind: SpanKind::Client,
            name: "GET".into(),
            began_unix_ns: 5,
            ended_unix_ns: 9,
            attributes: vec![("a", Value::Text("b".into())), ("c", Value::Boolean(true))],
            events: vec![Event { name: "connected", unix_ns: 7 }],
            link: Some(Link { trace_id: [4; 16], span_id: [5; 8] }),
            is_error: true,
        };
        let bytes = spans(&resource, vec![sent]);
        let read = TraceRequest::decode(&bytes[..]).unwrap();
        let of_resource = &read.resource_spans[0];
        assert_eq!(of_resource.resource.as_ref().unwrap().attributes[0], text("service.name", "touchstone"));
        let read = &of_resource.scope_spans[0].spans[0];
        assert_eq!((&read.trace_id[..], &read.parent_span_id[..]), (&[1; 16][..], &[3; 8][..]));
        assert_eq!((read.kind, read.flags, read.trace_state.as_str()), (3, 0x303, "a=b"));
        assert_eq!((read.events[0].time_unix_nano, read.links[0].span_id.len()), (7, 8));
        assert_eq!(read.status, Some(StatusMessage { code: ERROR }));
    }

    #[test]
    fn counters_are_cumulative_and_histograms_are_of_buckets() {
        let counters = Metrics::new(MetricSources::default());
        let bytes = metrics(&resource(&TelemetryConfig::default(), "one"), &counters);
        let read = MetricsRequest::decode(&bytes[..]).unwrap();
        let all = &read.resource_metrics[0].scope_metrics[0].metrics;
        let requests = all.iter().find(|metric| metric.name == "touchstone_requests").unwrap();
        let Some(MetricData::Sum(sum)) = &requests.data else { panic!("{requests:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        assert!(sum.data_points.iter().all(|point| point.start_time_unix_nano > 0));
        assert!(all.iter().any(|metric| metric.name == "touchstone_build_info"));
        let definition = definitions().find(|one| one.name == "touchstone_request_duration_seconds").unwrap();
        let value =
            PointValue::Histogram { bounds: vec![0.1, 1.0], cumulative: vec![2, 5], count: 6, sum: 3.5 };
        let point = Point { labels: vec!["a".into(), "b".into()], value };
        let read = histogram(definition, &point, &Times { start: 1, now: 2 }).unwrap();
        assert_eq!((read.bucket_counts, read.count), (vec![2, 3, 1], 6));
    }
}
