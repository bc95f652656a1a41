package suite

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// check: databases
func TestADatabaseIsCreatedReadQueriedAndDeleted(t *testing.T) {
	t.Parallel()
	client := ownClient(t)
	id := unique("life")
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: id}, nil)
	must(t, err)
	_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: id}, nil)
	refused(t, 409, err)
	database, err := client.NewDatabase(id)
	must(t, err)
	found, err := database.Read(ctx, nil)
	must(t, err)
	equal(t, found.DatabaseProperties.ID, id)
	page, err := client.NewQueryDatabasesPager("SELECT * FROM root r WHERE r.id = '"+id+"'", nil).NextPage(ctx)
	must(t, err)
	equal(t, len(page.Databases), 1)
	_, err = database.Delete(ctx, nil)
	must(t, err)
	_, err = database.Read(ctx, nil)
	refused(t, 404, err)
}

// check: containers
func TestAContainerIsCreatedReadQueriedReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, ownClient(t))
	container := newContainer(t, database, 400)
	found, err := container.Read(ctx, nil)
	must(t, err)
	equal(t, found.ContainerProperties.PartitionKeyDefinition.Paths, []string{"/pk"})
	ttl := int32(60)
	found.ContainerProperties.DefaultTimeToLive = &ttl
	_, err = container.Replace(ctx, *found.ContainerProperties, nil)
	must(t, err)
	again, err := container.Read(ctx, nil)
	must(t, err)
	equal(t, *again.ContainerProperties.DefaultTimeToLive, ttl)
	page, err := database.NewQueryContainersPager("SELECT * FROM root r WHERE r.id = '"+container.ID()+"'", nil).NextPage(ctx)
	must(t, err)
	equal(t, len(page.Containers), 1)
	_, err = container.Delete(ctx, nil)
	must(t, err)
	_, err = container.Read(ctx, nil)
	refused(t, 404, err)
}

// check: throughput
func TestThroughputIsReadAndReplaced(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 12_000)
	found, err := container.ReadThroughput(ctx, nil)
	must(t, err)
	manual, _ := found.ThroughputProperties.ManualThroughput()
	equal(t, manual, int32(12_000))
	_, err = container.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(10_000), nil)
	must(t, err)
	found, err = container.ReadThroughput(ctx, nil)
	must(t, err)
	manual, _ = found.ThroughputProperties.ManualThroughput()
	equal(t, manual, int32(10_000))
}

// check: batch
func TestABatchOfEveryKindOfOperationSucceedsAsAWhole(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	create(t, container, item{"id": "old", "pk": "k", "n": 1.0})
	create(t, container, item{"id": "doomed", "pk": "k"})
	increment := azcosmos.PatchOperations{}
	increment.AppendIncrement("/n", 40)
	batch := container.NewTransactionalBatch(key("k"))
	batch.CreateItem(encoded(t, item{"id": "new", "pk": "k"}), nil)
	batch.UpsertItem(encoded(t, item{"id": "upserted", "pk": "k"}), nil)
	batch.ReadItem("old", nil)
	batch.ReplaceItem("old", encoded(t, item{"id": "old", "pk": "k", "n": 2.0}), nil)
	batch.PatchItem("old", increment, nil)
	batch.DeleteItem("doomed", nil)
	done, err := container.ExecuteTransactionalBatch(ctx, batch, nil)
	must(t, err)
	equal(t, done.Success, true)
	equal(t, statuses(done), []int32{201, 201, 200, 200, 200, 204})
	equal(t, own(t, done.OperationResults[2].ResourceBody)["n"], 1.0)
	equal(t, read(t, container, "old", "k")["n"], 42.0)
}

func statuses(response azcosmos.TransactionalBatchResponse) []int32 {
	var found []int32
	for _, result := range response.OperationResults {
		found = append(found, result.StatusCode)
	}
	return found
}

