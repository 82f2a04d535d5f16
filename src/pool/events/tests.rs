use super::*;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use std::sync::Mutex;

/// Requests: method and body.
type Seen = Arc<Mutex<Vec<(Method, Value)>>>;

/// An API server that remembers requests and answers what `answer` says.
fn server(answer: impl Fn(&Method) -> u16 + Send + Sync + 'static) -> (Client, Seen) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            let sent: Value = serde_json::from_slice(&bytes).unwrap();
            let code = answer(&head.method);
            let text = if code < 300 {
                json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x"}})
            } else {
                json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": "NotFound"})
            };
            log.lock().unwrap().push((head.method, sent));
            let answer = Response::builder().status(code).body(Body::from(text.to_string().into_bytes())).unwrap();
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    (Client::new(service, "default"), seen)
}

async fn publish(client: Client, notes: &[&str]) {
    let (events, task) = Events::start(client, "test", "pod-1".to_owned());
    let node = Subject::Node("n1".into(), "uid-1".into());
    for note in notes {
        events.publish(&node, true, crate::api::event::DRAIN_SLOW, (*note).to_owned()).await;
    }
    drop(events);
    task.await;
}

#[tokio::test]
async fn a_repeated_event_is_counted_and_another_text_is_another_event() {
    let (client, seen) = server(|_| 201);
    publish(client, &["a", "a", "b", "a"]).await;
    let seen = seen.lock().unwrap();
    let methods: Vec<&Method> = seen.iter().map(|(m, _)| m).collect();
    assert_eq!(methods, [&Method::POST, &Method::PATCH, &Method::POST, &Method::PATCH]);
    assert_eq!(seen[0].1["regarding"]["uid"], "uid-1");
    assert_eq!(seen[0].1["type"], "Warning");
    assert_eq!(seen[3].1["series"]["count"], 3);
}

#[tokio::test]
async fn an_event_that_expired_on_the_server_is_written_anew() {
    let (client, seen) = server(|m| if *m == Method::PATCH { 404 } else { 201 });
    publish(client, &["a", "a"]).await;
    let methods: Vec<Method> = seen.lock().unwrap().iter().map(|(m, _)| m.clone()).collect();
    assert_eq!(methods, [Method::POST, Method::PATCH, Method::POST]);
}

#[tokio::test]
async fn r_172_a_note_never_exceeds_what_the_server_takes() {
    let (client, seen) = server(|_| 201);
    publish(client, &["é".repeat(5000).as_str()]).await;
    assert!(seen.lock().unwrap()[0].1["note"].as_str().unwrap().len() <= NOTE_LIMIT);
}

#[tokio::test]
async fn nobody_waits_for_an_outlet_that_leads_nowhere() {
    let node = Subject::Node("n1".into(), "uid-1".into());
    Events::discarding().publish(&node, false, crate::api::event::DRAINED, "x".to_owned()).await;
}
