package suite

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// check: items
func TestAnItemIsCreatedReadReplacedUpsertedAndDeleted(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	value := item{"id": "1", "pk": "a", "n": 1.0, "nested": map[string]any{"list": []any{1.0, "two", nil, true}}}
	created := create(t, container, value)
	equal(t, created.RawResponse.StatusCode, 201)
	equal(t, own(t, created.Value), value)
	if created.RequestCharge <= 0 || created.SessionToken == nil || created.ETag == "" || created.ActivityID == "" {
		t.Fatalf("charge, session, etag, activity: %v", created)
	}
	equal(t, read(t, container, "1", "a"), value)
	value["n"] = 2.0
	replaced, err := container.ReplaceItem(ctx, key("a"), "1", encoded(t, value), nil)
	must(t, err)
	equal(t, replaced.RawResponse.StatusCode, 200)
	value["n"] = 3.0
	upserted, err := container.UpsertItem(ctx, key("a"), encoded(t, value), nil)
	must(t, err)
	equal(t, upserted.RawResponse.StatusCode, 200)
	equal(t, read(t, container, "1", "a"), value)
	deleted, err := container.DeleteItem(ctx, key("a"), "1", nil)
	must(t, err)
	equal(t, deleted.RawResponse.StatusCode, 204)
	_, err = container.ReadItem(ctx, key("a"), "1", nil)
	refused(t, 404, err)
	_, err = container.ReplaceItem(ctx, key("a"), "1", encoded(t, value), nil)
	refused(t, 404, err)
	_, err = container.DeleteItem(ctx, key("a"), "1", nil)
	refused(t, 404, err)
}

// check: items-same-id
func TestAnIdExistsOnceInEachLogicalPartition(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	create(t, container, item{"id": "1", "pk": "a", "n": 1.0})
	create(t, container, item{"id": "1", "pk": "b", "n": 2.0})
	_, err := container.CreateItem(ctx, key("a"), encoded(t, item{"id": "1", "pk": "a"}), nil)
	refused(t, 409, err)
	equal(t, read(t, container, "1", "b")["n"], 2.0)
	_, err = container.ReadItem(ctx, key("c"), "1", nil)
	refused(t, 404, err)
}

// check: partition-key-types
func TestPartitionKeysAreOfEveryType(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	for _, one := range []struct {
		key   azcosmos.PartitionKey
		value any
	}{
		{key(""), ""},
		{key("ünïcode"), "ünïcode"},
		{azcosmos.NewPartitionKeyNumber(-0.5), -0.5},
		{azcosmos.NewPartitionKeyNumber(42), 42.0},
		{azcosmos.NewPartitionKeyBool(true), true},
		{azcosmos.NewPartitionKey().AppendNull(), nil},
	} {
		value := item{"id": unique("typed"), "pk": one.value}
		_, err := container.CreateItem(ctx, one.key, encoded(t, value), nil)
		must(t, err)
		found, err := container.ReadItem(ctx, one.key, value["id"].(string), nil)
		must(t, err)
		equal(t, own(t, found.Value), value)
	}
}

// check: item-ids
func TestIdsHaveSpacesAndLettersOfOtherAlphabets(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	for _, id := range []string{"a b", "Ünïcode", "数据", "😀", "quote'd", "\"double\"", "a+b", "100%", "a=b&c", "[x]{y}", "~!@$^*()"} {
		create(t, container, item{"id": id, "pk": "k"})
		equal(t, read(t, container, id, "k")["id"], id)
		_, err := container.DeleteItem(ctx, key("k"), id, nil)
		must(t, err)
	}
	_, err := container.CreateItem(ctx, key("k"), encoded(t, item{"id": strings.Repeat("x", 1024), "pk": "k"}), nil)
	refused(t, 400, err)
}

// check: if-match
func TestAnOldEtagIsRefusedWith412(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	stale := azcosmos.ItemOptions{IfMatchEtag: etag(create(t, container, item{"id": "1", "pk": "k", "n": 1.0}))}
	current, err := container.ReplaceItem(ctx, key("k"), "1", encoded(t, item{"id": "1", "pk": "k", "n": 2.0}), &stale)
	must(t, err)
	_, err = container.ReplaceItem(ctx, key("k"), "1", encoded(t, item{"id": "1", "pk": "k", "n": 3.0}), &stale)
	refused(t, 412, err)
	_, err = container.DeleteItem(ctx, key("k"), "1", &stale)
	refused(t, 412, err)
	_, err = container.UpsertItem(ctx, key("k"), encoded(t, item{"id": "1", "pk": "k", "n": 3.0}), &stale)
	refused(t, 412, err)
	equal(t, read(t, container, "1", "k")["n"], 2.0)
	_, err = container.DeleteItem(ctx, key("k"), "1", &azcosmos.ItemOptions{IfMatchEtag: etag(current)})
	must(t, err)
}

func etag(response azcosmos.ItemResponse) *azcore.ETag {
	return &response.ETag
}

// check: partition-key-mismatch
func TestThePartitionKeyOfARequestIsThatOfItsItem(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	_, err := container.CreateItem(ctx, key("a"), encoded(t, item{"id": "1", "pk": "b"}), nil)
	refused(t, 400, err)
}

// check: large-items
func TestItemsAboveTwoMegabytesAreRefusedWith413(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	limit := 2 * 1024 * 1024
	_, err := container.CreateItem(ctx, key("k"), encoded(t, item{"id": "1", "pk": "k", "text": strings.Repeat("x", limit+1024)}), nil)
	refused(t, 413, err)
	near := item{"id": "2", "pk": "k", "text": strings.Repeat("x", limit-4096)}
	create(t, container, near)
	equal(t, read(t, container, "2", "k"), near)
}