// check: batch-atomic
func TestOneFailureUndoesTheBatchAndTheOthersAnswer424(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	create(t, container, item{"id": "taken", "pk": "k"})
	batch := container.NewTransactionalBatch(key("k"))
	batch.CreateItem(encoded(t, item{"id": "first", "pk": "k"}), nil)
	batch.CreateItem(encoded(t, item{"id": "taken", "pk": "k"}), nil)
	batch.CreateItem(encoded(t, item{"id": "last", "pk": "k"}), nil)
	done, err := container.ExecuteTransactionalBatch(ctx, batch, nil)
	must(t, err)
	equal(t, done.Success, false)
	equal(t, statuses(done), []int32{424, 409, 424})
	_, err = container.ReadItem(ctx, key("k"), "first", nil)
	refused(t, 404, err)
}

// check: batch-etags
func TestEtagsHoldInsideABatch(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	stale := etag(create(t, container, item{"id": "x", "pk": "k", "n": 1.0}))
	_, err := container.UpsertItem(ctx, key("k"), encoded(t, item{"id": "x", "pk": "k", "n": 2.0}), nil)
	must(t, err)
	batch := container.NewTransactionalBatch(key("k"))
	batch.CreateItem(encoded(t, item{"id": "y", "pk": "k"}), nil)
	batch.ReplaceItem("x", encoded(t, item{"id": "x", "pk": "k", "n": 3.0}), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: stale})
	done, err := container.ExecuteTransactionalBatch(ctx, batch, nil)
	must(t, err)
	equal(t, statuses(done), []int32{424, 412})
	equal(t, read(t, container, "x", "k")["n"], 2.0)
}

// check: queries
func TestFiltersHaveParametersAndScopes(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	for _, one := range numbered(60) {
		create(t, container, one)
	}
	options := azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@low", Value: 29}}}
	query := "SELECT VALUE c.n FROM c WHERE c.n > @low"
	equal(t, rows(t, container, query, azcosmos.NewPartitionKey(), options), numbersUpTo(60)[30:])
	equal(t, rows(t, container, query, key("k3"), options), []float64{43})
}

// rows are sorted; every page is as small as its options ask for, and has a charge.
func rows(t testing.TB, container *azcosmos.ContainerClient, query string, pk azcosmos.PartitionKey, options azcosmos.QueryOptions) []float64 {
	t.Helper()
	var found [][]byte
	for pager := container.NewQueryItemsPager(query, pk, &options); pager.More(); {
		page, err := pager.NextPage(ctx)
		must(t, err)
		if options.PageSizeHint > 0 && len(page.Items) > int(options.PageSizeHint) || page.RequestCharge <= 0 {
			t.Fatalf("a page of %d rows with the charge %v", len(page.Items), page.RequestCharge)
		}
		found = append(found, page.Items...)
	}
	return sortedNumbers(t, found)
}

// check: order-by
func TestRowsOfALogicalPartitionComeInOrder(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	for n := 0; n < 20; n++ {
		create(t, container, item{"id": number(n), "pk": "k", "n": float64(n * 7 % 20)})
	}
	page, err := container.NewQueryItemsPager("SELECT VALUE c.n FROM c ORDER BY c.n DESC", key("k"), nil).NextPage(ctx)
	must(t, err)
	var found []float64
	for _, row := range page.Items {
		var n float64
		must(t, json.Unmarshal(row, &n))
		found = append([]float64{n}, found...)
	}
	equal(t, found, numbersUpTo(20))
}

// check: query-pages
func TestPagesKeepTheirSizeAndGoOnInAnotherClient(t *testing.T) {
	t.Parallel()
	database := newDatabase(t, ownClient(t))
	container := newContainer(t, database, fivePartitions)
	for _, one := range numbered(60) {
		create(t, container, one)
	}
	query := "SELECT VALUE c.n FROM c"
	equal(t, rows(t, container, query, azcosmos.NewPartitionKey(), azcosmos.QueryOptions{PageSizeHint: 7}), numbersUpTo(60))
	var found [][]byte
	var token *string
	for first := true; first || token != nil; first = false {
		another, err := ownClient(t).NewContainer(database.ID(), container.ID())
		must(t, err)
		options := azcosmos.QueryOptions{PageSizeHint: 13, ContinuationToken: token}
		page, err := another.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), &options).NextPage(ctx)
		must(t, err)
		found = append(found, page.Items...)
		token = page.ContinuationToken
	}
	equal(t, sortedNumbers(t, found), numbersUpTo(60))
}

