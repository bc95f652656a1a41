package suite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const partitionsMax = 6

// motion splits, moves and merges the partitions of a container, as an operator orders it. Each step ends before next returns.
type motion struct {
	t    testing.TB
	path string
	step int
}

func newMotion(t testing.TB, database *azcosmos.DatabaseClient, container *azcosmos.ContainerClient, start int) *motion {
	return &motion{t, "_shardlake/v1/dbs/" + database.ID() + "/colls/" + container.ID() + "/", start}
}

// partitions are in the order of their ranges.
func (m *motion) partitions() []map[string]any {
	var found []map[string]any
	for _, one := range operate(m.t, "GET", m.path+"partitions", nil)["partitions"].([]any) {
		found = append(found, one.(map[string]any))
	}
	sort.Slice(found, func(a, b int) bool {
		return found[a]["minInclusive"].(string) < found[b]["minInclusive"].(string)
	})
	return found
}

func (m *motion) next() {
	m.t.Helper()
	kind := []string{"split", "move", "split", "merge"}[m.step%4]
	partitions := m.partitions()
	chosen := partitions[m.step%len(partitions)]
	m.step++
	place := fmt.Sprint("partitions/", chosen["id"], "/")
	switch {
	case kind == "merge" && len(partitions) > 1 || len(partitions) >= partitionsMax:
		left := m.step % (len(partitions) - 1)
		m.relocate("partitions/merge", map[string]any{"ids": []any{partitions[left]["id"], partitions[left+1]["id"]}})
	case kind == "move":
		m.relocate(place+"move", map[string]any{"shard": 1 - chosen["shard"].(float64)})
	default:
		m.relocate(place+"split", map[string]any{"at": "middle"})
	}
}

func (m *motion) relocate(rest string, body any) {
	m.t.Helper()
	begun := operate(m.t, "POST", m.path+rest, body)
	// The report names how the last relocation ended a moment after it shows the new partitions.
	var last map[string]any
	until(m.t, rest+" is done", func() bool {
		report := operate(m.t, "GET", m.path+"partitions", nil)
		last, _ = report["lastRelocation"].(map[string]any)
		return report["relocation"] == nil && last != nil && reflect.DeepEqual(last["targets"], begun["targets"])
	})
	equal(m.t, last["outcome"], "done")
}

func numbered(count int) []item {
	var items []item
	for n := 0; n < count; n++ {
		items = append(items, item{"id": "i" + number(n), "pk": "k" + number(n%20), "n": float64(n)})
	}
	return items
}

func numbersUpTo(count int) []float64 {
	var numbers []float64
	for n := 0; n < count; n++ {
		numbers = append(numbers, float64(n))
	}
	return numbers
}

func sortedNumbers(t testing.TB, rows [][]byte) []float64 {
	t.Helper()
	var numbers []float64
	for _, row := range rows {
		var n float64
		must(t, json.Unmarshal(row, &n))
		numbers = append(numbers, n)
	}
	sort.Float64s(numbers)
	return numbers
}

// check: motion-tokens
func TestAQueryGoesOnFromItsTokenWhilePartitionsSplitMoveAndMerge(t *testing.T) {
	t.Parallel()
	client := ownClient(t)
	database := newDatabase(t, client)
	for start, query := range []string{"SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c WHERE c.n >= 0"} {
		container := newContainer(t, database, 400)
		for _, one := range numbered(100) {
			create(t, container, one)
		}
		motion := newMotion(t, database, container, start)
		var found [][]byte
		var token *string
		for first := true; first || token != nil; first = false {
			options := azcosmos.QueryOptions{PageSizeHint: 11, ContinuationToken: token}
			page, err := container.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), &options).NextPage(ctx)
			must(t, err)
			found = append(found, page.Items...)
			token = page.ContinuationToken
			motion.next()
		}
		equal(t, sortedNumbers(t, found), numbersUpTo(100))
	}
}

// check: motion-open-queries
func TestAnOpenQueryReturnsEachRowOnceWhilePartitionsSplitMoveAndMerge(t *testing.T) {
	t.Parallel()
	client := ownClient(t)
	database := newDatabase(t, client)
	container := newContainer(t, database, 400)
	for _, one := range numbered(100) {
		create(t, container, one)
	}
	motion := newMotion(t, database, container, 2)
	pager := container.NewQueryItemsPager("SELECT VALUE c.n FROM c", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: 11})
	var found [][]byte
	for pager.More() {
		page, err := pager.NextPage(ctx)
		must(t, err)
		found = append(found, page.Items...)
		motion.next()
	}
	equal(t, sortedNumbers(t, found), numbersUpTo(100))
}

// check: motion-aggregates
func TestPointReadsWritesAndBatchesGoOnBetweenTheSteps(t *testing.T) {
	t.Parallel()
	client := ownClient(t)
	database := newDatabase(t, client)
	container := newContainer(t, database, 400)
	motion := newMotion(t, database, container, 0)
	for n := 0; n < 8; n++ {
		create(t, container, item{"id": number(n), "pk": "k" + number(n), "n": float64(n)})
		batch := container.NewTransactionalBatch(key("k" + number(n)))
		batch.UpsertItem(encoded(t, item{"id": "b" + number(n), "pk": "k" + number(n)}), nil)
		done, err := container.ExecuteTransactionalBatch(ctx, batch, nil)
		must(t, err)
		equal(t, done.Success, true)
		motion.next()
		for earlier := 0; earlier <= n; earlier++ {
			equal(t, read(t, container, number(earlier), "k"+number(earlier))["n"], float64(earlier))
		}
	}
}