// check: unique-keys
func TestUniqueKeysHoldWithinALogicalPartition(t *testing.T) {
	t.Parallel()
	properties := azcosmos.ContainerProperties{
		ID:                     "unique",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		UniqueKeyPolicy:        &azcosmos.UniqueKeyPolicy{UniqueKeys: []azcosmos.UniqueKey{{Paths: []string{"/email"}}}},
	}
	container := containerOf(t, newDatabase(t, ownClient(t)), properties, 400)
	create(t, container, item{"id": "1", "pk": "a", "email": "x@example.org"})
	_, err := container.CreateItem(ctx, key("a"), encoded(t, item{"id": "2", "pk": "a", "email": "x@example.org"}), nil)
	refused(t, 409, err)
	create(t, container, item{"id": "2", "pk": "b", "email": "x@example.org"})
}

// check: session-tokens
func TestAReaderSeesTheWritesThatItsSessionTokenNames(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, ownClient(t))
	container := newContainer(t, database, 400)
	create(t, container, item{"id": "1", "pk": "k", "n": 0.0})
	seen, err := ownClient(t).NewContainer(database.ID(), container.ID())
	must(t, err)
	for n := 1; n <= 20; n++ {
		written, err := container.ReplaceItem(ctx, key("k"), "1", encoded(t, item{"id": "1", "pk": "k", "n": float64(n)}), nil)
		must(t, err)
		found, err := seen.ReadItem(ctx, key("k"), "1", &azcosmos.ItemOptions{
			SessionToken: written.SessionToken, ConsistencyLevel: azcosmos.ConsistencyLevelSession.ToPtr(),
		})
		must(t, err)
		equal(t, own(t, found.Value)["n"], float64(n))
	}
}

// check: patch
func TestPatchesApplyInOrder(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	create(t, container, item{"id": "1", "pk": "k", "n": 1.0, "list": []any{1.0, 2.0}, "old": "x", "gone": true})
	patch := azcosmos.PatchOperations{}
	patch.AppendAdd("/list/1", "between")
	patch.AppendSet("/old", "y")
	patch.AppendReplace("/list/0", "first")
	patch.AppendRemove("/gone")
	patch.AppendIncrement("/n", 4)
	patched, err := container.PatchItem(ctx, key("k"), "1", patch, nil)
	must(t, err)
	equal(t, own(t, patched.Value), item{"id": "1", "pk": "k", "n": 5.0, "list": []any{"first", "between", 2.0}, "old": "y"})
}

// check: patch-atomic
func TestARefusedPatchChangesNothing(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	create(t, container, item{"id": "1", "pk": "k", "n": 1.0})
	patch := azcosmos.PatchOperations{}
	patch.AppendIncrement("/n", 1)
	patch.AppendReplace("/absent", 1)
	_, err := container.PatchItem(ctx, key("k"), "1", patch, nil)
	refused(t, 400, err)
	equal(t, read(t, container, "1", "k")["n"], 1.0)
	_, err = container.PatchItem(ctx, key("k"), "absent", patch, nil)
	refused(t, 404, err)
}

// check: patch-conditions
func TestAConditionOfAPatchHoldsOrTheAnswerIs412(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	create(t, container, item{"id": "1", "pk": "k", "n": 1.0})
	patch := azcosmos.PatchOperations{}
	patch.SetCondition("from c where c.n = 1")
	patch.AppendIncrement("/n", 1)
	_, err := container.PatchItem(ctx, key("k"), "1", patch, nil)
	must(t, err)
	_, err = container.PatchItem(ctx, key("k"), "1", patch, nil)
	refused(t, 412, err)
}

// check: hierarchical-keys
func TestItemsAreReachedByAHierarchicalKey(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions, "/tenant", "/user")
	whole := func(tenant, user string) azcosmos.PartitionKey {
		return azcosmos.NewPartitionKeyString(tenant).AppendString(user)
	}
	value := item{"id": "1", "tenant": "t", "user": "u"}
	_, err := container.CreateItem(ctx, whole("t", "u"), encoded(t, value), nil)
	must(t, err)
	found, err := container.ReadItem(ctx, whole("t", "u"), "1", nil)
	must(t, err)
	equal(t, own(t, found.Value), value)
	_, err = container.ReadItem(ctx, whole("t", "v"), "1", nil)
	refused(t, 404, err)
	_, err = container.CreateItem(ctx, whole("t", "u"), encoded(t, value), nil)
	refused(t, 409, err)
}

// check: missing-parents
func TestAMissingContainerOrDatabaseIs404(t *testing.T) {
	t.Parallel()
	client := ownClient(t)
	container, err := client.NewContainer("absent", "absent")
	must(t, err)
	_, err = container.CreateItem(ctx, key("k"), encoded(t, item{"id": "1", "pk": "k"}), nil)
	refused(t, 404, err)
}

// check: wrong-key
func TestAWrongKeyIsRefusedWith401(t *testing.T) {
	t.Parallel()
	wrong := base64.StdEncoding.EncodeToString([]byte("another key, of the usual length or so.................."))
	stranger := newClient(t, required(t, "SHARDLAKE_HTTPS"), wrong, policy.RetryOptions{MaxRetries: -1})
	_, err := stranger.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: unique("never")}, nil)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Fatalf("the error is of another kind: %v", err)
	}
}