// check: query-metrics
func TestMetricsComeWithTheRows(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), 400)
	create(t, container, item{"id": "1", "pk": "k", "n": 1.0})
	page, err := container.NewQueryItemsPager("SELECT * FROM c WHERE c.n = 1", key("k"), &azcosmos.QueryOptions{PopulateIndexMetrics: true}).NextPage(ctx)
	must(t, err)
	if page.QueryMetrics == nil || !strings.Contains(*page.QueryMetrics, "retrievedDocumentCount=1") {
		t.Fatalf("metrics: %v", page.QueryMetrics)
	}
	if page.IndexMetrics == nil || *page.IndexMetrics == "" {
		t.Fatal("no index metrics")
	}
}

// check: query-errors
func TestMistakesAre400(t *testing.T) {
	t.Parallel()
	container := newContainer(t, newDatabase(t, ownClient(t)), fivePartitions)
	_, err := container.NewQueryItemsPager("SELECT * FROM c WHERE c.a == 1", key("k"), nil).NextPage(ctx)
	if text := refused(t, 400, err).Error(); !strings.Contains(text, "incorrect syntax near '='") {
		t.Fatal(text)
	}
	// This client merges no orders of partitions.
	_, err = container.NewQueryItemsPager("SELECT * FROM c ORDER BY c.n", azcosmos.NewPartitionKey(), nil).NextPage(ctx)
	refused(t, 400, err)
}

// check: throttling
func TestAClientThatDoesNotRetryGets429(t *testing.T) {
	t.Parallel()
	// The suite's server refuses nothing for its throughput. This one has its certificate, which the client trusts. Its limits
	// are scaled down: 400 RU/s are 67 partitions of 6 RU/s, as much as one write costs.
	certificates := filepath.Dir(required(t, "SHARDLAKE_CA_FILE"))
	server := exec.Command(required(t, "SHARDLAKE_BINARY"), "serve", "--durability", "memory", "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--listen", "127.0.0.1:0", "--limits-scale", "1/1000", "--tls-cert", filepath.Join(certificates, "server.pem"), "--tls-key", filepath.Join(certificates, "server-key.pem"))
	// A variable that begins so is a setting of a server, and an unknown one is an error.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SHARDLAKE_") {
			server.Env = append(server.Env, variable)
		}
	}
	output, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	line, err := bufio.NewReader(output).ReadBytes('\n')
	must(t, err)
	var ready struct {
		Endpoints []string
		Key       string
	}
	must(t, json.Unmarshal(line, &ready))
	client := newClient(t, ready.Endpoints[1], ready.Key, policy.RetryOptions{MaxRetries: -1})
	_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "db"}, nil)
	must(t, err)
	database, err := client.NewDatabase("db")
	must(t, err)
	container := newContainer(t, database, 400)
	refusals := make(chan error, 100)
	for n := 0; n < 100; n++ {
		go func() {
			_, err := container.CreateItem(ctx, key("k"), encoded(t, item{"id": number(n), "pk": "k"}), nil)
			refusals <- err
		}()
	}
	var refusal error
	for n := 0; n < 100; n++ {
		if err := <-refusals; err != nil {
			refusal = err
		}
	}
	response := refused(t, 429, refusal).RawResponse
	equal(t, response.Header.Get("x-ms-substatus"), "3200")
	if response.Header.Get("x-ms-retry-after-ms") == "" {
		t.Fatal("no time to wait for")
	}
}
