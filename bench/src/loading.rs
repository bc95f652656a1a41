//! Loads items by single durable creates, over many connections.

use std::net::SocketAddr;

use shardlake_testkit::{EMULATOR_KEY, ServerProcess};

use crate::Outcome;
use crate::workload::{CONTAINER, Creates, DATABASE, ITEMS_PER_KEY, Signer, key_of};

const LOAD_CONNECTIONS: usize = 64;

/// Creates the container and `item-0` to `item-(n-1)` by single durable creates.
pub fn load(server: &ServerProcess, items: u64) -> Outcome {
    let client = server.client();
    let _ = client.create_database(DATABASE).expect_status(201);
    let _ = client.create_container(DATABASE, CONTAINER, "/pk").expect_status(201);
    load_items(server, items)
}

pub fn load_items(server: &ServerProcess, items: u64) -> Outcome {
    let signer = Signer::new(EMULATOR_KEY);
    let plan = Creates::new(&signer, "load");
    load_requests(server.address(), items, 201, &|number, out| {
        plan.request(&format!("item-{number}"), &key_of(number), out);
    })
}

/// Sends the requests numbered 0 to `count` - 1, each once, over many connections; each must be answered with `status`.
pub fn load_requests(
    address: SocketAddr,
    count: u64,
    status: u16,
    request: &(dyn Fn(u64, &mut Vec<u8>) + Sync),
) -> Outcome {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..LOAD_CONNECTIONS)
            .map(|connection| scope.spawn(move || load_part(address, (connection, count), status, request)))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no loader panics"))
    })?;
    Ok(())
}

fn load_part(
    address: SocketAddr,
    (connection, count): (usize, u64),
    status: u16,
    make: &(dyn Fn(u64, &mut Vec<u8>) + Sync),
) -> Result<(), String> {
    let mut stream = shardlake_testkit::RawConnection::open(address).map_err(|error| error.to_string())?;
    let mut request = Vec::with_capacity(2048);
    // A logical partition has one writer, so that its items are created in the order of their numbers.
    let first_of_keys =
        (connection as u64 * ITEMS_PER_KEY..count).step_by(LOAD_CONNECTIONS * ITEMS_PER_KEY as usize);
    for number in first_of_keys.flat_map(|first| first..(first + ITEMS_PER_KEY).min(count)) {
        request.clear();
        make(number, &mut request);
        stream.send(&request).map_err(|error| error.to_string())?;
        let reply = stream.read_response("POST").map_err(|error| error.to_string())?;
        if reply.status != status {
            return Err(format!("item {number}: {}", reply.text()));
        }
    }
    Ok(())
}
