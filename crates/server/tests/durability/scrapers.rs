//! Scrapers of metrics while a sync stands still: they wait, and other clients do not.
//!
//! The size of the files comes from the storage, which returns it when the sync has ended.

use crate::server_binary;
use crate::weather::{Weather, wait_until};
use shardlake_testkit::{HANG, Request, ServerOptions};
use std::io::{Read, Write};
use std::net::TcpStream;

/// More than a server has threads.
const SCRAPERS: usize = 64;

#[test]
fn scrapers_that_wait_for_a_sync_keep_nobody_from_the_server() {
    let test = "scrapers_that_wait_for_a_sync_keep_nobody_from_the_server";
    let Some(weather) = Weather::new(test) else { return };
    let server = weather.over(ServerOptions::new(server_binary())).start();
    let client = server.client();
    let connect = || {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream
    };
    weather.hold();
    let body = br#"{"id":"held"}"#;
    let mut writer = connect();
    let request = Request { method: "POST", path: "/dbs", body, ..Request::default() };
    writer.write_all(&client.signed_bytes(&request)).unwrap();
    wait_until("a sync is held", || weather.is_a_sync_under_way());
    let mut scrapers: Vec<TcpStream> = (0..SCRAPERS).map(|_| connect()).collect();
    for scraper in &mut scrapers {
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    }
    for _ in 0..2 * SCRAPERS {
        let _alive = client.get("/livez", &[]).expect_status(200);
        let _account = client.get("/", &[]).expect_status(200);
    }
    weather.release();
    for stream in scrapers.iter_mut().chain([&mut writer]) {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert!(matches!(&status, b"HTTP/1.1 200" | b"HTTP/1.1 201"), "{status:?}");
    }
}
