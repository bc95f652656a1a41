package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Items.unique;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Users, permissions, and clients that have a resource token only. */
class UsersTest extends OwnDatabase {
    private static final PartitionKey K = new PartitionKey("k");
    private CosmosContainer items;

    @BeforeAll
    void fill() {
        items = container();
        for (String pk : List.of("k", "z")) {
            items.createItem(item("a", pk, 1));
            items.createItem(item("b", pk, 1));
        }
    }

    private CosmosAsyncUser newUser() {
        String id = unique("ann");
        assertEquals(201, database.createUser(new CosmosUserProperties().setId(id)).getStatusCode());
        return Server.asyncClient().getDatabase(database.getId()).getUser(id);
    }

    private CosmosPermissionProperties permission(PermissionMode mode) {
        return new CosmosPermissionProperties().setId(unique("permission")).setContainerName(items.getId()).setPermissionMode(mode);
    }

    /** The container as a client sees it that has the token of this permission only. */
    private void seenWith(CosmosPermissionProperties permission, Consumer<CosmosContainer> work) {
        var created = newUser().createPermission(permission, null).block();
        try (CosmosClient restricted = Server.withoutKey().resourceToken(created.getProperties().getToken()).buildClient()) {
            work.accept(restricted.getDatabase(database.getId()).getContainer(items.getId()));
        }
    }

    // check: users
    @Test
    void aUserIsCreatedReadListedRenamedAndDeleted() {
        String id = unique("bob");
        database.createUser(new CosmosUserProperties().setId(id));
        refused(409, () -> database.createUser(new CosmosUserProperties().setId(id)));
        assertEquals(id, database.getUser(id).read().getProperties().getId());
        assertTrue(database.readAllUsers().stream().anyMatch(one -> one.getId().equals(id)));
        assertEquals(1, database.queryUsers("SELECT * FROM root r WHERE r.id = '" + id + "'").stream().count());
        String renamed = unique("bea");
        database.getUser(id).replace(database.getUser(id).read().getProperties().setId(renamed));
        refused(404, () -> database.getUser(id).read());
        assertEquals(204, database.getUser(renamed).delete().getStatusCode());
    }

    // check: permissions
    @Test
    void aPermissionIsCreatedReadListedReplacedAndDeleted() {
        CosmosAsyncUser user = newUser();
        CosmosPermissionProperties permission = permission(PermissionMode.READ);
        var created = user.createPermission(permission, null).block();
        assertEquals(201, created.getStatusCode());
        assertTrue(created.getProperties().getToken().startsWith("type=resource&ver=1.0&sig="));
        refused(409, () -> user.createPermission(permission, null).block());
        assertEquals(1, user.readAllPermissions().collectList().block().size());
        assertEquals(1, user.queryPermissions("SELECT * FROM root r WHERE r.id = '" + permission.getId() + "'").collectList().block().size());
        var read = user.getPermission(permission.getId()).read(null).block().getProperties();
        var all = user.getPermission(permission.getId()).replace(read.setPermissionMode(PermissionMode.ALL), null).block();
        assertEquals(PermissionMode.ALL, all.getProperties().getPermissionMode());
        assertEquals(204, user.getPermission(permission.getId()).delete(null).block().getStatusCode());
        refused(404, () -> user.getPermission(permission.getId()).read(null).block());
    }

    // check: permissions-two-keys
    @Test
    void aUserHasPermissionsForTwoKeysOfAContainer() {
        CosmosAsyncUser user = newUser();
        for (String pk : List.of("k", "z")) {
            var one = permission(PermissionMode.READ).setResourcePartitionKey(new PartitionKey(pk));
            assertEquals(201, user.createPermission(one, null).block().getStatusCode());
        }
    }

    // check: resource-tokens
    @Test
    void aReadTokenReadsAndWritesNothing() {
        seenWith(permission(PermissionMode.READ), seen -> {
            assertEquals(1, seen.readItem("a", K, ObjectNode.class).getItem().get("n").asInt());
            assertEquals(4, seen.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), ObjectNode.class).stream().count());
            refused(403, () -> seen.createItem(item("c", "k")));
            refused(403, () -> seen.deleteItem("a", K, null));
        });
    }

    // check: resource-tokens-write
    @Test
    void aTokenWithModeAllWritesItems() {
        seenWith(permission(PermissionMode.ALL), seen -> {
            String id = unique("mine");
            seen.createItem(item(id, "w", 1));
            assertEquals(2, seen.upsertItem(item(id, "w", 2)).getItem().get("n").asInt());
            assertEquals(204, seen.deleteItem(id, new PartitionKey("w"), null).getStatusCode());
        });
    }

    // check: resource-tokens-key
    @Test
    void aTokenOfAPartitionKeySeesThatKeyAlone() {
        seenWith(permission(PermissionMode.ALL).setResourcePartitionKey(K), seen -> {
            assertEquals(1, seen.readItem("a", K, ObjectNode.class).getItem().get("n").asInt());
            refused(403, () -> seen.readItem("a", new PartitionKey("z"), ObjectNode.class));
            var within = new CosmosQueryRequestOptions().setPartitionKey(K);
            assertEquals(2, seen.queryItems("SELECT * FROM c", within, ObjectNode.class).stream().count());
            refused(403, () -> seen.createItem(item("new", "z")));
        });
    }
}
